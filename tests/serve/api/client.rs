//! A client of HTTP that shows each answer, and sends any bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::resp::client::{USERS, port_of};
use crate::support::Proxy;
use crate::support::wait::NEVER;

/// Returns the configuration of the HTTP API and its users.
pub(crate) fn config() -> String {
    format!("[api]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n{USERS}\n")
}

pub(crate) fn port(proxy: &Proxy) -> u16 {
    port_of(proxy, "the HTTP API")
}

pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// A user that may do everything.
pub(crate) fn dba() -> String {
    basic("dba", "c4nary-1")
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Returns the code of a problem.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        problem["code"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// One id that was drawn.
    #[track_caller]
    pub(crate) fn id(&self) -> u64 {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()["first"].as_str().unwrap().parse().unwrap()
    }
}

pub(crate) struct Http {
    stream: BufReader<TcpStream>,
    login: String,
}

impl Http {
    /// Whose requests have this `Authorization`. Empty: none.
    pub(crate) fn new(port: u16, login: &str) -> Http {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(NEVER)).unwrap();
        stream.set_nodelay(true).unwrap();
        Http { stream: BufReader::new(stream), login: login.to_owned() }
    }

    pub(crate) fn dba(port: u16) -> Http {
        Http::new(port, &dba())
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    /// Draws what the body asks for.
    pub(crate) fn draw(&mut self, generator: &str, body: &str) -> Answer {
        self.ask("POST", &format!("/v1/generators/{generator}/ids"), body)
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Answer {
        let request = self.request(method, path, body);
        self.send(request.as_bytes());
        self.answer_to(method).unwrap_or_else(|| panic!("{method} {path}: the connection has ended"))
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> String {
        let login = match &*self.login {
            "" => String::new(),
            login => format!("Authorization: {login}\r\n"),
        };
        let about_body = match body {
            "" => String::new(),
            _ => format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
        };
        format!("{method} {path} HTTP/1.1\r\nHost: ids\r\n{login}{about_body}\r\n{body}")
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// `None`: the connection has ended.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        self.answer_to("GET")
    }

    fn answer_to(&mut self, method: &str) -> Option<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match self.stream.read_line(&mut head) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut answer = Answer { status: status.unwrap(), head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
        self.stream.read_exact(&mut body).ok()?;
        answer.body = String::from_utf8(body).unwrap();
        Some(answer)
    }
}
