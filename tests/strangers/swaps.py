"""Events by which another table takes a name: dumps, renames, online schema changes, partitions."""

import shutil
import subprocess
import threading
import time

from machine import SID_ROOT
from session import USER, Failed
from world import now

TOOL = "pt-online-schema-change"
CHUNK = 500
WAIT_SECONDS = 15


class Stuck(Exception):
    """What should have come about did not, or a program failed."""


def dump(act):
    """Into a table with a new name, or over one that was loaded before."""
    copy = f"copy_{act.table}_{act.event.number % 2}"
    done = _program(act, "dump", "--skip-triggers", act.side.schema, act.table)
    text = done.replace(f"`{act.table}`", f"`{copy}`")
    _program(act, "client", act.side.schema, text=text)
    act.side.homes[copy] = {copy}
    act.side.wiped.append((copy, now()))
    # The loaded rows are in the way of a generator that does not know of them.
    act.event.ids.append((copy, 1, act.session.value(f"SELECT MAX(id) FROM {copy}")))


def _program(act, which, *words, text=""):
    if act.side.kind == "mariadb":
        command = ["mariadb-dump" if which == "dump" else "mariadb"]
    else:
        lib = SID_ROOT / "usr/lib"
        path = f"{lib}/x86_64-linux-gnu:{lib}/mysql/private"
        command = [SID_ROOT / "lib64/ld-linux-x86-64.so.2", "--library-path", path, SID_ROOT / "usr/bin" / ("mysqldump" if which == "dump" else "mysql")]
    command += ["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", f"--port={act.port}", f"--user={USER}"]
    if which == "dump" and act.side.kind == "mysql":
        command += ["--no-tablespaces", "--set-gtid-purged=OFF", "--column-statistics=0"]
    return _run([*command, *words], text)


def _run(command, text=""):
    done = subprocess.run([str(word) for word in command], input=text, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Stuck(f"{command[-3:]}: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout


def _like(act, name):
    act.session.run(f"DROP TABLE IF EXISTS {name}")
    act.session.run(f"CREATE TABLE {name} LIKE {act.table}")


def rename(act):
    """Another table, of higher ids, takes the name. The rows of before stay in the old table."""
    new, old = f"new_{act.table}", f"old_{act.table}_{act.event.number}"
    _like(act, new)
    act.session.run(f"INSERT INTO {new} (id, v) VALUES {act.rows(act.above(of=act.table))}")
    act.side.homes[act.table].add(old)
    act.session.run(f"RENAME TABLE {act.table} TO {old}, {new} TO {act.table}")


def places(act):
    """Two tables change places. Before, the other one gets ids above those of this one."""
    other = act.table.replace("orders", "other")
    both = act.side.homes[act.table] | act.side.homes[other]
    act.side.homes[act.table] = act.side.homes[other] = both
    first = max(act.session.value(f"SELECT MAX(id) FROM {name}") for name in (act.table, other)) + 1 + act.gap
    direct = act.side.direct()
    direct.run(f"INSERT INTO {other} (id, v) VALUES {act.rows(first)}")
    direct.close()
    between = f"between_{act.table}"
    act.session.run(f"RENAME TABLE {act.table} TO {between}, {other} TO {act.table}, {between} TO {other}")
    act.event.ids.append((act.table, first, first + act.count - 1))


def exchange(act):
    new = f"old_{act.table}_{act.event.number}"
    act.session.run(f"DROP TABLE IF EXISTS {new}")
    act.session.run(f"CREATE TABLE {new} LIKE {act.table}")
    act.session.run(f"ALTER TABLE {new} REMOVE PARTITIONING")
    act.session.run(f"INSERT INTO {new} (id, v) VALUES {act.rows(act.above(of=act.table))}")
    act.side.homes[act.table].add(new)
    act.session.run(f"ALTER TABLE {act.table} EXCHANGE PARTITION all_ids WITH TABLE {new}")


def gh_ost(act):
    """The cut-over of gh-ost: a lock, the rename that waits for it, the sentry that is dropped, the lock that is released. What gh-ost
    copies from the binary log is copied under the lock here."""
    table, new, sentry = act.table, f"{act.table}_gho", f"{act.table}_del"
    for name in (new, sentry):
        _like(act, name)
    renamer = act.open()
    connection = renamer.value("SELECT CONNECTION_ID()")
    act.session.run(f"LOCK TABLES {table} WRITE, {new} WRITE, {sentry} WRITE")
    failed = []
    thread = threading.Thread(target=_rename_behind, args=(renamer, f"RENAME TABLE {table} TO {sentry}, {new} TO {table}", failed))
    try:
        act.session.run(f"INSERT INTO {new} SELECT * FROM {table}")
        act.session.run(f"INSERT INTO {new} (id, v) VALUES {act.rows(act.above(of=table))}")
        thread.start()
        _wait_for_lock(act, connection)
        act.session.run(f"DROP TABLE {sentry}")
    finally:
        act.session.run("UNLOCK TABLES")
    thread.join()
    renamer.close()
    if failed:
        raise failed[0]
    act.session.run(f"DROP TABLE {sentry}")


def _rename_behind(session, sql, failed):
    try:
        session.run(sql)
    except (Failed, OSError) as error:
        failed.append(error)


def _wait_for_lock(act, connection):
    direct = act.side.direct()
    end = now() + WAIT_SECONDS
    while now() < end:
        state = direct.run(f"SELECT state FROM information_schema.processlist WHERE id = {connection}").rows
        if state and b"metadata lock" in (state[0][0] or b""):
            direct.close()
            return
        time.sleep(0.01)
    raise Stuck("the RENAME did not wait for the lock")


def pt_osc(act):
    """As pt-online-schema-change does it: triggers that copy, chunks, the swap."""
    table, new, old = act.table, f"_{act.table}_new", f"_{act.table}_old"
    _like(act, new)
    columns = "id, v, k, n"
    values = "NEW.id, NEW.v, NEW.k, NEW.n"
    since = now()
    act.side.triggered.append((table, since, float("inf")))
    bodies = {
        "del": f"AFTER DELETE ON {table} FOR EACH ROW DELETE IGNORE FROM {new} WHERE {new}.id <=> OLD.id",
        "upd": f"AFTER UPDATE ON {table} FOR EACH ROW BEGIN DELETE IGNORE FROM {new} WHERE !(OLD.id <=> NEW.id) AND {new}.id <=> OLD.id; "
        f"REPLACE INTO {new} ({columns}) VALUES ({values}); END",
        "ins": f"AFTER INSERT ON {table} FOR EACH ROW REPLACE INTO {new} ({columns}) VALUES ({values})",
    }
    try:
        for name, body in bodies.items():
            act.session.run(f"DROP TRIGGER IF EXISTS pt_{table}_{name}")
            act.session.run(f"CREATE TRIGGER pt_{table}_{name} {body}")
        low, high = (act.session.value(f"SELECT {end}(id) FROM {table}") for end in ("MIN", "MAX"))
        for first in range(low, high + 1, CHUNK):
            act.session.run(
                f"INSERT LOW_PRIORITY IGNORE INTO {new} ({columns}) SELECT {columns} FROM {table} FORCE INDEX (PRIMARY) "
                f"WHERE id BETWEEN {first} AND {min(first + CHUNK - 1, high)} LOCK IN SHARE MODE"
            )
        # So far above that no writer's row gets there while the names change: the trigger's REPLACE would take its place.
        act.session.run(f"INSERT INTO {new} (id, v) VALUES {act.rows(act.above(of=table, gap=1000))}")
        act.session.run(f"RENAME TABLE {table} TO {old}, {new} TO {table}")
        act.session.run(f"DROP TABLE {old}")
    finally:
        for name in bodies:
            act.session.run(f"DROP TRIGGER IF EXISTS pt_{table}_{name}")
        act.side.triggered.remove((table, since, float("inf")))
        act.side.triggered.append((table, since, now()))


def pt_program(act):
    """The program itself. It puts nothing in the generator's way."""
    since = now()
    act.side.triggered.append((act.table, since, float("inf")))
    place = f"h=127.0.0.1,P={act.port},u={USER},D={act.side.schema},t={act.table}"
    _run([shutil.which(TOOL), "--execute", "--alter", "ENGINE=InnoDB", "--recursion-method=none", "--no-check-plan", "--chunk-time=0.1", place])
    act.side.triggered.remove((act.table, since, float("inf")))
    act.side.triggered.append((act.table, since, now()))
