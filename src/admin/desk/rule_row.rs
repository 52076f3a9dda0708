//! A rule as SHOW RULES has it.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRow {
    pub schema: String,
    /// A name or a pattern, as the schema.
    pub table: String,
    pub column: String,
    /// `schema.name`, or a template.
    pub generator: String,
    /// The keys as rules files write them.
    pub explicit: String,
    pub insert_id: String,
    pub mode: String,
    pub unavailable: String,
    /// The number of tables that the rule fills, as far as they have been seen.
    pub tables: usize,
    /// The databases that it is for; of a pattern those of its tables that have been seen.
    pub databases: Vec<String>,
    /// `file:line`
    pub origin: String,
}
