//! Documentation, alert rules and dashboard name metrics as they are: all is held to the catalogue.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rowstamp::admin::MetricKind;
use rowstamp::admin::metrics::{ALL, Entry, Values};
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use super::{check_part, read};

fn metrics_table() -> String {
    let mut table = "| metric | kind | labels | what |\n|---|---|---|---|\n".to_owned();
    for entry in ALL {
        let labels: Vec<_> = entry.labels.iter().map(|label| format!("`{}`", label.name)).collect();
        let kind = format!("{:?}", entry.kind).to_lowercase();
        writeln!(table, "| `{}` | {kind} | {} | {} |", entry.sample_name(), labels.join(", "), entry.help)
            .unwrap();
    }
    table
}

fn words_table() -> String {
    let mut table = "| metric | label | value | what |\n|---|---|---|---|\n".to_owned();
    for (entry, label) in ALL.iter().flat_map(|entry| entry.labels.iter().map(move |label| (entry, label))) {
        let name = entry.sample_name();
        match label.values {
            Values::Names(what) => writeln!(table, "| `{name}` | `{}` | any | {what} |", label.name).unwrap(),
            Values::Words(words) => {
                for (word, what) in words {
                    writeln!(table, "| `{name}` | `{}` | `{word}` | {what} |", label.name).unwrap();
                }
            }
        }
    }
    table
}

#[test]
fn the_documentation_has_the_catalogue() {
    check_part("docs/metrics.md", "metrics", &metrics_table());
    check_part("docs/metrics.md", "words", &words_table());
}

const WORDS: [&str; 29] = [
    "abs",
    "and",
    "avg",
    "by",
    "clamp_max",
    "clamp_min",
    "count",
    "group_left",
    "group_right",
    "histogram_quantile",
    "ignoring",
    "increase",
    "label_values",
    "max",
    "min",
    "offset",
    "on",
    "or",
    "predict_linear",
    "quantile",
    "rate",
    "round",
    "sum",
    "time",
    "topk",
    "unless",
    "vector",
    "without",
    "deriv",
];
/// Words after which names of labels stand in parentheses.
const OF_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Labels that Prometheus adds to everything it reads.
const ADDED: [&str; 2] = ["instance", "job"];

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Text(&'a str),
    Sign(char),
}

fn tokens(mut text: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    while let Some(first) = text.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '"' => {
                let length = text[1..].find('"').expect("a string ends") + 2;
                all.push(Token::Text(&text[1..length - 1]));
                length
            }
            // A range, a number with its unit: no names in them.
            '[' => text.find(']').expect("a range ends") + 1,
            c if c.is_ascii_digit() => text.find(|c: char| !is_word(c) && c != '.').unwrap_or(text.len()),
            c if is_word(c) => {
                let length = text.find(|c| !is_word(c)).unwrap_or(text.len());
                all.push(Token::Word(&text[..length]));
                length
            }
            c => {
                if !c.is_whitespace() {
                    all.push(Token::Sign(c));
                }
                c.len_utf8()
            }
        };
        text = &text[length..];
    }
    all
}

/// The entry whose samples have that name, and the labels that these have.
fn series(name: &str) -> Option<(&'static Entry, BTreeSet<&'static str>)> {
    let entry = ALL.iter().find(|entry| {
        let rest = name.strip_prefix(entry.name);
        match entry.kind {
            MetricKind::Counter => rest == Some("_total"),
            MetricKind::Gauge => rest == Some(""),
            MetricKind::Histogram => rest.is_some_and(|rest| ["_bucket", "_sum", "_count"].contains(&rest)),
        }
    })?;
    let bucket = name.ends_with("_bucket").then_some("le");
    let labels = entry.labels.iter().map(|label| label.name).chain(bucket).chain(ADDED);
    Some((entry, labels.collect()))
}

/// The parts of an expression that are not as the catalogue has them.
fn faults(expression: &str) -> Vec<String> {
    let tokens = tokens(expression);
    let (mut faults, mut known, mut named) = (Vec::new(), BTreeSet::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let next = |token: &Token<'_>| tokens.get(at + 1) == Some(token);
        match tokens[at] {
            Token::Word(word) if OF_LABELS.contains(&word) && next(&Token::Sign('(')) => {
                at += 2;
                while tokens[at] != Token::Sign(')') {
                    if let Token::Word(label) = tokens[at] {
                        named.push(label);
                    }
                    at += 1;
                }
            }
            Token::Word(word) if WORDS.contains(&word) => {}
            // Prometheus' own, for any job.
            Token::Word("up") => at = selector(&tokens, at + 1, None, &mut faults),
            Token::Word(word) => match series(word) {
                Some((entry, labels)) => {
                    at = selector(&tokens, at + 1, Some((entry, &labels)), &mut faults);
                    known.extend(labels);
                }
                // `label_values(metric, label)`, of Grafana.
                None if known.contains(word) => {}
                None => faults.push(format!("{word} is no metric, label or word of PromQL")),
            },
            Token::Text(_) | Token::Sign(_) => {}
        }
        at += 1;
    }
    faults.extend(
        named
            .into_iter()
            .filter(|label| !known.contains(label))
            .map(|label| format!("no metric has a label {label}")),
    );
    faults
}

/// `{label="value", ...}`, if one begins there; the index of its last token, or of the one before.
fn selector(
    tokens: &[Token<'_>],
    begin: usize,
    of: Option<(&Entry, &BTreeSet<&str>)>,
    faults: &mut Vec<String>,
) -> usize {
    if tokens.get(begin) != Some(&Token::Sign('{')) {
        return begin - 1;
    }
    let length =
        tokens[begin..].iter().position(|token| *token == Token::Sign('}')).expect("a selector ends");
    let inside = &tokens[begin + 1..begin + length];
    for matcher in inside.split(|token| *token == Token::Sign(',')) {
        let (Some(Token::Word(label)), Some(Token::Text(value))) = (matcher.first(), matcher.last()) else {
            faults.push(format!("{matcher:?} selects nothing"));
            continue;
        };
        let Some((entry, labels)) = of else { continue };
        if !labels.contains(label) {
            faults.push(format!("{} has no label {label}", entry.name));
        }
        let words = entry.labels.iter().find(|one| one.name == *label).map(|one| one.values);
        if let Some(Values::Words(words)) = words {
            let strange = value.split('|').filter(|value| !words.iter().any(|(word, _)| word == value));
            faults.extend(strange.map(|value| format!("{}: {label} is never {value}", entry.name)));
        }
    }
    begin + length
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    for (expression, expect) in [
        ("rowstamp_ready == 0", 0),
        ("sum by (generator, le) (rate(rowstamp_ids_issued_total{generator=~\"$generator\"}[5m]))", 1),
        (
            "sum by (operation, le) (rate(rowstamp_store_operation_seconds_bucket{operation=\"write\"}[5m])) > 0.5e3",
            0,
        ),
        ("rowstamp_ids_issued", 1),
        ("rowstamp_ready_total", 1),
        ("rowstamp_store_operation_seconds", 1),
        ("rate(rowstamp_made_up_total[5m])", 1),
        ("rowstamp_statements_total{outcome=\"pased\"}", 1),
        ("rowstamp_statements_total{outcome!~\"passed|rewritten\"}", 0),
        ("rowstamp_statements_total{reason=\"passed\"}", 1),
        ("sum without (instance, table) (rowstamp_ready)", 1),
        ("average(rowstamp_ready)", 1),
        ("up{job=\"rowstamp\"} == 0", 0),
        ("label_values(rowstamp_build_info, instance)", 0),
        ("label_values(rowstamp_build_info, generator)", 1),
    ] {
        assert_eq!(faults(expression).len(), expect, "{expression}: {:?}", faults(expression));
    }
}

#[track_caller]
fn check(place: &str, expression: &str) {
    assert_eq!(faults(expression), Vec::<String>::new(), "{place}: {expression}");
}

/// Names of labels in `{{ $labels.name }}`.
fn shown_labels(text: &str) -> Vec<&str> {
    let rest = text.split("$labels.").skip(1);
    rest.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap()).collect()
}

/// The labels that an expression's result has: those it is grouped by, or, where it is not, those of its metric.
fn labels_of(expression: &str) -> BTreeSet<String> {
    let tokens = tokens(expression);
    let by = tokens.iter().position(|token| *token == Token::Word("by"));
    if let Some(by) = by {
        let grouped = tokens[by + 2..].iter().take_while(|token| **token != Token::Sign(')'));
        return grouped
            .filter_map(|token| if let Token::Word(word) = token { Some((*word).to_owned()) } else { None })
            .collect();
    }
    let metrics =
        tokens.iter().filter_map(|token| if let Token::Word(word) = token { series(word) } else { None });
    metrics.flat_map(|(_, labels)| labels).chain(ADDED).map(str::to_owned).collect()
}

#[test]
fn alert_rules_name_real_metrics() {
    let text = read("examples/prometheus-alerts.yml");
    let [file] = &YamlLoader::load_from_str(&text).unwrap()[..] else { panic!("one document") };
    let groups = file["groups"].as_vec().unwrap();
    let rules: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_vec().unwrap()).collect();
    assert!(rules.len() > 10, "{}", rules.len());
    let mut names = BTreeSet::new();
    let runbook = read("docs/runbook.md");
    let headings: BTreeSet<_> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(headings.contains(name), "docs/runbook.md has no heading {name}");
        let link = format!("docs/runbook.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"].as_str(), Some(&*link), "{name}");
        assert!(names.insert(name), "{name} is there twice");
        let expression = rule["expr"].as_str().unwrap();
        check(name, expression);
        assert!(["critical", "warning"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        let known = ["alert", "expr", "for", "labels", "annotations"];
        assert!(rule.as_hash().unwrap().keys().all(|key| known.contains(&key.as_str().unwrap())), "{name}");
        assert!(
            rule["for"] == Yaml::BadValue
                || rule["for"].as_str().is_some_and(|time| time.ends_with(['s', 'm', 'h'])),
            "{name}"
        );
        for key in ["summary", "description"] {
            let text = rule["annotations"][key].as_str().unwrap_or_else(|| panic!("{name} has no {key}"));
            for label in shown_labels(text) {
                assert!(labels_of(expression).contains(label), "{name}: {label} is no label of {expression}");
            }
        }
    }
    for needed in [
        "RowstampReserveShort",
        "RowstampGeneratorTroubled",
        "RowstampHeadroomLow",
        "RowstampStoreFails",
        "RowstampClockLeapt",
        "RowstampNotReady",
        "RowstampReloadFailed",
        "RowstampStatementsRefused",
    ] {
        assert!(names.contains(needed), "{needed}");
    }
    assert_eq!(names, headings, "a heading of docs/runbook.md is about no alert");
}

#[test]
fn the_dashboard_asks_for_real_metrics() {
    let dashboard: Value = serde_json::from_str(&read("examples/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut asked, mut ids, mut places) = (String::new(), BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is another's");
        let grid = &panel["gridPos"];
        assert!(
            places.insert((grid["x"].as_u64().unwrap(), grid["y"].as_u64().unwrap())),
            "{title}: its place is another's"
        );
        assert!(grid["x"].as_u64().unwrap() + grid["w"].as_u64().unwrap() <= 24, "{title}");
        let targets = panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(panel["type"] == "row" || !targets.is_empty(), "{title} asks nothing");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            check(title, expression);
            for label in target["legendFormat"].as_str().unwrap().split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                assert!(
                    labels_of(expression).contains(label),
                    "{title}: {label} is no label of {expression}"
                );
            }
            asked += expression;
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            check("a variable", variable["definition"].as_str().unwrap());
        }
    }
    // Metrics that it does not show, because others say the same.
    let left_out = [
        "rowstamp_generator_bound",
        "rowstamp_generator_node",
        "rowstamp_store_up",
        "rowstamp_last_reload_successful",
        "rowstamp_rules",
        "rowstamp_generators",
    ];
    for entry in ALL.iter().filter(|entry| !left_out.contains(&entry.name)) {
        assert!(asked.contains(entry.name), "no panel shows {}", entry.name);
    }
}
