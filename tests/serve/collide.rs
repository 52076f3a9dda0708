//! Ids that are in the table already, because somebody inserts past the proxy (error 1062).

use crate::rig::{Rig, code, each_with, insert_id, make, rows, server};
use crate::support::raw::Client;
use crate::support::{Kind, Proxy, proxy};

const AUTO: &str = "ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT; CREATE TABLE m (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT);";
const DUPLICATE: u16 = 1062;

fn rules(db: &str, table: &str, collide: &str) -> String {
    format!(
        "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\n[tables.{table}]\ncolumn = \"id\"\ngenerator = \"g\"\n\
         collide = \"{collide}\"\n"
    )
}

/// The next ids of the generator, all taken by another writer.
fn insert_past(rig: &Rig, client: &mut Client, table: &str, count: usize) {
    assert_eq!(code(client, format!("INSERT INTO {table}(a) VALUES(NULL)")), 0, "{}", rig.name());
    let mut direct = rig.direct();
    for _ in 0..count {
        direct.run(format!("INSERT INTO {table}(a) VALUES(NULL)"));
    }
}

#[test]
fn the_generator_goes_on_above_them() {
    for (table, insert) in [("t", "INSERT INTO t(a) VALUES(NULL),(NULL)"), ("m", "INSERT INTO m(a) SELECT 7")]
    {
        let db = format!("collide_{table}");
        each_with(&db, AUTO, "", &rules(&db, table, "raise"), |rig| {
            let mut client = rig.client();
            insert_past(rig, &mut client, table, 300);
            let highest = rows(&mut rig.direct(), &format!("SELECT MAX(id) FROM {table}"));
            // By themselves the ids would have been met one after the other.
            let codes: Vec<u16> = (0..5).map(|_| code(&mut client, insert)).collect();
            assert_eq!(codes, [DUPLICATE, 0, 0, 0, 0], "{}: {}", rig.name(), rig.proxy.log());
            let above = format!("SELECT COUNT(*)>0 FROM {table} WHERE id>{highest}");
            assert_eq!(rows(&mut client, &above), "1", "{}", rig.name());
            let log = rig.proxy.log();
            let told = format!("{db}.{table}");
            assert!(log.contains("failed with 1062") && log.contains(&told), "{}: {log}", rig.name());
            assert!(log.contains("continues above the table's ids"), "{}: {log}", rig.name());
        });
    }
}

/// However many sessions insert: those that had an id already, and no other.
#[test]
fn each_session_fails_once_at_most() {
    const SESSIONS: usize = 6;
    let db = "collide_many";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let id = "id VARCHAR(20) NOT NULL PRIMARY KEY";
        make(server, db, &format!("{AUTO} CREATE TABLE texts ({id}, a INT);"));
        let rules = rules(db, "t", "raise") + "[tables.texts]\ncolumn = \"id\"\ngenerator = \"g\"\n";
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &rules)]);
        let rig = Rig { kind, server, proxy, db: db.to_owned() };
        let mut direct = rig.direct();
        for table in ["t", "texts"] {
            let insert = format!("INSERT INTO {table}(a) VALUES(NULL)");
            let first = insert_id(&mut rig.client(), &insert);
            let ids = (first + 1..first + 500).map(|id| format!("('{id}')")).collect::<Vec<_>>().join(",");
            direct.run(format!("INSERT INTO {table}(id) VALUES {ids}"));
            let sessions = (0..SESSIONS).map(|_| {
                let (mut client, insert) = (rig.client(), insert.clone());
                std::thread::spawn(move || {
                    (0..20).map(|_| code(&mut client, &insert)).filter(|code| *code != 0).collect::<Vec<_>>()
                })
            });
            let sessions: Vec<_> = sessions.collect();
            for session in sessions {
                let codes = session.join().unwrap();
                assert!(
                    codes.is_empty() || codes == [DUPLICATE],
                    "{} {table}: {codes:?}: {}",
                    rig.name(),
                    rig.proxy.log()
                );
            }
        }
    }
}

#[test]
fn a_rule_that_only_reports() {
    let db = "collide_report";
    each_with(db, AUTO, "", &rules(db, "t", "report"), |rig| {
        let mut client = rig.client();
        insert_past(rig, &mut client, "t", 20);
        let mut client = rig.client();
        let failed =
            (0..21).filter(|_| code(&mut client, "INSERT INTO t(a) VALUES(NULL)") == DUPLICATE).count();
        assert_eq!(failed, 20, "{}", rig.name());
        let log = rig.proxy.log();
        assert!(
            log.contains("failed with 1062") && !log.contains("continues above"),
            "{}: {log}",
            rig.name()
        );
    });
}

#[test]
fn another_keys_duplicate_is_none_of_these() {
    let db = "collide_other";
    each_with(db, AUTO, "", &rules(db, "t", "raise"), |rig| {
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1000)"), 0);
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1000)"), DUPLICATE);
        assert!(!rig.proxy.log().contains("with 1062"), "{}: {}", rig.name(), rig.proxy.log());
    });
}
