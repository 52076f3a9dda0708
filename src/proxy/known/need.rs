//! The facts that a client's command cannot be decided without. Deciding is plain code that looks at what is known. If a
//! fact is missing, the code says so and ends: `serve/supply` finds it out, and the command is decided again from the
//! start.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::ids::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::explicit::set_id::NextIds;
use crate::proxy::known::statements::Kept;
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{self, InsertPlan, Lookup, Unreadable};
use crate::table_name::TableName;
use crate::tables::{Tables, packet_looks_from};

#[derive(Debug)]
pub(crate) enum Need {
    /// sql_mode, character set and default database of the session, after all that was sent before
    /// has taken effect.
    State { must_ask: bool },
    /// The views of ruled tables, after DDL.
    Views,
    /// The columns of a table; `again`: also where they are known.
    Table { name: TableName, again: bool },
    /// A question: does the session have a temporary table of this name?
    Temporary(TableName),
    /// The server's answer to this query.
    Value { question: Vec<u8> },
    /// Which of the generators that calls draw from the server has a SEQUENCE of.
    Sequences(Arc<Tables>),
    /// The users of the store, which has not answered since the start.
    Users,
    /// A question: does the server have a function of this name, which a call would be?
    Function(&'static str),
    /// `insert_id`, where it is still set. The proxy takes it from the server for this table; `None`: the server
    /// uses it.
    SetId { taken_for: Option<Arc<Target>> },
    /// A question: does the session's user have this right?
    Right(IdRight, Arc<Target>),
    /// A look at the table's highest id.
    Look(Arc<Target>),
    /// `n` ids, which are not at hand.
    Ids { tables: Arc<Tables>, target: Arc<Target>, n: NonZeroU64 },
    /// A guarantee that ids which were taken before a wait may still be used.
    Guard { tables: Arc<Tables>, target: Arc<Target> },
    /// The rules that come after these.
    Rules { retired: Arc<Tables> },
    /// A statement of the client's that the server has another text of.
    Prepared { id: u32, kept: Arc<Kept> },
}

impl From<plan::PlanNeed> for Need {
    fn from(need: plan::PlanNeed) -> Self {
        match need {
            plan::PlanNeed::Table(name) => Need::Table { name, again: false },
            plan::PlanNeed::Temporary(name) => Need::Temporary(name),
            plan::PlanNeed::Value { question } => Need::Value { question },
            plan::PlanNeed::Settings => Need::State { must_ask: true },
        }
    }
}

/// A right to the id's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum IdRight {
    Insert,
    /// SELECT and UPDATE: `id=LAST_INSERT_ID(id)` needs both.
    Update,
}

/// Why a command is not sent to the server, or not yet.
pub(crate) enum Unsent {
    /// The command is decided again when this is known.
    Needs(Need),
    Refused(Refusal),
    /// There are no ids to be had, for the reason that is named; the table keeps its AUTO_INCREMENT, and
    /// its rule has the server number the rows then.
    WithoutIds(String),
    /// The server's own error packet is its answer.
    Failed(Vec<u8>),
    /// The server says what is wrong with it.
    Unreadable(Shown),
}

impl From<Need> for Unsent {
    fn from(need: Need) -> Self {
        Unsent::Needs(need)
    }
}

impl From<Refusal> for Unsent {
    fn from(refusal: Refusal) -> Self {
        Unsent::Refused(refusal)
    }
}

/// A statement that cannot be read, as it is shown to the server.
pub(crate) struct Shown {
    pub(crate) text: Vec<u8>,
    /// The text is one within a statement.
    pub(crate) is_inner: bool,
    /// The answer where the server finds nothing wrong with it.
    pub(crate) refusal: Refusal,
}

impl Shown {
    /// `text`: the packet's.
    pub(crate) fn new(unreadable: Unreadable, text: &[u8]) -> Self {
        let Unreadable { statement, inner, refusal } = unreadable;
        let is_inner = inner.is_some();
        let text = inner.unwrap_or_else(|| text.get(statement).unwrap_or(text).to_vec());
        Shown { text, is_inner, refusal: refusal.into() }
    }
}

/// The present time, which those who decide are handed.
pub(crate) type Clock = fn() -> Instant;

/// Questions to the server for one command: more than it names tables, and than DDL comes in
/// between.
const QUESTIONS_MAX: u32 = 100;
/// Looks at tables for one command: more than a packet of many statements names tables.
const LOOKS_MAX: u32 = 1_000;

/// Ids that were taken for the command and are not in it yet.
#[derive(Debug)]
struct Held {
    under: Arc<Tables>,
    target: Arc<Target>,
    ids: IdBlock,
    /// The looks at the table that had ended by then.
    looks: u64,
}

/// The facts that were found out for the client's present command. The session keeps the rest of them where they
/// belong: with its temporary tables, rights and names.
#[derive(Debug, Default)]
pub(crate) struct Supplied {
    questions: u32,
    /// The amount of DDL that had been seen when something was first looked up for the command. Later DDL runs beside
    /// the command, and does not make it look again.
    since: Option<u64>,
    looks: u32,
    /// Since when tables are looked at for the command.
    looked_from: Option<Instant>,
    /// Tables whose columns were read again, for their age or because they did not fit the text.
    read_again: Vec<TableName>,
    /// Ids that were waited for, or were at hand while others were waited for. Only the rules that
    /// they were taken under may use them. What is left is not issued.
    ids: Vec<Held>,
    /// Keeps ids that the client wrote from being issued while others are waited for.
    explicit: Vec<ExplicitIds>,
    /// `insert_id`, which the server is to use for it.
    pub(crate) next_ids: Option<NextIds>,
    /// Why there are no ids for it: the server is to number its rows.
    pub(crate) without_ids: Option<String>,
}

impl Supplied {
    /// Notes what is found out for the command from here on. `is_first`: nothing of its session is under way before it,
    /// whose DDL would have to be waited for.
    pub(crate) fn note(&mut self, need: &Need, tables: &Tables, is_first: bool, now: Instant) {
        match need {
            Need::Views | Need::Sequences(_) | Need::Users => self.questions += 1,
            Need::Table { name, again } => {
                self.questions += 1;
                if is_first && !*again {
                    self.since.get_or_insert_with(|| tables.ddl_seen());
                }
                if *again {
                    self.read_again.push(name.clone());
                }
            }
            Need::Look(_) => {
                self.looks += 1;
                self.looked_from = packet_looks_from(self.looked_from, now).or(Some(now));
            }
            _ => {}
        }
    }

    /// True if one more question may be asked.
    pub(crate) fn may_ask(&self) -> bool {
        self.questions < QUESTIONS_MAX
    }

    /// True if the table's columns may be read again, for their age or because they did not fit the text.
    pub(crate) fn may_read_again(&self, table: &TableName) -> bool {
        self.may_ask() && !self.read_again.contains(table)
    }

    /// The meaning of a name to the command; never waits.
    pub(crate) fn lookup(&self, tables: &Tables, (schema, table): (&str, &str), now: Instant) -> Lookup {
        let ddl = self.since.unwrap_or_else(|| tables.ddl_seen());
        tables.lookup_since(schema, table, ddl, now)
    }

    /// The table whose columns were read so long ago that they are read again before the statements continue.
    pub(crate) fn outdated<'a>(
        &self,
        tables: &Tables,
        mut inserts: impl Iterator<Item = &'a InsertPlan>,
        clock: Clock,
    ) -> Option<Need> {
        // The columns of the table, for an INSERT that names none. Once for each table: where it cannot be read, what
        // is known has to do.
        let insert =
            inserts.find(|insert| insert.lists_none && tables.may_be_outdated(&insert.target, clock()))?;
        let (schema, table) = insert.target.named();
        let name = TableName::new(schema, table);
        self.may_read_again(&name).then_some(Need::Table { name, again: true })
    }

    pub(crate) fn put(&mut self, tables: &Arc<Tables>, target: Arc<Target>, ids: IdBlock) {
        let looks = target.usage.looks.ended.load(Ordering::Acquire);
        self.ids.push(Held { under: tables.clone(), target, ids, looks });
    }

    /// The look at a table before its ids are taken, if the statement hides collisions and it is due. The looks at all tables of a packet count for
    /// 10 s ([`packet_looks_from`]), or those at its first tables would be too old when the last one is looked at.
    pub(crate) fn look_before(
        &self,
        tables: &Tables,
        insert: &InsertPlan,
        target: &Arc<Target>,
        clock: Clock,
    ) -> Result<(), Unsent> {
        if !insert.hides_collisions() || !tables.must_be_seen(target, self.looked_from, clock()) {
            return Ok(());
        }
        if self.looks < LOOKS_MAX {
            return Err(Need::Look(Arc::clone(target)).into());
        }
        let why = "Rowstamp cannot look at so many tables for one packet, or others keep storing ids in them; send fewer statements at a time";
        Err(Refusal::NoId(target.at(why)).into())
    }

    pub(crate) fn take(
        &mut self,
        tables: &Arc<Tables>,
        target: &Arc<Target>,
        n: NonZeroU64,
    ) -> Option<IdBlock> {
        // Another session's look may have found them in the table meanwhile.
        let is_unlooked = |held: &Held| held.looks == held.target.usage.looks.ended.load(Ordering::Acquire);
        self.ids.retain(|held| Arc::ptr_eq(&held.under, tables) && is_unlooked(held));
        let at = self.ids.iter().position(|held| held.target == *target && held.ids.count() == n.get())?;
        Some(self.ids.remove(at).ids)
    }

    pub(crate) fn keep_expecting(&mut self, explicit: impl IntoIterator<Item = ExplicitIds>) {
        self.explicit.extend(explicit);
    }

    /// All begins again by other rules.
    pub(crate) fn begin_again(&mut self) {
        *self = Supplied { questions: self.questions, looks: self.looks, ..Supplied::default() };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::{Need, QUESTIONS_MAX, Supplied};
    use crate::rules::RuleSet;
    use crate::store::memory::MemoryStore;
    use crate::table_name::TableName;
    use crate::tables::InForce;

    /// A re-read for age must not hide DDL that runs while the command waits, and nothing is read again twice.
    #[tokio::test]
    async fn what_is_noted_of_a_table_that_is_read() {
        let (rules, store) = (Arc::new(RuleSet::of_text("schema = 's'\n")), Arc::new(MemoryStore::new()));
        let in_force = InForce::open(rules, None, store, None, "me".into(), false).await.unwrap();
        let (tables, name) = (in_force.now(), TableName::new("s", "t"));
        for (again, is_first, since) in [(true, true, None), (false, false, None), (false, true, Some(0))] {
            let mut supplied = Supplied::default();
            let need = Need::Table { name: name.clone(), again };
            supplied.note(&need, &tables, is_first, Instant::now());
            assert_eq!(
                (supplied.since, supplied.may_read_again(&name)),
                (since, !again),
                "{need:?}, {is_first}"
            );
            assert!(supplied.may_ask());
            (1..QUESTIONS_MAX).for_each(|_| supplied.note(&need, &tables, is_first, Instant::now()));
            assert!(!supplied.may_ask() && !supplied.may_read_again(&name));
        }
    }
}
