"""Both wires of the proxy: wire.py PORT TEST REPORT, beside a proxy that listens on 127.0.0.4:PORT and finds its server on 127.0.0.3:PORT.

Clients connect to 127.0.0.1:PORT and are relayed to the proxy; the proxy's own connections are relayed to 127.0.0.2:PORT, where the
server is. A session is known on both sides by the connection id and the scramble in the server's greeting. From the greeting and the first answer to
it on, in which the proxy may leave capabilities out, the bytes of both sides have to be the same. REPORT gets a line of JSON for each
session of a client that has ended: {"test", "id", "up", "down": bytes compared, "difference": null or a text, "hidden": whether the
proxy's question stands in front of a PREPARE or EXECUTE IMMEDIATE, whose text it may not see, or somewhere after one whose text does
not show, "refused": whether the session begins with COM_BINLOG_DUMP, which the proxy refuses}.
"""

import asyncio
import json
import re
import socket
import struct
import sys

PORT, TEST, REPORT = int(sys.argv[1]), sys.argv[2], sys.argv[3]
CLIENTS, PROXY, FOR_PROXY, SERVER = (f"127.0.0.{n}" for n in (1, 4, 3, 2))
SSL_REQUEST_BYTES = 32
SHOWN_BYTES = 60
# MySQL's clients say before a text that it has no query attributes.
QUESTION = re.compile(rb"\x03(?:\x00\x01)?SELECT HEX\(@@sql_mode\)")
TEXT_IN_TEXT = re.compile(rb"(?:\x00\x01)?\s*(?:/\*M?!\d*\s*)?(prepare\s+\S+\s+from|execute\s+immediate)\b", re.IGNORECASE)
# Its text is no literal.
HIDDEN_TEXT = re.compile(TEXT_IN_TEXT.pattern + rb"\s*(?!['\"\s])", re.IGNORECASE)
COM_QUERY, COM_BINLOG_DUMP = 0x03, 0x12
# Error 1158, which answers nothing: MySQL sends it to who closes without COM_QUIT. That is the proxy, which is stopped with its test
# while a client that the test has left behind is still there.
CLOSED_WITHOUT_QUIT = re.compile(rb"...\0\xff\x86\x04#08S01Got an error reading communication packets", re.DOTALL)
# Of each command, so much is kept.
BEGINNING_BYTES = 256

_pairs = {}


class Commands:
    """What a client has sent, as far as it tells which questions of the proxy are to be expected."""

    def __init__(self):
        self.hides_text, self.dumps_binlog = False, False
        self._head, self._left = bytearray(), 0

    def add(self, data):
        """Takes bytes of any number of packets."""
        at = 0
        while at < len(data):
            if self._left:
                taken = min(self._left, len(data) - at)
                if len(self._head) < BEGINNING_BYTES:
                    self._head += data[at : at + min(taken, BEGINNING_BYTES)]
                self._left -= taken
                at += taken
                if not self._left:
                    self._see(bytes(self._head[4:]), self._head[3])
                    self._head.clear()
                continue
            self._head.append(data[at])
            at += 1
            if len(self._head) == 4:
                self._left = int.from_bytes(self._head[:3], "little")
                if not self._left:
                    self._head.clear()

    def _see(self, payload, number):
        if number == 0 and payload[0] == COM_QUERY and HIDDEN_TEXT.match(payload, 1):
            self.hides_text = True
        if number == 0 and payload[0] == COM_BINLOG_DUMP:
            self.dumps_binlog = True


class Way:
    """What one direction of a session carries, on the client's side and on the server's."""

    def __init__(self, name):
        self.name, self.compared, self.difference, self.hidden = name, 0, None, False
        self.last = bytearray()
        self.waiting = {"client": bytearray(), "server": bytearray()}
        self.commands = Commands()

    def add(self, side, data):
        if self.difference:
            return
        if (self.name, side) == ("up", "client"):
            self.commands.add(data)
        self.waiting[side] += data
        one, other = self.waiting["client"], self.waiting["server"]
        length = min(len(one), len(other))
        if one[:length] != other[:length]:
            at = next(nth for nth in range(length) if one[nth] != other[nth])
            asks = self.name == "up" and bool(QUESTION.match(other, at + 4))
            self.hidden = asks and (self.commands.hides_text or bool(TEXT_IN_TEXT.match(one, at + 5)))
            self.difference = (f"{self.name}, byte {self.compared + at} behind the login: on the client's side "
                               f"{bytes(one[max(0, at - 20):at + SHOWN_BYTES])!r}, on the server's "
                               f"{bytes(other[max(0, at - 20):at + SHOWN_BYTES])!r}")  # fmt: skip
            return
        self.compared += length
        self.last = (self.last + one[:length])[-SHOWN_BYTES:]
        del one[:length], other[:length]

    def end(self, gone):
        """What one side alone has. What was still sent to who had gone is nobody's loss."""
        client, server = self.waiting["client"], self.waiting["server"]
        if self.difference or not (client or server):
            return
        side, rest = ("client", client) if client else ("server", server)
        # Who leaves says so, or just closes the connection.
        if self.name == "up" and rest == b"\1\0\0\0\1":
            return
        if (self.name, side) == ("up", "client") and "server" in gone or (self.name, side) == ("down", "server") and "client" in gone:
            return
        if (self.name, side) == ("down", "server") and CLOSED_WITHOUT_QUIT.fullmatch(rest):
            return
        self.difference = f"{self.name}: {len(rest)} bytes on the {side}'s side alone: {bytes(rest[:SHOWN_BYTES])!r}, behind {bytes(self.last)!r}"


class Pair:
    def __init__(self, number):
        self.number, self.ways = number, {"up": Way("up"), "down": Way("down")}
        self.sides, self.gone, self.open, self.has_tls = set(), set(), 0, False

    def finish(self):
        # Nobody was let in: what the proxy says to a broken login is its own.
        was_let_in = self.ways["down"].compared > 0
        if self.has_tls or not was_let_in:
            return
        for way in self.ways.values():
            way.end(self.gone)
        up, down = self.ways["up"], self.ways["down"]
        line = {"test": TEST, "id": self.number, "up": up.compared, "down": down.compared, "difference": up.difference or down.difference, "hidden": up.hidden, "refused": up.commands.dumps_binlog}
        with open(REPORT, "a") as report:
            report.write(json.dumps(line) + "\n")


class Side:
    """A session on one side of the proxy."""

    def __init__(self, side):
        self.side, self.pair, self.key = side, None, None
        self.first = {"up": bytearray(), "down": bytearray()}

    def carry(self, way, data):
        first = self.first[way]
        if first is None:
            if self.pair:
                self.pair.ways[way].add(self.side, data)
            return
        first += data
        if len(first) < 4 or len(first) < 4 + int.from_bytes(first[:3], "little"):
            return
        length = 4 + int.from_bytes(first[:3], "little")
        packet, rest = bytes(first[4:length]), bytes(first[length:])
        self.first[way] = None
        if way == "down" and packet[:1] == b"\x0a":
            at = packet.index(b"\0") + 1
            number = struct.unpack_from("<I", packet, at)[0]
            self.pair = _pairs.setdefault(packet[at : at + 12], Pair(number))
            self.key = packet[at : at + 12]
            self.pair.sides.add(self.side)
            self.pair.open += 1
        if way == "up" and self.pair and len(packet) == SSL_REQUEST_BYTES:
            self.pair.has_tls = True
        if rest:
            self.carry(way, rest)

    def end(self, who):
        if not self.pair:
            return
        if (self.side, who) in (("client", "up"), ("server", "down")):
            self.pair.gone.add(self.side)
        self.pair.open -= 1
        if self.pair.open == 0 and self.pair.sides == {"client", "server"}:
            _pairs.pop(self.key, None)
            self.pair.finish()


async def relay(side, to, reader, writer):
    session = Side(side)
    try:
        on_reader, on_writer = await asyncio.open_connection(to, PORT)
    except OSError:
        writer.close()
        return
    for one in (writer, on_writer):
        one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ended = []

    async def carry(way, source, sink):
        try:
            while data := await source.read(1 << 16):
                session.carry(way, data)
                sink.write(data)
                await sink.drain()
            sink.write_eof()
        except OSError:
            sink.close()
        ended.append(way)

    await asyncio.gather(carry("up", reader, on_writer), carry("down", on_reader, writer))
    session.end(ended[0])
    writer.close()
    on_writer.close()


async def main():
    for here, side, to in ((FOR_PROXY, "server", SERVER), (CLIENTS, "client", PROXY)):
        await asyncio.start_server(lambda reader, writer, side=side, to=to: relay(side, to, reader, writer), here, PORT)
    await asyncio.Event().wait()


asyncio.run(main())
