//! The state of the servers of `backend.address`, as far as it is known.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::meter::Timing;
use crate::role::Role;

/// The place in `backend.address` of the server that new sessions go to, counted from 0, and what was
/// seen of each. Cloned, it is the same.
#[derive(Debug, Clone, Default)]
pub struct Primary(Arc<Chosen>);

#[derive(Debug, Default)]
struct Chosen {
    nth: AtomicUsize,
    /// In the order of the configuration; shorter where nothing was seen of the last ones.
    seen: Mutex<Vec<SeenServer>>,
}

#[derive(Debug, Clone, Default)]
pub struct SeenServer {
    /// When it was asked last. `None`: it was not.
    pub role: Option<Role>,
    /// The times that connections for clients took, without their logins.
    pub connected: Arc<Timing>,
    /// The number of connections for clients that could not be made, by the reason.
    pub failed: BTreeMap<ConnectFailure, u64>,
    /// Why the last one could not be made, and when.
    pub last_error: Option<(String, SystemTime)>,
    /// True if the last connection for a client could be made. `None`: there was none yet.
    pub is_reached: Option<bool>,
}

/// Why a connection for a client could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectFailure {
    /// Nothing listens there.
    Refused,
    /// `backend.connect_timeout`
    Timeout,
    /// The host's name is not known.
    Name,
    /// Anything else of the network's or the system's.
    Network,
    /// The server closed the connection in the place of a greeting, or sent what is no greeting.
    Greeting,
    /// The server answered with an error in the place of a greeting: 1040, 1129 or 1130.
    Rejected,
    Tls,
}

impl ConnectFailure {
    pub fn word(self) -> &'static str {
        match self {
            ConnectFailure::Refused => "refused",
            ConnectFailure::Timeout => "timeout",
            ConnectFailure::Name => "name",
            ConnectFailure::Network => "network",
            ConnectFailure::Greeting => "greeting",
            ConnectFailure::Rejected => "rejected",
            ConnectFailure::Tls => "tls",
        }
    }
}

/// The reason why a connection to a known address could not be made.
impl From<&io::Error> for ConnectFailure {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ConnectFailure::Refused,
            io::ErrorKind::TimedOut => ConnectFailure::Timeout,
            _ => ConnectFailure::Network,
        }
    }
}

impl SeenServer {
    /// `None`: nobody has tried. A server that was asked and answered is up, whatever came before.
    pub fn is_up(&self) -> Option<bool> {
        let asked = self.role.map(|role| role != Role::Away);
        match self.is_reached {
            Some(false) => Some(false),
            reached => asked.or(reached),
        }
    }
}

impl Primary {
    pub fn get(&self) -> usize {
        self.0.nth.load(Ordering::Acquire)
    }

    pub(super) fn set(&self, nth: usize) {
        self.0.nth.store(nth, Ordering::Release);
    }

    pub fn seen(&self, nth: usize) -> SeenServer {
        self.0.seen.lock().get(nth).cloned().unwrap_or_default()
    }

    pub fn note_role(&self, nth: usize, role: Role) {
        self.note(nth, |seen| {
            seen.role = Some(role);
            if role != Role::Away {
                seen.is_reached = None;
            }
        });
    }

    /// A connection for a client was made.
    pub fn note_connection(&self, nth: usize, took: Duration) {
        self.note(nth, |seen| {
            seen.is_reached = Some(true);
            seen.connected.note(took);
        });
    }

    /// A connection for a client could not be made, or was of no use.
    pub fn note_failure(&self, nth: usize, failure: ConnectFailure, why: String) {
        self.note(nth, |seen| {
            seen.is_reached = Some(matches!(failure, ConnectFailure::Rejected | ConnectFailure::Tls));
            *seen.failed.entry(failure).or_default() += 1;
            seen.last_error = Some((why, SystemTime::now()));
        });
    }

    fn note(&self, nth: usize, change: impl FnOnce(&mut SeenServer)) {
        let mut seen = self.0.seen.lock();
        if seen.len() <= nth {
            seen.resize_with(nth + 1, SeenServer::default);
        }
        if let Some(seen) = seen.get_mut(nth) {
            change(seen);
        }
    }
}
