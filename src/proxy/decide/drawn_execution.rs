//! Executions of prepared statements with calls that draw ids: each draws again, and binds the ids to the parameters that
//! stand for its calls. From here on the execution is read as if the client had bound them.

use std::sync::Arc;

use crate::mysql::bulk::put_integer;
use crate::mysql::error::Refusal;
use crate::mysql::packet::put_packets;
use crate::mysql::prepared::{Bound, Param, ParamType, id_bytes};
use crate::proxy::decide::draws::{Wanted, What};
use crate::proxy::decide::params::Params;
use crate::proxy::decide::verdict::refused;
use crate::proxy::known::drawn::{DrawParam, PreparedDraws};
use crate::proxy::known::need::{Need, Supplied, Unsent};
use crate::proxy::relay::Arrived;
use crate::proxy::relay::outstanding::Note;
use crate::proxy::serve::progress::Progress;
use crate::proxy::serve::session::Session;
use crate::rewrite::draws::Value;
use crate::sql::draws::Form;
use crate::tables::{DrawnFrom, Tables};

impl Session {
    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE. `None`: it goes on, with its ids if it has calls.
    pub(in crate::proxy) fn draw_execution(&mut self, arriving: &mut Arrived) -> Option<Progress> {
        let id = arriving.statement.filter(|id| self.relay.known.statements.draws(*id))?;
        let tables = self.shared.tables.now();
        let mut supplied = std::mem::take(&mut self.relay.known.supplied);
        let drawn = self.drawn_execution(&tables, arriving, id, &mut supplied);
        self.relay.known.supplied = supplied;
        let unsent = match drawn {
            _ if tables.is_retired() => Need::Rules { retired: tables }.into(),
            Err(unsent) => unsent,
            // An INSERT that is kept is looked at for its own ids next.
            Ok(()) if self.relay.known.statements.get(id).is_some() => return None,
            Ok(()) => {
                let effects = self.relay.known.statements.effects(id);
                if effects.as_ref().is_some_and(|effects| effects.hidden_insert.is_some()) {
                    return None;
                }
                self.relay.translate_id();
                return Some(self.pass(*arriving, true, effects.map_or(Note::Nothing, Note::effects)));
            }
        };
        Some(self.unsent(*arriving, unsent))
    }

    fn drawn_execution(
        &mut self,
        tables: &Arc<Tables>,
        arrived: &mut Arrived,
        id: u32,
        supplied: &mut Supplied,
    ) -> Result<(), Unsent> {
        if self.is_drawn(tables, arrived)? {
            return Ok(());
        }
        let with_attributes = self.relay.known.has_attributes();
        let payload = self.relay.payload(*arrived).into_owned();
        let statement = self.relay.known.statements.drawing(id).ok_or(Refusal::UnknownStatement(id))?;
        let draws = statement.draws.clone();
        let expected = statement.expected(with_attributes);
        let params = Params::parse(arrived.command, &payload, expected)?;
        if let Some(types) = params.new_types(expected) {
            statement.types = Some(types);
        }
        let sets = sets(&params, draws.client_params)?;
        let mut wanted = Vec::with_capacity(sets * draws.params.len());
        for _ in 0..sets {
            for param in &draws.params {
                wanted.push(self.wanted_by(tables, param, supplied)?);
            }
        }
        let (values, taken) = self.values(tables, &wanted, supplied)?;
        let bound = bound(params, &draws, &values).ok_or_else(|| refused("the ids do not fit the calls"))?;
        let mut packets = Vec::with_capacity(bound.len() + 8);
        put_packets(&mut packets, 0, &bound);
        if let Some(statement) = self.relay.known.statements.drawing(id) {
            statement.long_data.clear();
        }
        self.put_drawn(arrived, packets, (tables, taken), (Some(draws.digest.clone()), None));
        Ok(())
    }

    fn wanted_by(
        &self,
        tables: &Arc<Tables>,
        param: &DrawParam,
        supplied: &mut Supplied,
    ) -> Result<Wanted, Unsent> {
        let name = &param.generator;
        let has_sequences = self.relay.known.session.presumed_dialect().is_mariadb();
        let target = match tables.drawn_from(&name.schema, &name.table, has_sequences) {
            DrawnFrom::Generator(target) => target,
            DrawnFrom::Unknown if supplied.may_look() => return Err(Need::Sequences(tables.clone()).into()),
            DrawnFrom::Unknown => {
                let why =
                    format!("Rowstamp does not know whether the server has a SEQUENCE {name}; try again");
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
            Form::Next => What::Ids(1),
            Form::Previous => What::Last,
            Form::Take(n) => What::Ids(n.unwrap_or_default().into()),
        };
        Ok(Wanted { target: Some(target), what })
    }
}

/// How many sets of parameters there are.
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
fn bound(params: Params<'_>, draws: &PreparedDraws, values: &[Value]) -> Option<Vec<u8>> {
    match params {
        Params::One(execute) => {
            let bytes: Vec<_> = values.iter().map(|value| value.id().map(id_bytes)).collect();
            let ours = bytes.iter().zip(&draws.params).map(|(bytes, param)| {
                let bound = bytes.as_ref().map_or(Bound::Null, |bytes| Bound::Value(bytes));
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
