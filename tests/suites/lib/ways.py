"""The three ways to a server: straight, through HAProxy in tcp mode, and through Rowstamp. Each turn of a suite meets a fresh server."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from get import once, programs
from machine import CACHE, REPO, SID_ROOT, USER, Broken, Missing, accepts, call, drop_folder, free_port, run_folder, spawn
from machine import stop, wait_for

WAYS = ("straight", "haproxy", "rowstamp")
APP, APP_PASSWORD = "app", "app-secret"
CONTROL, CONTROL_PASSWORD = "rowstamp", "control-secret"

# Nothing of the suites is in this schema: no rule can concern them.
UNRULED = """schema = "rowstamp_suites"
[generators.ids]
kind = "sequence"
[tables.one]
column = "id"
generator = "ids"
"""


def rowstamp_binary():
    binary = os.environ.get("ROWSTAMP_BIN")
    if not binary:
        target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
        binary = target / "release" / "rowstamp"
        if not binary.exists():
            try:
                call(["cargo", "build", "--release", "--quiet", "--locked", "--bin", "rowstamp"], cwd=REPO, seconds=3600)
            except Missing as missing:
                raise Broken(str(missing)) from missing
    if not os.access(binary, os.X_OK):
        raise Broken(f"no binary at {binary}")
    return Path(binary).resolve()


def certificates():
    """A certificate for 127.0.0.1 and the CA that signed it. The server and Rowstamp show the same one."""
    place = CACHE / "tls"
    with once(place) as building:
        if building:
            programs("openssl")
            subject = "-subj /CN={} -days 3650 -newkey rsa:2048 -nodes".split()

            def openssl(*words):
                call(["openssl", *words], cwd=building)

            named = [word.format("suites-ca") for word in subject]
            openssl("req", "-x509", *named, "-keyout", "ca-key.pem", "-out", "ca.pem")
            (building / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
            for name, common in (("server", "localhost"), ("client", "client")):
                named = [word.format(common) for word in subject if word not in ("-days", "3650")]
                openssl("req", *named, "-keyout", f"{name}-key.pem", "-out", f"{name}.csr")
                signed = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "3650", "-extfile", "names"]
                openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}-cert.pem")
    return place


class Server:
    """A private server, on a free port of 127.0.0.1, in a folder that goes with it."""

    def __init__(self, kind, options=()):
        self.kind = kind
        self.folder = run_folder()
        self.data = self.folder / "data"
        self.port = free_port()
        self.socket = self.folder / "s.sock"
        self.log = self.folder / "server.log"
        command = self._program()
        self._make_data(command)
        tls = certificates()
        command += [
            f"--datadir={self.data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.socket}",
            f"--pid-file={self.folder}/pid",
            f"--tmpdir={self.folder}",
            f"--ssl-ca={tls}/ca.pem",
            f"--ssl-cert={tls}/server-cert.pem",
            f"--ssl-key={tls}/server-key.pem",
            "--max-connections=300",
            "--local-infile=1",
            "--max-allowed-packet=64M",
            "--innodb-flush-log-at-trx-commit=0",
            *(["--mysqlx=OFF", "--disable-log-bin"] if kind == "mysql" else []),
            *options,
        ]
        self.process = spawn(command, self.log)
        wait_for(kind, self.process, self.log, lambda: self.sql("SELECT 1", check=False) == "1\n")
        # A login by socket puts caching_sha2_password's verifier into the server's cache: later ones need no TLS.
        for name, password in ((APP, APP_PASSWORD), (CONTROL, CONTROL_PASSWORD)):
            self.sql("DO 1", user=name, password=password)

    def _program(self):
        if self.kind == "mariadb":
            programs("mariadbd", "mariadb-install-db", "mariadb")
            return ["mariadbd", "--no-defaults", f"--user={USER}"]
        if not (SID_ROOT / "usr/sbin/mysqld").exists():
            raise Missing(f"no MySQL 9 in {SID_ROOT} (tests/install.sh makes it; ROWSTAMP_SID_ROOT says where)")
        # Run by the root's own loader: it needs neither chroot nor root.
        lib = SID_ROOT / "usr/lib"
        return [
            SID_ROOT / "lib64/ld-linux-x86-64.so.2",
            "--library-path",
            f"{lib}/x86_64-linux-gnu:{lib}/mysql/private",
            SID_ROOT / "usr/sbin/mysqld",
            "--no-defaults",
            f"--user={USER}",
            f"--basedir={SID_ROOT}/usr",
            f"--plugin-dir={lib}/mysql/plugin",
            "--secure-file-priv=",
        ]

    def _make_data(self, command):
        """A data folder with the accounts in it is made once; each server gets a copy."""
        version = call([*command, "--version"]).split(" Ver ")[1].split()[0]
        place = CACHE / "data" / f"{self.kind}-{version}-{USER}"
        with once(place) as building:
            if building:
                self._initialize(command, building)
        shutil.copytree(place, self.data)

    def _initialize(self, command, data):
        if self.kind == "mariadb":
            call([
                "mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={USER}", "--skip-test-db",
                "--auth-root-authentication-method=normal", "--force", "--skip-name-resolve",
            ])  # fmt: skip
        else:
            data.rmdir()
            call([*command, "--initialize-insecure", f"--datadir={data}"])
        options = [f"--datadir={data}", "--skip-networking", f"--socket={self.socket}", f"--pid-file={self.folder}/pid"]
        options += ["--mysqlx=OFF", "--disable-log-bin"] if self.kind == "mysql" else []
        process = spawn([*command, *options], self.log)
        wait_for(self.kind, process, self.log, lambda: self.sql("SELECT 1", check=False) == "1\n")
        self.sql(f"""
            CREATE USER '{APP}'@'%' IDENTIFIED BY '{APP_PASSWORD}';
            GRANT ALL ON *.* TO '{APP}'@'%' WITH GRANT OPTION;
            CREATE USER '{CONTROL}'@'%' IDENTIFIED BY '{CONTROL_PASSWORD}';
            GRANT SELECT, PROCESS, SHOW VIEW, TRIGGER, EVENT ON *.* TO '{CONTROL}'@'%';
        """)
        stop(process)

    def sql(self, text, user="root", password="", check=True):
        done = subprocess.run(
            ["mariadb", "--no-defaults", f"--socket={self.socket}", f"--user={user}", f"--password={password}", "-BN"],
            input=text,
            capture_output=True,
            text=True,
        )
        if check and done.returncode != 0:
            raise Broken(f"{self.kind}: {done.stderr.strip()}")
        return done.stdout

    def stop(self):
        stop(self.process)
        drop_folder(self.folder)


def haproxy_command(folder, listen, port):
    """HAProxy in tcp mode from one port to another, in the foreground."""
    config = folder / "haproxy.cfg"
    config.write_text(
        f"global\n  maxconn 500\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n"
        f"listen db\n  bind 127.0.0.1:{listen}\n  server one 127.0.0.1:{port}\n"
    )
    return ["haproxy", "-db", "-f", config]


def rowstamp_config(folder, listen, port, rules, cert, key, user=CONTROL, password=CONTROL_PASSWORD, rsa_key=None):
    """The proxy with the server's own certificate and RSA key, and with TLS and compression to the server where the client has them:
    a client that checks these finds what it looks for."""
    (folder / "rules").mkdir(exist_ok=True)
    for name, text in rules.items():
        (folder / "rules" / name).write_text(text)
    config = folder / "rowstamp.toml"
    config.write_text(f"""
[listen]
address = "127.0.0.1:{listen}"
compression = "any"
{f'rsa_key = "{rsa_key}"' if rsa_key else ""}
[listen.tls]
cert = "{cert}"
key = "{key}"
[backend]
address = "127.0.0.1:{port}"
compression = "as_client"
[backend.tls]
mode = "as_client"
[backend.control]
user = "{user}"
password = "{password}"
[store]
path = "rowstamp.redb"
[rules]
path = "rules"
[http]
address = "off"
{os.environ.get("ROWSTAMP_SUITES_CONFIG", "")}
""")
    config.chmod(0o600)
    return config


class Target:
    """Where a suite finds its server: `host`, `port`, `user`, `password`, and the server itself for what must be set up before."""

    host, user, password = "127.0.0.1", APP, APP_PASSWORD

    def __init__(self, kind, way, options=(), rules=None):
        self.kind, self.way = kind, way
        self.folder = run_folder()
        self.rules = rules or {"unruled.toml": UNRULED}
        self.tls = certificates()
        self.server = Server(kind, options)
        self.port = self.server.port
        self.proxy = None
        self.proxy_log = self.folder / "proxy.log"

    def open(self):
        """Puts the proxy of this way in front. Schemas that the suite wants ruled exist by now."""
        if self.way == "straight":
            return
        listen = free_port()
        if self.way == "haproxy":
            programs("haproxy")
            command = haproxy_command(self.folder, listen, self.port)
        else:
            tls, rsa_key = self.tls, self.server.data / "private_key.pem"
            config = rowstamp_config(
                self.folder, listen, self.port, self.rules, tls / "server-cert.pem", tls / "server-key.pem",
                rsa_key=rsa_key if rsa_key.exists() else None
            )  # fmt: skip
            command = [rowstamp_binary(), "serve", "--config", config]
        self.proxy = spawn(command, self.proxy_log)
        wait_for(self.way, self.proxy, self.proxy_log, lambda: accepts(listen))
        self.port = listen

    def sql(self, text):
        return self.server.sql(text)

    def log_statements(self):
        self.sql(f"SET GLOBAL general_log_file = '{self.server.folder}/general.log'; SET GLOBAL general_log = 1")

    def statements(self):
        return (self.server.folder / "general.log").read_text(errors="replace")

    def close(self):
        if self.proxy:
            stop(self.proxy)
        self.server.stop()
        time.sleep(0.1)
        drop_folder(self.folder)
