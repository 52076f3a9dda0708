"""INSERT, REPLACE and LOAD statements of the servers' own test suites, natively and through the proxy. `tests/statements.sh --help`."""

import argparse
import multiprocessing
import random
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import get
import mysqltest
from client import Client
from compare import Run, Side
from machine import SID_ROOT, Missing, accepts, drop_folder, free_port, run_folder, say, spawn, stop, wait_for
from segments import segments
from ways import CONTROL, CONTROL_PASSWORD, Server, certificates, rowstamp_binary, rowstamp_config

HERE = Path(__file__).parent
HOMES = {"mariadb": Path("/usr/share/mysql/mysql-test"), "mysql": SID_ROOT / "usr/lib/mysql-test"}
INSTALL = {
    "mariadb": lambda: get.debian("mariadb-test", "mariadb-test-data", "mariadb-server"),
    "mysql": lambda: get.sid("mysql-testsuite"),
}
PLACES = {
    "mariadb": "main suite/innodb/t suite/innodb_gis/t suite/json suite/gcol/t suite/vcol/t suite/maria suite/heap suite/parts/t suite/period/t "
    "suite/engines/iuds/t suite/engines/funcs/t suite/funcs_1/t suite/compat/oracle/t suite/plugins/t plugin/type_inet plugin/type_uuid suite/jp/t",
    "mysql": "t suite/innodb/t suite/innodb_gis/t suite/gis/t suite/json/t suite/gcol/t suite/parts/t suite/engines/iuds/t suite/engines/funcs/t "
    "suite/funcs_1/t suite/jp/t suite/collations/t",
}
# The latter two store ten million rows by a statement.
LEFT_OUT = {"mysqltest.test", "myisam_icp.test", "max_length.test"}
# Before one proxy, and at the same time: the first INSERT into a table waits for its generator.
SEGMENTS_OF_A_PROXY = 60
SEGMENTS_AT_ONCE = 4
LOG_LINES = 120  # A crash of a server: its stack, and the statement.
WAIT_SECONDS = 60
COLLATION = {"mariadb": 8, "mysql": 45}


class Place:
    """A server and, batch by batch of segments, a proxy in front of it."""

    def __init__(self, kind):
        self.kind = kind
        self.of_thread = threading.local()
        self.proxy = self.folder = None
        self.number = 0
        self.start()

    def start(self):
        self.is_lost = False
        self.server = Server(self.kind, ["--innodb-autoinc-lock-mode=0", "--secure-file-priv="])
        self.server.sql("CREATE USER campaign@'%' IDENTIFIED BY ''; GRANT ALL ON *.* TO campaign@'%' WITH GRANT OPTION")

    def start_again(self):
        """The server crashed: its log is printed."""
        self.server.process.wait(WAIT_SECONDS)  # It writes its stack first.
        print(f"{self.kind}: the server has ended:", *self.server.log.read_text(errors="replace").splitlines()[-LOG_LINES:], sep="\n    ", flush=True)
        self.close()
        self.start()

    def open(self, batch):
        """The segments with the numbers of their schemas."""
        self.close_proxy()
        numbered = []
        rules = {}
        for segment in batch:
            self.number += 1
            numbered.append((self.number, segment))
            schema = f"rul_{self.number:06}"
            rules[f"{schema}.toml"] = segment.rules(schema)
        self.folder = run_folder()
        self.port = free_port()
        tls = certificates()
        config = rowstamp_config(
            self.folder, self.port, self.server.port, rules, tls / "server-cert.pem", tls / "server-key.pem", CONTROL, CONTROL_PASSWORD
        )
        # The control account's connections come and go with each new table: handshakes would be most of the time.
        config.write_text(config.read_text().replace('[backend.tls]\nmode = "as_client"', '[backend.tls]\nmode = "disabled"'))
        log = self.folder / "proxy.log"
        self.proxy = spawn([rowstamp_binary(), "serve", "--config", config], log)
        wait_for("rowstamp", self.proxy, log, lambda: accepts(self.port))
        return numbered

    def admin(self, sql):
        if not hasattr(self.of_thread, "client"):
            self.of_thread.client = Client(self.server.port, "campaign", "mysql", 45)
        return self.of_thread.client.query(sql.encode("latin1"))[-1]

    def columns_of(self, schema, table):
        name = table.replace("\\", "\\\\").replace("'", "''")
        sql = (
            f"SELECT column_name FROM information_schema.columns WHERE table_schema='{schema}' AND table_name='{name}' "
            "AND extra LIKE '%auto_increment%'"
        )
        answer = self.admin(sql)
        return answer.rows[0][0].decode() if answer.rows else None

    def run(self, number, segment):
        schemas = f"nat_{number:06}", f"rul_{number:06}"
        run = Run(segment, self.columns_of)
        try:
            for schema in schemas:
                self.admin(f"CREATE DATABASE {schema} CHARACTER SET {'latin1' if self.kind == 'mariadb' else 'utf8mb4'}")
            with Side(self.server.port, schemas[0], COLLATION[self.kind]) as native, Side(self.port, schemas[1], COLLATION[self.kind]) as proxied:
                run.run(native, proxied)
        except Exception as error:  # One segment is lost by it, not the run.
            run.broke_off = f"{type(error).__name__}: {error}, at {run.last[:300]}"
        try:
            for schema in schemas:
                self.admin(f"DROP DATABASE {schema}")
        except OSError:
            self.is_lost = True
        return run

    def close_proxy(self):
        if self.proxy:
            stop(self.proxy)
            drop_folder(self.folder)
            self.proxy = None

    def close(self):
        self.close_proxy()
        self.server.stop()


def local_files(home, text):
    """Files that mysqltest's servers find from their folders."""
    return re.sub(r"'(?:\.\./)+(?:std_data(?:_ln)?|mysql-test/std_data)/|'suite/\w+/std_data/", f"'{home}/std_data/", text)


def read(kind, only, seed):
    """All segments, or file by file those that the time allows, in an order of chance."""
    home = HOMES[kind]
    files = [file for place in PLACES[kind].split() for file in sorted((home / place).glob("*.test")) if file.name not in LEFT_OUT]
    if only:
        files = [file for file in files if only in str(file.relative_to(home))]
    random.Random(seed).shuffle(files)
    for file in files:
        texts = [local_files(home, text) for text in mysqltest.statements(home, file)]
        yield from segments(str(file.relative_to(home)), texts)


def run_server(kind, options, results):
    try:
        results.put((kind, campaign(kind, options)))
    except Exception as error:  # Told at the end; without a word the other side would wait for ever.
        results.put((kind, f"{type(error).__name__}: {error}"))


def campaign(kind, options):
    outcome = {"compared": 0, "segments": 0, "refused": {}, "findings": [], "broke": []}
    place = Place(kind)
    end = time.monotonic() + options.seconds if options.seconds else None
    source = read(kind, options.file, options.seed)
    try:
        while end is None or time.monotonic() < end:
            batch = [segment for _, segment in zip(range(SEGMENTS_OF_A_PROXY), source)]
            if not batch:
                break
            is_over = lambda: end is not None and time.monotonic() > end or outcome["compared"] >= options.statements > 0
            numbered = place.open(batch)
            with ThreadPoolExecutor(SEGMENTS_AT_ONCE) as pool:
                runs = list(pool.map(lambda one: None if is_over() or place.is_lost else place.run(*one), numbered))
            if place.is_lost:
                place.start_again()
                source = chain([segment for segment, run in zip(batch, runs) if run is None], source)
            for run in filter(None, runs):
                outcome["segments"] += 1
                outcome["compared"] += run.compared
                for message, text in run.refused:
                    outcome["refused"].setdefault(message, []).append(f"{run.segment.file}: {text}")
                for finding in run.findings:
                    outcome["findings"].append((finding.fact, finding.segment.file, finding.statement, finding.detail))
                if broke := getattr(run, "broke_off", None):
                    outcome["broke"].append((run.segment.file, run.segment.number, broke))
            if is_over():
                return outcome
    finally:
        place.close()
    return outcome


def declared():
    """(server, fact, pattern, reason), a line each."""
    lines = [line for line in (HERE / "declared.txt").read_text().splitlines() if line and not line.startswith("#")]
    entries = []
    for line in lines:
        server, fact, pattern, reason = (part.strip() for part in line.split(" | ", 3))
        entries.append((server, fact, re.compile(pattern, re.I | re.S), reason))
    return entries


def main():
    parser = argparse.ArgumentParser(prog="tests/statements.sh", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long, on each server at the same time (default 60)")
    parser.add_argument("--full", action="store_true", help="all statements, however long it takes")
    parser.add_argument("--statements", type=int, default=0, help="ends with so many on each server")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="draws the files in the same order again")
    parser.add_argument("--server", choices=list(HOMES), help="one server only")
    parser.add_argument("--file", help="the test files whose path holds this text")
    parser.add_argument("--show", type=int, default=5, help="how many differences of each kind are printed (default 5)")
    options = parser.parse_args()
    if options.full or options.file:
        options.seconds = 0
    say(f"statements: seed {options.seed}")
    entries, used = declared(), set()
    kinds = [options.server] if options.server else [kind for kind in HOMES]
    results = multiprocessing.Queue()
    running, skipped = 0, 0
    for kind in kinds:
        try:
            INSTALL[kind]()
        except Missing as missing:
            print(f"SKIPPED: {kind}'s statements: {missing}")
            skipped += 1
            continue
        multiprocessing.Process(target=run_server, args=(kind, options, results)).start()
        running += 1
    passed = failed = 0
    for _ in range(running):
        kind, outcome = results.get()
        if isinstance(outcome, str):
            print(f"{kind}: {outcome}")
            failed += 1
            continue
        wrong = {}
        at_fault = set()
        for fact, file, statement, detail in outcome["findings"]:
            subject = f"{file}: {statement} => {detail}"
            entry = next((e for e in entries if e[0] in (kind, "both") and e[1] in (fact, "*") and e[2].search(subject)), None)
            if entry:
                used.add(entry)
                continue
            wrong.setdefault(fact, []).append(subject)
            at_fault.add((file, statement))
        for fact, subjects in sorted(wrong.items()):
            print(f"{kind}: {fact}: {len(subjects)} differences")
            for subject in subjects[: options.show]:
                print(f"    {subject[:700]}".replace("\n", " "))
        for file, number, error in outcome["broke"][: options.show]:
            print(f"{kind}: broke off: {file}, segment {number}: {error}")
        for message, texts in sorted(outcome["refused"].items(), key=lambda entry: -len(entry[1])):
            print(f"{kind}: refused {len(texts)} times: {message[:200]}")
            print(f"    {texts[0][:200]}".replace("\n", " "))
        refused = sum(len(texts) for texts in outcome["refused"].values())
        print(f"{kind}: {outcome['compared']} statements compared in {outcome['segments']} segments, {len(at_fault)} differ, {refused} refused, {len(outcome['broke'])} broke off")
        passed += outcome["compared"] - len(at_fault)
        failed += len(at_fault) + len(outcome["broke"])
        skipped += refused
    if options.full and running == len(HOMES):
        for entry in set(entries) - used:
            if entry[3].startswith("by chance: "):
                continue
            print(f"declared.txt excuses nothing by this line, remove it: {' | '.join((entry[0], entry[1], entry[2].pattern, entry[3]))}")
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
