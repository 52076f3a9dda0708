//! The application: writers that insert all the time, and reconnect to where they are told to. Every error is one too many.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::raw::{Client, Options, Outcome, Param};
use crate::support::told::Row;
use crate::support::wait::NEVER;

pub(crate) const WRITERS: usize = 16;

/// A pause after each statement: the machine has other things to do, and the walk is long.
const PAUSE: Duration = Duration::from_millis(2);

/// The place that a writer writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Server,
    Proxy,
}

/// A row that a writer wrote, and the id that it was told. If a statement has several rows, the writer asks
/// for the first one's id only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    pub(crate) token: u64,
    pub(crate) id: Option<u64>,
    pub(crate) place: Place,
    /// Which part of the walk it was written in, as the walk counts them.
    pub(crate) chapter: usize,
}

pub(crate) struct Load {
    addresses: [String; 2],
    /// For each writer: how often it was told to reconnect, doubled, and where to.
    orders: Vec<AtomicUsize>,
    /// The last order that each has carried out.
    done: Vec<AtomicUsize>,
    pub(crate) chapter: AtomicUsize,
    pub(crate) stop: AtomicBool,
    told: Mutex<Vec<Told>>,
    failures: Mutex<Vec<String>>,
    statements: AtomicU64,
}

impl Load {
    pub(crate) fn new(server: String, proxy: String) -> Load {
        let zeros = || (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
        Load {
            addresses: [server, proxy],
            orders: zeros(),
            done: zeros(),
            chapter: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            told: Mutex::default(),
            failures: Mutex::default(),
            statements: AtomicU64::new(0),
        }
    }

    /// One writer after the other reconnects, while all others write on.
    pub(crate) fn reconnect(&self, writers: std::ops::Range<usize>, to: Place) {
        for writer in writers {
            let next =
                (self.orders[writer].load(Ordering::SeqCst) / 2 + 1) * 2 + usize::from(to == Place::Proxy);
            self.orders[writer].store(next, Ordering::SeqCst);
            let end = Instant::now() + NEVER;
            while self.done[writer].load(Ordering::SeqCst) != next {
                self.check();
                assert!(Instant::now() < end, "writer {writer} does not reconnect");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Until each writer may have had its turn a few times.
    pub(crate) fn go_on(&self) {
        let (before, end) = (self.statements.load(Ordering::SeqCst), Instant::now() + NEVER);
        while self.statements.load(Ordering::SeqCst) < before + 10 * WRITERS as u64 {
            self.check();
            assert!(Instant::now() < end, "nothing is written any more");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A failed write fails the test.
    pub(crate) fn check(&self) {
        let failures = self.failures.lock().unwrap();
        assert!(failures.is_empty(), "{} failed writes: {:?}", failures.len(), failures.first());
    }

    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    pub(crate) fn write(&self, writer: usize, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed ^ (writer as u64 + 1));
        let mut tokens = ((writer as u64) << 40) + 1..;
        while !self.stop.load(Ordering::SeqCst) {
            if let Err(failure) = self.write_on_one(writer, &mut tokens, &mut random) {
                let chapter = self.chapter.load(Ordering::SeqCst);
                self.failures
                    .lock()
                    .unwrap()
                    .push(format!("writer {writer} in chapter {chapter}: {failure}"));
                return;
            }
        }
    }

    /// On one connection, until another one is ordered.
    fn write_on_one(
        &self,
        writer: usize,
        tokens: &mut impl Iterator<Item = u64>,
        random: &mut StdRng,
    ) -> io::Result<()> {
        let order = self.orders[writer].load(Ordering::SeqCst);
        let place = if order % 2 == 1 { Place::Proxy } else { Place::Server };
        let options =
            Options { user: "app".to_owned(), database: Some("shop".to_owned()), ..Options::default() };
        let mut client = Client::connect(&self.addresses[order % 2], &options)?;
        let prepared =
            client.prepare("INSERT INTO orders (token) VALUES (?)")?.map_err(|refused| error(&refused))?;
        self.done[writer].store(order, Ordering::SeqCst);
        while !self.stop.load(Ordering::SeqCst) && self.orders[writer].load(Ordering::SeqCst) == order {
            let rows: Vec<u64> = match random.gen_range(0..4) {
                0 => tokens.take(3).collect(),
                _ => tokens.take(1).collect(),
            };
            // One of eight statements is rolled back: its ids are gaps.
            let rolls_back = random.gen_ratio(1, 8);
            if rolls_back {
                ok(client.query("BEGIN")?)?;
            }
            let outcomes = if rows.len() == 1 && random.gen_bool(0.5) {
                client.execute(&prepared, &[Param::Uint(rows[0])])?
            } else {
                let values: Vec<String> = rows.iter().map(|token| format!("({token})")).collect();
                client.query(format!("INSERT INTO orders (token) VALUES {}", values.join(", ")))?
            };
            let first = ok(outcomes)?;
            if rolls_back {
                ok(client.query("ROLLBACK")?)?;
            } else {
                let chapter = self.chapter.load(Ordering::SeqCst);
                let ids = std::iter::once(Some(first)).chain(std::iter::repeat(None));
                let told = rows.iter().zip(ids).map(|(&token, id)| Told { token, id, place, chapter });
                self.told.lock().unwrap().extend(told);
            }
            self.statements.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
        }
        client.quit()
    }
}

fn error(error: &crate::support::raw::ErrPacket) -> io::Error {
    io::Error::other(format!("{} {}", error.code, error.message))
}

/// The insert id.
fn ok(mut outcomes: Vec<Outcome>) -> io::Result<u64> {
    match outcomes.remove(0) {
        Outcome::Ok(ok) => Ok(ok.insert_id),
        Outcome::Err(refused) => Err(error(&refused)),
        rows @ Outcome::Rows(_) => Err(io::Error::other(format!("{rows:?}"))),
    }
}

/// The rows that someone was told the id of.
pub(crate) fn with_ids(told: &[Told]) -> Vec<Row> {
    told.iter().filter_map(|one| Some(Row { token: one.token, id: one.id? })).collect()
}
