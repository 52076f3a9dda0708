"""The strangers' ways, one after the other on each table: what is drawn, done, and tried after it."""

import random
import shutil
import time

import swaps
from session import DUPLICATE, Failed
from world import Event, now
from writers import QUIET, Writer

# So long after an event past a proxy the proxy may not know of it.
GRACE = 2.0
# Writers leave some tables alone until the event has been judged: else their errors would warn the proxy.
HELD = 0.5
AGAIN = {1205, 1213, DUPLICATE}  # A lock wait, a deadlock, an id that a writer was given first: natively so, too.
TRIES = 8
STEP = 200  # Rows of one INSERT on the way to the ids of an event.


class Act:
    """An event under way: its session, and what it puts where."""

    def __init__(self, side, event, draw):
        self.side, self.event, self.table = side, event, event.table
        self.gap, self.count = draw.choice((0, 5, 60)), draw.choice((5, 30, 150))
        self.session = self.open()

    @property
    def mark(self):
        return f"e{self.event.number}.{self.event.attempts}"

    def open(self):
        return self.side.direct() if self.event.via == "server" else self.side.through(self.event.proxy)

    @property
    def port(self):
        return self.side.server_port if self.event.via == "server" else self.side.ports[self.event.proxy]

    def above(self, table=None, of=None, gap=None):
        """The ids that this event will give to rows of `table`: above the highest of the table `of`."""
        table = table or self.table
        first = self.session.value(f"SELECT MAX(id) FROM {of or table}") + 1 + (self.gap if gap is None else gap)
        self.event.ids.append((table, first, first + self.count - 1))
        return first

    def rows(self, first):
        """The highest first: so no writer is given one of them meanwhile."""
        return ", ".join(f"({first + number}, '{self.mark}-{number}')" for number in reversed(range(self.count)))

    def victims(self):
        """Rows of this event's own, with ids that are in nobody's way: the lowest of them."""
        low = -1000 * (TRIES * self.event.number + self.event.attempts) - self.count
        with_direct = self.side.direct()
        with_direct.run(f"INSERT INTO {self.table} (id, v) VALUES {self.rows(low)}")
        with_direct.close()
        return low


def rows(act):
    act.session.run(f"INSERT INTO {act.table} (id, v) VALUES {act.rows(act.above())}")


def load(act):
    first = act.above()
    file = act.side.folder / f"{act.table}.{act.mark}"
    file.write_text("".join(f"{first + number}\t{act.mark}-{number}\n" for number in reversed(range(act.count))))
    act.session.run(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {act.table} (id, v)")


def call_insert(act):
    act.session.run(f"CALL feed_{act.table}({act.above()}, {act.count}, '{act.mark}')")


def lift(act):
    """The first and the last id that rise, and by how much."""
    low = act.victims()
    return low, low + act.count - 1, act.above() - low


def call_update(act):
    low, high, up = lift(act)
    act.session.run(f"CALL lift_{act.table}({low}, {high}, {up})")


def update(act, prefix=""):
    low, high, up = lift(act)
    act.session.run(f"UPDATE {prefix}{act.table} SET id = id + {up} WHERE id BETWEEN {low} AND {high}")


def update_join(act):
    low, high, up = lift(act)
    by = f"(SELECT {up} AS up, {low} AS low, {high} AS high) m"
    act.session.run(f"UPDATE {act.table} t JOIN {by} ON t.id BETWEEN m.low AND m.high SET t.id = t.id + m.up")


def update_view(act):
    update(act, "view_")


def odku_id(act):
    low = act.victims()
    act.session.run(f"INSERT INTO {act.table} (id, v) VALUES {act.rows(low)} ON DUPLICATE KEY UPDATE id = VALUES(id) + {act.above() - low}")


def insert_id(act):
    """As a binary log in statement format is replayed."""
    act.count = min(act.count, 10)
    first = act.above()
    for number in reversed(range(act.count)):
        act.session.run(f"SET INSERT_ID = {first + number}")
        act.session.run(f"INSERT INTO {act.table} (v) VALUES ('{act.mark}-{number}')")


def counter(act):
    act.session.run(f"ALTER TABLE {act.table} AUTO_INCREMENT = {act.session.value(f'SELECT MAX(id) FROM {act.table}') + 1 + act.gap}")


def numbered(act):
    """Another writer, whose rows the server numbers."""
    for number in range(0, act.count, 5):
        values = ", ".join(f"('{act.mark}-{number + row}')" for row in range(5))
        first = act.session.run(f"INSERT INTO {act.table} (v) VALUES {values}").insert_id
        act.event.ids.append((act.table, first, first + 4))


def truncate(act):
    act.session.run(f"TRUNCATE TABLE {act.table}")
    act.side.wiped.append((act.table, now()))


def portion(act):
    """MariaDB adds two rows for each, and numbers them."""
    low = act.victims()
    act.session.run(
        f"UPDATE {act.table} FOR PORTION OF p FROM '2022-01-01' TO '2023-01-01' SET n = 1 WHERE id BETWEEN {low} AND {low + act.count - 1}"
    )
    added = act.session.run(f"SELECT MIN(id), MAX(id) FROM {act.table} WHERE id > 0 AND v LIKE '{act.mark}-%'").rows[0]
    act.event.ids.append((act.table, int(added[0]), int(added[1])))


EVERYWHERE = [load, call_insert, call_update, update, update_join, update_view, odku_id]
ON = {
    "orders": [*[swaps.dump, swaps.rename, swaps.places, swaps.gh_ost, swaps.pt_osc] * 3, *EVERYWHERE],
    "wiped": [truncate, truncate, *EVERYWHERE],
    "noted": EVERYWHERE,
    "parts": [swaps.exchange, swaps.exchange, swaps.exchange, *EVERYWHERE],
    "spans": [portion, portion, portion, update],
}


def named():
    """All events by their names."""
    return sorted({what.__name__ for choices in ON.values() for what in choices} | {"rows", "insert_id", "numbered", "counter", "pt_program"})


def drawn(table, only, draw):
    """(what, by which way). Writers themselves send explicit ids through the proxy."""
    word, variant = table.split("_")
    choices = [(what, via) for what in ON[word] for via in ("server", "proxy")]
    choices += [(rows, "server"), (insert_id, "proxy")]
    if variant == "a":
        choices += [(numbered, "server"), (insert_id, "server"), (counter, "server"), (counter, "proxy")]
    if word == "orders" and shutil.which(swaps.TOOL):
        choices += [(swaps.pt_program, "server"), (swaps.pt_program, "proxy")]
    return draw.choice([choice for choice in choices if choice[0].__name__ in only] or choices)


def live(side, table, seed, only):
    """The events of one table, until the side's time is over: a thread."""
    draw = random.Random(f"{seed} events {table}")
    trials = [Writer(side, f"t.{table}.{proxy}", proxy) for proxy in range(len(side.ports))]
    number = 0
    time.sleep(draw.uniform(0, 0.5))
    while not side.is_over.is_set():
        what, via = drawn(table, only, draw)
        number += 1
        event = Event(number, table, what.__name__, via, draw.randrange(2) % len(side.ports))
        of_event = random.Random(draw.random())
        is_held, pause = of_event.random() < HELD, of_event.uniform(0.1, 0.5)
        side.events[table].append(event)
        if is_held:
            side.held.add(table)
        try:
            happen(side, event, what, of_event)
            try_all(side, event, trials, of_event)
        except (Failed, OSError, swaps.Stuck) as error:
            event.error = event.error or f"{type(error).__name__}: {error}"
            if isinstance(error, TimeoutError):
                side.note_locks()
        finally:
            event.ended = min(event.ended, now())
            side.held.discard(table)
        time.sleep(pause)
    for writer in trials:
        writer.close()


def happen(side, event, what, draw):
    act = Act(side, event, draw)
    event.begun = now()
    while True:
        try:
            what(act)
            break
        except Failed as error:
            # An id that a writer took first is no fault either. The next attempt has rows of its own.
            event.attempts += 1
            if error.code not in AGAIN or event.attempts == TRIES:
                raise
    event.ended = now()
    act.session.close()


def is_known_at_once(event, proxy):
    return event.via == "proxy" and event.proxy == proxy


def try_all(side, event, trials, draw):
    """The generator is led to the event's ids, and then statements that meet a row without an error are sent first."""
    trials = sorted(trials, key=lambda writer: not is_known_at_once(event, writer.proxy))
    for table in sorted({table for table, *_ in event.ids} or {event.table}):
        for writer in trials:
            if not is_known_at_once(event, writer.proxy):
                time.sleep(max(0, event.ended + GRACE - now()))
            lead(writer, table, event, draw)
            ways = [*QUIET, *QUIET]
            draw.shuffle(ways)
            for way in [*ways, "one", "several", "one"]:
                writer.write(table, way, draw.choice(("text", "prepared", "sql")), 3)


def lead(writer, table, event, draw):
    first = min((first for name, first, _ in event.ids if name == table), default=0)
    at = writer.write(table, "replace", "text").insert_id
    for _ in range(8):
        missing = first - at - 2
        if not 0 < missing < 8 * STEP:
            return
        sent = writer.write(table, "several", "text", min(missing, STEP))
        if not sent.is_done:
            return
        at = sent.ids[-1]
