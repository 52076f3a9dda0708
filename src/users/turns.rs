//! The order of slow hashes. One is made at a time, and the tries that wait are in a queue, with one try of each
//! network in it. So a client that sends many passwords keeps its own network waiting, and any other network for one
//! hash.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
// A fair mutex: tasks that wait for it are in a queue.
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

use crate::address::network;

/// The tries of one asker wait in one queue, and only the first of them in the queue of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Asker {
    /// An operator who changes users.
    Admin,
    /// A client that logs in from here. `None`: from the Unix socket.
    Client(Option<IpAddr>),
}

/// One hash at a time, of 19 MiB. Half of a machine's cores would be more logins a second, for guessers too.
#[derive(Debug, Default)]
pub(super) struct Turns {
    all: Arc<Queue<()>>,
    /// The queue of each network that waits.
    networks: Mutex<HashMap<Asker, Weak<Queue<()>>>>,
}

/// The first one of a network.
#[derive(Debug)]
pub(super) struct First {
    network: OwnedMutexGuard<()>,
    all: Arc<Queue<()>>,
}

/// Whose turn it is. The thread that makes the hash holds it to its end, also if the client leaves meanwhile.
#[derive(Debug)]
pub(super) struct Turn {
    // Held for as long as `_all`, or other networks would wait for two hashes of this one. Dropped first: when `_all` is free, this is.
    _network: OwnedMutexGuard<()>,
    _all: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits for the turn among the askers of one network, so that many from one network take one place in the queue
    /// of all.
    pub(super) async fn first(&self, asker: Asker) -> First {
        First { network: self.of_network(asker).lock_owned().await, all: self.all.clone() }
    }

    pub(super) async fn next(&self, asker: Asker) -> Turn {
        self.first(asker).await.turn().await
    }

    fn of_network(&self, asker: Asker) -> Arc<Queue<()>> {
        let asker = match asker {
            Asker::Admin => Asker::Admin,
            Asker::Client(from) => Asker::Client(from.map(network)),
        };
        let mut networks = self.networks.lock();
        if let Some(queue) = networks.get(&asker).and_then(Weak::upgrade) {
            return queue;
        }
        networks.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::default();
        networks.insert(asker, Arc::downgrade(&queue));
        queue
    }

    #[cfg(test)]
    pub(super) fn is_taken(&self) -> bool {
        self.all.try_lock().is_err()
    }
}

impl First {
    /// Waits for the turn among all networks. Each has one asker here at a time.
    pub(super) async fn turn(self) -> Turn {
        Turn { _network: self.network, _all: self.all.lock_owned().await }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asker, Turns};
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex};
    use tokio::task::{JoinSet, yield_now};

    #[tokio::test]
    async fn a_network_waits_for_one_hash_of_each_other() {
        let (turns, order) = (Arc::new(Turns::default()), Arc::new(Mutex::new(Vec::new())));
        let client = |from: &str| Asker::Client(Some(from.parse::<IpAddr>().unwrap()));
        let first = turns.next(client("2001:db8:0:1::1")).await;
        let mut tries = JoinSet::new();
        for (name, asker) in [
            ("guess 1", client("2001:db8:0:1::1")),
            ("guess 2", client("2001:db8:0:1::2")),
            ("guess 3", client("2001:db8:0:1::3")),
            ("other", client("2001:db8:0:2::1")),
            ("socket", Asker::Client(None)),
            ("admin", Asker::Admin),
            ("other 2", client("2001:db8:0:2::2")),
        ] {
            let (turns, order) = (turns.clone(), order.clone());
            tries.spawn(async move {
                let _turn = turns.next(asker).await;
                order.lock().unwrap().push(name);
                // The hash takes its time.
                yield_now().await;
            });
        }
        // Each has come to where it waits.
        yield_now().await;
        drop(first);
        tries.join_all().await;
        let expect = ["other", "socket", "admin", "guess 1", "other 2", "guess 2", "guess 3"];
        assert_eq!(*order.lock().unwrap(), expect);
        drop(turns.next(Asker::Admin).await);
        assert_eq!(turns.networks.lock().len(), 1, "who does not wait is forgotten");
    }
}
