//! The doors, and the users who come in by them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Counted, Counts, ROWS_MAX};
use crate::admin::desk::DoorRow;
use crate::admin::metrics::{DOOR_IDS, DOOR_REQUESTS, USER_IDS, number};
use crate::users::{Directory, Home};

/// A port where ids are drawn without an INSERT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DoorStatus {
    /// "resp", "api"
    pub name: String,
    /// "Redis protocol", "HTTP"
    pub protocol: String,
    /// `null`: it is off.
    pub address: Option<String>,
    /// Clients can connect.
    pub open: bool,
    /// "disabled", "preferred", "required"
    pub tls: String,
    /// `api.compat`
    pub compat: Vec<String>,
    /// Clients that have logged in.
    pub clients: u64,
    /// For ids.
    pub requests: Counted,
    /// Requests, by what came of them.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests that got no ids.
    pub refused: u64,
    pub ids: Counted,
    pub logins_refused: u64,
}

/// The users who may log in to the console and at the doors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct UsersStatus {
    /// Users of rowstamp.toml.
    pub file: usize,
    /// Users of the store, as it was read last.
    pub store: usize,
    /// Time since the store was read. `None`: it was never read.
    pub age_seconds: Option<f64>,
    /// The users who asked this process for ids, the one with the most ids first; 20 at most.
    pub busiest: Vec<BusyUser>,
}

/// Since the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BusyUser {
    pub user: String,
    pub ids: Counted,
    /// Requests without the right to the ids.
    pub denied: u64,
    /// Requests above the LIMIT of the right.
    pub over_quota: u64,
}

pub(super) fn doors(rows: Vec<DoorRow>, counts: &Counts<'_>) -> Vec<DoorStatus> {
    let requests = |row: &DoorRow, is_meant: fn(&str) -> bool| -> u64 {
        row.requests.iter().filter(|(outcome, _)| is_meant(outcome)).map(|(_, count)| count).sum()
    };
    let status = |row: DoorRow| DoorStatus {
        requests: Counted {
            total: number(requests(&row, |_| true)),
            per_second: counts.rate(&DOOR_REQUESTS, row.name),
        },
        refused: requests(&row, |outcome| outcome != "given"),
        ids: Counted { total: number(row.ids), per_second: counts.rate(&DOOR_IDS, row.name) },
        name: row.name.to_owned(),
        protocol: row.protocol.to_owned(),
        address: row.address,
        open: row.is_open,
        tls: row.tls,
        compat: row.compat,
        clients: row.clients,
        outcomes: row.requests.into_iter().map(|(outcome, count)| (outcome.to_owned(), count)).collect(),
        logins_refused: row.logins_refused,
    };
    rows.into_iter().map(status).collect()
}

impl UsersStatus {
    pub(super) fn of(users: &Directory, counts: &Counts<'_>) -> Self {
        let busy = users.usage().into_iter().map(|(user, usage)| BusyUser {
            ids: Counted { total: number(usage.ids()), per_second: counts.rate(&USER_IDS, &user) },
            denied: usage.denied(),
            over_quota: usage.over_quota(),
            user,
        });
        let mut busiest: Vec<_> = busy.collect();
        // Stable: those who drew as many are by name.
        busiest.sort_by(|a, b| b.ids.total.total_cmp(&a.ids.total));
        busiest.truncate(ROWS_MAX);
        UsersStatus {
            file: users.count(Home::File),
            store: users.count(Home::Store),
            age_seconds: users.age().map(|age| age.as_secs_f64()),
            busiest,
        }
    }
}
