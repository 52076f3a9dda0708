//! Who the session is, and what becomes of it where the server says no: failed COM_CHANGE_USERs, expired passwords.

use crate::rig::{Rig, code, code_of, each, each_with, insert_id, message, rows, rules};
use crate::support::Kind;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_EXPIRED_PASSWORDS, CLIENT_MULTI_STATEMENTS, Client, Options,
};

const SEEN: &str = "SELECT CONCAT_WS('/', IFNULL(@a,'none'), @@sql_mode, CURRENT_USER(), DATABASE(), LAST_INSERT_ID(), \
                    @@character_set_client)";

fn change_fails(client: &mut Client, user: &str, database: &str) -> String {
    client.change_user(user, database).unwrap_err().to_string()
}

/// Gives the session all that a COM_CHANGE_USER takes away.
fn furnished(mut client: Client) -> Client {
    for sql in [
        "SET NAMES latin1",
        "SET @a=5",
        "SET sql_mode='ANSI_QUOTES'",
        "CREATE TEMPORARY TABLE t (a INT)",
        "SET last_insert_id=77",
    ] {
        client.run(sql);
    }
    client
}

#[test]
fn a_failed_change_user_leaves_what_the_server_leaves() {
    let sql = "CREATE USER users_other IDENTIFIED BY 'x'; CREATE USER users_poor IDENTIFIED BY '';";
    each("users_change", sql, |rig| {
        for (user, database) in [("users_other", ""), ("users_nobody", ""), ("users_poor", "users_change")] {
            let [native, proxied] = [rig.direct(), rig.client()].map(|client| {
                let mut client = furnished(client);
                let prepared = client.prepare("INSERT INTO users_change.u VALUES(1,1)").unwrap().unwrap();
                let said = change_fails(&mut client, user, database);
                if rig.kind == Kind::MySql9 {
                    assert!(client.is_closed(), "{said}");
                    return None;
                }
                let seen = rows(&mut client, SEEN);
                let gone = code_of(&client.execute(&prepared, &[]).unwrap());
                Some((client, said, seen, gone))
            });
            let Some((mut native, said, seen, gone)) = native else { continue };
            let (mut proxied, said_too, seen_too, gone_too) = proxied.unwrap();
            assert_eq!((said, seen, gone), (said_too, seen_too, gone_too));
            let proxied = &mut proxied;
            // The table is the ruled one, and double quotes hold strings, as after a login.
            assert!(insert_id(proxied, "INSERT INTO t(a) VALUES(\"7\")") > 0, "{}", rig.name());
            proxied.run("DELETE FROM t");
            // The third one more, and from then on the server knows no such command.
            for _ in 0..3 {
                let both = [&mut native, &mut *proxied].map(|client| change_fails(client, user, database));
                assert_eq!(both[0], both[1]);
            }
            assert!(change_fails(proxied, "root", "").contains("1047"), "{}", rig.name());
            assert!(insert_id(proxied, "INSERT INTO users_change.t(a) VALUES(8)") > 0);
            proxied.run("DELETE FROM t");
        }
    });
}

#[test]
fn a_user_may_come_behind_one_that_was_refused() {
    let sql = "CREATE USER users_wrong IDENTIFIED BY 'x'; CREATE USER users_right IDENTIFIED BY ''; \
               GRANT ALL ON users_behind.* TO users_right;";
    each_with("users_behind", sql, "[limits]\nper_user = 1\n", &rules("users_behind"), |rig| {
        if rig.kind == Kind::MySql9 {
            return;
        }
        let mut client = rig.client();
        change_fails(&mut client, "users_wrong", "");
        let second = Client::connect(&rig.proxy.address(), &Options::default()).err().map(|e| e.to_string());
        assert!(second.is_some_and(|said| said.contains("1203")), "its seat is still root's");
        client.change_user("users_right", "users_behind").unwrap();
        assert!(rows(&mut client, "SELECT CURRENT_USER()").starts_with("users_right@"));
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)") > 0);
        assert!(Client::connect(&rig.proxy.address(), &Options::default()).is_ok(), "root's seat is free");
    });
}

/// Returns the statement that changes one's own password, which has expired, to the empty one.
fn change_of(kind: Kind) -> &'static str {
    match kind {
        Kind::MariaDb => "SET PASSWORD=PASSWORD('')",
        Kind::MySql9 => "ALTER USER USER() IDENTIFIED BY ''",
    }
}

fn expired(rig: &Rig, user: &str, capabilities: u32) -> Client {
    rig.direct().run(format!("ALTER USER {user} PASSWORD EXPIRE"));
    let capabilities = capabilities | CLIENT_EXPIRED_PASSWORDS;
    let options =
        Options { user: user.into(), database: Some(rig.db.clone()), capabilities, ..Options::default() };
    Client::connect(&rig.proxy.address(), &options).unwrap()
}

#[test]
fn an_expired_password_can_be_changed() {
    let sql = "CREATE USER users_late IDENTIFIED BY ''; GRANT ALL ON users_expired.* TO users_late;";
    each("users_expired", sql, |rig| {
        let change = change_of(rig.kind);
        for form in [0, CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS] {
            // At once.
            let mut client = expired(rig, "users_late", form);
            client.run(change);
            let id = insert_id(&mut client, "INSERT INTO t(a) VALUES(1)");
            assert!(id > 0, "{}", rig.name());
            assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), id.to_string());

            // After statements that the server refuses.
            let mut client = expired(rig, "users_late", form);
            for sql in [
                "SELECT 1",
                "SELECT ROW_COUNT()",
                "INSERT INTO t(a) VALUES(2)",
                "/*!50000 INSERT INTO t(a) VALUES(2)*/",
                "REPLACE t(a) SELECT 2",
                "PREPARE s FROM 'INSERT INTO t(a) VALUES(2)'",
                "SHOW TABLES",
                "CREATE TEMPORARY TABLE t (a INT)",
                "USE mysql",
            ] {
                let said = message(&mut client, sql);
                assert!(said.starts_with("1820 "), "{}: {sql}: {said}", rig.name());
            }
            // MySQL prepares them, and would run them when the password is changed.
            let refused = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap_err();
            assert_eq!(refused.code, 1820, "{}", rig.name());
            if form == CLIENT_MULTI_STATEMENTS {
                let both = format!("{change}; INSERT INTO t(a) VALUES(3)");
                assert_eq!(code(&mut client, both), 1820, "{}", rig.name());
            }
            client.run(change);
            let prepared = client.prepare("INSERT INTO t(a) VALUES(4)").unwrap().unwrap();
            let outcomes = client.execute(&prepared, &[]).unwrap();
            assert!(outcomes[0].ok().unwrap().insert_id > id, "{}", rig.name());

            // Without waiting for the answer.
            let mut client = expired(rig, "users_late", form);
            client
                .pipeline(&[
                    (0x03, b"SELECT 1"),
                    (0x03, b"INSERT INTO t(a) VALUES(5)"),
                    (0x03, change.as_bytes()),
                    (0x03, b"INSERT INTO t(a) VALUES(5)"),
                ])
                .unwrap();
            let codes: Vec<u16> = (0..4)
                .map(|_| {
                    client.next_response();
                    code_of(&client.read_outcomes(false).unwrap())
                })
                .collect();
            assert_eq!(codes, [1820, 1820, 0, 0], "{}", rig.name());

            let seen = rows(&mut rig.direct(), "SELECT GROUP_CONCAT(a ORDER BY a), MIN(id)>0 FROM t");
            assert_eq!(seen, "1,4,5,1", "{}", rig.name());
            rig.direct().run("DELETE FROM t");
        }
    });
}

/// Each name logs in straight, and by COM_CHANGE_USER, and the server says how it has read it. The proxy counts users by the same name.
#[test]
fn names_are_read_as_the_servers_read_them() {
    let names = [
        "plain",
        "'plain'",
        "''plain''",
        "'plain",
        "plain'",
        "\"plain\"",
        "'\"plain\"'",
        "`plain`",
        "'",
        "''",
        "'''",
        "é",
        "'é'",
    ];
    each_with("users_names", "", "[limits]\nper_user = 1\n", &rules("users_names"), |rig| {
        let mut direct = rig.direct();
        for name in names.map(user_name_of).into_iter().chain(names.map(str::to_owned)) {
            let name = name.replace('\'', "\\'");
            direct.run(format!("CREATE USER IF NOT EXISTS '{name}'@'%' IDENTIFIED BY ''"));
        }
        for name in names {
            let read = format!("{}@127.0.0.1", user_name_of(name));
            let options = Options { user: name.to_owned(), ..Options::default() };
            let mut client = Client::connect(&rig.server.address(), &options).unwrap();
            assert_eq!(rows(&mut client, "SELECT USER()"), read, "{} {name:?}", rig.name());
            let mut client = rig.server.client();
            client.change_user(name, "").unwrap();
            assert_eq!(
                rows(&mut client, "SELECT USER()"),
                format!("{name}@127.0.0.1"),
                "{} {name:?} by COM_CHANGE_USER",
                rig.name()
            );
        }
        let login = |name: &str| {
            let options = Options { user: name.to_owned(), ..Options::default() };
            Client::connect(&rig.proxy.address(), &options)
        };
        let _first = login("plain").unwrap();
        let refused = login("'plain'").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("1203"), "{}: it is the same user: {refused}", rig.name());
        let mut other = login("''plain''").unwrap();
        assert!(other.change_user("plain", "").is_err(), "{}: it is the same user", rig.name());
        // The account of no name lets everybody in.
        for name in ["", "'"] {
            direct.run(format!("DROP USER '{}'@'%'", name.replace('\'', "\\'")));
        }
    });
}

fn user_name_of(name: &str) -> String {
    String::from_utf8(rowstamp::mysql::handshake::user_name(name.as_bytes()).to_vec()).unwrap()
}
