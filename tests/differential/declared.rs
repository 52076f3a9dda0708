//! `declared.txt`: the only differences that are accepted.
//!
//! Blocks of `key: value` lines, one difference each: `id`; `tags`, one of which a case must bear; `fields` that it
//! excuses; `when`, words of a combination that must all hold (empty: always); `proxied`, the value that the proxied
//! run must show then (absent: any); `reason`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::differential::case::Case;
use crate::differential::run::Fact;
use crate::differential::tally::Combination;

#[derive(Debug, Default)]
pub(crate) struct Declared {
    differences: Vec<Difference>,
}

#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) id: String,
    tags: Vec<String>,
    fields: Vec<String>,
    when: Vec<String>,
    proxied: Option<String>,
}

impl Declared {
    pub(crate) fn load() -> Declared {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/declared.txt");
        Self::parse(&fs::read_to_string(file).expect("declared.txt"))
    }

    fn parse(text: &str) -> Declared {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let text = lines().collect::<Vec<_>>().join("\n");
        let blocks = text.split("\n\n").map(str::trim).filter(|block| !block.is_empty());
        Declared { differences: blocks.map(Difference::parse).collect() }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &String> {
        self.differences.iter().map(|difference| &difference.id)
    }

    /// A tag that no difference knows is a slip of the pen.
    pub(crate) fn check_tags(&self, cases: &[Case]) {
        let known: BTreeSet<_> = self.differences.iter().flat_map(|difference| &difference.tags).collect();
        for case in cases {
            let tags = case.tags.iter().chain(case.statements.iter().flat_map(|statement| &statement.tags));
            let unknown: Vec<_> = tags.filter(|tag| !known.contains(tag)).collect();
            assert!(unknown.is_empty(), "{}: no difference is declared for {unknown:?}", case.place);
        }
    }

    /// The differences that may apply to cases and statements that bear their tags.
    pub(crate) fn here(&self, combination: Combination) -> Vec<&Difference> {
        self.differences.iter().filter(|difference| combination.matches(&difference.when)).collect()
    }
}

impl Difference {
    fn parse(block: &str) -> Difference {
        let mut keys: BTreeMap<_, _> = block
            .lines()
            .map(|line| line.split_once(':').unwrap_or_else(|| panic!("declared.txt: no key: {line}")))
            .map(|(key, value)| (key.trim(), value.trim().to_owned()))
            .collect();
        let mut take = |key: &str| keys.remove(key);
        let words = |text: Option<String>| {
            text.unwrap_or_default().split_whitespace().map(|word| word.replace('_', " ")).collect::<Vec<_>>()
        };
        let difference = Difference {
            id: take("id").expect("declared.txt: each block has an id"),
            tags: take("tags").unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            fields: words(take("fields")),
            when: words(take("when")),
            proxied: take("proxied"),
        };
        assert!(
            take("reason").is_some_and(|reason| !reason.is_empty()),
            "declared.txt: {} has no reason",
            difference.id
        );
        assert!(keys.is_empty(), "declared.txt: {}: unknown keys {keys:?}", difference.id);
        difference
    }

    pub(crate) fn excuses<'a>(&self, mut tags: impl Iterator<Item = &'a String>, proxied: &Fact) -> bool {
        // Fields are written without spaces or underscores between their words mattering.
        let field = proxied.field.replace('_', " ");
        tags.any(|tag| self.tags.contains(tag))
            && self.fields.contains(&field)
            && self.proxied.as_ref().is_none_or(|value| *value == proxied.value)
    }
}

#[test]
fn a_difference_excuses_only_what_it_names() {
    let declared =
        Declared::parse("# remark\nid: a\ntags: x\nfields: insert_id\nproxied: 0\nreason: because\n");
    let fact = |field, value: &str| Fact { step: 1, statement: 0, field, value: value.to_owned() };
    let difference = &declared.differences[0];
    let excuses = |tag: &str, fact| difference.excuses([tag.to_owned()].iter(), &fact);
    assert!(excuses("x", fact("insert_id", "0")));
    assert!(!excuses("y", fact("insert_id", "0")));
    assert!(!excuses("x", fact("insert_id", "7")));
    assert!(!excuses("x", fact("last_insert_id", "0")));
}
