"""PyMySQL's own tests. Its packages of PyPI hold none: they are in Debian's source package, and so is the PyMySQL that fits them."""

import get
import json
import results
from machine import run as run_command

SERVERS = ("mariadb", "mysql")
SCHEMAS = ("test1", "test2")
SECONDS = 600
SHORT = True


def install():
    python = get.venv("pymysql", "pytest", "cryptography", "PyNaCl")
    return python, get.debian_source("python-pymysql")


def set_up(target):
    target.sql("CREATE DATABASE test1; CREATE DATABASE test2")


def run(place, target, only):
    python, source = place
    source = get.copy(source, target.folder)
    common = {"host": target.host, "port": target.port, "user": target.user, "password": target.password}
    common |= {"use_unicode": True, "local_infile": True}
    databases = [{**common, "database": "test1"}, {**common, "database": "test2"}]
    (source / "pymysql/tests/databases.json").write_text(json.dumps(databases))
    report = target.folder / "report.xml"
    tests = sorted({f"pymysql/tests/{name.split('.')[2]}.py" for name in only}) if only else ["pymysql/tests"]
    run_command([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests],
                target.log, SECONDS, cwd=source, env={"USER": "root"})  # fmt: skip
    return results.junit(report)
