//! Calls that draw ids (`decide/draws`): their ids are put in place in the client's lane, before the
//! command is decided. From here on it is read as if the client had written the ids.

use std::sync::Arc;
use std::time::Instant;

use crate::mysql::error::Refusal;
use crate::mysql::packet::as_packets;
use crate::proxy::decide::drawn_execution;
use crate::proxy::decide::draws::{self, Drawing};
use crate::proxy::decide::verdict::refused;
use crate::proxy::known::drawn::{Drawn, DrawnIds, PreparedDraws};
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::relay::command::Arrived;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Session, Stop};
use crate::rewrite::plan::target::Target;
use crate::sql::digest::Digest;
use crate::tables::Tables;

/// The server has no function of that name, or would look for it in the default database, and there is none.
const NO_FUNCTION: [u16; 2] = [1305, 1046];

impl Session {
    /// Draws the ids of the calls in the text that has arrived, and puts them in place there. `Some`: what begins at
    /// this byte of the text is read when all before it has run.
    pub(super) fn draw(
        &mut self,
        tables: &Arc<Tables>,
        arrived: &mut Arrived,
    ) -> Result<Option<usize>, Unsent> {
        if self.is_drawn(tables, arrived)? || !tables.has_draws() {
            return Ok(None);
        }
        self.relay.known.session.drawn.age(Instant::now());
        let (came, is_audited) = (&*arrived, self.shared.audit.is_on());
        let drawing = self.with_basis(tables, came, |known, by, payload| {
            draws::draw(known, by, came.text(payload), is_audited)
        })?;
        match drawing {
            Drawing::Nothing => {}
            Drawing::Cut(at) => return Ok(Some(at)),
            Drawing::Drawn { text, taken, digest, prepares } => {
                let payload = [came.split(&self.relay.payload(came)).0, &text].concat();
                self.put_drawn(arrived, &payload, (tables, taken), (digest, prepares));
            }
        }
        Ok(None)
    }

    /// Draws the ids of the calls in an execution of statement `id`, and puts them in place there.
    pub(super) fn draw_execution(
        &mut self,
        tables: &Arc<Tables>,
        arrived: &mut Arrived,
        id: u32,
    ) -> Result<(), Unsent> {
        if self.is_drawn(tables, arrived)? {
            return Ok(());
        }
        let (bound, taken, digest) = self.with_basis(tables, arrived, |known, by, payload| {
            drawn_execution::draw(known, by, id, payload)
        })?;
        self.put_drawn(arrived, &bound, (tables, taken), (Some(digest), None));
        Ok(())
    }

    /// Takes back ids that were drawn under other rules. True if the command has its ids, and they may be sent.
    fn is_drawn(&mut self, tables: &Arc<Tables>, arrived: &mut Arrived) -> Result<bool, Unsent> {
        if let Some(drawn) = self.relay.drawn.take_if(|drawn| !Arc::ptr_eq(&drawn.under, tables)) {
            // Other proxies may have issued the same ids since.
            self.relay.replace(arrived, drawn.came);
        }
        let Some(drawn) = &self.relay.drawn else { return Ok(false) };
        let mut targets = drawn.taken.iter().map(|taken| &taken.target);
        match targets.find(|target| !tables.is_guarded(target)).cloned() {
            Some(target) => Err(Need::Guard { tables: tables.clone(), target }.into()),
            None => Ok(true),
        }
    }

    /// The payload takes the place of the client's in its lane.
    fn put_drawn(
        &mut self,
        arrived: &mut Arrived,
        payload: &[u8],
        (tables, taken): (&Arc<Tables>, Vec<DrawnIds>),
        (digest, prepares): (Option<Digest>, Option<PreparedDraws>),
    ) {
        let came = self.relay.replace(arrived, as_packets(0, payload));
        let prepares = prepares.map(Arc::new);
        self.relay.drawn = Some(Box::new(Drawn { under: tables.clone(), taken, digest, came, prepares }));
    }

    /// A generator whose ids, drawn by the present command, are not known to be this proxy's any more.
    pub(super) fn drawn_unguarded(&self) -> Result<Option<Arc<Target>>, Refusal> {
        let Some(drawn) = &self.relay.drawn else { return Ok(None) };
        if drawn.under.is_retired() {
            return Err(refused(
                "the rules have changed while the statement ran; nothing was stored; send the statement again",
            ));
        }
        let mut targets = drawn.taken.iter().map(|taken| &taken.target);
        Ok(targets.find(|target| !drawn.under.is_guarded(target)).cloned())
    }

    pub(super) async fn ask_sequences(&mut self, tables: &Tables) -> Result<(), Stop> {
        if let Err(error) = self.meanwhile(tables.read_sequences()).await? {
            tracing::warn!(%error, "cannot read the SEQUENCEs of the server: calls draw no ids");
            let why = "Rowstamp could not ask the server for its SEQUENCEs; try again";
            return Err(Refusal::NoId(why.into()).into());
        }
        Ok(())
    }

    /// Waits as long as for ids.
    pub(super) async fn wait_for_users(&mut self) -> Result<(), Stop> {
        if let Some(users) = self.shared.users.clone() {
            let limit = self.shared.id_deadline;
            let _ = self.meanwhile(tokio::time::timeout(limit, users.first_look())).await?;
        }
        Ok(())
    }

    /// Has the server say whether it has a function that a call would be.
    pub(super) async fn ask_function(&mut self, name: &'static str) -> Result<(), Stop> {
        let ddl = self.shared.tables.now().ddl_seen();
        let arguments = if name == "ROWSTAMP_TAKE" { "1,1" } else { "1" };
        let sql = format!("SELECT {name}({arguments})");
        let answer = self.ask(Question::Prepare(sql.as_bytes())).await?;
        let is_there = !matches!(&answer, Err(error) if NO_FUNCTION.contains(&error.code));
        let database = self.relay.known.session.state().and_then(|state| state.database.clone());
        self.relay.known.session.drawn.answered(name, database, ddl, is_there, Instant::now());
        Ok(())
    }
}
