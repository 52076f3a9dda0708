//! Every write to etcd, from the first: which ranges were reserved, and by which process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::chaos::bounds::bound_in;
use crate::chaos::tables::TABLES;
use crate::support::etcd::Console;

/// The key that is written after all others: who reads it has read all.
const END: &str = "/rowstamp:end";
const WITNESS: &str = "/rowstamp/witness/";

/// From `from` up to below `to`: ids of a sequence, ticks of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) proxy: String,
    /// Which process of that proxy's, from 0.
    pub(crate) process: usize,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// The ranges of each table and node, ascending.
    pub(crate) ranges: [BTreeMap<u64, Vec<Range>>; TABLES.len()],
    /// Transactions of proxies: each writes its witness.
    pub(crate) writes: u64,
    bounds: BTreeMap<(usize, u64), u64>,
    /// The processes of each proxy, as they signed.
    runs: BTreeMap<String, Vec<String>>,
    /// Who wrote the witness in the transaction that is being read.
    writer: Option<(String, usize)>,
}

/// Nothing may be written any more.
pub(crate) fn read(console: &Console) -> History {
    console.run(&["put", END, "1"]).unwrap_or_else(|error| panic!("{error}"));
    let line = console.line(&["watch", "--prefix", "/rowstamp", "--rev=1"]);
    let mut watch = Command::new(&line[0])
        .args(&line[1..])
        .env("ETCDCTL_API", "3")
        .stdout(Stdio::piped())
        .spawn()
        .expect("etcdctl starts");
    let output = BufReader::new(watch.stdout.take().expect("it is piped"));
    let mut lines = output.lines().map(|line| line.expect("etcdctl writes text"));
    let mut history = History::default();
    // PUT or DELETE, the key, the value.
    while let (Some(event), Some(key), Some(value)) = (lines.next(), lines.next(), lines.next()) {
        if key == END {
            break;
        }
        if event == "PUT" {
            history.put(&key, &value);
        }
    }
    watch.kill().expect("etcdctl ends");
    watch.wait().expect("etcdctl ends");
    history
}

impl History {
    fn put(&mut self, key: &str, json: &str) {
        if let Some(name) = key.strip_prefix(WITNESS) {
            let record: Value = serde_json::from_str(json).expect("a record");
            let run = record["run"].as_str().expect("a run").to_owned();
            let runs = self.runs.entry(name.to_owned()).or_default();
            if runs.last() != Some(&run) {
                runs.push(run);
            }
            self.writer = Some((name.to_owned(), runs.len() - 1));
            self.writes += 1;
        } else if let Some((table, node)) =
            TABLES.iter().enumerate().find_map(|(nth, table)| Some((nth, table.node_of(key)?)))
        {
            self.raise(table, node, bound_in(json));
        }
    }

    fn raise(&mut self, table: usize, node: u64, bound: u64) {
        let (proxy, process) = self.writer.clone().expect("the witness is written in front of a bound");
        let before = self.bounds.insert((table, node), bound).unwrap_or(0);
        let ranges = self.ranges[table].entry(node).or_default();
        if bound > before && before > 0 {
            ranges.push(Range { from: before, to: bound, proxy, process });
        }
        // Handed back: ranges, or the tails of ranges, that reach above the bound are nobody's.
        while let Some(last) = ranges.last_mut().filter(|last| last.to > bound) {
            last.to = bound.max(last.from);
            if last.to == last.from {
                ranges.pop();
            }
        }
    }
}

#[test]
fn ranges_are_of_the_process_that_signed_and_end_where_they_are_handed_back() {
    let mut history = History::default();
    let key = TABLES[0].keys();
    for (witness, run, bound) in [
        ("p1", "a", 1),
        ("p1", "a", 101),
        ("p2", "b", 201),
        ("p1", "c", 301),
        ("p1", "c", 250),
        ("p2", "b", 350),
        ("p2", "b", 250),
    ] {
        history.put(&format!("{WITNESS}{witness}"), &format!("{{\"run\":\"{run}\"}}"));
        history.put(&key, &format!("{{\"bound\":{bound}}}"));
    }
    let range = |from, to, proxy: &str, process| Range { from, to, proxy: proxy.to_owned(), process };
    assert_eq!(
        history.ranges[0][&0],
        [range(1, 101, "p1", 0), range(101, 201, "p2", 0), range(201, 250, "p1", 1)]
    );
    assert_eq!(history.writes, 7);
}
