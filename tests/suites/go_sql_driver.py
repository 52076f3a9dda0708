"""go-sql-driver/mysql's own tests, from the Go module proxy."""

import os

import get
import results
from machine import CACHE, call
from machine import run as run_command

MODULE = "github.com/go-sql-driver/mysql"
SERVERS = ("mariadb", "mysql")
SCHEMAS = ("gotest",)
SECONDS = 900
SHORT = True


def install():
    if not os.access("/usr/local/go/bin/go", os.X_OK):
        get.programs("go")
    os.environ["PATH"] += ":/usr/local/go/bin"
    place = CACHE / "go"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "suite.test").exists():
        (place / "go.mod").write_text("module suites\n\ngo 1.21\n")
        call(["go", "get", "-t", f"{MODULE}@latest"], cwd=place)
        call(["go", "test", "-c", "-o", place / "suite.test", MODULE], cwd=place)
    return place


def set_up(target):
    target.sql("CREATE DATABASE gotest")


def run_tests(place, target, json_log, only):
    source = call(["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=place).strip()
    env = {
        "MYSQL_TEST_USER": target.user,
        "MYSQL_TEST_PASS": target.password,
        "MYSQL_TEST_PROT": "tcp",
        "MYSQL_TEST_ADDR": f"{target.host}:{target.port}",
        "MYSQL_TEST_DBNAME": "gotest",
        "MYSQL_TEST_CONCURRENT": "1",
    }
    # A name of a test within a test runs with the whole test.
    names = sorted({name.split("/")[0] for name in only or ()})
    # This one dials an address of the internet, and without one its panic ends all others.
    chosen = ["-test.skip=^TestConnectorReturnsTimeout$"]
    chosen += [f"-test.run=^({'|'.join(names)})$"] if names else []
    binary = [place / "suite.test", "-test.v=test2json", "-test.timeout=600s", *chosen]
    run_command(["go", "tool", "test2json", *binary], json_log, SECONDS, cwd=source, env=env)


def run(place, target, only=None):
    run_tests(place, target, target.log, only)
    return results.go(target.log)
