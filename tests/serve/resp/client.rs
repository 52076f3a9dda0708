//! A client of the Redis protocol that shows the bytes of each answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::wait::{NEVER, wait_until};
use crate::support::{Proxy, proxy};

/// Users of each role.
pub(crate) const USERS: &str = "[[admin.users]]\nname = \"dba\"\npassword = \"c4nary-1\"\nrole = \"write\"\n\
                                [[admin.users]]\nname = \"look\"\npassword = \"c4nary-2\"\n";

/// The configuration of the Redis door and the admin door, with their users.
pub(crate) fn config() -> String {
    format!("[resp]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n{USERS}\n")
}

/// A proxy in front of no server: INSERTs are no matter here.
pub(crate) fn alone(config: &str, rules: &str) -> Proxy {
    let text =
        proxy::config("127.0.0.1:1").replace("[backend.control]\nuser = \"root\"\npassword = \"\"\n", "");
    Proxy::start(&format!("{text}{config}"), &[("rules", rules)])
}

pub(crate) const GENERATORS: &str = "schema = \"shop\"\n[generators.orders]\nkind = \"sequence\"\n";

pub(crate) fn port(proxy: &Proxy) -> u16 {
    port_of(proxy, "the Redis protocol")
}

/// Returns the port of this door, as the log of the process that runs says it.
pub(crate) fn port_of(proxy: &Proxy, door: &str) -> u16 {
    let end = Instant::now() + NEVER;
    loop {
        let log = proxy.log();
        let found =
            log.rsplit_once(&format!("{door} is at 127.0.0.1:")).and_then(|(_, rest)| rest.split_once('\n'));
        if let Some((port, _)) = found {
            return port.trim().parse().unwrap();
        }
        assert!(Instant::now() < end, "there is no such door, {door}: {log}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends these requests again and again until nobody reads them any more. How many bytes were sent.
pub(crate) fn flood(mut stream: &TcpStream, requests: &[u8]) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    while let Ok(bytes) = stream.write(requests) {
        sent += bytes;
        assert!(sent < 1 << 30, "the proxy reads on and on");
    }
    sent
}

/// Sends the request until the connection ends, then reads what was answered before.
pub(crate) fn wait_until_it_ends(mut stream: &TcpStream, request: &[u8]) {
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    wait_until(
        || "the connection of who reads nothing ends".to_owned(),
        || stream.write_all(request).is_err(),
    );
    let mut bytes = vec![0; 1 << 16];
    while matches!(stream.read(&mut bytes), Ok(1..)) {}
}

pub(crate) struct Redis {
    stream: BufReader<TcpStream>,
}

impl Redis {
    /// A client that has not logged in.
    pub(crate) fn stranger(port: u16) -> Redis {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        stream.set_nodelay(true).unwrap();
        Redis::over(stream)
    }

    pub(crate) fn over(stream: TcpStream) -> Redis {
        Redis { stream: BufReader::new(stream) }
    }

    pub(crate) fn of(proxy: &Proxy) -> Redis {
        Redis::at(port(proxy))
    }

    pub(crate) fn at(port: u16) -> Redis {
        let mut redis = Redis::stranger(port);
        assert_eq!(redis.ask("AUTH dba c4nary-1"), "+OK");
        redis
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// The words of a line as a request; its answer, with a blank between the lines.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let request = request(&line.split(' ').collect::<Vec<_>>());
        self.send(&request);
        self.answer().unwrap_or_else(|| panic!("{line}: the connection has ended"))
    }

    /// An answer that is one integer.
    #[track_caller]
    pub(crate) fn id(&mut self, line: &str) -> u64 {
        let answer = self.ask(line);
        answer.strip_prefix(':').and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{line}: {answer}"))
    }

    /// `None`: the connection has ended.
    pub(crate) fn answer(&mut self) -> Option<String> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("no answer: {error}"),
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let mut told = line.clone();
        let (kind, rest) = line.split_at(1);
        match (kind, rest.parse::<i64>()) {
            ("$" | "=", Ok(bytes @ 0..)) => {
                let mut text = vec![0; usize::try_from(bytes).unwrap() + 2];
                self.stream.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                told = format!("{told} {}", String::from_utf8_lossy(&text));
            }
            ("*" | "~" | "%", Ok(count @ 0..)) => {
                for _ in 0..if kind == "%" { count * 2 } else { count } {
                    told = format!("{told} {}", self.answer()?);
                }
            }
            _ => {}
        }
        Some(told)
    }

    /// The socket, of which nothing was read ahead.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }
}

/// Returns the request as clients write it.
pub(crate) fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}
