//! The generators that a version of the rules has open: those that are defined by their names, from its beginning, and those
//! that are made for tables, as tables are found.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;

use crate::ids::fence::Records;
use crate::ids::sequence::SequenceSpec;
use crate::ids::timestamp::{Timestamp, TimestampSpec};
use crate::ids::{BIGINT_MAX, Generator, ID_MAX, OpenError, Sequence};
use crate::rewrite::plan::target::Target;
use crate::rules::model::{ColumnShape, GeneratorKind, GeneratorName, GeneratorSpec};
use crate::tables::survey::{Binding, Live};
use crate::tables::{Common, FLOOR_DEADLINE, InForce, MadeTwice, TableError, Tables};

/// The generators by name. Each statement reads the map, so a reader takes no lock, and a change copies the map.
#[derive(Default)]
pub(super) struct Generators(ArcSwap<BTreeMap<GeneratorName, Open>>);

#[derive(Clone)]
struct Open {
    generator: Generator,
    /// The spec that a template gave for a table. `None`: the rules define the generator by its name.
    made: Option<Arc<GeneratorSpec>>,
}

impl Generators {
    pub(super) fn get(&self, name: &GeneratorName) -> Option<Generator> {
        self.with(name, |generator| Some(generator.clone()))
    }

    /// The result of `look` at the generator, without a clone of it: all sessions would write one count.
    pub(super) fn with<T>(
        &self,
        name: &GeneratorName,
        look: impl FnOnce(&Generator) -> Option<T>,
    ) -> Option<T> {
        look(&self.0.load().get(name)?.generator)
    }

    pub(super) fn all(&self) -> Vec<(GeneratorName, Generator)> {
        self.0.load().iter().map(|(name, open)| (name.clone(), open.generator.clone())).collect()
    }

    pub(super) fn add(&self, name: &GeneratorName, generator: &Generator, made: Option<&GeneratorSpec>) {
        self.add_all([(name.clone(), generator.clone(), made.cloned())]);
    }

    pub(super) fn add_all(
        &self,
        new: impl IntoIterator<Item = (GeneratorName, Generator, Option<GeneratorSpec>)>,
    ) {
        let new = new
            .into_iter()
            .map(|(name, generator, made)| (name, Open { generator, made: made.map(Arc::new) }));
        let new: Vec<_> = new.collect();
        self.0.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            all.extend(new.iter().cloned());
            all
        });
    }

    /// Takes those out that were made for tables and that nobody needs any more.
    pub(super) fn remove_made(
        &self,
        is_needless: impl Fn(&GeneratorName) -> bool,
    ) -> Vec<(GeneratorName, Generator)> {
        let is_going = |name: &GeneratorName, open: &Open| open.made.is_some() && is_needless(name);
        let before = self.0.load_full();
        let going = before.iter().filter(|(name, open)| is_going(name, open));
        let going: Vec<_> = going.map(|(name, open)| (name.clone(), open.generator.clone())).collect();
        if !going.is_empty() {
            self.0.rcu(|all| {
                let mut all = BTreeMap::clone(all);
                all.retain(|name, open| !is_going(name, open));
                all
            });
        }
        going
    }

    /// The ids of each generator are above its floor from here on. Sequences are raised in the store together.
    pub(super) async fn raise_floors(
        &self,
        common: &Common,
        floors: &HashMap<GeneratorName, u64>,
    ) -> Result<(), TableError> {
        let generators: Vec<_> =
            floors.iter().filter_map(|(name, floor)| Some((self.get(name)?, *floor))).collect();
        let sequences =
            generators.iter().filter(|(generator, _)| matches!(generator, Generator::Sequence(_)));
        let bounds: Vec<(String, u64)> = sequences
            .map(|(generator, floor)| (generator.name().to_owned(), (*floor).min(ID_MAX) + 1))
            .collect();
        let read = Records::of_raised(&*common.store, &common.owner, &bounds).await;
        let read = read.map_err(TableError::Raise)?;
        for (generator, floor) in generators {
            generator.raise_floor_by(&read, floor, FLOOR_DEADLINE).await?;
            common.progress.add(1);
        }
        Ok(())
    }

    pub(super) fn made(&self) -> Vec<Arc<GeneratorSpec>> {
        self.0.load().values().filter_map(|open| open.made.clone()).collect()
    }

    fn made_as(&self, name: &GeneratorName) -> Option<Arc<GeneratorSpec>> {
        self.0.load().get(name)?.made.clone()
    }
}

impl Clone for Generators {
    fn clone(&self) -> Self {
        Generators(ArcSwap::new(self.0.load_full()))
    }
}

/// A sequence that is to be open.
struct Opening {
    spec: GeneratorSpec,
    /// True if a template makes it: it is defined nowhere by its name.
    is_made: bool,
    max: u64,
    /// The sequence starts above this id if nobody has used the sequence yet.
    floor: u64,
}

impl Tables {
    /// The generator of a table that is to be assigned; opened where it is made for the table, and this is the first that draws
    /// from it.
    pub(super) async fn generator_for(&self, target: &Target) -> Result<Generator, TableError> {
        let rule = &target.rule;
        let Some(spec) = rule.made() else {
            // A table that is not assigned must not count as one that is.
            return self
                .generators
                .get(&rule.generator)
                .ok_or_else(|| TableError::NotOpen(rule.generator.clone()));
        };
        if let Some(first) = self.generators.made_as(&spec.name) {
            one_kind(&first, &spec)?;
        }
        if let Some(open) = self.generators.get(&spec.name) {
            return Ok(open);
        }
        let generator = match &spec.kind {
            GeneratorKind::Sequence(sequence) => {
                let width = target.id_shape().and_then(ColumnShape::highest);
                let max = sequence.last_id(width.unwrap_or(BIGINT_MAX));
                self.open_sequence(&spec, sequence, max, &Records::default()).await?
            }
            GeneratorKind::Timestamp(timestamp) => self.open_timestamp(&spec, timestamp).await?,
        };
        tracing::info!(generator = %spec.name, table = format!("{}.{}", rule.schema, target.table), "Rowstamp has made a generator for the table");
        self.generators.add(&spec.name, &generator, Some(&spec));
        self.compare_clocks().await;
        Ok(generator)
    }

    /// The timestamp generators of these tables, before their ids are looked at: which of them count depends on the node.
    pub(super) async fn make_timestamps(
        &self,
        live: &[Live],
        old: Option<&Tables>,
    ) -> Result<(), TableError> {
        let mut opened = Vec::new();
        for spec in made_for(live)?.into_values() {
            if let GeneratorKind::Timestamp(timestamp) = &spec.kind {
                let generator = self.timestamp(&spec, timestamp, old).await?;
                opened.push((spec.name.clone(), generator, Some(spec)));
            }
        }
        self.generators.add_all(opened);
        self.compare_clocks().await;
        Ok(())
    }

    /// The sequences of the rules and of these tables. Many are read together, and those that the store has not are written to it by the
    /// hundred, each above its tables' ids.
    pub(super) async fn open_sequences(
        &self,
        live: &[Live],
        narrowest: &HashMap<&GeneratorName, u64>,
        old: Option<&Tables>,
    ) -> Result<(), TableError> {
        let defined = self.rules.acting_generators().map(|spec| (spec.clone(), false));
        let made = made_for(live)?.into_values().map(|spec| (spec, true));
        let mut all: BTreeMap<GeneratorName, Opening> = BTreeMap::new();
        for (spec, is_made) in defined.chain(made) {
            if let GeneratorKind::Sequence(sequence) = &spec.kind {
                let max = max_of(&spec, sequence, narrowest);
                all.insert(spec.name.clone(), Opening { spec, is_made, max, floor: 0 });
            }
        }
        for one in live {
            if let (Binding::New { highest }, Some(opening)) = (one.binding, all.get_mut(&one.rule.generator))
            {
                opening.floor = opening.floor.max(highest);
            }
        }
        let progress = &self.common.progress;
        progress.begin("opening generators", all.len());
        let (mut open, mut new) = (Vec::with_capacity(all.len()), Vec::new());
        for opening in all.into_values() {
            match opening.kept(old) {
                Some(kept) => open.push(opening.opened(kept)),
                None => new.push(opening),
            }
        }
        progress.add(open.len());
        let wanted: Vec<(String, u64)> =
            new.iter().map(|one| (one.spec.name.to_string(), one.bound())).collect();
        let read = Records::of_sequences(&*self.common.store, &self.common.owner, &wanted).await;
        let read = match (read, new.first()) {
            (Err(error), Some(first)) => {
                let error = OpenError::Store { generator: first.spec.name.to_string(), error };
                return Err(TableError::Open { origin: first.spec.origin.clone(), error });
            }
            (read, _) => read.unwrap_or_default(),
        };
        for opening in new {
            let GeneratorKind::Sequence(sequence) = &opening.spec.kind else { continue };
            let generator = self.open_sequence(&opening.spec, sequence, opening.max, &read).await?;
            open.push(opening.opened(generator));
            progress.add(1);
        }
        self.generators.add_all(open);
        Ok(())
    }

    pub(super) async fn open_sequence(
        &self,
        spec: &GeneratorSpec,
        sequence: &SequenceSpec,
        max: u64,
        read: &Records,
    ) -> Result<Generator, TableError> {
        let Common { store, owner, .. } = &self.common;
        let (name, sequence) = (spec.name.to_string(), SequenceSpec::clone(sequence));
        match Sequence::open_by(read, store.clone(), &name, owner, sequence, 0, max).await {
            Ok(sequence) => Ok(Generator::Sequence(sequence)),
            Err(error) => Err(TableError::Open { origin: spec.origin.clone(), error }),
        }
    }

    /// `old`: what it has open is kept, where its rule is the same.
    pub(super) async fn timestamp(
        &self,
        spec: &GeneratorSpec,
        timestamp: &TimestampSpec,
        old: Option<&Tables>,
    ) -> Result<Generator, TableError> {
        let kept = old.and_then(|old| old.generators.get(&spec.name)).filter(
            |open| matches!(open, Generator::Timestamp(open) if open.spec() == timestamp && !open.is_lost()),
        );
        match kept {
            Some(kept) => Ok(kept),
            None => self.open_timestamp(spec, timestamp).await,
        }
    }

    pub(super) async fn open_timestamp(
        &self,
        spec: &GeneratorSpec,
        timestamp: &TimestampSpec,
    ) -> Result<Generator, TableError> {
        let Common { store, owner, clock, .. } = &self.common;
        let (name, timestamp) = (spec.name.to_string(), timestamp.clone());
        match Timestamp::open(store.clone(), &name, owner, timestamp, 0, clock.clone()).await {
            Ok(timestamp) => {
                if self.common.schema.is_some() && !self.common.trusts_clock {
                    timestamp.hold();
                }
                Ok(Generator::Timestamp(timestamp))
            }
            Err(error) => Err(TableError::Open { origin: spec.origin.clone(), error }),
        }
    }

    /// Lets the generators go that wait for the machine's clock, where the backend's says the same.
    pub(crate) async fn compare_clocks(&self) {
        let Some(schema) = &self.common.schema else { return };
        let is_held = |generator: &Generator| matches!(generator, Generator::Timestamp(timestamp) if timestamp.is_held());
        let held: Vec<_> =
            self.generators.all().into_iter().filter(|(_, generator)| is_held(generator)).collect();
        if held.is_empty() {
            return;
        }
        let asked = Instant::now();
        match schema.clock().await {
            Ok(moment) => {
                for (_, generator) in held {
                    if let Generator::Timestamp(timestamp) = generator {
                        timestamp.compare_clock(moment, asked.elapsed());
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "Rowstamp cannot read the backend's clock"),
        }
    }
}

impl Opening {
    fn kept(&self, old: Option<&Tables>) -> Option<Generator> {
        let GeneratorKind::Sequence(sequence) = &self.spec.kind else { return None };
        kept_sequence(&self.spec, sequence, self.max, old)
    }

    fn opened(self, generator: Generator) -> (GeneratorName, Generator, Option<GeneratorSpec>) {
        (self.spec.name.clone(), generator, self.is_made.then_some(self.spec))
    }

    /// The bound at which it begins, if nobody has made it yet.
    fn bound(&self) -> u64 {
        let start = match &self.spec.kind {
            GeneratorKind::Sequence(sequence) => sequence.start,
            GeneratorKind::Timestamp(_) => 0,
        };
        start.max(self.floor.min(crate::ids::ID_MAX) + 1)
    }
}

/// The generator that `old` has open, if its rule and its columns' widths are the same.
fn kept_sequence(
    spec: &GeneratorSpec,
    sequence: &SequenceSpec,
    max: u64,
    old: Option<&Tables>,
) -> Option<Generator> {
    old.and_then(|old| old.generators.get(&spec.name)).filter(|open| {
        matches!(open, Generator::Sequence(open)
            if open.spec() == sequence && open.max() == sequence.last_id(max) && !open.is_lost())
    })
}

fn max_of(spec: &GeneratorSpec, sequence: &SequenceSpec, narrowest: &HashMap<&GeneratorName, u64>) -> u64 {
    // Calls give a BIGINT. Of a table that is made later, each statement sees how much its column holds.
    let without_tables = if spec.sql { BIGINT_MAX } else { ID_MAX };
    sequence.last_id(narrowest.get(&spec.name).copied().unwrap_or(without_tables))
}

fn made_for(live: &[Live]) -> Result<BTreeMap<GeneratorName, GeneratorSpec>, Box<MadeTwice>> {
    let mut all: BTreeMap<GeneratorName, GeneratorSpec> = BTreeMap::new();
    let is_filled = |one: &&Live| one.binding != Binding::NoColumn;
    for spec in live.iter().filter(is_filled).filter_map(|one| one.rule.made()) {
        match all.entry(spec.name.clone()) {
            Entry::Occupied(first) => one_kind(first.get(), &spec)?,
            Entry::Vacant(place) => drop(place.insert(spec)),
        }
    }
    Ok(all)
}

/// Two templates may come to one name.
fn one_kind(first: &GeneratorSpec, second: &GeneratorSpec) -> Result<(), Box<MadeTwice>> {
    if first.kind == second.kind {
        return Ok(());
    }
    let (name, first, second) = (first.name.clone(), first.origin.clone(), second.origin.clone());
    Err(Box::new(MadeTwice { name, first, second }))
}

impl InForce {
    /// All generators there are: those that the rules define by name, and those that were made for tables; by name.
    pub fn generator_specs(&self) -> Vec<GeneratorSpec> {
        let now = self.now();
        let made = now.generators.made();
        let defined = now.rules.generators().cloned();
        let mut all: Vec<GeneratorSpec> =
            defined.chain(made.iter().map(|spec| GeneratorSpec::clone(spec))).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// `name`: `schema.name`, as people write it. Schema and name may have dots, so each way to part the two is tried.
    pub fn generator_named(&self, name: &str) -> Option<GeneratorSpec> {
        let now = self.now();
        if now.common.successor.is_some() {
            // Another process has those that are made for tables.
            return now.rules.generator_named(name);
        }
        now.rules.defined(name).cloned().or_else(|| {
            let made = GeneratorName::readings(name).find_map(|name| now.generators.made_as(&name))?;
            Some(GeneratorSpec::clone(&made))
        })
    }

    /// All generators of this name, whatever their schemas.
    pub(crate) fn generators_called(&self, name: &str) -> Vec<GeneratorSpec> {
        let now = self.now();
        let made = now.generators.made();
        let all = now.rules.generators().chain(made.iter().map(|spec| &**spec));
        all.filter(|spec| spec.name.name == name).cloned().collect()
    }

    /// True if a generator gives ids under these rules. False if all its tables are in shadow mode.
    pub(crate) fn acts(&self, name: &GeneratorName) -> bool {
        let now = self.now();
        let defined = now.rules.generator(name).is_some();
        !defined || now.rules.acting_generators().any(|spec| spec.name == *name)
    }
}
