"""SQLAlchemy's dialect suite, its tests of MySQL's dialect and those that it has for every server, from its source package of PyPI,
by mysqlclient."""

import os
import re

import get
import results
from machine import run as run_command

SERVERS = ("mariadb", "mysql")
SCHEMAS = ("test", "test_schema")
# Of one name many: a table that is made again has ids that go on, and with --ruled gets no rule.
MAKES_TABLES_AGAIN = True
SECONDS = 1800
PARTS = (
    ("test/dialect/mysql",),
    ("test/dialect/test_suite.py",),
    ("--backend-only", "test/base", "test/engine", "test/ext", "test/orm", "test/sql"),
)


def install():
    needs = ("libmariadb-dev", "pkg-config", "gcc", "libc6-dev", "python3-dev")
    source = get.sdist("SQLAlchemy")
    return get.venv("sqlalchemy", "pytest", "mysqlclient", "typing_extensions", "greenlet", debian_packages=needs), source


def set_up(target):
    target.sql("CREATE DATABASE test CHARACTER SET utf8mb4; CREATE DATABASE test_schema CHARACTER SET utf8mb4")


def run(place, target, only):
    python, source = place
    source = get.copy(source, target.folder)
    dialect = "mariadb" if target.kind == "mariadb" else "mysql"
    uri = f"{dialect}+mysqldb://{target.user}:{target.password}@{target.host}:{target.port}/test?charset=utf8mb4"
    outcomes = {}
    parts = PARTS
    if chosen := os.environ.get("ROWSTAMP_SQLALCHEMY_TESTS"):
        parts = (*PARTS[:2], ("--backend-only", *chosen.split()))
    for number, part in enumerate(parts):
        names = tuple(path.removesuffix(".py").replace("/", ".") for path in part)
        if only and not any(test.startswith(names) for test in only):
            continue
        report = target.folder / f"report{number}.xml"
        run_command([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--dburi={uri}", f"--junitxml={report}", "--maxfail=10000", *part],
                    target.log, SECONDS, cwd=source)  # fmt: skip
        # A test's class has the server's version in its name.
        outcomes |= {re.sub(r"_(?:mariadb|mysql)\+mysqldb(?:_\d+)+", "", test): outcome for test, outcome in results.junit(report).items()}
    return outcomes
