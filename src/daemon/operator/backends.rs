//! The servers of `backend.address`, as operators see them.

use crate::admin::BackendRow;
use crate::daemon::operator::{Parts, metrics};
use crate::schema::Role;

/// In the order of `backend.address`.
pub(super) fn rows(parts: &Parts) -> Vec<BackendRow> {
    let shared = parts.shared.load();
    let primary = &shared.login.primary;
    let row = |(nth, address): (usize, &crate::address::Address)| {
        let seen = primary.seen(nth);
        let answered = seen.role.filter(|role| *role != Role::Away);
        BackendRow {
            address: address.to_string(),
            is_primary: nth == primary.get(),
            is_up: seen.is_up(),
            is_read_only: answered.map(|role| role == Role::ReadOnly),
            is_replica: answered.filter(|role| *role != Role::ReadOnly).map(|role| role == Role::Replica),
            connect_errors: seen.failed.iter().map(|(failure, count)| (failure.word(), *count)).collect(),
            connect_time: metrics::timing(&seen.connected.read()),
            last_error: seen.last_error,
        }
    };
    parts.config.proxy.backend.addresses.iter().enumerate().map(row).collect()
}
