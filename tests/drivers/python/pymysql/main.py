"""PyMySQL: everything is text; executemany of an INSERT ... VALUES becomes one statement of many rows."""

import pymysql
from dbapi import LOGIN, Program

Program("PyMySQL", lambda: pymysql.connect(**LOGIN)).run()
