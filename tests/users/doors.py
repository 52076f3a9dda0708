"""INSERTs, calls in SQL, clients of Redis and of HTTP draw the same ids while proxies are killed: see ../doors.sh."""

import argparse
import base64
import contextlib
import http.client
import itertools
import json
import random
import secrets
import signal
import threading
import time

import pymysql
import redis

from checks import Checks, code_of, to_the_end
from fleet import Etcd, Proxy, ask, rows

RULES = """schema = "shop"

[generators.orders]
kind = "sequence"
sql = true

[generators.events]
kind = "timestamp"
layout = "snowflake"
sql = true

[tables.orders]
column = "id"
generator = "orders"

[tables.events]
column = "id"
generator = "events"
"""
GENERATORS = ("shop.orders", "shop.events")
# What a REVOKE takes away gives no id after so many seconds.
ACTS_WITHIN = 1.0
# Of one tick of the layout, which is what INCRBY gives of a timestamp generator.
RUN_MAX = 4096
ROWS_MAX = 1000
# With fewer, nothing is known of what they take away.
REVOKES_MIN = 4
# The user has no right, by whichever way it asks.
DENIED = {"NOPERM", "403", "1142"}
# No ids at the moment: the proxy is not the owner of a node yet, or the like.
NO_IDS = {"TRYAGAIN", "503", "1467"}


class Refused(Exception):
    """An error of a door's own: its code."""


class OfRedis:
    name = "Redis"

    def __init__(self, proxy, user, secret):
        self.connection = proxy.redis(user, secret, random.choice((2, 3)))

    def draw(self, generator, n):
        if n == 1:
            # A pipeline.
            for _ in range(32):
                self.connection.send_command("INCR", generator)
            answers = [self.answer() for _ in range(32)]
            given = [(id, id) for id in answers if isinstance(id, int)]
            if not given:
                raise Refused(answers[0])
            return given
        if n % 2:
            last = ask(self.connection, "INCRBY", generator, n)
            return [(last - n + 1, last)]
        taken = ask(self.connection, "ROWSTAMP.TAKE", generator, n)
        # First, count and step of each run.
        runs = zip(taken[::3], taken[1::3], taken[2::3])
        return [(first, first + (count - 1) * step) for first, count, step in runs]

    def answer(self):
        try:
            return self.connection.read_response(disconnect_on_error=False)
        except redis.exceptions.ResponseError as error:
            return code_of(error)

    def close(self):
        self.connection.disconnect()


class OfHttp:
    name = "HTTP"

    def __init__(self, proxy, user, secret):
        self.connection = http.client.HTTPConnection("127.0.0.1", proxy.api_port, timeout=30)
        login = base64.b64encode(f"{user}:{secret}".encode()).decode()
        self.headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        self.connection.connect()

    def draw(self, generator, n):
        self.connection.request("POST", f"/v1/generators/{generator}/ids", json.dumps({"count": n}), self.headers)
        answer = self.connection.getresponse()
        body = json.loads(answer.read())
        if answer.status != 200:
            raise Refused(str(answer.status))
        if "ids" in body:
            return [(int(id), int(id)) for id in body["ids"]]
        first = int(body["first"])
        return [(first, first + (body["count"] - 1) * body["step"])]

    def close(self):
        self.connection.close()


class OfCalls:
    name = "calls in SQL"

    def __init__(self, proxy, user, secret):
        self.connection = proxy.sql(user, secret)

    def draw(self, generator, n):
        n = min(n, RUN_MAX)
        first = rows(self.connection, f"SELECT ROWSTAMP_TAKE({generator}, {n})")[0][0]
        return [(first, first + n - 1)]

    def close(self):
        self.connection.close()


class OfInserts:
    """The ids are read from the tables at the end; `told` has the statements that were answered."""

    name = "INSERTs"
    numbers = itertools.count(1)
    told = {}

    def __init__(self, proxy, user, secret):
        self.connection = proxy.sql(user, secret)
        self.connection.autocommit(True)

    def draw(self, generator, n):
        n, statement = n % ROWS_MAX + 1, next(self.numbers)
        with self.connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {generator} (statement) VALUES " + ",".join([f"({statement})"] * n))
        self.told[generator, statement] = n
        return []

    def close(self):
        self.connection.close()


class Drawer(threading.Thread):
    """Draws ids of one proxy in one way as one user until it is over, and connects again whenever the proxy was killed."""

    def __init__(self, campaign, proxy, way, user, secret, most):
        super().__init__(name=f"{user} by {way.name} at proxy {proxy.nth}", daemon=True)
        self.campaign, self.proxy, self.way, self.login, self.most = campaign, proxy, way, (user, secret), most
        self.random = random.Random(f"{campaign.args.seed} {self.name}")
        # (when it was asked for, generator, first, last); codes of refusals, and how many.
        self.runs, self.denied, self.odd, self.lost, self.count = [], 0, [], 0, 0

    def run(self):
        connection = None
        while not self.campaign.is_over.is_set():
            try:
                connection = connection or self.way(self.proxy, *self.login)
                generator, n = self.random.choice(GENERATORS), self.random.choice((1, self.random.randint(1, self.most)))
                asked_at = time.monotonic()
                for first, last in connection.draw(generator, n):
                    self.runs.append((asked_at, generator, first, last))
                    self.count += last - first + 1
            except Exception as error:  # noqa: BLE001 - what it is decides what comes of it
                code = str(error) if isinstance(error, Refused) else code_of(error)
                if code is None:
                    self.lost += 1
                    with contextlib.suppress(Exception):
                        connection.close()
                    connection = None
                    time.sleep(0.05)
                elif code in DENIED:
                    self.denied += 1
                    time.sleep(0.01)
                elif code in NO_IDS:
                    time.sleep(0.02)
                else:
                    self.odd.append(f"{self.name}: {code}")
                    time.sleep(0.2)
            # As much of the machine as is left by the proxies: ids are many by their number a request.
            time.sleep(0.005)


class Campaign(Checks):
    def __init__(self, args):
        super().__init__(args)
        self.kills = 0
        self.is_over = threading.Event()
        # When a right was revoked for sure, and when it was asked for again: pairs of times.
        self.revoked = []
        self.etcd = Etcd(args.folder)
        self.server = pymysql.connect(unix_socket=args.db_socket, user="root", autocommit=True)
        rows(self.server, "CREATE DATABASE shop")
        for generator in GENERATORS:
            rows(self.server, f"CREATE TABLE {generator} (id BIGINT PRIMARY KEY, statement BIGINT NOT NULL)")
        self.proxies = [Proxy(nth, args, self.etcd, RULES) for nth in range(3)]
        for proxy in self.proxies:
            proxy.wait()

    def user(self, name, *grants):
        """One of Rowstamp's, and one of MariaDB's of the same name."""
        secret = secrets.token_urlsafe(12)
        for statement in (f"CREATE USER IF NOT EXISTS {name} IDENTIFIED BY '{secret}'", *grants):
            self.typed(statement)
        rows(self.server, f"CREATE USER {name} IDENTIFIED BY '{secret}'")
        rows(self.server, f"GRANT SELECT, INSERT ON shop.* TO {name}")
        return secret

    def toggle(self):
        """Gives the right and takes it away, again and again."""
        while not self.is_over.wait(self.random.uniform(0.5, 3)):
            self.typed("REVOKE TAKE ON shop.* FROM sometimes")
            since = time.monotonic()
            self.is_over.wait(self.random.uniform(2, 4))
            self.revoked.append((since, time.monotonic()))
            self.typed("GRANT TAKE ON shop.* TO sometimes")

    def kill(self):
        proxy = self.random.choice(self.proxies)
        proxy.end(signal.SIGKILL)
        proxy.start()
        proxy.wait()
        self.kills += 1

    def run(self):
        print(f"seed {self.args.seed}", flush=True)
        labels = self.user("labels", "GRANT TAKE ON shop.* TO labels")
        never = self.user("never", "GRANT READ ON *.* TO never", "GRANT TAKE ON blog.* TO never")
        sometimes = self.user("sometimes", "GRANT TAKE ON shop.* TO sometimes")
        writer = secrets.token_urlsafe(12)
        rows(self.server, f"CREATE USER writer IDENTIFIED BY '{writer}'")
        rows(self.server, "GRANT SELECT, INSERT ON shop.* TO writer")
        time.sleep(ACTS_WITHIN)
        doors = (OfRedis, OfHttp, OfCalls)
        ways = [(way, "labels", labels, self.args.most) for way in doors] + [(OfInserts, "writer", writer, self.args.most)]
        ways += [(way, user, secret, 9) for way in doors for user, secret in (("never", never), ("sometimes", sometimes))]
        drawers = [Drawer(self, proxy, *way) for proxy in self.proxies for way in ways]
        toggler = threading.Thread(target=self.toggle, daemon=True)
        for thread in (*drawers, toggler):
            thread.start()
        began = told = time.monotonic()
        drawn = 0
        while self.kills < self.args.kills or drawn < self.args.ids or len(self.revoked) < REVOKES_MIN:
            if self.kills < self.args.kills:
                time.sleep(self.random.uniform(0, self.args.between))
                self.kill()
            else:
                time.sleep(0.5)
            drawn = sum(drawer.count for drawer in drawers) + sum(list(OfInserts.told.values()))
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"    {told - began:.0f} s: {self.kills} kills, {drawn} ids", flush=True)
        self.is_over.set()
        for thread in (*drawers, toggler):
            thread.join(60)
        self.judge(drawers, time.monotonic() - began)

    def judge(self, drawers, seconds):
        stored, wrong = self.stored()
        self.that(f"each of {len(OfInserts.told)} INSERTs that were answered has its rows: {sum(map(len, stored.values()))} rows", wrong)
        by_way, wrong, count = {}, [], 0
        for generator in GENERATORS:
            runs = [(id, id, "a row") for id in stored[generator]]
            for drawer in drawers:
                runs += [(first, last, drawer.name) for _, of, first, last in drawer.runs if of == generator]
            runs.sort()
            count += sum(last - first + 1 for first, last, _ in runs)
            for (_, before, one), (first, last, other) in itertools.pairwise(runs):
                if first <= before:
                    wrong.append(f"{generator}: ids from {first} to {min(before, last)} were given to {one} and to {other}")
        for drawer in drawers:
            by_way[drawer.way.name] = by_way.get(drawer.way.name, 0) + drawer.count
        by_way[OfInserts.name] = sum(map(len, stored.values()))
        shares = ", ".join(f"{ids} by {way}" for way, ids in by_way.items())
        self.that(f"none of {count} ids came twice ({shares}), under {self.kills} kill -9 in {seconds:.0f} s", wrong)
        if count < self.args.ids:
            self.that("as many ids as were wanted", [f"{count}"])
        of = {user: [drawer for drawer in drawers if drawer.login[0] == user] for user in ("labels", "never", "sometimes")}
        wrong = [f"{drawer.name} got {drawer.count} ids" for drawer in of["never"] if drawer.count]
        wrong += [f"{drawer.name} was never refused" for drawer in of["never"] + of["sometimes"] if not drawer.denied]
        wrong += [f"{drawer.name} was refused" for drawer in of["labels"] if drawer.denied]
        self.that(f"none of {sum(drawer.denied for drawer in of['never'])} requests without the right got an id", wrong)
        wrong = []
        for drawer in of["sometimes"]:
            for asked_at, generator, first, _ in drawer.runs:
                late = [asked_at - since for since, until in self.revoked if since + ACTS_WITHIN < asked_at < until]
                wrong += [f"{drawer.name}: id {first} of {generator}, asked for {late:.2f} s after the REVOKE" for late in late]
        ids = sum(drawer.count for drawer in of["sometimes"])
        if not ids:
            wrong.append("it never got an id")
        self.that(f"{len(self.revoked)} REVOKEs: no id was given that was asked for {ACTS_WITHIN:.0f} s after one; {ids} before", wrong)
        self.that("no error but those of kills and rights", [odd for drawer in drawers for odd in drawer.odd])
        lost = sum(drawer.lost for drawer in drawers)
        self.that(f"clients connected again, {lost} times in all", [] if lost >= self.kills or not self.kills else [f"{lost}"])

    def stored(self):
        """The ids of each table, and which statements were answered whose rows are not there, or half there."""
        ids, wrong = {}, []
        for generator in GENERATORS:
            by_statement = dict(rows(self.server, f"SELECT statement, COUNT(*) FROM {generator} GROUP BY statement"))
            told = {statement: n for (of, statement), n in OfInserts.told.items() if of == generator}
            wrong += [f"{generator}: statement {statement}: {by_statement.get(statement, 0)} of {n} rows"
                      for statement, n in told.items() if by_statement.get(statement) != n]  # fmt: skip
            with self.server.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(f"SELECT id FROM {generator}")
                ids[generator] = [id for (id,) in cursor]
        return ids, wrong


def main():
    parser = argparse.ArgumentParser()
    for name in ("folder", "binary", "db-socket"):
        parser.add_argument(f"--{name}")
    for name in ("db-port", "ids", "kills", "seed", "most"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--between", type=float, default=2.0)
    parser.add_argument("--control", nargs=2)
    to_the_end(Campaign, parser)


if __name__ == "__main__":
    main()
