//! A version of the rules made ready: the first, or the next while another is active.
//!
//! # Why no id comes twice while the rules change
//! 1. A statement takes its ids, then looks whether its version is retired, and is sent only if not
//!    ([`Tables::is_retired`]). So all that is ever sent under a version was taken before it
//!    retired.
//! 2. Tables are bound to other generators after that, and a binding raises the new generator above
//!    the bound that the store has of the old one (`ids/bindings`): above all that was taken.
//! 3. A generator whose description changed is opened a second time. Both draw from one bound, so
//!    their ranges never overlap (`ids/fence`), whatever their steps; the first is closed before
//!    the second is used, so ids go on ascending. What it hands back lies above all that it issued,
//!    and above the floor of no table: where a table is new to the generator, nothing is handed
//!    back. The same where the next one issues ids that the first left out, by its step and offset:
//!    others may have used those, so the tables are asked as if they were new.
//! 4. Where a step fails, panics or is cut off, tables may be bound to generators that never became
//!    active. The old rules go on as a version of their own that binds those tables back before it
//!    issues for them. After the last binding there is no way back, since old generators close:
//!    from there on it is the next version that becomes active ([`Handover`]).
//!
//! [`Handover`]: crate::tables::in_force

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::ids::sequence::{Seed, SequenceSpec};
use crate::ids::timestamp::Timestamp;
use crate::ids::timestamp::spec::TimestampSpec;
use crate::ids::{Generator, Sequence};
use crate::rules::RuleSet;
use crate::rules::column::Meant;
use crate::rules::model::{ColumnShape, GeneratorKind, GeneratorName, GeneratorSpec, Mode, Rule, TableShape};
use crate::rules::pattern::is_pattern;
use crate::sql::name::same_column;
use crate::tables::lookup::Known;
use crate::tables::{Backend, FLOOR_DEADLINE, TableError, Tables};

/// A ruled table of the backend, read before anything is changed.
struct Live {
    table: String,
    rule: Arc<Rule>,
    shape: Arc<TableShape>,
    /// How often DDL had been seen before it was read.
    ddl: u64,
    binding: Binding,
}

/// Whether a table is bound to its rule's generator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Binding {
    /// The rule's column is not there.
    NoColumn,
    /// Bound by the version before this one, and nothing that a binding depends on has changed.
    Kept,
    /// To be bound; holds ids up to `highest`.
    New { highest: u64 },
}

/// A version that is ready but for its bindings.
pub(super) struct Next {
    tables: Tables,
    live: Vec<Live>,
}

impl Tables {
    /// The first version: binds every table that the rules name and the backend has, and opens the
    /// generators above them.
    pub(super) async fn open(rules: Arc<RuleSet>, backend: Backend) -> Result<Tables, TableError> {
        let next = Next::make(None, rules, backend).await?;
        next.bind(None).await?;
        next.tables.know_all(next.live);
        Ok(next.tables)
    }

    async fn open_sequence(
        &self,
        spec: &GeneratorSpec,
        sequence: &SequenceSpec,
        max: u64,
    ) -> Result<Generator, TableError> {
        let Backend { store, owner, .. } = &self.backend;
        let (name, sequence) = (spec.name.to_string(), SequenceSpec::clone(sequence));
        match Sequence::open(store.clone(), &name, owner, sequence, 0, max).await {
            Ok(sequence) => Ok(Generator::Sequence(sequence)),
            Err(error) => Err(TableError::Open { origin: spec.origin.clone(), error }),
        }
    }

    /// Before the tables are looked at: which of their ids count depends on the node. `old`: what
    /// it has open is kept, where its rule is the same.
    async fn open_timestamps(&mut self, old: Option<&Tables>) -> Result<(), TableError> {
        for spec in self.rules.clone().acting_generators() {
            let GeneratorKind::Timestamp(timestamp) = &spec.kind else { continue };
            let kept = old.and_then(|old| old.generators.get(&spec.name)).filter(|open| {
                matches!(open, Generator::Timestamp(open) if open.spec() == timestamp && !open.is_lost())
            });
            let generator = match kept {
                Some(kept) => kept.clone(),
                None => self.open_timestamp(spec, timestamp).await?,
            };
            self.generators.insert(spec.name.clone(), generator);
        }
        Ok(())
    }

    async fn open_timestamp(
        &self,
        spec: &GeneratorSpec,
        timestamp: &TimestampSpec,
    ) -> Result<Generator, TableError> {
        let Backend { store, owner, clock, .. } = &self.backend;
        let (name, timestamp) = (spec.name.to_string(), timestamp.clone());
        match Timestamp::open(store.clone(), &name, owner, timestamp, 0, clock.clone()).await {
            Ok(timestamp) => {
                if self.backend.schema.is_some() && !self.backend.trusts_clock {
                    timestamp.hold();
                    self.compare_clock(&timestamp).await;
                }
                Ok(Generator::Timestamp(timestamp))
            }
            Err(error) => Err(TableError::Open { origin: spec.origin.clone(), error }),
        }
    }

    /// Lets a generator go that waits for its clock, where the backend's says the same.
    async fn compare_clock(&self, timestamp: &Timestamp) {
        let Some(schema) = &self.backend.schema else { return };
        let asked = Instant::now();
        match schema.clock().await {
            Ok(moment) => drop(timestamp.compare_clock(moment, asked.elapsed())),
            Err(error) => tracing::debug!(%error, "the backend's clock cannot be read"),
        }
    }

    /// See [`InForce::compare_clocks`](crate::tables::InForce::compare_clocks).
    pub(super) async fn compare_clocks(&self) {
        for generator in self.generators.values() {
            if let Generator::Timestamp(timestamp) = generator
                && timestamp.is_held()
            {
                self.compare_clock(timestamp).await;
            }
        }
    }

    /// Reads and locks what the rules name, and changes nothing else. `old`: what it has bound is
    /// not asked for its ids.
    async fn survey(&self, old: Option<&Tables>) -> Result<Vec<Live>, TableError> {
        let mut live = Vec::new();
        let mut is_locking = false;
        for (table, rule) in self.names().await? {
            let ddl = self.backend.ddl.seen();
            let Some(live_table) = self.live_table(&rule.schema, &table).await? else { continue };
            let shape = Arc::new(live_table.shape);
            let (rule, binding) = match rule.meant(&table, shape.columns.iter()) {
                Meant::Passes | Meant::Lacks(_) => (rule, Binding::NoColumn),
                Meant::Fills(rule) if old.is_some_and(|old| old.binds_as(self, &rule, &table)) => {
                    (rule, Binding::Kept)
                }
                Meant::Fills(rule) => {
                    self.lock(&rule, &table).await?;
                    is_locking = true;
                    (rule, Binding::New { highest: 0 })
                }
            };
            live.push(Live { table, rule, shape, ddl, binding });
        }
        self.lock_missing(&live).await;
        if is_locking {
            self.locks_settled().await;
        }
        for one in &mut live {
            if let Binding::New { highest } = &mut one.binding {
                *highest = self.highest(&one.rule, &one.table).await?;
            }
        }
        Ok(live)
    }

    /// Tables that rules name exactly and that may be made later.
    async fn lock_missing(&self, live: &[Live]) {
        let Some(locks) = &self.backend.locks else { return };
        let there: HashSet<String> = live.iter().map(|one| self.bound_name(&one.rule, &one.table)).collect();
        let missing: Vec<String> = self.exact_names().filter(|name| !there.contains(name)).collect();
        locks.take_ahead(&missing).await;
    }

    /// By [`Tables::bound_name`], the names of active rules that are no patterns.
    pub(super) fn exact_names(&self) -> impl Iterator<Item = String> {
        let exact = self.rules.rules().filter(|rule| rule.mode == Mode::On && !is_pattern(&rule.table));
        exact.map(|rule| self.bound_name(rule, &rule.table))
    }

    /// Each table of the backend that a rule names, with the rule.
    async fn names(&self) -> Result<Vec<(String, Arc<Rule>)>, TableError> {
        let Some(schema) = &self.backend.schema else { return Ok(Vec::new()) };
        let found = schema.ruled_tables(self.backend.case, &self.rules).await?;
        for ambiguous in &found.ambiguous {
            tracing::error!("{ambiguous}");
        }
        // Those that a pattern passes over are known too: the first statement into one does not
        // wait.
        let all = found.tables.into_iter().chain(found.passed);
        Ok(all.filter(|(_, rule)| rule.mode == Mode::On).collect())
    }

    pub(super) fn seed(&self, generator: &GeneratorName) -> Seed {
        match self.rules.generator(generator).map(|spec| &spec.kind) {
            Some(GeneratorKind::Sequence(sequence)) => sequence.seed,
            Some(GeneratorKind::Timestamp(_)) | None => Seed::Tables,
        }
    }

    pub(super) fn is_timestamp(&self, generator: &GeneratorName) -> bool {
        let spec = self.rules.generator(generator);
        matches!(spec.map(|spec| &spec.kind), Some(GeneratorKind::Timestamp(_)))
    }

    /// Whether the table is bound here as `next` would bind it by `rule`, and nobody has moved it
    /// since.
    fn binds_as(&self, next: &Tables, rule: &Rule, table: &str) -> bool {
        self.is_bound_by(rule, table)
            && !self.generators.get(&rule.generator).is_some_and(Generator::is_lost)
            && matches!(self.rules.acting(self.backend.case, &rule.schema, table), Ok(Some(mine))
                if mine.generator == rule.generator
                    && (mine.is_auto() || same_column(&mine.column, &rule.column))
                    && self.seed(&mine.generator) == next.seed(&rule.generator)
                    && self.leaves_no_more_out(next, &rule.generator))
    }

    /// Whether `next` issues no ids that this version leaves to others, the server's own counter
    /// say: where the step goes from 2 to 1, those in between may be in the table.
    fn leaves_no_more_out(&self, next: &Tables, generator: &GeneratorName) -> bool {
        let kind = |rules: &RuleSet| rules.generator(generator).map(|spec| spec.kind.clone());
        match (kind(&self.rules), kind(&next.rules)) {
            (Some(GeneratorKind::Sequence(old)), Some(GeneratorKind::Sequence(new))) => new.is_within(&old),
            _ => true,
        }
    }

    fn know_all(&self, live: Vec<Live>) {
        for one in live {
            let lookup = self.meaning(&one.rule, &one.table, Some(one.shape));
            self.put(&one.rule.schema, &one.table, lookup, one.ddl, one.binding != Binding::NoColumn);
        }
    }

    /// The same rules and views as a version of its own, without generators and tables.
    pub(super) fn with_backend(&self, backend: Backend) -> Tables {
        let mut tables = Tables::new(self.rules.clone(), backend);
        tables.views = self.views.clone();
        tables.shadows.store(self.shadows.load_full());
        tables.renew_mentions();
        tables
    }

    /// These rules as a version of its own, which knows none of the tables that were to be bound
    /// otherwise.
    fn again(&self, without: &[Live]) -> Tables {
        let mut tables = self.with_backend(self.backend.clone());
        tables.generators.clone_from(&self.generators);
        let mut known = Known::clone(&self.known.load());
        for one in without.iter().filter(|one| matches!(one.binding, Binding::New { .. })) {
            known.remove(&self.folded(&one.rule.schema, &one.table).into_owned());
        }
        tables.known.store(known.into());
        tables
    }

    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// Whether what was planned under this version, and not sent, must be planned under the next.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }
}

impl Next {
    /// Makes all that may fail and that nobody sees. The old version, where there is one, serves
    /// on.
    pub(super) async fn make(
        old: Option<&Tables>,
        rules: Arc<RuleSet>,
        backend: Backend,
    ) -> Result<Next, TableError> {
        let mut tables = Tables::new(rules.clone(), backend);
        tables.open_timestamps(old).await?;
        tables.read_views().await?;
        tables.read_shadows().await;
        let live = tables.survey(old).await?;
        // Before their tables are bound: a table that moves away meanwhile takes them along
        // (`ids/fence/moves`).
        for spec in rules.acting_generators() {
            let GeneratorKind::Sequence(sequence) = &spec.kind else { continue };
            let max = max_of(spec, sequence, &live);
            let kept = old.and_then(|old| old.generators.get(&spec.name)).filter(|open| {
                matches!(open, Generator::Sequence(open)
                    if open.spec() == sequence && open.max() == sequence.last_id(max) && !open.is_lost())
            });
            let generator = match kept {
                Some(kept) => kept.clone(),
                None => tables.open_sequence(spec, sequence, max).await?,
            };
            tables.generators.insert(spec.name.clone(), generator);
        }
        Ok(Next { tables, live })
    }

    /// The old rules, to go on where this version does not become active.
    pub(super) fn instead(&self, old: &Tables) -> Tables {
        old.again(&self.live)
    }

    /// Binds what is to be bound; the caller has retired `old` and holds `fetching`. Also returns
    /// the old generators that this version does not have: they are closed before it is used.
    pub(super) async fn bound(self, old: &Tables) -> Result<(Tables, Vec<Leaving>), TableError> {
        let new_to = self.bind(Some(old)).await?;
        let Next { tables, live } = self;
        let mut leaving = Vec::new();
        for (name, generator) in &old.generators {
            if !tables.generators.get(name).is_some_and(|next| next.is(generator)) {
                leaving.push(Leaving { generator: generator.clone(), hands_back: !new_to.contains(name) });
            }
        }
        tables.know_all(live);
        Ok((tables, leaving))
    }

    /// As if the backend had this table, new to its generator.
    #[cfg(test)]
    pub(super) fn binds(&mut self, schema: &str, table: &str, highest: u64) {
        let rule = self.tables.rules.find(self.tables.backend.case, schema, table).unwrap().unwrap().clone();
        let shape = Arc::new(TableShape { columns: Vec::new() });
        self.live.push(Live {
            table: table.to_owned(),
            rule,
            shape,
            ddl: 0,
            binding: Binding::New { highest },
        });
    }

    /// Returns the generators that have a table which they had not before.
    async fn bind(&self, old: Option<&Tables>) -> Result<HashSet<GeneratorName>, TableError> {
        let mut new_to = HashSet::new();
        for one in &self.live {
            let Binding::New { highest } = one.binding else { continue };
            let floor = self.tables.bind_above(&one.rule, &one.table, highest, old).await?;
            if let Some(generator) = self.tables.generators.get(&one.rule.generator) {
                generator.raise_floor(floor, FLOOR_DEADLINE).await?;
            }
            new_to.insert(one.rule.generator.clone());
        }
        Ok(new_to)
    }
}

/// A generator that the next version has not got, or has otherwise.
pub(super) struct Leaving {
    generator: Generator,
    hands_back: bool,
}

impl Leaving {
    pub(super) async fn close(self) {
        if self.hands_back {
            self.generator.close().await;
        } else {
            self.generator.burn();
        }
    }
}

/// The last id that all the generator's columns hold.
fn max_of(spec: &GeneratorSpec, sequence: &SequenceSpec, live: &[Live]) -> u64 {
    let mine = live.iter().filter(|one| one.rule.generator == spec.name);
    let widths = mine.filter_map(|one| one.shape.column(&one.rule.column).and_then(ColumnShape::highest));
    widths.fold(sequence.max.unwrap_or(i64::MAX.unsigned_abs()), u64::min)
}
