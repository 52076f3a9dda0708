//! Why a statement is not rewritten.

use std::fmt;

use crate::mysql::error;
pub use crate::mysql::error::PREFIX;

/// Error 1235 (42000). Displays as "rowstamp: why; what to write instead".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRefusal(String);

impl PlanRefusal {
    /// "why; what to write instead". Never holds literals of the statement.
    pub fn new(why: impl Into<String>) -> Self {
        PlanRefusal(why.into())
    }
}

impl fmt::Display for PlanRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl From<PlanRefusal> for error::Refusal {
    fn from(refusal: PlanRefusal) -> Self {
        error::Refusal::Statement(refusal.0)
    }
}
