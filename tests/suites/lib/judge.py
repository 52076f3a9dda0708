"""A suite's turns on one server, compared. A test that passes straight and through HAProxy has to pass through Rowstamp."""

import json
import re
import time

from machine import CACHE, SUITES, Broken, say
from results import one_line
from ruled import auto_increment_tables
from ruled import rules as rules_of
from ways import WAYS, Target

RERUNS = 2


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def skip(self, text):
        self.skipped += 1
        print(f"SKIPPED: {text}", flush=True)

    def fail(self, text):
        self.failed += 1
        print(f"FAILED  {text}", flush=True)


def declared(suite, server, turn):
    """The differences that are known: {test: reason}. A line is "SERVER TEST: REASON", with "both" for either server."""
    path = SUITES / "lists" / f"{suite}{'.ruled' if turn == 'ruled' else ''}.txt"
    known = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.match(r"(mariadb|mysql|both) (.+?): (\S.*)$", line)
        if not match:
            raise Broken(f"{path}:{number}: not \"SERVER TEST: REASON\"")
        if match[1] in (server, "both"):
            known[match[2]] = match[3]
    return known


class Contest:
    """One suite on one server."""

    def __init__(self, suite, server, place, options):
        self.suite, self.server, self.place, self.options = suite, server, place, options
        # With rules a suite is held against the server alone: what HAProxy does to it, the turn without rules tells.
        self.without = ("straight",) if options.ruled else WAYS[:2]
        self.turn = ("short" if options.short else "full") + (".ruled" if options.ruled else "")
        self.label = f"{suite.NAME} {server}" + (" ruled" if options.ruled else "")
        self.logs = CACHE / "logs" / suite.NAME / server / self.turn
        self.logs.mkdir(parents=True, exist_ok=True)

    def run(self, way, only=None, attempt=0):
        """One turn: {test: (outcome, text)}."""
        suite = self.suite
        log = self.logs / (f"{way}.again{attempt}.log" if attempt else f"{way}.log")
        log.unlink(missing_ok=True)
        begun = time.monotonic()
        is_ruled = self.options.ruled and way == "rowstamp"
        learns = self.options.ruled and way == "straight" and not only
        if hasattr(suite, "run_without_server"):
            results = suite.run_without_server(self.place, self.server, way, self.options.ruled, only, self.options.short, log)
        else:
            rules = {f"{schema}.toml": rules_of(schema, self.tables()) for schema in suite.SCHEMAS} if is_ruled else None
            target = Target(self.server, way, getattr(suite, "OPTIONS", {}).get(self.server, ()), rules)
            try:
                target.log, target.short = log, self.options.short
                if hasattr(suite, "set_up"):
                    suite.set_up(target)
                if learns:
                    target.log_statements()
                target.open()
                results = suite.run(self.place, target, only)
                if target.proxy and target.proxy.poll() is not None:
                    raise Broken(f"{self.label}: the proxy of the way {way} ended during the suite: {target.proxy_log.read_text()[-2000:]}")
                if target.proxy:
                    log.with_suffix(".proxy.log").write_bytes(target.proxy_log.read_bytes())
                if learns:
                    (self.logs / "tables.json").write_text(json.dumps(auto_increment_tables(target.statements(), getattr(suite, "MAKES_TABLES_AGAIN", False)), indent=1))
            finally:
                target.close()
        say(f"        {self.label} {way}: {len(results)} tests in {time.monotonic() - begun:.0f} s" + (f" (again, {len(only)} asked for)" if only else ""))
        return results

    def tables(self):
        """What the straight turn has shown: tables that get a generator of their own."""
        path = self.logs / "tables.json"
        found = json.loads(path.read_text()) if path.exists() else {"ruled": [], "patterns": []}
        return found["ruled"] + found["patterns"]

    def results(self, way, only=None):
        """As `run`, or with --reuse what the last run of this way said."""
        path = self.logs / f"{way}{'.quick' if self.options.quick else ''}.json"
        if self.options.reuse and way != "rowstamp" and path.exists():
            return json.loads(path.read_text())
        results = self.run(way, only)
        path.write_text(json.dumps(results, indent=1))
        return results

    def all_ways(self):
        """{way: results}. With --quick, only what fails through Rowstamp is run the other ways; all else counts as passed there."""
        if not self.options.quick:
            return {way: self.results(way) for way in (*self.without, "rowstamp")}
        results = {"rowstamp": self.results("rowstamp")}
        passed = {test: result for test, result in results["rowstamp"].items() if result[0] == "pass"}
        for way in self.without:
            asked = [test for test, (outcome, _) in results["rowstamp"].items() if outcome == "fail"]
            again = self.results(way, asked) if asked else {}
            if asked and not again:
                raise Broken(f"{self.label} {way}: of {len(asked)} tests asked for, none ran; see {self.logs}/{way}.log")
            results[way] = passed | {test: again[test] for test in asked if test in again}
        return results

    def hold(self, tally):
        """Runs the three ways, prints the differences, and adds to the tally."""
        results = self.all_ways()
        if not any(outcome == "pass" for outcome, _ in results["straight"].values()):
            tally.fail(f"{self.label}: no test passes straight; see {self.logs}/straight.log")
            return
        known = declared(self.suite.NAME, self.server, "ruled" if self.options.ruled else "")
        # What no relay can help stands in the list of the turn without rules.
        of_relays = declared(self.suite.NAME, self.server, "") if self.options.ruled else {}
        due = [test for test in results["straight"] if test not in of_relays and all(results[way].get(test, ("none",))[0] == "pass" for way in self.without)]
        lost = {test: results["rowstamp"].get(test, ("none", "not run, or without an end"))[1] for test in due
                if results["rowstamp"].get(test, ("none",))[0] != "pass"}  # fmt: skip
        gone = [test for test in known if test in due and test not in lost]
        unsteady = self.sift(lost, known)
        new = [test for test in lost if test not in known]
        passed = {way: sum(outcome == "pass" for outcome, _ in results[way].values()) for way in results}
        tally.passed += len(due) - len(lost)
        for test in new:
            tally.fail(f"{self.label}: {test}: {one_line(lost[test])}")
        for test in gone:
            tally.fail(f"{self.label}: {test} is listed as a difference and no longer differs")
        for test in sorted(unsteady):
            print(f"unsteady {self.label}: {test}: {unsteady[test]}")
        verdict = "FAILED " if new or gone else "ok     "
        if self.options.quick:
            figures = f"pass through Rowstamp {passed['rowstamp']}"
        elif self.options.ruled:
            figures = f"pass straight {len(due)}"
        else:
            figures = f"pass straight {passed['straight']}, through HAProxy {passed['haproxy']}, both {len(due)}"
        print(f"{verdict} {self.label}: {len(results['rowstamp'])} tests; {figures}; lost through Rowstamp {len(lost)}, of them "
              f"{len(lost) - len(new)} declared", flush=True)  # fmt: skip
        (self.logs / "lost.json").write_text(json.dumps(lost, indent=1))

    def compare_wires(self, tally):
        """What the server's side of the proxy carried, and the client's: sessions that no rule concerns have the same bytes on both."""
        results = self.run("wire")
        report = self.logs / "wire.json"
        sessions = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        hidden = [session for session in sessions if session["hidden"]]
        refused = [session for session in sessions if session["refused"]]
        sessions = [session for session in sessions if not session["hidden"] and not session["refused"]]
        for session in sessions:
            if session["difference"]:
                tally.fail(f"{self.label}: {session['test']}, connection {session['id']}: {session['difference']}")
        same = sum(not session["difference"] for session in sessions)
        tally.passed += same
        passed = sum(outcome == "pass" for outcome, _ in results.values())
        print(f"{'ok     ' if same and same == len(sessions) else 'FAILED '} {self.label}: {passed} of {len(results)} tests passed; {same} of "
              f"{len(sessions)} sessions have the same bytes on both sides, {sum(one['up'] for one in sessions):,} from clients and "
              f"{sum(one['down'] for one in sessions):,} from the server; {len(hidden)} more up to a PREPARE whose text does not show, "
              f"{len(refused)} that ask for the binary log, which is refused", flush=True)  # fmt: skip

    def sift(self, lost, known):
        """Runs what differs again, and drops from `lost` what does not always differ: {test: why}."""
        unsteady = {}
        for attempt in range(1, RERUNS + 1):
            asked = [test for test in lost if test not in known]
            if not asked:
                break
            for way in ("rowstamp", *self.without):
                asked = [test for test in asked if test in lost]
                if not asked:
                    break
                again = self.run(way, asked, attempt)
                for test in asked:
                    outcome, text = again.get(test, ("none", ""))
                    if way == "rowstamp" and outcome == "pass":
                        unsteady[test] = f"passes through Rowstamp the {attempt + 1}. time"
                        del lost[test]
                    elif way != "rowstamp" and outcome == "fail":
                        unsteady[test] = f"fails {way} the {attempt + 1}. time: {one_line(text)}"
                        del lost[test]
        return unsteady
