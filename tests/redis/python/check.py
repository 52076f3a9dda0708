"""What the program of a client is asked to do, and the count of its checks: see ../README.md."""

import os
import sys
import time

PORTS = [int(port) for port in os.environ["ROWSTAMP_PORTS"].split()]
CA = os.environ["ROWSTAMP_CA"]
WRITER, READER = ("labels", "s3cret"), ("reader", "r3ad")
ORDERS, STEPPED, T, NOPE = "shop.orders", "shop.stepped", "shop.t", "shop.nope"
# The second proxy's sequences begin here: an id tells who gave it.
SECOND = 1_000_000_000
# After a proxy was killed, a client must have an id from the other one within so many seconds.
SOON = 15


class Check:
    def __init__(self):
        self.checks = self.wrong = 0
        self.ids = set()

    def that(self, what, holds, found=""):
        self.checks += 1
        if not holds:
            self.wrong += 1
            print(f"WRONG {what}: {found}", flush=True)

    def same(self, what, found, expect):
        self.that(what, found == expect, f"{found!r}, and not {expect!r}")

    def drawn(self, what, key, ids):
        ids = list(ids)
        self.that(f"{what}: whole numbers", all(type(one) is int for one in ids), ids)
        new = {(key, one) for one in ids}
        self.that(f"{what}: ids that nobody has", len(new) == len(ids) and not self.ids & new, ids)
        self.ids |= new

    def refused(self, what, kinds, text, call):
        try:
            found = call()
        except kinds as error:
            self.that(f"{what}: its error", text in str(error), f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - any other kind is what is looked for
            self.that(f"{what}: the kind of its error", False, f"{type(error).__name__}: {error}")
        else:
            self.that(f"{what}: an error", False, repr(found))

    def end(self, client):
        if self.wrong == 0:
            print(f"ok {client}: {self.checks} checks", flush=True)
        sys.exit(self.wrong != 0)


def draw(check, client, step=1, key=ORDERS, first=None):
    """INCR, INCRBY, a pipeline and ROWSTAMP.TAKE of a sequence; the last id. `first`: an id that was drawn just now."""
    if first is None:
        first = client.incr(key)
        check.drawn(f"INCR {key}", key, [first])
    last = client.incrby(key, 10)
    check.drawn(f"INCRBY {key} 10", key, range(first + step, last + 1, step))
    check.same(f"INCRBY {key} 10", last, first + 10 * step)
    ids = client.pipeline([key] * 100)
    check.drawn(f"100 INCR {key} in a pipeline", key, ids)
    check.same(f"100 INCR {key} in a pipeline", ids, [last + nth * step for nth in range(1, 101)])
    runs = client.raw("ROWSTAMP.TAKE", key, 5)
    check.same(f"ROWSTAMP.TAKE {key} 5", runs, [ids[-1] + step, 5, step])
    last = runs[0] + 4 * step
    check.drawn(f"ROWSTAMP.TAKE {key} 5", key, range(runs[0], last + 1, step))
    return last


def draw_timestamps(check, client):
    first = client.incr(T)
    check.drawn(f"INCR {T}", T, [first])
    last = client.incrby(T, 10)
    check.drawn(f"INCRBY {T} 10", T, range(last - 9, last + 1))
    ids = client.pipeline([T] * 100)
    check.drawn(f"100 INCR {T} in a pipeline", T, ids)
    check.that(f"{T} ascends", first < last - 9 and [last, *ids] == sorted([last, *ids]), [first, last, *ids])
    # The last digits are there: no number that is not whole can hold them.
    check.that(f"{T} is above 2^53", first > 1 << 53, first)
    runs = client.raw("ROWSTAMP.TAKE", T, 10)
    check.same(f"ROWSTAMP.TAKE {T} 10: how many", sum(runs[1::3]), 10)
    for at in range(0, len(runs), 3):
        begin, count, step = runs[at : at + 3]
        check.drawn(f"ROWSTAMP.TAKE {T} 10", T, range(begin, begin + count * step, step))
    parts = client.raw("ROWSTAMP.DECODE", T, first)
    check.that(f"ROWSTAMP.DECODE {T}", parts.get("node") == (1 if client.second else 0), parts)


def run(check, open_client, errors, *, is_cluster):
    """open_client((user, password)): a client. errors: the kinds of what an error of the server, NOPERM, WRONGPASS and SET raise."""
    of_server, of_right, of_login, of_set = errors
    client = open_client(WRITER)
    check.same("GET before the first id", client.get(ORDERS), None)
    first = client.incr(ORDERS)
    check.drawn(f"INCR {ORDERS}", ORDERS, [first])
    client.second = first >= SECOND
    last = draw(check, client, first=first)
    check.same(f"GET {ORDERS}", client.get(ORDERS), str(last))
    # Different keys of one command have different slots, and then a cluster client does not send it.
    several = [ORDERS, ORDERS] if is_cluster else [ORDERS, STEPPED, NOPE]
    check.same("MGET", client.mget(several), [str(last), str(last)] if is_cluster else [str(last), None, None])
    check.same("EXISTS", client.exists(several), 2)
    draw(check, client, step=10, key=STEPPED)
    draw_timestamps(check, client)
    check.same("ROWSTAMP.LIST", client.raw("ROWSTAMP.LIST"), [ORDERS, STEPPED, T])
    check.refused(f"INCR {NOPE}", of_server, "the rules have no generator", lambda: client.incr(NOPE))
    check.refused("SET", of_set, "SET", lambda: client.set(ORDERS, 1))
    check.refused("INCRBY 0", of_server, "is not a number of ids", lambda: client.incrby(ORDERS, 0))
    reader = open_client(READER)
    check.that("GET as a reader", reader.get(ORDERS) is None or reader.get(ORDERS).isdigit(), reader.get(ORDERS))
    check.refused("INCR as a reader", of_right, "has no", lambda: reader.incr(ORDERS))
    check.refused("a wrong password", of_login, "password", lambda: open_client(("reader", "wrong")).get(ORDERS))
    check.drawn(f"INCR {ORDERS} after all errors", ORDERS, [client.incr(ORDERS)])
    if is_cluster:
        lose(check, client)


def lose(check, client):
    """The proxy that the client uses is killed: it has to go on with the other one."""
    print(f"kill {2 if client.second else 1}", flush=True)
    sys.stdin.readline()
    begun, failed = time.monotonic(), []
    while True:
        try:
            first = client.incr(ORDERS)
            break
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is asked again
            failed.append(f"{type(error).__name__}: {error}")
            if time.monotonic() - begun > SOON:
                check.that("the other proxy", False, f"{len(failed)} calls failed, the last with {failed[-1][:300]}")
                return
            time.sleep(0.05)
    why = f" ({failed[0]})" if failed else ""
    print(f"note went on after {time.monotonic() - begun:.2f} s, {len(failed)} calls failed{why}", flush=True)
    client.second = not client.second
    check.that("the other proxy", (first >= SECOND) == client.second, first)
    check.drawn(f"INCR {ORDERS} of the other proxy", ORDERS, [first])
    draw(check, client, first=first)
    draw(check, client, step=10, key=STEPPED)
    draw_timestamps(check, client)
