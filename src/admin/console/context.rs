//! Who sends a statement, and where it acts.

use super::failure::Failure;
use crate::admin::desk::Desk;
use crate::users::{Role, User};

/// Who is logged in.
pub(super) struct Caller {
    pub(super) user: User,
    /// The address that the connection comes from, as the log has it.
    pub(super) client: String,
    pub(super) connection_id: u32,
    pub(super) is_tls: bool,
}

/// What a statement may look at.
pub(super) struct Context<'a> {
    pub(super) desk: &'a dyn Desk,
    pub(super) caller: &'a Caller,
    /// The default one.
    pub(super) database: Option<&'a str>,
}

impl Context<'_> {
    /// By the account as it is now: a reload may have changed it.
    pub(super) fn role(&self) -> Result<Role, Failure> {
        let (users, user) = (self.desk.users(), &self.caller.user);
        let now = users.iter().find(|now| now.name == user.name && now.password == user.password);
        now.map(|now| now.role).ok_or(Failure::Gone)
    }
}
