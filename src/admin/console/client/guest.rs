//! Who asks the console, and where.

/// Who asks, and where.
pub(in crate::admin::console) struct Guest<'a> {
    pub(in crate::admin::console) user: &'a str,
    /// The address that the connection comes from.
    pub(in crate::admin::console) client: &'a str,
    pub(in crate::admin::console) connection_id: u32,
    pub(in crate::admin::console) database: Option<&'a str>,
    pub(in crate::admin::console) is_tls: bool,
    pub(in crate::admin::console) up_seconds: u64,
    /// The databases that rules name.
    pub(in crate::admin::console) schemas: &'a (dyn Fn() -> Vec<String> + Sync),
}
