//! All the rules, and the one of a table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::rules::model::{GeneratorName, GeneratorSpec, Mode, Rule};
use crate::rules::pattern;
use crate::table_name::NameCase;

const OF_THE_SERVER: [&str; 4] = ["information_schema", "mysql", "performance_schema", "sys"];

/// True if the schema is the server's own. No pattern of schemas means it.
pub fn is_of_the_server(schema: &str) -> bool {
    OF_THE_SERVER.iter().any(|name| name.eq_ignore_ascii_case(schema))
}

/// A table that two rules claim, so that neither may fill it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "table {table} has two rules, {:?} ({}) and {:?} ({}): write one rule with the exact name of the table",
    self.claims()[0], first.origin, self.claims()[1], second.origin
)]
pub struct Ambiguous {
    /// `schema.table`
    pub table: String,
    pub first: Arc<Rule>,
    pub second: Arc<Rule>,
}

impl Ambiguous {
    /// The tables that the two rules are for, as written; with their schemas where these differ.
    pub fn claims(&self) -> [String; 2] {
        let is_of_one = self.first.of_schemas == self.second.of_schemas;
        [&self.first, &self.second].map(|rule| if is_of_one { rule.table.clone() } else { rule.written() })
    }
}

/// Immutable; a reload makes a new one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleSet {
    generators: BTreeMap<GeneratorName, GeneratorSpec>,
    /// The templates from which the generators of tables and schemas are made.
    templates: Vec<GeneratorSpec>,
    /// In the order of files and lines, in which they are listed.
    rules: Vec<Arc<Rule>>,
    /// For servers that tell letter case apart: by names as they are written.
    sensitive: Index,
    /// For other servers: by names in lower case.
    insensitive: Index,
    modes: Modes,
}

/// Which modes there are rules of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Modes {
    on: bool,
    shadow: bool,
}

/// The generators that rules of one mode draw from.
struct Drawn<'a> {
    by_name: BTreeSet<&'a GeneratorName>,
    /// Rules whose template may stand for a generator that is defined by its name.
    by_template: Vec<&'a Arc<Rule>>,
}

impl Drawn<'_> {
    fn has(&self, name: &GeneratorName) -> bool {
        self.by_name.contains(name) || self.by_template.iter().any(|rule| rule.draws_from(name))
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Index {
    by_schema: BTreeMap<String, SchemaRules>,
    /// By the pattern of schemas that a rule was written for.
    wide: BTreeMap<String, SchemaRules>,
}

impl Index {
    /// The rules under patterns of schemas that match this schema.
    fn wide(&self, schema: &str) -> impl Iterator<Item = &SchemaRules> + Clone {
        let is_meant = !is_of_the_server(schema);
        let fits =
            move |(pattern, _): &(&String, &SchemaRules)| is_meant && pattern::matches(pattern, schema);
        self.wide.iter().filter(fits).map(|(_, rules)| rules)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
struct SchemaRules {
    /// More than one only where names differ in case and the server does not care.
    exact: BTreeMap<String, Vec<Arc<Rule>>>,
    patterns: Vec<(String, Arc<Rule>)>,
}

impl SchemaRules {
    fn exact(&self, table: &str) -> impl Iterator<Item = &Arc<Rule>> {
        self.exact.get(table).into_iter().flatten()
    }

    fn fitting(&self, table: &str) -> impl Iterator<Item = &Arc<Rule>> {
        let fits = self.patterns.iter().filter(move |(pattern, _)| pattern::matches(pattern, table));
        fits.map(|(_, rule)| rule)
    }
}

impl RuleSet {
    /// Each rule's generator must be among `generators`: the code that reads the files checks this.
    pub fn new(
        generators: impl IntoIterator<Item = GeneratorSpec>,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Self {
        let rules: Vec<_> = rules.into_iter().map(Arc::new).collect();
        let (templates, generators): (Vec<_>, Vec<_>) =
            generators.into_iter().partition(|spec| spec.name.is_template());
        RuleSet {
            generators: generators.into_iter().map(|spec| (spec.name.clone(), spec)).collect(),
            templates,
            sensitive: index(&rules, NameCase::Sensitive),
            insensitive: index(&rules, NameCase::Insensitive),
            modes: Modes {
                on: rules.iter().any(|rule| rule.mode == Mode::On),
                shadow: rules.iter().any(|rule| rule.mode == Mode::Shadow),
            },
            rules,
        }
    }

    /// The rule of a table, with the table's schema and generator. A file that names the schema beats one with a pattern of
    /// schemas; then an exact name of a table beats a pattern.
    pub fn find(&self, case: NameCase, schema: &str, table: &str) -> Result<Option<Arc<Rule>>, Ambiguous> {
        let (schema, table) = (case.folded(schema), case.folded(table));
        let index = self.index(case);
        let own = index.by_schema.get(&*schema);
        let wide = index.wide(&schema);
        let found = own
            .and_then(|own| two(own.exact(&table)).or_else(|| two(own.fitting(&table))))
            .or_else(|| two(wide.clone().flat_map(|rules| rules.exact(&table))))
            .or_else(|| two(wide.flat_map(|rules| rules.fitting(&table))));
        match found {
            None => Ok(None),
            Some((rule, None)) => Ok(Some(self.of_table(rule, &schema, &table))),
            Some((first, Some(second))) => Err(Ambiguous {
                table: format!("{schema}.{table}"),
                first: Arc::clone(first),
                second: Arc::clone(second),
            }),
        }
    }

    fn of_table(&self, rule: &Arc<Rule>, schema: &str, table: &str) -> Arc<Rule> {
        if rule.of_schemas.is_none() && rule.made_from.is_none() {
            return Arc::clone(rule);
        }
        let mut rule = rule.of_table(schema, table);
        // A generator that is defined by its name keeps that definition; a template makes only what is not defined.
        rule.made_from = rule.made_from.filter(|_| !self.generators.contains_key(&rule.generator));
        Arc::new(rule)
    }

    /// The rule that fills a table. One that is off, or in shadow mode, is as if it were not there,
    /// but for what it keeps patterns from: the table is not theirs.
    pub fn acting(&self, case: NameCase, schema: &str, table: &str) -> Result<Option<Arc<Rule>>, Ambiguous> {
        match self.find(case, schema, table) {
            Ok(rule) => Ok(rule.filter(|rule| rule.mode == Mode::On)),
            Err(two) if two.first.mode != Mode::On && two.second.mode != Mode::On => Ok(None),
            Err(two) => Err(two),
        }
    }

    /// The rule that would fill a table if it were not in shadow mode.
    pub fn shadow(&self, case: NameCase, schema: &str, table: &str) -> Option<Arc<Rule>> {
        self.find(case, schema, table).ok().flatten().filter(|rule| rule.mode == Mode::Shadow)
    }

    /// True if any rule fills a table: without one nothing is ever refused.
    pub fn any_acts(&self) -> bool {
        self.modes.on
    }

    pub fn any_is_shadow(&self) -> bool {
        self.modes.shadow
    }

    pub fn is_meant_by_pattern(&self, case: NameCase, schema: &str) -> bool {
        self.index(case).wide(&case.folded(schema)).next().is_some()
    }

    /// The generators that are to be open, but for those that are made for tables: a generator whose tables are all in shadow mode, or off,
    /// makes no ids but for calls in SQL.
    pub fn acting_generators(&self) -> impl Iterator<Item = &GeneratorSpec> {
        let (on, shadow) = (self.drawn_in(Mode::On), self.drawn_in(Mode::Shadow));
        self.generators().filter(move |spec| spec.sql || !shadow.has(&spec.name) || on.has(&spec.name))
    }

    /// The generators that calls in SQL may draw from.
    pub fn drawn(&self) -> impl Iterator<Item = &GeneratorSpec> {
        self.generators().filter(|spec| spec.sql)
    }

    fn drawn_in(&self, mode: Mode) -> Drawn<'_> {
        let rules = self.rules.iter().filter(|rule| rule.mode == mode);
        let (by_template, by_name): (Vec<_>, Vec<_>) = rules.partition(|rule| rule.made_from.is_some());
        Drawn { by_name: by_name.into_iter().map(|rule| &rule.generator).collect(), by_template }
    }

    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Arc<Rule>> {
        self.rules.iter()
    }

    /// By schema and name, those that are defined by their names.
    pub fn generators(&self) -> impl ExactSizeIterator<Item = &GeneratorSpec> {
        self.generators.values()
    }

    /// All that the files have, templates too.
    pub fn specs(&self) -> impl Iterator<Item = &GeneratorSpec> {
        self.generators().chain(&self.templates)
    }

    /// By the name as people write it: both parts may have dots of their own.
    pub fn defined(&self, name: &str) -> Option<&GeneratorSpec> {
        GeneratorName::readings(name).find_map(|name| self.generators.get(&name))
    }

    /// By the name as people write it, `schema.name`; also what a template would make of that name.
    pub fn generator_named(&self, name: &str) -> Option<GeneratorSpec> {
        self.defined(name).cloned().or_else(|| {
            let (schema, short) = name.rsplit_once('.')?;
            let name = GeneratorName { schema: schema.to_owned(), name: short.to_owned() };
            let made = self.templates.iter().find(|spec| spec.name.makes(&name))?;
            Some(GeneratorSpec { name, ..made.clone() })
        })
    }

    pub fn generator(&self, name: &GeneratorName) -> Option<&GeneratorSpec> {
        self.generators.get(name)
    }

    /// The generator of a rule that was found for a table.
    pub fn generator_of<'a>(&'a self, rule: &'a Rule) -> Option<&'a GeneratorSpec> {
        self.generators.get(&rule.generator).or(rule.made_from.as_deref())
    }

    /// With what is made for these tables as if it had been defined by its name. `found`: rules that were found for tables.
    #[must_use]
    pub fn with_made<'a>(&self, found: impl IntoIterator<Item = &'a Rule>) -> RuleSet {
        let mut all = self.clone();
        for spec in found.into_iter().filter_map(Rule::made) {
            all.generators.entry(spec.name.clone()).or_insert(spec);
        }
        all
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

/// The first, and the second where there is one.
fn two<'a>(mut found: impl Iterator<Item = &'a Arc<Rule>>) -> Option<(&'a Arc<Rule>, Option<&'a Arc<Rule>>)> {
    Some((found.next()?, found.next()))
}

fn index(rules: &[Arc<Rule>], case: NameCase) -> Index {
    let mut index = Index::default();
    for rule in rules {
        let schemas = if rule.of_schemas.is_some() { &mut index.wide } else { &mut index.by_schema };
        let of_schema = schemas.entry(case.folded(&rule.schema).into_owned()).or_default();
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
pub(crate) mod tests {
    use super::RuleSet;
    use crate::rules::model::{Explicit, GeneratorName, Mode, Origin, Rule};
    use crate::table_name::NameCase::{self, Insensitive, Sensitive};

    pub(crate) fn rule(schema: &str, table: &str) -> Rule {
        let generator = GeneratorName { schema: schema.into(), name: "ids".into() };
        let origin = Origin { file: "rules/shop.toml".into(), line: 7 };
        Rule::new((schema, table, "id"), generator, Explicit::Advance, origin)
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

    /// Checks the name of the table in its rule: "-" for no rule, "a+b" for two.
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
             (rules/shop.toml:7): write one rule with the exact name of the table"
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

    /// A template may come to the name of a generator that is defined.
    #[test]
    fn a_generator_that_a_template_comes_to_is_open() {
        let set = |mode: &str, other: &str| {
            let ids = "schema = \"ids\"\n[generators.orders]\nkind = \"sequence\"\n";
            let table = |name: &str, generator: &str, mode: &str| {
                format!("[tables.{name:?}]\ncolumn = \"id\"\ngenerator = {generator:?}\nmode = {mode:?}\n")
            };
            let shop = format!("schema = \"shop\"\n{}", table("orders", "ids.orders", mode));
            let crm = format!("schema = \"crm_*\"\n{}", table("o*", "ids.{table}", other));
            RuleSet::of_texts(&[ids, &shop, &crm])
        };
        for (mode, other, expect) in [
            ("shadow", "on", 1),
            ("on", "shadow", 1),
            ("shadow", "shadow", 0),
            ("off", "shadow", 0),
            ("off", "on", 1),
        ] {
            assert_eq!(set(mode, other).acting_generators().count(), expect, "{mode} {other}");
        }
    }

    #[test]
    fn a_generator_that_calls_draw_from_is_open_whatever_its_tables_are() {
        let text = |sql: &str| {
            format!(
                "schema = 's'\n[generators.g]\nkind = 'sequence'\n{sql}\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\nmode = 'shadow'"
            )
        };
        let open = |sql: &str| RuleSet::of_text(&text(sql)).acting_generators().count();
        assert_eq!((open(""), open("sql = true")), (0, 1));
    }

    #[test]
    fn no_rules() {
        assert!(!rules().is_empty());
        assert!(RuleSet::default().is_empty());
    }
}
