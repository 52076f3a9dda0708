//! Each code on facts that show it, and on facts that nearly do.

use std::collections::BTreeSet;

use super::{Code, Denied, Finding, Severity, StoreFacts, StoreKind, findings};
use crate::ids::layout::Moment;
use crate::rules::RuleSet;
use crate::rules::model::ColumnShape;
use crate::schema::TableKind;
use crate::schema::facts::{
    Accounts, Body, BodyKind, ColumnFacts, Facts, ForeignKey, Highest, Index, ServerFacts, TableFacts,
    ViewFacts,
};
use crate::store::mysql::Table;
use crate::store::{GeneratorRecord, Key, Revision, Versioned};
use crate::table_name::{NameCase, TableName};

mod accounts;
mod columns;
mod names;
mod servers;
mod unseen;
mod users;

/// 2026-01-01
const NOW: u64 = 1_767_225_600_000_000;

/// A server, a store and rules with which nothing is wrong; each test spoils something.
pub(super) struct Case {
    pub(super) facts: Facts,
    pub(super) store: StoreFacts,
    rules: String,
}

impl Case {
    pub(super) fn new() -> Self {
        let variables = [
            ("auto_increment_increment", "1"),
            ("auto_increment_offset", "1"),
            ("binlog_format", "MIXED"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("log_bin", "OFF"),
            ("lower_case_table_names", "0"),
            ("sql_mode", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"),
            ("version", "10.11.6-MariaDB"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let facts = Facts {
            server: ServerFacts { variables: variables.into(), replicas: 0, shares_connections: false },
            case: NameCase::Sensitive,
            clocks: Some((Moment::from_micros(NOW), Moment::from_micros(NOW))),
            grants: vec!["GRANT ALL PRIVILEGES ON *.* TO `r`@`%`".to_owned()],
            accounts: Accounts::default(),
            schemas: BTreeSet::from(["shop".to_owned()]),
            tables: vec![table("orders", "bigint(20)")],
            foreign_keys: Vec::new(),
            bodies: Vec::new(),
            views: Vec::new(),
        };
        let rules = "schema = 'shop'\n[generators.g]\nkind = 'sequence'\n[tables.orders]\ncolumn = 'id'\ngenerator = 'g'\n";
        Case { facts, store: StoreFacts::empty(StoreKind::Embedded), rules: rules.to_owned() }
    }

    /// More rules, or, by the first line's replacement, other ones.
    pub(super) fn rules(mut self, from: &str, to: &str) -> Self {
        assert!(self.rules.contains(from), "{from}");
        self.rules = self.rules.replace(from, to);
        self
    }

    pub(super) fn more_rules(mut self, text: &str) -> Self {
        self.rules += text;
        self
    }

    /// The generator with these keys too.
    pub(super) fn sequence(self, keys: &str) -> Self {
        self.rules("kind = 'sequence'", &format!("kind = 'sequence'\n{keys}"))
    }

    pub(super) fn layout(self, layout: &str) -> Self {
        self.rules("kind = 'sequence'", &format!("kind = 'timestamp'\nlayout = '{layout}'"))
    }

    pub(super) fn facts(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.facts);
        self
    }

    pub(super) fn variable(self, name: &str, value: &str) -> Self {
        self.facts(|facts| drop(facts.server.variables.insert(name.to_owned(), value.to_owned())))
    }

    /// The first table's.
    pub(super) fn table(self, change: impl FnOnce(&mut TableFacts)) -> Self {
        self.facts(|facts| change(&mut facts.tables[0]))
    }

    pub(super) fn column(self, change: impl FnOnce(&mut ColumnFacts)) -> Self {
        self.table(|table| change(&mut table.columns[0]))
    }

    /// AUTO_INCREMENT is kept.
    pub(super) fn counted(self) -> Self {
        self.column(|column| column.shape.auto_increment = true)
    }

    /// `id` of this type instead.
    pub(super) fn typed(self, column_type: &str) -> Self {
        self.column(|found| *found = column("id", column_type))
    }

    pub(super) fn holds(self, highest: u64) -> Self {
        self.table(|table| table.highest = Highest::Id(highest))
    }

    pub(super) fn store(mut self, store: StoreFacts) -> Self {
        self.store = store;
        self
    }

    pub(super) fn bound(self, bound: u64) -> Self {
        let json = format!(r#"{{"v":1,"kind":"sequence","bound":{bound},"owner":"o","token":"t"}}"#);
        self.store(stored(&json))
    }

    pub(super) fn body(self, kind: BodyKind, text: &str) -> Self {
        self.facts(|facts| facts.bodies.push(body(kind, text)))
    }

    pub(super) fn view(self, name: &str, definition: &str, columns: &[&str]) -> Self {
        self.facts(|facts| {
            facts.views.push(ViewFacts {
                schema: "shop".to_owned(),
                name: name.to_owned(),
                definition: definition.to_owned(),
                is_updatable: true,
                columns: columns.iter().map(|&name| name.to_owned()).collect(),
            });
        })
    }

    pub(super) fn found(&self) -> Vec<Finding> {
        findings(&self.facts, &RuleSet::of_text(&self.rules), &self.store, None)
    }

    /// The one finding of this code is of this severity, or there is none.
    #[track_caller]
    pub(super) fn check(&self, code: Code, expect: Option<Severity>) -> Option<Finding> {
        let all = self.found();
        let mut of_code: Vec<&Finding> = all.iter().filter(|finding| finding.code == code).collect();
        assert_eq!(of_code.iter().map(|one| one.severity).next(), expect, "{code}: {all:#?}");
        assert!(of_code.len() <= 1, "{of_code:#?}");
        of_code.pop().cloned()
    }

    /// Like [`Case::check`], and the finding contains `expect`.
    #[track_caller]
    pub(super) fn says(&self, code: Code, severity: Severity, expect: &str) {
        let found = self.check(code, Some(severity)).unwrap();
        let text = format!("{}\n{}", found.why, found.remedy);
        assert!(text.contains(expect), "{text}");
    }
}

pub(super) fn stored(json: &str) -> StoreFacts {
    let record = Versioned { revision: Revision(1), value: json.as_bytes().to_owned() };
    StoreFacts::of(StoreKind::Embedded, &[(Key::generator("shop.g"), record)])
}

pub(super) fn column(name: &str, column_type: &str) -> ColumnFacts {
    let end = column_type.find(['(', ' ']).unwrap_or(column_type.len());
    let number = |nth: usize| -> Option<u64> {
        let (_, rest) = column_type.split_once('(')?;
        rest.split_once(')')?.0.split(',').nth(nth)?.parse().ok()
    };
    ColumnFacts {
        shape: ColumnShape::of(name, &column_type[..end], column_type, ""),
        column_type: column_type.to_owned(),
        length: number(0),
        digits: number(0).zip(Some(number(1).unwrap_or(0))),
        is_nullable: false,
        has_default: false,
    }
}

pub(super) fn table(name: &str, id: &str) -> TableFacts {
    TableFacts {
        schema: "shop".to_owned(),
        name: name.to_owned(),
        kind: TableKind::Base,
        columns: vec![column("id", id), column("a", "int(11)")],
        indexes: vec![index("PRIMARY", true, &["id"])],
        rows: Some(0),
        counter: None,
        highest: Highest::Id(0),
    }
}

pub(super) fn index(name: &str, is_unique: bool, columns: &[&str]) -> Index {
    let columns = columns.iter().map(|&name| Some(name.to_owned())).collect();
    Index { name: name.to_owned(), is_unique, is_ordered: true, columns }
}

pub(super) fn body(kind: BodyKind, text: &str) -> Body {
    Body {
        kind,
        schema: "shop".to_owned(),
        name: "b".to_owned(),
        text: Some(text.to_owned()),
        sql_mode: String::new(),
        is_foreign: false,
    }
}

pub(super) fn trigger(table: &str, timing: &str) -> BodyKind {
    let table = TableName::new("shop", table);
    BodyKind::Trigger { table, timing: timing.to_owned(), event: "INSERT".to_owned() }
}

pub(super) fn foreign_key(column_type: &str) -> ForeignKey {
    ForeignKey {
        name: "fk".to_owned(),
        schema: "shop".to_owned(),
        table: "items".to_owned(),
        column: column("order_id", column_type),
        to: ("shop".to_owned(), "orders".to_owned(), "id".to_owned()),
    }
}

#[test]
fn nothing_is_wrong() {
    assert_eq!(Case::new().found(), []);
}

#[test]
fn every_code_has_a_test_here() {
    let sources = [
        include_str!("tests/accounts.rs"),
        include_str!("tests/columns.rs"),
        include_str!("tests/names.rs"),
        include_str!("tests/servers.rs"),
        include_str!("tests/unseen.rs"),
        include_str!("tests/users.rs"),
    ];
    let sources = sources.map(|text| text.replace([' ', '\n'], ""));
    // Files' own findings are of `toml_file`, whose tests they have.
    for code in Code::ALL.iter().filter(|code| **code != Code::File) {
        let name = format!("Code::{code:?},");
        let (shows, not) = (format!("{name}Some("), format!("{name}None"));
        let is_shown =
            sources.iter().any(|text| text.contains(&shows) || text.contains(&format!("says({name}")));
        let is_not = sources.iter().any(|text| text.contains(&not));
        assert!(is_shown && is_not, "{code}: shown {is_shown}, not {is_not}");
    }
}
