//! A statement while it is being written.

use crate::differential::case::Statement;
use crate::random::choices::{Choices, group};
use crate::random::when;
use crate::support::Kind as Server;
use crate::support::raw::Param;

group!(STYLE, "style":
    "spaced" 60,
    "tight" 14,
    "commented" 26,
);
group!(GAP, "gap":
    "space" 40,
    "tab" 4,
    "newline" 4,
    "comment" 8,
    "comment_empty" 4,
    "comment_dashes" 4,
    "comment_hash" 4 when when::NO_PARAMS,
    "comment_quote" 4 when when::NO_PARAMS,
    "comment_double_quote" 3 when when::NO_PARAMS,
    "comment_backtick" 3 when when::NO_PARAMS,
    "comment_parenthesis" 4,
    "comment_semicolon" 3,
    "comment_insert" 3,
    "comment_placeholder" 3 when when::NO_PARAMS,
    "comment_version_too_high" 3,
    "comment_version_quote" 3 when when::NO_PARAMS,
    "comment_version_empty" 3,
    "comment_dashes_control" 2,
    "comment_stars" 3,
);

pub(crate) const GROUPS: &[crate::random::choices::Group] = &[STYLE, GAP];

/// sql_mode, as far as it changes what a text means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) ansi_quotes: bool,
    pub(crate) no_backslash_escapes: bool,
    pub(crate) zero_is_a_value: bool,
}

/// The state of a case before a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    pub(crate) server: Server,
    pub(crate) mode: Mode,
    pub(crate) known: bool,
    pub(crate) next_explicit: u32,
    pub(crate) multi: bool,
}

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) choices: Choices,
    pub(crate) state: State,
    pub(crate) sql: String,
    pub(crate) style: &'static str,
    /// Empty: the statement has no parameters.
    pub(crate) executions: Vec<Vec<Param>>,
    pub(crate) tags: Vec<&'static str>,
    pub(crate) tables: Vec<&'static str>,
    pub(crate) done: Vec<Statement>,
}

impl Writer {
    pub(crate) fn new(choices: Choices, state: State) -> Writer {
        Writer {
            choices,
            state,
            sql: String::new(),
            style: "spaced",
            executions: Vec::new(),
            tags: Vec::new(),
            tables: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The bits that hold for the whole statement.
    pub(crate) fn when(&self) -> u32 {
        let either = |is: bool, yes, no| if is { yes } else { no };
        let mode = self.state.mode;
        either(self.state.server == Server::MariaDb, when::MARIADB, when::MYSQL)
            | either(mode.ansi_quotes, when::ANSI, when::NOT_ANSI)
            | either(mode.no_backslash_escapes, when::NO_ESCAPES, when::ESCAPES)
            | either(self.executions.is_empty(), when::NO_PARAMS, when::PARAMS)
            | either(self.state.known, when::KNOWN, 0)
            | either(self.state.multi, when::MULTI, 0)
    }

    pub(crate) fn pick(&mut self, group: &crate::random::choices::Group, more: u32) -> &'static str {
        let when = self.when() | more;
        self.choices.pick(group, when)
    }

    pub(crate) fn put(&mut self, text: &str) {
        self.sql.push_str(text);
    }

    /// Writes the blank or comment that the grammar wants between two words.
    pub(crate) fn gap(&mut self) {
        if self.style != "commented" {
            self.put(" ");
            return;
        }
        let gap = self.pick(&GAP, 0);
        self.put(match gap {
            "tab" => "\t",
            "newline" => "\n",
            "comment" => "/* c */",
            "comment_empty" => "/**/",
            "comment_dashes" => " -- c\n",
            "comment_hash" => "#'\"`\n",
            "comment_quote" => "/* it's */",
            "comment_double_quote" => "/*\"*/",
            "comment_backtick" => "/* ` */",
            "comment_parenthesis" => " /* ), ( */ ",
            "comment_semicolon" => " /* ; */",
            "comment_insert" => "/* INSERT INTO t VALUES */ ",
            "comment_placeholder" => " /* ? */ ",
            "comment_version_too_high" => " /*!999999 , NULL) */ ",
            "comment_version_quote" => "/*!999999 , 'x */",
            "comment_version_empty" => " /*!*/ ",
            "comment_dashes_control" => " --\tc\n",
            "comment_stars" => "/*** * / **/",
            _ => " ",
        });
    }

    /// Writes a blank, a comment or nothing, at a place where the grammar wants nothing.
    pub(crate) fn soft(&mut self) {
        match self.style {
            "commented" => self.gap(),
            "tight" => {}
            _ => self.put(" "),
        }
    }

    pub(crate) fn words(&mut self, text: &str) {
        for word in text.split(' ') {
            self.put(word);
            self.gap();
        }
    }

    pub(crate) fn tag(&mut self, tag: &'static str) {
        if !self.tags.contains(&tag) {
            self.tags.push(tag);
        }
    }

    pub(crate) fn uses(&mut self, table: &'static str) {
        if !self.tables.contains(&table) {
            self.tables.push(table);
        }
    }

    /// A placeholder, and a value for it in each execution.
    pub(crate) fn param(&mut self, mut value: impl FnMut(&mut Choices) -> Param) {
        self.put("?");
        for execution in &mut self.executions {
            execution.push(value(&mut self.choices));
        }
    }

    /// The statement ends here.
    pub(crate) fn end(&mut self) {
        let executions = std::mem::take(&mut self.executions);
        self.done.push(Statement {
            sql: std::mem::take(&mut self.sql).into_bytes(),
            executions,
            tags: std::mem::take(&mut self.tags).into_iter().map(str::to_owned).collect(),
            ..Statement::default()
        });
    }
}
