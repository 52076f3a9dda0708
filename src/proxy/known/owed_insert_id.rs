//! The insert id that the server does not know yet.

use std::collections::VecDeque;

/// The id that `LAST_INSERT_ID()` should show and the server does not know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwedInsertId {
    pub(crate) id: u64,
    /// Insert ids that later statements of the same packet answered with, the last one first. Where
    /// the function shows one of them, the server has generated it, and nothing is owed any more;
    /// an id that the client wrote reaches the packet only.
    pub(crate) perhaps_newer: VecDeque<u64>,
}

impl OwedInsertId {
    /// The statement that brings the function up to date.
    pub(crate) fn statement(&self) -> String {
        let Self { id, perhaps_newer } = self;
        if perhaps_newer.is_empty() {
            return format!("SET last_insert_id={id}");
        }
        let newer = perhaps_newer.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        format!("SET last_insert_id=CAST(IF(LAST_INSERT_ID() IN({newer}),LAST_INSERT_ID(),{id})AS UNSIGNED)")
    }
}

#[cfg(test)]
mod tests {
    use super::OwedInsertId;

    #[test]
    fn what_brings_the_insert_id_up_to_date() {
        let owed = |newer: &[u64]| OwedInsertId { id: 5, perhaps_newer: newer.iter().copied().collect() };
        assert_eq!(owed(&[]).statement(), "SET last_insert_id=5");
        let expect = "SET last_insert_id=CAST(IF(LAST_INSERT_ID() IN(9,7),LAST_INSERT_ID(),5)AS UNSIGNED)";
        assert_eq!(owed(&[9, 7]).statement(), expect);
    }
}
