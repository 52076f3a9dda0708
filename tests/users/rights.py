"""Users of the store lose what they had, while connections draw ids as them: see ../users.sh."""

import argparse
import contextlib
import datetime
import secrets
import statistics
import threading
import time

import pymysql
import redis

from checks import Checks, code_of, to_the_end
from fleet import Etcd, Proxy, Pulse, ask, rows
from search import forms, places

# What was taken away gives no id after so many seconds in which etcd answers.
ACTS_WITHIN = 1.0
LIMIT, DRAWN_AT_ONCE, QUOTA_SECONDS = 300, 10, 10
# What takes something away -> the connections that end by it, and the error that each then gets.
# An SQL account whose name no user of the store has may draw: the server alone decides about it. So it goes on after DROP USER.
ENDS = {
    "REVOKE": {"password": "NOPERM", "token": "NOPERM", "sql": "1142"},
    "DROP USER": {"password": "NOAUTH", "token": "NOAUTH"},
    "ALTER USER": {"password": "NOAUTH"},
    "DROP TOKEN": {"token": "NOAUTH"},
    "EXPIRES": {"token": "NOAUTH"},
}
# No ids at the moment: etcd is away.
NO_IDS = {"TRYAGAIN", "1467"}


class Campaign(Checks):
    def __init__(self, args):
        super().__init__(args)
        self.canaries, self.gone = {}, []  # secret -> whether it is a token; (user, secret) that nobody can log in by any more.
        self.drawers, self.runs = [], []  # All that ever drew; (generator, first, last, who) of those that drew many.
        self.lags = []
        self.etcd = Etcd(args.folder)
        self.pulse = Pulse(self.etcd)
        self.pulse.start()
        self.proxies = [Proxy(nth, args, self.etcd) for nth in range(3)]
        for proxy in self.proxies:
            proxy.wait()
        self.server = pymysql.connect(unix_socket=args.db_socket, user="root", autocommit=True)
        rows(self.server, "CREATE DATABASE shop")

    def canary(self):
        secret = f"c4nary-{secrets.token_urlsafe(18)}"
        self.canaries[secret] = False
        return secret

    def new_token(self, user, expires=""):
        (row,), _ = self.typed(f"CREATE TOKEN FOR {user}{expires}")
        self.canaries[row[1]] = True
        return row[1], row[2]

    def account(self, user):
        """At MariaDB, of the same name."""
        password = self.canary()
        rows(self.server, f"CREATE USER {user} IDENTIFIED BY '{password}'")
        rows(self.server, f"GRANT SELECT ON shop.* TO {user}")
        return password

    def round(self, nth, what):
        user, password = f"app{nth}", self.canary()
        self.typed(f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{password}'")
        self.typed(f"GRANT TAKE, READ ON shop.* TO {user}")
        of_sql = self.account(user)
        expires, end = "", None
        if what == "EXPIRES":
            at = int(time.time()) + 8
            expires = f" EXPIRES '{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d %H:%M:%S}'"
            end = time.monotonic() + at - time.time()
        token, token_id = self.new_token(user, expires)
        time.sleep(ACTS_WITHIN)
        drawers = []
        for proxy in self.proxies:
            drawers.append(OfRedis(user, "password", proxy, proxy.redis(user, password, 2)))
            drawers.append(OfRedis(user, "token", proxy, proxy.redis(user, token, 3)))
            drawers.append(OfSql(user, "sql", proxy, proxy.sql(user, of_sql)))
        self.drawers += drawers
        for drawer in drawers:
            drawer.start()
        begins = (end or time.monotonic() + 1.5) + self.random.uniform(-0.1, 0.1) * (end is None)
        killed, killer = None, None
        if self.args.kills == "on":
            killed = self.etcd.leader() if self.random.random() < 0.5 else self.random.randrange(3)
            offset = self.random.uniform(-1.0, 0.5)
            killer = threading.Timer(max(0, begins + offset - time.monotonic()), self.etcd.kill, [killed])
            killer.start()
        time.sleep(max(0, begins - time.monotonic()))
        another = self.canary()
        statement = {
            "REVOKE": f"REVOKE TAKE ON shop.* FROM {user}",
            "DROP USER": f"DROP USER IF EXISTS {user}",
            "ALTER USER": f"ALTER USER {user} IDENTIFIED BY '{another}'",
            "DROP TOKEN": f"DROP TOKEN {token_id} FOR {user}",
        }.get(what)
        done = self.typed(statement)[1] if statement else begins
        took = done - begins
        wrong = self.ended(drawers, ENDS[what], done)
        for drawer in drawers:
            drawer.end()
            wrong += [f"{drawer.name}: {odd}" for odd in drawer.odd]
        if what == "ALTER USER":
            for proxy in self.proxies:
                proxy.redis(user, another, 3).disconnect()
        if killer:
            killer.join()
            self.etcd.start(killed)
            self.etcd.wait(killed)
        lags = [drawer.lag(done) for drawer in drawers if drawer.kind in ENDS[what]]
        self.lags += lags
        ids = sum(len(drawer.ids) for drawer in drawers)
        kill = f", member {killed} killed {begins + offset - done:+.2f} s from its OK" if killer else ""
        self.that(
            f"round {nth}, {what}{kill}: OK after {took:.2f} s; the last ids {in_ms(lags)} later; {ids} ids drawn", wrong
        )
        if what != "REVOKE":
            self.gone.append((user, token if what in ("DROP TOKEN", "EXPIRES") else password))

    def ended(self, drawers, ends, done):
        """Waits until all have ended that must, and two seconds longer, and until all others have got another id: what is wrong."""
        def is_settled(drawer):
            if drawer.kind in ends:
                return drawer.refused and drawer.refused[-1] == ends[drawer.kind]
            return drawer.ids and drawer.ids[-1][0] > done + 2

        while time.monotonic() < done + 2.5 or (time.monotonic() < done + 15 and not all(map(is_settled, drawers))):
            time.sleep(0.02)
        wrong = []
        for drawer in drawers:
            if drawer.kind not in ends:
                if drawer.refused:
                    wrong.append(f"{drawer.name} was refused ({drawer.refused[0]})")
                elif not is_settled(drawer):
                    wrong.append(f"{drawer.name} got no id for {time.monotonic() - done:.1f} s")
                continue
            if set(drawer.refused) != {ends[drawer.kind]}:
                wrong.append(f"{drawer.name} was refused by {sorted(set(drawer.refused))}, and not by {ends[drawer.kind]}")
            # Nobody can know of a change while etcd elects a leader: that time does not count.
            away = self.pulse.away(done, done + drawer.lag(done))
            if drawer.lag(done) - away > ACTS_WITHIN:
                wrong.append(f"{drawer.name} got an id {drawer.lag(done):.2f} s after the OK; etcd answered nobody for {away:.2f} s of them")
        return wrong

    def quotas(self):
        user, password = "quota", self.canary()
        of_sql = self.account(user)
        self.typed(f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{password}'")
        time.sleep(ACTS_WITHIN)
        connections = [proxy.redis(user, password, 2) for proxy in self.proxies]
        wrong = []
        for proxy, connection in zip(self.proxies, connections):
            for call in (lambda: ask(connection, "INCR", "shop.orders"), lambda: next_value(proxy.sql(user, of_sql))):
                code = outcome(call)[0]
                if code not in ("NOPERM", "1142"):
                    wrong.append(f"proxy {proxy.nth}: {code or 'an id'}")
        self.that("a user without a grant gets no id, by Redis or by SQL", wrong)

        self.typed(f"GRANT TAKE ON shop.* TO {user} LIMIT {LIMIT} PER SECOND")
        time.sleep(ACTS_WITHIN)
        wrong, drawn, end = [], [0] * len(connections), time.monotonic() + QUOTA_SECONDS

        def draw(nth):
            while time.monotonic() < end:
                code, last = outcome(lambda: ask(connections[nth], "INCRBY", "shop.orders", DRAWN_AT_ONCE))
                if code is None:
                    drawn[nth] += DRAWN_AT_ONCE
                    self.runs.append(("shop.orders", last - DRAWN_AT_ONCE + 1, last, f"{user} at proxy {nth}"))
                elif "QUOTA" not in code:
                    wrong.append(f"proxy {nth}: {code}")
                    return

        threads = [threading.Thread(target=draw, args=[nth]) for nth in range(len(connections))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        least, most = LIMIT * QUOTA_SECONDS * 0.8, LIMIT * QUOTA_SECONDS * 1.15 + len(connections) * LIMIT
        if not least <= sum(drawn) <= most:
            wrong.append(f"{sum(drawn)} ids: not {least:.0f} to {most:.0f}")
        self.that(f"LIMIT {LIMIT} PER SECOND: {sum(drawn)} ids in {QUOTA_SECONDS} s, {drawn} by proxy, at most {most:.0f}", wrong)

    def unique(self):
        given, wrong, count = {}, [], 0
        singles = ((generator, id, id, drawer.name) for drawer in self.drawers for _, generator, id in drawer.ids)
        for generator, first, last, who in (*singles, *self.runs):
            for id in range(first, last + 1):
                count += 1
                other = given.setdefault((generator, id), who)
                if other is not who:
                    wrong.append(f"{generator}: {id} was given to {other} and to {who}")
        for drawer in self.drawers:
            if len({(generator, id) for _, generator, id in drawer.ids}) < len(drawer.ids):
                wrong.append(f"{drawer.name} got an id twice")
        self.that(f"no id of {count} was given twice", wrong)

    def search(self):
        # Statements that are wrong, and logins that fail: what they are told, and the log, shall have no secret either.
        told = []
        for statement in (
            "CREATE USER other IDENTIFIED BYE '{}'", "CREATE USER other IDENTIFIED BY '{}' NOW", "CREATE USER other '{}'",
            "ALTER USER nobody IDENTIFIED BY '{}'", "ALTER USER nobody IDENTIFIED '{}'", "CREATE USER dba IDENTIFIED BY '{}'",
            "CREATE USER quota IDENTIFIED BY '{}'", "CRATE USER other IDENTIFIED BY '{}'", "CREATE USER other IDENTIFIED BY \"{}",
            "SET PASSWORD = '{}'",
        ):  # fmt: skip
            with contextlib.closing(self.proxies[0].console()) as console:
                told.append(outcome(lambda: rows(console, statement.format(self.canary())))[1])
        wrong = []
        # After ten wrong ones nobody may log in from this address for a while.
        for proxy, (user, secret) in zip(self.proxies * 2, self.gone):
            code = outcome(lambda: proxy.redis(user, secret, 2))[0]
            if code != "NOAUTH":
                wrong.append(f"{user} at proxy {proxy.nth}: {code or 'logged in'}")
        self.that("nobody logs in by a password or token that is gone", wrong)

        sought = {form: secret for secret, is_token in self.canaries.items() for form in forms(secret, is_token)}
        found, names, size, wrong = [*places(self.proxies, self.etcd), ("errors", repr(told).encode())], set(), 0, []
        for name, text in found:
            size += len(text)
            wrong += [f"{name}: {form.decode()}" for form in sought if form in text]
            names |= {name} if b"quota" in text else set()
        # The search finds what is there.
        for nth in range(3):
            expected = {f"proxy-{nth}/audit.log", f"proxy-{nth}/log", f"proxy-{nth} SHOW USERS", f"proxy-{nth} SHOW GRANTS"}
            wrong += [f"{name} does not name a user" for name in sorted((expected | {"etcdctl get"}) - names)]
        tokens = sum(self.canaries.values())
        self.that(
            f"none of {len(self.canaries) - tokens} passwords and {tokens} tokens is in {len(found)} places of {size >> 20} MiB", wrong
        )

    def run(self):
        print(f"seed {self.args.seed}", flush=True)
        kinds = list(ENDS)
        for nth in range(self.args.rounds):
            self.round(nth + 1, kinds[nth % len(kinds)])
        if self.lags:
            print(f"from the OK to the last id, of {len(self.lags)} connections: {in_ms(self.lags)}", flush=True)
        print(f"a statement was OK after {in_ms(self.waits)}", flush=True)
        self.quotas()
        self.unique()
        self.search()


def in_ms(seconds):
    if not seconds:
        return "none"
    least, middle, most = (1000 * of(seconds) for of in (min, statistics.median, max))
    return f"min {least:.0f}, median {middle:.0f}, max {most:.0f} ms"


def next_value(connection):
    return "shop.items", rows(connection, "SELECT NEXTVAL(items)")[0][0]


def outcome(call):
    """(None, what it gives), or the code of its error and its text."""
    try:
        return None, call()
    except (redis.RedisError, pymysql.MySQLError) as error:
        return code_of(error) or f"{type(error).__name__}: {error}", str(error)


class Drawer(threading.Thread):
    """Draws ids until it is ended, also after it was refused."""

    def __init__(self, user, kind, proxy, connection):
        super().__init__(name=f"{user} by {kind} at proxy {proxy.nth}", daemon=True)
        self.kind, self.connection = kind, connection
        # (when its answer came, generator, id); the codes of errors that take something away; other errors.
        self.ids, self.refused, self.odd = [], [], []
        self.is_over = threading.Event()

    def run(self):
        nth = 0
        while not self.is_over.wait(0.001 if not self.refused else 0.01):
            nth += 1
            code, found = outcome(lambda: self.draw(nth))
            if code is None:
                self.ids.append((time.monotonic(), *found))
            elif code in ("NOAUTH", "NOPERM", "1142"):
                self.refused.append(code)
            elif code not in NO_IDS:
                self.odd.append(f"{code}: {found}")
                return

    def end(self):
        self.is_over.set()
        self.join()

    def lag(self, since):
        return self.ids[-1][0] - since if self.ids else 0.0


class OfRedis(Drawer):
    def draw(self, nth):
        generator = ("shop.orders", "shop.items")[nth % 2]
        return generator, ask(self.connection, "INCR", generator)


class OfSql(Drawer):
    def draw(self, _nth):
        return next_value(self.connection)


def main():
    parser = argparse.ArgumentParser()
    for name in ("folder", "binary", "db-socket", "kills"):
        parser.add_argument(f"--{name}")
    for name in ("db-port", "rounds", "seed"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--control", nargs=2)
    to_the_end(Campaign, parser)


if __name__ == "__main__":
    main()
