"""Three members of etcd, three proxies on it, and what connects to them. The servers are children of this process, and end with it."""

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pymysql
import redis

DBA, DBA_PASSWORD = "dba", "console-secret"
RULES = """schema = "shop"

[generators.orders]
kind = "sequence"

[generators.items]
kind = "sequence"
sql = true
"""


def free_port():
    """Below the ports that the system gives to clients."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return port


def wait_until(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read()


class Server:
    def __init__(self, folder):
        self.folder, self.child = folder, None
        os.makedirs(folder)

    def spawn(self, *line):
        with open(f"{self.folder}/log", "ab") as log:
            # The kernel kills it when this process ends, however that ends.
            self.child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *line], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def end(self, by=signal.SIGTERM):
        if self.child is None:
            return
        self.child.send_signal(by)
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.child = None

    def log(self):
        with open(f"{self.folder}/log", "rb") as log:
            return log.read()


class Etcd:
    def __init__(self, folder):
        self.members = [Server(f"{folder}/etcd-{nth}") for nth in range(3)]
        self.ports = [(free_port(), free_port()) for _ in self.members]
        self.endpoints = [f"127.0.0.1:{client}" for client, _ in self.ports]
        for nth in range(3):
            self.start(nth)
        for nth in range(3):
            self.wait(nth)

    def start(self, nth):
        client, peer = (f"http://127.0.0.1:{port}" for port in self.ports[nth])
        everybody = ",".join(f"m{other}=http://127.0.0.1:{peer}" for other, (_, peer) in enumerate(self.ports))
        self.members[nth].spawn(
            "etcd", f"--name=m{nth}", f"--data-dir={self.members[nth].folder}/data",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={everybody}",
        )  # fmt: skip

    def wait(self, nth):
        def is_healthy():
            try:
                return json.loads(get(self.ports[nth][0], "/health"))["health"] == "true"
            except OSError:
                return False

        wait_until(f"etcd's member {nth} is healthy", 60, is_healthy)

    def kill(self, nth):
        self.members[nth].end(signal.SIGKILL)

    def ctl(self, *words):
        line = ["etcdctl", f"--endpoints={','.join(self.endpoints)}", *words]
        return subprocess.run(line, env=os.environ | {"ETCDCTL_API": "3"}, capture_output=True, check=True).stdout

    def leader(self):
        for nth, status in enumerate(json.loads(self.ctl("endpoint", "status", "-w", "json"))):
            if status["Status"]["header"]["member_id"] == status["Status"]["leader"]:
                return nth
        return 0


class Pulse(threading.Thread):
    """Reads from etcd all the time, so that it is known when there was no leader who answers."""

    def __init__(self, etcd):
        super().__init__(daemon=True)
        self.ports, self.answers = [client for client, _ in etcd.ports], [time.monotonic()]

    def run(self):
        for port in itertools.cycle(self.ports):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/kv/range", b'{"key":"AA=="}')
            try:
                with urllib.request.urlopen(request, timeout=0.2) as answer:
                    answer.read()
                self.answers.append(time.monotonic())
            except OSError:
                pass
            time.sleep(0.02)

    def away(self, since, until):
        """The longest time without an answer in this time, in seconds."""
        times = [since, *(at for at in self.answers if since < at < until), until]
        return max(after - before for before, after in itertools.pairwise(times))


class Proxy(Server):
    def __init__(self, nth, args, etcd, rules=RULES):
        super().__init__(f"{args.folder}/proxy-{nth}")
        self.nth, self.binary = nth, args.binary
        self.sql_port, self.redis_port, self.api_port, self.console_port, self.http_port = (free_port() for _ in range(5))
        os.makedirs(f"{self.folder}/rules")
        self.config = f"{self.folder}/rowstamp.toml"
        with open(f"{self.folder}/rules/shop.toml", "w", encoding="utf-8") as file:
            file.write(rules)
        with open(self.config, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(f"""[listen]
address = "127.0.0.1:{self.sql_port}"
[backend]
address = "127.0.0.1:{args.db_port}"
[backend.control]
user = "{args.control[0]}"
password = "{args.control[1]}"
[proxy]
name = "users-{nth}"
[state]
path = "state"
[store]
kind = "etcd"
endpoints = {json.dumps(etcd.endpoints)}
[rules]
path = "rules"
[http]
address = "127.0.0.1:{self.http_port}"
[resp]
address = "127.0.0.1:{self.redis_port}"
[api]
address = "127.0.0.1:{self.api_port}"
[admin]
address = "127.0.0.1:{self.console_port}"
[[admin.users]]
name = "{DBA}"
password = "{DBA_PASSWORD}"
role = "write"
[log]
level = "debug"
audit = "audit.log"
""")
        self.start()

    def start(self):
        self.spawn(self.binary, "serve", "--config", self.config)

    def wait(self):
        def is_ready():
            if self.child.poll() is not None:
                raise RuntimeError(f"proxy {self.nth} ended:\n{self.log()[-2000:].decode()}")
            try:
                return get(self.http_port, "/readyz") is not None
            except OSError:
                return False

        wait_until(f"proxy {self.nth} is ready", 60, is_ready)

    def run(self, *words):
        """A command of rowstamp that reads this proxy's configuration."""
        line = [self.binary, *words, "--config", self.config]
        return subprocess.run(line, capture_output=True, check=True).stdout

    def console(self):
        return pymysql.connect(host="127.0.0.1", port=self.console_port, user=DBA, password=DBA_PASSWORD, read_timeout=30)

    def redis(self, user, secret, protocol):
        """One connection, which does not come back by itself."""
        connection = redis.Connection(
            host="127.0.0.1", port=self.redis_port, username=user, password=secret, protocol=protocol, socket_timeout=30
        )
        connection.connect()
        return connection

    def sql(self, user, password):
        return pymysql.connect(
            host="127.0.0.1", port=self.sql_port, user=user, password=password, database="shop", read_timeout=30
        )


def ask(connection, *words):
    """One request of a connection of Redis. An error leaves it open."""
    connection.send_command(*words)
    return connection.read_response(disconnect_on_error=False)


def rows(connection, statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()
