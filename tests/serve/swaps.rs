//! Tables that are swapped and altered past the proxy while it inserts, as gh-ost and pt-online-schema-change do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::rig::{Rig, code, code_of, each_with, rows, rules};
use crate::support::raw::Param;
use crate::support::told::StopOnDrop;
use crate::support::wait::NEVER;

/// At least, of the table under its writers.
const SWAPS: usize = 60;
const WRITTEN: u64 = 1_000;

/// Ids begin here, so that one in another column is seen, and one that the server's own counter made.
const FIRST_ID: u32 = 1_000_000_000;

/// The table in its successive forms: other orders, more columns, other types of the id, without and with a counter.
const FORMS: [&str; 6] = [
    "(a INT NOT NULL, id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, b INT NOT NULL)",
    "(b INT NOT NULL, a INT NOT NULL, id INT UNSIGNED NOT NULL PRIMARY KEY)",
    "(id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, b INT NOT NULL, a INT NOT NULL)",
    "(id BIGINT NOT NULL PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c INT NOT NULL DEFAULT 7)",
    "(a INT NOT NULL, b INT NOT NULL, c INT, id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY)",
    "(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL)",
];

/// Values for the columns of the last form. In another form a column may get another value, but never an id.
const INSERTS: [&str; 4] = [
    "INSERT INTO t VALUES (NULL, 1, 2)",
    "INSERT INTO t VALUES (0, 3, 4), (NULL, 5, 6)",
    "INSERT INTO t (b, a) VALUES (8, 7)",
    "REPLACE INTO t SET b = 10, a = 9",
];

fn write(rig: &Rig, (ends, all_written): (&AtomicBool, &AtomicU64), nth: usize) -> (u64, Vec<u16>) {
    let mut client = rig.client();
    let (mut written, mut errors) = (0, Vec::new());
    let mut prepared = None;
    while !ends.load(Ordering::Relaxed) {
        let (text, rows) = (INSERTS[nth % 4], 1 + u64::from(nth == 1));
        let code = if nth < 4 {
            code(&mut client, text)
        } else {
            if prepared.is_none() {
                prepared = client.prepare("INSERT INTO t VALUES (?, ?, 2)").unwrap().ok();
            }
            let Some(statement) = &prepared else { continue };
            let params = [Param::Null, Param::Int(1)];
            let code = code_of(&client.execute(statement, &params).unwrap());
            if code != 0 {
                client.close(statement).unwrap();
                prepared = None;
            }
            code
        };
        if code == 0 {
            written += rows;
            all_written.fetch_add(rows, Ordering::Relaxed);
        } else if !errors.contains(&code) {
            errors.push(code);
        }
    }
    (written, errors)
}

/// Each form of the table takes the name by one RENAME; the one before it stays, with its rows.
fn swap(rig: &Rig, written: &AtomicU64) -> usize {
    let mut direct = rig.direct();
    let mut swaps = 0;
    // Goes on until there are enough swaps, and enough rows written between them.
    while swaps < SWAPS || written.load(Ordering::Relaxed) < WRITTEN {
        assert!(swaps < 100 * SWAPS, "{}: the writers have ended", rig.name());
        direct.run(format!("CREATE TABLE t_new {}", FORMS[swaps % FORMS.len()]));
        direct.run(format!("RENAME TABLE t TO old_{swaps}, t_new TO t"));
        swaps += 1;
        std::thread::sleep(Duration::from_millis(60));
    }
    swaps
}

#[test]
fn no_row_without_its_id_and_no_id_in_another_column() {
    let rules =
        rules("swaps").replace("kind = \"sequence\"", &format!("kind = \"sequence\"\nstart = {FIRST_ID}"));
    let sql =
        "DROP TABLE t; CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT NOT NULL, b INT NOT NULL);";
    each_with("swaps", sql, "", &rules, |rig| {
        let (ends, all_written) = (AtomicBool::new(false), AtomicU64::new(0));
        let rig = &*rig;
        let (written, errors, swaps) = std::thread::scope(|scope| {
            let swapper = scope.spawn(|| swap(rig, &all_written));
            let (ends_now, all) = (&ends, &all_written);
            let writers: Vec<_> =
                (0..6).map(|nth| scope.spawn(move || write(rig, (ends_now, all), nth))).collect();
            let _ends = StopOnDrop(&ends);
            let swaps = swapper.join().unwrap();
            ends.store(true, Ordering::Relaxed);
            let done: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
            let written: u64 = done.iter().map(|(written, _)| written).sum();
            let errors: Vec<_> = done.into_iter().flat_map(|(_, errors)| errors).collect();
            (written, errors, swaps)
        });
        let mut direct = rig.direct();
        let (mut found, mut wrong, mut ids) = (0, 0, Vec::new());
        let tables = (0..swaps).map(|nth| format!("old_{nth}")).chain(["t".to_owned()]);
        for table in tables {
            let sql = format!(
                "SELECT COUNT(*), COALESCE(SUM(id<{FIRST_ID} OR a>10 OR b>10 OR a<1 OR b<1),0) FROM {table}"
            );
            let counts = rows(&mut direct, &sql);
            let (count, bad) = counts.split_once(',').unwrap();
            (found, wrong) = (found + count.parse::<u64>().unwrap(), wrong + bad.parse::<u64>().unwrap());
            ids.extend(rows(&mut direct, &format!("SELECT id FROM {table}")).split(' ').map(str::to_owned));
        }
        ids.retain(|id| !id.is_empty());
        ids.sort_unstable();
        ids.dedup();
        let said = format!("{}: {swaps} swaps, {written} rows written, errors {errors:?}", rig.name());
        crate::support::servers::announce(&said);
        assert_eq!(wrong, 0, "{said}: an id is missing or in another column");
        assert_eq!((found, ids.len() as u64), (written, written), "{said}");
        // 1048: the client's own NULL in another column, natively too.
        let expected = [1048, 1054, 1136, 1235];
        assert!(errors.iter().all(|error| expected.contains(error)), "{said}");
    });
}

/// A session that meets the other columns has them read at once; others learn of them by themselves.
#[test]
fn a_swap_is_seen() {
    each_with("swaps_seen", "", "", &rules("swaps_seen"), |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO t VALUES (NULL, 1)");
        let mut direct = rig.direct();
        direct.run("CREATE TABLE t_new (a INT, renamed BIGINT, id BIGINT NOT NULL PRIMARY KEY)");
        direct.run("RENAME TABLE t TO t_old, t_new TO t");
        // The number of values tells.
        assert_eq!(code(&mut client, "INSERT INTO t VALUES (2, 3, NULL)"), 0, "{}", rig.name());
        // The server tells, by 1054, and the columns are read again at once. Not where they were read between the ALTER and
        // the INSERT, or less than 100 ms before, as happens each second.
        let mut name = "renamed";
        let is_read_at_once = (0..5).any(|_| {
            std::thread::sleep(Duration::from_millis(150));
            let other = if name == "b" { "renamed" } else { "b" };
            direct.run(format!("ALTER TABLE t CHANGE {name} {other} BIGINT"));
            name = other;
            let mut insert = || code(&mut client, "INSERT INTO t VALUES (4, 5, NULL)");
            insert() == 1054 && insert() == 0
        });
        assert!(is_read_at_once, "{}", rig.name());
        // Nothing tells.
        direct.run(format!("ALTER TABLE t MODIFY {name} BIGINT FIRST"));
        let end = Instant::now() + NEVER;
        let in_the_new_order = format!("SELECT COUNT(*) FROM t WHERE {name}=8 AND a=9");
        while rows(&mut direct, &in_the_new_order) == "0" {
            assert!(Instant::now() < end, "{}: the order is not seen", rig.name());
            assert_eq!(code(&mut client, "INSERT INTO t VALUES (8, 9, NULL)"), 0, "{}", rig.name());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(rows(&mut direct, "SELECT COUNT(*) FROM t WHERE id<1 OR id>10000"), "0", "{}", rig.name());
    });
}
