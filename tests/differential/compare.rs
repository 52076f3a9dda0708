//! The facts of two runs -> a verdict.

use crate::differential::case::{Case, Refusal};
use crate::differential::declared::Difference;
use crate::differential::run::{Fact, Record};
use crate::differential::tally::Combination;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The same, but for these declared differences; what the proxy said where it refuses for good.
    Right {
        excused: Vec<String>,
        refusals: Vec<String>,
    },
    /// Listed as unsupported, and refused without a trace.
    Refused {
        why: String,
        message: String,
    },
    Wrong {
        complaints: Vec<String>,
    },
}

impl Verdict {
    pub(crate) fn wrong(complaint: String) -> Verdict {
        Verdict::Wrong { complaints: vec![complaint] }
    }
}

pub(crate) fn compare(
    case: &Case,
    native: &Record,
    proxied: &Record,
    declared: &[&Difference],
    combination: Combination,
) -> Verdict {
    let complaints = [traces_of_refusals(proxied), proxied.bytes.clone()].concat();
    if !complaints.is_empty() {
        return Verdict::Wrong { complaints };
    }
    let listed = case.unsupported.iter().find(|unsupported| combination.matches(&unsupported.only));
    let said = || proxied.refusals.iter().map(|(_, message)| message.clone()).collect::<Vec<_>>();
    match (listed, proxied.refusals.first()) {
        (Some(listed), Some(refused)) => until_refusal(case, native, proxied, refused, declared, listed),
        (Some(listed), None) => match differences(case, &native.facts, &proxied.facts, declared) {
            Verdict::Wrong { mut complaints } => {
                complaints.insert(0, format!("listed as unsupported ({}), but not refused", listed.why));
                Verdict::Wrong { complaints }
            }
            _ => Verdict::wrong(format!(
                "done rightly, so take it off the list of unsupported: {}",
                listed.why
            )),
        },
        (None, _) => match differences(case, &native.facts, &proxied.facts, declared) {
            Verdict::Wrong { mut complaints } => {
                complaints.extend(said());
                Verdict::Wrong { complaints }
            }
            Verdict::Right { excused, .. } => Verdict::Right { excused, refusals: said() },
            refused @ Verdict::Refused { .. } => refused,
        },
    }
}

/// A refused packet must not have been sent, not even in part.
fn traces_of_refusals(proxied: &Record) -> Vec<String> {
    let complaint = |step| format!("step {step}: refused with 1235, but the tables changed");
    let steps = proxied.refusals.iter().map(|(step, _)| *step);
    steps.filter(|step| left_a_trace(proxied, *step)).map(complaint).collect()
}

pub(crate) fn left_a_trace(record: &Record, step: usize) -> bool {
    !record.tables(step).eq(record.tables(step.saturating_sub(1)))
}

fn until_refusal(
    case: &Case,
    native: &Record,
    proxied: &Record,
    (refused, message): &(usize, String),
    declared: &[&Difference],
    listed: &Refusal,
) -> Verdict {
    let before = |record: &Record| {
        record.facts.iter().filter(|fact| fact.step < *refused).cloned().collect::<Vec<_>>()
    };
    match differences(case, &before(native), &before(proxied), declared) {
        Verdict::Wrong { complaints } => Verdict::Wrong { complaints },
        _ => Verdict::Refused { why: listed.why.clone(), message: message.clone() },
    }
}

fn differences(case: &Case, native: &[Fact], proxied: &[Fact], declared: &[&Difference]) -> Verdict {
    let mut complaints = Vec::new();
    let mut excused = Vec::new();
    for (native, proxied) in native.iter().zip(proxied) {
        if same(native, proxied) {
            continue;
        }
        if (native.step, native.field) != (proxied.step, proxied.field) {
            complaints.push(format!(
                "step {}: natively {}, through the proxy {}",
                native.step,
                describe(native),
                describe(proxied)
            ));
            // From here on the two lists tell of different things.
            break;
        }
        let of_statement = case.statements.get(proxied.statement).map(|statement| statement.tags.iter());
        let tags = || case.tags.iter().chain(of_statement.clone().into_iter().flatten());
        match declared.iter().find(|difference| difference.excuses(tags(), proxied)) {
            Some(difference) => excused.push(difference.id.clone()),
            None => complaints.push(format!(
                "step {} {}: natively {}, through the proxy {}",
                native.step,
                native.field,
                shorten(&native.value),
                shorten(&proxied.value)
            )),
        }
    }
    if complaints.is_empty() && native.len() != proxied.len() {
        complaints.push(format!("{} facts natively, {} through the proxy", native.len(), proxied.len()));
    }
    if complaints.is_empty() {
        Verdict::Right { excused, refusals: Vec::new() }
    } else {
        Verdict::Wrong { complaints }
    }
}

fn same(native: &Fact, proxied: &Fact) -> bool {
    // A server that left gaps itself (burned ids of an IGNORE) demands no better of the proxy.
    native == proxied
        || (native.step == proxied.step
            && native.field == "new ids"
            && proxied.field == "new ids"
            && native.value == "have gaps")
}

fn describe(fact: &Fact) -> String {
    format!("{} {}", fact.field, shorten(&fact.value))
}

fn shorten(value: &str) -> String {
    const SHOWN_CHARS: usize = 300;
    match value.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &value[..end], value.len()),
        None => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differential::run::{Protocol, Variant};
    use crate::support::Kind;

    const COMBINATION: Combination =
        Combination { server: Kind::MariaDb, protocol: Protocol::Text, variant: Variant::Without };

    fn record(facts: &[(usize, &'static str, &str)], refusals: &[usize]) -> Record {
        let fact = |(step, field, value): &(usize, &'static str, &str)| Fact {
            step: *step,
            statement: 0,
            field,
            value: (*value).to_owned(),
        };
        Record {
            facts: facts.iter().map(fact).collect(),
            refusals: refusals.iter().map(|step| (*step, String::new())).collect(),
            bytes: Vec::new(),
        }
    }

    fn check(unsupported: bool, native: &Record, proxied: &Record) -> &'static str {
        let listed = Refusal { why: "so far".to_owned(), ..Refusal::default() };
        let case = Case { unsupported: if unsupported { vec![listed] } else { vec![] }, ..Case::default() };
        match compare(&case, native, proxied, &[], COMBINATION) {
            Verdict::Right { .. } => "right",
            Verdict::Refused { .. } => "refused",
            Verdict::Wrong { .. } => "wrong",
        }
    }

    #[test]
    fn verdicts() {
        let native = record(&[(0, "table", ""), (1, "table", "(#1)"), (1, "insert_id", "#1")], &[]);
        let other_id = record(&[(0, "table", ""), (1, "table", "(#1)"), (1, "insert_id", "0")], &[]);
        let refused = record(&[(0, "table", ""), (1, "table", ""), (1, "error", "1235 42000")], &[1]);
        let stored = record(&[(0, "table", ""), (1, "table", "(#1)"), (1, "error", "1235 42000")], &[1]);
        let shorter = record(&[(0, "table", ""), (1, "table", "(#1)")], &[]);
        assert_eq!(check(false, &native, &native), "right");
        assert_eq!(check(false, &native, &other_id), "wrong");
        assert_eq!(check(false, &native, &shorter), "wrong");
        assert_eq!(check(false, &native, &refused), "wrong");
        assert_eq!(check(true, &native, &refused), "refused");
        assert_eq!(check(true, &native, &stored), "wrong");
        assert_eq!(check(true, &native, &native), "wrong", "the list must shrink");
        assert_eq!(check(true, &native, &other_id), "wrong");
        let bytes = Record { bytes: vec!["they differ".to_owned()], ..native.clone() };
        assert_eq!(check(false, &native, &bytes), "wrong");
    }
}
