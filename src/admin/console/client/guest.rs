//! Who asks the console, and where.

/// Who asks, and where.
pub(crate) struct Guest<'a> {
    pub(crate) user: &'a str,
    /// The address that the connection comes from.
    pub(crate) client: &'a str,
    pub(crate) connection_id: u32,
    pub(crate) database: Option<&'a str>,
    pub(crate) is_tls: bool,
    pub(crate) up_seconds: u64,
    /// The databases that rules name.
    pub(crate) schemas: &'a (dyn Fn() -> Vec<String> + Sync),
}
