//! The log lines about clients that are turned away: the first of an address at once, those that
//! follow as a count, once a minute. A log that anybody can fill is of no use to its reader.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::address::network;

const PERIOD: Duration = Duration::from_mins(1);
/// Addresses that are counted apart at a time: some 100 bytes each. All others count as one.
const ADDRESSES_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// Clients of each since its last line.
    untold: Mutex<HashMap<Whose, u32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Whose {
    /// The client's IP address; for IPv6, its network. `None`: a Unix socket, or a load balancer.
    Address(Option<IpAddr>),
    Others,
    /// The server's fault, whose client it met: a wrong password before it must not hide it.
    Server,
}

impl Complaints {
    /// True if the failure is logged now; `false`: it is counted. Needs a Tokio runtime.
    pub(super) fn tells(self: &Arc<Self>, address: Option<IpAddr>) -> bool {
        self.tells_of(self.whose(address))
    }

    /// True if a login that failed by the server's fault is logged now; `false`: it is counted.
    pub(super) fn tells_of_server(self: &Arc<Self>) -> bool {
        self.tells_of(Whose::Server)
    }

    fn tells_of(self: &Arc<Self>, whose: Whose) -> bool {
        if !self.note(whose) {
            return false;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PERIOD).await;
                let Some(count) = this.settle(whose) else { return };
                let from = match whose {
                    Whose::Address(Some(address)) => address.to_string(),
                    Whose::Address(None) => "a Unix socket or load balancer".to_owned(),
                    Whose::Others => format!("addresses beyond the first {ADDRESSES_MAX}"),
                    Whose::Server => "any address, by a fault of the server".to_owned(),
                };
                tracing::warn!(from, count, "more clients were turned away in the last minute");
            }
        });
        true
    }

    fn whose(&self, address: Option<IpAddr>) -> Whose {
        let (whose, untold) = (Whose::Address(address.map(network)), self.untold.lock());
        if untold.len() >= ADDRESSES_MAX && !untold.contains_key(&whose) { Whose::Others } else { whose }
    }

    /// Begins a minute of `whose`, or counts the client in the one that has begun. True if the minute begins now.
    fn note(&self, whose: Whose) -> bool {
        let mut untold = self.untold.lock();
        if let Some(count) = untold.get_mut(&whose) {
            *count = count.saturating_add(1);
            return false;
        }
        untold.insert(whose, 0);
        true
    }

    /// The number of clients in the last minute; `None`: there were none, and the next one is logged at once.
    fn settle(&self, whose: Whose) -> Option<u32> {
        let mut untold = self.untold.lock();
        let count = untold.get_mut(&whose).map(std::mem::take).filter(|count| *count > 0);
        if count.is_none() {
            untold.remove(&whose);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use std::time::Duration;

    use super::{ADDRESSES_MAX, Complaints, Whose};

    fn address(n: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(n))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_told_and_the_others_are_counted() {
        let complaints = Arc::new(Complaints::default());
        let told = (0..200).filter(|_| complaints.tells(Some(address(1)))).count();
        assert_eq!((told, complaints.tells(Some(address(2))), complaints.tells(None)), (1, true, true));
        assert_eq!(complaints.untold.lock()[&Whose::Address(Some(address(1)))], 199);
        assert_eq!((complaints.tells_of_server(), complaints.tells_of_server()), (true, false));
        // A minute of counting goes on as long as there is something to count.
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(!complaints.tells(Some(address(1))) && complaints.tells(Some(address(2))));
        tokio::time::sleep(Duration::from_secs(121)).await;
        assert!(complaints.tells(Some(address(1))));
    }

    #[tokio::test(start_paused = true)]
    async fn many_addresses_take_little_memory() {
        let complaints = Arc::new(Complaints::default());
        let told = (0..100_000).filter(|n| complaints.tells(Some(address(*n)))).count();
        assert_eq!(told, ADDRESSES_MAX + 1, "one line for all others");
        assert_eq!(complaints.untold.lock().len(), ADDRESSES_MAX + 1);
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert!(complaints.untold.lock().is_empty());
    }
}
