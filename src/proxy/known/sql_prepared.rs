//! Statements that SQL's PREPARE gave a name in this session, and values that the server was asked for.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::mysql::reader::Reader;
use crate::proxy::known::answered::Answered;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::prepared_names::{self, NameMeaning, NamedChange, Value};
use crate::rules::mentions::DefaultSchema;
use crate::sql::dialect::Dialect;
use crate::sql::look::{Executed, LooksBack, executed};
use crate::tables::Tables;
use crate::text_query::unhex;

#[derive(Debug, Default)]
pub(crate) struct SqlPrepared {
    /// By name in lower case.
    statements: HashMap<String, NameMeaning>,
    /// A routine ran: there may be names that were never seen.
    routine_ran: bool,
    /// Statements were prepared under other names and not looked at. A rule may concern them by now.
    pub(crate) others_lost: bool,
    answers: Vec<(Vec<u8>, Value)>,
    /// The session shares its connection with others (MySQL Router).
    pub(crate) shares_connection: bool,
    /// `collation_connection`. `None`: it may have changed.
    pub(crate) collation: Option<String>,
}

impl prepared_names::SessionFacts for SqlPrepared {
    fn prepared(&self, name: &str) -> NameMeaning {
        match self.statements.get(&name.to_lowercase()) {
            None if self.others_lost => NameMeaning::Lost,
            None if self.routine_ran => NameMeaning::Unseen,
            None => NameMeaning::Unknown,
            Some(known) => known.clone(),
        }
    }

    fn value(&self, question: &[u8]) -> Value {
        let answer = self.answers.iter().find(|(asked, _)| asked == question);
        answer.map_or(Value::NotAsked, |(_, value)| value.clone())
    }

    fn collation(&self) -> Option<&str> {
        self.collation.as_deref()
    }

    fn takes_last_insert_id(&self) -> bool {
        !self.shares_connection
    }
}

impl SqlPrepared {
    /// The way in which a statement depends on the one before it: by its own text, and by that which EXECUTE runs.
    pub(crate) fn looks_back(&self, text: &[u8], dialect: Dialect) -> LooksBack {
        let back = LooksBack::of(text, dialect);
        match executed(text, dialect) {
            Some(Executed::Text { text, alone }) => back.and_runs(&text, dialect, alone),
            Some(Executed::Name { name, alone }) => match self.statements.get(&name.to_lowercase()) {
                Some(NameMeaning::Is(statement) | NameMeaning::Perhaps(statement)) => {
                    back.and_runs(&statement.source, statement.dialect, alone)
                }
                // The text of the prepared statement was not seen.
                _ => back,
            },
            None => back,
        }
    }

    /// True if any statement named by PREPARE may concern a rule (`concerns`). Names that were lost count as concerning.
    pub(crate) fn may_run(&self, concerns: impl Fn(&[u8]) -> bool) -> bool {
        self.others_lost
            || self.statements.values().any(|known| match known {
                NameMeaning::Is(statement) | NameMeaning::Perhaps(statement) => concerns(&statement.source),
                NameMeaning::Lost | NameMeaning::Unknown | NameMeaning::Unseen => true,
            })
    }

    /// Texts that the server answered with, for the command that is being judged.
    pub(crate) fn answered_texts(&self) -> impl Iterator<Item = &str> {
        self.answers.iter().filter_map(|(_, value)| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The command that asked is judged.
    pub(crate) fn forget_answers(&mut self) {
        self.answers.clear();
    }

    /// `failed_at`: how many results of the packet came before the one that failed, where one did.
    pub(crate) fn take(&mut self, effects: &Effects, failed_at: Option<usize>) {
        if effects.routine {
            self.routine_ran = true;
            for known in self.statements.values_mut() {
                if let NameMeaning::Is(statement) = known {
                    *known = NameMeaning::Perhaps(statement.clone());
                }
            }
        }
        for (nth, change) in &effects.prepared_names {
            let name = change.name().to_lowercase();
            match (change, failed_at) {
                (NamedChange::Prepared(_, statement), None) => {
                    self.statements.insert(name, NameMeaning::Is(statement.clone()));
                }
                // A PREPARE that fails leaves no statement of the name. After a statement that failed nothing ran.
                (NamedChange::Prepared(..), Some(0)) if *nth == 0 => {
                    self.statements.remove(&name);
                }
                (_, Some(0)) => {}
                (NamedChange::Prepared(..) | NamedChange::Dropped(_), Some(_)) => {
                    self.statements.insert(name, NameMeaning::Lost);
                }
                (NamedChange::Dropped(_), None) => {
                    self.statements.remove(&name);
                }
            }
        }
    }

    pub(crate) fn answered(&mut self, question: Vec<u8>, answer: Answered) {
        let value = match answer {
            Ok(answer) => answer.row.as_deref().and_then(value).unwrap_or(Value::Unknown),
            Err(error) => Value::Failed(error.payload),
        };
        self.answers.push((question, value));
    }
}

/// The row that answers a question of [`prepared_names`]'s.
fn value(row: &[u8]) -> Option<Value> {
    let mut r = Reader::new(row);
    let digit = |bytes: &[u8], digit: u8| bytes.iter().copied().find(|&b| b != 0) == Some(digit);
    if digit(r.lenenc_bytes("is it NULL").ok()?, b'1') {
        return Some(Value::Null);
    }
    // NULL (0xFB) where the server could not write it.
    if r.peek()? == 0xFB {
        return None;
    }
    unhex(r.lenenc_bytes("text").ok()?).map(Value::Text)
}

/// Texts of SQL's PREPARE that passed as no rule could concern them. A later rule may concern one;
/// then its name is to be prepared again.
#[derive(Debug, Default)]
pub(crate) struct PreparedUnseen {
    texts: Vec<u8>,
    /// Some were not kept.
    is_full: bool,
    /// The rules that the last of them passed under.
    under: Weak<Tables>,
}

/// Texts of a session are kept up to so many bytes.
const UNSEEN_BYTES_MAX: usize = 64 * 1024;

impl PreparedUnseen {
    pub(crate) fn note(&mut self, text: &[u8], tables: &Arc<Tables>) {
        self.under = Arc::downgrade(tables);
        if self.texts.len() + text.len() > UNSEEN_BYTES_MAX {
            self.is_full = true;
        } else {
            self.texts.extend_from_slice(text);
            self.texts.push(b'\n');
        }
    }

    /// True if one of the texts may name a table that has a rule by now.
    pub(crate) fn may_run(&self, tables: &Arc<Tables>) -> bool {
        let is_known = self.texts.is_empty() && !self.is_full;
        if is_known || std::ptr::eq(self.under.as_ptr(), Arc::as_ptr(tables)) {
            return false;
        }
        self.is_full || tables.mention(&self.texts, DefaultSchema::Unknown).table
    }
}

#[cfg(test)]
mod tests {
    use super::{Value, value};

    #[test]
    fn rows_that_answer() {
        assert_eq!(value(b"\x011\xFB"), Some(Value::Null));
        assert_eq!(value(b"\x010\x0461 62"), None);
        assert_eq!(value(b"\x010\x046162"), Some(Value::Text("ab".into())));
        assert_eq!(value(b"\x02\x000\x04\x006\x001"), Some(Value::Text("a".into())));
        assert_eq!((value(b"\x010\x01-"), value(b"\x010\xFB"), value(b"")), (None, None, None));
    }
}
