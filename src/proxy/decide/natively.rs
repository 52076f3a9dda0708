//! Statements into ruled tables that go to the server as they came, which numbers their rows by its
//! AUTO_INCREMENT: what cannot be rewritten, where `rewrite.on_doubt` is "forward", and what there
//! are no ids for, where the rule's `unavailable` is "native". The generator goes on above the
//! table's ids after them.

use std::sync::Arc;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::response::PrepareOk;
use crate::proxy::decide::params::Params;
use crate::proxy::decide::verdict::{Verdict, refused};
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::need::{Need, Supplied, Unsent};
use crate::proxy::relay::outstanding::Note;
use crate::proxy::relay::{Arrived, Violation};
use crate::proxy::serve::ask::Question;
use crate::proxy::serve::progress::Progress;
use crate::proxy::serve::session::{Going, Session};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::target::Target;
use crate::rewrite::{bulk, execution};
use crate::sql::look::has_whole_word;
use crate::sql::name::each_name;
use crate::table_name::TableName;
use crate::tables::Tables;

/// What runs statements that the text does not show.
const RUNS_OTHERS: [&[u8]; 3] = [b"call", b"prepare", b"execute"];

impl Session {
    /// What was judged of a text, unless it is refused, and may go on as it came.
    pub(in crate::proxy) fn doubted(
        &self,
        tables: &Arc<Tables>,
        (command, text): (Command, &[u8]),
        judged: Result<Verdict, Unsent>,
        supplied: &mut Supplied,
    ) -> Result<Verdict, Unsent> {
        let why = match &judged {
            Err(Unsent::Refused(Refusal::Statement(why))) if self.shared.forwards => why,
            Err(Unsent::Unreadable(shown)) if self.shared.forwards => match &shown.refusal {
                Refusal::Statement(why) => why,
                _ => return judged,
            },
            _ => return judged,
        };
        let Some(natively) = self.named_targets(tables, text, supplied)? else { return judged };
        self.trace_forwarded(text, why);
        let effects = Effects::forwarded(natively);
        Ok(if command == Command::StmtPrepare {
            Verdict::PassActing(effects)
        } else {
            Verdict::Pass(effects)
        })
    }

    /// The ruled tables that a text names, where each keeps its AUTO_INCREMENT. `None`: one does not, or
    /// which they are is not known for certain.
    fn named_targets(
        &self,
        tables: &Arc<Tables>,
        text: &[u8],
        supplied: &mut Supplied,
    ) -> Result<Option<Vec<Arc<Target>>>, Need> {
        let session = &self.relay.known.session;
        let Some(state) = session.state() else { return Ok(None) };
        if RUNS_OTHERS.iter().any(|word| has_whole_word(text, word)) {
            return Ok(None);
        }
        let mut names = Vec::new();
        let default = state.database.as_deref();
        let is_read = each_name(text, state.dialect, |schema, name| {
            names.extend(schema.or(default).map(|schema| TableName::new(schema, name)));
        });
        if is_read.is_err() {
            return Ok(None);
        }
        names.sort();
        names.dedup();
        let mut found: Vec<Arc<Target>> = Vec::new();
        for name in names {
            match supplied.lookup(tables, &name.schema, &name.table) {
                Lookup::Ruled(target) if target.may_be_forwarded() => found.push(target),
                Lookup::NotRuled | Lookup::Missing => {}
                Lookup::Unknown if supplied.may_look() => return Err(Need::Table { name, again: false }),
                _ => return Ok(None),
            }
        }
        Ok(Some(found).filter(|found| !found.is_empty()))
    }

    /// An execution of what was prepared as it came. `None`: it is none.
    pub(in crate::proxy) fn execute_forwarded(&mut self, arrived: Arrived) -> Option<Progress> {
        let effects = arrived.statement.and_then(|id| self.relay.known.statements.effects(id))?;
        if effects.natively.is_empty() {
            return None;
        }
        let tables = self.shared.tables.now();
        for target in &effects.natively {
            let (schema, table) = target.named();
            match self.relay.known.supplied.lookup(&tables, schema, table) {
                Lookup::NotRuled => {}
                Lookup::Ruled(now) if now.may_be_forwarded() && self.shared.forwards => {}
                Lookup::Unknown if self.relay.known.supplied.may_look() => {
                    let name = TableName::new(schema, table);
                    return Some(Progress::Needs(Need::Table { name, again: false }));
                }
                _ => {
                    let refusal = refused(target.at(
                        "the table's rule or columns have changed since the statement was prepared; prepare the statement again",
                    ));
                    return Some(self.refuse(arrived, &refusal));
                }
            }
        }
        Some(self.pass(arrived, true, Note::effects(effects)))
    }

    /// A command that there are no ids for, and whose table's rule has the server number the rows. What the
    /// server has of a prepared statement counts up from an id of ours: the client's text is prepared
    /// for this execution.
    pub(in crate::proxy) async fn execute_natively(
        &mut self,
        arrived: Arrived,
        why: String,
    ) -> Going<Progress> {
        let payload = self.relay.payload(arrived).into_owned();
        let Some((text, mut execution, note)) = self.native_execution(arrived, &payload) else {
            return Ok(self.refuse(arrived, &Refusal::NoId(why)));
        };
        let answer = match self.ask(Question::PrepareAndKeep(&text)).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(self.fail(arrived, &error.payload)),
        };
        let ok = PrepareOk::parse(&answer.first, self.relay.forms).map_err(Violation::Backend)?;
        if let Some(place) = execution.get_mut(1..5) {
            place.copy_from_slice(&ok.statement_id.to_le_bytes());
        }
        self.until(|relay| relay.up.is_clear()).await?;
        let nr_shift = self.relay.send_instead(&execution, arrived);
        self.relay.owe(arrived.command.reply_to(&execution), false, nr_shift, note);
        self.relay.close(ok.statement_id);
        Ok(Progress::Done)
    }

    /// The client's text, the execution with its types, and what its answer needs. `None`: it has no
    /// AUTO_INCREMENT, its text was not kept or would be read otherwise now, or data was sent ahead for it.
    fn native_execution(&self, arrived: Arrived, payload: &[u8]) -> Option<(Vec<u8>, Vec<u8>, Note)> {
        let statement = self.relay.known.statements.get(arrived.statement?)?;
        let (source, prepared) = (&statement.kept.source, statement.kept.prepared.as_ref()?);
        let target = &prepared.insert.target;
        let state = self.relay.known.session.state()?;
        let is_as_then = source.dialect == state.dialect && source.database == state.database;
        if !is_as_then || !statement.long_data.is_empty() || !target.may_go_without() {
            return None;
        }
        let expected = statement.expected(self.relay.known.has_attributes());
        let params = Params::parse(arrived.command, payload, expected).ok()?;
        let (execution, meaning) = (params.build(), self.meaning(prepared).ok()?);
        let explicit = match params {
            Params::One(one) => execution::Draft::new(prepared, &one, meaning).ok()?.explicit,
            Params::Bulk(bulk) => bulk::Draft::new(prepared, &bulk, meaning).ok()?.explicit,
        };
        let tables = self.shared.tables.now();
        let explicit = Explicit::expect(&tables, target, 0, &explicit).into_iter().collect();
        let effects = Effects { natively: vec![target.clone()], ..Effects::default() };
        Some((source.text.clone()?, execution, Note::statements(Vec::new(), explicit, effects)))
    }
}
