//! The text of a prepared statement, with one place for ids that are decided at each execution.

use super::plan::{Edit, IdForm, InsertPlan, Piece, Plan, Refusal, Style};
use super::splice::{needs_blank, put_digits, put_fixed};

/// More placeholders the protocol cannot count.
pub const PARAMS_MAX: usize = 65_535;

/// What goes to the server in COM_STMT_PREPARE, and what its executions need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedText {
    pub text: Vec<u8>,
    /// Our own parameters, ascending by index. Wrapped styles have one, for the first generated row; literals are one for each.
    /// Empty where the client wrote every id, or decides at execution.
    pub hidden: Vec<HiddenParam>,
    /// The client's own parameters; the server counts these and the hidden ones.
    pub client_params: u16,
    /// The client's parameters that stand at the id's place, one a row at most, ascending.
    /// Each that is bound to NULL or to zero takes an id at execution.
    pub id_params: Vec<IdParam>,
    /// Ids that every execution takes.
    pub fixed_ids: u32,
    pub style: Style,
}

/// A parameter of ours among the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenParam {
    /// Among the server's parameters, counted from 0.
    pub index: u16,
    /// Row of the statement, counted from 0: ids ascend with the rows that take one. Of an INSERT ... SELECT, which
    /// [`Number`](super::plan::Number) goes there.
    pub row: u32,
}

/// A parameter of the client's at the id's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdParam {
    /// Among the client's parameters, counted from 0.
    pub index: u16,
    /// Row of the statement, counted from 0.
    pub row: u32,
}

/// What an execution needs to know of its text.
#[derive(Debug)]
pub struct PreparedInsert {
    pub insert: InsertPlan,
    pub text: PreparedText,
}

impl PreparedInsert {
    /// Whether the server's parameter of this number is ours.
    pub fn hides(&self, server_param: u16) -> bool {
        self.text.hidden.binary_search_by_key(&server_param, |hidden| hidden.index).is_ok()
    }

    /// Where the client's parameter stands among the server's.
    pub fn server_param(&self, client_param: u16) -> u16 {
        // Hidden ones ascend, and each in front of it moves it by one.
        self.text.hidden.iter().fold(client_param, |at, hidden| at + u16::from(hidden.index <= at))
    }
}

pub(super) fn prepare(plan: &Plan, text: &[u8]) -> Result<PreparedText, Refusal> {
    let [insert] = plan.inserts.as_slice() else {
        return Err(Refusal::new("a prepared text holds several statements; prepare them one by one"));
    };
    one(insert, text)
}

/// [`prepare`] of the text's only INSERT.
pub(super) fn one(insert: &InsertPlan, text: &[u8]) -> Result<PreparedText, Refusal> {
    let mut writer = Writer { out: Vec::with_capacity(text.len() + 64), hidden: Vec::new() };
    let mut from = 0usize;
    for edit in &insert.edits {
        writer.out.extend_from_slice(text.get(from..edit.start as usize).unwrap_or_default());
        writer.piece(edit, insert)?;
        from = edit.end as usize;
        if needs_blank(edit, text) {
            writer.out.push(b' ');
        }
    }
    writer.out.extend_from_slice(text.get(from..).unwrap_or_default());
    let params = insert.params as usize + writer.hidden.len();
    let (Ok(client_params), true) = (u16::try_from(insert.params), params <= PARAMS_MAX) else {
        return Err(no_room());
    };
    Ok(PreparedText {
        text: writer.out,
        hidden: writer.hidden,
        client_params,
        id_params: insert.id_params.clone(),
        fixed_ids: insert.ids,
        style: insert.style,
    })
}

/// The edits of [`prepare`], each with what goes in its place, but for blanks behind them.
pub(super) fn pieces(insert: &InsertPlan) -> Result<Vec<(Edit, Vec<u8>)>, Refusal> {
    let mut writer = Writer { out: Vec::new(), hidden: Vec::new() };
    let mut pieces = Vec::with_capacity(insert.edits.len());
    for edit in &insert.edits {
        writer.piece(edit, insert)?;
        pieces.push((edit.clone(), std::mem::take(&mut writer.out)));
    }
    Ok(pieces)
}

fn no_room() -> Refusal {
    Refusal::new("65,535 placeholders leave no room for the id's own; prepare fewer rows at a time")
}

struct Writer {
    out: Vec<u8>,
    hidden: Vec<HiddenParam>,
}

impl Writer {
    fn piece(&mut self, edit: &Edit, insert: &InsertPlan) -> Result<(), Refusal> {
        let (nth, row, comma, form) = match &edit.piece {
            Piece::Text(_) | Piece::Column { .. } | Piece::AllColumns { .. } => {
                put_fixed(&mut self.out, &edit.piece, insert);
                return Ok(());
            }
            Piece::Id { nth, row, comma, form } => (*nth, *row, *comma, *form),
        };
        if comma {
            self.out.push(b',');
        }
        match form {
            IdForm::Wrapper => {
                self.out.extend_from_slice(b"LAST_INSERT_ID(?)");
                self.hide(edit, row)
            }
            IdForm::Literal | IdForm::Variable => {
                self.out.push(b'?');
                self.hide(edit, row)
            }
            IdForm::Warned => {
                self.out.extend_from_slice(b"CONCAT(?,'x')");
                self.hide(edit, row)
            }
            IdForm::BehindWrapper => {
                let Some(behind) = insert.target.spacing.offset(u64::from(nth)) else {
                    return Err(Refusal::new(
                        "the generator's ids are too far apart for so many rows; insert fewer rows",
                    ));
                };
                self.out.extend_from_slice(b"LAST_INSERT_ID()+");
                put_digits(&mut self.out, behind);
                Ok(())
            }
        }
    }

    fn hide(&mut self, edit: &Edit, row: u32) -> Result<(), Refusal> {
        let index = edit.params_before as usize + self.hidden.len();
        let index = u16::try_from(index).ok().filter(|&i| usize::from(i) < PARAMS_MAX).ok_or_else(no_room)?;
        self.hidden.push(HiddenParam { index, row });
        Ok(())
    }
}
