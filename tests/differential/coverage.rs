//! `coverage.txt`: which cases judge which topic.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::differential::case::{self, Case};
use crate::differential::run::Protocol;

const CASES_A_TOPIC: usize = 3;
const CASES_IN_ALL_COMBINATIONS: usize = 400;

#[test]
fn every_topic_has_its_cases() {
    let cases = case::load_all();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/coverage.txt");
    let text = fs::read_to_string(file).expect("coverage.txt");
    let mut topics: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (topic, listed) =
            line.split_once(": ").unwrap_or_else(|| panic!("coverage.txt: no topic: {line}"));
        let listed: BTreeSet<_> = listed.split_whitespace().collect();
        let unknown: Vec<_> = listed.difference(&names).collect();
        assert!(unknown.is_empty(), "coverage.txt: {topic}: there are no cases {unknown:?}");
        assert!(listed.len() >= CASES_A_TOPIC, "coverage.txt: {topic} has {} cases", listed.len());
        assert!(topics.insert(topic, listed).is_none(), "coverage.txt: {topic} twice");
    }
    assert!(topics.len() >= 60, "only {} topics", topics.len());
}

#[test]
fn most_cases_run_in_all_combinations() {
    let everywhere = |case: &Case| {
        let both = Protocol::ALL.into_iter().all(|protocol| case.runs_by(protocol));
        case.servers.is_empty() && case.unsupported.is_empty() && both
    };
    let count = case::load_all().iter().filter(|case| everywhere(case)).count();
    assert!(count >= CASES_IN_ALL_COMBINATIONS, "only {count} cases run in all eight combinations");
}
