//! The text of a prepared statement, with one place for ids that are decided at each execution.

use crate::rewrite::plan::edit::{Edit, IdForm, Piece, put_digits};
use crate::rewrite::plan::prepared_text::{HiddenParam, PARAMS_MAX, PreparedText};
use crate::rewrite::plan::refusal::Refusal;
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::rewrite::splice::{needs_blank, put_fixed};

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

impl Plan {
    /// The text to prepare. Only of a plan made for `Protocol::Prepare`, which holds one insert.
    pub fn prepare(&self, text: &[u8]) -> Result<PreparedText, Refusal> {
        if let Some((insert, select)) = self.select() {
            return select.prepare(text, &insert.target.spacing, insert.params);
        }
        let [insert] = self.inserts.as_slice() else {
            return Err(Refusal::new("a prepared text holds several statements; prepare them one by one"));
        };
        insert.prepare(text)
    }
}

impl InsertPlan {
    /// [`Plan::prepare`] of the text's only INSERT.
    pub(super) fn prepare(&self, text: &[u8]) -> Result<PreparedText, Refusal> {
        let mut writer = Writer { out: Vec::with_capacity(text.len() + 64), hidden: Vec::new() };
        let mut from = 0usize;
        for edit in &self.edits {
            writer.out.extend_from_slice(text.get(from..edit.start as usize).unwrap_or_default());
            writer.piece(edit, self)?;
            from = edit.end as usize;
            if needs_blank(edit, text) {
                writer.out.push(b' ');
            }
        }
        writer.out.extend_from_slice(text.get(from..).unwrap_or_default());
        let params = self.params as usize + writer.hidden.len();
        let (Ok(client_params), true) = (u16::try_from(self.params), params <= PARAMS_MAX) else {
            return Err(no_room());
        };
        Ok(PreparedText {
            text: writer.out,
            hidden: writer.hidden,
            client_params,
            id_params: self.id_params.clone(),
            fixed_ids: self.ids,
            style: self.style,
        })
    }

    /// The edits of [`InsertPlan::prepare`], each with what goes in its place, but for blanks after them.
    pub(super) fn pieces(&self) -> Result<Vec<(Edit, Vec<u8>)>, Refusal> {
        let mut writer = Writer { out: Vec::new(), hidden: Vec::new() };
        let mut pieces = Vec::with_capacity(self.edits.len());
        for edit in &self.edits {
            writer.piece(edit, self)?;
            pieces.push((edit.clone(), std::mem::take(&mut writer.out)));
        }
        Ok(pieces)
    }
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
            IdForm::Wrapper => self.out.extend_from_slice(b"LAST_INSERT_ID(?)"),
            IdForm::Literal | IdForm::Variable => self.out.push(b'?'),
            IdForm::Warned => self.out.extend_from_slice(b"CONCAT(?,'x')"),
            IdForm::BehindWrapper => {
                let Some(behind) = insert.target.spacing.offset(u64::from(nth)) else {
                    return Err(Refusal::new(
                        "the generator's ids are too far apart for so many rows; insert fewer rows",
                    ));
                };
                self.out.extend_from_slice(b"LAST_INSERT_ID()+");
                put_digits(&mut self.out, behind);
                return Ok(());
            }
        }
        self.hide(edit, row)
    }

    fn hide(&mut self, edit: &Edit, row: u32) -> Result<(), Refusal> {
        let index = edit.params_before as usize + self.hidden.len();
        let index = u16::try_from(index).ok().filter(|&i| usize::from(i) < PARAMS_MAX).ok_or_else(no_room)?;
        self.hidden.push(HiddenParam { index, row });
        Ok(())
    }
}
