//! Calls in a text that draw ids (docs/design/doors.md). They are decided before anything else: from here on
//! the text is read as if the client had written the ids.

use std::sync::Arc;

use crate::ids::block::IdBlock;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::proxy::decide::Basis;
use crate::proxy::decide::ids::take;
use crate::proxy::decide::verdict::{refused, state_unknown};
use crate::proxy::known::Known;
use crate::proxy::known::drawn::{DrawParam, DrawnIds, PreparedDraws};
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::temporary::Hidden;
use crate::rewrite::draws::{CallValue, refusal, write};
use crate::rewrite::plan::PARAMS_MAX;
use crate::rewrite::plan::target::Target;
use crate::rules::model::GeneratorName;
use crate::sql::dialect::Dialect;
use crate::sql::digest::{Digest, digest};
use crate::sql::draws::{self, Call, CallForm, CallPlace, TAKEN_MAX};
use crate::sql::lex::Lexer;
use crate::sql::name;
use crate::table_name::TableName;
use crate::tables::DrawnFrom;
use crate::users::{Charge, Right, Unsure, User};

/// The result of drawing ids for a packet's calls.
pub(crate) enum Drawing {
    /// The packet draws no ids.
    Nothing,
    /// A statement with calls is sent by itself: what begins at this byte of the text is read when all before it has run.
    Cut(usize),
    /// The text with ids, or with parameters of ours, in their place.
    Drawn { text: Vec<u8>, taken: Vec<DrawnIds>, digest: Option<Digest>, prepares: Option<PreparedDraws> },
}

/// A call and what it draws from; `None`: it is the server's own.
type Meant<'d> = (&'d Call, Option<Arc<Target>>);

/// A take of several ids that are not one run is taken again so often: a tick of a timestamp generator may have had
/// no room for it.
const RUNS_TRIED_MAX: usize = 8;

/// Draws the ids of the calls in a text. `is_audited`: the text's digest is to be noted.
pub(crate) fn draw(
    known: &mut Known,
    by: Basis<'_>,
    text: &[u8],
    is_audited: bool,
) -> Result<Drawing, Unsent> {
    let tables = by.tables;
    if known.session.locked().is_some() || !tables.may_draw(text) {
        return Ok(Drawing::Nothing);
    }
    let dialect = known.session.state().ok_or_else(state_unknown)?.dialect;
    let several = known.session.multi_statements && by.command == Command::Query;
    let found = Lexer::new(text, dialect).map(|lexer| draws::find(lexer, several));
    // The server judges a text that cannot be read.
    let Some(Ok((draws, later))) = found else { return Ok(Drawing::Nothing) };
    if let Some(at) = later {
        return Ok(Drawing::Cut(at as usize));
    }
    if draws.calls.is_empty() {
        return Ok(Drawing::Nothing);
    }
    let mut meant: Vec<Meant<'_>> = Vec::with_capacity(draws.calls.len());
    for call in &draws.calls {
        meant.push((call, meant_by(known, by, text, call)?));
    }
    if meant.iter().all(|(_, target)| target.is_none()) {
        return Ok(Drawing::Nothing);
    }
    let (values, taken, prepares) = if by.command == Command::StmtPrepare {
        let (values, prepares) = prepared(&meant, draws.params, digest(text, &dialect))?;
        (values, Vec::new(), Some(prepares))
    } else {
        let wanted: Vec<_> = meant.iter().map(|(call, target)| Wanted::by(call, target.clone())).collect();
        let (values, taken) = values(known, by, &wanted)?;
        (values, taken, None)
    };
    let written = write(text, &draws, &values, dialect.charset).ok_or_else(|| {
        refused(
            "the text of a column cannot be the column's name, because of a character in the text; give the column a name (AS id)",
        )
    })?;
    let digest = is_audited.then(|| digest(text, &dialect));
    Ok(Drawing::Drawn { text: written, taken, digest, prepares })
}

/// The generator that a call draws from. `None`: the call is the server's own. A call that cannot be served is refused.
fn meant_by(
    known: &mut Known,
    by: Basis<'_>,
    text: &[u8],
    call: &Call,
) -> Result<Option<Arc<Target>>, Unsent> {
    let (tables, session) = (by.tables, &known.session);
    let state = session.state().ok_or_else(state_unknown)?;
    let dialect = &state.dialect;
    let decoded = |token| name::decode(text, token, dialect.charset);
    let generator = decoded(call.path.last);
    let schema = match call.path.qualifier {
        Some(token) => decoded(token),
        None => state.database.as_deref().map(Into::into),
    };
    let (Some(schema), Some(generator)) = (schema, generator) else { return Ok(None) };
    let target = match tables.drawn_from(&schema, &generator, dialect.is_mariadb(), (by.clock)()) {
        DrawnFrom::Other => return Ok(None),
        DrawnFrom::Unknown if known.supplied.may_ask() => return Err(Need::Sequences(tables.clone()).into()),
        DrawnFrom::Unknown => {
            let why = format!(
                "Rowstamp does not know whether the server has a SEQUENCE {schema}.{generator}; try again"
            );
            return Err(Refusal::NoId(why).into());
        }
        DrawnFrom::Generator(target) => target,
    };
    if dialect.is_mariadb() {
        match session.temporary.hidden(&schema, &generator) {
            Hidden::No => {}
            Hidden::Yes => return Ok(None),
            Hidden::Unsure => return Err(Need::Temporary(TableName::new(schema, generator)).into()),
        }
    }
    let is_among_columns =
        !matches!(call.place, CallPlace::Once { among_columns: false, .. } | CallPlace::Explained);
    if let Some(function) = function(call, dialect).filter(|_| is_among_columns) {
        match session.drawn.has_function(function, state.database.as_deref(), tables.ddl_seen()) {
            Some(false) => {}
            Some(true) => return Ok(None),
            None => return Err(Need::Function(function).into()),
        }
    }
    match refusal(call, &target.rule.generator.name) {
        Some(why) => Err(Refusal::from(why).into()),
        None => Ok(Some(target)),
    }
}

/// The value that each call gets, in the order of evaluation, and the ids that are taken of each generator.
pub(crate) fn values(
    known: &mut Known,
    by: Basis<'_>,
    wanted: &[Wanted],
) -> Result<(Vec<CallValue>, Vec<DrawnIds>), Unsent> {
    let drawer = drawer(known, by)?;
    let mut blocks: Vec<(Arc<Target>, IdBlock, Option<Charge<'_>>)> = Vec::new();
    for target in wanted.iter().filter_map(|one| one.target.as_ref()) {
        if blocks.iter().any(|(of, ..)| of == target) {
            continue;
        }
        match block(known, by, (drawer.as_deref(), target), wanted) {
            Ok(block) => blocks.extend(block.map(|(block, charge)| (target.clone(), block, charge))),
            Err(unsent) => {
                for (target, block, _) in blocks {
                    known.supplied.put(by.tables, target, block);
                }
                return Err(unsent);
            }
        }
    }
    let mut used = vec![0u64; blocks.len()];
    let mut taken: Vec<DrawnIds> = Vec::with_capacity(blocks.len());
    let mut values = Vec::with_capacity(wanted.len());
    for one in wanted {
        let Some(target) = &one.target else {
            values.push(CallValue::Left);
            continue;
        };
        let before = taken.iter_mut().find(|one| one.target == *target);
        let n = match one.what {
            WantedKind::Ids(n) => n,
            WantedKind::Last => {
                let drawn = before.map(|before| before.last);
                let id = drawn.or_else(|| known.session.drawn.last(&target.rule.generator));
                values.push(id.map_or(CallValue::Null, CallValue::Id));
                continue;
            }
            WantedKind::Shown => {
                values.push(CallValue::Id(1));
                continue;
            }
        };
        let place = blocks.iter().position(|(of, ..)| of == target);
        let of_block = place.and_then(|at| Some((&blocks.get(at)?.1, used.get_mut(at)?)));
        let (block, used) = of_block.ok_or_else(no_ids)?;
        let (first, end) = (block.nth(*used).ok_or_else(no_ids)?, *used + n);
        let id = block.nth(end - 1).ok_or_else(no_ids)?;
        *used = end;
        values.push(CallValue::Id(first));
        match before {
            Some(before) => before.last = id,
            None => taken.push(DrawnIds { target: target.clone(), first, last: id }),
        }
    }
    blocks.into_iter().filter_map(|(.., charge)| charge).for_each(Charge::keep);
    Ok((values, taken))
}

/// The user of ours who draws, if one has the name of the session's.
fn drawer(known: &mut Known, by: Basis<'_>) -> Result<Option<Arc<User>>, Unsent> {
    let Some(users) = by.users else { return Ok(None) };
    users.of_sql(known.rights.user()).map_err(|Unsure| {
        if users.is_new() && known.supplied.may_ask() {
            return Need::Users.into();
        }
        let why = "what the user may draw is not known, since the store does not answer; try again";
        Refusal::NoId(why.to_owned()).into()
    })
}

/// The charge for `n` ids, if the user may draw them now. `None`: no user of ours draws.
fn charged<'a>(
    by: Basis<'a>,
    user: Option<&'a User>,
    generator: &GeneratorName,
    n: u32,
) -> Result<Option<Charge<'a>>, Unsent> {
    let (Some(users), Some(user)) = (by.users, user) else { return Ok(None) };
    let (name, generator) = (&user.name, generator.to_string());
    let grant = user.grant(Right::Take, &generator).ok_or_else(|| {
        user.usage.note_denied();
        let why =
            format!("user {name} has no TAKE right on generator {generator}; GRANT on the console gives it");
        Refusal::NoRight(why)
    })?;
    let charge = users.charge(user, grant, (&generator, n.into()), (by.clock)().into());
    charge.map(Some).map_err(|over| {
        user.usage.note_over_quota();
        Refusal::NoId(over.to_string()).into()
    })
}

/// All ids of a statement from one generator. `None`: it takes none.
fn block<'a>(
    known: &mut Known,
    by: Basis<'a>,
    (user, target): (Option<&'a User>, &Arc<Target>),
    wanted: &[Wanted],
) -> Result<Option<(IdBlock, Option<Charge<'a>>)>, Unsent> {
    let of_it = wanted.iter().filter(|one| one.target.as_ref() == Some(target));
    let runs: Vec<u64> = of_it.map(|one| if let WantedKind::Ids(n) = one.what { n } else { 0 }).collect();
    let Some(n) = u32::try_from(runs.iter().sum::<u64>()).ok().filter(|n| *n <= TAKEN_MAX) else {
        return Err(refused(format_args!(
            "the calls of one statement draw more than {TAKEN_MAX} ids; draw them in several statements"
        ))
        .into());
    };
    if n == 0 {
        return Ok(None);
    }
    let generator = &target.rule.generator;
    let longest = runs.iter().max().copied().unwrap_or_default();
    let of_tick = target.spacing.ticks.map(|ticks| ticks.ids.get());
    if let Some(run) = of_tick.filter(|run| *run < longest) {
        return Err(refused(format_args!(
            "generator {generator} gives at most {run} ids in one run; take fewer at a time"
        ))
        .into());
    }
    let charge = charged(by, user, generator, n)?;
    for _ in 0..RUNS_TRIED_MAX {
        let block = take(known, by.tables, target, n)?;
        if are_runs(&block, &runs, target) {
            return Ok(Some((block, charge)));
        }
    }
    Err(refused(format_args!(
        "generator {generator} cannot give so many ids in one run; take fewer at a time"
    ))
    .into())
}

/// The value that one call gets.
pub(crate) struct Wanted {
    /// `None`: it is the server's own.
    pub(crate) target: Option<Arc<Target>>,
    pub(crate) what: WantedKind,
}

pub(crate) enum WantedKind {
    /// The first of so many.
    Ids(u64),
    /// The last that the session drew.
    Last,
    /// The call is explained, not evaluated.
    Shown,
}

impl Wanted {
    fn by(call: &Call, target: Option<Arc<Target>>) -> Self {
        let what = match call.form {
            _ if call.place == CallPlace::Explained => WantedKind::Shown,
            CallForm::Next => WantedKind::Ids(1),
            CallForm::Previous => WantedKind::Last,
            CallForm::Take(n) => WantedKind::Ids(n.unwrap_or_default().into()),
        };
        Wanted { target, what }
    }
}

/// Parameters of ours for the calls of a text that is being prepared. `client_params`: those that it has.
fn prepared(
    meant: &[Meant<'_>],
    client_params: u32,
    digest: Digest,
) -> Result<(Vec<CallValue>, PreparedDraws), Refusal> {
    let mut values = Vec::with_capacity(meant.len());
    let mut params: Vec<DrawParam> = Vec::new();
    for (call, target) in meant {
        values.push(match target {
            None => CallValue::Left,
            Some(_) if call.place == CallPlace::Explained => CallValue::Id(1),
            Some(target) => {
                let GeneratorName { schema, name } = &target.rule.generator;
                let index = call.params_before as usize + params.len();
                let index = u16::try_from(index).map_err(|_| no_room())?;
                params.push(DrawParam { index, form: call.form, generator: TableName::new(schema, name) });
                CallValue::Param
            }
        });
    }
    let client_params = u16::try_from(client_params).map_err(|_| no_room())?;
    if usize::from(client_params) + params.len() > PARAMS_MAX {
        return Err(no_room());
    }
    Ok((values, PreparedDraws { params, client_params, digest }))
}

fn no_room() -> Refusal {
    refused(
        "the statement and the ids that its calls draw need more than 65,535 placeholders; prepare fewer rows at a time",
    )
}

/// True if the ids of each call are at even distances.
fn are_runs(block: &IdBlock, runs: &[u64], target: &Target) -> bool {
    let mut from = 0;
    runs.iter().filter(|n| **n > 0).all(|n| {
        let (first, last) = (block.nth(from), block.nth(from + n - 1));
        from += n;
        let distance = (n - 1).checked_mul(target.spacing.step.get());
        matches!((first, last), (Some(first), Some(last)) if last.checked_sub(first) == distance)
    })
}

fn no_ids() -> Refusal {
    Refusal::NoId("the ids do not fit the calls".to_owned())
}

/// The function that the call would be, were it the server's own.
fn function(call: &Call, dialect: &Dialect) -> Option<&'static str> {
    match call.form {
        CallForm::Take(_) => Some("ROWSTAMP_TAKE"),
        _ if call.in_words || dialect.is_mariadb() => None,
        CallForm::Next => Some("NEXTVAL"),
        CallForm::Previous => Some("LASTVAL"),
    }
}
