"""mysql-connector-python: text, and the binary protocol by prepared cursors. `main.py pure` or `main.py ext` (the C extension);
`main.py compressed`: pure, and compressed whether the server offers that or not."""

import sys

import mysql.connector
from dbapi import LOGIN, Program

PURE = sys.argv[1] != "ext"
COMPRESSED = sys.argv[1] == "compressed"

Program(
    f"mysql-connector-python {sys.argv[1]}",
    lambda: mysql.connector.connect(**LOGIN, use_pure=PURE, compress=COMPRESSED),
    prepared=lambda connection: connection.cursor(prepared=True),
).run()
