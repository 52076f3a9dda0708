//! The clauses that may follow the values: an alias, ON DUPLICATE KEY UPDATE, RETURNING, the end.

use crate::random::choices::{Group, group};
use crate::random::insert::Draft;
use crate::random::tables::Kind;
use crate::random::when::{
    ALIASED, ALONE, HAS_INT, HAS_PARENT, INSERT, KNOWN, LISTED, MARIADB, MYSQL, NUMBER_ID, PARAMS,
    PLAIN_ROWS, RULED,
};
use crate::random::writer::Writer;
use crate::support::raw::Param;

group!(ALIAS, "alias":
    "none" 85,
    "row" 12 when MYSQL | PLAIN_ROWS | INSERT,
    "row_and_columns" 5 when MYSQL | PLAIN_ROWS | LISTED | INSERT,
);
group!(ODKU, "on duplicate key":
    "none" 78,
    "values" 4 when INSERT | LISTED,
    "plus" 4 when INSERT | HAS_INT,
    "constant" 4 when INSERT,
    "two" 3 when INSERT | HAS_INT,
    "qualified" 3 when INSERT | HAS_INT,
    "id_function" 2 when INSERT | RULED | NUMBER_ID,
    "id_same" 1 when INSERT | RULED,
    "function" 2 when INSERT | HAS_INT,
    "subquery" 1 when INSERT,
    "last_insert_id" 9 when INSERT | HAS_PARENT | KNOWN,
    "case" 1 when INSERT | HAS_INT,
    "alias" 30 when INSERT | ALIASED,
    "param" 12 when INSERT | PARAMS,
);
group!(RETURNING, "returning":
    "none" 88,
    "id" 5 when MARIADB | ALONE | NUMBER_ID,
    "star" 3 when MARIADB | ALONE | NUMBER_ID,
    "plain_columns" 4 when MARIADB | ALONE,
    "expression" 3 when MARIADB | ALONE | NUMBER_ID,
    "last_insert_id" 4 when MARIADB | ALONE | NUMBER_ID | KNOWN,
);
group!(TAIL, "tail":
    "none" 80,
    "semicolon" 4 when ALONE,
    "comment" 3,
    "comment_dashes" 2,
    "spaces" 3,
    "semicolon_and_spaces" 2 when ALONE,
    "comment_hash" 2,
);

pub(crate) const GROUPS: &[Group] = &[ALIAS, ODKU, RETURNING, TAIL];

impl Writer {
    pub(crate) fn clauses(&mut self, draft: &mut Draft) {
        let alias = self.pick(&ALIAS, draft.more);
        match alias {
            "row" => self.words(" AS new"),
            "row_and_columns" if !draft.columns.is_empty() => {
                let names = (0..draft.columns.len()).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ");
                self.put(&format!(" AS new({names})"));
            }
            _ => {}
        }
        if alias == "row" && draft.columns.iter().any(|(_, kind)| *kind == Kind::Text) {
            draft.more |= ALIASED;
        }
        self.on_duplicate_key(draft);
        let returning = match self.pick(&RETURNING, draft.more) {
            "id" => "id",
            "star" => "*",
            "plain_columns" => {
                draft.table.columns.last().map_or("1", |(name, _)| *name).trim_start_matches("id")
            }
            "expression" => "id - id, CONCAT('),', 'x') AS c",
            "last_insert_id" => "LAST_INSERT_ID() = id",
            _ => "",
        };
        if !returning.is_empty() {
            self.gap();
            self.put("RETURNING");
            self.gap();
            self.put(returning);
        }
        match self.pick(&TAIL, draft.more) {
            "semicolon" => self.put(";"),
            "comment" => self.put("/* end */"),
            "comment_dashes" => self.put(" -- end"),
            "spaces" => self.put("  "),
            "semicolon_and_spaces" => self.put(" ; "),
            "comment_hash" => self.put(" # end"),
            _ => {}
        }
    }

    fn on_duplicate_key(&mut self, draft: &mut Draft) {
        let shape = self.pick(&ODKU, draft.more);
        if shape == "none" {
            return;
        }
        draft.sure = false;
        self.tag("skips");
        self.tag("odku");
        if draft.rows > 1 || draft.list == "select" {
            self.tag("odku_several_old");
        }
        let table = draft.table;
        let of = |kinds: &[Kind]| {
            table.columns.iter().find(|(_, kind)| kinds.contains(kind)).map_or("id", |(name, _)| *name)
        };
        // A SELECT may have columns of the same names.
        let of_table = if draft.list == "select" { format!("{}.", table.name) } else { String::new() };
        let int = of(&[Kind::Int]);
        let any = of(&[Kind::Text, Kind::Int]);
        let is_text = any == "b";
        self.gap();
        self.words("ON DUPLICATE KEY UPDATE");
        let text = match shape {
            "values" => {
                let listed =
                    draft.columns.iter().find(|(_, kind)| !matches!(kind, Kind::Id | Kind::Generated));
                let column = listed.map_or(any, |(name, _)| *name);
                format!("{column} = VALUES({column})")
            }
            "plus" => format!("{int} = {of_table}{int} + 1"),
            "two" => format!("{int} = 7, `{int}` = {of_table}{int} + VALUES({int})"),
            "qualified" => format!("{0}.{int} = judge.{0}.{int} - 1", table.name),
            "id_function" => format!("id = LAST_INSERT_ID({of_table}id)"),
            "id_same" => format!("id = {of_table}id"),
            "function" => format!("{int} = ABS({of_table}{int}) + LENGTH('),(')"),
            "subquery" => format!("{any} = (SELECT {})", if is_text { "'s'" } else { "8" }),
            "last_insert_id" => format!("{} = LAST_INSERT_ID()", of(&[Kind::Parent])),
            "case" => format!("{int} = CASE WHEN {of_table}{int} > 5 THEN 5 ELSE 6 END"),
            "alias" => format!("{any} = new.{any}"),
            "param" => {
                self.put(&format!("{any} = "));
                return self.param(|_| Param::Int(19));
            }
            _ => format!("{any} = {}", if is_text { "'upd'" } else { "9" }),
        };
        self.put(&text);
    }
}
