use std::collections::HashSet;

use super::{ALL, BYTES, Entry, IDS_ISSUED, STATEMENTS, STORE_TIME, STORE_UP, Timing, Values, faults};
use crate::admin::desk::{Desk, Metric, MetricKind, Unit};
use crate::admin::fake::FakeDesk;

fn entry(name: &str) -> &'static Entry {
    ALL.iter().find(|entry| entry.name == name).unwrap()
}

#[test]
fn names_are_as_prometheus_advises() {
    let names: HashSet<_> = ALL.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), ALL.len(), "two entries have one name");
    for entry in ALL {
        let name = entry.name;
        // Metrics that every process has go by the names that all programs use.
        let rest = name.strip_prefix("rowstamp_").or_else(|| name.strip_prefix("process_"));
        let rest = rest.unwrap_or_else(|| panic!("{name} has no prefix"));
        assert!(rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        let unit = match entry.unit {
            Unit::Count => None,
            Unit::Seconds => Some("_seconds"),
            Unit::Bytes => Some("_bytes"),
            Unit::Ratio => Some("_ratio"),
        };
        let ends = ["_seconds", "_bytes", "_ratio"].into_iter().find(|end| name.ends_with(end));
        assert_eq!(ends, unit, "{name}: the unit stands at the end");
        for taken in ["_total", "_count", "_sum", "_bucket", "_created"] {
            assert!(!name.ends_with(taken), "{name}: {taken} is the format's to add");
        }
        assert!(entry.kind != MetricKind::Histogram || entry.unit == Unit::Seconds, "{name}");
        assert!(
            entry.help.ends_with('.') && !entry.help.contains(['\n', '"', '\\']),
            "{name}: {}",
            entry.help
        );
    }
}

#[test]
fn labels_have_words_or_names() {
    for (entry, label) in ALL.iter().flat_map(|entry| entry.labels.iter().map(move |label| (entry, label))) {
        let Values::Words(words) = label.values else { continue };
        let distinct: HashSet<_> = words.iter().map(|(word, _)| word).collect();
        assert!(distinct.len() == words.len() && words.len() > 1, "{} {}", entry.name, label.name);
    }
}

#[track_caller]
fn check(metrics: &[Metric], expect: &[&str]) {
    assert_eq!(faults(metrics), expect);
}

#[test]
fn what_is_not_as_the_catalogue_has_it_is_found() {
    let timing = |buckets: &[(f64, u64)]| Timing { seconds: 1.0, buckets: buckets.to_vec() };
    check(&[IDS_ISSUED.of([(["shop.orders"], 1.0)]), STATEMENTS.of([(["passed"], 1.0)])], &[]);
    check(&[STORE_UP.is(1.0), STORE_UP.is(0.0)], &["rowstamp_store_up is there twice"]);
    check(
        &[Metric { name: "rowstamp_made_up", ..STORE_UP.is(1.0) }],
        &["rowstamp_made_up is not in the catalogue"],
    );
    check(
        &[Metric { name: "rowstamp_store_up", ..BYTES.of([(["to_client"], 1.0)]) }],
        &["rowstamp_store_up has labels [\"direction\"], not []"],
    );
    check(
        &[BYTES.of([(["sideways"], 1.0)])],
        &["rowstamp_traffic_bytes: \"sideways\" is no direction of the catalogue"],
    );
    check(&[IDS_ISSUED.of([([""], 1.0)])], &["rowstamp_ids_issued: \"\" is no generator of the catalogue"]);
    check(&[STORE_TIME.timed([(["read"], timing(&[(0.1, 1), (f64::INFINITY, 2)]))])], &[]);
    let endless =
        "rowstamp_store_operation_seconds: a histogram has buckets, the last one without end, others none";
    check(&[STORE_TIME.timed([(["read"], timing(&[(0.1, 1)]))])], &[endless]);
    check(&[STORE_TIME.of([(["read"], 1.0)])], &[endless]);
    let order = "rowstamp_store_operation_seconds: buckets count what is at most their end";
    check(&[STORE_TIME.timed([(["read"], timing(&[(0.1, 3), (f64::INFINITY, 2)]))])], &[order]);
}

#[test]
fn the_fake_desk_knows_the_catalogue_only() {
    check(&FakeDesk::default().metrics(), &[]);
}

#[test]
fn samples_of_counters_end_with_total() {
    assert_eq!(entry("rowstamp_ids_issued").sample_name(), "rowstamp_ids_issued_total");
    assert_eq!(entry("rowstamp_sessions").sample_name(), "rowstamp_sessions");
}
