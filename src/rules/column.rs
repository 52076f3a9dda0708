//! Which column of a table a rule fills.

use std::sync::Arc;

use super::model::{ColumnShape, Rule};
use super::template::NAME_CHARS_MAX;
use crate::sql::name::same_column;

/// `column = "auto"`. A column of that name is named in other letters: columns never tell case
/// apart.
pub const AUTO: &str = "auto";

/// The meaning of a rule for a table whose name it matches.
#[derive(Debug, Clone, PartialEq)]
pub enum Meant {
    /// The rule, with the column's name in place of "auto".
    Fills(Arc<Rule>),
    /// A pattern does not mean tables that lack its column, or whose column is of a type that is
    /// not for ids.
    Passes,
    /// The table was named exactly: why no row of it can be filled, and what to write instead.
    Lacks(String),
}

impl Rule {
    pub fn is_auto(&self) -> bool {
        self.column == AUTO
    }

    pub fn meant<'a>(
        self: &Arc<Self>,
        table: &str,
        columns: impl Iterator<Item = &'a ColumnShape> + Clone,
    ) -> Meant {
        let found = if self.is_auto() {
            auto(columns)
        } else {
            columns.into_iter().find(|column| same_column(&column.name, &self.column))
        };
        let is_pattern = self.is_pattern();
        // A FLOAT rounds them.
        let holds_ids =
            |column: &ColumnShape| column.holds_ids() && !(is_pattern && column.data_type == "float");
        match found {
            Some(found) if !holds_ids(found) && !is_pattern => Meant::Lacks(self.lacks(table, Some(found))),
            Some(found) if !holds_ids(found) => Meant::Passes,
            Some(_) if self.generator.is_too_long() => Meant::Lacks(self.has_no_name(table)),
            Some(found) if self.is_auto() => {
                Meant::Fills(Arc::new(Rule { column: found.name.clone(), ..Rule::clone(self) }))
            }
            Some(_) => Meant::Fills(Arc::clone(self)),
            None if is_pattern => Meant::Passes,
            None => Meant::Lacks(self.lacks(table, None)),
        }
    }

    fn has_no_name(&self, table: &str) -> String {
        let Rule { schema, generator, origin, .. } = self;
        let chars = generator.name.chars().count();
        format!(
            "the generator of {schema}.{table} would be {generator} (rule at {origin}); this name has {chars} characters, and \
             {NAME_CHARS_MAX} is the maximum; write a rule for this table alone, or a shorter template"
        )
    }

    fn lacks(&self, table: &str, found: Option<&ColumnShape>) -> String {
        let Rule { schema, column, origin, .. } = self;
        if let Some(ColumnShape { name, data_type, .. }) = found {
            return format!(
                "column {name} of {schema}.{table} has type {data_type}, which cannot hold ids (rule at {origin}); remove the rule"
            );
        }
        if self.is_auto() {
            return format!(
                "table {schema}.{table} has no AUTO_INCREMENT column, and no primary key that is one integer (rule at \
                 {origin}); write the name of a column in the rule"
            );
        }
        format!("table {schema}.{table} has no column {column} (rule at {origin}); correct the rule's column")
    }
}

/// The AUTO_INCREMENT column, else the one integer that is the primary key.
fn auto<'a>(columns: impl Iterator<Item = &'a ColumnShape> + Clone) -> Option<&'a ColumnShape> {
    let mut of_key = columns.clone().filter(|column| column.in_primary_key);
    let only = of_key.next().filter(|_| of_key.next().is_none());
    let integer = only.filter(|column| column.highest().is_some() && !column.generated);
    columns.into_iter().find(|column| column.auto_increment).or(integer)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Meant;
    use crate::rules::RuleSet;
    use crate::rules::model::{ColumnShape, Rule};

    fn rule(table: &str, column: &str) -> Arc<Rule> {
        let text = format!(
            "schema = 's'\n[generators.g]\nkind = 'sequence'\n[tables.'{table}']\ncolumn = '{column}'\ngenerator = 'g'\n"
        );
        RuleSet::of_text(&text).rules().next().unwrap().clone()
    }

    /// A column: its name, its type, `+` for AUTO_INCREMENT, `*` for the primary key, `=` for
    /// GENERATED.
    fn column(text: &str) -> ColumnShape {
        let plain = text.trim_end_matches(['+', '*', '=']);
        let (name, data_type) = plain.split_once(' ').unwrap();
        let extra = match (text.contains('+'), text.contains('=')) {
            (true, _) => "auto_increment",
            (_, true) => "STORED GENERATED",
            _ => "",
        };
        let shape = ColumnShape::of(name, data_type, data_type, extra);
        ColumnShape { in_primary_key: text.contains('*'), ..shape }
    }

    #[track_caller]
    fn check(written: (&str, &str), columns: &[&str], expect: &str) {
        let columns: Vec<_> = columns.iter().map(|text| column(text)).collect();
        let found = match rule(written.0, written.1).meant("t", columns.iter()) {
            Meant::Fills(rule) => rule.column.clone(),
            Meant::Passes => "-".to_owned(),
            Meant::Lacks(why) => why.split(" (rule").next().unwrap_or_default().to_owned(),
        };
        assert_eq!(found, expect, "{written:?} {columns:?}");
    }

    #[test]
    fn what_a_rule_is_to_a_table() {
        check(("t", "id"), &["ID int"], "id");
        check(("t", "id"), &["k int*"], "table s.t has no column id");
        check(("*", "id"), &["k int*"], "-");
        check(("*", "id"), &["k int", "id int"], "id");
        let none = "table s.t has no AUTO_INCREMENT column, and no primary key that is one integer";
        check(("t", "auto"), &["a int", "n bigint+", "k int*"], "n");
        check(("t", "auto"), &["a int", "k int*"], "k");
        check(("*", "auto"), &["a int*", "b int*"], "-");
        check(("*", "auto"), &["k varchar*"], "-");
        check(("*", "auto"), &["k int*="], "-");
        check(("t", "auto"), &["a int", "auto int"], none);
        check(("t", "AUTO"), &["auto int"], "AUTO");
        check(("*", "auto"), &[], "-");
        check(("t", "id"), &["id uuid*"], "column id of s.t has type uuid, which cannot hold ids");
        for other in [
            "id uuid*",
            "id inet6*",
            "id datetime*",
            "id point",
            "id bit*",
            "id enum",
            "id json",
            "id float*",
        ] {
            check(("*", "id"), &[other], "-");
        }
        check(("t", "id"), &["id float"], "id");
        for of_ids in ["id decimal", "id double", "id varchar", "id varbinary", "id longtext", "id bigint"] {
            check(("*", "id"), &[of_ids], "id");
        }
    }
}
