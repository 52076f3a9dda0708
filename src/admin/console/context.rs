//! Who sends a statement, and where it acts.

use std::sync::Arc;

use super::failure::Failure;
use crate::admin::desk::{Desk, RuleRow};
use crate::users::{Login, Right, User};

/// Who is logged in.
pub(super) struct Caller {
    pub(super) login: Login,
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
    /// As the user is now: a reload, or another proxy, may have changed it.
    pub(super) fn user(&self) -> Result<Arc<User>, Failure> {
        let now = self.caller.login.as_of(&self.desk.users().roster());
        now.map(|login| login.user).ok_or(Failure::Gone)
    }

    /// Those that the user may look at.
    pub(super) fn rules(&self) -> Vec<RuleRow> {
        let sees_all = self.user().is_ok_and(|user| user.may_everywhere(Right::Read));
        if sees_all { self.desk.rules() } else { Vec::new() }
    }
}
