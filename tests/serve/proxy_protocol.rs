//! listen.proxy_protocol and backend.send_proxy: who the client is, from a load balancer to the server.

use std::io;

use crate::rig::{Rig, insert_id, make, rows, rules, server};
use crate::support::raw::{Client, Options};
use crate::support::servers::{ServerOptions, Shared};
use crate::support::{Kind, Proxy, Server, proxy};

const V1: &[u8] = b"PROXY TCP4 192.0.2.1 10.0.0.2 4242 3306\r\n";
const V2_IPV6: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\x10\x92\x0c\xea";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
const HERE: &str = "127.0.0.1";

/// In front of the servers that all tests share.
fn start(kind: Kind, db: &str, listen: (&str, &str), tables: &str) -> Option<Rig> {
    Some(start_at(kind, server(kind)?, db, listen, "", tables))
}

/// Starts a proxy that believes the headers of `from`. `backend` has keys of `[backend]`,
/// and `tables` ends the file.
fn start_at(
    kind: Kind,
    server: &'static Server,
    db: &str,
    (mode, from): (&str, &str),
    backend: &str,
    tables: &str,
) -> Rig {
    make(server, db, "");
    let listen = format!("[listen]\nproxy_protocol = \"{mode}\"\nproxy_protocol_from = [\"{from}\"]\n");
    let config = proxy::config(&server.address())
        .replace("[listen]\n", &listen)
        .replace("[backend]\n", &format!("[backend]\n{backend}\n"));
    let proxy = Proxy::start(&format!("{config}{tables}"), &[("rules", &rules(db))]);
    Rig { kind, server, proxy, db: db.to_owned() }
}

fn connect(rig: &Rig, header: &[u8]) -> io::Result<Client> {
    let options =
        Options { database: Some(rig.db.clone()), proxy_header: header.to_vec(), ..Options::default() };
    Client::connect(&rig.proxy.address(), &options)
}

fn refused(rig: &Rig, header: &[u8]) -> String {
    connect(rig, header).err().expect("refused").to_string()
}

#[test]
fn required() {
    for kind in Kind::ALL {
        let limit = "[limits]\nper_address = 1\n";
        let Some(rig) = start(kind, "proxy_required", ("required", HERE), limit) else { continue };
        for header in [V1, V2_IPV6, V2_LOCAL] {
            let mut client = connect(&rig, header).unwrap();
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0, "{}", rig.name());
            // Counted among those of the address in the header.
            assert!(refused(&rig, header).contains("1040"), "{}", rig.name());
        }
        let said = refused(&rig, b"\x01\0\0\x01x");
        assert!(said.contains("1043") && said.contains("no PROXY protocol header"), "{said}");
        let said = refused(&rig, b"PROXY TCP4 nobody\r\n");
        assert!(said.contains("1043") && said.contains("cannot be read"), "{said}");
    }
}

/// Health checks and administrators come without one.
#[test]
fn optional() {
    for kind in Kind::ALL {
        let Some(rig) = start(kind, "proxy_optional", ("optional", HERE), "") else { continue };
        for header in [V1, b""] {
            let mut client = connect(&rig, header).unwrap();
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0, "{}", rig.name());
        }
    }
}

#[test]
fn from_elsewhere() {
    for kind in Kind::ALL {
        let Some(rig) = start(kind, "proxy_elsewhere", ("required", "10.0.0.0/8"), "") else { continue };
        for header in [V1, b""] {
            let said = refused(&rig, header);
            assert!(said.contains("1043") && said.contains("127.0.0.1 is not in that list"), "{said}");
        }
    }
}

/// MariaDB believes it of whom its proxy_protocol_networks name, and lets nobody in from where no account is.
#[test]
fn mariadb_is_told() {
    // A server of its own: on another one, accounts of other tests may be of any host.
    static SERVERS: Shared = Shared::new();
    let options = || ServerOptions {
        arguments: vec!["--proxy-protocol-networks=127.0.0.1".into()],
        ..Default::default()
    };
    let Some(server) = SERVERS.get(Kind::MariaDb, options) else { return };
    for version in ["v1", "v2"] {
        let (db, backend) = (format!("proxy_told_{version}"), format!("send_proxy = \"{version}\""));
        let rig = start_at(Kind::MariaDb, server, &db, ("optional", HERE), &backend, "");
        if version == "v1" {
            let said = refused(&rig, V1);
            assert!(said.contains("1130") && said.contains("'192.0.2.1' is not allowed"), "{said}");
        }
        server.client().run(format!("CREATE USER {db}"));
        server.client().run(format!("GRANT ALL ON {db}.* TO {db}"));
        for (header, host) in
            [(V1, "192.0.2.1:4242"), (V2_IPV6, "2001:db8::1:4242"), (b"", HERE), (V2_LOCAL, HERE)]
        {
            let options = Options {
                user: db.clone(),
                database: Some(db.clone()),
                proxy_header: header.to_vec(),
                ..Options::default()
            };
            let mut client = Client::connect(&rig.proxy.address(), &options).unwrap();
            let seen =
                rows(&mut client, "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID=CONNECTION_ID()");
            assert!(
                seen == host || seen.starts_with(&format!("{host}:")),
                "{version}: {seen} instead of {host}"
            );
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0);
        }
    }
}
