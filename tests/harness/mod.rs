//! The harness itself: servers start, are told apart and end; the raw client reads what both servers send.

use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK, Client, Options, Param, Value,
};
use crate::support::{Kind, Server};

#[test]
fn the_raw_client_speaks_text_and_binary_to_both_servers() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        for capabilities in
            [CLIENT_MULTI_STATEMENTS, CLIENT_MULTI_STATEMENTS | CLIENT_DEPRECATE_EOF | CLIENT_SESSION_TRACK]
        {
            let options = Options { database: Some("test".to_owned()), capabilities, ..Options::default() };
            let mut client = Client::connect(&server.address(), &options).expect("login");
            client.run("DROP TABLE IF EXISTS t; CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(9), d DATETIME)");
            let ok = client.run("INSERT INTO t (a) VALUES ('x'), (NULL)").remove(0);
            let ok = ok.ok().expect("an OK");
            assert_eq!(
                (ok.affected_rows, ok.insert_id, ok.info.as_str()),
                (2, 1, "Records: 2  Duplicates: 0  Warnings: 0")
            );
            assert_eq!(
                client.run("SELECT 1; SELECT 'b', NULL")[1].rows(),
                [[Value::Bytes(b"b".to_vec()), Value::Null]]
            );

            let insert =
                client.prepare("INSERT INTO t VALUES (?, ?, '2024-01-02')").expect("io").expect("prepares");
            assert_eq!(insert.params, 2);
            let params = [Param::NullInt, Param::String(b"abc".to_vec())];
            assert_eq!(client.execute(&insert, &params).expect("io")[0].ok().expect("an OK").insert_id, 3);
            let select =
                client.prepare("SELECT id, a, d FROM t WHERE id > ?").expect("io").expect("prepares");
            let rows = client.execute(&select, &[Param::Int(2)]).expect("io").remove(0);
            assert_eq!(
                rows.rows(),
                [[Value::Int(3), Value::Bytes(b"abc".to_vec()), Value::Packed(vec![0xE8, 0x07, 1, 2])]]
            );
            let error = client.query("SELECT nonsense").expect("io").remove(0);
            assert_eq!(error.err().map(|e| (e.code, e.sqlstate.as_str())), Some((1054, "42S22")));
            client.quit().expect("the server closes");
        }
    }
}

#[test]
fn a_server_ends_with_its_owner_and_restarts_on_its_data() {
    for kind in Kind::ALL {
        let Some(mut server) = Server::start(kind) else { continue };
        server.client().run("CREATE TABLE test.kept (a INT)");
        server.restart();
        server.client().run("INSERT INTO test.kept VALUES (1)");
        let (pid, dir) = (server.pid, server.dir().to_owned());
        drop(server);
        assert!(!dir.exists(), "the folder is gone");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "the process is gone");
    }
}
