"""MariaDB's own mysql-test, from Debian's packages mariadb-test and mariadb-test-data."""

import os
import shutil
from pathlib import Path

import get
import mtr
from machine import drop_folder, run, run_folder

SERVERS = ("mariadb",)
SCHEMAS = ("test",)
SECONDS = 3 * 3600
SHORT = True
REAL = Path("/usr/bin")
HOME = Path("/usr/share/mysql/mysql-test")
# Replication is left out: a proxy of applications does not relay it.
SUITES = "main,json,gcol,vcol,period,versioning,compat/oracle,compat/mssql,roles,sql_sequence,plugins,client,innodb_fts"
# Tests that look at what a proxy touches: the protocol, statements of all kinds, and the session.
SHORT_TESTS = """prepare ps ps_1general ps_2myisam ps_3innodb ps_change_master sp sp-code sp-error sp-prelocking sp-vars sp_notembedded
    execute_immediate signal signal_code get_diagnostics cursors compound for-loops connect change_user mysql_client_test user_limits
    insert insert_select insert_update insert_returning auto_increment create delayed temp_table view trigger union warnings variables
    ctype_utf8mb4 ctype_cp932 ctype_gbk query_cache multi_statement outfile loaddata func_misc type_date lock flush kill
    bulk_replace opt_trace status processlist old-mode sp-for-loop parser""".split()


def install():
    get.debian("mariadb-test", "mariadb-test-data", "mariadb-server", "mariadb-client")
    get.programs("haproxy")
    return HOME


def run_without_server(place, server, way, is_ruled, only, short, log):
    folder = run_folder()
    try:
        env = mtr.set_up(folder, way, is_ruled, HOME / "std_data")
        env |= {"SUITES_REAL": REAL, "SUITES_HAPROXY": shutil.which("haproxy"), "TMPDIR": folder}
        bindir = mtr.bindir(folder, REAL, ("mariadb", *(f"mariadb-{name}" for name in mtr.CLIENTS.split())))
        if only:
            tests = mtr.chosen(only)
        elif os.environ.get("ROWSTAMP_MTR_TESTS"):
            tests = os.environ["ROWSTAMP_MTR_TESTS"].split()
        elif is_ruled:
            tests = mtr.ruled_tests(HOME, "main/*.test", "main")
        elif short:
            tests = [f"main.{name}" for name in SHORT_TESTS if (HOME / f"main/{name}.test").exists()]
        else:
            tests = [f"--suite={os.environ.get('ROWSTAMP_MTR_SUITES', SUITES)}"]
        command = ["perl", HOME / "mariadb-test-run.pl", f"--vardir={folder}/var", f"--client-bindir={bindir}", "--force",
                   "--max-test-fail=0", "--retry=1", "--testcase-timeout=3", "--suite-timeout=600", "--parallel=2",
                   "--nocheck-testcases", "--skip-rpl", *mtr.server_options(way), *tests]  # fmt: skip
        run(command, log, SECONDS, cwd=HOME, env=env)
        mtr.keep_wire(folder, log)
        return mtr.parse(log)
    finally:
        drop_folder(folder)
