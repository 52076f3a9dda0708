//! The proof that no id is given twice names the mutants of its steps, as tests/mutants has them.

use std::collections::BTreeSet;

use super::{files, read};

/// The files whose every guard is a step of the proof.
const PROVED: [&str; 5] = [
    "src/ids/fence",
    "src/ids/dispenser",
    "src/ids/timestamp/counter",
    "src/ids/bindings",
    "src/cli/store/lower",
];

#[test]
fn each_guard_of_uniqueness_is_in_the_proof() {
    let page = read("docs/design/ids.md");
    let proof = page.split("\n## ").find(|part| part.starts_with("Why no id is given twice")).unwrap();
    let named: BTreeSet<&str> = proof
        .split("utants:")
        .skip(1)
        .flat_map(|list| list.split('.').next().unwrap().split('`').skip(1).step_by(2))
        .collect();
    let steps: Vec<_> = proof.split(". **").skip(1).collect();
    assert!(steps.len() == 10 && steps.iter().all(|step| step.contains("utants:")), "{steps:#?}");
    let mut unknown = named.clone();
    let mut missing = Vec::new();
    for file in files("tests/mutants", ".patch") {
        let name = file.rsplit_once('/').unwrap().1.trim_end_matches(".patch");
        let patch = read(&file);
        let is_proved = PROVED.iter().any(|code| patch.contains(&format!("\n+++ b/{code}")));
        if !unknown.remove(name) && is_proved {
            missing.push(name.to_owned());
        }
    }
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not in the proof: {missing:?}; no mutants: {unknown:?}"
    );
}
