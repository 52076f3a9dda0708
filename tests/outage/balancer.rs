//! HAProxy before two proxies, as docs/load-balancers.md shows it.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::support::keeper::Keeper;
use crate::support::machine::{announce, find_program, free_port, temporary_folder};
use crate::support::raw::{Client, Options};
use crate::support::wait::wait_until;

pub(crate) struct Balancer {
    port: u16,
    socket: PathBuf,
    servers: usize,
    keeper: Keeper,
}

impl Balancer {
    /// Says so where it is not.
    pub(crate) fn is_here() -> bool {
        let is_here = find_program("haproxy").is_some();
        if !is_here {
            announce("SKIPPED: HAProxy is not on this machine: tests/install.sh haproxy installs it");
        }
        is_here
    }

    /// `members`: the port of each proxy, and that of its HTTP.
    pub(crate) fn start(members: &[(u16, u16)]) -> Balancer {
        let (dir, port) = (temporary_folder("haproxy"), free_port());
        let socket = dir.join("stats");
        let servers = members
            .iter()
            .enumerate()
            .map(|(nth, (port, http))| format!("    server rs{nth} 127.0.0.1:{port} port {http}\n"));
        let config = format!(
            "global\n    stats socket {} level admin\n\
             defaults\n    mode tcp\n    timeout connect 2s\n    timeout client 1h\n    timeout server 1h\n    retries 3\n    option redispatch\n\
             frontend mysql\n    bind 127.0.0.1:{port}\n    default_backend rowstamp\n\
             backend rowstamp\n    balance leastconn\n    option httpchk GET /readyz\n    http-check expect status 200\n    \
             default-server check inter 500ms fall 2 rise 2 on-marked-down shutdown-sessions\n{}",
            socket.display(),
            servers.collect::<String>()
        );
        let file = dir.join("haproxy.cfg");
        fs::write(&file, config).expect("the configuration is written");
        let program = find_program("haproxy").expect("it is here");
        let command = [program.display().to_string(), "-db".into(), "-f".into(), file.display().to_string()];
        let balancer =
            Balancer { port, socket, servers: members.len(), keeper: Keeper::start(&dir, &command) };
        balancer.wait_until_all_up();
        balancer
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn client(&self) -> Option<Client> {
        Client::connect(&self.address(), &Options::default()).ok()
    }

    #[track_caller]
    pub(crate) fn wait_until_all_up(&self) {
        wait_until(
            || format!("HAProxy has not all proxies up: {:?}\n{}", self.column("status"), self.keeper.log()),
            || self.column("status").iter().filter(|status| *status == "UP").count() == self.servers,
        );
    }

    /// How often a proxy was marked down.
    pub(crate) fn marked_down(&self) -> u32 {
        self.column("chkdown").iter().map(|count| count.parse::<u32>().expect("a number")).sum()
    }

    /// A column of HAProxy's statistics, a value for each proxy; empty while HAProxy does not answer.
    fn column(&self, name: &str) -> Vec<String> {
        let mut answer = String::new();
        let asked = UnixStream::connect(&self.socket).and_then(|mut socket| {
            socket.write_all(b"show stat\n")?;
            socket.read_to_string(&mut answer)
        });
        if asked.is_err() {
            return Vec::new();
        }
        let mut lines = answer.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().unwrap_or_default();
        let Some(at) = head.iter().position(|column| *column == name) else { return Vec::new() };
        lines
            .filter(|row| row.get(1).is_some_and(|server| server.starts_with("rs")))
            .map(|row| row[at].to_owned())
            .collect()
    }
}
