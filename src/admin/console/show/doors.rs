//! SHOW DOORS: where ids are drawn without an INSERT. Those that are off are shown too.

use super::Field;
use crate::admin::console::answer::Type::{Text, Unsigned};
use crate::admin::console::answer::Value;
use crate::admin::desk::DoorRow;

pub(super) const FIELDS: [Field<DoorRow>; 14] = [
    ("door", Text, |row| row.name.into()),
    ("protocol", Text, |row| row.protocol.into()),
    ("address", Text, |row| row.address.clone().into()),
    ("open", Text, |row| row.is_open.into()),
    ("tls", Text, |row| row.address.as_ref().map(|_| &*row.tls).into()),
    ("compat", Text, |row| row.compat.join(", ").into()),
    ("clients", Unsigned, |row| row.clients.into()),
    ("ids", Unsigned, |row| row.ids.into()),
    ("given", Unsigned, |row| requests(row, "given")),
    ("denied", Unsigned, |row| requests(row, "denied")),
    ("over_quota", Unsigned, |row| requests(row, "over_quota")),
    ("wrong", Unsigned, |row| requests(row, "wrong")),
    ("no_ids", Unsigned, |row| requests(row, "no_ids")),
    ("logins_refused", Unsigned, |row| row.logins_refused.into()),
];

/// Requests for ids that ended so.
fn requests(row: &DoorRow, outcome: &str) -> Value {
    row.requests.iter().find(|(found, _)| *found == outcome).map(|(_, count)| *count).into()
}
