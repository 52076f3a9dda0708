//! A text to prepare, and its parameters.

use crate::rewrite::plan::edit::Style;

/// More placeholders the protocol cannot count.
pub const PARAMS_MAX: usize = 65_535;

/// The text that goes to the server in COM_STMT_PREPARE, and what its executions need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedText {
    pub text: Vec<u8>,
    /// Our own parameters, ascending by index. Wrapped styles have one, for the first generated
    /// row; literals are one for each. Empty where the client wrote every id, or decides at
    /// execution.
    pub ours: Vec<OurParam>,
    /// The client's own parameters; the server counts these and ours.
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
pub struct OurParam {
    /// Among the server's parameters, counted from 0.
    pub index: u16,
    /// Row of the statement, counted from 0: ids ascend with the rows that take one.
    pub row: u32,
    /// It is the whole value of the id's column, whose type the server expects then.
    pub is_whole: bool,
}

/// A parameter of the client's at the id's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdParam {
    /// Among the client's parameters, counted from 0.
    pub index: u16,
    /// Row of the statement, counted from 0.
    pub row: u32,
}
