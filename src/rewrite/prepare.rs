//! The text of a prepared statement, with one place for ids that are decided at each execution.

use crate::rewrite::plan::edit::{Edit, Id, IdForm, Piece, put_digits};
use crate::rewrite::plan::{InsertPlan, OurParam, PARAMS_MAX, Plan, PlanRefusal, PreparedText};
use crate::rewrite::splice::{put_edits, put_fixed};

/// The facts about a prepared INSERT that its executions need.
#[derive(Debug)]
pub struct PreparedInsert {
    pub insert: InsertPlan,
    pub text: PreparedText,
}

impl PreparedInsert {
    /// Which of the client's the server's parameter of this number is; `None`: it is ours.
    pub fn client_param(&self, server_param: u16) -> Option<u16> {
        match self.text.ours.binary_search_by_key(&server_param, |ours| ours.index) {
            Ok(_) => None,
            Err(before) => u16::try_from(before).ok().and_then(|before| server_param.checked_sub(before)),
        }
    }

    /// The number of the client's parameter among the server's.
    pub fn server_param(&self, client_param: u16) -> u16 {
        // Ours ascend, and each in front of it moves it by one.
        self.text.ours.iter().fold(client_param, |at, ours| at + u16::from(ours.index <= at))
    }
}

impl Plan {
    /// The text to prepare. Only of a plan made for `Protocol::Prepare`, which holds one insert.
    pub fn prepare(&self, text: &[u8]) -> Result<PreparedText, PlanRefusal> {
        let [insert] = self.inserts.as_slice() else {
            return Err(PlanRefusal::new(
                "a prepared text holds several statements; prepare them one by one",
            ));
        };
        insert.prepare(text)
    }
}

impl InsertPlan {
    /// [`Plan::prepare`] of the text's only INSERT.
    pub(super) fn prepare(&self, text: &[u8]) -> Result<PreparedText, PlanRefusal> {
        let mut out = Vec::with_capacity(text.len() + 64);
        let mut ours = Vec::new();
        let put = |out: &mut Vec<u8>, edit: &Edit, id| self.put_param(out, edit, id, &mut ours);
        let end = put_edits(self, text, 0, &mut out, put)?
            .ok_or_else(|| self.refused("the ids do not fit the text; send the statement as text"))?;
        out.extend_from_slice(text.get(end..).unwrap_or_default());
        let params = self.params as usize + ours.len();
        let (Ok(client_params), true) = (u16::try_from(self.params), params <= PARAMS_MAX) else {
            return Err(self.no_room());
        };
        Ok(PreparedText {
            text: out,
            ours,
            client_params,
            id_params: self.id_params.clone(),
            fixed_ids: self.ids,
            style: self.style,
        })
    }

    /// The edits of [`InsertPlan::prepare`], each with what goes in its place, but for blanks after
    /// them.
    pub(super) fn pieces(&self) -> Result<Vec<(Edit, Vec<u8>)>, PlanRefusal> {
        let mut ours = Vec::new();
        let mut pieces = Vec::with_capacity(self.edits.len());
        for edit in &self.edits {
            let mut out = Vec::new();
            match &edit.piece {
                Piece::Id(id) => self.put_param(&mut out, edit, *id, &mut ours)?,
                fixed => put_fixed(&mut out, fixed, self),
            }
            pieces.push((edit.clone(), out));
        }
        Ok(pieces)
    }

    /// Writes a parameter of ours for an id, or what the wrapper makes of it.
    fn put_param(
        &self,
        out: &mut Vec<u8>,
        edit: &Edit,
        id: Id,
        ours: &mut Vec<OurParam>,
    ) -> Result<(), PlanRefusal> {
        if id.comma {
            out.push(b',');
        }
        match id.form {
            IdForm::Wrapper => out.extend_from_slice(b"LAST_INSERT_ID(?)"),
            IdForm::Literal | IdForm::Variable => out.push(b'?'),
            IdForm::Warned => out.extend_from_slice(b"CONCAT(?,'x')"),
            IdForm::AfterWrapper => {
                let Some(above) = self.target.spacing.offset(u64::from(id.nth)) else {
                    return Err(self.refused(
                        "the generator's ids are too far apart for so many rows; insert fewer rows at a time",
                    ));
                };
                out.extend_from_slice(b"LAST_INSERT_ID()+");
                put_digits(out, above);
                return Ok(());
            }
        }
        let index = edit.params_before as usize + ours.len();
        let index = u16::try_from(index)
            .ok()
            .filter(|&i| usize::from(i) < PARAMS_MAX)
            .ok_or_else(|| self.no_room())?;
        let is_whole = matches!(id.form, IdForm::Literal | IdForm::Variable);
        ours.push(OurParam { index, row: id.row, is_whole });
        Ok(())
    }

    fn no_room(&self) -> PlanRefusal {
        self.refused(
            "the rows and their ids need more than 65,535 placeholders; prepare fewer rows at a time",
        )
    }

    fn refused(&self, why: &str) -> PlanRefusal {
        PlanRefusal::new(self.target.at(why))
    }
}
