#!/usr/bin/env python3
"""A TCP relay that holds each byte back for half a round trip, in both directions: delayed.py PORT MILLISECONDS.

Prints the port of 127.0.0.1 that it listens on, and ends with a signal. MILLISECONDS is the round trip that it adds. It adds no limit of
the bandwidth: what comes while bytes are held back goes out half a round trip after it came, too.
"""

import queue
import socket
import sys
import threading
import time


def pass_on(source, target, seconds):
    held = queue.SimpleQueue()

    def send():
        while True:
            due, data = held.get()
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            try:
                target.sendall(data) if data else target.shutdown(socket.SHUT_WR)
            except OSError:
                return
            if not data:
                return

    threading.Thread(target=send, daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(1 << 18)
        except OSError:
            data = b""
        held.put((time.monotonic() + seconds, data))


def main():
    port, seconds = int(sys.argv[1]), float(sys.argv[2]) / 2000
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", port))
        except OSError:
            client.close()
            continue
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pass_on, args=(one, other, seconds), daemon=True).start()


if __name__ == "__main__":
    main()
