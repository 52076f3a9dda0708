//! INSERTs after the client has set `insert_id` (`known/explicit/set_id`). A text into a table that keeps its AUTO_INCREMENT goes to
//! the server as it came, which numbers the rows as ever. For any other statement the proxy takes the value from
//! the server, so that no later INSERT uses it there, and the rows get it by way of the rewritten statement.

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::proxy::decide::verdict::{Verdict, refused};
use crate::proxy::known::answered::text_of;
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::explicit::set_id::{NextIds, SET_ID_SQL, SetId};
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::{Need, Supplied, Unsent};
use crate::proxy::relay::outstanding::Purpose;
use crate::proxy::serve::ask::Question;
use crate::proxy::serve::progress::WithIds;
use crate::proxy::serve::session::{Session, Stop};
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::rules::model;
use crate::sql::name::quoted;
use crate::tables::Tables;

impl Session {
    /// What is to be known before a text that is run goes on.
    pub(in crate::proxy) fn needs_set_id(&self, plan: &Plan, supplied: &Supplied) -> Option<Need> {
        let passes = plan.may_pass();
        if self.relay.known.session.set_id != SetId::MayBeSet || passes && supplied.next_ids.is_some() {
            return None;
        }
        let insert = plan.inserts.iter().find(|insert| insert.may_take_ids())?;
        Some(Need::SetId { taken_for: (!passes).then(|| insert.target.clone()) })
    }

    /// The text goes on as it came: the server numbers its rows.
    pub(in crate::proxy) fn numbered_by_server(
        tables: &Arc<Tables>,
        mut plan: Plan,
        next: &NextIds,
    ) -> Result<Verdict, Refusal> {
        let mut explicit = Vec::new();
        for insert in std::mem::take(&mut plan.inserts) {
            may_be_written(&insert.target)?;
            let highest = [&insert.explicit[..], &[next.highest(insert.ids)]].concat();
            if insert.stage.is_none() {
                explicit.extend(Explicit::expect(tables, &insert.target, insert.statement, &highest));
            }
            if insert.stage.is_some() || next.is_passed_by(&insert.explicit) {
                plan.effects.natively.push(insert.target);
            }
        }
        Ok(Verdict::Send(WithIds { plan, ranges: Vec::new(), inserts: Vec::new(), explicit, text_at: 0 }))
    }

    /// Ids that the generator goes on above: those that the client wrote, and those that it says by `insert_id`.
    pub(in crate::proxy) fn expect(
        &self,
        tables: &Arc<Tables>,
        (insert, target): (&InsertPlan, &Arc<Target>),
        (ids, explicit): (u32, &[i128]),
        writes_each: bool,
    ) -> Result<Option<Explicit>, Refusal> {
        let (SetId::Taken(next), Some(n)) = (self.relay.known.session.set_id, NonZeroU64::new(ids.into()))
        else {
            return Ok(Explicit::expect(tables, target, insert.statement, explicit));
        };
        may_be_written(target)?;
        next.objection(insert, (ids, explicit), writes_each).map_or(Ok(()), Err)?;
        let block = next.block(n)?;
        let written = [explicit, &[block.first().into(), block.last().into()]].concat();
        Ok(Explicit::expect(tables, target, insert.statement, &written))
    }

    /// The ids of an INSERT: the generator's, unless the client says which.
    pub(in crate::proxy) fn take_ids(
        &self,
        tables: &Arc<Tables>,
        (insert, target): (&InsertPlan, &Arc<Target>),
        ids: u32,
        supplied: &mut Supplied,
    ) -> Result<IdBlock, Unsent> {
        let (SetId::Taken(next), Some(n)) = (self.relay.known.session.set_id, NonZeroU64::new(ids.into()))
        else {
            if supplied.without_ids.is_none() {
                supplied.look_before(tables, insert, target)?;
            }
            return self.take(tables, target, ids, supplied);
        };
        let (block, highest) = (next.block(n)?, target.highest_id());
        if block.last() > highest {
            return Err(Refusal::NoId(target.at(format_args!(
                "insert_id is set, and column {} holds ids up to {highest}, which the statement's ids exceed; set a lower insert_id",
                target.id_column()
            )))
            .into());
        }
        Ok(block)
    }

    /// What is sent uses it up.
    pub(in crate::proxy) fn spend_set_id(&mut self, inserts: &[InsertReply]) {
        if inserts.iter().any(InsertReply::is_said) {
            self.relay.known.session.set_id = SetId::Unset;
        }
    }

    /// The server has it again, for no statement has used it.
    pub(in crate::proxy) fn give_set_id_back(&mut self) {
        if let SetId::Taken(next) = self.relay.known.session.set_id {
            self.relay.query_own(Purpose::SetId, format!("SET insert_id={}", next.first()));
            self.relay.known.session.set_id = SetId::MayBeSet;
        }
    }

    /// Asks for `insert_id`. `taken_for`: and takes it from the server, for this table; the server may still have it
    /// otherwise.
    pub(in crate::proxy) async fn find_set_id(&mut self, taken_for: Option<Arc<Target>>) -> Result<(), Stop> {
        let answer = self.ask(Question::Query(SET_ID_SQL)).await?;
        let row = answer.map_err(|error| Stop::Failed(error.payload))?.row.unwrap_or_default();
        let read = text_of(&row).and_then(|answer| NextIds::parse(&answer));
        let (next, last_insert_id) =
            read.ok_or_else(|| refused("Rowstamp cannot read insert_id; try again"))?;
        if !next.is_set() {
            self.relay.known.session.set_id = SetId::Unset;
        } else if let Some(target) = taken_for {
            self.use_set_id_up(&target, last_insert_id).await?;
            self.relay.known.session.set_id = SetId::Taken(next);
        } else {
            self.relay.known.supplied.next_ids = Some(next);
        }
        Ok(())
    }

    /// Has the server forget `insert_id`. MySQL takes SET insert_id=0 for an id, and forgets one only when a row has used
    /// it.
    async fn use_set_id_up(&mut self, target: &Target, last_insert_id: u64) -> Result<(), Stop> {
        if self.relay.known.session.presumed_dialect().is_mariadb() {
            let unset = self.ask(Question::Query(b"SET insert_id=0")).await?;
            return unset.map(drop).map_err(|error| Stop::Failed(error.payload));
        }
        let schema = target.named().0;
        let name = format!("{}.`rowstamp insert_id`", quoted(schema));
        let create = format!(
            "CREATE TEMPORARY TABLE {name} (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) SELECT 1 AS used"
        );
        let drop = format!("DROP TEMPORARY TABLE {name}");
        let written =
            |sql: &str| Some(self.relay.known.session.state()?.dialect.charset.written(sql)?.into_owned());
        let (Some(create), Some(drop)) = (written(&create), written(&drop)) else {
            let why = "the client's character set cannot write the database's name; connect with utf8mb4";
            return Err(refused(target.at(why)).into());
        };
        let restore = format!("SET last_insert_id={last_insert_id}");
        let questions = [&create, &drop, restore.as_bytes()].map(Question::Query);
        let mut answers = self.ask_all(&questions).await?.into_iter();
        if let Some(Err(error)) = answers.next() {
            return Err(refused(target.at(format_args!(
                "insert_id is set, and MySQL forgets insert_id only when a row uses it; Rowstamp needs a temporary table for that row, \
                 and the server says {}, {}; GRANT CREATE TEMPORARY TABLES ON {}.* TO the account, or write the id itself",
                error.code,
                error.text,
                quoted(schema)
            )))
            .into());
        }
        Ok(())
    }
}

/// `insert_id` is an id that the client says.
fn may_be_written(target: &Target) -> Result<(), Refusal> {
    if target.rule.explicit != model::Explicit::Reject {
        return Ok(());
    }
    let why = "insert_id is set, and the table's rule rejects ids of the client; insert without insert_id";
    Err(refused(target.at(why)))
}
