//! A server, with a proxy before it or without.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::differential::comments;
use crate::differential::run::{FIRST_ID, Record};
use crate::differential::wire::{Rules, Wire};
use crate::support::tap::Tap;
use crate::support::{Kind, Proxy, Server, proxy, raw};

/// The sequence starts where the native tables' counters do: numbers below are explicit in every run.
pub(crate) const RULES: &str = r#"
schema = "judge"

[generators.ids]
kind = "sequence"
start = 1000001
seed = "none"

[tables."t*"]
column = "id"
generator = "ids"

[tables.tkeep]
column = "id"
generator = "ids"
explicit = "keep"

[tables.treject]
column = "id"
generator = "ids"
explicit = "reject"

[tables.tpacket]
column = "id"
generator = "ids"
insert_id = "packet"
"#;

/// The names of the cases' id columns, in tables and views.
const ID_COLUMNS: [&str; 4] = ["id", "ident", "q", "x"];

pub(crate) struct Lab {
    pub(crate) kind: Kind,
    direct: String,
    proxied: String,
    taps: Option<Taps>,
    // Held for their ends: the proxy's first.
    _proxy: Option<Proxy>,
    _server: Option<Server>,
}

/// On both sides of the proxy.
struct Taps {
    client: Tap,
    server: Tap,
    wire: Mutex<Wire>,
}

impl Lab {
    /// The "proxied" address is the server's own.
    pub(crate) fn without_proxy(kind: Kind) -> Option<Lab> {
        let server = Server::start(kind)?;
        make_database(&server.address());
        Some(Lab {
            kind,
            direct: server.address(),
            proxied: server.address(),
            taps: None,
            _proxy: None,
            _server: Some(server),
        })
    }

    pub(crate) fn with_proxy(kind: Kind) -> Option<Lab> {
        if let Some((direct, proxied)) = given_addresses() {
            make_database(&direct);
            let version = raw::Client::connect(&direct, &raw::Options::default())
                .expect("the given server")
                .server_version;
            let given = if version.contains("MariaDB") { Kind::MariaDb } else { Kind::MySql9 };
            return (given == kind).then_some(Lab {
                kind,
                direct,
                proxied,
                taps: None,
                _proxy: None,
                _server: None,
            });
        }
        let server = Server::start(kind)?;
        make_database(&server.address());
        let behind = Tap::start(&server.address());
        // A tap can read nothing of TLS; tests/login has TLS on either side.
        let config = proxy::config(&behind.address()) + "[backend.tls]\nmode = \"disabled\"\n";
        let proxy = Proxy::start(&config, &[("judge", RULES)]);
        let before = Tap::start(&proxy.address());
        let rules = Rules { columns: &ID_COLUMNS, first_id: FIRST_ID };
        Some(Lab {
            kind,
            direct: server.address(),
            proxied: before.address(),
            taps: Some(Taps { client: before, server: behind, wire: Mutex::new(Wire::new(rules)) }),
            _proxy: Some(proxy),
            _server: Some(server),
        })
    }

    /// A connection to the server itself that sees rows as they are written, committed or not.
    pub(crate) fn observer(&self) -> raw::Client {
        // Several dumps go in one packet.
        let capabilities = raw::CLIENT_DEPRECATE_EOF | raw::CLIENT_MULTI_STATEMENTS;
        let database = Some("judge".to_owned());
        let options = raw::Options { database, capabilities, ..raw::Options::default() };
        let mut observer = raw::Client::connect(&self.direct, &options).expect("root logs in");
        observer.run("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
        observer
    }

    /// Adds to a run through the proxy what is wrong with the bytes that its session left on the two wires.
    pub(crate) fn with_bytes(&self, result: io::Result<Record>) -> io::Result<Record> {
        let Some(taps) = &self.taps else { return result };
        let (client, server) = (taps.client.take(), taps.server.take());
        // `wire` knows our own statements and their causes by their texts.
        if comments() {
            return result;
        }
        // A session that broke off in its midst tells nothing more.
        let mut record = result?;
        let mut wire = taps.wire.lock().unwrap_or_else(PoisonError::into_inner);
        let complaints = wire.complaints(&client, &server);
        record.bytes.extend(complaints.into_iter().map(|complaint| format!("bytes: {complaint}")));
        Ok(record)
    }

    /// Commands of clients whose bytes were compared.
    pub(crate) fn bytes_compared(&self) -> usize {
        self.taps.as_ref().map_or(0, |taps| taps.wire.lock().unwrap_or_else(PoisonError::into_inner).compared)
    }

    pub(crate) fn direct(&self) -> &str {
        &self.direct
    }

    pub(crate) fn proxied(&self) -> &str {
        &self.proxied
    }
}

/// Server and proxy from the environment, both or none.
pub(crate) fn given_addresses() -> Option<(String, String)> {
    let proxied = std::env::var("ROWSTAMP_JUDGE_PROXY").ok()?;
    let direct =
        std::env::var("ROWSTAMP_JUDGE_SERVER").expect("ROWSTAMP_JUDGE_PROXY needs ROWSTAMP_JUDGE_SERVER");
    Some((direct, proxied))
}

fn make_database(address: &str) {
    let mut client = raw::Client::connect(address, &raw::Options::default()).expect("root logs in");
    client.run("CREATE DATABASE IF NOT EXISTS judge CHARACTER SET utf8mb4");
}
