//! One client, as its commands see it.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::Instant;

use super::cluster::ClusterNode;
use super::reply::{Replies, Version};
use crate::doors::Seat;
use crate::doors::entry::{ClientLimits, End, Guest};
use crate::doors::issuer::{Caller, Issuer};
use crate::users::Roster;
use crate::users::throttle::Throttle;

/// The state that all clients of the door share.
pub(super) struct RespOffice {
    pub(super) issuer: Issuer,
    pub(super) throttle: Arc<Throttle>,
    /// `proxy.name`
    pub(super) proxy: String,
    pub(super) since: Instant,
}

pub(super) struct RespSession {
    pub(super) office: Arc<RespOffice>,
    pub(super) from: Option<IpAddr>,
    pub(super) id: u64,
    pub(super) node: ClusterNode,
    pub(super) limits: ClientLimits,
    /// `None`: it has not said who it is.
    pub(super) caller: Option<Caller>,
    /// The client's place among those that have logged in, since it did so first.
    pub(super) seat: Option<Seat>,
    /// The users as they were when the client was looked at last.
    pub(super) roster: Arc<Roster>,
    /// CLIENT SETNAME
    pub(super) name: Vec<u8>,
    pub(super) replies: Replies,
    /// A request had to wait for its ids.
    pub(super) has_waited: bool,
}

/// The next step after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Next,
    End(End),
}

impl RespSession {
    pub(super) fn new(office: Arc<RespOffice>, guest: &Guest<'_>) -> RespSession {
        let roster = office.issuer.users.roster();
        RespSession {
            from: guest.from,
            id: guest.id,
            node: ClusterNode::new(&office.proxy, guest.at, guest.is_tls),
            limits: guest.limits,
            caller: None,
            seat: None,
            roster,
            name: Vec::new(),
            replies: Replies::new(),
            has_waited: false,
            office,
        }
    }

    pub(super) fn says(&mut self, version: Version) {
        self.replies.version = version;
    }
}
