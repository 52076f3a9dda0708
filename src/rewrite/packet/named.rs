//! An INSERT that goes by way of a stage, by SQL's PREPARE, EXECUTE and EXECUTE IMMEDIATE: the session runs it
//! by the client's own text, and binds what USING has.
//!
//! In the server's keeping the name stands for a statement with one parameter more, which does
//! nothing. So an EXECUTE that we do not see (a routine's) fails with 1210.

use super::{Halt, StatementPlace, Walk, refused, unread};
use crate::rewrite::packet::inner::{Text, TextPlace, too_many_params};
use crate::rewrite::plan::edit::{Edit, Piece};
use crate::rewrite::plan::prepared_names::{Database, NamedStatement};
use crate::rewrite::plan::stage::{Kind, Named};
use crate::rewrite::plan::{InsertPlan, PlanNeed, Planned};
use crate::sql::dialect::{ClientCharset, SqlMode};
use crate::sql::lex::{Lexer, Span};
use crate::sql::statement::dynamic::{self, Using};

impl Walk<'_> {
    pub(super) fn prepare_staged(
        &mut self,
        lexer: &Lexer<'_>,
        text: &Text<'_>,
        mut insert: InsertPlan,
    ) -> Result<(), Halt> {
        let mut nothing = b"DO ?".to_vec();
        nothing.extend(b",?".repeat(insert.params as usize));
        let end = u32::try_from(text.bytes.len()).unwrap_or(u32::MAX);
        let (span, nothing) = match text.place {
            TextPlace::Literal(literal) => {
                (Span { start: literal.place(0), end: literal.place(end) }, nothing)
            }
            TextPlace::Evaluated(span) => (span, [b"'", &*nothing, b"'"].concat()),
        };
        self.put_named(text, Vec::new(), &mut insert)?;
        insert.edits = vec![Edit::over(span, Piece::Text(nothing.into()))];
        insert.is_named = true;
        self.settled.clear();
        self.named_alone(lexer)?;
        self.inserts.push(insert);
        Ok(())
    }

    /// EXECUTE IMMEDIATE.
    pub(super) fn run_staged(
        &mut self,
        lexer: &Lexer<'_>,
        text: &Text<'_>,
        mut insert: InsertPlan,
        using: &Using,
        place: StatementPlace,
    ) -> Result<(), Halt> {
        if using.args.len() != insert.params as usize {
            // The server's own error, 1210.
            return Ok(());
        }
        self.put_named(text, args(lexer, using), &mut insert)?;
        self.settled.clear();
        self.put_staged(lexer, insert, place, using.end)
    }

    pub(super) fn collation(&self) -> Result<&str, Halt> {
        self.context.session.collation().ok_or_else(|| Box::new(Planned::Needs(PlanNeed::Settings)))
    }

    pub(super) fn execute_staged(
        &mut self,
        lexer: &Lexer<'_>,
        statement: &NamedStatement,
        mut insert: InsertPlan,
        using: &Using,
        place: StatementPlace,
    ) -> Result<(), Halt> {
        // Statements before it in its packet may set these.
        self.named_alone(lexer)?;
        let modes = |mode: SqlMode| mode.without(SqlMode::NO_AUTO_VALUE_ON_ZERO);
        let is_as_then = statement.dialect.charset == self.dialect.charset
            && modes(statement.dialect.sql_mode) == modes(self.dialect.sql_mode)
            && statement.database == self.database()
            && statement.database != Database::Unknown
            && statement.collation == self.collation()?;
        if !is_as_then {
            let what = insert.stage.as_ref().map_or("the statement", |stage| stage.kind.name());
            return refused(insert.target.at(format!(
                "the default database, sql_mode, character set or collation has changed since PREPARE of {what}; PREPARE the \
                 statement again"
            )));
        }
        match using.args.len().checked_sub(insert.params as usize) {
            Some(0) => {}
            Some(1) => return refused(insert.target.at(too_many_params(insert.params))),
            // The server's own error, 1210.
            _ => return Ok(()),
        }
        let stage = insert.stage.as_deref_mut();
        if let Some(stage) = stage {
            stage.named = Some(Named { text: statement.source.as_slice().into(), args: args(lexer, using) });
        }
        self.put_staged(lexer, insert, place, using.end)
    }

    fn put_staged(
        &mut self,
        lexer: &Lexer<'_>,
        insert: InsertPlan,
        place: StatementPlace,
        end: u32,
    ) -> Result<(), Halt> {
        if place.depth > 0 {
            return refused(insert.target.at(
                "SET STATEMENT is in front of an EXECUTE that Rowstamp runs as several statements; set the variables for the \
                 session",
            ));
        }
        self.named_alone(lexer)?;
        self.add(insert, place.start, end)
    }

    /// The lexer stands within the statement.
    fn named_alone(&self, lexer: &Lexer<'_>) -> Result<(), Halt> {
        let mut after = lexer.clone();
        match after.skip_statement() {
            Ok(_) => self.alone(after.position()),
            Err(odd) => refused(unread(odd)),
        }
    }

    fn put_named(&self, text: &Text<'_>, args: Vec<Box<[u8]>>, insert: &mut InsertPlan) -> Result<(), Halt> {
        let charset = self.dialect.charset;
        let may_be_written = match text.place {
            TextPlace::Evaluated(_) => dynamic::may_be_written(&text.bytes, charset),
            // The text is put between quotes again.
            TextPlace::Literal(_) => {
                text.bytes.is_ascii()
                    || matches!(
                        charset,
                        ClientCharset::Utf8
                            | ClientCharset::Latin1
                            | ClientCharset::OneByte(_)
                            | ClientCharset::Safe
                    )
            }
        };
        if !may_be_written {
            return refused(insert.target.at(
                "the client's character set cannot write the text of PREPARE or EXECUTE IMMEDIATE; connect with utf8mb4",
            ));
        }
        let Some(stage) = insert.stage.as_deref_mut() else { return Ok(()) };
        if matches!(stage.kind, Kind::Load { .. }) {
            let why = "Rowstamp cannot run LOAD by PREPARE or EXECUTE IMMEDIATE; send LOAD by itself";
            return refused(insert.target.at(why));
        }
        if stage.has_later_params {
            return refused(insert.target.at(
                "Rowstamp cannot PREPARE an INSERT ... SELECT with a placeholder after its query; prepare the statement in the driver",
            ));
        }
        stage.named = Some(Named { text: text.bytes.as_ref().into(), args });
        Ok(())
    }
}

fn args(lexer: &Lexer<'_>, using: &Using) -> Vec<Box<[u8]>> {
    using.args.iter().map(|arg| arg.of(lexer.text()).into()).collect()
}
