//! Ids that come into a table by other ways than an INSERT of new rows. After each way INSERTs follow whose id must be a new one: where
//! it is not, IGNORE leaves the row out, REPLACE deletes the row that has the id, and ON DUPLICATE KEY UPDATE updates that one. No error
//! would tell of it.

use crate::in_table;
use crate::rig::{Rig, code_of, each_with, insert_id, make, message, prepare, rows, rules, server};
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options, Outcome, Param};
use crate::support::{Kind, Proxy, proxy};

/// `k` of a row that a way moves or makes, and of those that follow.
struct Keys(u64);

impl Keys {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

const TABLES: &str = "CREATE TABLE o (id BIGINT {auto} PRIMARY KEY, k BIGINT UNIQUE, v VARCHAR(40));
    CREATE TABLE moved (n INT); INSERT INTO moved VALUES (1);
    CREATE VIEW seen AS SELECT id AS number, k FROM o;
    CREATE PROCEDURE inserts(IN at BIGINT, IN n BIGINT) INSERT INTO o (id, k) VALUES (at, n);
    CREATE PROCEDURE moves() UPDATE o SET id = id + 3 ORDER BY id DESC LIMIT 1;";

/// Statements that give a row of `o` a higher id, or bring one: `{h}` is the highest id, `{k}` a new key. With `|` between them, each is
/// sent alone.
const WAYS: [&str; 24] = [
    "UPDATE o SET v = 'a', id = {h} + 2 WHERE id = {h}",
    "-- moved\nUPDATE `o` AS x SET x.`ID` = {h} + 3 WHERE x.id = {h}",
    "UPDATE o JOIN moved ON n = 1 SET o.id = o.id + 2 WHERE o.id = {h}",
    "UPDATE seen SET number = number + 2 WHERE number = {h}",
    "UPDATE seen JOIN moved ON n = 1 SET number = number + 2 WHERE number = {h}",
    "WITH w AS (SELECT 1 AS one) UPDATE o, w SET id = id + 2 WHERE id = {h}",
    "INSERT INTO o (k) VALUES ({K}) ON DUPLICATE KEY UPDATE id = id + 3",
    "INSERT INTO o (id, k) VALUES ({h}, {k}) ON DUPLICATE KEY UPDATE o.id = {h} + 2",
    "INSERT IGNORE INTO o (id, k) VALUES ({h} + 2, {k}), ({h}, {k})",
    "INSERT INTO o (id, k) VALUES (0x{hex}, {k})",
    "INSERT INTO o (id, k) SELECT {h} + 2, {k}",
    "REPLACE INTO o (id, k) VALUES ({h} + 2, {k})",
    "PREPARE s FROM 'INSERT INTO o (id, k) VALUES (?, ?)' | SET @id = {h} + 2, @k = {k} | EXECUTE s USING @id, @k",
    "PREPARE s FROM 'UPDATE o SET id = ? WHERE id = ?' | SET @new = {h} + 2, @id = {h} | EXECUTE s USING @new, @id",
    "EXECUTE IMMEDIATE 'UPDATE o SET id = id + 2 WHERE id = {h}'",
    "SET STATEMENT max_statement_time = 10 FOR UPDATE o SET id = id + 2 WHERE id = {h}",
    "BEGIN NOT ATOMIC UPDATE o SET id = id + 2 WHERE id = {h}; END",
    "CALL inserts({h} + 2, {k})",
    "# moved\n CALL moves()",
    "SET sql_mode = 'ANSI_QUOTES' | UPDATE \"o\" SET \"v\" = \"v\", \"id\" = {h} + 2 WHERE \"id\" = {h}",
    "LOCK TABLES o WRITE | UPDATE o SET id = {h} + 2 WHERE id = {h}",
    "ALTER TABLE o CHANGE id id BIGINT {auto}, AUTO_INCREMENT = {h}",
    "CREATE TABLE other LIKE o | INSERT INTO other (id, k) VALUES ({h} + 2, {k}), ({h} + 4, -{k}) | RENAME TABLE o TO gone, other TO o | DROP TABLE gone",
    "CREATE TABLE first LIKE o | INSERT INTO first (id, k) VALUES ({h} + 2, {k}) | RENAME TABLE o TO x, first TO o, x TO first | DROP TABLE first",
];

/// True if the server knows this way.
fn is_known(kind: Kind, way: &str) -> bool {
    match kind {
        Kind::MariaDb => !way.starts_with("WITH"),
        Kind::MySql9 => {
            !["EXECUTE IMMEDIATE", "SET STATEMENT", "BEGIN NOT"].iter().any(|begin| way.starts_with(begin))
        }
    }
}

fn filled(way: &str, auto: &str, highest: u64, (old, new): (u64, u64)) -> String {
    way.replace("{auto}", auto)
        .replace("{hex}", &format!("{:x}", highest + 2))
        .replace("{h}", &highest.to_string())
        .replace("{K}", &old.to_string())
        .replace("{k}", &new.to_string())
}

fn affected(client: &mut Client, sql: &str) -> Result<u64, u16> {
    match client.query(sql).unwrap().last().unwrap() {
        Outcome::Ok(ok) => Ok(ok.affected_rows),
        Outcome::Err(error) => Err(error.code),
        Outcome::Rows(_) => unreachable!(),
    }
}

/// Which statements after the way did not store a row of their own.
fn wrong_after(clients: &mut [Client], keys: &mut Keys) -> Vec<String> {
    let mut wrong = Vec::new();
    let clients_nr = clients.len();
    for nth in 0..6 {
        let k = keys.next();
        let sql = match nth % 3 {
            0 => format!("INSERT IGNORE INTO o (k) VALUES ({k})"),
            1 => format!("REPLACE INTO o (k) VALUES ({k})"),
            _ => format!("INSERT INTO o (k) VALUES ({k}) ON DUPLICATE KEY UPDATE v = 'updated'"),
        };
        let stored = affected(&mut clients[nth % clients_nr], &sql);
        if stored != Ok(1) {
            wrong.push(format!("{sql}: {stored:?}"));
        }
    }
    wrong
}

fn highest(client: &mut Client) -> u64 {
    rows(client, "SELECT MAX(id) FROM o").parse().unwrap()
}

fn each_table(db: &str, run: impl Fn(&mut Rig, &str)) {
    for auto in ["", "AUTO_INCREMENT"] {
        let db = format!("{db}_{}", auto.len());
        let rules = rules(&db).replace("[tables.t]", "[tables.o]");
        each_with(&db, &TABLES.replace("{auto}", auto), "", &rules, |rig| run(rig, auto));
    }
}

#[test]
fn no_statement_after_it_gets_an_id_that_is_in_the_table() {
    each_table("moved", |rig, auto| {
        let (mut keys, mut all_wrong) = (Keys(1_000), Vec::new());
        for way in WAYS.iter().filter(|way| is_known(rig.kind, way)) {
            let mut clients = [rig.client(), rig.client()];
            for client in &mut clients {
                client.run(format!("INSERT INTO o (k) VALUES ({})", keys.next()));
            }
            let (old, new) = (keys.0, keys.next());
            let highest = highest(&mut clients[0]);
            for sql in filled(way, auto, highest, (old, new)).split(" | ") {
                clients[0].run(sql);
            }
            let is_locked = way.starts_with("LOCK");
            let clients = if is_locked { &mut clients[..1] } else { &mut clients[..] };
            let wrong = wrong_after(clients, &mut keys);
            all_wrong.extend(wrong.into_iter().map(|wrong| format!("{way}: {wrong}")));
        }
        assert!(all_wrong.is_empty(), "{} {auto}: {all_wrong:#?} {}", rig.name(), rig.proxy.log());
    });
}

/// By the driver's prepared statements, in one packet with what follows, and sent without waiting for its answer.
#[test]
fn each_way_of_sending_it() {
    each_table("moved_sent", |rig, auto| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        let mut keys = Keys(1_000);
        let begin = |client: &mut Client, keys: &mut Keys| {
            client.run(format!("INSERT INTO o (k) VALUES ({})", keys.next()));
            highest(client)
        };
        let check = |client: &mut Client, keys: &mut Keys, what: &str| {
            let wrong = wrong_after(std::slice::from_mut(client), keys);
            assert!(wrong.is_empty(), "{} {auto} {what}: {wrong:#?} {}", rig.name(), rig.proxy.log());
        };
        for what in [
            "UPDATE o SET id = ? WHERE id = ?",
            "INSERT INTO o (k) SELECT 1 FROM moved WHERE ? + ? < 0",
            "INSERT INTO o (id, k) VALUES (?, ?)",
            "CALL inserts(?, ?)",
        ] {
            let statement = prepare(&mut client, what);
            for _ in 0..2 {
                let highest = begin(&mut client, &mut keys);
                let second = if what.starts_with("UPDATE") { highest } else { keys.next() };
                let params = [highest + 2, second].map(|value| Param::Int(i64::try_from(value).unwrap()));
                client.execute(&statement, &params).unwrap();
                check(&mut client, &mut keys, what);
            }
        }
        let statement =
            prepare(&mut client, "INSERT INTO o (k) VALUES (?) ON DUPLICATE KEY UPDATE id = id + 2");
        begin(&mut client, &mut keys);
        client.execute(&statement, &[Param::Int(i64::try_from(keys.0).unwrap())]).unwrap();
        check(&mut client, &mut keys, "a prepared upsert");
        for separate in [false, true] {
            for way in ["UPDATE o SET id = {h} + 1 WHERE id = {h}", "CALL inserts({h} + 1, {k})"] {
                let highest = begin(&mut client, &mut keys);
                let (k, n) = (keys.next(), keys.next());
                let way = filled(way, auto, highest, (0, k));
                let insert = format!("INSERT IGNORE INTO o (k) VALUES ({n})");
                if separate {
                    client.pipeline(&[(0x03, way.as_bytes()), (0x03, insert.as_bytes())]).unwrap();
                    client.next_response();
                    client.read_outcomes(false).unwrap();
                    client.next_response();
                    client.read_outcomes(false).unwrap();
                } else {
                    client.run(format!("{way}; {insert}"));
                }
                let stored = rows(&mut client, &format!("SELECT COUNT(*) FROM o WHERE k = {n}"));
                assert_eq!(stored, "1", "{} {auto} {separate}: {way}", rig.name());
            }
        }
    });
}

/// In a session whose texts name nothing that is ruled.
#[test]
fn a_session_that_names_no_table() {
    each_table("moved_unseen", |rig, auto| {
        let mut keys = Keys(1_000);
        let mut client = rig.client();
        for nth in 0..8 {
            client.run(format!("INSERT INTO o (k) VALUES ({})", keys.next()));
            let comment = if nth / 2 % 2 == 0 { "" } else { "# called\n" };
            let call =
                format!("{comment}CALL {}.inserts({} + 2, {})", rig.db, highest(&mut client), keys.next());
            let options = Options { database: (nth % 2 == 0).then(|| rig.db.clone()), ..Options::default() };
            let mut other = Client::connect(&rig.proxy.address(), &options).unwrap();
            if nth < 4 {
                other.run(call);
            } else {
                let statement = prepare(&mut other, &call);
                other.execute(&statement, &[]).unwrap();
            }
            let wrong = wrong_after(std::slice::from_mut(&mut client), &mut keys);
            assert!(wrong.is_empty(), "{} {auto} {nth}: {wrong:#?}", rig.name());
        }
    });
}

/// Straight to the server, before the proxy has looked at the table.
#[test]
fn a_statement_that_hides_a_collision_is_preceded_by_a_look() {
    each_table("moved_quiet", |rig, auto| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        direct.run("INSERT INTO o (id, k) VALUES (1, 1), (2, 2), (3, 3)");
        let wrong = wrong_after(std::slice::from_mut(&mut client), &mut Keys(1_000));
        assert!(wrong.is_empty(), "{} {auto}: {wrong:#?}", rig.name());
    });
}

/// The first is looked at already.
#[test]
fn each_table_of_a_packet_is_looked_at() {
    let db = "moved_packet";
    let rules =
        rules(db).replace("[tables.t]", "[tables.\"?\"]").replace("generators.g", "generators.\"{table}\"");
    let rules = rules.replace("generator = \"g\"", "generator = \"{table}\"");
    each_with(db, &format!("{} CREATE TABLE p LIKE o;", TABLES.replace("{auto}", "")), "", &rules, |rig| {
        let (mut client, mut direct) = (rig.client_with(CLIENT_MULTI_STATEMENTS), rig.direct());
        client.run("REPLACE INTO o (k) VALUES (1)");
        direct.run("INSERT INTO p (id, k) VALUES (1, 1), (2, 2), (3, 3)");
        client.run("REPLACE INTO o (k) VALUES (2); REPLACE INTO p (k) VALUES (4)");
        assert_eq!(
            rows(&mut client, "SELECT GROUP_CONCAT(k ORDER BY k) FROM p"),
            "1,2,3,4",
            "{}",
            rig.name()
        );
    });
}

/// Many tables: a hundred questions are not enough.
#[test]
fn each_table_of_a_packet_of_many_is_looked_at() {
    const MANY: u32 = 120;
    let db = "moved_many";
    let rules =
        rules(db).replace("[tables.t]", "[tables.\"m_*\"]").replace("generators.g", "generators.\"{table}\"");
    let rules = rules.replace("generator = \"g\"", "generator = \"{table}\"");
    let of_each = |sql: &str| (1..=MANY).map(|n| sql.replace("{n}", &n.to_string())).collect::<String>();
    let tables = of_each("CREATE TABLE m_{n} (id BIGINT PRIMARY KEY, k BIGINT UNIQUE);");
    each_with(db, &tables, "", &rules, |rig| {
        let mut direct = rig.direct();
        for n in 1..=MANY {
            direct.run(format!("INSERT INTO m_{n} (id, k) VALUES (1, 1), (2, 2), (3, 3)"));
        }
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        client.run(of_each("REPLACE INTO m_{n} (k) VALUES (4);"));
        for n in 1..=MANY {
            let rows = rows(&mut client, &format!("SELECT GROUP_CONCAT(k ORDER BY k) FROM m_{n}"));
            assert_eq!(rows, "1,2,3,4", "{} m_{n}", rig.name());
        }
    });
}

/// The control account waits for a DDL statement that waits for the client's own transaction. The session reads the highest id itself.
#[test]
fn a_table_that_cannot_be_looked_at() {
    each_table("moved_waiting", |rig, auto| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        let stored = (1..=10).find_map(|nth| {
            client.run("BEGIN");
            client.run("INSERT INTO o (k) VALUES (1)");
            let mut altering = rig.direct();
            let id = rows(&mut altering, "SELECT CONNECTION_ID()");
            altering.send_query(format!("ALTER TABLE o ADD x{nth} INT").as_bytes()).unwrap();
            let waits = format!(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id} AND state LIKE 'Waiting for%'"
            );
            rig.wait_until("the DDL waits", || rows(&mut direct, &waits) == "1");
            let stored = client.query("REPLACE INTO o (k) VALUES (2)").unwrap();
            client.run("ROLLBACK");
            altering.next_response();
            altering.read_outcomes(false).unwrap();
            // MySQL's own answer to any use of the table, if a program of another test flushes tables meanwhile.
            (code_of(&stored) != 1213).then_some(stored)
        });
        let is_right = match stored.as_ref().and_then(|stored| stored.last()) {
            Some(Outcome::Ok(ok)) => ok.affected_rows == 1,
            // On a busy machine: the columns could not be read for 5 s, as the control account waits for the same lock.
            Some(Outcome::Err(error)) => error.message.contains("columns"),
            _ => false,
        };
        assert!(is_right, "{} {auto}: {stored:?} {}", rig.name(), rig.proxy.log());
    });
}

/// Like a dump that is loaded past the proxy. The statements wait for the lock, and then for the rows that
/// came under it.
#[test]
fn what_comes_under_another_clients_lock() {
    each_table("moved_locked", |rig, auto| {
        let [mut loading, mut direct] = [rig.direct(), rig.direct()];
        loading.run("LOCK TABLES o WRITE");
        let mut clients: Vec<Client> = (0..3).map(|_| rig.client()).collect();
        let ways = [
            "REPLACE INTO o (k) VALUES (1)",
            "INSERT IGNORE INTO o (k) VALUES (2)",
            "INSERT INTO o (k) VALUES (3)",
        ];
        for (client, way) in clients.iter_mut().zip(ways) {
            client.send_query(way.as_bytes()).unwrap();
        }
        let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for%' AND user = SUBSTRING_INDEX(USER(), '@', 1)";
        rig.wait_until("the clients wait", || rows(&mut direct, waits) == "3");
        // A statement that is only prepared gets no id.
        prepare(&mut rig.client(), "REPLACE INTO o (k) VALUES (?)");
        // The session cannot read the highest id without changing what this statement reads.
        let refused = rig.client().query("REPLACE INTO o (k) VALUES (ROW_COUNT())").unwrap();
        let Some(Outcome::Err(refused)) = refused.last() else { panic!("{refused:?}") };
        assert!(refused.code == 1467 && refused.message.contains("the table is locked"), "{refused:?}");
        loading.run("INSERT INTO o (id, k) VALUES (3, 13), (2, 12), (1, 11)");
        loading.run("UNLOCK TABLES");
        for client in &mut clients {
            let stored = client.read_outcomes(false).unwrap();
            let is_stored = matches!(stored.last(), Some(Outcome::Ok(ok)) if ok.affected_rows == 1);
            assert!(is_stored, "{} {auto}: {stored:?} {}", rig.name(), rig.proxy.log());
        }
        let keys = rows(&mut direct, "SELECT GROUP_CONCAT(k ORDER BY k) FROM o");
        assert_eq!(keys, "1,2,3,11,12,13", "{} {auto}: {}", rig.name(), rig.proxy.log());
    });
}

/// A lock of the session's own, which it takes in a packet of several statements.
#[test]
fn what_comes_under_the_sessions_own_lock() {
    each_table("moved_own_lock", |rig, auto| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        client.run("LOCK TABLES o WRITE; INSERT INTO o (id, k) VALUES (5, 1)");
        for k in [2, 3] {
            let stored = affected(&mut client, &format!("REPLACE INTO o (k) VALUES ({k})"));
            assert_eq!(stored, Ok(1), "{} {auto}: {}", rig.name(), rig.proxy.log());
        }
        client.run("UNLOCK TABLES");
        let keys = rows(&mut client, "SELECT GROUP_CONCAT(k ORDER BY k) FROM o");
        assert_eq!(keys, "1,2,3", "{} {auto}", rig.name());
    });
}

/// The UPDATE neither goes by way of the proxy's memory, nor is it refused for its length.
#[test]
fn an_update_that_is_longer_than_what_is_read() {
    let db = "moved_long";
    let rules = rules(db).replace("[tables.t]", "[tables.o]");
    let table = "CREATE TABLE o (id BIGINT PRIMARY KEY, k BIGINT UNIQUE, v MEDIUMTEXT);";
    each_with(db, table, "[limits]\nstatement_bytes = \"1MiB\"\n", &rules, |rig| {
        let mut client = rig.client();
        let text = "x".repeat(2 << 20);
        for assigned in ["", ", id = id + 2"] {
            client.run("INSERT INTO o (k) VALUES (NULL)");
            client.run(format!("UPDATE o SET v = '{text}'{assigned} ORDER BY id DESC LIMIT 1"));
            let wrong = wrong_after(
                std::slice::from_mut(&mut client),
                &mut Keys(1_000 + 100 * assigned.len() as u64),
            );
            assert!(wrong.is_empty(), "{}: {wrong:#?}", rig.name());
        }
    });
}

/// Straight to the server, far above the ids that are issued. A table in use is looked at every second.
#[test]
fn what_comes_past_the_proxy_is_found() {
    each_table("moved_past", |rig, auto| {
        let mut keys = Keys(1_000);
        let (mut client, mut direct) = (rig.client(), rig.direct());
        client.run("INSERT INTO o (k) VALUES (1)");
        direct.run("INSERT INTO o (id, k) VALUES (20000, 2)");
        rig.wait_until(&format!("{auto} the generator is above what came past"), || {
            insert_id(&mut client, &format!("INSERT INTO o (k) VALUES ({})", keys.next())) > 20_000
        });
        let log = rig.proxy.log();
        assert!(log.contains("ids came into the table without the generator"), "{}: {log}", rig.name());
    });
}

/// MariaDB makes rows of what is left of a period. With AUTO_INCREMENT the server numbers them.
#[test]
fn the_rest_of_a_period() {
    let db = "moved_portion";
    let table = "CREATE TABLE o (id BIGINT AUTO_INCREMENT PRIMARY KEY, k BIGINT, v VARCHAR(40), b DATE DEFAULT '2020-01-01', \
                 e DATE DEFAULT '2030-01-01', PERIOD FOR p(b, e));";
    if let Some(server) = server(Kind::MariaDb) {
        make(server, db, table);
        let rules = rules(db).replace("[tables.t]", "[tables.o]");
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules)]);
        let rig = Rig { kind: Kind::MariaDb, server, proxy, db: db.to_owned() };
        let (mut client, mut keys) = (rig.client(), Keys(1_000));
        for way in [
            "UPDATE o FOR PORTION OF p FROM '2021-01-01' TO '2022-01-01' SET v = 'a'",
            "DELETE FROM o FOR PORTION OF p FROM '2024-01-01' TO '2025-01-01'",
        ] {
            client.run(format!("INSERT INTO o (k) VALUES ({})", keys.next()));
            client.run(format!("{way} WHERE k = {}", keys.0));
            let wrong = wrong_after(std::slice::from_mut(&mut client), &mut keys);
            assert!(wrong.is_empty(), "{way}: {wrong:#?}");
        }
    }
}

/// A rule whose ids do not follow those of clients, and an id that would use the generator up.
#[test]
fn what_the_ids_do_not_continue_above() {
    for (explicit, id) in [("keep", 5_000_000_u64), ("advance", 1 << 62)] {
        let db = format!("moved_{explicit}");
        let rules = rules(&db).replace("[tables.t]", &format!("[tables.o]\nexplicit = \"{explicit}\""));
        each_with(&db, &TABLES.replace("{auto}", ""), "", &rules, |rig| {
            let mut client = rig.client();
            client.run("INSERT INTO o (k) VALUES (1)");
            client.run(format!("UPDATE o SET id = {id}"));
            for k in 2..5 {
                let next = insert_id(&mut client, &format!("REPLACE INTO o (k) VALUES ({k})"));
                assert!(next < id, "{} {explicit}: {next}", rig.name());
            }
            if explicit == "keep" {
                return;
            }
            // An id that collides.
            let next = insert_id(&mut client, "INSERT INTO o (k) VALUES (10)") + 1;
            rig.direct().run(format!("INSERT INTO o (id, k) VALUES ({next}, 11)"));
            assert_eq!(
                insert_id(&mut client, "INSERT INTO o (k) VALUES (12)"),
                next + 1,
                "{} {explicit}",
                rig.name()
            );
        });
    }
}

/// The query's highest id lies in the range of another proxy, others in the range of the proxy that it is sent to.
#[test]
fn a_query_that_brings_ids_of_two_proxies() {
    ids_of_two_proxies("moved_fleet", false);
}

/// The same, to a session that stays with its process while another takes the place: that one has the ranges.
#[test]
fn a_query_that_brings_ids_of_two_proxies_after_a_takeover() {
    ids_of_two_proxies("moved_takeover", true);
}

/// A session that stays with its process does not know how far the generator follows: what it reads may be an id that is not followed.
#[test]
fn an_id_that_is_too_high_after_a_takeover() {
    each_table("moved_too_high", |rig, auto| {
        let mut client = rig.client();
        client.run("SELECT 1");
        let _before = rig.proxy.take_over();
        rig.direct().run("INSERT INTO o (id, k) VALUES (9000000000000000000, 2)");
        client.run("LOCK TABLES o WRITE");
        let told = message(&mut client, "REPLACE INTO o (k) VALUES (3)");
        let is_told =
            told.starts_with("1467 ") && told.contains("is too high for its generator (connect again)");
        assert!(is_told, "{} {auto}: {told}", rig.name());
        client.run("UNLOCK TABLES");
        assert_eq!(
            affected(&mut rig.client(), "REPLACE INTO o (k) VALUES (4)"),
            Ok(1),
            "{} {auto}",
            rig.name()
        );
        let id = rows(&mut client, "SELECT id FROM o WHERE k = 4");
        assert!(id.parse::<u64>().unwrap() < 1_000_000, "{} {auto}: {id}", rig.name());
    });
}

fn ids_of_two_proxies(db: &str, takes_over: bool) {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, db, &TABLES.replace("{auto}", ""));
        let rules = rules(db)
            .replace("[tables.t]", "[tables.o]")
            .replace("\"sequence\"\n", "\"sequence\"\nbatch = 50\n");
        let start = |name| {
            Proxy::start(&in_table::config(server, name, &format!("{db}.bounds")), &[("rules", &rules)])
        };
        let (mut first, second) = (start("first"), start("second"));
        let connect = |proxy: &Proxy| {
            let options = Options { database: Some(db.to_owned()), ..Options::default() };
            Client::connect(&proxy.address(), &options).unwrap()
        };
        let (mut client, mut other) = (connect(&first), connect(&second));
        let _before = takes_over.then(|| first.take_over());
        let low = insert_id(&mut client, "INSERT INTO o (k) VALUES (1)");
        let high = insert_id(&mut other, "INSERT INTO o (k) VALUES (2)");
        assert!(high > low + 20, "{kind:?}: {low} {high}");
        client.run(format!("INSERT INTO o (id, k) SELECT {low} + n, n + 10 FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) AS d \
                            UNION SELECT {high} + 1, 20"));
        let wrong = wrong_after(std::slice::from_mut(&mut client), &mut Keys(1_000));
        assert!(wrong.is_empty(), "{kind:?}: {wrong:#?} {}", first.log());
    }
}
