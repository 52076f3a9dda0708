"""PHP's own tests of PDO with MySQL."""

import php

SERVERS = ("mysql", "mariadb")
SCHEMAS = ("test",)
SECONDS = 1200
SHORT = True


def install():
    return php.install()


def set_up(target):
    target.sql("CREATE DATABASE test")


def run(place, target, only):
    dsn = f"mysql:host={target.host};port={target.port};dbname=test"
    env = {"PDO_MYSQL_TEST_DSN": dsn, "PDO_MYSQL_TEST_USER": target.user, "PDO_MYSQL_TEST_PASS": target.password,
           "PDO_MYSQL_TEST_HOST": target.host, "PDO_MYSQL_TEST_PORT": target.port, "PDO_MYSQL_TEST_DB": "test"}  # fmt: skip
    return php.run_phpt(place, target, ["ext/pdo_mysql/tests", "ext/pdo/tests"], env, only, SECONDS)
