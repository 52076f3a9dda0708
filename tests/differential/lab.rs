//! A server, with a proxy before it or without.

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

pub(crate) struct Lab {
    pub(crate) kind: Kind,
    direct: String,
    proxied: String,
    // Held for their ends: the proxy's first.
    _proxy: Option<Proxy>,
    _server: Option<Server>,
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
            return (given == kind).then_some(Lab { kind, direct, proxied, _proxy: None, _server: None });
        }
        let server = Server::start(kind)?;
        make_database(&server.address());
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("judge", RULES)]);
        Some(Lab {
            kind,
            direct: server.address(),
            proxied: proxy.address(),
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
