"""mysql-connector-python: text, and the binary protocol by prepared cursors. `main.py pure` or `main.py ext` (the C extension)."""

import sys

import mysql.connector
from dbapi import LOGIN, Program

PURE = sys.argv[1] == "pure"

Program(
    f"mysql-connector-python {sys.argv[1]}",
    lambda: mysql.connector.connect(**LOGIN, use_pure=PURE),
    prepared=lambda connection: connection.cursor(prepared=True),
).run()
