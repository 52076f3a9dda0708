//! The changes in a text: their places, and what goes there.

use crate::sql::dialect::ClientCharset;
use crate::sql::lex::Span;

/// The form in which ids are written, and so what the OK packet and LAST_INSERT_ID() hold afterwards
/// (docs/design/inserts.md, "The insert id").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `LAST_INSERT_ID(first)` in the first generated row: OK packet and function are right.
    Wrapped,
    /// Literals: the OK packet is to be patched, and `last_insert_id` set later.
    Literal,
    /// ON DUPLICATE KEY UPDATE of one row, wrapped, with `id=LAST_INSERT_ID(id)` in its list: 1
    /// affected row is the inserted one, 2 mean that the OK packet has the updated row's id;
    /// otherwise send 0.
    OdkuOne,
    /// Like `OdkuOne`, with a literal in place of the wrapper, where that would show or where rows may be
    /// ignored: `last_insert_id` is set later, where the row was inserted.
    OdkuLiteral,
    /// ON DUPLICATE KEY UPDATE of one row into an AUTO_INCREMENT column: a literal, and the OK
    /// packet is native.
    OdkuNative,
}

/// Bytes `start..end` of the text give way to `piece`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rewrite) struct Edit {
    pub(in crate::rewrite) start: u32,
    pub(in crate::rewrite) end: u32,
    /// The client's `?` in front of it.
    pub(in crate::rewrite) params_before: u32,
    pub(in crate::rewrite) piece: Piece,
}

impl Edit {
    /// `piece` in place of `span`, in a text without placeholders.
    pub(in crate::rewrite) fn over(Span { start, end }: Span, piece: Piece) -> Self {
        Edit { start, end, params_before: 0, piece }
    }

    /// `piece` in front of the byte `at`, in a text without placeholders.
    pub(in crate::rewrite) fn at(at: u32, piece: Piece) -> Self {
        Edit::over(Span { start: at, end: at }, piece)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::rewrite) enum Piece {
    /// The bytes as they are, in the client's character set.
    Text(Box<[u8]>),
    /// The id's column, quoted, in the client's character set, between these.
    Column { before: &'static str, after: &'static str, charset: ClientCharset },
    /// The list of the visible columns, and after them the id's.
    AllColumns { with_id: bool, charset: ClientCharset },
    /// An id of the statement's block.
    Id(Id),
}

/// The n-th id of the statement; prepared, the one of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rewrite) struct Id {
    pub(in crate::rewrite) nth: u32,
    pub(in crate::rewrite) row: u32,
    /// True if the id follows other values of its row.
    pub(in crate::rewrite) comma: bool,
    pub(in crate::rewrite) form: IdForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rewrite) enum IdForm {
    /// `7`; prepared: a parameter of its own.
    Literal,
    /// `'7x'`, of which the server warns that it is truncated, or which is an error to it, as what
    /// the client wrote; prepared: `CONCAT(?,'x')`.
    Warned,
    /// `LAST_INSERT_ID(7)`
    Wrapper,
    /// `8`; prepared: so much above what the wrapper of the same statement set.
    AfterWrapper,
    /// A user's variable of ours that holds it.
    Variable,
}

pub(in crate::rewrite) fn put_digits(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}
