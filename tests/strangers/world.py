"""Where it all happens: the tables, a side (the proxies, or the server itself), and what was written on it."""

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field

from machine import accepts, drop_folder, free_port, run_folder, spawn, stop, wait_for
from session import USER, Session
from ways import CONTROL, CONTROL_PASSWORD, certificates, rowstamp_binary, rowstamp_config

# By the first word of a table's name. The second says whether the id is AUTO_INCREMENT: "a", or "p" for plain.
TABLES = {
    "orders": "k BIGINT UNIQUE, n INT NOT NULL DEFAULT 0)",
    "other": "k BIGINT UNIQUE, n INT NOT NULL DEFAULT 0)",
    "wiped": "k BIGINT UNIQUE, n INT NOT NULL DEFAULT 0)",
    "noted": "k BIGINT UNIQUE, n INT NOT NULL DEFAULT 0)",
    # A unique key of a table with partitions has the column that divides it.
    "parts": "k BIGINT, n INT NOT NULL DEFAULT 0, UNIQUE (k, id)) PARTITION BY RANGE (id) (PARTITION below VALUES LESS THAN (0), "
    "PARTITION all_ids VALUES LESS THAN MAXVALUE)",
    "spans": "k BIGINT UNIQUE, n INT NOT NULL DEFAULT 0, s DATE NOT NULL DEFAULT '2020-01-01', e DATE NOT NULL DEFAULT '2030-01-01', PERIOD FOR p (s, e))",
}
FEED = """CREATE PROCEDURE feed_{0} (first BIGINT, rows_ INT, mark VARCHAR(30)) BEGIN DECLARE i INT DEFAULT rows_;
    WHILE i > 0 DO SET i = i - 1; INSERT INTO {0} (id, v) VALUES (first + i, CONCAT(mark, '-', i)); END WHILE; END"""
LIFT = "CREATE PROCEDURE lift_{0} (low BIGINT, high BIGINT, up BIGINT) UPDATE {0} SET id = id + up WHERE id BETWEEN low AND high"
RULE = '[generators.{0}]\nkind = "sequence"\n{1}\n[tables.{0}]\ncolumn = "id"\ngenerator = "{0}"\n{2}\n'
COPIES = '[tables."copy_*"]\ncolumn = "id"\ngenerator = "{{table}}"\n{}\n'


def names(kind):
    """The spans need MariaDB, and AUTO_INCREMENT: their event makes the server number rows."""
    return [f"{word}_{variant}" for word in TABLES for variant in "ap" if word != "spans" or (kind, variant) == ("mariadb", "a")]


def rules(kind, schema, batch, more):
    return f'schema = "{schema}"\n' + "".join(RULE.format(name, batch, more) for name in names(kind)) + COPIES.format(more)


def make(session, kind, schema, is_ruled):
    session.run(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    session.run(f"USE {schema}")
    for name in names(kind):
        counts = "AUTO_INCREMENT" if not is_ruled or name.endswith("_a") else ""
        session.run(f"CREATE TABLE {name} (id BIGINT NOT NULL {counts} PRIMARY KEY, v VARCHAR(40) NOT NULL, {TABLES[name.split('_')[0]]}")
        session.run(f"CREATE VIEW view_{name} AS SELECT * FROM {name}")
        session.run(FEED.format(name))
        session.run(LIFT.format(name))
        if name.startswith("noted"):
            session.run(f"CREATE TABLE notes_of_{name} (v VARCHAR(40) NOT NULL)")
            session.run(f"CREATE TRIGGER note_{name} AFTER INSERT ON {name} FOR EACH ROW INSERT INTO notes_of_{name} VALUES (NEW.v)")


@dataclass(eq=False)
class Sent:
    """A writer's statement and its answer."""

    table: str
    way: str
    form: str
    proxy: int
    tokens: list
    sent: float
    explicit: int = None
    answered: float = 0
    affected: int = 0
    insert_id: int = 0
    error: int = 0
    message: str = ""
    # The id that the statement met: it replaced, skipped or updated the row that has it, or failed.
    met: int = None
    # A fault of the connection: nobody knows whether the statement ran.
    broke: str = ""

    @property
    def is_done(self):
        return not self.error and not self.broke

    @property
    def ids(self):
        """The generator's, as answered."""
        return range(self.insert_id, self.insert_id + len(self.tokens)) if self.is_done and self.explicit is None else range(0)


@dataclass(eq=False)
class Event:
    number: int
    table: str
    kind: str
    via: str  # "server" or "proxy"
    proxy: int
    begun: float = 0
    ended: float = float("inf")
    # Those that failed before it was done. Their ids may be in the way, too.
    attempts: int = 0
    # (table, first, last): the ids that it put in the generator's way.
    ids: list = field(default_factory=list)
    error: str = ""


class Side:
    """Clients connect to `ports`: those of the proxies, or the server's own."""

    def __init__(self, kind, name, schema, server_port, ports, is_proxied):
        self.kind, self.name, self.schema, self.server_port, self.ports, self.is_proxied = kind, name, schema, server_port, ports, is_proxied
        self.sent = []
        self.events = defaultdict(list)
        self.lock = threading.Lock()
        self.highest = defaultdict(int)
        self.last_key = 0
        # Writers leave these tables alone.
        self.held = set()
        # Where a row that was written under a name may be by now.
        self.homes = {name: {name} for name in names(kind)}
        # What the server waited for when statements were not answered.
        self.locks = []
        # (name, until): rows that were sent before are gone rightly.
        self.wiped = []
        # (name, from, until): the table had triggers of a tool.
        self.triggered = []
        self.is_over = threading.Event()

    def direct(self):
        return Session(self.server_port, self.schema)

    def through(self, proxy):
        return Session(self.ports[proxy % len(self.ports)], self.schema)

    def note_locks(self):
        """What the server waits for, at a statement that was not answered in time."""
        direct = self.direct()
        status = direct.ask("SHOW ENGINE INNODB STATUS").rows or []
        processes = direct.ask("SHOW FULL PROCESSLIST").rows or []
        direct.close()
        rows = [*processes, *status]
        text = "\n".join(" ".join((column or b"NULL").decode(errors="replace") for column in row) for row in rows)
        with self.lock:
            self.locks.append(text)

    def key(self):
        with self.lock:
            self.last_key += 1
            return self.last_key

    def saw(self, table, id):
        with self.lock:
            self.highest[table] = max(self.highest[table], id)


class Fleet:
    """One proxy with a store of its own, or several that share a table on the server."""

    def __init__(self, server, proxies, schema, more):
        self.folders, self.processes, self.ports = [], [], []
        tls = certificates()
        for number in range(proxies):
            folder, port = run_folder(), free_port()
            self.folders.append(folder)
            # Small batches: the proxies' ranges lie between each other.
            texts = {"rules.toml": rules(server.kind, schema, "batch = 50" if proxies > 1 else "", more)}
            config = rowstamp_config(folder, port, server.port, texts, tls / "server-cert.pem", tls / "server-key.pem", CONTROL, CONTROL_PASSWORD)
            text = config.read_text().replace('[backend.tls]\nmode = "as_client"', '[backend.tls]\nmode = "disabled"')
            if proxies > 1:
                text = text.replace('path = "rowstamp.redb"', f'kind = "mysql"\n[proxy]\nname = "p{number}"')
            config.write_text(text)
            log = folder / "proxy.log"
            process = spawn([rowstamp_binary(), "serve", "--config", config], log)
            self.processes.append(process)
            wait_for("rowstamp", process, log, lambda: accepts(port))
            self.ports.append(port)

    def logs(self):
        return [(folder / "proxy.log").read_text(errors="replace") for folder in self.folders]

    def close(self):
        for process in self.processes:
            stop(process)
        for folder in self.folders:
            drop_folder(folder)


def prepare(server):
    """Accounts, and the store's database."""
    server.sql(
        f"CREATE USER {USER}@'%' IDENTIFIED BY ''; GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION; CREATE DATABASE rowstamp; "
        f"GRANT CREATE, SELECT, INSERT, UPDATE ON rowstamp.* TO {CONTROL}@'%'"
    )
    # A login by socket puts the verifier into MySQL's cache.
    server.sql("DO 1", user=USER)


def now():
    return time.monotonic()
