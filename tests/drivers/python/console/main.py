"""PyMySQL at Rowstamp's console: tests/console runs it."""

import os

import pymysql

LOGIN = {
    "host": os.environ["ROWSTAMP_HOST"],
    "port": int(os.environ["ROWSTAMP_PORT"]),
    "user": os.environ["ROWSTAMP_USER"],
    # As bytes: PyMySQL takes a text's Latin-1.
    "password": os.environ["ROWSTAMP_PASSWORD"].encode(),
}
CHECKS = 0


def check(found, expect):
    global CHECKS
    CHECKS += 1
    if found != expect:
        raise SystemExit(f"{found!r} in place of {expect!r}")


def fails(cursor, statement, code, text):
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        check(error.args[0], code)
        check(text in error.args[1], True)
    else:
        raise SystemExit(f"{statement} does not fail")


for options in ({}, {"ssl": {"check_hostname": False, "verify_mode": "none"}}, {"autocommit": True, "database": "shop"}):
    with pymysql.connect(**LOGIN, **options) as connection:
        connection.ping()
        with connection.cursor() as cursor:
            cursor.execute("SELECT DATABASE(), CURRENT_USER()")
            check(cursor.fetchall(), ((options.get("database"), "dba@%"),))

with pymysql.connect(**LOGIN, cursorclass=pymysql.cursors.DictCursor) as connection:
    connection.select_db("shop")
    with connection.cursor() as cursor:
        cursor.execute("SHOW GENERATORS LIKE %s", ("shop.o%",))
        (row,) = cursor.fetchall()
        # Numbers are numbers, what there is none of is None.
        check((row["issued_ids"], row["ids_per_second"], row["node"]), (2**64 - 1, 2.5, None))
        cursor.execute("SHOW RULES")
        check([row["table"] for row in cursor.fetchall()], ["shop.items", "shop.orders"])
        cursor.execute("EXPLAIN REWRITE INSERT INTO t VALUES ('ä')")
        check([row["rewrite"] for row in cursor.fetchall()], ["in shop:", "INSERT INTO t VALUES ('ä')"])
        cursor.execute("RELOAD RULES DRY RUN")
        check(cursor.fetchone()["what"], "result")
        cursor.execute("RAISE GENERATOR shop.orders TO 20000")
        check(cursor.fetchone(), {"generator": "shop.orders", "bound_before": 10001, "bound_now": 20000})
        fails(cursor, "SHOW RULSE", 1064, "did you mean SHOW RULES?")
        fails(cursor, "KILL 8", 1105, "there is no session 8")
        cursor.execute("SHOW WARNINGS")
        check(cursor.fetchall(), ())

try:
    pymysql.connect(**{**LOGIN, "password": "wrong"})
except pymysql.OperationalError as error:
    check(error.args[0], 1045)
else:
    raise SystemExit("a wrong password logs in")
print(f"ok PyMySQL at the console: {CHECKS} checks")
