//! The judge: the server itself says what an INSERT must do.
//!
//! Each case (`cases/*.txt`, their grammar in `case.rs`) is run natively on AUTO_INCREMENT tables, straight to the
//! server, and through the proxy on the same tables with and without AUTO_INCREMENT; by text and by prepared
//! protocol; on MariaDB and on MySQL 9. All that a client can see must be the same, ids up to renaming, but for what
//! `declared.txt` excuses.
//!
//! * [`case`]: cases as they are written.
//! * [`run`]: one case on one address -> facts.
//! * [`interpolate`]: bound parameters as a driver with emulated prepares writes them.
//! * [`rename`]: generated ids in facts -> names.
//! * [`declared`]: the differences on purpose.
//! * [`compare`]: facts of two runs -> a verdict.
//! * [`coverage`]: which cases judge which topic.
//! * [`lab`]: a server with or without a proxy before it.
//! * [`wire`]: the bytes on both sides of the proxy.
//! * [`tally`]: verdicts counted by combination.
//!
//! ROWSTAMP_JUDGE_FILTER=text,text runs the cases whose name holds one of them; ROWSTAMP_JUDGE_SHOW=1 prints what native runs
//! gave. ROWSTAMP_JUDGE_COMMENTS=1 puts comments before and after each statement: they must change nothing.
//! ROWSTAMP_JUDGE_SERVER=host:port together with
//! ROWSTAMP_JUDGE_PROXY=host:port judges a proxy that already runs (its rules: `lab::RULES`) before that server.

pub(crate) mod case;
pub(crate) mod compare;
mod coverage;
pub(crate) mod declared;
mod interpolate;
pub(crate) mod lab;
mod rename;
pub(crate) mod run;
pub(crate) mod tally;
mod wire;

use std::collections::BTreeSet;
use std::thread;

use crate::support::Kind;
use crate::support::servers::announce;
use case::Case;
use compare::Verdict;
use declared::Declared;
use lab::Lab;
use run::{Protocol, Role, Variant};
use tally::{Combination, Tally};

const WITHOUT_FILTER_AT_LEAST: usize = 220;

/// The second run's counters begin elsewhere, so that the same ids under other numbers must be recognised.
#[test]
fn native_against_native_passes() {
    let tally = judge_all(Lab::without_proxy, Role::Native, &[Variant::Shifted]);
    announce(&tally.summary("native against native"));
    assert_eq!(tally.wrong(), 0, "the judge finds fault with the server itself:\n{}", tally.complaints());
}

/// Without a proxy no id comes from anywhere, or from the server's own counter: a judge that passes this judges
/// nothing.
#[test]
fn a_missing_proxy_is_noticed() {
    let tally = judge_all(Lab::without_proxy, Role::Proxied, &[Variant::With, Variant::Without]);
    announce(&tally.summary("without a proxy (most must be wrong)"));
    // Most cases of a chosen few may well be errors or explicit ids.
    for (combination, counts) in tally.by_combination().filter(|_| filter().is_none()) {
        assert!(counts.wrong > counts.right, "{combination}: too few are wrong");
        assert_eq!(counts.refused, 0, "{combination}: nobody was there to refuse");
    }
}

#[test]
fn proxied_statements_do_what_native_ones_do() {
    let tally = judge_all(Lab::with_proxy, Role::Proxied, &[Variant::With, Variant::Without]);
    announce(&tally.summary("through the proxy"));
    assert_eq!(tally.wrong(), 0, "{}", tally.complaints());
    let is_ours = lab::given_addresses().is_none() && !comments();
    let ran = tally.by_combination().next().is_some();
    assert!(!is_ours || !ran || tally.bytes_compared > 0, "no bytes were compared");
    if filter().is_none() && lab::given_addresses().is_none() {
        let unused: Vec<_> =
            Declared::load().ids().filter(|id| !tally.excused().contains(*id)).cloned().collect();
        assert!(unused.is_empty(), "declared.txt excuses what never happens, remove: {unused:?}");
    }
}

/// True where comments are put around the statements.
fn comments() -> bool {
    std::env::var_os("ROWSTAMP_JUDGE_COMMENTS").is_some()
}

fn filter() -> Option<String> {
    std::env::var("ROWSTAMP_JUDGE_FILTER").ok()
}

fn cases() -> Vec<Case> {
    let all = case::load_all();
    let names: BTreeSet<_> = all.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), all.len(), "each case has a name of its own");
    assert!(all.len() >= WITHOUT_FILTER_AT_LEAST, "only {} cases were found", all.len());
    let filter = filter().unwrap_or_default();
    let mut cases: Vec<Case> =
        all.into_iter().filter(|case| filter.split(',').any(|part| case.name.contains(part))).collect();
    if comments() {
        cases.iter_mut().for_each(Case::comment);
    }
    cases
}

/// All cases in all combinations, a thread for each server.
fn judge_all(open: fn(Kind) -> Option<Lab>, role: Role, variants: &[Variant]) -> Tally {
    let mut cases = cases();
    let declared = Declared::load();
    declared.check_tags(&cases);
    if role == Role::Native {
        // The server itself refuses nothing of what a proxy refuses.
        for case in &mut cases {
            case.unsupported.clear();
            case.statements.iter_mut().for_each(|statement| statement.refused = None);
        }
    }
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let threads: Vec<_> = Kind::ALL
            .map(|kind| {
                let (cases, declared) = (&cases, &declared);
                scope.spawn(move || match open(kind) {
                    Some(lab) => judge_on(&lab, cases, declared, role, variants),
                    None => Tally::default(),
                })
            })
            .into();
        for thread in threads {
            tally.merge(thread.join().expect("a judging thread ends by itself"));
        }
    });
    tally
}

fn judge_on(lab: &Lab, cases: &[Case], declared: &Declared, role: Role, variants: &[Variant]) -> Tally {
    let mut tally = Tally::default();
    let mut observer = lab.observer();
    for case in cases.iter().filter(|case| case.runs_on(lab.kind)) {
        for protocol in Protocol::ALL.into_iter().filter(|protocol| case.runs_by(*protocol)) {
            let here = Combination { server: lab.kind, protocol, variant: Variant::With };
            let case = &case.in_combination(here);
            let native = run::run(case, &mut observer, lab.direct(), protocol, Variant::With, Role::Native);
            if std::env::var_os("ROWSTAMP_JUDGE_SHOW").is_some() {
                announce(&format!("{} {} {protocol:?} natively: {native:#?}", case.name, lab.kind.name()));
            }
            for variant in variants {
                let combination = Combination { variant: *variant, ..here };
                let proxied = run::run(case, &mut observer, lab.proxied(), protocol, *variant, role);
                let proxied = lab.with_bytes(proxied);
                if native.is_err() || proxied.is_err() {
                    // The observer may be in the midst of a response.
                    observer = lab.observer();
                }
                let verdict = match (&native, &proxied) {
                    (Ok(native), Ok(proxied)) => {
                        compare::compare(case, native, proxied, &declared.here(combination), combination)
                    }
                    (Err(error), _) => Verdict::wrong(format!("the native run broke off: {error}")),
                    (_, Err(error)) => Verdict::wrong(format!("the proxied run broke off: {error}")),
                };
                tally.count(combination, case, verdict);
            }
        }
    }
    tally.bytes_compared = lab.bytes_compared();
    tally
}
