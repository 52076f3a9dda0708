//! Ids that calls in the session's texts have drawn (docs/design/doors.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::mysql::prepared::{Expected, ParamType};
use crate::rewrite::plan::target::Target;
use crate::rules::model::GeneratorName;
use crate::sql::digest::Digest;
use crate::sql::draws::CallForm;
use crate::table_name::TableName;
use crate::tables::Tables;
use crate::tables::locks::SendBy;

/// The ids that the client's present command has drawn. Its text with the ids in it is in the lane.
pub(crate) struct Drawn {
    /// The ids may be sent while these are the rules.
    pub(crate) under: Arc<Tables>,
    pub(crate) taken: Vec<DrawnIds>,
    /// The digest of the client's text, where it is to be noted.
    pub(crate) digest: Option<Digest>,
    /// The packets that the client sent.
    pub(crate) came: Vec<u8>,
    /// The text is being prepared: its calls became parameters.
    pub(crate) prepares: Option<Arc<PreparedDraws>>,
}

#[derive(Debug)]
pub(crate) struct DrawnIds {
    pub(crate) target: Arc<Target>,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// A text in which parameters of ours stand for calls. What comes after them takes them for the client's own.
#[derive(Debug)]
pub(crate) struct PreparedDraws {
    /// Ascending by index.
    pub(crate) params: Vec<DrawParam>,
    pub(crate) client_params: u16,
    pub(crate) digest: Digest,
}

#[derive(Debug)]
pub(crate) struct DrawParam {
    /// The parameter's place among the client's and these.
    pub(crate) index: u16,
    pub(crate) form: CallForm,
    /// The name of the generator, by the session's default database at that time.
    pub(crate) generator: TableName,
}

/// A prepared statement with calls.
#[derive(Debug)]
pub(crate) struct DrawingStatement {
    pub(crate) draws: Arc<PreparedDraws>,
    /// The types of the client's parameters, of the last execution that sent any.
    pub(crate) types: Option<Vec<ParamType>>,
    /// The client's parameters that were sent ahead.
    pub(crate) long_data: BTreeSet<u16>,
}

impl DrawingStatement {
    pub(crate) fn new(draws: Arc<PreparedDraws>) -> Self {
        DrawingStatement { draws, types: None, long_data: BTreeSet::new() }
    }

    pub(crate) fn expected(&self, with_attributes: bool) -> Expected<'_> {
        let (types, long_data) = (self.types.as_deref(), &self.long_data);
        Expected { params: self.draws.client_params, types, long_data, with_attributes }
    }
}

impl PreparedDraws {
    pub(crate) fn is_ours(&self, param: u16) -> bool {
        self.params.binary_search_by_key(&param, |param| param.index).is_ok()
    }

    /// The place of the client's parameter among all parameters.
    pub(crate) fn moved(&self, client_param: u16) -> u16 {
        self.params.iter().fold(client_param, |at, param| at + u16::from(param.index <= at))
    }
}

impl Drawn {
    /// Until when its ids may be sent.
    pub(crate) fn send_by(&self) -> Option<SendBy> {
        self.taken.iter().filter_map(|taken| self.under.send_by(&taken.target)).min()
    }
}

/// The time for which the server's functions are taken to be as they were.
const AGE_MAX: Duration = Duration::from_secs(5);

/// The session's memory: the last id of each generator, and the functions of the server.
#[derive(Debug, Default)]
pub(crate) struct DrawnBefore {
    last: BTreeMap<GeneratorName, u64>,
    functions: Vec<OwnFunction>,
}

/// The answer to the question whether the server has a function of this name, for the session's default database.
#[derive(Debug)]
struct OwnFunction {
    name: &'static str,
    database: Option<String>,
    ddl: u64,
    asked_at: Instant,
    is_there: bool,
}

impl DrawnBefore {
    pub(crate) fn last(&self, generator: &GeneratorName) -> Option<u64> {
        self.last.get(generator).copied()
    }

    /// Notes the last id of each generator, for a command that is sent.
    pub(crate) fn note(&mut self, drawn: &Drawn) {
        for DrawnIds { target, last, .. } in &drawn.taken {
            self.last.insert(target.rule.generator.clone(), *last);
        }
    }

    /// `None`: it is to be asked.
    pub(crate) fn has_function(&self, name: &str, database: Option<&str>, ddl: u64) -> Option<bool> {
        let is_it =
            |one: &&OwnFunction| one.name == name && one.database.as_deref() == database && one.ddl == ddl;
        self.functions.iter().find(is_it).map(|one| one.is_there)
    }

    /// Forgets answers that are too old.
    pub(crate) fn age(&mut self, now: Instant) {
        self.functions.retain(|one| now.duration_since(one.asked_at) < AGE_MAX);
    }

    pub(crate) fn answered(
        &mut self,
        name: &'static str,
        database: Option<String>,
        ddl: u64,
        is_there: bool,
        asked_at: Instant,
    ) {
        self.functions.retain(|one| one.name != name);
        self.functions.push(OwnFunction { name, database, ddl, asked_at, is_there });
    }
}
