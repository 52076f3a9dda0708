"""Runs the suites that the command line names. tests/suites.sh starts it; tests/suites/README.md tells the rest."""

import argparse
import importlib.util
import sys
import traceback

sys.dont_write_bytecode = True

from judge import Contest, Tally  # noqa: E402
from machine import SUITES, Broken, Missing, say  # noqa: E402
from ways import rowstamp_binary  # noqa: E402

# In the order of what they have found.
ORDER = (
    "pymysql go_sql_driver mariadb_test mysqlclient aiomysql connector_python php_mysqli php_pdo sqlalchemy dbd_mariadb"
    " mysql_test django node_mysql node_mysql2 node_mariadb mariadb_python connector_j"
).split()


def suites():
    found = {path.stem: path for path in SUITES.glob("*.py")}
    return {name: found[name] for name in sorted(found, key=lambda name: (ORDER.index(name) if name in ORDER else 99, name))}


def load(path):
    spec = importlib.util.spec_from_file_location(f"suite_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.NAME = path.stem
    return module


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/suites.sh", description=(
        "Runs other people's test suites straight, through HAProxy and through Rowstamp. Prints the tests that only "
        'Rowstamp loses, then "N passed, N failed, N skipped". Ends with 1 if a test differs that no list declares, or '
        "a declared one no longer differs."))  # fmt: skip
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"suites (default: all of {' '.join(suites())})")
    parser.add_argument("--server", default="mariadb,mysql", help="of mariadb,mysql (default: both)")
    parser.add_argument("--ruled", action="store_true", help="the suites' own tables have rules; the lists are *.ruled.txt")
    parser.add_argument("--wire", action="store_true", help="the two mysql-tests as traffic between two taps: both wires of the proxy have to carry the same bytes")
    parser.add_argument("--short", action="store_true", help="a choice of suites and tests, about 10 minutes; implies --quick")
    parser.add_argument("--reuse", action="store_true", help="take what the last run found straight and through HAProxy")
    parser.add_argument("--quick", action="store_true", help="Rowstamp first; the other ways run only what fails through it")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in suites()]
    if unknown:
        parser.error(f"no such suite: {' '.join(unknown)}")
    # With rules the straight turn comes first: it shows which tables there will be.
    options.quick = (options.quick or options.short) and not options.ruled
    return options


def main():
    options = parse(sys.argv[1:])
    tally = Tally()
    servers = options.server.split(",")
    rowstamp_binary()
    for name in options.names or list(suites()):
        suite = load(suites()[name])
        if options.short and not options.names and not getattr(suite, "SHORT", False):
            continue
        if options.wire and not hasattr(suite, "run_without_server"):
            continue
        if options.ruled and not getattr(suite, "SCHEMAS", None):
            say(f"        {name} has no turn with rules")
            continue
        try:
            place = suite.install()
        except Missing as missing:
            tally.skip(f"{name}: {missing}")
            continue
        for server in (server for server in suite.SERVERS if server in servers):
            try:
                contest = Contest(suite, server, place, options)
                contest.compare_wires(tally) if options.wire else contest.hold(tally)
            except Missing as missing:
                tally.skip(f"{name} on {server}: {missing}")
            except Broken as broken:
                tally.fail(f"{name} on {server}: {broken}")
            except Exception:  # The other suites run all the same.
                tally.fail(f"{name} on {server}: {traceback.format_exc()}")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 0 if tally.failed == 0 and tally.passed > 0 else 1


sys.exit(main())
