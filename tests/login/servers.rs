//! Private servers, and the command-line clients of both vendors.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::machine::{announce, free_port, sid_command, sid_root};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    MariaDb,
    /// MariaDB 11.8 of the sid root.
    MariaDb11,
    MySql9,
}

/// Killed, and its folder removed, when it goes.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    child: Child,
    dir: tempfile::TempDir,
}

impl Server {
    /// `None`, said loudly, where this machine has no such server. It has a TMPDIR of its own: a MariaDB that starts
    /// deletes the temporary tables of all others that share one.
    pub(crate) fn start(kind: Kind) -> Option<Server> {
        let Some(daemon) = daemon(kind) else {
            announce(&format!("SKIPPED: {kind:?} is not on this machine"));
            return None;
        };
        let dir = tempfile::Builder::new().prefix("rowstamp-login-").tempdir().unwrap();
        let data = dir.path().join("data");
        initialise(kind, &daemon, &data);
        let mut command = line(&daemon);
        command.env("TMPDIR", dir.path());
        let port = free_port();
        let socket = dir.path().join("s");
        command.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}", socket.display()));
        command.arg(format!("--port={port}")).args(["--bind-address=127.0.0.1", "--skip-name-resolve"]);
        if kind != Kind::MySql9 {
            let (cert, key) = certificate(dir.path());
            command.arg(format!("--ssl-cert={}", cert.display())).arg(format!("--ssl-key={}", key.display()));
            command.arg("--plugin-load-add=auth_ed25519");
        }
        if kind == Kind::MariaDb11 {
            command.arg("--plugin-load-add=auth_parsec");
        }
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut server = Server { port, socket, child, dir };
        server.wait();
        Some(server)
    }

    fn wait(&mut self) {
        let end = Instant::now() + Duration::from_mins(1);
        while !self.sql("SELECT 1").status.success() {
            assert!(self.child.try_wait().unwrap().is_none(), "the server ended: {}", self.log());
            assert!(Instant::now() < end, "the server is not ready: {}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// A file of its data folder.
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    /// Runs SQL as root, straight on the server.
    pub(crate) fn sql(&self, sql: &str) -> Output {
        let socket = format!("--socket={}", self.socket.display());
        Command::new("mariadb").args(["--no-defaults", "-uroot", &socket, "-BNe", sql]).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The `mysql` client of MySQL 9, if it is here.
pub(crate) fn mysql_client() -> Option<Vec<String>> {
    let mut words = in_sid_root("usr/bin/mysql")?;
    // First of all, or the client reads the machine's own my.cnf.
    words.push("--no-defaults".to_owned());
    words.push(format!("--plugin-dir={}/usr/lib/mysql/plugin", sid_root().display()));
    Some(words)
}

/// MariaDB 11.8's, if it is here.
pub(crate) fn mariadb_11_client() -> Option<Vec<String>> {
    let mut words = in_sid_root("opt/mariadb/usr/bin/mariadb")?;
    words.push("--no-defaults".to_owned());
    words.push(format!("--plugin-dir={}/usr/lib/x86_64-linux-gnu/libmariadb3/plugin", mariadb_11_place()));
    Some(words)
}

fn daemon(kind: Kind) -> Option<Vec<String>> {
    let root_user = rowstamp::proxy::connect::backend::os_user().is_some_and(|user| user == b"root");
    let mut daemon = match kind {
        Kind::MariaDb => vec!["/usr/sbin/mariadbd".to_owned()],
        Kind::MariaDb11 => in_sid_root("opt/mariadb/usr/sbin/mariadbd")?,
        Kind::MySql9 => in_sid_root("usr/sbin/mysqld")?,
    };
    if !Path::new(&daemon[0]).exists() {
        return None;
    }
    daemon.extend(["--no-defaults".to_owned(), "--secure-file-priv=".to_owned()]);
    if root_user {
        daemon.push("--user=root".to_owned());
    }
    if kind == Kind::MySql9 {
        let root = sid_root().display().to_string();
        daemon.extend([format!("--basedir={root}/usr"), format!("--plugin-dir={root}/usr/lib/mysql/plugin")]);
        daemon.push("--mysqlx=OFF".to_owned());
    }
    if kind == Kind::MariaDb11 {
        let place = mariadb_11_place();
        daemon.push(format!("--plugin-dir={place}/usr/lib/mysql/plugin"));
        daemon.push(format!("--lc-messages-dir={place}/usr/share/mariadb"));
    }
    Some(daemon)
}

fn mariadb_11_place() -> String {
    format!("{}/opt/mariadb", sid_root().display())
}

fn initialise(kind: Kind, daemon: &[String], data: &Path) {
    let temporary = data.parent().unwrap();
    let data = format!("--datadir={}", data.display());
    let output = match kind {
        Kind::MariaDb => Command::new("mariadb-install-db")
            .args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal", &data])
            .args(daemon.iter().filter(|argument| argument.starts_with("--user")))
            .env("TMPDIR", temporary)
            .output(),
        Kind::MariaDb11 => bootstrap(line(daemon).env("TMPDIR", temporary), &data),
        Kind::MySql9 => line(daemon).args(["--initialize-insecure", &data]).env("TMPDIR", temporary).output(),
    };
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Does the work of mariadb-install-db, whose programs need another loader here. A statement must not share
/// its line with another.
fn bootstrap(command: &mut Command, data: &str) -> std::io::Result<Output> {
    std::fs::create_dir(data.trim_start_matches("--datadir="))?;
    let mut script = "create database mysql;\nuse mysql;\nSET @auth_root_socket=NULL;\nSET @skip_auth_anonymous_users=1;\n"
        .to_owned();
    for part in ["mariadb_system_tables", "mariadb_performance_tables", "mariadb_system_tables_data"] {
        script += &std::fs::read_to_string(format!("{}/usr/share/mariadb/{part}.sql", mariadb_11_place()))?;
    }
    command.args(["--bootstrap", data]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().unwrap().write_all(script.as_bytes())?;
    child.wait_with_output()
}

fn line(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// A program of the sid root, if it is here.
fn in_sid_root(program: &str) -> Option<Vec<String>> {
    sid_root().join(program).exists().then(|| sid_command(program))
}

fn certificate(dir: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}
