"""PHP's own tests of mysqli."""

import php

SERVERS = ("mysql", "mariadb")
SCHEMAS = ("test",)
SECONDS = 2400
OPTIONS = {"mariadb": ["--performance-schema=ON"]}  # A test reads the attributes of its connection there.


def install():
    return php.install()


def set_up(target):
    target.sql("CREATE DATABASE test")


def run(place, target, only):
    env = {"MYSQL_TEST_HOST": target.host, "MYSQL_TEST_PORT": target.port, "MYSQL_TEST_USER": target.user,
           "MYSQL_TEST_PASSWD": target.password, "MYSQL_TEST_DB": "test"}  # fmt: skip
    return php.run_phpt(place, target, ["ext/mysqli/tests"], env, only, SECONDS)
