//! The sender of a statement, and the desk and database that it is for.

use std::sync::Arc;

use super::failure::Failure;
use crate::admin::desk::{Desk, RuleRow};
use crate::users::{Login, Right, User};

/// The user who is logged in, and the connection.
pub(super) struct Caller {
    pub(super) login: Login,
    /// The address that the connection comes from, as the log has it.
    pub(super) client: String,
    pub(super) connection_id: u32,
    pub(super) is_tls: bool,
}

/// Everything that a statement may look at.
pub(super) struct Context<'a> {
    pub(super) desk: &'a dyn Desk,
    pub(super) caller: &'a Caller,
    /// The default one.
    pub(super) database: Option<&'a str>,
}

impl Context<'_> {
    /// The current state of the user: a reload, or another proxy, may have changed it.
    pub(super) fn user(&self) -> Result<Arc<User>, Failure> {
        let now = self.caller.login.as_of(&self.desk.users().roster());
        now.map(|login| login.user).ok_or(Failure::Gone)
    }

    /// The rules, if the user may look at them; otherwise none.
    pub(super) fn rules(&self) -> Vec<RuleRow> {
        let sees_all = self.user().is_ok_and(|user| user.may_everywhere(Right::Read));
        if sees_all { self.desk.rules() } else { Vec::new() }
    }
}
