//! SHOW SESSIONS: who is connected, and the last statement of each that was given ids.

use std::collections::BTreeMap;

use super::Field;
use crate::admin::console::answer::Type::{Real, Text, Unsigned};
use crate::admin::desk::{Desk, LastRow, SessionRow};

pub(super) type WithLast = (SessionRow, Option<LastRow>);

pub(super) const FIELDS: [Field<WithLast>; 17] = [
    ("id", Unsigned, |(session, _)| session.id.into()),
    ("state", Text, |(session, _)| session.state.word().into()),
    ("user", Text, |(session, _)| (&*session.user).into()),
    ("client", Text, |(session, _)| (&*session.client).into()),
    ("database", Text, |(session, _)| (&*session.database).into()),
    ("server_connection", Unsigned, |(session, _)| u64::from(session.connection).into()),
    ("tls", Text, |(session, _)| session.is_tls.into()),
    ("age_seconds", Unsigned, |(session, _)| session.age.as_secs().into()),
    ("state_seconds", Real, |(session, _)| {
        ((session.in_state.as_secs_f64() * 1000.0).round() / 1000.0).into()
    }),
    ("statements", Unsigned, |(session, _)| session.statements.into()),
    ("rewritten", Unsigned, |(session, _)| session.rewritten.into()),
    ("refused", Unsigned, |(session, _)| session.refused.into()),
    ("ids", Unsigned, |(session, _)| session.ids.into()),
    ("bytes_in", Unsigned, |(session, _)| session.bytes_from_client.into()),
    ("bytes_out", Unsigned, |(session, _)| session.bytes_to_client.into()),
    ("last_ruled", Text, |(_, last)| last.as_ref().map(|last| last.statement.clone()).into()),
    ("last_digest", Text, |(_, last)| last.as_ref().and_then(|last| last.digest.clone()).into()),
];

/// By id.
pub(super) fn with_last(desk: &dyn Desk) -> Vec<WithLast> {
    let mut sessions = desk.sessions();
    sessions.sort_by_key(|session| session.id);
    let mut last: BTreeMap<_, _> = desk.last_ruled().into_iter().collect();
    let with_last = |session: SessionRow| {
        let last = last.remove(&session.id);
        (session, last)
    };
    sessions.into_iter().map(with_last).collect()
}
