//! The same bytes to Rowstamp and to Redis: what both know is answered alike.

use std::process::{Child, Command, Stdio};

use super::client::{GENERATORS, Redis, alone, config, port};
use crate::support::machine::{announce, find_program, free_port, temporary_folder};
use crate::support::wait::wait_until;

struct Server {
    child: Child,
    port: u16,
    dir: std::path::PathBuf,
}

impl Server {
    /// With the users that Rowstamp's tests have.
    fn start() -> Option<Server> {
        let Some(program) = find_program("redis-server") else {
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!is_ci, "CI needs redis-server");
            announce("SKIPPED: redis-server is not here (tests/install.sh)");
            return None;
        };
        let (port, dir) = (free_port(), temporary_folder("redis"));
        let config = format!(
            "port {port}\nbind 127.0.0.1\nsave \"\"\ndir {}\nuser dba on >c4nary-1 ~* +@all\nuser look on >c4nary-2 ~* +@read\n\
             user default off\n",
            dir.display()
        );
        std::fs::write(dir.join("redis.conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg(dir.join("redis.conf"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { child, port, dir };
        wait_until(
            || "redis-server listens".to_owned(),
            || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
        );
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Each is sent whole; then so many answers are read. `\r` and `\n` are written out.
const TALKS: [(&str, usize); 70] = [
    ("INCR shop.orders\r\n", 1),
    ("*2\r\n$4\r\nINCR\r\n$11\r\nshop.orders\r\n", 1),
    ("INCRBY shop.orders 40\r\n", 1),
    ("INCRBY shop.orders 1\r\nINCR shop.orders\r\nGET shop.orders\r\n", 3),
    ("GET shop.nix\r\n", 1),
    ("MGET shop.orders shop.nix shop.orders\r\n", 1),
    ("EXISTS shop.orders shop.nix shop.orders\r\n", 1),
    ("TYPE shop.orders\r\n", 1),
    ("TYPE shop.nix\r\n", 1),
    ("INCRBY shop.orders x\r\n", 1),
    ("INCRBY shop.orders 1.5\r\n", 1),
    ("INCRBY shop.orders 9223372036854775808\r\n", 1),
    ("INCRBY shop.orders +1\r\n", 1),
    ("INCRBY shop.orders \"\"\r\n", 1),
    ("INCR\r\n", 1),
    ("INCR a b\r\n", 1),
    ("INCRBY a\r\n", 1),
    ("GET\r\n", 1),
    ("MGET\r\n", 1),
    ("EXISTS\r\n", 1),
    ("TYPE\r\n", 1),
    ("PING\r\n", 1),
    ("ping\r\n", 1),
    ("PING hello\r\n", 1),
    ("PING a b\r\n", 1),
    ("PING \"a \\x41\\n\\q\" \r\n", 1),
    ("PING 'it\\'s \\n'\r\n", 1),
    ("ECHO \"\"\r\n", 1),
    ("ECHO\r\n", 1),
    ("SELECT 0\r\n", 1),
    ("SELECT 99\r\n", 1),
    ("SELECT x\r\n", 1),
    ("SELECT\r\n", 1),
    ("\r\n\r\nPING\r\n", 1),
    ("*0\r\nPING\r\n", 1),
    ("*-1\r\nPING\r\n", 1),
    ("*1\r\n$4\r\nPING\r\nPING\n", 2),
    ("CLIENT SETNAME me\r\nCLIENT GETNAME\r\n", 2),
    ("CLIENT GETNAME\r\n", 1),
    ("CLIENT ID x\r\n", 1),
    ("CLIENT SETNAME\r\n", 1),
    ("CLIENT GETNAME x\r\n", 1),
    ("*01\r\n", 2),
    ("*1\r\n$04\r\nPING\r\n", 2),
    ("CLIENT SETNAME \"a b\"\r\n", 1),
    ("READONLY x\r\n", 1),
    ("COMMAND GETKEYS GET a\r\n", 1),
    ("COMMAND GETKEYS MGET a b c\r\n", 1),
    ("COMMAND GETKEYS PING\r\n", 1),
    ("COMMAND GETKEYS PING a\r\n", 1),
    ("COMMAND GETKEYS GET a b\r\n", 1),
    ("COMMAND GETKEYS EXISTS a\r\n", 1),
    ("COMMAND GETKEYS GET\r\n", 1),
    ("COMMAND GETKEYS NIX a\r\n", 1),
    ("COMMAND INFO nix\r\n", 1),
    ("HELLO 1\r\n", 1),
    ("HELLO 4\r\n", 1),
    ("HELLO x\r\n", 1),
    ("HELLO 2 NIX\r\n", 1),
    ("HELLO 2 AUTH dba\r\n", 1),
    ("HELLO 2 AUTH dba wrong\r\n", 1),
    ("HELLO 2 SETNAME \"a b\"\r\n", 1),
    ("AUTH\r\n", 1),
    ("AUTH a b c\r\n", 1),
    ("RESET\r\nPING\r\nGET shop.orders\r\nHELLO 3\r\n", 4),
    ("QUIT\r\nPING\r\n", 2),
    ("*x\r\n", 2),
    ("*2147483648\r\n", 2),
    ("*1\r\n:1\r\n", 2),
    ("PING \"a\r\n", 2),
];

/// By a client that has not logged in.
const BEFORE_LOGIN: [(&str, usize); 11] = [
    ("PING\r\n", 1),
    ("GET shop.orders\r\n", 1),
    ("INCR\r\n", 1),
    ("HELLO 3\r\n", 1),
    ("HELLO 9\r\n", 1),
    ("AUTH nobody wrong\r\n", 1),
    ("AUTH wrong\r\n", 1),
    ("*11\r\n", 2),
    ("*2\r\n$4\r\nAUTH\r\n$20000\r\n", 2),
    ("RESET\r\n", 1),
    ("QUIT\r\n", 2),
];

fn answers(mut redis: Redis, bytes: &str, count: usize) -> Vec<Option<String>> {
    redis.send(bytes.as_bytes());
    (0..count).map(|_| redis.answer()).collect()
}

#[test]
fn what_both_know_is_answered_alike() {
    let Some(server) = Server::start() else { return };
    let proxy = alone(&config(), GENERATORS);
    let (ours, mut differences) = (port(&proxy), Vec::new());
    let mut compare = |what: &str, bytes: &str, native, found| {
        if native != found {
            differences.push(format!(
                "{what}: {}\n  redis    {native:?}\n  rowstamp {found:?}\n",
                bytes.escape_debug()
            ));
        }
    };
    for version in [2, 3] {
        // Passwords that were wrong make the next ones wait.
        let login = |port| {
            let mut redis = Redis::stranger(port);
            wait_until(
                || "the login".to_owned(),
                || redis.ask(&format!("HELLO {version} AUTH dba c4nary-1")).starts_with(['*', '%']),
            );
            redis
        };
        for (bytes, count) in TALKS {
            let native = answers(login(server.port), bytes, count);
            compare(&format!("RESP{version}"), bytes, native, answers(login(ours), bytes, count));
        }
    }
    for (bytes, count) in BEFORE_LOGIN {
        let native = answers(Redis::stranger(server.port), bytes, count);
        compare("a stranger", bytes, native, answers(Redis::stranger(ours), bytes, count));
    }
    assert!(differences.is_empty(), "{}", differences.concat());
}
