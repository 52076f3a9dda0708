"""Clients that insert, and the ledger of what they were told."""

import random
import time

from session import DUPLICATE, FORMS, duplicate_id
from world import Sent, names, now

WRITERS = 4
PAUSE = 0.004
# Those that meet the row of an id without an error. Their key k is new each time, so natively they do nothing but insert.
QUIET = "replace", "ignore", "odku"
# Events that take all rows out of their table.
TAKES_ROWS = "truncate", "exchange"
WAYS = [*QUIET, "one", "one", "several", "explicit", "explicit_hex", "explicit_ignore"]


class Writer:
    """One client. Its tokens, which stand in column v, are its own."""

    def __init__(self, side, label, proxy):
        self.side, self.label, self.proxy = side, label, proxy
        self.count = 0
        self.session = None

    def tokens(self, count):
        self.count += count
        return [f"{self.label}.{number}" for number in range(self.count - count, self.count)]

    def write(self, table, way, form, rows=1, above=0, has_key=True):
        """Sends one statement, and notes it. `above`: how far an explicit id is above the highest."""
        side = self.side
        rows = rows if way == "several" else 1
        tokens = self.tokens(rows)
        values = []
        for token in tokens:
            values += [token, side.key()] if has_key else [token]
        columns, row = ("v, k", "(?, ?)") if has_key else ("v", "(?)")
        explicit = None
        if way.startswith("explicit"):
            explicit = side.highest[table] + above
            columns, row = f"id, {columns}", f"({f'0x{explicit:X}' if way == 'explicit_hex' else '?'}, {row[1:]}"
            values = values if way == "explicit_hex" else [explicit, *values]
        verb = "REPLACE" if way == "replace" else "INSERT IGNORE" if way.endswith("ignore") else "INSERT"
        sql = f"{verb} INTO {table} ({columns}) VALUES {', '.join([row] * rows)}"
        if way == "odku":
            sql += " ON DUPLICATE KEY UPDATE n = n + 1"
        sent = Sent(table, way, form, self.proxy, tokens, now(), explicit)
        side.sent.append(sent)
        try:
            self.session = self.session or side.through(self.proxy)
            self._note(sent, self.session.send(form, sql, values))
        except OSError as error:
            if isinstance(error, TimeoutError):
                side.note_locks()
            sent.broke, self.session = f"{type(error).__name__}: {error}", None
        sent.answered = sent.answered or now()
        return sent

    def _note(self, sent, answer):
        sent.answered = now()
        sent.affected, sent.insert_id = answer.affected, answer.insert_id
        sent.error, sent.message = answer.error, answer.message
        if answer.error == DUPLICATE:
            sent.met = duplicate_id(answer.message)
        elif not answer.error and sent.explicit is not None:
            self.side.saw(sent.table, sent.explicit)
        elif not answer.error:
            if sent.way in QUIET and answer.affected != 1:
                sent.met = answer.insert_id or self._warned_of()
            self.side.saw(sent.table, answer.insert_id + len(sent.tokens) - 1)

    def _warned_of(self):
        """The id that INSERT IGNORE skipped."""
        for row in self.session.ask("SHOW WARNINGS").rows or []:
            if row[1] == str(DUPLICATE).encode():
                return duplicate_id(row[2].decode(errors="replace"))
        return None

    def close(self):
        if self.session:
            self.session.close()


def live(side, number, seed):
    """A writer's thread."""
    draw = random.Random(f"{seed} writer {number}")
    writer = Writer(side, f"w{number}", number % len(side.ports))
    tables = names(side.kind)
    try:
        while not side.is_over.is_set():
            table = draw.choice(tables)
            way, form, rows, above, has_key = draw.choice(WAYS), draw.choice(FORMS), draw.randrange(2, 6), draw.randrange(1, 6), draw.random() < 0.5
            if table not in side.held:
                writer.write(table, way, form, rows, above, has_key or way in QUIET)
            time.sleep(PAUSE)
    finally:
        writer.close()


def is_sent_again(side, sent):
    """By docs/inserts.md the client sees no error 1062 of such a statement."""
    if sent.way != "one" or sent.form == "sql" or sent.table.startswith("noted"):
        return False
    # The row that it met may be gone before the proxy looks at its id.
    takes = [event for event in side.events[sent.table] if event.kind in TAKES_ROWS and event.begun]
    if any(event.begun < sent.answered + 1 and sent.sent < event.ended for event in takes):
        return False
    return not any(table == sent.table and begun < sent.answered and sent.sent < ended for table, begun, ended in side.triggered)
