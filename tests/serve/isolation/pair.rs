//! One session on both ways: each step through the proxy, then natively, then the look at what it left.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use rand::Rng;
use rand::rngs::StdRng;

use super::steps::{self, LOCKS, SLOTS, Step};
use super::{DATABASES, FAR, NEAR, options};
use crate::rig::Rig;
use crate::support::Kind;
use crate::support::raw::{Client, Outcome, Param, Prepared, Value};

/// The status bits that are compared: in a transaction, autocommit, NO_BACKSLASH_ESCAPES.
const STATUS: u16 = 0x0001 | 0x0002 | 0x0200;
/// Steps that a failure shows.
const REMEMBERED: usize = 40;

#[derive(Debug, Default)]
pub(super) struct Tally {
    steps: u64,
    looks: u64,
    rows: u64,
    executions: u64,
    refused: u64,
    connections: u64,
    /// GET_LOCKs that another session was in the way of, on either side.
    locks_in_the_way: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.steps += other.steps;
        self.looks += other.looks;
        self.rows += other.rows;
        self.executions += other.executions;
        self.refused += other.refused;
        self.connections += other.connections;
        self.locks_in_the_way += other.locks_in_the_way;
    }

    /// Refusals compare nothing: they must be rare.
    pub(super) fn is_enough(&self, steps: u64) -> bool {
        self.steps >= steps
            && self.looks > steps / 2
            && self.rows > steps / 10
            && self.executions > steps / 20
            && self.refused < steps / 10
            && self.connections > 0
            && self.locks_in_the_way > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} steps, {} looks, {} rows, {} executions, {} refused, {} connections and resets, {} locks in the way",
            self.steps,
            self.looks,
            self.rows,
            self.executions,
            self.refused,
            self.connections,
            self.locks_in_the_way
        )
    }
}

/// One of the two ways.
struct Side {
    client: Client,
    address: String,
    databases: [&'static str; 2],
    binary: BTreeMap<u8, Prepared>,
    /// How often each lock is held, as the server answered.
    locks: BTreeMap<u8, u32>,
    /// The marks of the rows that have them.
    ids: HashMap<String, String>,
}

impl Side {
    fn text(&self, sql: &str) -> Vec<u8> {
        let sql = sql.replace("{1}", self.databases[0]).replace("{2}", self.databases[1]);
        let mut bytes = Vec::new();
        for part in sql.split_inclusive('¤') {
            let plain = part.strip_suffix('¤');
            bytes.extend(plain.unwrap_or(part).bytes());
            bytes.extend(plain.map(|_| [0xBF, 0x5C]).into_iter().flatten());
        }
        bytes
    }

    fn lock_name(&self, lock: u8) -> String {
        format!("{}.lock{lock}", self.databases[0])
    }

    fn query(&mut self, sql: &str) -> Vec<Outcome> {
        let sql = self.text(sql);
        self.client.query(&sql).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&sql)))
    }

    /// Forgets the statements and locks that end with the session.
    fn forget(&mut self) {
        self.binary.clear();
        self.locks.clear();
    }

    /// Returns the part of the answers in which both sides must agree.
    fn facts(&self, outcomes: &[Outcome]) -> Vec<String> {
        let fact = |outcome: &Outcome| match outcome {
            Outcome::Ok(ok) => format!(
                "ok, {} rows, id {}, {} warnings, status {:x}",
                ok.affected_rows,
                self.named(&ok.insert_id.to_string()),
                ok.warnings,
                ok.status & STATUS
            ),
            Outcome::Err(error) => format!("error {}", error.code),
            Outcome::Rows(set) => {
                let row = |row: &Vec<Value>| row.iter().map(|cell| self.cell(cell)).collect::<Vec<_>>();
                let rows: Vec<_> = set.rows.iter().map(row).collect();
                format!("rows {rows:?}, status {:x}", set.status & STATUS)
            }
        };
        outcomes.iter().map(fact).collect()
    }

    fn cell(&self, cell: &Value) -> String {
        let text = match cell {
            Value::Bytes(bytes) => bytes.escape_ascii().to_string(),
            other => other.text().unwrap_or_else(|| "NULL".to_owned()),
        };
        match self.databases.iter().position(|database| text == *database) {
            Some(nth) => format!("{{{}}}", nth + 1),
            None if text == self.client.connection_id.to_string() => "{connection}".to_owned(),
            None => self.named(&text),
        }
    }

    /// The row's mark, where it is the id of one.
    fn named(&self, id: &str) -> String {
        self.ids.get(id).map_or_else(|| id.to_owned(), |mark| format!("id of {mark}"))
    }
}

pub(super) struct Pair<'a> {
    rig: &'a Rig,
    who: u64,
    nth: u64,
    random: StdRng,
    /// The proxied one first.
    sides: [Side; 2],
    /// Sees what is not committed, too.
    observer: Client,
    tally: Tally,
    done: VecDeque<String>,
}

fn connect(
    address: &str,
    databases: [&str; 2],
    database: Option<&str>,
    capabilities: u32,
    collation: u8,
) -> Client {
    let database = database.map(|name| if name == "{1}" { databases[0] } else { databases[1] });
    Client::connect(address, &options(database, capabilities, collation)).unwrap()
}

impl<'a> Pair<'a> {
    pub(super) fn connect(rig: &'a Rig, who: u64, mut random: StdRng) -> Pair<'a> {
        let capabilities = steps::capabilities(&mut random);
        let side = |address: String, databases| Side {
            client: connect(&address, databases, Some("{1}"), capabilities, 45),
            address,
            databases,
            binary: BTreeMap::new(),
            locks: BTreeMap::new(),
            ids: HashMap::new(),
        };
        let sides = [side(rig.proxy.address(), DATABASES[0]), side(rig.server.address(), DATABASES[1])];
        let mut observer = rig.server.client();
        observer.run("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
        Pair { rig, who, nth: 0, random, sides, observer, tally: Tally::default(), done: VecDeque::new() }
    }

    pub(super) fn end(self) -> Tally {
        self.tally
    }

    pub(super) fn step(&mut self) {
        self.nth += 1;
        let mark = format!("s{}-{}", self.who, self.nth);
        let number = 5_000_000_000_000_000 + self.who * 1_000_000_000 + self.nth;
        for step in steps::draw(&mut self.random, self.rig.kind, &mark, number) {
            while self.done.len() >= REMEMBERED {
                self.done.pop_front();
            }
            self.done.push_back(format!("{}: {step:?}", self.nth));
            self.tally.steps += 1;
            self.take(&step, &mark);
        }
        // An insert id that is owed is owed for longer now and then.
        if !self.random.gen_bool(0.2) {
            self.look();
        }
    }

    #[track_caller]
    fn check(&self, what: &str, proxied: &impl fmt::Debug, native: &impl fmt::Debug) {
        let [proxied, native] = [format!("{proxied:?}"), format!("{native:?}")];
        assert!(
            proxied == native,
            "{} session {}: {what}\nproxied: {proxied}\nnative:  {native}\nafter {:#?}",
            self.rig.name(),
            self.who,
            self.done
        );
    }

    fn take(&mut self, step: &Step, mark: &str) {
        match step {
            Step::Query(text) => {
                self.both(mark, text.may_be_refused, |side| side.query(&text.sql));
            }
            Step::InitDb(name) => {
                self.both(mark, false, |side| {
                    let name = side.text(name);
                    side.client.use_database(&String::from_utf8(name).unwrap()).unwrap()
                });
            }
            Step::Prepare { slot, sql } => self.prepare(*slot, sql),
            Step::Execute { slot, params } => self.execute(*slot, params, mark),
            Step::Close { slot } => {
                for side in &mut self.sides {
                    if let Some(statement) = side.binary.remove(slot) {
                        side.client.close(&statement).unwrap();
                    }
                }
            }
            Step::Lock(lock) => self.lock(*lock),
            Step::Unlock(lock) => self.unlock(*lock),
            Step::UnlockAll => {
                for side in &mut self.sides {
                    let released = side.query("SELECT RELEASE_ALL_LOCKS()")[0].cell(0, 0).unwrap();
                    let held: u32 = side.locks.values().sum();
                    assert_eq!(released, held.to_string(), "locks of {:?}", side.databases);
                    side.locks.clear();
                }
            }
            Step::Hidden(table) => self.look_at_table(table),
            Step::Reset => {
                self.both(mark, false, |side| {
                    side.forget();
                    side.client.reset().unwrap()
                });
                self.begins_anew();
            }
            Step::ChangeUser { user, database } => {
                for side in &mut self.sides {
                    side.forget();
                    let database = String::from_utf8(side.text(database)).unwrap();
                    side.client.change_user(user, &database).unwrap();
                }
                self.begins_anew();
            }
            Step::Reconnect { says_goodbye, database, capabilities, collation } => {
                for side in &mut self.sides {
                    side.forget();
                    let next = connect(&side.address, side.databases, *database, *capabilities, *collation);
                    let before = std::mem::replace(&mut side.client, next);
                    if *says_goodbye {
                        before.quit().unwrap();
                    }
                }
                self.begins_anew();
            }
        }
    }

    /// Checks by name that SQL's prepared statements and the temporary tables are gone.
    fn begins_anew(&mut self) {
        self.tally.connections += 1;
        self.look();
        for slot in 0..SLOTS {
            self.both("", true, |side| side.query(&format!("EXECUTE p{slot} USING @m,@x")));
        }
        for table in ["{1}.t", "{1}.w", "{2}.t"] {
            self.look_at_table(table);
        }
    }

    /// Sends to the proxy first, and natively unless the proxy refuses it. Returns true if it was done.
    fn both(&mut self, mark: &str, may_be_refused: bool, send: impl Fn(&mut Side) -> Vec<Outcome>) -> bool {
        let proxied = send(&mut self.sides[0]);
        let last = proxied.last().and_then(Outcome::err);
        if let Some(error) = last.filter(|error| error.message.starts_with("rowstamp: ")) {
            assert!(
                may_be_refused,
                "{} session {}: {error:?} after {:#?}",
                self.rig.name(),
                self.who,
                self.done
            );
            self.tally.refused += 1;
            return false;
        }
        let native = send(&mut self.sides[1]);
        // First, since answers are compared by the rows whose ids they tell.
        let rows = if mark.is_empty() { Vec::new() } else { self.rows_of(mark) };
        let errors = [&proxied, &native].map(|outcomes| outcomes.last().and_then(Outcome::err).cloned());
        let [mut proxied, native] = [self.sides[0].facts(&proxied), self.sides[1].facts(&native)];
        // The warnings of a ROLLBACK after an INSERT ... SELECT: docs/differences.md.
        let of_stage = if self.rig.kind == Kind::MySql9 { 2 } else { 1 };
        for (fact, native) in proxied.iter_mut().zip(&native) {
            // Native ones have some where the client itself made or dropped a temporary table.
            let told = |count: u16| {
                fact.replace(&format!(", {of_stage} warnings,"), &format!(", {count} warnings,")) == *native
            };
            if native.starts_with("ok, 0 rows, id 0,") && (0..of_stage).any(told) {
                fact.clone_from(native);
            }
        }
        self.check(&format!("answers differ, {errors:?}"), &proxied, &native);
        if let [proxied, native] = &rows[..] {
            self.check("rows", proxied, native);
        }
        if native.last().is_some_and(|fact| fact.starts_with("error")) {
            // The function's value after an error is undefined.
            for side in &mut self.sides {
                side.query("DO LAST_INSERT_ID(1)");
            }
        }
        true
    }

    fn prepare(&mut self, slot: u8, sql: &str) {
        let mut errors = Vec::new();
        for side in &mut self.sides {
            let sql = side.text(sql);
            let before = side.binary.remove(&slot);
            let outcome = side.client.prepare(&sql).unwrap();
            errors.push(outcome.as_ref().err().map(|error| error.code));
            if let Ok(statement) = outcome {
                side.binary.insert(slot, statement);
            }
            if let Some(before) = before {
                side.client.close(&before).unwrap();
            }
        }
        self.check("prepared", &errors[0], &errors[1]);
    }

    fn execute(&mut self, slot: u8, params: &[Param], mark: &str) {
        if !self.sides[0].binary.contains_key(&slot) {
            let sql = steps::template(&mut self.random, mark);
            self.done.push_back(format!("    prepares {sql}"));
            self.prepare(slot, &sql);
        }
        // Without a default database it cannot be.
        if !self.sides[0].binary.contains_key(&slot) {
            return;
        }
        let done = self.both(mark, true, |side| {
            let statement = side.binary[&slot].clone();
            side.client.execute(&statement, &params[..usize::from(statement.params)]).unwrap()
        });
        self.tally.executions += u64::from(done);
    }

    fn lock(&mut self, lock: u8) {
        for side in &mut self.sides {
            let name = side.lock_name(lock);
            let got = side.query(&format!("SELECT GET_LOCK('{name}',0)"))[0].cell(0, 0);
            if got.as_deref() == Some("1") {
                *side.locks.entry(lock).or_default() += 1;
            } else {
                assert!(!side.locks.contains_key(&lock), "{name}: {got:?}, though the session has it");
                self.tally.locks_in_the_way += 1;
            }
        }
    }

    /// One that another session has is not released.
    fn unlock(&mut self, lock: u8) {
        for side in &mut self.sides {
            let name = side.lock_name(lock);
            let released = side.query(&format!("SELECT RELEASE_LOCK('{name}')"))[0].cell(0, 0);
            let count = side.locks.get(&lock).copied().unwrap_or(0);
            assert_eq!(
                released.as_deref() == Some("1"),
                count > 0,
                "{name}: {released:?}, held {count} times"
            );
            side.locks.insert(lock, count.saturating_sub(1));
            side.locks.retain(|_, count| *count > 0);
        }
    }

    /// The session's own state, on both sides.
    fn look(&mut self) {
        self.tally.looks += 1;
        let isolation = if self.rig.kind == Kind::MySql9 { "transaction_isolation" } else { "tx_isolation" };
        let state = format!(
            "SELECT @@sql_mode,@@character_set_client,@@character_set_results,@@collation_connection,@@autocommit,\
             @@{isolation},@@time_zone,@@group_concat_max_len,@@foreign_key_checks,DATABASE(),CURRENT_USER(),\
             CONNECTION_ID(),@a,@b,@m,@x,LAST_INSERT_ID()"
        );
        let mut seen = Vec::new();
        for side in &mut self.sides {
            let outcomes = side.query(&state);
            seen.push(side.facts(&outcomes));
            for lock in 0..LOCKS {
                let name = side.lock_name(lock);
                let mine = format!("SELECT IS_USED_LOCK('{name}')<=>CONNECTION_ID()");
                let mine = side.query(&mine)[0].cell(0, 0).as_deref() == Some("1");
                assert_eq!(mine, side.locks.contains_key(&lock), "{name}: its session");
            }
        }
        self.check("state", &seen[0], &seen[1]);
    }

    fn look_at_table(&mut self, table: &str) {
        let mut seen = Vec::new();
        for side in &mut self.sides {
            let outcomes = side.query(&format!("SHOW CREATE TABLE {table}"));
            seen.push(outcomes[0].cell(0, 1).is_some_and(|text| text.starts_with("CREATE TEMPORARY")));
        }
        self.check(table, &seen[0], &seen[1]);
    }

    /// The rows of one step, wherever they went: as natively, each of this very session, each with an id of its table's generator.
    fn rows_of(&mut self, mark: &str) -> Vec<Vec<Vec<String>>> {
        let mut seen = Vec::new();
        for (nth, side) in self.sides.iter_mut().enumerate() {
            let select = |database: usize, table: &str| {
                format!(
                    "SELECT '{database}{table}',id,mark,conn,v,mode,charset,db,HEX(txt) FROM {}.{table} \
                     WHERE mark='{mark}' OR mark LIKE '{mark}.%'",
                    side.databases[database]
                )
            };
            let [a, b, c, d] = [select(0, "t"), select(0, "w"), select(1, "t"), select(1, "w")];
            let sql = format!("{a} UNION ALL {b} UNION ALL {c} UNION ALL {d} ORDER BY 1,2");
            let mut rows = self.observer.run(sql).remove(0).rows().to_vec();
            for row in &mut rows {
                let [place, id, mark] = [0, 1, 2].map(|cell| row[cell].text().unwrap_or_default());
                let number: u64 = id.parse().unwrap();
                let is_ours = match &*place {
                    "0t" | "0w" => (NEAR..FAR).contains(&number) || number == 0,
                    "1t" => number >= FAR || number == 0,
                    _ => number == 5 || number == 0,
                };
                assert!(nth == 1 || is_ours, "session {}: id {id} in {place}", self.who);
                if number >= NEAR {
                    side.ids.insert(id, mark);
                }
                let kind = if number == 0 { "zero" } else { "an id" };
                row[1] = Value::Bytes(kind.as_bytes().to_vec());
            }
            if nth == 0 {
                self.tally.rows += rows.len() as u64;
            }
            let rows: Vec<Vec<_>> =
                rows.iter().map(|row| row.iter().map(|c| side.cell(c)).collect()).collect();
            seen.push(rows);
        }
        seen
    }
}
