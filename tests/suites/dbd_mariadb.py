"""DBD::MariaDB's own tests, from Debian's source package, on the module of Debian's package. A file of them counts as one test."""

import get
from machine import run as run_command

SERVERS = ("mariadb", "mysql")
SCHEMAS = ("test",)
SECONDS = 60  # of one file
SHORT = True


def install():
    get.debian("libdbd-mariadb-perl", "libtest-deep-perl", "libnet-ssleay-perl", "libproc-processtable-perl")
    return get.debian_source("libdbd-mariadb-perl")


def set_up(target):
    target.sql("CREATE DATABASE test CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci")


def run(place, target, only):
    source = get.copy(place, target.folder)
    env = {"DBI_DSN": f"DBI:MariaDB:database=test;host={target.host};port={target.port}", "DBI_USER": target.user,
           "DBI_PASS": target.password}  # fmt: skip
    outcomes = {}
    target.log.write_bytes(b"")
    for file in sorted((source / "t").glob("*.t")):
        if only and file.name not in only:
            continue
        before = target.log.stat().st_size
        status = run_command(["perl", "-It", f"t/{file.name}"], target.log, SECONDS, cwd=source, env=env)
        text = target.log.read_bytes()[before:].decode(errors="replace")
        skipped = "1..0 # " in text.replace("1..0 #", "1..0 # ")
        failed = "\n".join(line for line in text.splitlines() if line.startswith(("not ok", "#"))) or text[-2000:]
        outcomes[file.name] = ("skip", "") if skipped and status == 0 else ("pass", "") if status == 0 else ("fail", failed)
    return outcomes
