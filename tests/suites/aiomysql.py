"""aiomysql's own tests, from its source package of PyPI."""

import get
import results
from machine import run as run_command

SERVERS = ("mariadb", "mysql")
SCHEMAS = ("test_pymysql", "test_pymysql2")
SECONDS = 900


def install():
    return get.venv("aiomysql", "pytest", "uvloop", "cryptography", "PyMySQL<1.2", "sqlalchemy<1.4", "setuptools"), get.sdist("aiomysql")


def run(place, target, only):
    python, source = place
    source = get.copy(source, target.folder)
    report = target.folder / "report.xml"
    tests = sorted({name.rsplit(".", 1)[0].replace(".", "/") + ".py" for name in only}) if only else ["tests"]
    tests = [test if (source / test).exists() else "tests" for test in tests]
    # Its name tells the address that it runs on, which differs each time: "tcp" stands for it.
    run_command([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
                 f"--mysql-address=tcp={target.host}:{target.port}", *sorted(set(tests))],
                target.log, SECONDS, cwd=source, env={"MYSQL_ROOT_PASSWORD": "", "PYTHONPATH": source})  # fmt: skip
    return results.junit(report)
