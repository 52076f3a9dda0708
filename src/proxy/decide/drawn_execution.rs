//! Executions of prepared statements with calls that draw ids: each draws again, and binds the ids to the parameters that
//! stand for its calls. From here on the execution is read as if the client had bound them.

use crate::mysql::bulk::put_integer;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Param, ParamType, ParamValue, id_bytes};
use crate::proxy::decide::Basis;
use crate::proxy::decide::draws::{Wanted, WantedKind, values};
use crate::proxy::decide::params::Params;
use crate::proxy::decide::verdict::refused;
use crate::proxy::known::Known;
use crate::proxy::known::drawn::{DrawParam, DrawnIds, PreparedDraws};
use crate::proxy::known::need::{Need, Unsent};
use crate::rewrite::draws::CallValue;
use crate::sql::digest::Digest;
use crate::sql::draws::CallForm;
use crate::tables::DrawnFrom;

/// Draws the ids of an execution of statement `id`. Returns its payload with them, what was taken, and the digest of the
/// client's text.
pub(crate) fn draw(
    known: &mut Known,
    by: Basis<'_>,
    id: u32,
    payload: &[u8],
) -> Result<(Vec<u8>, Vec<DrawnIds>, Digest), Unsent> {
    let with_attributes = known.has_attributes();
    let statement = known.statements.drawing(id).ok_or(Refusal::UnknownStatement(id))?;
    let draws = statement.draws.clone();
    let expected = statement.expected(with_attributes);
    let params = Params::parse(by.command, payload, expected)?;
    if let Some(types) = params.new_types(expected) {
        statement.types = Some(types);
    }
    let sets = sets(&params, draws.client_params)?;
    let mut wanted = Vec::with_capacity(sets * draws.params.len());
    for _ in 0..sets {
        for param in &draws.params {
            wanted.push(wanted_by(known, by, param)?);
        }
    }
    let (values, taken) = values(known, by, &wanted)?;
    let bound = bound(params, &draws, &values).ok_or_else(|| refused("the ids do not fit the calls"))?;
    if let Some(statement) = known.statements.drawing(id) {
        statement.long_data.clear();
    }
    Ok((bound, taken, draws.digest.clone()))
}

fn wanted_by(known: &mut Known, by: Basis<'_>, param: &DrawParam) -> Result<Wanted, Unsent> {
    let tables = by.tables;
    let name = &param.generator;
    let has_sequences = known.session.presumed_dialect().is_mariadb();
    let target = match tables.drawn_from(&name.schema, &name.table, has_sequences, (by.clock)()) {
        DrawnFrom::Generator(target) => target,
        DrawnFrom::Unknown if known.supplied.may_ask() => return Err(Need::Sequences(tables.clone()).into()),
        DrawnFrom::Unknown => {
            let why = format!("Rowstamp does not know whether the server has a SEQUENCE {name}; try again");
            return Err(Refusal::NoId(why).into());
        }
        DrawnFrom::Other => {
            return Err(refused(format_args!(
                "generator {name} is no longer open to calls (sql = true), or the server has a SEQUENCE of that name now; prepare \
                 the statement again"
            ))
            .into());
        }
    };
    let what = match param.form {
        CallForm::Next => WantedKind::Ids(1),
        CallForm::Previous => WantedKind::Last,
        CallForm::Take(n) => WantedKind::Ids(n.unwrap_or_default().into()),
    };
    Ok(Wanted { target: Some(target), what })
}

/// The number of sets of parameters.
fn sets(params: &Params<'_>, client_params: u16) -> Result<usize, Refusal> {
    let Params::Bulk(bulk) = params else { return Ok(1) };
    let mut cells = bulk.cells();
    let mut count = 0usize;
    while cells.cell().map_err(|_| Refusal::WrongArguments)?.is_some() {
        count += 1;
    }
    Ok(count / usize::from(client_params.max(1)))
}

/// The execution with `values` bound to the calls' parameters, those of each set in turn.
fn bound(params: Params<'_>, draws: &PreparedDraws, values: &[CallValue]) -> Option<Vec<u8>> {
    match params {
        Params::One(execute) => {
            let bytes: Vec<_> = values.iter().map(|value| value.id().map(id_bytes)).collect();
            let ours = bytes.iter().zip(&draws.params).map(|(bytes, param)| {
                let bound = bytes.as_ref().map_or(ParamValue::Null, |bytes| ParamValue::Value(bytes));
                (usize::from(param.index), Param::new(ParamType::BIGINT, bound))
            });
            // Lives no longer than the ids' bytes.
            let mut execute = execute;
            execute.put_among(ours);
            Some(execute.build())
        }
        Params::Bulk(bulk) => {
            let mut types = bulk.types.clone();
            for param in &draws.params {
                types.insert(usize::from(param.index).min(types.len()), ParamType::BIGINT);
            }
            let mut out = Vec::with_capacity(bulk.bytes() + 9 * values.len() + 64);
            bulk.put_head(types.iter().copied(), &mut out);
            let mut cells = bulk.cells();
            for set in values.chunks(draws.params.len().max(1)) {
                let mut ours = draws.params.iter().zip(set).peekable();
                for at in 0..types.len() {
                    match ours.next_if(|(param, _)| usize::from(param.index) == at) {
                        Some((_, value)) => match value.id() {
                            Some(id) => put_integer(&mut out, id),
                            None => out.push(1),
                        },
                        None => cells.cell().ok()??.1.put(&mut out),
                    }
                }
            }
            Some(out)
        }
    }
}
