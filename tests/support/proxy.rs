//! `rowstamp serve` as a process of its own, on a free port, in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::CANARY;
use super::keeper::Keeper;
use super::raw::{Client, Compress, Options};
use super::servers::temporary_folder;

const START_DEADLINE: Duration = Duration::from_mins(1);
/// Longer than the default `limits.drain_timeout`.
const STOP_DEADLINE: Duration = Duration::from_mins(1);

pub struct Proxy {
    pub port: u16,
    pub pid: u32,
    dir: PathBuf,
    /// Words in front of the program's.
    under: Vec<String>,
    /// Flags after `serve --config FILE`.
    flags: Vec<String>,
    keeper: Option<Keeper>,
}

/// A configuration that listens on any free port and relays to `backend`, with root as control account; keys of
/// other tables may be appended. Each rewrite gets its second opinion.
pub fn config(backend: &str) -> String {
    let compression = match Compress::of_environment() {
        Compress::Off => "",
        Compress::Zlib | Compress::Zstd(_) => "compression = \"any\"\n",
    };
    format!(
        "[listen]\naddress = \"127.0.0.1:0\"\n{compression}\n[backend]\naddress = \"{backend}\"\n{compression}\n\
         [backend.control]\nuser = \"root\"\npassword = \"\"\n\n[http]\naddress = \"off\"\n\n\
         [rewrite]\nverify = \"always\"\n\n"
    )
}

impl Proxy {
    /// Writes `config` as rowstamp.toml and each of `rules` (file name without `.toml`, text) below `rules/`, and starts it.
    pub fn start(config: &str, rules: &[(&str, &str)]) -> Proxy {
        Self::start_under(Vec::new(), config, rules)
    }

    /// Like `start`, through a program that replaces itself by the proxy: `env A=1`.
    pub fn start_under(under: Vec<String>, config: &str, rules: &[(&str, &str)]) -> Proxy {
        let mut proxy = Proxy::written(config, rules);
        proxy.under = under;
        proxy.launch();
        proxy
    }

    /// Writes the files only: [`Proxy::try_start`] starts the proxy.
    pub fn written(config: &str, rules: &[(&str, &str)]) -> Proxy {
        let dir = temporary_folder("proxy");
        fs::create_dir(dir.join("rules")).expect("a folder for rules");
        fs::write(dir.join("rowstamp.toml"), config).expect("the configuration is written");
        let proxy = Proxy { port: 0, pid: 0, dir, under: Vec::new(), flags: Vec::new(), keeper: None };
        for (name, text) in rules {
            proxy.write_rules(name, text);
        }
        proxy
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn write_rules(&self, name: &str, text: &str) {
        fs::write(self.dir.join("rules").join(format!("{name}.toml")), text).expect("the rules are written");
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A connection as root; panics if there is none.
    pub fn client(&self) -> Client {
        Client::connect(&self.address(), &Options::default()).expect("root logs in through the proxy")
    }

    pub fn log(&self) -> String {
        self.keeper.as_ref().map(Keeper::log).unwrap_or_default()
    }

    /// The log of the process that ran last, also where it was killed.
    pub fn last_log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("log")).unwrap_or_default()).into_owned()
    }

    pub fn is_running(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_running)
    }

    /// "KILL", "TERM", "HUP", "STOP", "CONT" to this proxy alone.
    pub fn signal(&self, name: &str) {
        self.keeper.as_ref().expect("the proxy was started").signal(name);
    }

    /// SIGHUP, and the wait until the log has its outcome: whether the files are active, and what was said meanwhile.
    pub fn reload(&self) -> (bool, String) {
        let keeper = self.keeper.as_ref().expect("it runs");
        let (before, end) = (keeper.log_bytes(), Instant::now() + START_DEADLINE);
        self.signal("HUP");
        loop {
            let log = keeper.log_behind(before);
            let outcomes = ["SIGHUP: the files are active", "SIGHUP: nothing is changed"];
            let whole = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
            if let Some(nth) = outcomes.iter().position(|outcome| whole.contains(outcome)) {
                return (nth == 0, log);
            }
            assert!(Instant::now() < end, "the files are not read again:\n{log}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// SIGTERM, and the wait until it has drained.
    pub fn stop(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        keeper.signal("TERM");
        assert!(keeper.wait(STOP_DEADLINE), "the proxy ends on SIGTERM:\n{}", keeper.log());
        keeper.end_keeping_folder();
    }

    /// SIGKILL; the folder stays for `restart`.
    pub fn kill(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.end_keeping_folder();
        }
    }

    /// Starts it again on the same folder, by SIGKILL if it still runs. The port may be another one.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    /// Like `restart`, with other flags after `serve`.
    pub fn restart_with(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self.restart();
    }

    /// A second process takes over; returns the first, which goes on in the same log until its last session has ended.
    pub fn take_over(&mut self) -> Before {
        let before = self.keeper.take().expect("the proxy was started");
        self.start_process(&["--takeover"]);
        Before(Some(before))
    }

    /// A process of the same configuration that is expected to end by itself: what it said.
    pub fn attempt(&self, flags: &[&str]) -> String {
        let output = std::process::Command::new(binary())
            .args(["serve", "--config"])
            .arg(self.dir.join("rowstamp.toml"))
            .args(flags)
            .output()
            .expect("the proxy's program runs");
        assert!(!output.status.success(), "it was to fail");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn launch(&mut self) {
        self.try_start().unwrap_or_else(|log| panic!("the proxy does not listen:\n{log}"));
    }

    /// The error is its log, where it does not come to listen.
    pub fn try_start(&mut self) -> Result<(), String> {
        let _ = fs::remove_file(self.dir.join("log"));
        self.try_process(&[])
    }

    /// The new process's log is the part of the file after the log of the processes before it.
    fn start_process(&mut self, flags: &[&str]) {
        self.try_process(flags).unwrap_or_else(|log| panic!("the proxy does not listen:\n{log}"));
    }

    fn try_process(&mut self, flags: &[&str]) -> Result<(), String> {
        let config = self.dir.join("rowstamp.toml").display().to_string();
        let mut line = self.under.clone();
        if !fs::read_to_string(&config).expect("a configuration").contains("deadline") {
            line.extend(["env".to_owned(), WAITS_FOR_IDS.to_owned()]);
        }
        line.extend([binary(), "serve".to_owned(), "--config".to_owned(), config]);
        line.extend_from_slice(&self.flags);
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let begun = fs::metadata(self.dir.join("log")).map_or(0, |log| log.len());
        let begun = usize::try_from(begun).expect("a log in memory");
        let keeper = Keeper::start(&self.dir, &line);
        let end = Instant::now() + START_DEADLINE;
        self.port = loop {
            // Asked before the log is read, so that the last words of a proxy that ended are seen.
            let running = keeper.is_running();
            let log = keeper.log().split_off(begun);
            if let Some(port) = listening_port(&log) {
                break port;
            }
            if !running || Instant::now() >= end {
                // The process ends with its keeper.
                keeper.end_keeping_folder();
                return Err(log);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        self.pid = keeper.pid;
        self.keeper = Some(keeper);
        Ok(())
    }
}

/// A busy machine may keep the store waiting for longer than the second that is the default. Tests in which ids are away
/// on purpose say a deadline of their own.
const WAITS_FOR_IDS: &str = "ROWSTAMP_STORE__DEADLINE=60s";

/// A process that another has taken over from. Dropped, it is killed.
pub struct Before(Option<Keeper>);

impl Before {
    pub fn is_running(&self) -> bool {
        self.0.as_ref().is_some_and(Keeper::is_running)
    }

    /// True if it ends by itself in time.
    pub fn ends_within(&self, deadline: Duration) -> bool {
        self.0.as_ref().is_none_or(|keeper| keeper.wait(deadline))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        // The folder is the process's that took over.
        if let Some(keeper) = self.0.take() {
            keeper.end_keeping_folder();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for file in ["log", "audit.log"] {
                let text = fs::read(self.dir.join(file)).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let told = text.lines().find(|line| line.contains(CANARY));
                assert!(
                    told.is_none(),
                    "a literal or a secret is in the proxy's {file}: {}",
                    told.unwrap_or_default()
                );
            }
        }
        // With a keeper the folder goes with it; after `stop` or `kill` nobody else removes it.
        if self.keeper.take().is_none() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The one that cargo built for the tests, or the one that `ROWSTAMP_BIN` names.
pub fn binary() -> String {
    std::env::var("ROWSTAMP_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_rowstamp").to_owned())
}

fn listening_port(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("listening on 127.0.0.1:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    // A line that is still being written could show half of the number.
    if rest.len() == digits.len() { None } else { digits.parse().ok() }
}
