"""mysqlclient on the machine's libmariadb: everything is text; executemany becomes one statement of many rows."""

import MySQLdb
from dbapi import LOGIN, Program

# Its default charset is the client library's, latin1 by libmariadb; every real application names utf8mb4.
Program("mysqlclient", lambda: MySQLdb.connect(**LOGIN, charset="utf8mb4")).run()
