"""npm's mysql2: its package ships no tests, and no other registry has its source."""

from machine import Missing

SERVERS = ("mariadb", "mysql")


def install():
    raise Missing("the npm package mysql2 ships no tests; tests/drivers has programs of ours on it")
