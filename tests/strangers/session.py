"""A client's connection: each statement goes as text, by the protocol's PREPARE, or by SQL's."""

import re
import struct

from client import Answer, Client

USER = "campaign"  # It has all rights, and no password.
COLLATION = 45
DUPLICATE = 1062
FORMS = "text", "prepared", "sql"
LONG, STRING = b"\x08\x00", b"\xfd\x00"


class Failed(Exception):
    """A statement of an event was answered with an error."""

    def __init__(self, answer, sql):
        super().__init__(f"error {answer.error}: {answer.message[:200]}, at {sql[:200]}")
        self.code = answer.error


class Session(Client):
    def __init__(self, port, database):
        super().__init__(port, USER, database, COLLATION)
        self.prepared = {}

    def ask(self, sql):
        """The last answer."""
        return self.query(sql.encode())[-1]

    def run(self, sql):
        answer = self.ask(sql)
        if answer.error:
            raise Failed(answer, sql)
        return answer

    def value(self, sql):
        value = self.run(sql).rows[0][0]
        return int(value) if value is not None else 0

    def send(self, form, sql, values):
        """`sql` has a `?` for each of the values, which are integers and strings."""
        if form == "text":
            literals = iter(values)
            return self.ask(re.sub(r"\?", lambda _: literal(next(literals)), sql))
        if form == "prepared":
            return self._execute(sql, values)
        names = [f"@p{number}" for number in range(len(values))]
        assigned = ", ".join(f"{name} = {literal(value)}" for name, value in zip(names, values))
        for text in (f"SET {assigned}", f"PREPARE p FROM '{sql}'"):
            answer = self.ask(text)
            if answer.error:
                return answer
        return self.ask(f"EXECUTE p USING {', '.join(names)}")

    def _execute(self, sql, values):
        if sql not in self.prepared:
            self.number = 0
            self._write(b"\x16" + sql.encode())
            packet = self._read()
            if packet[0] == 0xFF:
                return Answer(error=struct.unpack_from("<H", packet, 1)[0], message=packet[9:].decode(errors="replace"))
            number, columns, parameters = struct.unpack_from("<IHH", packet, 1)
            for _ in range(columns + parameters):
                self._read()
            self.prepared[sql] = number
        types = b"".join(LONG if isinstance(value, int) else STRING for value in values)
        bound = b"".join(binary(value) for value in values)
        nulls = bytes((len(values) + 7) // 8)
        self.number = 0
        self._write(b"\x17" + struct.pack("<IBI", self.prepared[sql], 0, 1) + nulls + b"\1" + types + bound)
        answer = self._answer()[0]
        # A text with a hexadecimal id does not come again.
        if "0x" in sql:
            self.number = 0
            self._write(b"\x19" + struct.pack("<I", self.prepared.pop(sql)))
        return answer


def literal(value):
    return str(value) if isinstance(value, int) else f"'{value}'"


def binary(value):
    """No string here has more than 250 bytes."""
    return struct.pack("<q", value) if isinstance(value, int) else bytes([len(value)]) + value.encode()


def duplicate_id(message):
    """The id that the table has already, of error 1062. None: the error is of another key."""
    found = re.search(r"Duplicate entry '(-?\d+)' for key '(?:\w+\.)?PRIMARY'", message)
    return int(found[1]) if found else None
