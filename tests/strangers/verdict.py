"""What was seen, judged: ids that met a row, rows that are missing, statements that ran twice."""

from collections import Counter, defaultdict

from events import GRACE, is_known_at_once
from session import DUPLICATE
from writers import QUIET, is_sent_again

# Bursts of errors 1062 of an event beyond the native side's, of statements that cannot be sent again.
ERRORS_OF_AN_EVENT = 1
NO_TABLE = 1146
PASSING = {1205, 1213}  # A lock wait and a deadlock: nothing of the statement is stored.


def is_without_copy(sent):
    """A statement that still knew a tool's triggers, and not its table any more. Natively so, too; nothing of it is stored."""
    return sent.error == NO_TABLE and f"._{sent.table}_new'" in sent.message


def group(table):
    """The table whose events concern this one: of copy_orders_a_1 and other_a it is orders_a."""
    word, variant = table.removeprefix("copy_").split("_")[:2]
    return f"{'orders' if word == 'other' else word}_{variant}"


class Verdict:
    """Of one side. `failed` and `passed` have lines for people."""

    def __init__(self, side):
        self.side = side
        self.explicit = {(sent.table, sent.explicit): sent for sent in side.sent if sent.explicit is not None and sent.is_done and sent.affected}
        # By cause: statements that got error 1062, and those that met a row without one.
        self.errors, self.met, self.excused = defaultdict(list), defaultdict(list), defaultdict(list)
        for sent in side.sent:
            if sent.explicit is None:
                self._look(sent)

    def _look(self, sent):
        if sent.error == DUPLICATE and sent.met is not None:
            self.errors[self._cause(sent)].append(sent)
        elif sent.is_done and sent.way in QUIET and sent.affected != 1:
            cause = self._cause(sent)
            (self.excused if self._is_excused(sent, cause) else self.met)[cause].append(sent)

    def _cause(self, sent):
        """The event, or the explicit statement, that put the id there. Where nobody tells, the event that was the last to begin."""
        events = [event for event in self.side.events[group(sent.table)] if event.begun and event.begun < sent.answered]
        for event in reversed(events):
            if any(table == sent.table and first <= (sent.met or 0) <= last for table, first, last in event.ids):
                return event
        return self.explicit.get((sent.table, sent.met)) or (events[-1] if events else None)

    @staticmethod
    def _is_excused(sent, cause):
        """The ids of a statement that was under way were drawn before; and of what goes past a proxy it may not know yet."""
        if cause is None:
            return False
        if hasattr(cause, "answered"):
            return sent.sent < cause.answered + (0 if cause.proxy == sent.proxy else GRACE)
        return sent.sent < cause.ended + (0 if is_known_at_once(cause, sent.proxy) else GRACE)

    def rows(self):
        """{table: [(id, v)]} of all tables that rows may be in."""
        direct = self.side.direct()
        found = {}
        for table in {home for homes in self.side.homes.values() for home in homes}:
            answer = direct.ask(f"SELECT id, v FROM {table}")
            found[table] = [(int(id), v.decode()) for id, v in answer.rows] if not answer.error else []
        self.notes = {
            table: Counter(v.decode() for (v,) in direct.run(f"SELECT v FROM notes_of_{table}").rows)
            for table in found if table.startswith("noted")
        }  # fmt: skip
        direct.close()
        return found

    def faults(self):
        """(check, table, text): what holds of all rows at the end."""
        found = self.rows()
        places = defaultdict(list)
        for table, rows in found.items():
            for id, token in rows:
                places[token].append((table, id))
        told = [self.excused] if self.side.is_proxied else [self.excused, self.met]
        replaced = {(self._place(sent), sent.met) for found_ in told for sents in found_.values() for sent in sents if sent.way == "replace"}
        yield from self._answered_twice()
        for sent in self.side.sent:
            if sent.broke:
                yield "errors", sent.table, f"{sent.way}, {sent.form}: {sent.broke}"
            elif sent.error and sent.error not in PASSING | {DUPLICATE} and not is_without_copy(sent):
                yield "errors", sent.table, f"{sent.way}, {sent.form}: error {sent.error}: {sent.message}"
            elif sent.error == DUPLICATE and sent.met is None:
                yield "once", sent.table, f"{sent.way}, {sent.form}: a new key was there already: {sent.message}"
            yield from self._look_for(sent, places, replaced)
        for table, notes in self.notes.items():
            tokens = Counter(v for _, v in found[table])
            for token in tokens | notes:
                # A row that is missing is found by the ledger.
                if notes[token] != 1 or tokens[token] > 1:
                    yield "once", table, f"{token}: {tokens[token]} rows, {notes[token]} notes"

    def _look_for(self, sent, places, replaced):
        homes = self.side.homes[sent.table]
        until = max((until for name, until in self.side.wiped if name in homes), default=0)
        ids = sent.ids or [sent.explicit]
        for number, token in enumerate(sent.tokens):
            rows = [(table, id) for table, id in places[token] if table in homes]
            name = f"{sent.way}, {sent.form}: {token}, answered {sent.insert_id}"
            if len(rows) > 1:
                yield "once", sent.table, f"{name}: rows {rows}"
            elif rows and sent.error:
                yield "once", sent.table, f"{name}: error {sent.error}, and the row {rows[0]} is there"
            elif rows and sent.is_done and rows[0][1] != ids[number]:
                yield "rows", sent.table, f"{name}: the row is {rows[0]}"
            elif not rows and sent.is_done and self._is_owed(sent) and sent.sent >= until and (self._place(sent), ids[number]) not in replaced:
                yield "rows", sent.table, f"{name}: no row{self._thief(self._place(sent), ids[number])}"

    @staticmethod
    def _is_owed(sent):
        """Whether the answer says that rows were stored. What met a row by another way is judged by `met`."""
        if sent.way == "explicit_ignore":
            return sent.affected == 1
        return sent.way == "replace" or sent.way not in QUIET or sent.affected == 1

    def _place(self, sent):
        """The same for all names that a table may have had."""
        return min(self.side.homes[sent.table])

    def _thief(self, place, id):
        found = (sent for sents in self.met.values() for sent in sents if (self._place(sent), sent.met) == (place, id))
        return next((f", replaced by {sent.tokens[0]}" for sent in found), "")

    def _answered_twice(self):
        """A generator issues no id twice, whatever becomes of the rows. The server's counter does, after TRUNCATE."""
        if not self.side.is_proxied:
            return
        seen = {}
        for sent in self.side.sent:
            for id in sent.ids if self._is_owed(sent) else ():
                if other := seen.get((sent.table, id)):
                    yield "twice", sent.table, f"id {id}: {other.tokens[0]} and {sent.tokens[0]}"
                seen[sent.table, id] = sent


def beyond(proxied, native):
    """{cause: (errors of statements that are sent again, bursts of others)}, by what is more than natively of the same event."""
    native_of = defaultdict(Counter)
    for cause, sents in native.errors.items():
        if hasattr(cause, "number"):
            native_of[cause.table, cause.number].update(is_sent_again(native.side, sent) for sent in sents)
    more = {}
    for cause, sents in proxied.errors.items():
        again = [sent for sent in sents if is_sent_again(proxied.side, sent)]
        others = _bursts([sent for sent in sents if sent not in again])
        allowed = native_of[cause.table, cause.number] if hasattr(cause, "number") else Counter()
        more[cause] = max(0, len(again) - allowed[True]), max(0, others - allowed[False])
    return more


def _bursts(sents):
    """How often one proxy met ids of one table anew, where it did most. Statements that were under way when the first error came had their
    ids by then: they count as one with it."""
    bursts, until = Counter(), {}
    for sent in sorted(sents, key=lambda sent: sent.sent):
        place = sent.proxy, sent.table
        if sent.sent >= until.get(place, 0):
            bursts[place] += 1
            until[place] = sent.answered
    return max(bursts.values(), default=0)
