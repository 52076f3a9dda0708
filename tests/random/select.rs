//! INSERT ... SELECT.

use crate::random::choices::group;
use crate::random::insert::Draft;
use crate::random::tables::Kind;
use crate::random::when::{MYSQL, NO_PARAMS};
use crate::random::writer::Writer;

group!(SELECT, "select":
    "constant" 10,
    "source" 10,
    "limit" 5,
    "union" 6,
    "distinct" 5,
    "nothing" 5,
    "same_table" 8 when NO_PARAMS,
    "join" 5,
    "grouped" 6,
    "parentheses" 5,
    "with" 5,
    "derived" 5,
    "values_rows" 12 when MYSQL,
);
group!(SELECT_ID, "id in a select":
    "omitted" 60,
    "null" 15,
    "zero" 8,
    "number" 14,
);

pub(crate) const GROUPS: &[crate::random::choices::Group] = &[SELECT, SELECT_ID];

impl Writer {
    pub(crate) fn select_form(&mut self, draft: &mut Draft) {
        let id = self.pick(&SELECT_ID, 0);
        draft.id_style = id;
        self.draw_columns(draft, false);
        draft.list = "select";
        draft.columns.retain(|(_, kind)| *kind != Kind::Generated);
        draft.sure = false;
        self.select_list(draft);
        let shape = self.pick(&SELECT, 0);
        let id = match id {
            "null" => "NULL".to_owned(),
            "zero" => "0".to_owned(),
            "number" => {
                self.tag("explicit");
                self.explicit_id(0)
            }
            _ => String::new(),
        };
        if !id.is_empty() {
            self.brings_ids();
        }
        let constants = self.expressions(draft, &id, false);
        let columns = self.expressions(draft, &id, true);
        self.uses("source");
        let text = match shape {
            "source" => format!("SELECT {columns} FROM source ORDER BY source.k"),
            "limit" => format!("SELECT {columns} FROM source WHERE a < 5 ORDER BY source.k DESC LIMIT 2"),
            "union" => format!("SELECT {constants} UNION ALL SELECT {constants}"),
            "distinct" => format!("SELECT DISTINCT {constants} FROM source"),
            "nothing" => format!("SELECT {columns} FROM source WHERE FALSE"),
            "same_table" => {
                format!(
                    "SELECT {constants} FROM {} AS x WHERE x.id < 0 OR x.id = 11 LIMIT 1",
                    draft.table.name
                )
            }
            "join" => format!(
                "SELECT {columns} FROM source JOIN (SELECT 1 AS one) AS j ON one <= source.k ORDER BY source.k"
            ),
            "grouped" => format!("SELECT {constants} FROM source GROUP BY a ORDER BY a"),
            "parentheses" => format!("(SELECT {constants})"),
            "with" => format!(
                "WITH c AS (SELECT a, b, k FROM source WHERE k > 2) SELECT {} FROM c ORDER BY k",
                columns.replace("source.", "c.")
            ),
            "derived" => format!("SELECT {constants} FROM (SELECT '),(' AS x UNION SELECT 2) AS d"),
            "values_rows" => format!("SELECT {constants} FROM (VALUES ROW(1), ROW(2)) AS v"),
            _ => format!("SELECT {constants}"),
        };
        self.tag("staged_warnings");
        self.gap();
        self.put(&text);
    }

    /// Adds the tags of the differences that are declared for ids from a query.
    pub(crate) fn brings_ids(&mut self) {
        self.tag("failed_query");
        self.tag("staged_warnings");
        if self.tags.contains(&"skips") {
            self.tag("ignored_query");
        }
    }

    fn select_list(&mut self, draft: &Draft) {
        let names: Vec<_> = draft.columns.iter().map(|(name, _)| *name).collect();
        self.soft();
        self.put(&format!("({})", names.join(", ")));
    }

    fn expressions(&mut self, draft: &Draft, id: &str, from_source: bool) -> String {
        let mut texts = Vec::new();
        for (_, kind) in &draft.columns {
            texts.push(match (kind, from_source) {
                (Kind::Id, _) => id.to_owned(),
                (Kind::Text, true) => "source.b".to_owned(),
                (Kind::Text, false) => "'s),('".to_owned(),
                (Kind::Int | Kind::Hidden | Kind::Parent, true) => "source.a + 1".to_owned(),
                (Kind::Key, true) => "source.k".to_owned(),
                (Kind::Key, false) => (self.choices.below(1000) + 200).to_string(),
                (Kind::Part, _) => (self.choices.below(7) + 1).to_string(),
                (Kind::Generated, _) => "NULL".to_owned(),
                (Kind::Int | Kind::Hidden | Kind::Parent, false) => self.choices.below(50).to_string(),
            });
        }
        texts.join(", ")
    }
}
