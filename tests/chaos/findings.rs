//! Things that are wrong: how often each kind was found, and its first example.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;

use crate::support::machine::announce;

#[derive(Default)]
pub(crate) struct Findings {
    /// At once: what else is in the logs then may be gone at the end.
    announced: bool,
    found: Mutex<BTreeMap<&'static str, (u64, String)>>,
}

impl Findings {
    pub(crate) fn announced() -> Findings {
        Findings { announced: true, ..Findings::default() }
    }

    pub(crate) fn note(&self, kind: &'static str, example: impl FnOnce() -> String) {
        let mut findings = self.found.lock().unwrap();
        let (count, _) = findings.entry(kind).or_insert_with(|| {
            let example = example();
            if self.announced {
                announce(&format!("chaos: FOUND: {kind}: {example}"));
            }
            (0, example)
        });
        *count += 1;
    }

    /// Empty where nothing is wrong.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (kind, (count, example)) in &*self.found.lock().unwrap() {
            let _ = writeln!(text, "{kind} ({count} times): {example}");
        }
        text
    }

    #[cfg(test)]
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.found.lock().unwrap().keys().copied().collect()
    }
}
