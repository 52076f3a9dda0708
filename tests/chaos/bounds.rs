//! Ids in the tables against the bounds in etcd, while all goes on.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chaos::findings::Findings;
use crate::chaos::fleet::Fleet;
use crate::chaos::tables::{TABLES, Table};
use crate::support::etcd::Console;
use crate::support::raw::Client;

/// etcdctl gives up after 5 s, where the member that it asked was killed.
const ATTEMPTS_MAX: u32 = 5;

pub(crate) struct Bounds {
    direct: Mutex<Client>,
    console: Console,
    checks: AtomicU64,
}

impl Bounds {
    pub(crate) fn new(fleet: &Fleet) -> Bounds {
        Bounds {
            direct: Mutex::new(fleet.server.client()),
            console: fleet.console(),
            checks: AtomicU64::new(0),
        }
    }

    /// The id first: a bound that is read later is not lower than the one that the id was issued below.
    pub(crate) fn check(&self, findings: &Findings) {
        let mut direct = self.direct.lock().unwrap();
        for table in &TABLES {
            let highest = direct.run(format!("SELECT MAX(id) FROM {}", table.path()))[0].cell(0, 0);
            let Some(highest) = highest.and_then(|id| id.parse::<u64>().ok()) else { continue };
            let (place, bounds) = (table.ids.place(highest), bounds(&self.console, table));
            self.checks.fetch_add(1, Ordering::Relaxed);
            if bounds.get(&place.node).is_none_or(|bound| place.at >= *bound) {
                findings.note("an id that is not below the bound", || {
                    format!("{}: {highest} at {place:?}, the bounds are {bounds:?}", table.name)
                });
            }
        }
    }

    pub(crate) fn checks(&self) -> u64 {
        self.checks.load(Ordering::Relaxed)
    }
}

/// The bound of each node, as the members agree on it: a linearizable read.
pub(crate) fn bounds(console: &Console, table: &Table) -> BTreeMap<u64, u64> {
    let mut last_error = String::new();
    for _ in 0..ATTEMPTS_MAX {
        match console.run(&["get", "--consistency=l", "--prefix", &table.keys()]) {
            // The key on one line, the record on the next.
            Ok(text) => {
                let lines: Vec<_> = text.lines().collect();
                return lines
                    .chunks_exact(2)
                    .filter_map(|pair| Some((table.node_of(pair[0])?, bound_in(pair[1]))))
                    .collect();
            }
            Err(error) => last_error = error,
        }
    }
    panic!("the bounds of {} are not to be had: {last_error}", table.name)
}

pub(crate) fn bound_in(json: &str) -> u64 {
    let record: serde_json::Value = serde_json::from_str(json).expect("a record");
    record["bound"].as_u64().expect("a bound")
}
