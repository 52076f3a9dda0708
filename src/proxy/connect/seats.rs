//! The limits on the number of connections: in all, of one address, of one user. A seat is given back when it is dropped.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::proxy::settings::Limits;

#[derive(Debug)]
pub struct Seats {
    all: Arc<Counts<()>>,
    addresses: Arc<Counts<IpAddr>>,
    users: Arc<Counts<Vec<u8>>>,
}

#[derive(Debug)]
struct Counts<K> {
    /// 0: no limit.
    max: AtomicUsize,
    taken: Mutex<HashMap<K, usize>>,
}

/// One connection's place among those that count with it.
#[derive(Debug)]
pub struct Seat<K: Eq + Hash + Clone> {
    counts: Arc<Counts<K>>,
    key: K,
}

impl Seats {
    pub fn new(limits: &Limits) -> Self {
        Seats {
            all: Counts::new(limits.connections_max),
            addresses: Counts::new(limits.connections_per_address_max),
            users: Counts::new(limits.connections_per_user_max),
        }
    }

    /// Other limits from now on. Who has a seat keeps it.
    pub fn limit(&self, limits: &Limits) {
        self.all.max.store(limits.connections_max, Ordering::Relaxed);
        self.addresses.max.store(limits.connections_per_address_max, Ordering::Relaxed);
        self.users.max.store(limits.connections_per_user_max, Ordering::Relaxed);
    }

    /// `None`: there are too many.
    pub fn connection(&self) -> Option<Seat<()>> {
        Counts::take(&self.all, ())
    }

    /// `None`: the address has too many.
    pub fn address(&self, address: IpAddr) -> Option<Seat<IpAddr>> {
        Counts::take(&self.addresses, address)
    }

    /// `None`: the user has too many.
    pub fn user(&self, user: &[u8]) -> Option<Seat<Vec<u8>>> {
        Counts::take(&self.users, user.to_vec())
    }
}

impl<K: Eq + Hash + Clone> Counts<K> {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Counts { max: AtomicUsize::new(max), taken: Mutex::default() })
    }

    fn take(counts: &Arc<Self>, key: K) -> Option<Seat<K>> {
        // A count stays right whatever panicked while it was locked.
        let mut taken = counts.taken.lock();
        let n = taken.entry(key.clone()).or_insert(0);
        let max = counts.max.load(Ordering::Relaxed);
        if max > 0 && *n >= max {
            return None;
        }
        *n += 1;
        Some(Seat { counts: counts.clone(), key })
    }
}

impl Seat<Vec<u8>> {
    /// True if the seat is this user's.
    pub fn is_of(&self, user: &[u8]) -> bool {
        self.key == user
    }
}

impl<K: Eq + Hash + Clone> Drop for Seat<K> {
    fn drop(&mut self) {
        let mut taken = self.counts.taken.lock();
        if let Some(n) = taken.get_mut(&self.key) {
            *n -= 1;
            if *n == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn seats_are_given_back() {
        let counts = Counts::new(2);
        let (a, b) = (Counts::take(&counts, 'x'), Counts::take(&counts, 'x'));
        assert!(a.is_some() && b.is_some() && Counts::take(&counts, 'x').is_none());
        assert!(Counts::take(&counts, 'y').is_some());
        drop(a);
        assert!(Counts::take(&counts, 'x').is_some());
        drop(b);
        assert!(counts.taken.lock().is_empty());
        let first = Counts::take(&counts, 'x');
        counts.max.store(1, super::Ordering::Relaxed);
        assert!(first.is_some() && Counts::take(&counts, 'x').is_none());
        let unlimited = Counts::new(0);
        assert!((0..100).all(|_| Counts::take(&unlimited, ()).is_some()));
    }
}
