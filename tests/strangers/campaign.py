"""Ids that reach a table by strangers' ways, while clients insert through the proxy. tests/strangers/README.md has what is judged.
Ends with 1 if anything failed."""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import events
import swaps
import verdict
import writers
from machine import Broken, Missing, drop_folder, run_folder, say
from session import Session
from ways import Server
from world import Fleet, Side, make, names, prepare

CHECKS = {
    "rows": "each acknowledged row is there, with the id that was answered",
    "twice": "no id is answered twice",
    "once": "no statement ran twice",
    "errors": "no other errors",
}


class Tally:
    passed = failed = skipped = 0

    def __init__(self, show):
        self.show = show

    def judge(self, what, faults):
        if not faults:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAILED: {what}: {len(faults)} times")
        for fault in faults[: self.show]:
            print(f"    {fault[:300]}")

    def skip(self, what):
        self.skipped += 1
        print(f"SKIPPED: {what}")


def hold(sides, options, seed):
    """The same draws on all sides, at the same time."""
    threads = []
    for side in sides:
        threads += [threading.Thread(target=writers.live, args=(side, number, seed)) for number in range(writers.WRITERS)]
        tables = [name for name in names(side.kind) if not name.startswith("other")]
        threads += [threading.Thread(target=events.live, args=(side, table, seed, options.events)) for table in tables]
    for thread in threads:
        thread.start()
    time.sleep(options.seconds / 2)
    for side in sides:
        side.is_over.set()
    for thread in threads:
        thread.join()


def fleet_of(server, proxies, options, tally):
    label = f"{server.kind}, {proxies} {'proxy' if proxies == 1 else 'proxies'}"
    schemas = f"twin_{proxies}", f"ruled_{proxies}"
    session = Session(server.port, "mysql")
    for schema in schemas:
        make(session, server.kind, schema, schema.startswith("ruled"))
    session.close()
    fleet = Fleet(server, proxies, schemas[1], "\n".join(options.rule))
    folder, failed = run_folder(), tally.failed
    try:
        sides = [
            Side(server.kind, "native", schemas[0], server.port, [server.port] * proxies, False),
            Side(server.kind, "proxied", schemas[1], server.port, fleet.ports, True),
        ]
        for side in sides:
            side.folder = folder / side.name
            side.folder.mkdir()
        hold(sides, options, f"{options.seed} {server.kind} {proxies}")
        report(label, *(verdict.Verdict(side) for side in sides), tally)
        if any(process.poll() is not None for process in fleet.processes):
            tally.judge(f"{label}: the proxies run", [log[-300:] for log in fleet.logs()])
        if tally.failed > failed:
            print("    kept: " + " ".join(keep_logs(fleet, sides)))
    finally:
        fleet.close()
        drop_folder(folder)


def keep_logs(fleet, sides):
    """The proxies' logs, and what the server waited for. They stay there."""
    kept = Path(tempfile.mkdtemp(prefix="rowstamp-strangers."))
    for number, log in enumerate(fleet.logs()):
        path = kept / f"proxy{number}.log"
        path.write_text(log)
        yield str(path)
    for side in sides:
        for number, text in enumerate(side.locks):
            path = kept / f"locks.{side.name}.{number}"
            path.write_text(text)
            yield str(path)


def name_of(cause):
    if cause is None:
        return "no event", ""
    return (cause.kind, cause.via) if hasattr(cause, "kind") else ("explicit ids", "proxy")


def hour(moment):
    """As the proxies' logs have it."""
    return datetime.fromtimestamp(time.time() - time.monotonic() + moment, UTC).strftime("%H:%M:%S.%f")[:-3]


def tell(sent, cause=None):
    met = f"id {sent.met}, {'error 1062' if sent.error else f'{sent.affected} rows affected'}, {sent.answered - sent.sent:.1f} s until {hour(sent.answered)}"
    text = f"{sent.table}: {sent.way}, {sent.form}, proxy {sent.proxy}: {met}"
    if cause is None:
        return text
    place = "the server" if getattr(cause, "via", "proxy") == "server" else f"proxy {cause.proxy}"
    ended = cause.ended if hasattr(cause, "kind") else cause.answered
    return f"{text}, {max(0, sent.sent - ended):.1f} s after {name_of(cause)[0]} at {place}"


def report(label, native, proxied, tally):
    more = verdict.beyond(proxied, native)
    causes = [event for events_ in proxied.side.events.values() for event in events_ if event.begun]
    causes += [cause for cause in {*proxied.errors, *proxied.met} if not hasattr(cause, "kind")]
    rows = {}
    for side in (native, proxied):
        for events_ in side.side.events.values():
            for event in events_:
                row = rows.setdefault((event.kind, event.via), Counter())
                row[side.side.name] += 1
        for cause, sents in side.errors.items():
            rows.setdefault(name_of(cause), Counter())[f"{side.side.name} 1062"] += len(sents)
        for found, word in ((side.met, "met"), (side.excused, "excused")):
            for cause, sents in found.items():
                rows.setdefault(name_of(cause), Counter())[f"{side.side.name} {word}"] += len(sents)
    print(f"\n{label}: {len(native.side.sent)} statements natively, {len(proxied.side.sent)} through the proxy")
    print(f"{'event':<14} {'by way of':<9} {'times':>9} {'1062':>9} {'met a row':>10} {'soon after':>10}   (natively/proxied)")
    for (kind, via), row in sorted(rows.items()):
        pairs = [f"{row[f'native{word}']}/{row[f'proxied{word}']}" for word in ("", " 1062", " met", " excused")]
        print(f"{kind:<14} {via:<9} {pairs[0]:>9} {pairs[1]:>9} {pairs[2]:>10} {pairs[3]:>10}")
    verdicts = {}
    for cause in causes:
        again, others = more.get(cause, (0, 0))
        faults = [tell(sent, cause) for sent in proxied.met.get(cause, [])]
        errors = proxied.errors.get(cause, [])
        if again:
            faults += [f"{tell(sent, cause)}: it is not sent again" for sent in errors if writers.is_sent_again(proxied.side, sent)]
        if others > verdict.ERRORS_OF_AN_EVENT * (1 + getattr(cause, "attempts", 0)):
            faults.append(f"{others} times error 1062, more than natively: {'; '.join(tell(sent, cause) for sent in errors)}")
        if getattr(cause, "error", "") and hasattr(cause, "kind"):
            faults.append(cause.error)
        verdicts.setdefault(name_of(cause), []).append((cause, faults))
    for (kind, via), judged in sorted(verdicts.items()):
        wrong = [(cause, faults) for cause, faults in judged if faults]
        tally.passed += len(judged) - len(wrong)
        tally.failed += len(wrong)
        if wrong:
            print(f"FAILED: {label}: {kind}, by way of the {via or 'writers'}: {len(wrong)} of {len(judged)}")
            for fault in [fault for _, faults in wrong for fault in faults][: tally.show]:
                print(f"    {fault[:400]}")
    for side in (native, proxied):
        found = {}
        for check, table, text in side.faults():
            found.setdefault((check, table), []).append(text)
        if side is native:
            for events_ in side.side.events.values():
                for event in events_:
                    if event.error:
                        found.setdefault(("errors", event.kind), []).append(event.error)
            # The server itself does nothing of it: else a check is wrong. Only its counter may be overtaken by an explicit id.
            for (check, table), texts in sorted(found.items()):
                tally.judge(f"{label}, natively: {table}: {CHECKS[check]}", texts)
            continue
        for table in sorted({*side.side.homes}):
            for check, text in CHECKS.items():
                tally.judge(f"{label}: {table}: {text}", found.get((check, table), []))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(prog="tests/strangers.sh", description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="how long on each server: half with one proxy, half with two (default 20)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31), help="draws the same statements and events again")
    parser.add_argument("--server", choices=("mariadb", "mysql"), help="one server only")
    parser.add_argument("--rule", action="append", default=[], metavar="LINE", help="a line for each table's rule, such as 'collide = \"report\"'")
    parser.add_argument("--events", nargs="+", default=[], metavar="NAME", choices=events.named(), help=f"these only, where a table has one of them: {' '.join(events.named())}")
    parser.add_argument("--show", type=int, default=3, help="how many faults of one kind are printed (default 3)")
    options = parser.parse_args()
    print(f"strangers: seed {options.seed}")
    tally = Tally(options.show)
    if not shutil.which(swaps.TOOL):
        tally.skip(f"{swaps.TOOL} itself is not installed (Debian: percona-toolkit); its statements run all the same")
    for kind in [options.server] if options.server else ["mariadb", "mysql"]:
        server = None
        try:
            say(f"strangers: {kind}")
            server = Server(kind)
            prepare(server)
            for proxies in (1, 2):
                fleet_of(server, proxies, options, tally)
        except Missing as missing:
            tally.skip(f"{kind}: {missing}")
        except Broken as broken:
            tally.judge(kind, [str(broken)])
        finally:
            if server:
                server.stop()
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed or not tally.passed else 0)


if __name__ == "__main__":
    main()
