"""MySQL Connector/Python's own tests, its pure Python part, from its source package of PyPI."""

import re

import get
import results
from machine import run as run_command

SERVERS = ("mysql", "mariadb")
SCHEMAS = ("myconnpy",)
SECONDS = 1500


def install():
    return get.venv("connector_python", "setuptools", "dnspython", "protobuf", "cryptography"), get.sdist("mysql-connector-python")


def set_up(target):
    target.sql("CREATE DATABASE myconnpy")


def run(place, target, only):
    python, source = place
    source = get.copy(source, target.folder)
    # bugs.BugOra123.test_x, tests.qa.test_qa_timeout.Class.test_x: its own runner takes modules by name.
    modules = sorted({re.match(r"(?:tests\.(?:\w+\.)?test_)?(\w+)", name)[1] for name in only or []})
    chosen = ["-r", f"^({'|'.join(modules)})$"] if modules else []
    run_command([python, "unittests.py", "--use-external-server", f"--host={target.host}", f"--port={target.port}",
                 "--user=root", "--password=", "--skip-install", "--verbosity=2", *chosen],
                target.log, SECONDS, cwd=source, env={"PYTHONPATH": source / "lib"})  # fmt: skip
    return results.unittest(target.log)
