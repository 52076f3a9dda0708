"""The npm package mysql's own tests, from Debian's source package node-mysql, with the packages of npm that they need."""

import re

import get
from machine import CACHE, call
from machine import run as run_command

SERVERS = ("mariadb",)  # It knows no caching_sha2_password.
SCHEMAS = ("node_mysql",)
SECONDS = 900


def install():
    get.programs("node", "npm")
    needs = "bignumber.js@9.0.0 readable-stream@2.3.7 safe-buffer@5.1.2 sqlstring@2.3.1 after@0.8.2 seedrandom timezone-mock utest@0.0.8 urun@0.0.8"
    # A folder of their own: beside the suite's package.json, npm would leave out what that needs for its tests alone.
    modules = CACHE / "node" / "node_mysql"
    with get.once(modules) as building:
        if building:
            call(["npm", "install", "--prefix", building, "--no-audit", "--no-fund", *needs.split()],
                 env={"npm_config_cache": CACHE / "npm"})  # fmt: skip
    return get.debian_source("node-mysql"), modules / "node_modules"


def set_up(target):
    target.sql("CREATE DATABASE node_mysql")


def run(place, target, only):
    source, modules = place
    source = get.copy(source, target.folder)
    env = {"NODE_PATH": modules, "MYSQL_HOST": target.host, "MYSQL_PORT": target.port, "MYSQL_USER": target.user, "MYSQL_PASSWORD": target.password,
           "MYSQL_DATABASE": "node_mysql"}  # fmt: skip
    results = {}
    for file in sorted((source / "test").rglob("test-*.js")):
        name = str(file.relative_to(source / "test"))
        if only and name not in only:
            continue
        before = target.log.stat().st_size if target.log.exists() else 0
        status = run_command(["node", file], target.log, 60, cwd=source, env=env)
        text = target.log.read_bytes()[before:].decode(errors="replace")
        results[name] = ("skip", "") if re.search(r"^skipping", text, re.M) else ("pass", "") if status == 0 else ("fail", text[-2000:])
    return results
