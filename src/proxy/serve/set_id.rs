//! `insert_id`, which the client has set: taken from the server for a statement that the proxy numbers, and given back where
//! that one is not sent.

use std::sync::Arc;

use crate::proxy::decide::verdict::refused;
use crate::proxy::known::answered::text_of;
use crate::proxy::known::explicit::set_id::{NextIds, SET_ID_SQL, SetId};
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::relay::outstanding::Purpose;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Session, Stop};
use crate::rewrite::plan::target::Target;
use crate::sql::name::quoted;

impl Session {
    /// The statement that is sent uses `insert_id` up.
    pub(super) fn spend_set_id(&mut self, inserts: &[InsertReply]) {
        if inserts.iter().any(InsertReply::is_said) {
            self.relay.known.session.set_id = SetId::Unset;
        }
    }

    /// The server has it again, for no statement has used it.
    pub(super) fn give_set_id_back(&mut self) {
        if let SetId::Taken(next) = self.relay.known.session.set_id {
            self.relay.query_own(Purpose::SetId, format!("SET insert_id={}", next.first));
            self.relay.known.session.set_id = SetId::MayBeSet;
        }
    }

    /// Asks for `insert_id`. `taken_for`: and takes it from the server, for this table; the server may still have it otherwise.
    pub(super) async fn find_set_id(&mut self, taken_for: Option<Arc<Target>>) -> Result<(), Stop> {
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

    /// Has the server forget `insert_id`. MySQL takes SET insert_id=0 for an id, and forgets one only when a row has used it.
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
        let written = |sql: &str| self.relay.known.session.written(sql);
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
