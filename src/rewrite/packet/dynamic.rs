//! PREPARE, EXECUTE and EXECUTE IMMEDIATE. The text within is planned as if it were prepared by
//! itself, and edited within its quotes.
//!
//! PREPARE adds parameters of our own to the text, as in the binary protocol, and EXECUTE binds
//! them. An EXECUTE that we do not see (a routine's) has too few parameters and fails with 1210, so
//! no id is used twice.

use std::borrow::Cow;
use std::sync::Arc;

use super::cut::AFTER_OPAQUE;
use super::{Halt, StatementPlace, Walk, refused};
use crate::mysql::error::{PARSE_ERROR, parse_err};
use crate::rewrite::packet::inner::{Inner, Order, Text, TextPlace, check_around, prepared, taken_edits};
use crate::rewrite::plan::edit::{Edit, Id, Piece};
use crate::rewrite::plan::prepared_names::{
    NamedChange, NamedStatement, Value, question, question_at_execute,
};
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{Planned, Protocol};
use crate::rewrite::splice::{needs_blank, put_fixed};
use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};
use crate::sql::lex::{Lexer, Span, is_name_byte};
use crate::sql::look::may_insert;
use crate::sql::statement::dynamic::{self, Dynamic, TextSource, Using};
use crate::sql::statement::for_statement::ModeSetting;

impl Walk<'_> {
    pub(super) fn dynamic(
        &mut self,
        lexer: &Lexer<'_>,
        dynamic: Dynamic,
        place: StatementPlace,
    ) -> Result<(), Halt> {
        if !self.context.any_rules {
            self.effects.opaque = true;
            return Ok(());
        }
        if self.protocol == Protocol::Prepare {
            // Neither server prepares these (1295).
            return Err(Box::new(self.unreadable(place.start, "PREPARE or EXECUTE in a prepared statement")));
        }
        match dynamic {
            Dynamic::Prepare { name, source } => {
                let text = self.text_of(lexer, &source, place)?;
                let change = match text {
                    Some(text) => NamedChange::Prepared(name, self.prepare(lexer, &text, place)?),
                    // The text is NULL: the server's own error, after which there is no statement
                    // of this name.
                    None => NamedChange::Dropped(name),
                };
                self.effects.prepared_names.push((place.nth, change));
                Ok(())
            }
            Dynamic::Immediate { source, using } => match self.text_of(lexer, &source, place)? {
                Some(text) => self.immediate(lexer, &text, &using, place),
                None => Ok(()),
            },
            Dynamic::Execute { name, using } => self.execute(lexer, &name, &using, place),
            Dynamic::Deallocate { name } => {
                self.effects.prepared_names.push((place.nth, NamedChange::Dropped(name)));
                Ok(())
            }
        }
    }

    /// `None`: the server's own error.
    fn text_of<'t>(
        &mut self,
        lexer: &Lexer<'_>,
        source: &'t TextSource,
        place: StatementPlace,
    ) -> Result<Option<Text<'t>>, Halt> {
        match source {
            TextSource::Literal(literal) => {
                Ok(Some(Text { bytes: Cow::Borrowed(&literal.text), place: TextPlace::Literal(literal) }))
            }
            // MySQL takes strings and variables only.
            TextSource::Computed(_) if !self.dialect.is_mariadb() => Ok(None),
            TextSource::Evaluated(span) | TextSource::Computed(span) => {
                let is_computed = matches!(source, TextSource::Computed(_));
                let value =
                    self.ask(lexer, *span, place, if is_computed { question_at_execute } else { question })?;
                if is_computed && matches!(value, Value::Null | Value::Text(_)) {
                    self.settled = vec![self.settled(*span, &value)];
                }
                match value {
                    Value::Null => Ok(None),
                    Value::Text(text) => Ok(Some(Text {
                        bytes: Cow::Owned(text.into_bytes()),
                        place: TextPlace::Evaluated(*span),
                    })),
                    // The server itself reports an error in the client's statement, with its right
                    // place.
                    Value::Failed(error)
                        if parse_err(&error).is_some_and(|(code, _)| code == PARSE_ERROR) =>
                    {
                        Ok(None)
                    }
                    Value::Failed(error) => Err(Box::new(Planned::Fails(error))),
                    Value::NotAsked | Value::Unknown => refused(
                        "the text for PREPARE or EXECUTE IMMEDIATE is longer than 1,000,000 bytes, or cannot be read; prepare the \
                         statement in the driver",
                    ),
                }
            }
            TextSource::Unseen => refused(
                "cannot see the text for PREPARE or EXECUTE IMMEDIATE; write the text as a string, or set a user's variable to the \
                 text first",
            ),
        }
    }

    /// A string in the place of an expression, in any character set.
    fn settled(&self, span: Span, value: &Value) -> Edit {
        let mut piece = Vec::new();
        match value {
            Value::Text(text) if dynamic::may_be_written(text.as_bytes(), self.dialect.charset) => {
                piece.push(b'\'');
                piece.extend(dynamic::escape(text.as_bytes(), b'\'', self.dialect.sql_mode));
                piece.push(b'\'');
            }
            Value::Text(text) => {
                piece.extend_from_slice(b"_utf8mb4 0x");
                piece.extend(text.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()));
            }
            _ => piece.extend_from_slice(b"NULL"),
        }
        Edit::over(span, Piece::Text(piece.into()))
    }

    /// The dialect of a text that runs in this place.
    fn dialect_of(&self, text: &Text<'_>, place: StatementPlace) -> Result<Dialect, Halt> {
        let mut dialect = self.dialect;
        match place.around.settings.sql_mode {
            ModeSetting::Known(sql_mode) => dialect.sql_mode = sql_mode,
            ModeSetting::Unknown if may_insert(&text.bytes) => {
                return refused(
                    "SET STATEMENT sets a sql_mode that the text does not show; set sql_mode for the session",
                );
            }
            ModeSetting::Session | ModeSetting::Unknown => {}
        }
        if self.effects.opaque && may_insert(&text.bytes) {
            return self.cut(AFTER_OPAQUE);
        }
        if let TextPlace::Evaluated(_) = text.place {
            dialect.charset = ClientCharset::Utf8;
        }
        Ok(dialect)
    }

    fn prepare(
        &mut self,
        lexer: &Lexer<'_>,
        text: &Text<'_>,
        place: StatementPlace,
    ) -> Result<Arc<NamedStatement>, Halt> {
        let dialect = self.dialect_of(text, place)?;
        let mut is_staged = false;
        let sent = match self.inner(&text.bytes, dialect, &self.database(), place)? {
            Inner::Passes(_) => None,
            Inner::Fills(insert) if insert.stage.is_some() => {
                is_staged = true;
                self.prepare_staged(lexer, text, *insert)?;
                None
            }
            Inner::Fills(mut insert) => {
                let sent = prepared(&insert, &text.bytes)?;
                let pieces = insert.pieces().map_err(|refusal| Box::new(Planned::Refused(refusal)))?;
                let pieces =
                    pieces.into_iter().map(|(edit, piece)| Edit { piece: Piece::Text(piece.into()), ..edit });
                insert.edits = self.within(&insert.target, text, pieces.collect())?;
                self.settled.clear();
                insert.ids = 0;
                insert.explicit = Vec::new();
                insert.is_named = true;
                self.inserts.push(*insert);
                Some(sent)
            }
        };
        let collation = if is_staged { self.collation()?.to_owned() } else { String::new() };
        let (source, database) = (text.bytes.to_vec(), self.database());
        Ok(Arc::new(NamedStatement { source, dialect, database, collation, sent, is_staged }))
    }

    /// Edits of a text as edits of the packet.
    fn within(&self, target: &Target, text: &Text<'_>, edits: Vec<Edit>) -> Result<Vec<Edit>, Halt> {
        let sql_mode = self.dialect.sql_mode;
        match text.place {
            TextPlace::Literal(literal) => {
                let mut out = Vec::with_capacity(edits.len());
                for edit in edits {
                    let (start, end) = (literal.place(edit.start), literal.place(edit.end));
                    // In quotes another byte may follow than in the text.
                    let next = self.text.get(end as usize).copied();
                    let blank = needs_blank(&edit, &text.bytes) && !next.is_some_and(is_name_byte);
                    let piece = match edit.piece {
                        Piece::Text(piece) => Piece::Text(literal.escape(&piece, sql_mode).into()),
                        other => other,
                    };
                    out.push(Edit::over(Span { start, end }, piece));
                    out.extend(blank.then(|| Edit::at(end, Piece::Text(b" "[..].into()))));
                }
                Ok(out)
            }
            TextPlace::Evaluated(span) => {
                if !dynamic::may_be_written(&text.bytes, self.dialect.charset) {
                    return refused(target.at(
                        "the client's character set cannot write the text of the user's variable; connect with utf8mb4",
                    ));
                }
                Ok(quoted(span, &text.bytes, edits, sql_mode))
            }
        }
    }

    fn immediate(
        &mut self,
        lexer: &Lexer<'_>,
        text: &Text<'_>,
        using: &Using,
        place: StatementPlace,
    ) -> Result<(), Halt> {
        let dialect = self.dialect_of(text, place)?;
        let mut insert = match self.inner(&text.bytes, dialect, &self.database(), place)? {
            Inner::Passes(ran) => {
                self.runs(*ran);
                return Ok(());
            }
            Inner::Fills(insert) => insert,
        };
        check_around(&insert, place)?;
        if insert.stage.is_some() {
            return self.run_staged(lexer, text, *insert, using, place);
        }
        let edits = insert.edits.iter().map(|edit| {
            let mut out = Vec::new();
            let piece = match &edit.piece {
                Piece::Id(_) => edit.piece.clone(),
                fixed => {
                    put_fixed(&mut out, fixed, &insert);
                    Piece::Text(out.into())
                }
            };
            Edit { piece, ..edit.clone() }
        });
        let mut edits = self.within(&insert.target, text, edits.collect())?;
        if using.args.len() == insert.params as usize {
            let taking = self.bind(lexer, &mut insert, using, place)?;
            let rows = edits.iter().filter_map(|edit| match edit.piece {
                Piece::Id(Id { row, .. }) => Some(row),
                _ => None,
            });
            let order = Order::new(rows, &taking);
            for edit in &mut edits {
                if let Piece::Id(id) = &mut edit.piece {
                    id.nth = order.nth(id.row);
                }
            }
            edits.extend(taken_edits(&taking, &order));
        }
        insert.edits = edits;
        self.settled.clear();
        self.add(*insert, place.start, using.end)
    }
}

/// Puts a string in the place of an expression: the text that the server evaluated it to, with the
/// text's edits.
fn quoted(span: Span, text: &[u8], edits: Vec<Edit>, sql_mode: SqlMode) -> Vec<Edit> {
    let piece = |from: u32, to: u32| {
        let bytes = text.get(from as usize..to as usize).unwrap_or_default();
        dynamic::escape(bytes, b'\'', sql_mode)
    };
    let at_end = |piece| Edit::at(span.end, piece);
    let mut out = vec![Edit::over(span, Piece::Text(b"'"[..].into()))];
    let mut from = 0;
    for edit in edits {
        out.push(at_end(Piece::Text(piece(from, edit.start).into())));
        let blank = needs_blank(&edit, text);
        out.push(at_end(match edit.piece {
            Piece::Text(text) => Piece::Text(dynamic::escape(&text, b'\'', sql_mode).into()),
            other => other,
        }));
        out.extend(blank.then(|| at_end(Piece::Text(b" "[..].into()))));
        from = edit.end;
    }
    let mut rest = piece(from, u32::try_from(text.len()).unwrap_or(u32::MAX));
    rest.push(b'\'');
    out.push(at_end(Piece::Text(rest.into())));
    out
}
