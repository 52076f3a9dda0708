//! The rules as they would be with what is proposed: for those who judge rules before they are written.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use super::databases::Databases;
use super::rules_file::Addition;
use super::survey::Wanted;
use crate::ids::layout::presets::Preset;
use crate::ids::nodes::Node;
use crate::ids::sequence::SequenceSpec;
use crate::ids::timestamp::TimestampSpec;
use crate::rules::RuleSet;
use crate::rules::model::{Explicit, GeneratorKind, GeneratorName, GeneratorSpec, Origin, Rule};
use crate::rules::pattern::is_pattern;

/// Rules that are added to one file, and their generators.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    pub databases: &'a Databases,
    pub generators_of: &'a str,
    pub file: &'a Path,
    pub added: &'a [Addition],
}

/// `rules` and the proposals, with the defaults of a file that has no more keys (docs/rules.md).
pub fn with(rules: &RuleSet, proposals: &[Proposal<'_>], wanted: &Wanted) -> RuleSet {
    let mut generators: Vec<GeneratorSpec> = rules.specs().cloned().collect();
    let mut all: Vec<Rule> = rules.rules().map(|rule| Rule::clone(rule)).collect();
    for Proposal { databases, generators_of, file, added } in proposals {
        let origin = Origin { file: (*file).to_owned(), line: 1 };
        for one in *added {
            let name = GeneratorName { schema: (*generators_of).to_owned(), name: one.generator.clone() };
            let kind = kind(wanted);
            let explicit = match kind {
                GeneratorKind::Sequence(_) => Explicit::Advance,
                GeneratorKind::Timestamp(_) => Explicit::Keep,
            };
            if one.makes_generator {
                generators.push(GeneratorSpec {
                    name: name.clone(),
                    kind,
                    sql: false,
                    origin: origin.clone(),
                });
            }
            all.extend(databases.names().iter().map(|schema| Rule {
                of_schemas: is_pattern(schema).then(|| schema.clone()),
                ..Rule::new((schema, &one.table, &one.column), name.clone(), explicit, origin.clone())
            }));
        }
    }
    RuleSet::new(generators, all)
}

fn kind(wanted: &Wanted) -> GeneratorKind {
    let sequence = |step| GeneratorKind::Sequence(SequenceSpec { step, ..SequenceSpec::default() });
    match wanted {
        Wanted::Sequence { is_even: true } => sequence(NonZeroU64::MIN.saturating_add(1)),
        Wanted::Sequence { is_even: false } => sequence(NonZeroU64::MIN),
        Wanted::Timestamp { layout, .. } => match Preset::find(layout) {
            Some(preset) => GeneratorKind::Timestamp(TimestampSpec {
                layout: preset.layout(),
                node: Node::Auto,
                advance: Duration::from_mins(1),
                max_ahead: None,
                max_forward: Duration::from_hours(1),
            }),
            None => sequence(NonZeroU64::MIN),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Proposal, with};
    use crate::migrate::databases::Databases;
    use crate::migrate::rules_file::{Addition, Part, text};
    use crate::migrate::survey::Wanted;
    use crate::rules::RuleSet;
    use crate::rules::model::{Origin, Rule};
    use crate::table_name::NameCase;
    use std::path::{Path, PathBuf};

    /// The proposed rules are the same as those of the written file when it is read.
    #[test]
    fn what_is_judged_is_what_is_written() {
        let added = [Addition {
            table: "t".into(),
            tables: 1,
            column: "no".into(),
            generator: "g".into(),
            makes_generator: true,
        }];
        for wanted in [
            Wanted::Sequence { is_even: true },
            Wanted::Sequence { is_even: false },
            Wanted::Timestamp { layout: "tsid".into(), last: 7 },
        ] {
            let file = PathBuf::from("s.toml");
            let (one, shards) = (Databases::One("s".into()), Databases::Like("s*".into()));
            let write = |databases, has_generators, has_rules| {
                let part = Part { databases, generators_of: "s", has_rules, has_generators };
                text(&file, None, &part, &added, &wanted).unwrap().replace("\"off\"", "\"on\"")
            };
            for (databases, read) in [
                (&one, RuleSet::of_text(&write(&one, true, true))),
                (&shards, RuleSet::of_texts(&[&write(&one, true, false), &write(&shards, false, true)])),
            ] {
                let proposal = Proposal { databases, generators_of: "s", file: &file, added: &added };
                let made = with(&RuleSet::default(), &[proposal], &wanted);
                let kinds = |rules: &RuleSet| {
                    rules.generators().map(|spec| (spec.name.clone(), spec.kind.clone())).collect::<Vec<_>>()
                };
                assert_eq!(kinds(&made), kinds(&read), "{wanted:?}");
                let rule = |rules: &RuleSet| {
                    let rule = rules.find(NameCase::Sensitive, "s", "t").unwrap().unwrap();
                    Rule { origin: Origin { file: Path::new("x").to_owned(), line: 1 }, ..Rule::clone(&rule) }
                };
                assert_eq!(rule(&made), rule(&read), "{wanted:?}");
            }
        }
    }
}
