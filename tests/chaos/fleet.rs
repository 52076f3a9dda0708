//! The parts: server, etcd, proxies with their clocks, the network between them.

use std::fmt::Write;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::chaos::network;
use crate::chaos::plan::{MEMBERS, PROXIES};
use crate::chaos::recovery::Calm;
use crate::chaos::tables::{DATABASE, TABLES, rules};
use crate::support::clock::{self, Clock};
use crate::support::etcd::{Console, Version};
use crate::support::machine::announce;
use crate::support::raw::{Client, Options};
use crate::support::servers::ServerOptions;
use crate::support::{Etcd, Kind, Proxy, Server};

const LAST_WORDS_BYTES: usize = 4_000;

pub(crate) struct Fleet {
    pub(crate) server: Server,
    pub(crate) etcd: Mutex<Etcd>,
    pub(crate) members: Vec<Member>,
}

/// A proxy of the fleet.
pub(crate) struct Member {
    pub(crate) name: String,
    proxy: Mutex<Proxy>,
    port: AtomicU16,
    pub(crate) clock: Clock,
    pub(crate) calm: Calm,
    /// How each process ended, in order.
    pub(crate) ended: Mutex<Vec<Ended>>,
    /// The clocks' files.
    _folder: tempfile::TempDir,
}

/// A proxy's process that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) killed: bool,
    /// Raises that it gave up since it could not know what came of them.
    pub(crate) given_up: u64,
}

impl Fleet {
    /// `None` (announced) where this machine lacks a part.
    pub(crate) fn start() -> Option<Fleet> {
        let Some(library) = clock::library() else {
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!is_ci, "libfaketime is not on this machine: tests/install.sh faketime installs it");
            announce("SKIPPED: libfaketime is not on this machine: tests/install.sh faketime installs it");
            return None;
        };
        network::start();
        let arguments =
            vec!["--innodb-buffer-pool-size=256M".to_owned(), "--innodb-log-file-size=64M".to_owned()];
        let server = Server::start_with(Kind::MariaDb, ServerOptions { arguments, ..Default::default() })?;
        let etcd = Etcd::start_everywhere(Version::Debian, MEMBERS)?;
        let mut direct = server.client();
        direct.run(format!("CREATE DATABASE {DATABASE}"));
        for table in &TABLES {
            direct.run(table.create());
        }
        let members = (0..PROXIES)
            .map(|nth| {
                let folder = tempfile::tempdir().expect("a folder for a clock");
                let clock = Clock::new(folder.path().join("clock"));
                let name = format!("p{}", nth + 1);
                let proxy = Proxy::start_under(
                    clock.under(&library),
                    &config(&server, &etcd, nth, &name),
                    &[("rules", &rules())],
                );
                Member {
                    name,
                    port: AtomicU16::new(proxy.port),
                    proxy: Mutex::new(proxy),
                    clock,
                    calm: Calm::new(),
                    ended: Mutex::default(),
                    _folder: folder,
                }
            })
            .collect();
        Some(Fleet { server, etcd: Mutex::new(etcd), members })
    }

    pub(crate) fn etcd(&self) -> MutexGuard<'_, Etcd> {
        self.etcd.lock().expect("nobody who held it panicked")
    }

    /// `etcdctl` at whichever member answers.
    pub(crate) fn console(&self) -> Console {
        self.etcd().console(&(0..MEMBERS).collect::<Vec<_>>())
    }

    /// All proxies end cleanly.
    pub(crate) fn stop(&self) {
        for member in &self.members {
            member.proxy().stop();
            member.note_end(false);
        }
    }

    pub(crate) fn last_words(&self) -> String {
        self.members.iter().fold(String::new(), |mut text, member| {
            let log = member.proxy.lock().map_or_else(|_| String::new(), |proxy| proxy.last_log());
            let begin = log.len().saturating_sub(LAST_WORDS_BYTES);
            let tail = String::from_utf8_lossy(&log.as_bytes()[begin..]).into_owned();
            let _ = write!(text, "the last log of {}:\n{tail}\n", member.name);
            text
        })
    }
}

impl Member {
    fn proxy(&self) -> MutexGuard<'_, Proxy> {
        self.proxy.lock().expect("nobody who held it panicked")
    }

    pub(crate) fn client(&self) -> std::io::Result<Client> {
        let address = format!("127.0.0.1:{}", self.port.load(Ordering::SeqCst));
        Client::connect(&address, &Options { database: Some(DATABASE.to_owned()), ..Options::default() })
    }

    /// "STOP", "CONT"
    pub(crate) fn signal(&self, name: &str) {
        self.proxy().signal(name);
    }

    pub(crate) fn kill(&self) {
        self.proxy().kill();
        self.note_end(true);
    }

    /// Until it listens.
    pub(crate) fn start(&self) {
        let mut proxy = self.proxy();
        proxy.restart();
        self.port.store(proxy.port, Ordering::SeqCst);
    }

    fn note_end(&self, killed: bool) {
        let log = self.proxy().last_log();
        assert!(!log.contains("panicked"), "{} panicked:\n{log}", self.name);
        let given_up = log.matches("skipped a range of ids").count() as u64;
        self.ended.lock().unwrap().push(Ended { killed, given_up });
    }
}

fn config(server: &Server, etcd: &Etcd, proxy: usize, name: &str) -> String {
    let endpoint = |member| format!("{}:{}", network::address(proxy, member), etcd.client_port(member));
    let endpoints: Vec<_> = (0..MEMBERS).map(endpoint).collect();
    format!(
        "[listen]\naddress = \"127.0.0.1:0\"\n\n[backend]\naddress = \"{}\"\n\n\
         [backend.control]\nuser = \"root\"\npassword = \"\"\n\n[http]\naddress = \"off\"\n\n\
         [store]\nkind = \"etcd\"\nendpoints = {endpoints:?}\n\n[proxy]\nname = \"{name}\"\n",
        server.address()
    )
}
