//! The lines of a takeover's socket.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::ids::block::{Spacing, Ticks};
use crate::ids::generator::Advanced;
use crate::tables::Asked;

/// Grows when a line is not understood as before.
pub(super) const PROTOCOL: u32 = 1;

/// A line to the process that issues ids.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// `address`: where the new process is to listen; `resp` and `api`: and where for clients of Redis and of HTTP, if anywhere.
    TakeOver {
        protocol: u32,
        address: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resp: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        api: Option<String>,
    },
    /// After [`Reply::Handed`]: the new process has all that it needs.
    Ready,
    /// Asks for `n` ids that are one statement's.
    Take { target: RuledTable, n: NonZeroU64, deadline_ms: u64 },
    /// Later ids are above `id`.
    Pass { target: RuledTable, id: u64, deadline_ms: u64 },
    /// Later ids are above those in the table. `raises`: an id has collided, or the server has numbered rows. `read`: the highest, as the session has read it.
    Look { target: RuledTable, raises: bool, read: Option<String>, deadline_ms: u64 },
}

/// A line of the process that was asked.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The listening socket comes with this line. Where both processes listen at one address for clients of Redis, so does that socket,
    /// after it. It answers a request without `api`, and is all that a process without the HTTP API knows.
    Handed,
    /// The listening socket comes with this line, and after it those of `doors`.
    HandedWith { doors: Vec<HandedDoor> },
    /// All is the new process's.
    Done,
    /// The first of the ids that were asked for.
    Ids { first: u64 },
    /// The outcome of an id that a client wrote.
    Passed(Advanced),
    /// The generator is above the table's ids.
    Looked,
    /// The table could not be looked at.
    Unseen { why: String, is_locked: bool },
    /// Nothing was done, for this reason.
    Refused { reason: String },
}

/// The door whose clients the socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HandedDoor {
    Resp,
    Api,
}

impl HandedDoor {
    pub(super) const ALL: [HandedDoor; 2] = [HandedDoor::Resp, HandedDoor::Api];
}

/// A table and what a process's rules say of it: both processes must have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RuledTable {
    pub schema: String,
    pub table: String,
    pub column: String,
    pub generator: String,
    pub step: NonZeroU64,
    /// Ids of a tick, and from one tick to the next.
    pub ticks: Option<(NonZeroU64, NonZeroU64)>,
}

impl RuledTable {
    pub(super) fn asked(&self) -> Asked<'_> {
        let ticks = self.ticks.map(|(ids, distance)| Ticks { ids, distance });
        Asked {
            schema: &self.schema,
            table: &self.table,
            column: &self.column,
            generator: &self.generator,
            spacing: Spacing { step: self.step, ticks },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::{Advanced, HandedDoor, Reply, Request, RuledTable};

    /// Another version of Rowstamp reads them.
    #[test]
    fn lines() {
        let n = |n| NonZeroU64::new(n).unwrap();
        let target = RuledTable {
            schema: "shop".into(),
            table: "orders".into(),
            column: "id".into(),
            generator: "shop.g".into(),
            step: n(1),
            ticks: Some((n(4096), n(1 << 22))),
        };
        let named = r#"{"schema":"shop","table":"orders","column":"id","generator":"shop.g","step":1,"ticks":[4096,4194304]}"#;
        for (request, text) in [
            (
                Request::TakeOver { protocol: 1, address: "127.0.0.1:6446".into(), resp: None, api: None },
                r#"{"take_over":{"protocol":1,"address":"127.0.0.1:6446"}}"#.to_owned(),
            ),
            (
                Request::TakeOver {
                    protocol: 1,
                    address: "unix:/a".into(),
                    resp: Some("unix:/b".into()),
                    api: Some("unix:/c".into()),
                },
                r#"{"take_over":{"protocol":1,"address":"unix:/a","resp":"unix:/b","api":"unix:/c"}}"#
                    .to_owned(),
            ),
            (Request::Ready, r#""ready""#.to_owned()),
            (
                Request::Take { target: target.clone(), n: n(3), deadline_ms: 1000 },
                format!(r#"{{"take":{{"target":{named},"n":3,"deadline_ms":1000}}}}"#),
            ),
            (
                Request::Pass { target: target.clone(), id: 7, deadline_ms: 1000 },
                format!(r#"{{"pass":{{"target":{named},"id":7,"deadline_ms":1000}}}}"#),
            ),
            (
                Request::Look { target, raises: true, read: Some("9".into()), deadline_ms: 1000 },
                format!(r#"{{"look":{{"target":{named},"raises":true,"read":"9","deadline_ms":1000}}}}"#),
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        }
        for (reply, text) in [
            (Reply::Handed, r#""handed""#),
            (
                Reply::HandedWith { doors: HandedDoor::ALL.into() },
                r#"{"handed_with":{"doors":["resp","api"]}}"#,
            ),
            (Reply::Done, r#""done""#),
            (Reply::Ids { first: u64::MAX }, r#"{"ids":{"first":18446744073709551615}}"#),
            (Reply::Passed(Advanced::TooFar), r#"{"passed":"too_far"}"#),
            (Reply::Looked, r#""looked""#),
            (
                Reply::Unseen { why: "locked".into(), is_locked: true },
                r#"{"unseen":{"why":"locked","is_locked":true}}"#,
            ),
            (Reply::Refused { reason: "\n".into() }, r#"{"refused":{"reason":"\n"}}"#),
        ] {
            assert_eq!(serde_json::to_string(&reply).unwrap(), text);
            assert_eq!(serde_json::from_str::<Reply>(text).unwrap(), reply);
        }
    }
}
