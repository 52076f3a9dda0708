"""mysqlclient's own tests (MySQLdb, by MariaDB's C library), from its source package of PyPI."""

import get
import results
from machine import run as run_command

SERVERS = ("mariadb", "mysql")
SCHEMAS = ("test",)
SECONDS = 600
SHORT = True


def install():
    needs = ("libmariadb-dev", "pkg-config", "gcc", "libc6-dev", "python3-dev")
    source = get.sdist("mysqlclient", needs)
    return get.venv("mysqlclient", "pytest", "setuptools", f"mysqlclient=={source.name.split('-')[1]}", debian_packages=needs), source


def set_up(target):
    target.sql("CREATE DATABASE test CHARACTER SET utf8mb4")


def run(place, target, only):
    python, source = place
    source = get.copy(source, target.folder)
    (source / "tests/default.cnf").write_text(
        f"[MySQLdb-tests]\nhost = {target.host}\nport = {target.port}\nuser = {target.user}\npassword = {target.password}\n"
        "database = test\ndefault-character-set = utf8mb4\n"
    )
    report = target.folder / "report.xml"
    run_command([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "tests"],
                target.log, SECONDS, cwd=source)  # fmt: skip
    return results.junit(report)
