"""MariaDB Connector/Python's own tests, from its source package of PyPI."""

import get
import results
from machine import run as run_command

SERVERS = ("mariadb", "mysql")
SCHEMAS = ("testp",)
SECONDS = 600
SHORT = True


def install():
    needs = ("libmariadb-dev", "gcc", "libc6-dev", "python3-dev")
    source = get.sdist("mariadb", needs)
    return get.venv("mariadb_python", "setuptools", f"mariadb=={source.name.split('-')[1]}", debian_packages=needs), source


def set_up(target):
    target.sql("CREATE DATABASE testp CHARACTER SET utf8mb4")


def run(place, target, only):
    python, source = place
    source = get.copy(source, target.folder)
    env = {"TEST_DB_USER": target.user, "TEST_DB_PASSWORD": target.password, "TEST_DB_HOST": target.host, "TEST_DB_PORT": target.port}
    run_command([python, "-m", "unittest", "discover", "-v"], target.log, SECONDS, cwd=source / "testing", env=env)
    return results.unittest(target.log)
