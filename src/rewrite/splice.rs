//! Plan and blocks to bytes.

use crate::ids::block::IdBlock;
use crate::rewrite::plan::edit::{Edit, Id, IdForm, Piece, put_digits};
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::sql::dialect::ClientCharset;
use crate::sql::lex::is_name_byte;
use crate::sql::name;

/// A first digit, a comma, a blank.
const ID_EXTRA_BYTES: usize = 3;
/// Room for the column's name and the wrapper, for most statements.
const FIXED_BYTES: usize = 80;

impl Plan {
    /// Sets the user's variables that the packet reads its ids from: to be run, and to succeed,
    /// before the packet is sent. `None`: it needs none.
    pub fn variables(&self, blocks: &[IdBlock]) -> Option<String> {
        let mut out = Vec::new();
        let mut blocks = blocks.iter();
        for insert in self.inserts.iter().filter(|insert| insert.ids > 0) {
            let block = blocks.next()?;
            let Some(first) = insert.first_variable else { continue };
            for edit in &insert.edits {
                let Piece::Id(Id { nth, form: IdForm::Variable, .. }) = edit.piece else { continue };
                out.extend_from_slice(if out.is_empty() { b"SET " } else { b"," });
                put_variable(&mut out, first + nth);
                out.push(b'=');
                put_digits(&mut out, block.nth(u64::from(nth))?);
            }
        }
        String::from_utf8(out).ok().filter(|sql| !sql.is_empty())
    }

    /// Appends the packet's text with its ids. `None` where `blocks` do not match
    /// [`Plan::demands`], or the edits are not in the order of the text; then `out` holds a part.
    pub fn splice_into(&self, text: &[u8], blocks: &[IdBlock], out: &mut Vec<u8>) -> Option<()> {
        let edits: usize = self.inserts.iter().map(|insert| insert.edits.len()).sum();
        let digits = blocks
            .iter()
            .map(|block| block.last().checked_ilog10().unwrap_or_default() as usize + ID_EXTRA_BYTES)
            .max()
            .unwrap_or_default();
        out.reserve(text.len() + edits * digits + FIXED_BYTES);
        let mut from = 0usize;
        let mut blocks = blocks.iter();
        for edit in &self.settled {
            let Piece::Text(piece) = &edit.piece else { return None };
            out.extend_from_slice(text.get(from..edit.start as usize)?);
            out.extend_from_slice(piece);
            from = edit.end as usize;
        }
        for insert in &self.inserts {
            let block = if insert.ids > 0 { Some(blocks.next()?) } else { None };
            let put = |out: &mut Vec<u8>, _: &Edit, id| put_id(out, id, insert, block).ok_or(());
            from = put_edits(insert, text, from, out, put).ok().flatten()?;
        }
        if blocks.next().is_some() {
            return None;
        }
        out.extend_from_slice(text.get(from..)?);
        Some(())
    }

    /// [`Plan::splice_into`] a text of its own.
    pub fn splice(&self, text: &[u8], blocks: &[IdBlock]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.splice_into(text, blocks, &mut out)?;
        Some(out)
    }
}

/// Appends the text from `from` up to the last edit of `insert`, with all edits in their places.
/// Returns where the text goes on; `None` where an edit begins before the end of the one before it,
/// or after the text: what was written is no statement then. `put_id` writes an id.
pub(super) fn put_edits<E>(
    insert: &InsertPlan,
    text: &[u8],
    mut from: usize,
    out: &mut Vec<u8>,
    mut put_id: impl FnMut(&mut Vec<u8>, &Edit, Id) -> Result<(), E>,
) -> Result<Option<usize>, E> {
    for edit in &insert.edits {
        let Some(between) = text.get(from..edit.start as usize) else { return Ok(None) };
        out.extend_from_slice(between);
        match &edit.piece {
            Piece::Id(id) => put_id(out, edit, *id)?,
            fixed => put_fixed(out, fixed, insert),
        }
        from = edit.end as usize;
        if needs_blank(edit, text) {
            out.push(b' ');
        }
    }
    Ok(Some(from))
}

fn put_id(out: &mut Vec<u8>, place: Id, insert: &InsertPlan, block: Option<&IdBlock>) -> Option<()> {
    let id = block?.nth(u64::from(place.nth))?;
    put_separator(out, place.comma);
    match place.form {
        IdForm::Wrapper => {
            out.extend_from_slice(b"LAST_INSERT_ID(");
            put_digits(out, id);
            out.push(b')');
        }
        IdForm::Literal | IdForm::AfterWrapper => put_digits(out, id),
        IdForm::Warned => {
            out.push(b'\'');
            put_digits(out, id);
            out.extend_from_slice(b"x'");
        }
        IdForm::Variable => put_variable(out, insert.first_variable? + place.nth),
    }
    Some(())
}

fn put_variable(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(b"@`rowstamp.");
    put_digits(out, u64::from(number));
    out.push(b'`');
}

/// A piece that no id decides.
pub(super) fn put_fixed(out: &mut Vec<u8>, piece: &Piece, insert: &InsertPlan) {
    match piece {
        Piece::Text(text) => out.extend_from_slice(text),
        Piece::Column { before, after, charset } => {
            out.extend_from_slice(before.as_bytes());
            put_name(out, insert.target.id_column(), *charset);
            out.extend_from_slice(after.as_bytes());
        }
        Piece::AllColumns { with_id, charset } => {
            let shown = insert.target.shape.iter().flat_map(|shape| shape.visible());
            let id = with_id.then(|| insert.target.id_column());
            for (nth, column) in shown.map(|column| column.name.as_str()).chain(id).enumerate() {
                out.push(if nth == 0 { b'(' } else { b',' });
                put_name(out, column, *charset);
            }
            out.push(b')');
        }
        Piece::Id(_) => {}
    }
}

/// The plan has made sure that the name can be written in this character set.
fn put_name(out: &mut Vec<u8>, name: &str, charset: ClientCharset) {
    match charset.written(name) {
        Some(written) => name::put_quoted_bytes(out, &written),
        None => name::put_quoted(out, name),
    }
}

/// Separates an id from the text before it. `USING(1)` is two tokens, `USING7` would be one.
pub(super) fn put_separator(out: &mut Vec<u8>, comma: bool) {
    match out.last() {
        _ if comma => out.push(b','),
        Some(&byte) if is_name_byte(byte) => out.push(b' '),
        _ => {}
    }
}

/// `'0'ON DUPLICATE` is two tokens, `7ON` would be one.
pub(super) fn needs_blank(edit: &Edit, text: &[u8]) -> bool {
    text.get(edit.end as usize).is_some_and(|&byte| is_name_byte(byte))
}
