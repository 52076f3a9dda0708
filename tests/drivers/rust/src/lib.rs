//! The parts that both programs need: the address, the rows that they write, and the count of their checks.

use std::{env, fmt::Debug, process};

/// The tables and the least id that each may hand out.
pub const TABLES: [(&str, u64); 2] = [("orders", 5000), ("kept", 7000)];

pub const COLUMNS: &str = "note, qty, price, weight, placed, paid, payload";

/// A row's id and the text that the table's view shows for its columns.
pub type Row = (u64, String);

pub struct Address {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub database: String,
}

impl Address {
    pub fn from_env() -> Self {
        let var = |name: &str| {
            env::var(format!("ROWSTAMP_{name}")).unwrap_or_else(|_| panic!("no ROWSTAMP_{name}"))
        };
        Self {
            host: var("HOST"),
            port: var("PORT").parse().expect("ROWSTAMP_PORT is a port"),
            user: var("USER"),
            password: var("PASSWORD"),
            database: var("DATABASE"),
        }
    }
}

/// Values of the columns, and the text that they must give. Decimals and times go as text: neither driver needs a further
/// crate for what is checked here.
#[derive(Clone, Default)]
pub struct Sample {
    pub note: Option<&'static str>,
    pub qty: Option<i32>,
    pub price: Option<&'static str>,
    pub weight: Option<f64>,
    pub placed: Option<&'static str>,
    pub paid: Option<bool>,
    pub payload: Option<&'static [u8]>,
    pub text: &'static str,
}

/// NULLs change from one row to the next, so that a prepared statement has to bind again.
pub fn samples() -> [Sample; 4] {
    [
        Sample {
            note: Some("plain"),
            qty: Some(1),
            price: Some("12.50"),
            weight: Some(0.25),
            placed: Some("2024-02-29 13:14:15.123456"),
            paid: Some(true),
            payload: Some(b"\x00\x01'\\\xff"),
            text: "plain|1|12.50|0.25|2024-02-29 13:14:15.123456|1|0001275CFF",
        },
        Sample { text: "NULL|NULL|NULL|NULL|NULL|NULL|NULL", ..Sample::default() },
        Sample {
            note: Some("it's \"q\" \\ ? (), -- /* é ☃ 😀"),
            qty: Some(i32::MIN),
            price: Some("-0.01"),
            weight: Some(-1e10),
            placed: Some("1999-12-31 23:59:59"),
            paid: Some(false),
            payload: Some(b""),
            text: "it's \"q\" \\ ? (), -- /* é ☃ 😀|-2147483648|-0.01|-10000000000|1999-12-31 23:59:59.000000|0|",
        },
        Sample {
            note: Some(""),
            qty: Some(0),
            price: Some("9999999999.99"),
            weight: Some(0.5),
            placed: Some("2000-01-01 00:00:00"),
            paid: None,
            payload: Some(b"NULL"),
            text: "|0|9999999999.99|0.5|2000-01-01 00:00:00.000000|NULL|4E554C4C",
        },
    ]
}

/// The rows of these ids, given with the note and qty 0, 1, ...
pub fn rows(ids: &[u64], note: &str) -> Vec<Row> {
    ids.iter().enumerate().map(|(qty, &id)| (id, format!("{note}|{qty}|NULL|NULL|NULL|NULL|NULL"))).collect()
}

/// Counts comparisons and prints a line for each.
pub struct Check {
    driver: &'static str,
    count: u32,
    wrong: u32,
}

impl Check {
    pub fn new(driver: &'static str) -> Self {
        Self { driver, count: 0, wrong: 0 }
    }

    pub fn same<T: PartialEq + Debug>(&mut self, what: &str, expect: T, got: T) {
        self.count += 1;
        if expect == got {
            println!("  {what}");
        } else {
            self.wrong += 1;
            println!("  WRONG {what}: expected {expect:?}, got {got:?}");
        }
    }

    /// Prints the last line and ends the program.
    pub fn done(self) -> ! {
        let Self { driver, count, wrong } = self;
        if wrong > 0 {
            println!("FAILED {driver}: {wrong} of {count} checks");
            process::exit(1);
        }
        println!("ok {driver}: {count} checks");
        process::exit(0);
    }
}
