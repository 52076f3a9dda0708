//! A column and all that foreign keys tie to it: they have one type, and can only be widened together.
//!
//! Source: MySQL manual, "FOREIGN KEY Constraints": "the size and sign of fixed precision types such as INTEGER and DECIMAL must
//! be the same"; so in MariaDB. Neither lets one end be changed while the key is there, whatever foreign_key_checks says
//! (errors 1833 and 3780, measured on MariaDB 10.11 and MySQL 9.7).

use super::definition::Definition;
use crate::rules::model::ColumnShape;
use crate::schema::WholeKey;
use crate::sql::name::same_column;
use crate::table_name::{NameCase, TableName};

/// Columns that change together, ruled ones first, and the keys between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Family {
    pub columns: Vec<Member>,
    pub keys: Vec<WholeKey>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub table: TableName,
    pub column: ColumnShape,
    pub definition: Definition,
}

/// True if the column has an integer type that is narrower than BIGINT.
pub fn is_narrow(column: &ColumnShape) -> bool {
    column.data_type != "bigint" && column.highest().is_some()
}

pub type TableColumn = (TableName, String);

/// The columns that keys tie to these, themselves first and each once; and those keys.
pub fn related(case: NameCase, roots: &[TableColumn], all: &[WholeKey]) -> (Vec<TableColumn>, Vec<WholeKey>) {
    let same_table = |a: &TableName, b: &TableName| {
        case.folded(&a.schema) == case.folded(&b.schema) && case.folded(&a.table) == case.folded(&b.table)
    };
    let has = |found: &[TableColumn], table: &TableName, column: &str| {
        found.iter().any(|(of, name)| same_table(of, table) && same_column(name, column))
    };
    let mut found: Vec<TableColumn> = Vec::new();
    for (table, column) in roots {
        if !has(&found, table, column) {
            found.push((table.clone(), column.clone()));
        }
    }
    loop {
        let before = found.len();
        for key in all {
            for (from, to) in &key.columns {
                match (has(&found, &key.child, from), has(&found, &key.parent, to)) {
                    (false, true) => found.push((key.child.clone(), from.clone())),
                    (true, false) => found.push((key.parent.clone(), to.clone())),
                    _ => {}
                }
            }
        }
        if found.len() == before {
            break;
        }
    }
    let ties = |key: &&WholeKey| key.columns.iter().any(|(from, _)| has(&found, &key.child, from));
    let keys = all.iter().filter(ties).cloned().collect();
    (found, keys)
}

#[cfg(test)]
mod tests {
    use super::{TableColumn, related};
    use crate::migrate::family::tests_of_families::{key, table};
    use crate::table_name::NameCase;

    #[track_caller]
    fn check(roots: &[&str], expect: &[&str], expect_keys: &[&str]) {
        let all = [
            key("k1", "items", "orders", &[("order_id", "id")]),
            key("k2", "notes", "items", &[("order_id", "Order_ID"), ("nr", "nr")]),
            key("k3", "orders", "orders", &[("up", "id")]),
            key("k4", "items", "articles", &[("article_id", "id")]),
            key("k5", "invoices", "orders", &[("id", "id")]),
        ];
        let place = |text: &&str| -> TableColumn {
            let (of, column) = text.split_once('.').unwrap();
            (table(of), column.to_owned())
        };
        let roots: Vec<_> = roots.iter().map(place).collect();
        let (found, keys) = related(NameCase::Sensitive, &roots, &all);
        let found: Vec<_> = found.iter().map(|(of, column)| format!("{}.{column}", of.table)).collect();
        let keys: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
        assert_eq!((found, keys), (expect.iter().map(ToString::to_string).collect(), expect_keys.to_vec()));
    }

    #[test]
    fn what_is_tied_to_a_column() {
        let all = ["orders.id", "items.order_id", "notes.order_id", "orders.up", "invoices.id"];
        check(&["orders.id"], &all, &["k1", "k2", "k3", "k5"]);
        check(
            &["invoices.id", "ORDERS.id"],
            &["invoices.id", "ORDERS.id", "orders.id", "items.order_id", "notes.order_id", "orders.up"],
            &["k1", "k2", "k3", "k5"],
        );
        check(&["articles.ID"], &["articles.ID", "items.article_id"], &["k4"]);
        check(&["orders.total"], &["orders.total"], &[]);
        check(&[], &[], &[]);
    }

    #[test]
    fn a_server_that_tells_no_case_apart() {
        let all = [key("k", "items", "orders", &[("order_id", "id")])];
        let (found, _) = related(NameCase::Insensitive, &[(table("ORDERS"), "id".to_owned())], &all);
        assert_eq!(found.len(), 2);
    }
}

#[cfg(test)]
pub(super) mod tests_of_families {
    use crate::schema::WholeKey;
    use crate::table_name::TableName;

    pub(in crate::migrate) fn table(name: &str) -> TableName {
        TableName { schema: "shop".into(), table: name.into() }
    }

    /// Between tables of `shop`; deletes cascade.
    pub(in crate::migrate) fn key(
        name: &str,
        child: &str,
        parent: &str,
        columns: &[(&str, &str)],
    ) -> WholeKey {
        WholeKey {
            name: name.into(),
            child: table(child),
            parent: table(parent),
            columns: columns.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect(),
            on_delete: "CASCADE".into(),
            on_update: "NO ACTION".into(),
        }
    }
}
