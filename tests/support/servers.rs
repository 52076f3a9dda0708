//! Private servers on free ports of 127.0.0.1, in temporary folders, tuned for tests and not for safety.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::keeper::Keeper;
pub use super::machine::{announce, free_port, sid_command, sid_root, temporary_folder};
use super::machine::{data_home, find_program, temporary_folder_in};
use super::raw::{Client, Options};

const START_DEADLINE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    MariaDb,
    MySql9,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::MariaDb, Kind::MySql9];

    pub fn name(self) -> &'static str {
        match self {
            Kind::MariaDb => "mariadb",
            Kind::MySql9 => "mysql9",
        }
    }

    /// True if this machine has the server. Says so loudly if not. With CI=true Debian's own must be here.
    pub fn is_here(self) -> bool {
        let here = match self {
            Kind::MariaDb => {
                find_program("mariadbd").is_some() && find_program("mariadb-install-db").is_some()
            }
            Kind::MySql9 => sid_root().join("usr/sbin/mysqld").exists(),
        };
        if !here {
            let remedy = "tests/install.sh installs it";
            assert!(
                self == Kind::MySql9 || std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "{} is not on this machine: {remedy}",
                self.name()
            );
            announce(&format!("SKIPPED: {} is not on this machine: {remedy}", self.name()));
        }
        here
    }
}

#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    pub binlog: bool,
    /// MySQL makes its certificates on its own; MariaDB is given none.
    pub without_tls: bool,
    /// More command line options, after ours.
    pub arguments: Vec<String>,
}

/// One server of each kind, for all tests of a crate: started by the first that asks, it ends with the test process.
pub struct Shared([OnceLock<Option<Server>>; 2]);

impl Shared {
    pub const fn new() -> Shared {
        Shared([const { OnceLock::new() }; 2])
    }

    pub fn get(&self, kind: Kind, options: impl FnOnce() -> ServerOptions) -> Option<&Server> {
        self.0[kind as usize].get_or_init(|| Server::start_with(kind, options())).as_ref()
    }
}

pub struct Server {
    pub kind: Kind,
    pub port: u16,
    pub socket: PathBuf,
    pub pid: u32,
    dir: PathBuf,
    options: ServerOptions,
    keeper: Option<Keeper>,
}

/// How a server's start went.
enum Start {
    Ready,
    /// Another test's server answers on the port: ours knows its folder.
    Stranger,
    Ended,
}

impl Server {
    /// A fresh server, or `None` (announced) where this machine lacks it. `root` has an empty password over TCP and
    /// by socket; a database `test` exists.
    pub fn start(kind: Kind) -> Option<Server> {
        Self::start_with(kind, ServerOptions::default())
    }

    pub fn start_with(kind: Kind, options: ServerOptions) -> Option<Server> {
        if !kind.is_here() {
            return None;
        }
        let dir = temporary_folder_in(&data_home(), kind.name());
        copy_folder(&template(kind), &dir.join("data"));
        fs::write(dir.join("init.sql"), init_sql(kind)).expect("init.sql is written");
        let socket = dir.join("sock");
        let mut server = Server { kind, port: 0, socket, pid: 0, dir, options, keeper: None };
        server.launch();
        Some(server)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A connection as root; panics if there is none.
    pub fn client(&self) -> Client {
        Client::connect(&self.address(), &Options::default()).expect("root logs in")
    }

    pub fn log(&self) -> String {
        self.keeper.as_ref().map(Keeper::log).unwrap_or_default()
    }

    /// "KILL", "TERM", "STOP", "CONT" to this server alone.
    pub fn signal(&self, name: &str) {
        self.keeper.as_ref().expect("the server was started").signal(name);
    }

    /// Ends the server as a crash does; its folder stays for `restart`.
    pub fn kill(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.end_keeping_folder();
        }
    }

    /// Starts it again on the same data and port, after a kill if it still runs.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    fn launch(&mut self) {
        // A port that was free may be taken by the time that the server binds it: then another is tried.
        for _ in 0..5 {
            if self.port == 0 {
                self.port = free_port();
            }
            let keeper = Keeper::start(&self.dir, &self.command_line());
            let is_strangers = match self.wait_until_ready(&keeper) {
                Start::Ready => {
                    self.pid = keeper.pid;
                    self.keeper = Some(keeper);
                    return;
                }
                Start::Stranger => true,
                Start::Ended => false,
            };
            let log = keeper.log();
            keeper.end_keeping_folder();
            assert!(is_strangers || log.contains("in use"), "{} does not start:\n{log}", self.kind.name());
            self.port = 0;
        }
        panic!("{} found no free port", self.kind.name());
    }

    fn wait_until_ready(&self, keeper: &Keeper) -> Start {
        let end = Instant::now() + START_DEADLINE;
        while keeper.is_running() {
            if let Ok(mut client) = Client::connect(&self.address(), &Options::default()) {
                let folder =
                    client.query("SELECT @@datadir").ok().and_then(|outcomes| outcomes[0].cell(0, 0));
                let is_ours = folder.is_some_and(|folder| folder.starts_with(&*self.dir.to_string_lossy()));
                return if is_ours { Start::Ready } else { Start::Stranger };
            }
            assert!(Instant::now() < end, "{} is not ready in time:\n{}", self.kind.name(), keeper.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Start::Ended
    }

    fn command_line(&self) -> Vec<String> {
        let mut line = daemon(self.kind);
        let dir = self.dir.display();
        line.extend([
            // A MariaDB that starts deletes the temporary tables of all others whose tmpdir it shares.
            format!("--tmpdir={dir}"),
            format!("--datadir={dir}/data"),
            format!("--socket={dir}/sock"),
            format!("--pid-file={dir}/pid"),
            format!("--init-file={dir}/init.sql"),
            format!("--port={}", self.port),
            "--bind-address=127.0.0.1".to_owned(),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
            "--performance-schema=OFF".to_owned(),
            "--skip-name-resolve".to_owned(),
            "--local-infile=ON".to_owned(),
            "--secure-file-priv=".to_owned(),
            "--max-connections=500".to_owned(),
        ]);
        match (self.kind, self.options.binlog) {
            (_, true) => line.extend(["--log-bin=binlog".to_owned(), "--server-id=1".to_owned()]),
            (Kind::MySql9, false) => line.push("--disable-log-bin".to_owned()),
            (Kind::MariaDb, false) => {}
        }
        if self.options.without_tls && self.kind == Kind::MySql9 {
            line.extend(["--auto-generate-certs=OFF".to_owned(), "--tls-version=".to_owned()]);
        }
        line.extend(self.options.arguments.iter().cloned());
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // With a keeper the folder goes with it; after `kill` nobody else removes it.
        if self.keeper.take().is_none() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The daemon with the settings that initialisation and running must share.
fn daemon(kind: Kind) -> Vec<String> {
    let mut line = match kind {
        Kind::MariaDb => vec![find_program("mariadbd").expect("mariadbd is here").display().to_string()],
        Kind::MySql9 => sid_command("usr/sbin/mysqld"),
    };
    line.push("--no-defaults".to_owned());
    line.extend(engine_settings(kind));
    if kind == Kind::MySql9 {
        let root = sid_root();
        let root = root.display();
        line.extend([
            format!("--basedir={root}/usr"),
            format!("--plugin-dir={root}/usr/lib/mysql/plugin"),
            "--mysqlx=OFF".to_owned(),
        ]);
    }
    line
}

fn engine_settings(kind: Kind) -> Vec<String> {
    let mut settings: Vec<String> =
        ["--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync", "--innodb-doublewrite=OFF"]
            .map(str::to_owned)
            .to_vec();
    settings.push(match kind {
        Kind::MariaDb => "--innodb-log-file-size=16M".to_owned(),
        Kind::MySql9 => "--innodb-redo-log-capacity=16M".to_owned(),
    });
    if runs_as_root() {
        settings.push("--user=root".to_owned());
    }
    settings
}

fn runs_as_root() -> bool {
    fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

fn init_sql(kind: Kind) -> String {
    // Name resolution is off, so TCP arrives as 127.0.0.1 and not as localhost.
    let mariadb_only = match kind {
        Kind::MariaDb => "DELETE FROM mysql.global_priv WHERE User='';\nFLUSH PRIVILEGES;\n",
        Kind::MySql9 => "",
    };
    format!(
        "CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '';\n\
         GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n\
         CREATE DATABASE IF NOT EXISTS test;\n{mariadb_only}"
    )
}

/// An initialised data folder, made once a build folder and then copied: 0.1 s instead of 2.
fn template(kind: Kind) -> PathBuf {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(&home).expect("the target folder is writable");
    let version = version_digest(kind);
    let done = home.join(format!("template-{}-{version:016x}", kind.name()));
    if done.is_dir() {
        return done;
    }
    let making = temporary_folder_in(&home, "template");
    let data = making.join("data");
    let mut command = match kind {
        Kind::MariaDb => {
            let installer = find_program("mariadb-install-db").expect("mariadb-install-db is here");
            let mut command = Command::new(installer);
            command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
            command.args(engine_settings(kind));
            command
        }
        Kind::MySql9 => {
            let line = daemon(kind);
            let mut command = Command::new(&line[0]);
            command.args(&line[1..]).args(["--initialize-insecure", "--secure-file-priv="]);
            command
        }
    };
    command.arg(format!("--datadir={}", data.display())).env("TMPDIR", &making);
    let output = command.output().expect("the installer runs");
    assert!(
        output.status.success(),
        "{} cannot be initialised:\n{}{}",
        kind.name(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // Several test processes may make it at once; the first rename wins and the others use what is there.
    let _ = fs::rename(&data, &done);
    let _ = fs::remove_dir_all(&making);
    assert!(done.is_dir(), "{} is made", done.display());
    done
}

/// Changes when the server's program does: a data folder of another version would be upgraded at each start.
fn version_digest(kind: Kind) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let line = daemon(kind);
    let output = Command::new(&line[0])
        .args(line[1..].iter().take_while(|argument| !argument.starts_with("--no-defaults")))
        .args(["--no-defaults", "--version"])
        .output();
    let mut hasher = DefaultHasher::new();
    output.expect("the server tells its version").stdout.hash(&mut hasher);
    line.hash(&mut hasher);
    hasher.finish()
}

fn copy_folder(from: &Path, to: &Path) {
    // cp makes sparse copies and reflinks where the file system can.
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(status.success(), "{} is copied", from.display());
}
