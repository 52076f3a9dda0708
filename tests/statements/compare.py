"""One segment in two schemas of one server: natively, and through the proxy."""

import re
from dataclasses import dataclass

from client import Client

ROWS_MAX = 300
UNSUPPORTED = 1235
# Behind these a counter may have gone on without a row, natively or through the proxy.
LOOSE = re.compile(r"\bignore\b|on\s+duplicate\s+key|^\W*(?:replace|truncate|update|alter|load)\b|insert_id|auto_increment|\bcall\b|rollback", re.I)
# MySQL warns now and then that InnoDB and MyISAM meet.
OF_CHANCE = b"6414"


@dataclass
class Finding:
    fact: str
    detail: str
    statement: str
    segment: object


class Side:
    def __init__(self, port, schema, collation):
        self.schema = schema
        self.client = Client(port, "campaign", schema, collation)
        self.query("SET timestamp=1700000000")

    def query(self, text):
        text = re.sub(r"(?<![\w$@.])(`?)test\1\s*\.", f"{self.schema}.", text)
        return self.client.query(text.encode("latin1"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()


def is_gap(ids, other_ids, stored):
    """
    True if just the rows that the statement has stored (two or more, the first of `ids`) have other ids through the proxy, and only
    because a block of as many ids, or several, was not used.
    """
    if stored < 2 or None in ids[:stored] + other_ids[:stored] or ids[stored:] != other_ids[stored:]:
        return False
    shift, *others = {other - one for one, other in zip(ids[:stored], other_ids[:stored])}
    return not others and shift > 0 and shift % stored == 0


class Run:
    """What became of one segment: `compared` statements, `refused` ones with the reasons, and `findings`."""

    def __init__(self, segment, columns_of):
        self.segment, self.columns_of = segment, columns_of
        self.compared, self.refused, self.findings = 0, [], []
        self.loose = False
        self.apart = set()
        self.ids = {}
        self.last = "the beginning"

    def run(self, native, proxied):
        self.native, self.proxied = native, proxied
        for statement in self.segment.statements:
            self.last = statement.text
            if not self.one(statement):
                return

    def find(self, fact, detail, statement):
        self.findings.append(Finding(fact, detail, statement.text, self.segment))
        return False

    def one(self, statement):
        """False where the two have come apart, and the rest tells nothing."""
        if statement.plain and statement.plain != statement.text:
            return self.made(statement)
        proxied = self.proxied.query(statement.text)
        last = proxied[-1]
        if last.error == UNSUPPORTED and last.message.startswith("rowstamp: "):
            self.refused.append((last.message, statement.text))
            return True
        native = self.native.query(statement.text)
        if not statement.table:
            self.ids.clear() if re.match(r"\W*(create|drop|alter)\b", statement.text, re.I) else None
            self.loose |= bool(LOOSE.search(statement.text))
            codes = [[answer.error for answer in answers] for answers in (native, proxied)]
            if codes[0] != codes[1]:
                return self.find("another statement", self.differ(native, proxied), statement)
            return True
        self.compared += 1
        self.loose |= bool(LOOSE.search(statement.text)) or native[-1].error != 0
        return self.answers(statement, native, proxied) and self.tables(statement, native, proxied)

    def made(self, statement):
        self.ids.clear()
        native = self.native.query(statement.text)
        if native[-1].error:
            # The column cannot be added here: nothing of it can be compared.
            return False
        proxied = self.proxied.query(statement.text)
        return not proxied[-1].error or self.find("another statement", self.differ(native, proxied), statement)

    def differ(self, native, proxied):
        def text(side, answers):
            return " | ".join(f"{a.error} {a.message}" if a.error else f"OK {a.info}" for a in answers).replace(side.schema, "S")

        return f"natively {text(self.native, native)[:200]!r}, through the proxy {text(self.proxied, proxied)[:200]!r}"

    def answers(self, statement, native, proxied):
        if len(native) != len(proxied):
            return self.find("results", f"{len(native)} natively, {len(proxied)} through the proxy", statement)
        for one, other in zip(native, proxied):
            if (one.error == 0) != (other.error == 0):
                return self.find("error", self.differ(native, proxied), statement)
            if (one.error, one.sqlstate) != (other.error, other.sqlstate):
                self.find("code", self.differ(native, proxied), statement)
            elif one.message.replace(self.native.schema, "S") != other.message.replace(self.proxied.schema, "S"):
                self.find("text", self.differ(native, proxied), statement)
            if one.affected != other.affected:
                self.find("affected rows", f"{one.affected} natively, {other.affected} through the proxy", statement)
            if one.warnings != other.warnings and not self.of_chance():
                self.find("warnings", f"{one.warnings} natively, {other.warnings} through the proxy", statement)
            elif one.info != other.info and not self.of_chance():
                self.find("info", f"{one.info} natively, {other.info} through the proxy", statement)
            if one.columns != other.columns:
                self.find("columns", f"{one.columns} natively, {other.columns} through the proxy", statement)
            elif one.rows != other.rows and not self.apart and statement.table.lower() not in self.apart:
                self.find("returned", f"{one.rows} natively, {other.rows} through the proxy"[:300], statement)
        return True

    def of_chance(self):
        return any(
            row[1] == OF_CHANCE for side in (self.native, self.proxied) for row in side.query("SHOW WARNINGS")[0].rows or []
        )

    def tables(self, statement, native, proxied):
        """The rows, in the order of their ids, and the ids."""
        table = statement.table.lower()
        if table not in self.ids:
            self.ids[table] = self.columns_of(self.native.schema, table)
        column = self.ids[table]
        if column is None:
            return True
        quoted = f"`{statement.table}`"
        sql = f"SELECT `{column}`,t.* FROM {quoted} t ORDER BY 1 DESC LIMIT {ROWS_MAX}"
        (one, *_), (other, *_) = self.native.query(sql), self.proxied.query(sql)
        if one.error or other.error:
            same = one.error == other.error
            return same or self.find("dump", self.differ([one], [other]), statement)
        hidden = [index for index, name in enumerate(one.columns) if index and name.lower() == column.lower()]

        def parted(side, rows):
            ids = [row[0] and int(row[0]) for row in rows]
            shown = lambda value: value and value.replace(side.schema.encode(), b"S")
            return ids, [tuple(shown(value) for index, value in enumerate(row) if index and index not in hidden) for row in rows]

        (ids, rows), (other_ids, other_rows) = parted(self.native, one.rows), parted(self.proxied, other.rows)
        if rows != other_rows:
            at = next((i for i, (a, b) in enumerate(zip(rows, other_rows)) if a != b), min(len(rows), len(other_rows)))
            both = (ids, rows), (other_ids, other_rows)
            shown = [f"{all_ids[at]} {all_rows[at]}"[:150] if at < len(all_rows) else "none" for all_ids, all_rows in both]
            return self.find("rows", f"{len(rows)} and {len(other_rows)}; natively {shown[0]}, through the proxy {shown[1]}", statement)
        if table in self.apart:
            return True
        if ids != other_ids:
            self.apart.add(table)
            if not self.loose:
                first = next(i for i, (a, b) in enumerate(zip(reversed(ids), reversed(other_ids))) if a != b)
                shown = f"natively {ids[::-1][first:first + 5]}, through the proxy {other_ids[::-1][first:first + 5]}"
                self.find("gap" if is_gap(ids, other_ids, native[-1].affected) else "ids", shown, statement)
            return True
        told = [[answer.insert_id for answer in answers] for answers in (native, proxied)]
        if told[0] != told[1]:
            self.find("insert id", f"{told[0]} natively, {told[1]} through the proxy", statement)
        return True
