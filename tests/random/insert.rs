//! An INSERT or REPLACE, from its verb to its last clause.

use crate::random::choices::{Group, group};
use crate::random::tables::{Kind, Table, by_name};
use crate::random::values::Row;
use crate::random::when::{
    ANSI, HAS_INT, HAS_PARENT, ID_GIVEN, INSERT, LISTED, MARIADB, MYSQL, NO_PARAMS, NUMBER_ID, ONE_ROW,
    PARAMS, PARTITIONED, PLAIN_ROWS, RULED,
};
use crate::random::writer::Writer;

group!(TABLE, "table":
    "t" 30,
    "tu" 18,
    "tm" 8,
    "tl" 8,
    "th" 5,
    "tp" 6,
    "tn" 5,
    "tg" 6,
    "tc" 6,
    "tstr" 6,
    "plain" 5,
);
group!(VERB, "verb":
    "insert" 70,
    "replace" 12,
    "insert_ignore" 12,
    "insert_low_priority" 3,
    "insert_high_priority" 3,
    "insert_delayed" 1,
    "insert_low_priority_ignore" 2,
    "replace_low_priority" 2,
    "replace_delayed" 1,
    "insert_lower_case" 4,
    "insert_versioned" 3,
    "insert_version_too_high" 3,
    "insert_mariadb_comment" 5 when MARIADB,
);
group!(INTO, "into":
    "into" 80,
    "none" 15,
    "versioned" 3,
    "lower_case" 4,
);
group!(NAME, "table name":
    "plain" 50,
    "backticks" 15,
    "qualified" 12,
    "qualified_backticks" 8,
    "qualified_spaced" 4,
    "double_quotes" 60 when ANSI,
    "dot_keyword" 3,
);
group!(PARTITION, "partition":
    "none" 30,
    "one" 8 when PARTITIONED,
    "both" 30 when PARTITIONED,
);
group!(COLUMN_NAME, "column name":
    "plain" 70,
    "upper_case" 6,
    "backticks" 10,
    "mixed_case" 4,
    "backticks_upper_case" 3,
    "qualified" 6,
    "qualified_database" 3,
    "double_quotes" 40 when ANSI,
);
group!(LIST, "column list":
    "some" 50,
    "all" 20,
    "none" 24 when ID_GIVEN,
    "only_id" 3 when ID_GIVEN,
    "empty" 4,
    "without_required" 1,
);
group!(ID_STYLE, "id style":
    "omitted" 50,
    "uniform" 16,
    "mixed" 14,
    "explicit" 7,
    "bound" 20 when PARAMS,
    "bound_mixed" 3 when PARAMS,
    "expression" 2 when NO_PARAMS,
    "undecided" 1 when NO_PARAMS | NUMBER_ID,
);
group!(ID_PLACE, "id place":
    "last" 40,
    "first" 40,
    "middle" 20,
);
group!(SOURCE, "source":
    "values" 80,
    "value" 6,
    "set" 8,
    "set_colon" 3,
    "values_row" 10 when MYSQL,
    "select" 7,
    "table" 2 when MYSQL,
);
group!(ROW_COUNT, "rows":
    "one" 45,
    "two_or_three" 35,
    "to_eight" 15,
    "to_fifty" 5,
);
pub(crate) const GROUPS: &[Group] =
    &[TABLE, VERB, INTO, NAME, PARTITION, COLUMN_NAME, LIST, ID_STYLE, ID_PLACE, SOURCE, ROW_COUNT];

/// A column and whether the statement gives it a value.
type Column = (&'static str, Kind);

/// Decisions about a statement, which its later parts depend on.
pub(crate) struct Draft {
    pub(crate) table: &'static Table,
    pub(crate) id_style: &'static str,
    pub(crate) list: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) more: u32,
    pub(crate) rows: u32,
    /// Nothing in it can fail, and it gives its id to LAST_INSERT_ID().
    pub(crate) sure: bool,
}

impl Writer {
    /// `more`: ALONE where the statement stands by itself.
    pub(crate) fn insert(&mut self, more: u32) {
        let table = by_name(self.pick(&TABLE, 0));
        self.uses(table.name);
        table.also.iter().for_each(|other| self.uses(other));
        self.style = self.pick(&crate::random::writer::STYLE, 0);
        let number_id = if table.name == "tstr" { 0 } else { NUMBER_ID };
        let ruled = if table.is_ruled { RULED } else { 0 };
        let has_int = table.columns.iter().any(|(_, kind)| *kind == Kind::Int);
        let has_parent = table.columns.iter().any(|(_, kind)| *kind == Kind::Parent);
        let columns = if has_int { HAS_INT } else { 0 } | if has_parent { HAS_PARENT } else { 0 };
        let more = more | number_id | ruled | columns;
        let mut draft = Draft {
            table,
            id_style: "omitted",
            list: "some",
            columns: Vec::new(),
            more,
            rows: 1,
            sure: table.is_safe && self.executions.is_empty(),
        };
        let is_insert = self.verb(&mut draft);
        self.into();
        self.table_name(table);
        let partitioned = if table.name == "tp" { PARTITIONED } else { 0 };
        match self.pick(&PARTITION, partitioned) {
            "one" => self.words(" PARTITION (p1)"),
            "both" => self.words(" PARTITION (p1, p2)"),
            _ => {}
        }
        let source = self.pick(&SOURCE, more);
        if is_insert {
            draft.more |= INSERT;
        }
        match source {
            "set" | "set_colon" => self.set_form(&mut draft, source == "set_colon"),
            "select" => self.select_form(&mut draft),
            "table" => {
                draft.sure = false;
                self.brings_ids();
                self.words(" TABLE source");
                self.uses("source");
            }
            _ => self.rows_form(&mut draft, source),
        }
        self.clauses(&mut draft);
        self.after(&draft);
    }

    fn verb(&mut self, draft: &mut Draft) -> bool {
        let verb = self.pick(&VERB, 0);
        let text = match verb {
            "replace" => "REPLACE",
            "insert_ignore" => "INSERT IGNORE",
            "insert_low_priority" => "INSERT LOW_PRIORITY",
            "insert_high_priority" => "INSERT HIGH_PRIORITY",
            "insert_delayed" => "INSERT DELAYED",
            "insert_low_priority_ignore" => "INSERT LOW_PRIORITY IGNORE",
            "replace_low_priority" => "REPLACE LOW_PRIORITY",
            "replace_delayed" => "REPLACE DELAYED",
            "insert_lower_case" => "insert",
            "insert_versioned" => "INSERT /*!50000IGNORE*/",
            "insert_version_too_high" => "INSERT /*!99999IGNORE*/",
            "insert_mariadb_comment" => "INSERT /*M!100000IGNORE*/",
            _ => "INSERT",
        };
        self.words(text);
        if text.contains("IGNORE") && verb != "insert_version_too_high" {
            self.tag("skips");
            draft.sure = false;
        }
        draft.sure &= !text.contains("DELAYED");
        !text.starts_with("REPLACE")
    }

    fn into(&mut self) {
        match self.pick(&INTO, 0) {
            "none" => {}
            "versioned" => self.words("/*!INTO*/"),
            "lower_case" => self.words("into"),
            _ => self.words("INTO"),
        }
    }

    fn table_name(&mut self, table: &Table) {
        let name = table.name;
        let text = match self.pick(&NAME, 0) {
            "backticks" => format!("`{name}`"),
            "qualified" => format!("judge.{name}"),
            "qualified_backticks" => format!("`judge`.`{name}`"),
            "qualified_spaced" => format!("judge . `{name}`"),
            "double_quotes" => format!("\"{name}\""),
            "dot_keyword" => format!("`judge`.{name}"),
            _ => name.to_owned(),
        };
        self.put(&text);
    }

    fn column_name(&mut self, table: &Table, column: &str) {
        let mut mixed = column.to_owned();
        if let Some(last) = mixed.pop() {
            mixed.push(last.to_ascii_uppercase());
        }
        let text = match self.pick(&COLUMN_NAME, 0) {
            "upper_case" => column.to_uppercase(),
            "backticks" => format!("`{column}`"),
            "mixed_case" => mixed,
            "backticks_upper_case" => format!("`{}`", column.to_uppercase()),
            "qualified" => format!("{}.{column}", table.name),
            "qualified_database" => format!("judge.`{}`.`{column}`", table.name),
            "double_quotes" => format!("\"{column}\""),
            _ => column.to_owned(),
        };
        self.put(&text);
    }

    /// Which columns get a value, and in which order; the id among them if its style says so.
    pub(crate) fn draw_columns(&mut self, draft: &mut Draft, with_list: bool) {
        let given = if draft.id_style == "omitted" { 0 } else { ID_GIVEN };
        draft.list = if with_list { self.pick(&LIST, given | draft.more) } else { "some" };
        let table = draft.table;
        let visible = table.columns.iter().filter(|(_, kind)| *kind != Kind::Hidden).copied();
        draft.columns =
            match draft.list {
                "none" => return draft.columns = visible.collect(),
                "empty" => return draft.id_style = "omitted",
                "only_id" => vec![("id", Kind::Id)],
                list => {
                    let others = table.columns.iter().filter(|(_, kind)| *kind != Kind::Id).copied();
                    let mut columns: Vec<_> = others.collect();
                    if list != "all" {
                        let required = |(name, kind): &Column| {
                            list != "without_required"
                                && (*kind == Kind::Part || (table.name == "tn" && *name == "a"))
                        };
                        columns.retain(|column| required(column) || self.choices.below(3) < 2);
                    }
                    if columns.is_empty() {
                        columns.extend(table.columns.iter().find(|(_, kind)| {
                            matches!(kind, Kind::Int | Kind::Key | Kind::Part | Kind::Parent)
                        }));
                    }
                    if self.choices.one_in(3) {
                        columns.reverse();
                    }
                    if given != 0 {
                        let at = match self.pick(&ID_PLACE, 0) {
                            "first" => 0,
                            "middle" => columns.len() / 2,
                            _ => columns.len(),
                        };
                        columns.insert(at, ("id", Kind::Id));
                    }
                    columns
                }
            };
        draft.sure &= draft.list != "without_required";
    }

    fn rows_form(&mut self, draft: &mut Draft, source: &'static str) {
        draft.id_style = self.pick(&ID_STYLE, draft.more);
        self.draw_columns(draft, true);
        if draft.list != "none" {
            draft.more |= LISTED;
            self.list(draft);
        }
        draft.rows = match self.pick(&ROW_COUNT, 0) {
            "two_or_three" => 2 + self.choices.below(2),
            "to_eight" => 4 + self.choices.below(5),
            "to_fifty" => 9 + self.choices.below(42),
            _ => 1,
        };
        if draft.rows == 1 {
            draft.more |= ONE_ROW;
        }
        // `VALUES ROW(...)` takes no alias.
        draft.more |= if source == "values_row" { 0 } else { PLAIN_ROWS };
        if draft.list == "none" {
            self.tag("failed_unlisted");
            self.gap();
        } else {
            self.soft();
        }
        let is_row = source == "values_row" && !draft.columns.is_empty();
        self.put(if source == "value" { "VALUE" } else { "VALUES" });
        let uniform = self.no_id_for(draft);
        for row in 0..draft.rows {
            if row > 0 {
                self.soft();
                self.put(",");
            }
            if is_row {
                self.put(" ROW");
            }
            self.soft();
            self.row(draft, uniform.as_deref());
        }
    }

    fn list(&mut self, draft: &Draft) {
        self.soft();
        self.put("(");
        for (index, (column, _)) in draft.columns.iter().enumerate() {
            if index > 0 {
                self.soft();
                self.put(",");
            }
            self.soft();
            self.column_name(draft.table, column);
        }
        self.soft();
        self.put(")");
    }

    /// The text at the id's place in all rows, if they share one. Adds the tag of explicit ids.
    fn no_id_for(&mut self, draft: &mut Draft) -> Option<String> {
        let more = draft.more;
        match draft.id_style {
            "uniform" => {
                let text = self.no_id(more).to_owned();
                if self.state.mode.zero_is_a_value && !text.eq_ignore_ascii_case("NULL") && text != r"\N" {
                    self.tag("explicit");
                    draft.sure = false;
                }
                Some(text)
            }
            "omitted" => None,
            "explicit" => {
                self.tag("explicit");
                draft.sure = false;
                None
            }
            _ => {
                if draft.id_style.starts_with("bound") || self.state.mode.zero_is_a_value {
                    self.tag("explicit");
                }
                draft.sure = false;
                None
            }
        }
    }

    fn row(&mut self, draft: &Draft, uniform: Option<&str>) {
        self.put("(");
        let mut row = Row::default();
        for (index, (column, kind)) in draft.columns.iter().enumerate() {
            if index > 0 {
                self.put(",");
                self.soft();
            }
            if *kind == Kind::Id {
                self.id(draft, uniform);
            } else {
                self.value(column, *kind, &mut row, draft.more);
            }
            if self.style == "commented" {
                self.soft();
            }
        }
        self.put(")");
    }

    fn id(&mut self, draft: &Draft, uniform: Option<&str>) {
        let text = match (uniform, draft.id_style) {
            (Some(text), _) => text.to_owned(),
            (None, "explicit") => self.explicit_id(draft.more),
            (None, "bound") => return self.bound_id(),
            (None, "bound_mixed") if self.choices.one_in(2) => return self.bound_id(),
            (None, "expression") => self.expression_id().to_owned(),
            (None, "undecided") => {
                self.tag("no_number");
                self.tag("no_number_strict");
                self.choices.one_of(&["0e0", "'5x'", "x'00'", "''"]).to_owned()
            }
            (None, "mixed") if self.choices.one_in(3) => {
                if draft.more & ONE_ROW != 0 {
                    self.tag("explicit");
                }
                self.explicit_id(draft.more)
            }
            _ => self.no_id(draft.more).to_owned(),
        };
        self.put(&text);
    }

    fn set_form(&mut self, draft: &mut Draft, colon: bool) {
        draft.id_style = self.pick(&ID_STYLE, draft.more);
        self.draw_columns(draft, false);
        draft.more |= LISTED | ONE_ROW;
        self.gap();
        self.put("SET");
        self.gap();
        let uniform = self.no_id_for(draft);
        let mut row = Row::default();
        for (index, (column, kind)) in draft.columns.clone().into_iter().enumerate() {
            if index > 0 {
                self.soft();
                self.put(",");
                self.soft();
            }
            self.column_name(draft.table, column);
            self.soft();
            self.put(if colon { ":=" } else { "=" });
            self.soft();
            if kind == Kind::Id {
                self.id(draft, uniform.as_deref());
            } else {
                self.value(column, kind, &mut row, draft.more);
            }
        }
    }

    /// Brings the case's state up to date after the statement.
    fn after(&mut self, draft: &Draft) {
        if !draft.table.is_ruled {
            // The ids of a table that is not ruled go to LAST_INSERT_ID(), in every run.
            self.state.known &= draft.sure;
            return;
        }
        if draft.id_style == "explicit" && draft.table.is_safe && self.tags.len() == 1 {
            return;
        }
        self.state.known = draft.sure;
    }
}
