//! A version of the rules made ready: the first, or the next while another is active.
//!
//! # Why no id comes twice while the rules change
//! 1. A statement takes its ids, then looks whether its version is retired, and is sent only if not
//!    ([`Tables::is_retired`]). So all that is ever sent under a version was taken before it
//!    retired.
//! 2. Tables are assigned to other generators after that, and a binding raises the new generator above
//!    the bound that the store has of the old one (`ids/bindings`): above all that was taken.
//! 3. A generator whose description changed is opened a second time. Both draw from one bound, so
//!    their ranges never overlap (`ids/fence`), whatever their steps; the first is closed before
//!    the second is used, so ids go on ascending. What it hands back lies above all that it issued,
//!    and above the floor of no table: where a table is new to the generator, nothing is handed
//!    back. The same where the next one issues ids that the first left out, by its step and offset:
//!    others may have used those, so the tables are asked as if they were new.
//! 4. Where a step fails, panics or is cut off, tables may be assigned to generators that never became
//!    active. The old rules go on as a version of their own that assigns those tables back before it
//!    issues for them. After the last binding there is no way back, since old generators close:
//!    from there on it is the next version that becomes active ([`Succession`]).
//!
//! [`Succession`]: crate::tables::in_force

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ids::sequence::Seed;
use crate::ids::{BIGINT_MAX, Generator, close_all};
use crate::rules::RuleSet;
use crate::rules::model::{GeneratorKind, GeneratorName, Rule};
use crate::sql::name::same_column;
use crate::store::Store;
use crate::tables::lookup::{Entries, Entry};
use crate::tables::survey::{Binding, Live};
use crate::tables::{Common, TableError, Tables};

/// A version that is ready but for its bindings.
pub(super) struct Next {
    tables: Tables,
    live: Vec<Live>,
}

impl Tables {
    /// The first version: assigns every table that the rules name and the backend has, and opens the
    /// generators above them.
    pub(super) async fn open(rules: Arc<RuleSet>, common: Common) -> Result<Tables, TableError> {
        let next = Next::make(None, rules, common).await?;
        next.assign(None).await?;
        next.tables.know_all(next.live);
        Ok(next.tables)
    }

    /// Opens the timestamp generators, before the tables are looked at: which of their ids count depends on the node.
    async fn open_timestamps(&self, old: Option<&Tables>) -> Result<(), TableError> {
        let mut opened = Vec::new();
        for spec in self.rules.acting_generators() {
            let GeneratorKind::Timestamp(timestamp) = &spec.kind else { continue };
            opened.push((spec.name.clone(), self.timestamp(spec, timestamp, old).await?, None));
        }
        self.generators.add_all(opened);
        self.compare_clocks().await;
        Ok(())
    }

    pub(super) fn seed(&self, rule: &Rule) -> Seed {
        match self.rules.generator_of(rule).map(|spec| &spec.kind) {
            Some(GeneratorKind::Sequence(sequence)) => sequence.seed,
            Some(GeneratorKind::Timestamp(_)) | None => Seed::Tables,
        }
    }

    pub(super) fn is_timestamp(&self, rule: &Rule) -> bool {
        let spec = self.rules.generator_of(rule);
        matches!(spec.map(|spec| &spec.kind), Some(GeneratorKind::Timestamp(_)))
    }

    /// True if the table is assigned here as `next` would assign it by `rule`, and nobody has moved it
    /// since.
    pub(super) fn assigns_as(&self, next: &Tables, rule: &Rule, table: &str) -> bool {
        self.is_assigned_by(rule, table)
            && self.generators.with(&rule.generator, |open| Some(!open.is_lost())).unwrap_or(true)
            && matches!(self.rules.acting(self.common.case, &rule.schema, table), Ok(Some(mine))
                if mine.generator == rule.generator
                    && (mine.is_auto() || same_column(&mine.column, &rule.column))
                    && self.seed(&mine) == next.seed(rule)
                    && self.leaves_no_more_out(&mine, next, rule))
    }

    /// True if `next` issues no ids that this version leaves to others, for example to the server's own
    /// counter: if the step goes from 2 to 1, the ids in between may be in the table.
    fn leaves_no_more_out(&self, mine: &Rule, next: &Tables, rule: &Rule) -> bool {
        let kind = |rules: &RuleSet, rule: &Rule| rules.generator_of(rule).map(|spec| spec.kind.clone());
        match (kind(&self.rules, mine), kind(&next.rules, rule)) {
            (Some(GeneratorKind::Sequence(old)), Some(GeneratorKind::Sequence(new))) => new.is_within(&old),
            _ => true,
        }
    }

    fn know_all(&self, live: Vec<Live>) {
        let known = live.into_iter().map(|one| {
            let lookup = self.meaning(&one.rule, &one.table, Some(one.shape));
            let key = self.folded(&one.rule.schema, &one.table).into_owned();
            (key, Entry::read(lookup, (one.read_at, one.ddl), one.binding != Binding::NoColumn))
        });
        self.put_all(&known.collect::<Vec<_>>());
    }

    /// A new version with the same rules and views, without generators and tables.
    pub(super) fn with_common(&self, common: Common) -> Tables {
        let mut tables = Tables::new(self.rules.clone(), common);
        tables.views = self.views.clone();
        tables.shadows.store(self.shadows.load_full());
        tables.id_columns.store(self.id_columns.load_full());
        tables.renew_mentions();
        tables
    }

    /// These rules as a version of its own, which knows none of the tables that were to be assigned
    /// otherwise.
    fn again(&self, without: &[Live]) -> Tables {
        let mut tables = self.with_common(self.common.clone());
        tables.generators = self.generators.clone();
        let mut known = Entries::clone(&self.known.load());
        for one in without.iter().filter(|one| matches!(one.binding, Binding::New { .. })) {
            known.remove(&self.folded(&one.rule.schema, &one.table).into_owned());
        }
        tables.known.store(known.into());
        tables
    }
}

impl Next {
    /// Makes all that may fail and that nobody sees. The old version, where there is one, serves
    /// on.
    pub(super) async fn make(
        old: Option<&Tables>,
        rules: Arc<RuleSet>,
        common: Common,
    ) -> Result<Next, TableError> {
        let tables = Tables::new(rules, common);
        tables.open_timestamps(old).await?;
        tables.read_views().await?;
        tables.read_shadows().await;
        let mut live = tables.survey(old).await?;
        tables.make_timestamps(&live, old).await?;
        tables.read_highest(&mut live).await?;
        // Before their tables are assigned: a table that moves away meanwhile takes them along
        // (`ids/fence/moves`).
        let narrowest = narrowest(&live);
        tables.open_sequences(&live, &narrowest, old).await?;
        Ok(Next { tables, live })
    }

    /// The old rules, to go on where this version does not become active.
    pub(super) fn instead(&self, old: &Tables) -> Tables {
        old.again(&self.live)
    }

    /// Assigns what is to be assigned; the caller has retired `old` and holds `fetching`. Also returns
    /// the old generators that this version does not have: they are closed before it is used.
    pub(super) async fn assigned(self, old: &Tables) -> Result<(Tables, Vec<Leaving>), TableError> {
        let new_to = self.assign(Some(old)).await?;
        let Next { tables, live } = self;
        let mut leaving = Vec::new();
        for (name, generator) in old.generators.all() {
            if !tables.generators.get(&name).is_some_and(|next| next.is(&generator)) {
                leaving.push(Leaving { generator, hands_back: !new_to.contains(&name) });
            }
        }
        tables.know_all(live);
        Ok((tables, leaving))
    }

    /// Adds a table, as if the backend had it and it were new to its generator.
    #[cfg(test)]
    pub(super) fn assigns(&mut self, schema: &str, table: &str, highest: u64) {
        let rule = self.tables.rules.find(self.tables.common.case, schema, table).unwrap().unwrap().clone();
        let shape = Arc::new(crate::rules::model::TableShape {
            columns: Vec::new(),
            shows_insert_id: false,
            fires_on_update: false,
        });
        self.live.push(Live {
            table: table.to_owned(),
            rule,
            shape,
            read_at: std::time::Instant::now(),
            ddl: 0,
            binding: Binding::New { highest },
        });
    }

    /// Returns the generators that have a table which they had not before, each above the ids of
    /// all of them.
    async fn assign(&self, old: Option<&Tables>) -> Result<HashSet<GeneratorName>, TableError> {
        let progress = &self.tables.common.progress;
        let new: Vec<(&Live, u64)> = self
            .live
            .iter()
            .filter_map(|one| match one.binding {
                Binding::New { highest } => Some((one, highest)),
                Binding::NoColumn | Binding::Kept => None,
            })
            .collect();
        progress.begin("binding tables", new.len());
        let tables: Vec<(&Rule, &str, u64)> =
            new.iter().map(|(one, highest)| (&*one.rule, &*one.table, *highest)).collect();
        let mut floors: HashMap<GeneratorName, u64> = HashMap::new();
        for ((rule, ..), floor) in tables.iter().zip(self.tables.assign_above(&tables, old).await?) {
            let highest = floors.entry(rule.generator.clone()).or_default();
            *highest = floor.max(*highest);
        }
        progress.begin("raising generators", floors.len());
        self.tables.generators.raise_floors(&self.tables.common, &floors).await?;
        Ok(floors.into_keys().collect())
    }
}

/// A generator that the next version has not got, or has otherwise.
pub(super) struct Leaving {
    generator: Generator,
    hands_back: bool,
}

/// Closes the generators that the next version has not got.
pub(super) async fn close(store: &dyn Store, leaving: Vec<Leaving>) {
    let (handing, burnt): (Vec<Leaving>, Vec<Leaving>) = leaving.into_iter().partition(|one| one.hands_back);
    for one in burnt {
        one.generator.burn();
    }
    close_all(store, handing.into_iter().map(|one| one.generator).collect()).await;
}

/// The last id that all columns of each generator hold, as far as its tables are there.
fn narrowest(live: &[Live]) -> HashMap<&GeneratorName, u64> {
    let mut narrowest = HashMap::new();
    for one in live {
        if let Some(column) = one.shape.column(&one.rule.column) {
            let width = column.highest().unwrap_or(BIGINT_MAX);
            let least = narrowest.entry(&one.rule.generator).or_insert(width);
            *least = width.min(*least);
        }
    }
    narrowest
}
