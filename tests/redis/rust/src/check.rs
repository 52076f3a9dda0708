//! The tasks of a client's program, and the count of its checks: see ../../README.md.

use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::io::stdin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use redis::{RedisResult, Value};

const ORDERS: &str = "shop.orders";
const STEPPED: &str = "shop.stepped";
const T: &str = "shop.t";
const NOPE: &str = "shop.nope";
/// The second proxy's sequences begin here: an id tells who gave it.
const SECOND: u64 = 1_000_000_000;
/// After a proxy was killed, a client must have an id from the other one within this time.
const SOON: Duration = Duration::from_secs(15);

#[derive(Clone, Copy)]
pub struct User {
    pub name: &'static str,
    pub password: &'static str,
}

/// The calls that the program makes to its library.
pub trait Library {
    fn incr(&mut self, key: &str) -> RedisResult<u64>;
    fn incr_by(&mut self, key: &str, n: u64) -> RedisResult<u64>;
    fn pipeline(&mut self, keys: &[&str]) -> RedisResult<Vec<u64>>;
    fn get(&mut self, key: &str) -> RedisResult<Option<String>>;
    fn mget(&mut self, keys: &[&str]) -> RedisResult<Vec<Option<String>>>;
    fn exists(&mut self, keys: &[&str]) -> RedisResult<u64>;
    fn set(&mut self, key: &str, value: &str) -> RedisResult<()>;
    fn raw(&mut self, words: &[&str]) -> RedisResult<Value>;
}

#[derive(Default)]
pub struct Check {
    checks: u32,
    wrong: u32,
    ids: HashSet<(String, u64)>,
}

fn span(first: u64, count: u64, step: u64) -> Vec<u64> {
    (0..count).map(|nth| first + nth * step).collect()
}

impl Check {
    fn that(&mut self, what: impl Display, holds: bool, found: impl Debug) {
        self.checks += 1;
        if !holds {
            self.wrong += 1;
            println!("WRONG {what}: {found:?}");
        }
    }

    fn same<T: PartialEq + Debug>(&mut self, what: impl Display, found: T, expect: T) {
        self.that(what, found == expect, format_args!("{found:?}, and not {expect:?}"));
    }

    fn drawn(&mut self, what: impl Display, key: &str, ids: &[u64]) {
        let before = self.ids.len();
        self.ids.extend(ids.iter().map(|id| (key.to_owned(), *id)));
        self.that(format_args!("{what}: ids that nobody has"), self.ids.len() == before + ids.len(), ids);
    }

    /// `texts`: those that the library may tell it by, with `|` between them.
    fn refused<T>(&mut self, what: impl Display, texts: &str, found: Result<T>) {
        let said = found.err().map(|error| format!("{error:#}"));
        let is_said = |said: &String| texts.split('|').any(|text| said.contains(text));
        self.that(what, said.as_ref().is_some_and(is_said), said);
    }

    /// INCRBY, a pipeline and ROWSTAMP.TAKE of a sequence, after its id `first`; the last id.
    fn draw(&mut self, redis: &mut impl Library, key: &str, first: u64, step: u64) -> Result<u64> {
        self.drawn(format_args!("INCR {key}"), key, &[first]);
        let last = redis.incr_by(key, 10)?;
        self.drawn(format_args!("INCRBY {key} 10"), key, &span(first + step, 10, step));
        self.same(format_args!("INCRBY {key} 10"), last, first + 10 * step);
        let ids = redis.pipeline(&[key; 100])?;
        self.drawn(format_args!("100 INCR {key} in a pipeline"), key, &ids);
        self.same(format_args!("100 INCR {key} in a pipeline"), ids, span(last + step, 100, step));
        let runs: Vec<u64> = redis::from_redis_value(redis.raw(&["ROWSTAMP.TAKE", key, "5"])?)?;
        self.same(format_args!("ROWSTAMP.TAKE {key} 5"), &runs, &vec![last + 101 * step, 5, step]);
        self.drawn(format_args!("ROWSTAMP.TAKE {key} 5"), key, &span(runs[0], 5, step));
        Ok(runs[0] + 4 * step)
    }

    fn draw_timestamps(&mut self, redis: &mut impl Library) -> Result<()> {
        let first = redis.incr(T)?;
        self.drawn("INCR of timestamps", T, &[first]);
        let last = redis.incr_by(T, 10)?;
        self.drawn("INCRBY 10 of timestamps", T, &span(last - 9, 10, 1));
        let ids = redis.pipeline(&[T; 100])?;
        self.drawn("100 INCR of timestamps in a pipeline", T, &ids);
        let all = [&[first, last - 9, last][..], &ids].concat();
        self.that("timestamps ascend", all.is_sorted(), &all);
        self.that("timestamps are above 2^53", first > 1 << 53, first);
        let runs: Vec<u64> = redis::from_redis_value(redis.raw(&["ROWSTAMP.TAKE", T, "10"])?)?;
        for run in runs.chunks(3) {
            self.drawn("ROWSTAMP.TAKE 10 of timestamps", T, &span(run[0], run[1], run[2]));
        }
        let count = runs.chunks(3).map(|run| run[1]).sum();
        self.same("ROWSTAMP.TAKE 10 of timestamps: how many", count, 10);
        let parts = redis.raw(&["ROWSTAMP.DECODE", T, &first.to_string()])?;
        let parts: std::collections::HashMap<String, String> = redis::from_redis_value(parts)?;
        let node = parts.get("node").map(String::as_str);
        self.that("ROWSTAMP.DECODE", matches!(node, Some("0" | "1")), &parts);
        Ok(())
    }

    /// `open`: a client that logs in as the user.
    pub fn run<L: Library>(mut self, is_cluster: bool, open: impl Fn(User) -> Result<L>) -> Result<()> {
        let mut redis = open(User { name: "labels", password: "s3cret" })?;
        self.same("GET before the first id", redis.get(ORDERS)?, None);
        let first = redis.incr(ORDERS)?;
        let last = Some(self.draw(&mut redis, ORDERS, first, 1)?.to_string());
        self.same("GET", redis.get(ORDERS)?, last.clone());
        // Different keys of one command have different slots, and then a cluster client does not send it.
        if is_cluster {
            self.same("MGET", redis.mget(&[ORDERS, ORDERS])?, vec![last.clone(), last]);
            self.same("EXISTS", redis.exists(&[ORDERS, ORDERS])?, 2);
        } else {
            self.same("MGET", redis.mget(&[ORDERS, STEPPED, NOPE])?, vec![last, None, None]);
            self.same("EXISTS", redis.exists(&[ORDERS, STEPPED, NOPE])?, 2);
        }
        let stepped = redis.incr(STEPPED)?;
        self.draw(&mut redis, STEPPED, stepped, 10)?;
        self.draw_timestamps(&mut redis)?;
        let list: Vec<String> = redis::from_redis_value(redis.raw(&["ROWSTAMP.LIST"])?)?;
        self.same("ROWSTAMP.LIST", list, [ORDERS, STEPPED, T].map(str::to_owned).to_vec());
        self.refused(
            "INCR of no generator",
            "the rules have no generator",
            redis.incr(NOPE).map_err(Into::into),
        );
        self.refused("SET", "unknown command 'SET'", redis.set(ORDERS, "1").map_err(Into::into));
        self.refused("INCRBY 0", "is not a number of ids", redis.incr_by(ORDERS, 0).map_err(Into::into));
        let mut reader = open(User { name: "reader", password: "r3ad" })?;
        let seen = reader.get(ORDERS)?;
        self.that("GET as a reader", seen.as_ref().is_none_or(|seen| seen.parse::<u64>().is_ok()), &seen);
        self.refused("INCR as a reader", "has no", reader.incr(ORDERS).map_err(Into::into));
        let wrong = open(User { name: "reader", password: "wrong" });
        self.refused(
            "a wrong password",
            "WRONGPASS|Password authentication failed",
            wrong.and_then(|mut wrong| Ok(wrong.get(ORDERS)?)),
        );
        let after = redis.incr(ORDERS)?;
        self.drawn("INCR after all errors", ORDERS, &[after]);
        if is_cluster {
            self.lose(&mut redis, first >= SECOND)?;
        }
        anyhow::ensure!(self.wrong == 0, "{} checks of {}", self.wrong, self.checks);
        println!("ok redis-rs {}: {} checks", version()?, self.checks);
        Ok(())
    }

    /// The proxy that the client uses is killed: it has to go on with the other one.
    fn lose(&mut self, redis: &mut impl Library, uses_second: bool) -> Result<()> {
        println!("kill {}", if uses_second { 2 } else { 1 });
        stdin().read_line(&mut String::new())?;
        let (begun, mut failed) = (Instant::now(), Vec::new());
        let first = loop {
            match redis.incr(ORDERS) {
                Ok(id) => break id,
                Err(error) => failed.push(error.to_string()),
            }
            if begun.elapsed() > SOON {
                let what = format!("the other proxy: {} calls failed", failed.len());
                self.that(what, false, failed.last());
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let why = failed.first().map(|why| format!(" ({why})")).unwrap_or_default();
        println!(
            "note went on after {:.2} s, {} calls failed{why}",
            begun.elapsed().as_secs_f32(),
            failed.len()
        );
        self.that("the other proxy", (first >= SECOND) != uses_second, first);
        self.draw(redis, ORDERS, first, 1)?;
        let stepped = redis.incr(STEPPED)?;
        self.draw(redis, STEPPED, stepped, 10)?;
        self.draw_timestamps(redis)
    }
}

/// The library's version, which the manifest pins.
fn version() -> Result<&'static str> {
    let (_, rest) = include_str!("../Cargo.toml").split_once("version = \"=").context("a pinned version")?;
    Ok(rest.split('"').next().unwrap_or_default())
}
