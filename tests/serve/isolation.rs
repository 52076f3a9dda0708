//! Promise 11: no session's state reaches another. Many sessions take random steps at once, each of them twice: through the proxy,
//! and natively beside it. Both must answer the same, be in the same state, and leave the same rows, which bear the session's mark.
//!
//! * [`steps`]: what a session does, drawn from the seed.
//! * [`pair`]: one session on both ways, and what is compared.
//!
//! `ROWSTAMP_ISOLATION_STEPS` says how many steps each session takes, `ROWSTAMP_SEED` repeats a run's draws. What sessions do to
//! each other depends on how the threads run, so a failure may need more than one try to come again.

mod pair;
mod steps;

use std::sync::Mutex;
use std::thread;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::rig::{Rig, each_with, make, rows};
use crate::support::machine::announce;
use crate::support::raw::Options;
use crate::support::{Kind, told};
use pair::{Pair, Tally};

const SESSIONS: u64 = 10;
/// The steps of each session, in a run of all tests.
const STEPS: u64 = 90;

/// The two databases of the proxied sessions, and the two of the native ones.
const DATABASES: [[&str; 2]; 2] = [["isolation", "isolation_b"], ["isolation_n", "isolation_nb"]];

/// A row tells the state of the session that inserted it. `{id}` is the rest of the id's definition.
const TABLE: &str = "(id BIGINT NOT NULL {id}, mark VARCHAR(40), conn BIGINT, v VARCHAR(60), mode VARCHAR(200), charset VARCHAR(20), \
                     db VARCHAR(40), txt VARCHAR(60), KEY (id), KEY (mark)) CHARACTER SET utf8mb4";

/// Ids begin where no setting's number is.
pub(crate) const NEAR: u64 = 7_000_000;
/// Ids of the second database begin here: they tell which one the proxy took for the session's own.
pub(crate) const FAR: u64 = 1_000_000_001;

/// In the first database `t` and `w` are ruled, in the second `t` alone, by another generator; there an INSERT into `w` gets 5.
fn rules() -> [String; 2] {
    let [first, second] = DATABASES[0];
    let table = |name: &str, generator: &str| {
        format!("[tables.{name}]\ncolumn = \"id\"\ngenerator = \"{generator}\"\n")
    };
    [
        format!(
            "schema = \"{first}\"\n[generators.g]\nkind = \"sequence\"\nstart = {NEAR}\n{}{}",
            table("t", "g"),
            table("w", "g")
        ),
        format!(
            "schema = \"{second}\"\n[generators.h]\nkind = \"sequence\"\nstart = {FAR}\n{}",
            table("t", "h")
        ),
    ]
}

/// Both sides' databases, natively with AUTO_INCREMENT, and a second user who may do what root may.
fn make_tables(rig: &Rig) {
    let mut direct = rig.server.client();
    for (side, [first, second]) in DATABASES.into_iter().enumerate() {
        let own = if side == 0 { "" } else { "AUTO_INCREMENT" };
        let begins = if side == 0 { String::new() } else { format!(" AUTO_INCREMENT={NEAR}") };
        let other =
            format!("CREATE TEMPORARY TABLE IF NOT EXISTS {first}.w {}", TABLE.replace("{id}", "DEFAULT 78"));
        if side == 1 {
            make(rig.server, first, "");
            direct.run(format!("DROP TABLE {first}.t"));
        } else {
            direct.run(format!("DROP TABLE {first}.t"));
        }
        direct.run(format!("CREATE DATABASE {second}"));
        for (table, id) in [
            (format!("{first}.t"), own),
            (format!("{first}.w"), own),
            (format!("{second}.t"), own),
            (format!("{second}.w"), "DEFAULT 5"),
        ] {
            direct.run(format!("CREATE TABLE {table} {}{begins}", TABLE.replace("{id}", id)));
        }
        direct.run(format!("CREATE TABLE {first}.d (n INT PRIMARY KEY)"));
        direct.run(format!("INSERT INTO {first}.d VALUES (0),(1),(2)"));
        direct.run(format!("CREATE PROCEDURE {first}.hide() {other}"));
        direct.run(format!("CREATE PROCEDURE {first}.show() DROP TEMPORARY TABLE IF EXISTS {first}.w"));
    }
    let auth = if rig.kind == Kind::MySql9 { "IDENTIFIED BY ''" } else { "" };
    direct.run(format!("CREATE USER isolation_other {auth}"));
    direct.run("GRANT ALL ON `isolation%`.* TO isolation_other");
}

#[test]
fn no_sessions_state_reaches_another() {
    // The same each time in the gate: what fails came with the change that is tested.
    let steps = told::number("ROWSTAMP_ISOLATION_STEPS");
    let seed = if steps.is_some() { told::seed() } else { told::number("ROWSTAMP_SEED").unwrap_or(1) };
    let steps = steps.unwrap_or(STEPS);
    let [first, second] = rules();
    each_with(DATABASES[0][0], "", "", &first, |rig| {
        make_tables(rig);
        rig.proxy.write_rules("second", &second);
        let (is_in_force, log) = rig.proxy.reload();
        assert!(is_in_force, "{log}");
        announce(&format!("isolation: {} with seed {seed} (ROWSTAMP_SEED)", rig.name()));
        let (rig, tally) = (&*rig, Mutex::new(Tally::default()));
        thread::scope(|scope| {
            for who in 0..SESSIONS {
                let tally = &tally;
                scope.spawn(move || {
                    let random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(who));
                    let mut pair = Pair::connect(rig, who, random);
                    for _ in 0..steps {
                        pair.step();
                    }
                    tally.lock().unwrap().add(&pair.end());
                });
            }
        });
        let tally = tally.into_inner().unwrap();
        announce(&format!("isolation: {}: {tally}", rig.name()));
        assert_the_same_rows(rig);
        assert!(tally.is_enough(SESSIONS * steps), "{}: too little was tried: {tally}", rig.name());
    });
}

/// Checks that both ways left the same rows, when all sessions have ended.
fn assert_the_same_rows(rig: &Rig) {
    let mut direct = rig.server.client();
    for db in DATABASES.into_iter().flatten() {
        told::wait_until_quiet(&mut direct, db);
    }
    direct.run("SET group_concat_max_len=100000000");
    let [proxied, native] = DATABASES.map(|[first, second]| {
        ["t", "w"].map(|table| {
            [first, second].map(|db| {
                rows(
                    &mut direct,
                    &format!(
                        "SELECT mark,v,mode,charset,db='{first}',HEX(txt) FROM {db}.{table} ORDER BY mark,txt"
                    ),
                )
            })
        })
    });
    assert!(proxied == native, "{}: the tables differ:\n{proxied:?}\n{native:?}", rig.name());
    let [first, second] = DATABASES[0];
    for table in [format!("{first}.t"), format!("{first}.w"), format!("{second}.t")] {
        let twice = format!("SELECT id FROM {table} WHERE id>0 GROUP BY id HAVING COUNT(*)>1");
        assert_eq!(rows(&mut direct, &twice), "", "{}: ids that came twice", rig.name());
    }
}

/// How each session connects.
pub(crate) fn options(database: Option<&str>, capabilities: u32, collation: u8) -> Options {
    Options { database: database.map(str::to_owned), capabilities, collation, ..Options::default() }
}
