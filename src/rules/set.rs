//! All the rules, and the one of a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rules::model::{GeneratorName, GeneratorSpec, Mode, Rule};
use crate::rules::pattern;
use crate::table_name::NameCase;

/// A table that two rules claim, so that neither may fill it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "table {table} has two rules, {:?} ({}) and {:?} ({}): give the table one of its own, by its exact name",
    first.table, first.origin, second.table, second.origin
)]
pub struct Ambiguous {
    /// `schema.table`
    pub table: String,
    pub first: Arc<Rule>,
    pub second: Arc<Rule>,
}

/// Immutable; a reload makes a new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleSet {
    generators: BTreeMap<GeneratorName, GeneratorSpec>,
    /// In the order of files and lines.
    rules: Vec<Arc<Rule>>,
    /// By names as they are written.
    sensitive: Index,
    /// By names in lower case.
    insensitive: Index,
    modes: Modes,
}

/// Which modes there are rules of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Modes {
    on: bool,
    shadow: bool,
}

type Index = BTreeMap<String, SchemaRules>;

#[derive(Debug, Clone, Default, PartialEq)]
struct SchemaRules {
    /// More than one only where names differ in case and the server does not care.
    exact: BTreeMap<String, Vec<Arc<Rule>>>,
    patterns: Vec<(String, Arc<Rule>)>,
}

impl RuleSet {
    /// That each rule's generator is among `generators` is checked where the files are read.
    pub fn new(
        generators: impl IntoIterator<Item = GeneratorSpec>,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Self {
        let rules: Vec<_> = rules.into_iter().map(Arc::new).collect();
        RuleSet {
            generators: generators.into_iter().map(|spec| (spec.name.clone(), spec)).collect(),
            sensitive: index(&rules, NameCase::Sensitive),
            insensitive: index(&rules, NameCase::Insensitive),
            modes: Modes {
                on: rules.iter().any(|rule| rule.mode == Mode::On),
                shadow: rules.iter().any(|rule| rule.mode == Mode::Shadow),
            },
            rules,
        }
    }

    /// The rule of a table; an exact name beats a pattern.
    pub fn find(&self, case: NameCase, schema: &str, table: &str) -> Result<Option<&Arc<Rule>>, Ambiguous> {
        let Some(of_schema) = self.index(case).get(&*case.folded(schema)) else { return Ok(None) };
        let folded_table = case.folded(table);
        let mut found: &mut dyn Iterator<Item = &Arc<Rule>> = &mut of_schema
            .patterns
            .iter()
            .filter(|(pattern, _)| pattern::matches(pattern, &folded_table))
            .map(|(_, rule)| rule);
        let mut exact = of_schema.exact.get(&*folded_table).map(|rules| rules.iter());
        if let Some(exact) = &mut exact {
            found = exact;
        }
        match (found.next(), found.next()) {
            (Some(first), Some(second)) => Err(Ambiguous {
                table: format!("{schema}.{table}"),
                first: Arc::clone(first),
                second: Arc::clone(second),
            }),
            (rule, _) => Ok(rule),
        }
    }

    /// The rule that fills a table. One that is off, or in shadow mode, is as if it were not there,
    /// but for what it keeps patterns from: the table is not theirs.
    pub fn acting(&self, case: NameCase, schema: &str, table: &str) -> Result<Option<&Arc<Rule>>, Ambiguous> {
        match self.find(case, schema, table) {
            Ok(rule) => Ok(rule.filter(|rule| rule.mode == Mode::On)),
            Err(two) if two.first.mode != Mode::On && two.second.mode != Mode::On => Ok(None),
            Err(two) => Err(two),
        }
    }

    /// The rule that would fill a table if it were not in shadow mode.
    pub fn shadow(&self, case: NameCase, schema: &str, table: &str) -> Option<&Arc<Rule>> {
        self.find(case, schema, table).ok().flatten().filter(|rule| rule.mode == Mode::Shadow)
    }

    /// Whether any rule fills a table: without one nothing is ever refused.
    pub fn any_acts(&self) -> bool {
        self.modes.on
    }

    pub fn any_is_shadow(&self) -> bool {
        self.modes.shadow
    }

    /// The generators that are to be open: a generator whose tables are all in shadow mode, or off,
    /// makes no ids.
    pub fn acting_generators(&self) -> impl Iterator<Item = &GeneratorSpec> {
        self.generators().filter(|spec| {
            let mut mine = self.rules.iter().filter(|rule| rule.generator == spec.name).peekable();
            !mine.clone().any(|rule| rule.mode == Mode::Shadow) || mine.any(|rule| rule.mode == Mode::On)
        })
    }

    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Arc<Rule>> {
        self.rules.iter()
    }

    /// By schema and name.
    pub fn generators(&self) -> impl ExactSizeIterator<Item = &GeneratorSpec> {
        self.generators.values()
    }

    /// By the name as people write it, `schema.name`.
    pub fn generator_named(&self, name: &str) -> Option<&GeneratorSpec> {
        self.generators().find(|spec| spec.name.to_string() == name)
    }

    pub fn generator(&self, name: &GeneratorName) -> Option<&GeneratorSpec> {
        self.generators.get(name)
    }

    /// No rule: everything passes as it came.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    fn index(&self, case: NameCase) -> &Index {
        match case {
            NameCase::Sensitive => &self.sensitive,
            NameCase::Insensitive => &self.insensitive,
        }
    }
}

fn index(rules: &[Arc<Rule>], case: NameCase) -> Index {
    let mut index = Index::new();
    for rule in rules {
        let of_schema = index.entry(case.folded(&rule.schema).into_owned()).or_default();
        let table = case.folded(&rule.table).into_owned();
        if pattern::is_pattern(&table) {
            of_schema.patterns.push((table, Arc::clone(rule)));
        } else {
            of_schema.exact.entry(table).or_default().push(Arc::clone(rule));
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::RuleSet;
    use crate::rules::model::{Explicit, GeneratorName, InsertId, Mode, Origin, Rule, Unavailable};
    use crate::table_name::NameCase::{self, Insensitive, Sensitive};

    fn rule(schema: &str, table: &str) -> Rule {
        Rule {
            schema: schema.into(),
            table: table.into(),
            column: "id".into(),
            generator: GeneratorName { schema: schema.into(), name: "ids".into() },
            explicit: Explicit::Advance,
            insert_id: InsertId::Session,
            mode: Mode::On,
            unavailable: Unavailable::Refuse,
            origin: Origin { file: "rules/shop.toml".into(), line: 7 },
        }
    }

    fn rules() -> RuleSet {
        let tables = [
            ("shop", "orders"),
            ("shop", "order_*"),
            ("shop", "*_log"),
            ("shop", "order_log"),
            ("Shop", "Orders"),
            ("crm", "T\u{c4}*"),
        ];
        RuleSet::new([], tables.map(|(schema, table)| rule(schema, table)))
    }

    /// What the table's rule calls it, "-" for none, "a+b" for two.
    #[track_caller]
    fn check(case: NameCase, schema: &str, table: &str, expect: &str) {
        let set = rules();
        let found = match set.find(case, schema, table) {
            Ok(rule) => rule.map_or_else(|| "-".to_owned(), |rule| rule.table.clone()),
            Err(two) => format!("{}+{}", two.first.table, two.second.table),
        };
        assert_eq!(found, expect, "{case:?} {schema}.{table}");
    }

    #[test]
    fn the_rule_of_a_table() {
        check(Sensitive, "shop", "orders", "orders");
        check(Sensitive, "shop", "Orders", "-");
        check(Sensitive, "SHOP", "orders", "-");
        check(Sensitive, "Shop", "Orders", "Orders");
        check(Sensitive, "shop", "order_items", "order_*");
        check(Sensitive, "shop", "order_old_log", "order_*+*_log");
        check(Sensitive, "shop", "order_log", "order_log");
        check(Sensitive, "shop", "customers", "-");
        check(Sensitive, "crm", "t\u{e4}x", "-");
        check(Insensitive, "CRM", "t\u{e4}x", "T\u{c4}*");
        check(Insensitive, "crm", "T\u{c4}X", "T\u{c4}*");
        check(Insensitive, "shop", "ORDER_items", "order_*");
        check(Insensitive, "shop", "orders", "orders+Orders");
    }

    #[test]
    fn two_rules_are_named_with_their_places() {
        let error = rules().find(Sensitive, "shop", "order_x_log").unwrap_err().to_string();
        assert_eq!(
            error,
            "table shop.order_x_log has two rules, \"order_*\" (rules/shop.toml:7) and \"*_log\" \
             (rules/shop.toml:7): give the table one of its own, by its exact name"
        );
    }

    #[test]
    fn a_rule_in_shadow_mode_fills_nothing_and_keeps_patterns_off() {
        let with = |table: &str, mode, generator: &str| {
            let generator = GeneratorName { schema: "shop".into(), name: generator.into() };
            Rule { generator, mode, ..rule("shop", table) }
        };
        let spec = |name: &str| {
            let text = format!("schema = 'shop'\n[generators.{name}]\nkind = 'sequence'\nseed = 'none'\n");
            RuleSet::of_text(&text).generators().next().unwrap().clone()
        };
        let set = RuleSet::new(
            ["both", "shadow", "off", "none"].map(spec),
            [
                with("a*", Mode::On, "both"),
                with("ab", Mode::Shadow, "both"),
                with("ac", Mode::Off, "off"),
                with("b*", Mode::Shadow, "shadow"),
                with("*b", Mode::Off, "shadow"),
            ],
        );
        let find = |table| {
            let acting = set.acting(Sensitive, "shop", table).map(|rule| rule.map(|rule| rule.table.clone()));
            let shadow = set.shadow(Sensitive, "shop", table).map(|rule| rule.table.clone());
            (acting.map_or("two".to_owned(), Option::unwrap_or_default), shadow.unwrap_or_default())
        };
        let expect = |acting: &str, shadow: &str| (acting.to_owned(), shadow.to_owned());
        assert_eq!(find("ax"), expect("a*", ""));
        assert_eq!(find("ab"), expect("", "ab"));
        assert_eq!(find("ac"), expect("", ""));
        assert_eq!(find("bx"), expect("", "b*"));
        assert_eq!(find("bb"), expect("", ""), "two rules, and neither fills it");
        assert_eq!(find("axb"), expect("two", ""));
        let open: Vec<_> = set.acting_generators().map(|spec| spec.name.name.clone()).collect();
        assert_eq!(open, ["both", "none", "off"]);
        assert!(set.any_acts() && set.any_is_shadow());
    }

    #[test]
    fn no_rules() {
        assert!(!rules().is_empty());
        assert!(RuleSet::default().is_empty());
    }
}
