//! The meaning of a generator's name in a call that draws from it (docs/design/doors.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::SHAPE_AGE_MAX;
use super::door::AtDoor;
use crate::rewrite::plan::target::Target;
use crate::rules::RuleSet;
use crate::rules::model::GeneratorSpec;
use crate::schema::{SchemaError, TableKind};
use crate::table_name::{FoldedName, NameCase, TableName};
use crate::tables::Tables;

/// The generators that ids are drawn from without an INSERT.
#[derive(Debug, Default)]
pub(in crate::tables) struct Drawn {
    /// The targets of calls in SQL, by the generator's name.
    by_name: BTreeMap<FoldedName<'static>, Arc<Target>>,
    /// The targets of doors, each since a door has asked for it, by the generator's name as people write it.
    at_doors: ArcSwap<BTreeMap<String, Arc<AtDoor>>>,
    /// The names of `by_name` for which the server has a SEQUENCE.
    sequences: ArcSwapOption<Sequences>,
}

#[derive(Debug)]
struct Sequences {
    names: BTreeSet<FoldedName<'static>>,
    read_at: Instant,
    /// DDL that had been seen before.
    ddl: u64,
    is_used: AtomicBool,
}

#[derive(Debug)]
pub(crate) enum DrawnFrom {
    /// The server's own, or nothing.
    Other,
    Generator(Arc<Target>),
    /// The server is to be asked for its SEQUENCEs.
    Unknown,
}

impl Drawn {
    pub(in crate::tables) fn new(rules: &RuleSet, case: NameCase) -> Self {
        let target = |spec| Arc::new(Target::of_generator(spec));
        let fold = |schema: &str, name: &str| case.fold(schema, name).into_owned();
        let by_name = rules.drawn().map(|spec| (fold(&spec.name.schema, &spec.name.name), target(spec)));
        Drawn { by_name: by_name.collect(), at_doors: ArcSwap::default(), sequences: ArcSwapOption::empty() }
    }

    pub(in crate::tables) fn all(&self) -> impl Iterator<Item = Arc<Target>> {
        let at_doors: Vec<_> = self.at_doors.load().values().map(|one| one.target.clone()).collect();
        self.by_name.values().cloned().chain(at_doors)
    }

    pub(super) fn at_doors(&self, generator: &str) -> Option<Arc<AtDoor>> {
        self.at_doors.load().get(generator).cloned()
    }

    pub(super) fn serve_at_doors(&self, spec: &GeneratorSpec) -> Arc<AtDoor> {
        let (name, new) = (spec.name.to_string(), Arc::new(AtDoor::new(spec)));
        self.at_doors.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            all.entry(name.clone()).or_insert_with(|| new.clone());
            all
        });
        self.at_doors(&name).unwrap_or(new)
    }
}

impl Tables {
    /// The meaning of a name in a call. `has_sequences`: the server has SEQUENCEs.
    pub(crate) fn drawn_from(
        &self,
        schema: &str,
        name: &str,
        has_sequences: bool,
        now: Instant,
    ) -> DrawnFrom {
        let name = self.folded(schema, name);
        let Some(target) = self.drawn.by_name.get(&name) else { return DrawnFrom::Other };
        if !has_sequences || self.common.schema.is_none() {
            return DrawnFrom::Generator(target.clone());
        }
        let ddl = self.common.ddl.seen();
        let is_fresh = |read: &&Arc<Sequences>| {
            read.ddl == ddl && now.saturating_duration_since(read.read_at) < SHAPE_AGE_MAX
        };
        let sequences = self.drawn.sequences.load();
        match sequences.as_ref().filter(is_fresh) {
            None => DrawnFrom::Unknown,
            Some(read) => {
                read.is_used.store(true, Ordering::Relaxed);
                if read.names.contains(&name) {
                    DrawnFrom::Other
                } else {
                    DrawnFrom::Generator(target.clone())
                }
            }
        }
    }

    /// Asks the server which of the generators it has a SEQUENCE of.
    pub(crate) async fn read_sequences(&self) -> Result<(), SchemaError> {
        let Some(schema) = &self.common.schema else { return Ok(()) };
        let (read_at, ddl) = (Instant::now(), self.common.ddl.seen());
        let generators = self.drawn.by_name.values().map(|target| &target.rule.generator);
        let names: Vec<_> = generators.map(|name| TableName::new(&name.schema, &name.name)).collect();
        let found = schema.live_tables(self.common.case, &names).await?;
        let is_sequence = |kind| kind == Some(TableKind::Other);
        let sequences =
            names.iter().zip(found).filter(|(_, live)| is_sequence(live.as_ref().map(|l| l.kind)));
        let names = sequences.map(|(name, _)| self.folded(&name.schema, &name.table).into_owned());
        let read = Sequences { names: names.collect(), read_at, ddl, is_used: AtomicBool::default() };
        self.drawn.sequences.store(Some(Arc::new(read)));
        Ok(())
    }

    /// Reads the server's SEQUENCEs again, if a call has looked at them since the last reading.
    pub(in crate::tables) async fn refresh_sequences(&self) -> Result<(), SchemaError> {
        let is_used = |read: &Arc<Sequences>| read.is_used.load(Ordering::Relaxed);
        if self.drawn.sequences.load().as_ref().is_some_and(is_used) {
            self.read_sequences().await?;
        }
        Ok(())
    }
}
