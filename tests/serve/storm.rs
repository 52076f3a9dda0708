//! Promise 14: a statement sees one version of the rules, and no statement fails, however often they change. Every form of INSERT at
//! once, while files come that are good, bad and half-written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::reload::Stop;
use crate::rig::{Rig, each_with, rows};
use crate::support::Kind;
use crate::support::machine::announce;
use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, Client, ErrPacket, MARIADB_STMT_BULK, Options, Outcome,
    Param, Prepared,
};
use crate::support::told;

const WRITERS: u64 = 8;
/// `ROWSTAMP_RELOADS` says otherwise.
const RELOADS: u64 = 200;

/// Each row has its statement's mark and its place there.
const TABLES: &str = "CREATE TABLE s (id BIGINT NOT NULL PRIMARY KEY, mark BIGINT NOT NULL, n INT NOT NULL, UNIQUE(mark,n)); \
                      CREATE VIEW v AS SELECT id, mark, n FROM s; CREATE TABLE d (n INT PRIMARY KEY); INSERT INTO d VALUES (0),(1),(2);";

/// The forms by text, whose `#` is the statement's mark, each with the places of its rows among the ids that it takes.
const BY_TEXT: [(&str, &[u64]); 10] = [
    ("INSERT INTO s(mark,n) VALUES(#,0)", &[0]),
    ("INSERT INTO s(mark,n) VALUES(#,0),(#,1),(#,2)", &[0, 1, 2]),
    ("INSERT INTO s SET mark=#, n=0", &[0]),
    ("INSERT INTO s VALUES(NULL,#,0),(DEFAULT(id),#,1),(0,#,2)", &[0, 1, 2]),
    ("INSERT INTO s(mark,n) VALUES(#,0),(#,1) ON DUPLICATE KEY UPDATE n=n+10", &[0, 1]),
    ("INSERT IGNORE INTO s(mark,n) VALUES(#,0),(#,0),(#,1)", &[0, 2]),
    ("REPLACE INTO s(mark,n) VALUES(#,0),(#,1),(#,2)", &[0, 1, 2]),
    ("INSERT INTO v(mark,n) VALUES(#,0),(#,1),(#,2)", &[0, 1, 2]),
    ("INSERT INTO s(mark,n) SELECT #,n FROM d ORDER BY n", &[0, 1, 2]),
    (RETURNS, &[0, 1, 2]),
];
const RETURNS: &str = "INSERT INTO s(mark,n) VALUES(#,0),(#,1),(#,2) RETURNING id";

/// Statements that are prepared. Each `?` is the mark, but the last one's second is `n`.
const PREPARED: [&str; 3] = [
    "INSERT INTO s(mark,n) VALUES(?,0),(?,1),(?,2)",
    "INSERT INTO s(mark,n) SELECT ?,n FROM d ORDER BY n",
    "INSERT INTO s(mark,n) VALUES(?,?)",
];

/// The ids that a statement took.
struct Taken {
    first: u64,
    /// The places, among these ids, of those that are in the table, in the order of its rows.
    places: &'static [u64],
}

#[derive(Default)]
struct Tally {
    /// The number of statements prepared under other rules that must be prepared again, as docs/refused.md
    /// says: SQL's, and the driver's INSERT ... SELECT.
    prepared_again: AtomicU64,
}

struct Writer<'a> {
    kind: Kind,
    client: Client,
    prepared: Vec<Prepared>,
    /// SQL's PREPARE has named `p`.
    has_named: bool,
    mark: u64,
    taken: BTreeMap<u64, Taken>,
    tally: &'a Tally,
}

fn refusal(outcomes: &[Outcome]) -> Option<&ErrPacket> {
    outcomes.last().and_then(Outcome::err)
}

impl<'a> Writer<'a> {
    fn connect(rig: &Rig, nth: u64, tally: &'a Tally) -> Writer<'a> {
        let mut options = Options {
            database: Some(rig.db.clone()),
            capabilities: CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS,
            ..Options::default()
        };
        if rig.kind == Kind::MariaDb {
            options.extended = MARIADB_STMT_BULK;
        }
        let mut client = Client::connect(&rig.proxy.address(), &options).unwrap();
        let prepared = PREPARED.map(|sql| client.prepare(sql).unwrap().unwrap()).to_vec();
        let (mark, taken) = (nth * 1_000_000_000, BTreeMap::new());
        Writer { kind: rig.kind, client, prepared, has_named: false, mark, taken, tally }
    }

    /// One statement of each form.
    fn write(&mut self) {
        for (sql, places) in BY_TEXT {
            if sql == RETURNS && self.kind != Kind::MariaDb {
                continue;
            }
            let outcomes = self.run(sql);
            self.note(&outcomes, places);
        }
        let mark = Param::Int(i64::try_from(self.mark_next()).unwrap());
        let outcomes = self.client.execute(&self.prepared[0], &vec![mark; 3]).unwrap();
        self.note(&outcomes, &[0, 1, 2]);
        self.write_prepared_select();
        self.write_several();
        self.write_named();
        if self.kind == Kind::MariaDb {
            self.write_bulk();
            let outcomes = self.run("EXECUTE IMMEDIATE 'INSERT INTO s(mark,n) VALUES(#,0),(#,1)'");
            self.note(&outcomes, &[0, 1]);
        }
    }

    fn mark_next(&mut self) -> u64 {
        self.mark += 1;
        self.mark
    }

    fn run(&mut self, sql: &str) -> Vec<Outcome> {
        let mark = self.mark_next().to_string();
        self.client.query(sql.replace('#', &mark)).unwrap()
    }

    /// The last mark's rows are as the statement's only answer tells.
    fn note(&mut self, outcomes: &[Outcome], places: &'static [u64]) {
        let [outcome] = outcomes else { panic!("{outcomes:?}") };
        self.note_of(self.mark, outcome, places);
    }

    fn note_of(&mut self, mark: u64, outcome: &Outcome, places: &'static [u64]) {
        let first = match outcome {
            Outcome::Ok(ok) => ok.insert_id,
            Outcome::Rows(set) => set.rows[0][0].text().unwrap().parse().unwrap(),
            Outcome::Err(error) => panic!("{}: {error:?}", self.kind.name()),
        };
        self.taken.insert(mark, Taken { first, places });
    }

    /// One that the driver prepared, under the rules of its time.
    fn write_prepared_select(&mut self) {
        let mark = Param::Int(i64::try_from(self.mark_next()).unwrap());
        let outcomes = self.client.execute(&self.prepared[1], &[mark]).unwrap();
        if refusal(&outcomes).is_some_and(|error| error.message.contains("prepare the statement again")) {
            self.tally.prepared_again.fetch_add(1, Ordering::Relaxed);
            let next = self.client.prepare(PREPARED[1]).unwrap().unwrap();
            let before = std::mem::replace(&mut self.prepared[1], next);
            self.client.close(&before).unwrap();
        } else {
            self.note(&outcomes, &[0, 1, 2]);
        }
    }

    /// In one packet.
    fn write_several(&mut self) {
        let [first, second] = [self.mark_next(), self.mark_next()];
        let sql = format!(
            "INSERT INTO s(mark,n) VALUES({first},0),({first},1); DO 1; REPLACE INTO v(mark,n) VALUES({second},0),({second},1)"
        );
        let outcomes = self.client.query(sql).unwrap();
        assert!(refusal(&outcomes).is_none() && outcomes.len() == 3, "{}: {outcomes:?}", self.kind.name());
        self.note_of(first, &outcomes[0], &[0, 1]);
        self.note_of(second, &outcomes[2], &[0, 1]);
    }

    /// By SQL's own PREPARE, which is under the rules of its time.
    fn write_named(&mut self) {
        loop {
            if !self.has_named {
                self.client.run("PREPARE p FROM 'INSERT INTO s(mark,n) VALUES(?,0),(?,1),(?,2)'");
                self.has_named = true;
            }
            let mark = self.mark_next();
            self.client.run(format!("SET @m={mark}"));
            let outcomes = self.client.query("EXECUTE p USING @m,@m,@m").unwrap();
            let Some(error) = refusal(&outcomes) else { return self.note(&outcomes, &[0, 1, 2]) };
            assert!(error.code == 1235 && error.message.contains("again"), "{}: {error:?}", self.kind.name());
            self.tally.prepared_again.fetch_add(1, Ordering::Relaxed);
            self.has_named = false;
        }
    }

    fn write_bulk(&mut self) {
        let mark = i64::try_from(self.mark_next()).unwrap();
        let sets = [0, 1, 2].map(|n| [Param::Int(mark), Param::Int(n)]);
        let sets = sets.each_ref().map(|set| &set[..]);
        let outcomes = self.client.bulk(self.prepared[2].id, &sets).unwrap();
        self.note(&outcomes, &[0, 1, 2]);
    }
}

/// Even ids come from one generator, odd ones from the other.
fn rules(generator: &str) -> String {
    format!(
        "schema = \"reload_storm\"\n\
         [generators.even]\nkind = \"sequence\"\nstep = 2\n\
         [generators.odd]\nkind = \"sequence\"\nstep = 4\noffset = 1\n\
         [tables.s]\ncolumn = \"id\"\ngenerator = \"{generator}\"\n"
    )
}

/// The n-th file of the storm, and whether it is good: of five, three are, one has an error, and one is half-written.
fn file(nth: u64) -> (String, bool) {
    let good = rules(if nth.is_multiple_of(2) { "odd" } else { "even" });
    match nth % 5 {
        3 => (good.replace("column", "colum"), false),
        4 => {
            // From within the table's section on: in front of it the rest is a file without the table.
            let from = good.find("[tables").unwrap() + 1;
            let places = u64::try_from(good.len() - 1 - from).unwrap();
            let cut = from + usize::try_from(nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) % places).unwrap();
            (good[..cut].to_owned(), false)
        }
        _ => (good, true),
    }
}

#[test]
fn a_storm_of_reloads() {
    let reloads = told::number("ROWSTAMP_RELOADS").unwrap_or(RELOADS);
    each_with("reload_storm", TABLES, "", &rules("even"), |rig| {
        let (stop, tally) = (AtomicBool::new(false), Tally::default());
        let taken: BTreeMap<u64, Taken> = std::thread::scope(|scope| {
            let (stop, this, tally) = (&stop, &*rig, &tally);
            let stopping = Stop(stop);
            let writers: Vec<_> = (0..WRITERS)
                .map(|nth| {
                    scope.spawn(move || {
                        let mut writer = Writer::connect(this, nth, tally);
                        while !stop.load(Ordering::Relaxed) {
                            writer.write();
                        }
                        writer.taken
                    })
                })
                .collect();
            for nth in 0..reloads {
                let (text, is_good) = file(nth);
                this.proxy.write_rules("rules", &text);
                let (is_in_force, log) = this.proxy.reload();
                assert_eq!(is_in_force, is_good, "{}, reload {nth}: {text}\n{log}", this.name());
            }
            drop(stopping);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        let odd = assert_of_one_generator(rig, &taken);
        assert!(odd > 0 && odd < taken.len(), "{}: both generators", rig.name());
        announce(&format!(
            "storm: {}: {} statements during {reloads} reloads, {odd} odd; {} prepared again",
            rig.name(),
            taken.len(),
            tally.prepared_again.load(Ordering::Relaxed)
        ));
    });
}

/// Every statement's rows are there, and nothing else, each with the id that its place has in one run of one generator. How many
/// have odd ids.
fn assert_of_one_generator(rig: &Rig, taken: &BTreeMap<u64, Taken>) -> usize {
    let mut client = rig.client();
    client.run("SET group_concat_max_len=10000");
    let found =
        rows(&mut client, "SELECT mark,GROUP_CONCAT(id ORDER BY n SEPARATOR '/') FROM s GROUP BY mark");
    let found: BTreeMap<u64, Vec<u64>> = found
        .split(' ')
        .map(|row| {
            let (mark, ids) = row.split_once(',').unwrap();
            (mark.parse().unwrap(), ids.split('/').map(|id| id.parse().unwrap()).collect())
        })
        .collect();
    for (mark, Taken { first, places }) in taken {
        let distance = if first.is_multiple_of(2) { 2 } else { 4 };
        let expect: Vec<u64> = places.iter().map(|place| first + place * distance).collect();
        assert_eq!(found.get(mark), Some(&expect), "{}: the ids of statement {mark}", rig.name());
    }
    assert_eq!(found.len(), taken.len(), "{}: rows of no statement", rig.name());
    taken.values().filter(|taken| taken.first % 2 == 1).count()
}
