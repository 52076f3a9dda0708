"""MySQL 9's own mysql-test, from Debian sid's package mysql-testsuite, in the root that holds MySQL 9. It needs root, for chroot."""

import os
from pathlib import Path

import get
import mtr
from machine import SID_ROOT, drop_folder, run, run_folder

SERVERS = ("mysql",)
SCHEMAS = ("test",)
SECONDS = 4 * 3600
SHORT = True
HOME = Path("/usr/lib/mysql-test")
# Replication is left out: a proxy of applications does not relay it.
SUITES = "main,json,gcol,opt_trace,collations,parts,secondary_engine,test_service_sql_api"
SHORT_TESTS = """ps ps_1general ps_2myisam ps_3innodb ps_grant sp sp-error sp-vars sp-prelocking signal get_diagnostics cursor connect
    change_user mysql_client_test insert insert_select insert_update auto_increment create temp_table view trigger union warnings
    variables ctype_utf8mb4 ctype_cp932 ctype_gbk multi_statement outfile loaddata func_misc lock flush kill status
    bulk_replace session_tracker session_tracker_trx_state query_attributes with_recursive window_functions resource_groups""".split()


def install():
    get.sid("mysql-testsuite", "mysql-client-core", "haproxy", "perl", "python3", "netbase", "openssl")
    return HOME


def run_without_server(place, server, way, is_ruled, only, short, log):
    folder = run_folder()
    try:
        env = mtr.set_up(folder, way, is_ruled, HOME / "std_data", SID_ROOT / "usr/lib/mysql-test/std_data/rsa_private_key.pem")
        env |= {"SUITES_REAL": HOME / "bin", "SUITES_HAPROXY": "/usr/sbin/haproxy", "TMPDIR": folder, "MTR_BINDIR": "/usr"}
        names = ("mysql", "mysqltest", "mysql_client_test", *(f"mysql{name}" for name in ("admin", "dump", "import", "show", "check", "slap")))
        bindir = mtr.bindir(folder, SID_ROOT / "usr/lib/mysql-test/bin", names, HOME / "bin")
        if only:
            tests = mtr.chosen(only)
        elif os.environ.get("ROWSTAMP_MTR_TESTS"):
            tests = os.environ["ROWSTAMP_MTR_TESTS"].split()
        elif is_ruled:
            tests = mtr.ruled_tests(SID_ROOT / "usr/lib/mysql-test", "t/*.test", "main")
        elif short:
            tests = [f"main.{name}" for name in SHORT_TESTS if (SID_ROOT / f"usr/lib/mysql-test/t/{name}.test").exists()]
        else:
            tests = [f"--suite={os.environ.get('ROWSTAMP_MTR_SUITES', SUITES)}"]
        command = ["perl", "mysql-test-run.pl", f"--vardir={folder}/var", f"--tmpdir={folder}/tmp", f"--client-bindir={bindir}",
                   "--force", "--max-test-fail=0", "--retry=1", "--testcase-timeout=3", "--suite-timeout=600",
                   "--parallel=2", "--nocheck-testcases", "--skip-rpl", "--skip-combinations", "--nounit-tests",
                   *mtr.server_options(way), *tests]  # fmt: skip
        # The run's folder is seen in the root under its own name, and so is /proc; in a mount namespace that goes with the run.
        inside = 'mkdir -p "$1$2" && mount --bind "$2" "$1$2" && mount -t proc proc "$1/proc" && shift 2 && exec chroot "$@"'
        shell = f'cd {HOME} && exec "$@"'
        run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, "sh", SID_ROOT, folder,
             SID_ROOT, "/bin/bash", "-c", shell, "bash", *command], log, SECONDS, env=env)  # fmt: skip
        mtr.keep_wire(folder, log)
        return mtr.parse(log)
    finally:
        (SID_ROOT / str(folder).lstrip("/")).exists() and (SID_ROOT / str(folder).lstrip("/")).rmdir()
        drop_folder(folder)
