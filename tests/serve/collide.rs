//! Ids that are in the table already, because somebody inserts past the proxy (error 1062).

use crate::rig::{Rig, code, each_with, rows};
use crate::support::raw::Client;

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
            assert_eq!(code(&mut client, insert), DUPLICATE, "{}", rig.name());
            let mut failed = 1;
            rig.wait_until("an INSERT succeeds", || {
                failed += 1;
                code(&mut client, insert) == 0
            });
            // By themselves the ids would have been met one after the other.
            assert!(failed < 290, "{}: {failed} failed", rig.name());
            let above = format!("SELECT COUNT(*)>0 FROM {table} WHERE id>{highest}");
            assert_eq!(rows(&mut client, &above), "1", "{}", rig.name());
            let log = rig.proxy.log();
            let told = format!("{db}.{table}");
            assert!(log.contains("failed with 1062") && log.contains(&told), "{}: {log}", rig.name());
            assert!(log.contains("continues above the table's ids"), "{}: {log}", rig.name());
        });
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
