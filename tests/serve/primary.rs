//! Several backend addresses: new sessions go to the server that can be written to.

use std::time::{Duration, Instant};

use crate::rig::{insert_id, make, rows, rules};
use crate::support::raw::{Client, Options};
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy, Server, proxy};

const DB: &str = "primary_db";

fn client(proxy: &Proxy) -> Option<Client> {
    Client::connect(&proxy.address(), &Options { database: Some(DB.to_owned()), ..Options::default() }).ok()
}

/// Returns a session that this server serves, as soon as there is one.
#[track_caller]
fn client_on(proxy: &Proxy, server: &Server) -> Client {
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    let end = Instant::now() + NEVER;
    loop {
        if let Some(mut client) = client(proxy)
            && rows(&mut client, "SELECT @@port") == port
        {
            return client;
        }
        assert!(Instant::now() < end, "no session comes to {port}:\n{}", proxy.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn read_only(server: &Server, is_on: bool) {
    server.client().run(format!("SET GLOBAL read_only = {}", u8::from(is_on)));
}

#[test]
fn new_sessions_go_to_the_server_that_can_be_written_to() {
    for kind in Kind::ALL {
        let (Some(mut first), Some(second)) = (Server::start(kind), Server::start(kind)) else { continue };
        for server in [&first, &second] {
            make(server, DB, "");
        }
        // Only the second server has this column and this row: tables are read where the rows go.
        let mut direct = second.client();
        direct.run(format!("ALTER TABLE {DB}.t ADD COLUMN c INT"));
        direct.run(format!("INSERT INTO {DB}.t VALUES(50,1,1)"));
        read_only(&first, true);
        let both = format!("[\"{}\", \"{}\"]", first.address(), second.address());
        let config = proxy::config(&first.address()).replace(&format!("\"{}\"", first.address()), &both);
        let proxy = Proxy::start(&config, &[("rules", &rules(DB))]);
        let mut old = client_on(&proxy, &second);
        assert_eq!(insert_id(&mut old, "INSERT INTO t VALUES(NULL,2,2)"), 51, "{}", kind.name());
        // Both can be written to: nobody is moved. Then the second cannot.
        read_only(&first, false);
        std::thread::sleep(Duration::from_millis(2_500));
        client_on(&proxy, &second);
        read_only(&second, true);
        let mut new = client_on(&proxy, &first);
        assert!(insert_id(&mut new, "INSERT INTO t VALUES(NULL,2)") > 51, "{}", kind.name());
        assert_eq!(rows(&mut old, "SELECT COUNT(*) FROM t"), "2", "{}: it stays where it is", kind.name());
        // One that is gone is worse than one that is read_only.
        first.kill();
        client_on(&proxy, &second);
        read_only(&second, false);
        let mut last = client_on(&proxy, &second);
        let end = Instant::now() + NEVER;
        loop {
            let outcomes = last.query("INSERT INTO t VALUES(NULL,3,3)").unwrap();
            if outcomes[0].ok().is_some_and(|ok| ok.insert_id > 52) {
                break;
            }
            assert!(Instant::now() < end, "{}: {}", kind.name(), proxy.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
