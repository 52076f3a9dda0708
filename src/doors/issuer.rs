//! The issuer that all doors stand in front of.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use crate::audit::{Audit, Drawn};
use crate::doors::meter::{DoorMeter, DrawOutcome};
use crate::ids::block::{IdBlock, Spacing};
use crate::ids::layout::{DecodeError, Moment, NodeError, Parts};
use crate::ids::{Holder, TakeError};
use crate::rules::model::{GeneratorKind, GeneratorName, GeneratorSpec};
use crate::tables::InForce;
use crate::toml_file::nearest;
use crate::users::{Directory, Grant, Login, OverQuota, Right};

/// One request gets at most so many ids.
pub(crate) const IDS_MAX: u64 = 10_000_000;

/// Ids of ticks that do not adjoin are several runs. One request gets at most so many runs, since its answer
/// names each of them.
const RUNS_MAX: u64 = 10_000;

/// So many ids of several runs are at most in one list.
const LIST_MAX: u64 = 10_000;

/// The most characters of a client's text in an error.
const NAME_CHARS_MAX: usize = 128;

/// An error names so many generators.
const NAMED_MAX: usize = 10;

/// The number of names that are compared to find the one that was meant.
const COMPARED_MAX: usize = 500;

/// Gives ids to those who may have them. Each door has one.
pub struct Issuer {
    /// The door's name in audit lines: "resp".
    pub door: &'static str,
    pub tables: Arc<InForce>,
    pub users: Arc<Directory>,
    /// The time that a request waits for its ids.
    pub deadline: Box<dyn Fn() -> Duration + Send + Sync>,
    pub audit: Arc<Audit>,
    pub meter: Arc<DoorMeter>,
}

#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) login: Login,
    /// Empty: over a Unix socket.
    pub(crate) client: Arc<str>,
    /// This door's number of the connection.
    pub(crate) connection: u64,
}

impl Caller {
    fn needs(&self, right: Right, generator: &str) -> Result<&Grant, Denied> {
        self.login.user.grant(right, generator).ok_or_else(|| {
            let (user, generator) = (self.login.user.name.clone(), shortened(generator));
            Denied::NoRight { user, right, generator }
        })
    }
}

/// The spacing that the ids of one request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each a step above the one before.
    OneRun,
    /// In several runs, where the generator has them so.
    Runs,
    /// In several runs too, and the answer names each id of them.
    List,
}

impl Shape {
    /// The most ids of a generator in this shape. `None`: any number.
    fn most(self, spacing: Spacing) -> Option<u64> {
        let of_run = spacing.ticks?.ids.get();
        Some(match self {
            Shape::OneRun => of_run,
            Shape::Runs => of_run.saturating_mul(RUNS_MAX),
            Shape::List => of_run.max(LIST_MAX),
        })
    }
}

/// Why a caller gets nothing. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("user {user} has no {right} right on generator {generator:?}")]
    NoRight { user: String, right: Right, generator: String },
    #[error("{0}")]
    OverQuota(OverQuota),
    #[error("the rules have no generator {generator:?}{near}")]
    Unknown { generator: String, near: String },
    #[error("{n} is not a number of ids; ask for 1 to {IDS_MAX}")]
    Count { n: i64 },
    #[error(
        "user {user} has the TAKE right on no {kind} that is called {key:?}; write a generator's name, alone or as schema.name, or grant the right"
    )]
    NoneCalled {
        key: String,
        kind: &'static str,
        user: String,
        /// True if there are some, but none for this user. Only the count of outcomes uses it; the error hides it.
        are_there: bool,
    },
    #[error("several generators are called {key:?}; write the whole name of one, as {names}")]
    SeveralCalled { key: String, names: String },
    #[error("generator {generator} is a sequence, and its ids are of no node; ask without one")]
    NoNodes { generator: String },
    #[error("generator {generator}: node {node} {error}")]
    NoNode { generator: String, node: u64, error: NodeError },
    #[error("this proxy is node {own} of generator {generator}, not node {node}")]
    OtherNode { generator: String, node: u64, own: u64 },
    #[error("generator {generator} gives at most {most} ids in one run; ask for fewer")]
    OneRun { generator: String, most: u64 },
    #[error(
        "generator {generator} gives at most {most} ids at once, since its ids come in short runs; ask for fewer"
    )]
    Runs { generator: String, most: u64 },
    #[error(
        "generator {generator} gives no ids, since all its tables have mode = \"shadow\"; ask for ids of a generator of its own"
    )]
    Shadow { generator: String },
    #[error("{}", .0.for_client())]
    NoIds(TakeError),
    #[error("{id:?} is not an id; write a whole number from 0 to 18446744073709551615")]
    NoNumber { id: String },
    #[error("generator {generator} is a sequence, and its ids have no fields")]
    NoFields { generator: String },
    #[error("{id} is not an id of generator {generator}: it {error}")]
    NotOfGenerator { id: u64, generator: String, error: DecodeError },
}

impl Denied {
    fn outcome(&self) -> DrawOutcome {
        match self {
            Denied::NoRight { .. } | Denied::NoneCalled { are_there: true, .. } => DrawOutcome::Denied,
            Denied::OverQuota(_) => DrawOutcome::OverQuota,
            Denied::NoIds(_) => DrawOutcome::NoIds,
            _ => DrawOutcome::Wrong,
        }
    }
}

impl Issuer {
    /// Checks the number of ids that a caller asks for.
    pub(crate) fn count(&self, n: i64) -> Result<NonZeroU64, Denied> {
        let count = u64::try_from(n).ok().and_then(NonZeroU64::new).filter(|n| n.get() <= IDS_MAX);
        count.ok_or_else(|| self.noted(Denied::Count { n }))
    }

    /// Ids that are at hand, for so many requests. `None`: ask by [`Issuer::take`], which also says why there are none.
    pub(crate) fn take_at_once(
        &self,
        caller: &Caller,
        generator: &str,
        n: NonZeroU64,
        (requests, shape): (u64, Shape),
    ) -> Option<IdBlock> {
        let (user, name) = (&caller.login.user, generator);
        let grant = user.grant(Right::Take, name)?;
        let generator = self.tables.at_door(name)?;
        if shape.most(generator.spacing()).is_some_and(|most| n.get() > most) {
            return None;
        }
        let charge = self.users.charge(user, grant, (name, n.get()), Instant::now()).ok()?;
        let block = generator.take_at_once(n)?;
        charge.keep();
        self.give(caller, generator.name(), &block, requests);
        Some(block)
    }

    pub(crate) async fn take(
        &self,
        caller: &Caller,
        generator: &str,
        n: NonZeroU64,
        shape: Shape,
    ) -> Result<IdBlock, Denied> {
        match self.take_at_once(caller, generator, n, (1, shape)) {
            Some(block) => Ok(block),
            None => self.take_slowly(caller, (generator, None), n, shape).await,
        }
    }

    /// `n` ids of a timestamp generator, if this proxy makes them as this node.
    pub(crate) async fn take_as(
        &self,
        caller: &Caller,
        (generator, node): (&str, u64),
        n: NonZeroU64,
    ) -> Result<IdBlock, Denied> {
        self.take_slowly(caller, (generator, Some(node)), n, Shape::List).await
    }

    async fn take_slowly(
        &self,
        caller: &Caller,
        (generator, node): (&str, Option<u64>),
        n: NonZeroU64,
        shape: Shape,
    ) -> Result<IdBlock, Denied> {
        match self.take_unnoted(caller, (generator, node), n, shape).await {
            Ok((name, block)) => {
                self.give(caller, &name, &block, 1);
                Ok(block)
            }
            Err(denied) => Err(self.noted_of(caller, denied)),
        }
    }

    async fn take_unnoted(
        &self,
        caller: &Caller,
        (name, node): (&str, Option<u64>),
        n: NonZeroU64,
        shape: Shape,
    ) -> Result<(GeneratorName, IdBlock), Denied> {
        let grant = caller.needs(Right::Take, name)?;
        let spec = self.spec(caller, name)?;
        if let Some(most) = shape.most(spec.kind.spacing()).filter(|most| n.get() > *most) {
            let generator = name.to_owned();
            return Err(match shape {
                Shape::OneRun => Denied::OneRun { generator, most },
                Shape::Runs | Shape::List => Denied::Runs { generator, most },
            });
        }
        if !self.tables.acts(&spec.name) {
            return Err(Denied::Shadow { generator: name.to_owned() });
        }
        if let Some(node) = node {
            self.may_be_node(&spec, node)?;
        }
        let user = &caller.login.user;
        let charge =
            self.users.charge(user, grant, (name, n.get()), Instant::now()).map_err(Denied::OverQuota)?;
        let taken = self.tables.take_for_door(name, n, (self.deadline)()).await.map_err(Denied::NoIds)?;
        let block = taken.ok_or_else(|| self.unknown(caller, name))?;
        // Meanwhile the right may have gone, or the node: then the ids are a gap.
        let now = caller.login.as_of(&self.users.roster());
        if now.is_none_or(|login| login.user.grant(Right::Take, name).is_none()) {
            let (user, generator) = (user.name.clone(), shortened(name));
            return Err(Denied::NoRight { user, right: Right::Take, generator });
        }
        if let (Some(node), GeneratorKind::Timestamp(timestamp)) = (node, &spec.kind) {
            let own = timestamp.layout.node_of(block.first());
            if own != node {
                return Err(Denied::OtherNode { generator: name.to_owned(), node, own });
            }
        }
        charge.keep();
        Ok((spec.name, block))
    }

    /// Checks what is known before ids are taken.
    fn may_be_node(&self, spec: &GeneratorSpec, node: u64) -> Result<(), Denied> {
        let generator = spec.name.to_string();
        let GeneratorKind::Timestamp(timestamp) = &spec.kind else {
            return Err(Denied::NoNodes { generator });
        };
        if let Err(error) = timestamp.layout.check_node(node) {
            return Err(Denied::NoNode { generator, node, error });
        }
        match self.tables.node_of(&spec.name) {
            Some(own) if own != node => Err(Denied::OtherNode { generator, node, own }),
            _ => Ok(()),
        }
    }

    /// The last of it is the highest.
    fn give(&self, caller: &Caller, generator: &GeneratorName, block: &IdBlock, requests: u64) {
        self.meter.note_given(requests, block.count());
        self.tables.taken().of(generator).note_at_door(block.last());
        if !self.audit.is_on() {
            return;
        }
        let now = Moment::from(SystemTime::now()).to_string();
        self.audit.note_line(&Drawn {
            time: &now,
            door: self.door,
            connection: caller.connection,
            user: &caller.login.user.name,
            client: &caller.client,
            generator: &generator.to_string(),
            first: block.first(),
            last: block.last(),
            count: block.count(),
            step: block.spacing().step.get(),
        });
    }

    fn noted(&self, denied: Denied) -> Denied {
        self.meter.note(denied.outcome());
        denied
    }

    /// Counts the refusal for the user who asked, too.
    fn noted_of(&self, caller: &Caller, denied: Denied) -> Denied {
        let usage = &caller.login.user.usage;
        match denied.outcome() {
            DrawOutcome::Denied => usage.note_denied(),
            DrawOutcome::OverQuota => usage.note_over_quota(),
            DrawOutcome::Given | DrawOutcome::Wrong | DrawOutcome::NoIds => {}
        }
        self.noted(denied)
    }

    fn spec(&self, caller: &Caller, name: &str) -> Result<GeneratorSpec, Denied> {
        self.tables.generator_named(name).ok_or_else(|| self.unknown(caller, name))
    }

    fn unknown(&self, caller: &Caller, name: &str) -> Denied {
        let (rules, user) = (self.tables.rules(), &caller.login.user);
        // If there are very many generators, looking at all would take too long.
        let names = rules.generators().take(COMPARED_MAX).map(|spec| spec.name.to_string());
        let names: Vec<_> =
            names.filter(|name| user.may(Right::Take, name) || user.may(Right::Read, name)).collect();
        let near = nearest(name, names.iter().map(String::as_str));
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        Denied::Unknown { generator: shortened(name), near }
    }

    /// The generators that the caller may look at, by name.
    pub(crate) fn generators(&self, caller: &Caller) -> Vec<GeneratorSpec> {
        let mut specs = self.tables.generator_specs();
        specs.retain(|spec| caller.login.user.may(Right::Read, &spec.name.to_string()));
        specs
    }

    /// The whole name of the generator that a client names with or without its schema. `kind`: those that may be meant.
    pub(crate) fn called(
        &self,
        caller: &Caller,
        key: &str,
        (kind, is_of_kind): (&'static str, fn(&GeneratorKind) -> bool),
    ) -> Result<String, Denied> {
        let mut found = match self.tables.generator_named(key) {
            Some(spec) => vec![spec],
            None => self.tables.generators_called(key),
        };
        let user = &caller.login.user;
        found.retain(|spec| is_of_kind(&spec.kind));
        let are_there = !found.is_empty();
        found.retain(|spec| user.may(Right::Take, &spec.name.to_string()));
        let names: Vec<_> = found.iter().take(NAMED_MAX).map(|spec| spec.name.to_string()).collect();
        let key = || shortened(key);
        let denied = match &names[..] {
            [name] => return Ok(name.clone()),
            [] => Denied::NoneCalled { key: key(), kind, user: user.name.clone(), are_there },
            several => Denied::SeveralCalled { key: key(), names: several.join(", ") },
        };
        Err(self.noted_of(caller, denied))
    }

    /// Whose the nodes of a generator are. `None`: that cannot be found out now.
    pub(crate) async fn holders(&self, generator: &str) -> Option<BTreeMap<u64, Holder>> {
        let spec = self.tables.generator_named(generator)?;
        self.tables.holders_of(&spec.name, (self.deadline)()).await
    }

    /// True if there is a generator of this name that the caller may look at.
    pub(crate) fn has(&self, caller: &Caller, generator: &str) -> Result<bool, Denied> {
        caller.needs(Right::Read, generator)?;
        Ok(self.tables.generator_named(generator).is_some())
    }

    pub(crate) fn generator(&self, caller: &Caller, generator: &str) -> Result<GeneratorSpec, Denied> {
        caller.needs(Right::Read, generator)?;
        self.spec(caller, generator)
    }

    /// The highest id of the generator that this proxy has given away at a door. `None`: none yet, or there is no such generator.
    pub(crate) fn last(&self, caller: &Caller, generator: &str) -> Result<Option<u64>, Denied> {
        caller.needs(Right::Read, generator)?;
        let Some(spec) = self.tables.generator_named(generator) else { return Ok(None) };
        Ok(self.tables.taken().of(&spec.name).last_at_door())
    }

    pub(crate) fn decode(&self, caller: &Caller, generator: &str, id: &[u8]) -> Result<Parts, Denied> {
        let spec = self.generator(caller, generator)?;
        let number = std::str::from_utf8(id).ok().filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(id) = number.and_then(|id| id.parse::<u64>().ok()) else {
            let id = shortened(&String::from_utf8_lossy(id));
            return Err(Denied::NoNumber { id });
        };
        let generator = generator.to_owned();
        match &spec.kind {
            GeneratorKind::Sequence(_) => Err(Denied::NoFields { generator }),
            GeneratorKind::Timestamp(timestamp) => {
                let parts = timestamp.layout.decode(id);
                parts.map_err(|error| Denied::NotOfGenerator { id, generator, error })
            }
        }
    }
}

/// A client's text for an error: cut to [`NAME_CHARS_MAX`], since a client may send any length.
pub(super) fn shortened(written: &str) -> String {
    written.chars().take(NAME_CHARS_MAX).collect()
}
