"""MySQL Connector/J: Maven Central has its classes, and no archive of its tests."""

from machine import Missing

SERVERS = ("mariadb", "mysql")


def install():
    raise Missing("Maven Central has no tests of mysql-connector-j; tests/drivers has programs of ours on it")
