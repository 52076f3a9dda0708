//! Private etcd clusters on free ports of 127.0.0.1, in temporary folders: Debian's own etcd and the sid root's.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::keeper::Keeper;
use super::machine::{
    announce, data_home, find_program, free_port, sid_command, sid_root, temporary_folder_in,
};

const START_DEADLINE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 3.4 of bookworm.
    Debian,
    /// 3.5 or later.
    Sid,
}

impl Version {
    pub const ALL: [Version; 2] = [Version::Debian, Version::Sid];

    /// True if this machine has it. Says so loudly if not; with CI=true the lack of Debian's own fails.
    pub fn is_here(self) -> bool {
        let here = match self {
            Version::Debian => find_program("etcd").is_some() && find_program("etcdctl").is_some(),
            Version::Sid => sid_root().join("usr/bin/etcd").exists(),
        };
        if !here {
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(
                self == Version::Sid || !is_ci,
                "etcd is not on this machine: tests/install.sh installs it"
            );
            announce(&format!(
                "SKIPPED: etcd ({self:?}) is not on this machine: tests/install.sh installs it"
            ));
        }
        here
    }

    fn program(self, name: &str) -> Vec<String> {
        match self {
            Version::Debian => vec![find_program(name).expect("it is here").display().to_string()],
            Version::Sid => sid_command(&format!("usr/bin/{name}")),
        }
    }
}

/// PEM files for a cluster that speaks TLS to its clients.
#[derive(Debug, Clone)]
pub struct Certificates {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

struct Member {
    client_port: u16,
    peer_port: u16,
    health_port: u16,
    keeper: Option<Keeper>,
}

pub struct Etcd {
    version: Version,
    dir: PathBuf,
    members: Vec<Member>,
    tls: Option<Certificates>,
    /// The host on which members listen for clients.
    host: &'static str,
}

/// `etcdctl` at some members; it needs no hold of the cluster.
#[derive(Debug, Clone)]
pub struct Console(Vec<String>);

impl Console {
    /// Returns its output, or what it says of its failure.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        run(&self.line(arguments))
    }

    /// The whole command line.
    pub fn line(&self, arguments: &[&str]) -> Vec<String> {
        self.0.iter().cloned().chain(arguments.iter().map(|&argument| argument.to_owned())).collect()
    }
}

impl Etcd {
    /// A fresh cluster that answers, or `None` (announced) where this machine lacks it.
    pub fn start(version: Version, members: usize) -> Option<Etcd> {
        Self::start_with(version, members, None)
    }

    /// Clients must show a certificate where `tls` is set.
    pub fn start_with(version: Version, members: usize, tls: Option<&Certificates>) -> Option<Etcd> {
        Self::start_at("127.0.0.1", version, members, tls)
    }

    /// Listens on every address of 127.0.0.0/8, among others: only for a network namespace of the test's own.
    pub fn start_everywhere(version: Version, members: usize) -> Option<Etcd> {
        Self::start_at("0.0.0.0", version, members, None)
    }

    fn start_at(
        host: &'static str,
        version: Version,
        members: usize,
        tls: Option<&Certificates>,
    ) -> Option<Etcd> {
        if !version.is_here() {
            return None;
        }
        let dir = temporary_folder_in(&data_home(), "etcd");
        // A port that was free may be taken by the time that etcd binds it: then others are tried.
        for _ in 0..5 {
            let member = |_| Member {
                client_port: free_port(),
                peer_port: free_port(),
                health_port: free_port(),
                keeper: None,
            };
            let members = (0..members).map(member).collect();
            let mut etcd = Etcd { version, dir: dir.clone(), members, tls: tls.cloned(), host };
            for nth in 0..etcd.members.len() {
                etcd.launch(nth);
            }
            if etcd.wait_until_healthy() {
                return Some(etcd);
            }
            let log = etcd.log();
            assert!(log.contains("address already in use"), "etcd does not start:\n{log}");
            drop(etcd);
            fs::create_dir_all(&dir).expect("the folder is made again");
        }
        panic!("etcd found no free ports");
    }

    /// `host:port` of every member.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("127.0.0.1:{}", member.client_port)).collect()
    }

    /// The endpoints, written like a list in rowstamp.toml.
    pub fn endpoints_toml(&self) -> String {
        format!("{:?}", self.endpoints())
    }

    /// "KILL", "STOP", "CONT" to one member.
    pub fn signal(&self, member: usize, name: &str) {
        self.members[member].keeper.as_ref().expect("the member runs").signal(name);
    }

    /// Ends one member as a crash does; its data stays for `restart`.
    pub fn kill(&mut self, member: usize) {
        if let Some(keeper) = self.members[member].keeper.take() {
            keeper.end_keeping_folder();
        }
    }

    /// Starts one member again on its data and ports; does not wait for it.
    pub fn restart(&mut self, member: usize) {
        self.kill(member);
        self.launch(member);
    }

    /// Until every member that runs has a leader; false where one of them ended.
    pub fn wait_until_healthy(&self) -> bool {
        let end = Instant::now() + START_DEADLINE;
        for member in &self.members {
            let Some(keeper) = &member.keeper else { continue };
            while !is_healthy(member.health_port) {
                if !keeper.is_running() {
                    return false;
                }
                assert!(Instant::now() < end, "etcd is not ready in time:\n{}", self.log());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        true
    }

    /// `etcdctl` at the member; panics where it fails.
    pub fn ctl(&self, member: usize, arguments: &[&str]) -> String {
        self.console(&[member]).run(arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn console(&self, members: &[usize]) -> Console {
        let mut line = self.version.program("etcdctl");
        let ports = members.iter().map(|&member| format!("127.0.0.1:{}", self.members[member].client_port));
        line.push(format!("--endpoints={}", ports.collect::<Vec<_>>().join(",")));
        if let Some(tls) = &self.tls {
            line.push(format!("--cacert={}", tls.ca.display()));
            line.push(format!("--cert={}", tls.cert.display()));
            line.push(format!("--key={}", tls.key.display()));
        }
        Console(line)
    }

    /// Who leads, where somebody does.
    pub fn leader(&self) -> Option<usize> {
        let leads = |member: &Member| {
            member.keeper.is_some()
                && get(member.health_port, "/metrics")
                    .is_ok_and(|text| text.contains("\netcd_server_is_leader 1\n"))
        };
        self.members.iter().position(leads)
    }

    pub fn is_healthy(&self, member: usize) -> bool {
        is_healthy(self.members[member].health_port)
    }

    pub fn client_port(&self, member: usize) -> u16 {
        self.members[member].client_port
    }

    /// A copy of all data, as an operator makes it; a path for [`Etcd::restore`].
    pub fn snapshot(&self) -> PathBuf {
        let path = self.dir.join(format!("snapshot-{}", self.log().len()));
        self.ctl(0, &["snapshot", "save", &path.display().to_string()]);
        path
    }

    /// Every member ends and comes back with the data of the snapshot, on the same ports.
    pub fn restore(&mut self, snapshot: &Path) {
        for nth in 0..self.members.len() {
            self.kill(nth);
            let data = self.data(nth);
            fs::remove_dir_all(&data).expect("the data goes");
            // 3.5 and later have a program of its own for it.
            let mut line = match self.version {
                Version::Debian => self.version.program("etcdctl"),
                Version::Sid => self.version.program("etcdutl"),
            };
            line.extend(["snapshot".to_owned(), "restore".to_owned(), snapshot.display().to_string()]);
            line.extend([format!("--name=m{nth}"), format!("--data-dir={}", data.display())]);
            line.push(format!("--initial-advertise-peer-urls={}", self.peer_url(nth)));
            line.push(format!("--initial-cluster={}", self.initial_cluster()));
            run(&line).unwrap_or_else(|error| panic!("{error}"));
        }
        for nth in 0..self.members.len() {
            self.launch(nth);
        }
        assert!(self.wait_until_healthy(), "etcd runs again:\n{}", self.log());
    }

    /// Does what an operator does after a copy was put back: raises generators to bounds, counts up `raised`
    /// in every witness, and removes `suspect`.
    pub fn raise(&self, bounds: &[(&str, u64)]) {
        for (generator, bound) in bounds {
            self.change(&format!("/rowstamp/generators/{generator}"), "bound", |_| *bound);
        }
        let witnesses = self.ctl(0, &["get", "--prefix", "--keys-only", "/rowstamp/witness/"]);
        for witness in witnesses.lines().filter(|line| !line.is_empty()) {
            self.change(witness, "raised", |raised| raised + 1);
        }
        self.ctl(0, &["del", "/rowstamp/suspect"]);
    }

    fn change(&self, key: &str, field: &str, change: impl Fn(u64) -> u64) {
        let json = self.ctl(0, &["get", "--print-value-only", key]);
        let mut record: serde_json::Value = serde_json::from_str(&json).expect("a record");
        record[field] = change(record[field].as_u64().expect("a number")).into();
        self.ctl(0, &["put", key, &record.to_string()]);
    }

    /// A folder of a test's own, which goes with the cluster.
    pub fn folder_named(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn log(&self) -> String {
        let one = |nth| fs::read_to_string(self.folder(nth).join("log")).unwrap_or_default();
        (0..self.members.len()).map(one).collect()
    }

    fn folder(&self, member: usize) -> PathBuf {
        self.dir.join(format!("m{member}"))
    }

    fn data(&self, member: usize) -> PathBuf {
        self.folder(member).join("data")
    }

    fn peer_url(&self, member: usize) -> String {
        format!("http://127.0.0.1:{}", self.members[member].peer_port)
    }

    fn initial_cluster(&self) -> String {
        let all: Vec<_> =
            (0..self.members.len()).map(|nth| format!("m{nth}={}", self.peer_url(nth))).collect();
        all.join(",")
    }

    fn launch(&mut self, nth: usize) {
        let folder = self.folder(nth);
        fs::create_dir_all(&folder).expect("a folder for the member");
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let member = &self.members[nth];
        let client_url = |host: &str| format!("{scheme}://{host}:{}", member.client_port);
        let mut line = self.version.program("etcd");
        line.extend([
            format!("--name=m{nth}"),
            format!("--data-dir={}", self.data(nth).display()),
            format!("--listen-client-urls={}", client_url(self.host)),
            format!("--advertise-client-urls={}", client_url("127.0.0.1")),
            format!("--listen-peer-urls={}", self.peer_url(nth)),
            format!("--initial-advertise-peer-urls={}", self.peer_url(nth)),
            format!("--listen-metrics-urls=http://127.0.0.1:{}", member.health_port),
            format!("--initial-cluster={}", self.initial_cluster()),
        ]);
        if let Some(tls) = &self.tls {
            line.push(format!("--cert-file={}", tls.cert.display()));
            line.push(format!("--key-file={}", tls.key.display()));
            line.push(format!("--trusted-ca-file={}", tls.ca.display()));
            line.push("--client-cert-auth=true".to_owned());
        }
        self.members[nth].keeper = Some(Keeper::start(&folder, &line));
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.members.clear();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn run(line: &[String]) -> Result<String, String> {
    let output = Command::new(&line[0]).args(&line[1..]).env("ETCDCTL_API", "3").output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{line:?}:\n{}", text(&output.stderr)))
    }
}

/// True if `/health` says that the member has a leader.
fn is_healthy(port: u16) -> bool {
    get(port, "/health").is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}

fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
