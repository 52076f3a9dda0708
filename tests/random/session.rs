//! A case: statements of one session, INSERTs and what stands between them.

use std::collections::BTreeMap;

use crate::differential::case::{Case, Flag};
use crate::random::choices::{Choices, Group, group};
use crate::random::tables::{Table, by_name};
use crate::random::when::{ALONE, KNOWN, MARIADB, MULTI, MYSQL, NO_PARAMS};
use crate::random::writer::{Mode, State, Writer};
use crate::support::Kind as Server;

group!(FLAGS, "session":
    "plain" 60,
    "multi" 14,
    "found_rows" 8,
    "classic" 6,
    "track" 6,
);
group!(STATEMENT, "statement":
    "insert" 66,
    "insert_prepared" 22 when NO_PARAMS,
    "session" 18,
    "packet" 70 when MULTI,
    "explain" 1,
    "analyze" 1 when MARIADB,
    "set_statement" 1 when MARIADB,
    "sql_prepare" 1,
    "execute_immediate" 1 when MARIADB,
    "load_data" 1,
);
group!(SESSION, "session statement":
    "begin" 12,
    "commit" 7,
    "rollback" 6,
    "savepoint" 4,
    "rollback_to_savepoint" 5,
    "ansi_quotes" 7,
    "no_backslash_escapes" 6,
    "zero_is_a_value" 6,
    "no_mode" 6,
    "strict_mode" 4,
    "mode_by_variable" 4,
    "use" 4,
    "init_db" 4,
    "last_insert_id" 14 when KNOWN,
    "identity" 20 when KNOWN,
    "set_last_insert_id" 5,
    "set_the_variable" 4,
    "row_count" 8,
    "warnings" 5,
    "select_rows" 5,
    "select_in_quotes" 3,
    "update" 4,
    "delete" 4,
    "set_variable" 4,
    "do" 4,
    "reset" 5,
    "error" 5,
    "count_warnings" 5,
    "child" 24 when KNOWN,
);
group!(LOOK, "look":
    "no" 60,
    "yes" 40,
);

pub(crate) const GROUPS: &[Group] = &[FLAGS, STATEMENT, SESSION, LOOK];

/// A case and how it came about.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    pub(crate) case: Case,
    pub(crate) recipe: Recipe,
    /// (group, production), each time that one was chosen, by statement of the case; those of the session first.
    pub(crate) productions: Vec<(usize, (&'static str, &'static str))>,
    /// Differences (`marks::APART`) that statements might have met, which are not in the case.
    pub(crate) left_out: Vec<&'static str>,
}

/// All that chance decided.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) server: Server,
    pub(crate) name: String,
    pub(crate) session: Vec<u32>,
    pub(crate) statements: Vec<Vec<u32>>,
}

pub(crate) fn draw(server: Server, name: String, seed: u64) -> Drawn {
    let mut session = Choices::by_chance(seed);
    let count = 5 + session.below(6);
    let (made, _) = session.into_parts();
    // The flag is drawn from a list of its own, so that a recipe has one entry for each statement.
    let statements =
        (0..u64::from(count)).map(|n| Choices::by_chance(seed.wrapping_mul(31).wrapping_add(n + 1)));
    assemble(server, name, Choices::by_chance(seed ^ u64::from(made[0]).rotate_left(40)), statements)
}

pub(crate) fn replay(recipe: &Recipe) -> Drawn {
    let statements = recipe.statements.iter().cloned().map(Choices::replay);
    assemble(recipe.server, recipe.name.clone(), Choices::replay(recipe.session.clone()), statements)
}

fn assemble(
    server: Server,
    name: String,
    mut session: Choices,
    statements: impl Iterator<Item = Choices>,
) -> Drawn {
    let server_bit = if server == Server::MariaDb { MARIADB } else { MYSQL };
    let flag = session.pick(&FLAGS, server_bit);
    let mut state =
        State { server, mode: Mode::default(), known: true, next_explicit: 100, multi: flag == "multi" };
    let mut case = Case { name: name.clone(), place: name.clone(), ..Case::default() };
    case.flags = vec![Flag::Quiet];
    case.flags.extend(match flag {
        "multi" => Some(Flag::Multi),
        "found_rows" => Some(Flag::FoundRows),
        "classic" => Some(Flag::Classic),
        "track" => Some(Flag::Track),
        _ => None,
    });
    let (session_made, session_drawn) = session.into_parts();
    let mut recipe = Recipe { server, name, session: session_made, statements: Vec::new() };
    let mut productions: Vec<_> = session_drawn.into_iter().map(|one| (0, one)).collect();
    let mut tables: Vec<&'static str> = Vec::new();
    let mut left_out = Vec::new();
    for choices in statements {
        let mut writer = Writer::new(choices, state);
        writer.statement();
        if let Some(apart) = crate::random::marks::apart(server, writer.choices.drawn()) {
            left_out.push(apart);
            continue;
        }
        state = writer.state;
        for table in writer.tables {
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        let (made, drawn) = writer.choices.into_parts();
        recipe.statements.push(made);
        // The first of several statements (PREPARE, EXECUTE) answers for all of them.
        productions.extend(drawn.into_iter().map(|one| (case.statements.len(), one)));
        case.statements.extend(writer.done);
    }
    tables.sort_by_key(|name| crate::random::tables::number_of(name));
    let used: Vec<&Table> = tables.into_iter().map(by_name).collect();
    case.tables = used.iter().map(|table| table.made.to_owned()).collect();
    if case.tables.iter().any(|table| table.contains("{text_id}")) {
        // Text sorts otherwise than numbers.
        let order = |t: &&Table| if t.made.contains("{text_id}") { "id + 0" } else { "1" };
        let dump = |t: &&Table| format!("SELECT * FROM judge.{} ORDER BY {}", t.name, order(t)).into_bytes();
        case.dumps = used.iter().map(dump).collect();
    }
    case.setup = used
        .iter()
        .flat_map(|t| t.triggers.iter().chain(t.seed))
        .map(|sql| sql.as_bytes().to_vec())
        .collect();
    Drawn { case, recipe, productions, left_out }
}

impl Writer {
    fn statement(&mut self) {
        let kind = self.pick(&STATEMENT, 0);
        match kind {
            "insert_prepared" => {
                let count = 1 + self.choices.below(3);
                self.executions = vec![Vec::new(); count as usize];
                self.insert(ALONE);
                self.end_with_look();
            }
            "session" => self.session_statement(),
            "packet" => self.packet(),
            "explain" => {
                self.put("EXPLAIN ");
                self.insert(0);
                // Nothing of it happens, and its plan may tell of the column's kind.
                self.tags.clear();
                self.end();
            }
            "analyze" => {
                self.put("ANALYZE ");
                self.insert(0);
                self.state.known = false;
                self.end_with_look();
            }
            "set_statement" => {
                let what = self
                    .choices
                    .one_of(&["max_statement_time = 20", "lock_wait_timeout = 9, sort_buffer_size = 65536"]);
                self.put(&format!("SET STATEMENT {what} FOR "));
                self.insert(0);
                self.state.known = false;
                self.end_with_look();
            }
            "sql_prepare" => self.sql_prepare(),
            "execute_immediate" => {
                self.insert(0);
                let quoted = self.quoted();
                self.put(&format!("EXECUTE IMMEDIATE {quoted}"));
                self.state.known = false;
                self.end_with_look();
            }
            "load_data" => {
                self.uses("t");
                self.put("LOAD DATA LOCAL INFILE 'any' INTO TABLE t (a, b)");
                self.end_with_look();
                let file = self.done.last_mut().expect("just ended");
                file.local_file = b"1\tx\n2\ty\n".to_vec();
                self.state.known = false;
            }
            _ => {
                self.insert(ALONE);
                self.end_with_look();
            }
        }
    }

    fn end_with_look(&mut self) {
        let look = self.pick(&LOOK, 0) == "yes";
        self.end();
        self.done.last_mut().expect("just ended").look = look;
    }

    /// Several statements in one COM_QUERY.
    fn packet(&mut self) {
        let count = 2 + self.choices.below(2);
        for index in 0..count {
            // The value of a function is not brought up to date in the midst of a packet.
            self.state.known = false;
            self.insert(0);
            if index + 1 < count {
                let between = self.choices.one_of(&["; ", ";", " ; /* next */ ", ";\n"]);
                self.put(if self.sql.contains("# end") || self.sql.contains("-- end") {
                    "\n;"
                } else {
                    between
                });
            }
        }
        self.state.known = false;
        // Ids of several statements.
        self.tag("skips");
        self.end_with_look();
    }

    fn sql_prepare(&mut self) {
        self.insert(0);
        let quoted = self.quoted();
        let tags = std::mem::take(&mut self.tags);
        self.put(&format!("PREPARE s FROM {quoted}"));
        self.end();
        for _ in 0..=self.choices.below(2) {
            self.put("EXECUTE s");
            self.tags.clone_from(&tags);
            self.end_with_look();
        }
        self.put("DEALLOCATE PREPARE s");
        self.end();
        self.state.known = false;
    }

    /// Takes the text that was written so far, and makes a string literal of it.
    fn quoted(&mut self) -> String {
        let text = std::mem::take(&mut self.sql);
        let escaped = if self.state.mode.no_backslash_escapes { text } else { text.replace('\\', "\\\\") };
        format!("'{}'", escaped.replace('\'', "''"))
    }

    fn session_statement(&mut self) {
        let kind = self.pick(&SESSION, 0);
        let fixed = |text: &str| text.to_owned();
        let mode = &mut self.state.mode;
        let text = match kind {
            "begin" => fixed("START TRANSACTION"),
            "commit" => fixed("COMMIT"),
            "rollback" => fixed("ROLLBACK"),
            "savepoint" => fixed("SAVEPOINT p"),
            "rollback_to_savepoint" => fixed("ROLLBACK TO SAVEPOINT p"),
            "ansi_quotes" => {
                *mode = Mode { ansi_quotes: true, ..Mode::default() };
                fixed("SET sql_mode = 'ANSI_QUOTES,STRICT_TRANS_TABLES'")
            }
            "no_backslash_escapes" => {
                *mode = Mode { no_backslash_escapes: true, ..Mode::default() };
                fixed("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")
            }
            "zero_is_a_value" => {
                *mode = Mode { zero_is_a_value: true, ..Mode::default() };
                fixed("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES'")
            }
            "no_mode" => {
                *mode = Mode::default();
                fixed("SET @@session.sql_mode = ''")
            }
            "strict_mode" => {
                *mode = Mode::default();
                fixed("SET sql_mode = CONCAT('STRICT', '_ALL_TABLES')")
            }
            "mode_by_variable" => {
                *mode = Mode { ansi_quotes: true, no_backslash_escapes: true, ..Mode::default() };
                self.put("SET @m = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'");
                self.end();
                fixed("SET sql_mode = @m")
            }
            "use" => fixed("USE judge"),
            "init_db" => fixed("!use judge"),
            "last_insert_id" => fixed("SELECT LAST_INSERT_ID()"),
            "identity" => fixed("SELECT @@identity, @@last_insert_id"),
            "set_last_insert_id" => {
                self.state.known = true;
                fixed("SELECT LAST_INSERT_ID(55)")
            }
            "set_the_variable" => {
                self.state.known = true;
                fixed("SET last_insert_id = 44")
            }
            "row_count" => fixed("SELECT ROW_COUNT()"),
            "warnings" => fixed("SHOW WARNINGS"),
            "count_warnings" => fixed("SELECT @@warning_count, @@error_count"),
            "select_rows" => {
                self.uses("t");
                fixed("SELECT * FROM t ORDER BY id")
            }
            "select_in_quotes" => fixed("SELECT 'INSERT INTO t (a) VALUES (1)' AS x"),
            "update" => {
                self.uses("t");
                fixed("UPDATE t SET a = a + 1 WHERE a < 20")
            }
            "delete" => {
                self.uses("t");
                fixed("DELETE FROM t WHERE a > 80")
            }
            "set_variable" => fixed("SET @v = 15, @s = 'x;y'"),
            "reset" => {
                self.state.mode = Mode::default();
                self.state.known = true;
                self.put("!reset");
                self.end();
                fixed("!use judge")
            }
            "error" => fixed("SELECT nonsense FROM nowhere_at_all"),
            "child" => {
                self.uses("tc");
                self.state.known = true;
                fixed("INSERT INTO tc (parent, n) VALUES (LAST_INSERT_ID(), 3)")
            }
            _ => fixed("DO 1"),
        };
        self.put(&text);
        self.end();
    }
}

/// Every production by its group, drawn or not.
pub(crate) fn all_productions() -> BTreeMap<(&'static str, &'static str), u64> {
    let pages = [
        GROUPS,
        crate::random::insert::GROUPS,
        crate::random::clauses::GROUPS,
        crate::random::select::GROUPS,
        crate::random::values::GROUPS,
        crate::random::writer::GROUPS,
    ];
    let groups = pages.into_iter().flatten();
    groups.flat_map(|group| group.productions.iter().map(|one| ((group.name, one.name), 0))).collect()
}

impl Drawn {
    pub(crate) fn productions_of_session(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.productions.iter().map(|(_, name)| *name).filter(|(group, _)| *group == FLAGS.name)
    }

    /// The productions of a statement, without the session's. Statements that were drawn as one share them.
    pub(crate) fn productions_of(
        &self,
        statement: usize,
    ) -> impl Iterator<Item = (&'static str, &'static str)> {
        let first =
            self.productions.iter().map(|(first, _)| *first).filter(|first| *first <= statement).max();
        self.productions
            .iter()
            .filter(move |(at, (group, _))| Some(*at) == first && *group != FLAGS.name)
            .map(|(_, name)| *name)
    }
}
