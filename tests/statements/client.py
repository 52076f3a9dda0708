"""A MySQL client over a bare socket, as small as the campaign needs: COM_QUERY, several results, LOCAL INFILE, no password."""

import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path

# LONG_PASSWORD, FOUND_ROWS not, LONG_FLAG, CONNECT_WITH_DB, LOCAL_FILES, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, MULTI_RESULTS,
# PLUGIN_AUTH, DEPRECATE_EOF.
CAPABILITIES = 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 17 | 1 << 19 | 1 << 24
MORE_RESULTS = 0x0008
SECONDS = 20


@dataclass
class Answer:
    """Of one result: an OK, an error or rows."""

    affected: int = 0
    insert_id: int = 0
    warnings: int = 0
    info: str = ""
    error: int = 0
    sqlstate: str = ""
    message: str = ""
    columns: list = field(default_factory=list)
    rows: list = None


class Client:
    def __init__(self, port, user, database, collation):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        greeting = self._read()
        if greeting[0] == 0xFF:
            raise OSError(f"refused before the login: {greeting!r}")
        after = greeting.index(b"\0", 1) + 1
        nonce_bytes = greeting[after + 4 + 9 + 2 + 1 + 2 + 2]
        plugin = greeting[after + 31 + max(13, nonce_bytes - 8) :].split(b"\0")[0]
        # The empty password's answer is empty with every plugin.
        self.number = 1
        self._write(
            struct.pack("<IIB23x", CAPABILITIES, 1 << 24, collation)
            + user.encode() + b"\0\0" + database.encode() + b"\0" + plugin + b"\0"
        )  # fmt: skip
        while True:
            packet = self._read()
            if packet[0] == 0:
                return
            if packet[0] == 0xFF:
                raise OSError(f"login: {packet!r}")
            if packet[0] == 0xFE:
                self.number = self.last + 1
                self._write(b"")

    def close(self):
        self.stream.close()
        self.socket.close()

    def query(self, sql):
        """All results of a statement, an error last."""
        self.number = 0
        self._write(b"\x03" + sql)
        answers = []
        while True:
            answer, status = self._answer()
            answers.append(answer)
            if not status & MORE_RESULTS:
                return answers

    def _answer(self):
        packet = self._read()
        if packet[0] == 0xFB:
            name = packet[1:].decode(errors="replace")
            path = Path(name)
            self.number = self.last + 1
            if path.is_file() and path.stat().st_size:
                self._write(path.read_bytes()[: 1 << 23])
            self._write(b"")
            packet = self._read()
        if packet[0] == 0xFF:
            code = struct.unpack_from("<H", packet, 1)[0]
            message = packet[9:].decode(errors="replace")
            return Answer(error=code, sqlstate=packet[4:9].decode(errors="replace"), message=message), 0
        if packet[0] == 0:
            return self._ok(packet)
        count, _ = _length(packet, 0)
        columns = []
        for _ in range(count):
            columns.append(_strings(self._read(), 5)[4].decode(errors="replace"))
        rows = []
        while True:
            packet = self._read()
            if packet[0] == 0xFF:
                code = struct.unpack_from("<H", packet, 1)[0]
                return Answer(error=code, message=packet[9:].decode(errors="replace")), 0
            if packet[0] == 0xFE and len(packet) < 0xFFFFFF:
                answer, status = self._ok(packet)
                answer.columns, answer.rows = columns, rows
                return answer, status
            rows.append(tuple(_strings(packet, count)))

    @staticmethod
    def _ok(packet):
        affected, at = _length(packet, 1)
        insert_id, at = _length(packet, at)
        status, warnings = struct.unpack_from("<HH", packet, at)
        info = _strings(packet, 1, at + 4)[0].decode(errors="replace") if len(packet) > at + 4 else ""
        return Answer(affected, insert_id, warnings, info), status

    def _read(self):
        payload = b""
        while True:
            header = self.stream.read(4)
            if len(header) < 4:
                raise OSError("the connection was closed")
            length = int.from_bytes(header[:3], "little")
            self.last = header[3]
            part = self.stream.read(length)
            if len(part) < length:
                raise OSError("the connection was closed")
            payload += part
            if length < 0xFFFFFF:
                return payload

    def _write(self, payload):
        data = b""
        while True:
            part, payload = payload[:0xFFFFFF], payload[0xFFFFFF:]
            data += len(part).to_bytes(3, "little") + bytes([self.number % 256]) + part
            self.number += 1
            if len(part) < 0xFFFFFF:
                self.socket.sendall(data)
                return


def _length(packet, at):
    first = packet[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(packet[at + 1 : at + 1 + size], "little"), at + 1 + size


def _strings(packet, count, at=0):
    found = []
    for _ in range(count):
        if packet[at] == 0xFB:
            found.append(None)
            at += 1
            continue
        length, at = _length(packet, at)
        found.append(packet[at : at + length])
        at += length
    return found
