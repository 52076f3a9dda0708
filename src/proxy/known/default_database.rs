//! The default database, as far as the texts of a session show it.

/// The default database as it is known without asking.
#[derive(Debug)]
pub(in crate::proxy) enum DefaultDatabase {
    /// Something has moved it that has not been answered, or that nothing tells of.
    Unknown,
    Is(Option<String>),
}

impl DefaultDatabase {
    pub(in crate::proxy) fn at_login(database: Option<&[u8]>) -> Self {
        let name = database.filter(|name| !name.is_empty()).map(std::str::from_utf8);
        match name {
            None => DefaultDatabase::Is(None),
            Some(Ok(name)) if name.is_ascii() => DefaultDatabase::Is(Some(name.to_owned())),
            // In whatever character set.
            Some(_) => DefaultDatabase::Unknown,
        }
    }
}
