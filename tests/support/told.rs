//! The parts that long runs under load share: rows as clients were told of them, and the judge who compares
//! them with the table.

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::Rng;

use super::raw::{Client, ErrPacket, OkPacket, Outcome, Param, Prepared};

/// The most rows in one statement.
const ROWS_MAX: usize = 20;

const QUIET_DEADLINE: Duration = Duration::from_mins(1);

/// A row with a token that only it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub token: u64,
    pub id: u64,
}

/// Until no statement runs in the database but the client's own.
pub fn wait_until_quiet(client: &mut Client, database: &str) {
    let mine = client.connection_id;
    let others = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{database}' AND id <> {mine}"
    );
    let end = Instant::now() + QUIET_DEADLINE;
    while client.run(&others)[0].cell(0, 0).as_deref() != Some("0") {
        let list = "SELECT id, command, time, state, info FROM information_schema.processlist";
        assert!(Instant::now() < end, "connections long gone are still there: {:?}", client.run(list));
        thread::sleep(Duration::from_millis(20));
    }
}

/// All rows of a table with the columns `token` and `id`.
pub fn read(client: &mut Client, table: &str) -> Vec<Row> {
    let outcome = client.run(format!("SELECT token, id FROM {table}")).remove(0);
    let cell = |row: usize, column: usize| {
        outcome.cell(row, column).and_then(|text| text.parse().ok()).expect("an unsigned number")
    };
    (0..outcome.rows().len()).map(|row| Row { token: cell(row, 0), id: cell(row, 1) }).collect()
}

/// The rows of one INSERT, and the way it is sent.
pub struct Batch {
    tokens: Vec<u64>,
    is_prepared: bool,
}

impl Batch {
    /// One row or several, with fresh tokens.
    pub fn draw(tokens: &mut impl Iterator<Item = u64>, random: &mut impl Rng) -> Batch {
        let (rows, is_prepared) = match random.gen_range(0..4) {
            0 => (1, false),
            1 => (random.gen_range(2..=ROWS_MAX), false),
            2 => (1, true),
            _ => (3, true),
        };
        Batch { tokens: tokens.take(rows).collect(), is_prepared }
    }

    pub fn tokens(&self) -> &[u64] {
        &self.tokens
    }

    /// Returns the acknowledged rows. Their ids adjoin: that is what a driver tells of several rows.
    pub fn rows(&self, ok: &OkPacket) -> impl Iterator<Item = Row> {
        assert_eq!(ok.affected_rows, self.tokens.len() as u64, "rows inserted");
        self.tokens.iter().zip(ok.insert_id..).map(|(&token, id)| Row { token, id })
    }
}

/// INSERTs into one table in several forms, on one connection.
pub struct Inserts {
    table: &'static str,
    one: Prepared,
    three: Prepared,
}

impl Inserts {
    /// The inner error is the server's, or the proxy's.
    pub fn prepare(client: &mut Client, table: &'static str) -> io::Result<Result<Inserts, ErrPacket>> {
        let mut prepare = |values| client.prepare(format!("INSERT INTO {table} (token) VALUES {values}"));
        let one = match prepare("(?)")? {
            Ok(one) => one,
            Err(error) => return Ok(Err(error)),
        };
        Ok(prepare("(?), (?), (?)")?.map(|three| Inserts { table, one, three }))
    }

    pub fn send(&self, client: &mut Client, batch: &Batch) -> io::Result<Outcome> {
        let statement = match batch.tokens.len() {
            1 => Some(&self.one),
            3 => Some(&self.three),
            _ => None,
        };
        let mut outcomes = if let Some(statement) = statement.filter(|_| batch.is_prepared) {
            let params: Vec<Param> = batch.tokens.iter().map(|token| Param::Uint(*token)).collect();
            client.execute(statement, &params)?
        } else {
            let values: Vec<String> = batch.tokens.iter().map(|token| format!("({token})")).collect();
            client.query(format!("INSERT INTO {} (token) VALUES {}", self.table, values.join(",")))?
        };
        Ok(outcomes.remove(0))
    }
}

/// The environment's number, where it has one.
pub fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// `ROWSTAMP_SEED`, or another one each time.
pub fn seed() -> u64 {
    number("ROWSTAMP_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| u64::from(now.subsec_nanos()))
    })
}

/// Writers that share the flag end with it, also by a panic.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Every finding's first example and how many there are of it.
pub fn judge(acknowledged: &[Row], stored: &[Row]) -> Result<(), String> {
    let mut by_id: HashMap<u64, u64> = HashMap::new();
    let mut by_token: HashMap<u64, u64> = HashMap::new();
    let mut findings: Vec<(&str, String)> = Vec::new();
    for row in stored {
        if row.id == 0 {
            findings.push(("a row without an id", format!("{row:?}")));
        } else if let Some(other) = by_id.insert(row.id, row.token) {
            findings.push(("an id issued twice", format!("{row:?} and the row of token {other}")));
        }
        if by_token.insert(row.token, row.id).is_some() {
            findings.push(("a row stored twice", format!("{row:?}")));
        }
    }
    for row in acknowledged {
        match by_token.get(&row.token) {
            None => findings.push(("an acknowledged row is missing", format!("{row:?}"))),
            Some(id) if *id != row.id => {
                findings.push(("an acknowledged row has another id", format!("{row:?}, stored {id}")));
            }
            Some(_) => {}
        }
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (kind, example) in &findings {
        if !text.contains(kind) {
            let count = findings.iter().filter(|(other, _)| other == kind).count();
            let _ = write!(text, "{kind} ({count} times): {example}; ");
        }
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}

#[test]
fn the_judge_notices() {
    let check = |acknowledged: &[(u64, u64)], stored: &[(u64, u64)], expect: &str| {
        let rows =
            |pairs: &[(u64, u64)]| pairs.iter().map(|&(token, id)| Row { token, id }).collect::<Vec<_>>();
        let found = judge(&rows(acknowledged), &rows(stored)).err().unwrap_or_default();
        let kinds: Vec<&str> =
            found.split("; ").filter_map(|finding| Some(finding.split_once(" (")?.0)).collect();
        assert_eq!(kinds.join(", "), expect);
    };
    check(&[(1, 10)], &[(1, 10)], "");
    check(&[], &[(1, 10), (2, 11)], "");
    check(&[(1, 10), (2, 11)], &[(1, 10)], "an acknowledged row is missing");
    check(&[(1, 10)], &[(1, 11)], "an acknowledged row has another id");
    check(&[], &[(1, 10), (2, 10)], "an id issued twice");
    check(&[], &[(1, 10), (1, 11)], "a row stored twice");
    check(&[], &[(1, 0), (2, 0)], "a row without an id");
}
