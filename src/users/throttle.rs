//! Makes trying passwords slow. After a wrong one the next is not looked at for a while: a half
//! second, twice as long each time, up to half a minute. Wrong ones are counted for each user from
//! each address, and for each address whatever the user, where the first ones cost nothing.
//!
//! A try in that time is refused unseen, right or wrong: a guesser learns nothing from it, and it holds no
//! connection. It is not counted, so that a program with an old password does not keep its user out
//! for good. Users that do not exist are treated in the same way.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::address::network;

const DELAY_MIN: Duration = Duration::from_millis(500);
const DELAY_MAX: Duration = Duration::from_secs(30);
/// Wrong passwords from one address, for any users, that cost nothing: many people may come from it.
const ADDRESS_FREE: u32 = 10;
/// After so long without another wrong one, all is forgotten.
const MEMORY: Duration = Duration::from_mins(10);
/// The most counts that are kept at once, some 100 bytes each.
const KEYS_MAX: usize = 4_096;
/// The part of a user's name that is kept. Longer names count as one if they begin alike.
const NAME_BYTES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Throttle {
    wrong: Mutex<HashMap<Key, Wrong>>,
}

/// The origin of tries: an address, of IPv6 the network, or the Unix socket.
type Origin = Option<IpAddr>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Address(Origin),
    User(Origin, Box<[u8]>),
}

#[derive(Debug, Clone, Copy)]
struct Wrong {
    count: u32,
    last: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried<T> {
    Right(T),
    Wrong,
    /// Not looked at. The next one will be, after this time.
    Wait(Duration),
    /// Nobody can say now: the users of the store are not known.
    Unsure,
}

impl Wrong {
    /// The first `free` wrong ones cost nothing.
    fn wait(&self, free: u32, now: Instant) -> Duration {
        let Some(nth) = self.count.checked_sub(free + 1) else { return Duration::ZERO };
        let delay = DELAY_MIN.saturating_mul(1_u32.checked_shl(nth).unwrap_or(u32::MAX)).min(DELAY_MAX);
        (self.last + delay).saturating_duration_since(now)
    }
}

impl Throttle {
    /// The time for which no try is looked at. `None`: the next one is looked at.
    pub(crate) fn wait(&self, from: Option<IpAddr>, user: &[u8], now: Instant) -> Option<Duration> {
        waits(&self.wrong.lock(), &keys(from, user), now)
    }

    /// `look` says whether the password is right. Tries are looked at one at a time, so that many
    /// at once are no way around it.
    pub(crate) fn attempt<T>(
        &self,
        from: Option<IpAddr>,
        user: &[u8],
        now: Instant,
        look: impl FnOnce() -> Option<T>,
    ) -> Tried<T> {
        let keys = keys(from, user);
        let mut wrong = self.wrong.lock();
        if let Some(wait) = waits(&wrong, &keys, now) {
            return Tried::Wait(wait);
        }
        let [address, of_user] = keys;
        if let Some(right) = look() {
            // The address is not forgiven: a client that knows one password may be trying others.
            wrong.remove(&of_user);
            return Tried::Right(right);
        }
        for key in [address, of_user] {
            make_room(&mut wrong, now);
            let entry = wrong.entry(key).or_insert(Wrong { count: 0, last: now });
            if now.duration_since(entry.last) >= MEMORY {
                entry.count = 0;
            }
            *entry = Wrong { count: entry.count.saturating_add(1), last: now };
        }
        Tried::Wrong
    }
}

/// The key of the address alone, and that of the user from there.
fn keys(from: Option<IpAddr>, user: &[u8]) -> [Key; 2] {
    let origin = from.map(network);
    let name = user.get(..NAME_BYTES_MAX).unwrap_or(user);
    [Key::Address(origin), Key::User(origin, name.into())]
}

fn waits(wrong: &HashMap<Key, Wrong>, keys: &[Key; 2], now: Instant) -> Option<Duration> {
    let frees = [ADDRESS_FREE, 0];
    let waits = keys.iter().zip(frees).filter_map(|(key, free)| Some(wrong.get(key)?.wait(free, now)));
    waits.max().filter(|wait| !wait.is_zero())
}

/// Forgets first what is too old anyway, then what is oldest. An address cannot push others out for
/// long, since it is held back itself.
fn make_room(wrong: &mut HashMap<Key, Wrong>, now: Instant) {
    if wrong.len() < KEYS_MAX {
        return;
    }
    wrong.retain(|_, wrong| now.duration_since(wrong.last) < MEMORY);
    if wrong.len() >= KEYS_MAX {
        let oldest = wrong.iter().min_by_key(|(_, wrong)| wrong.last).map(|(key, _)| key.clone());
        oldest.and_then(|key| wrong.remove(&key));
    }
}

#[cfg(test)]
mod tests {
    use super::{KEYS_MAX, Throttle, Tried};
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;
    use tokio::time::Instant;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn wrong(throttle: &Throttle, from: Option<IpAddr>, user: &str, now: Instant) -> Tried<()> {
        throttle.attempt(from, user.as_bytes(), now, || None)
    }

    #[tokio::test]
    async fn delays_grow_and_end() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let mut now = start;
        for half_seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(wrong(&throttle, HERE, "dba", now), Tried::Wrong);
            let delay = Duration::from_millis(500) * half_seconds;
            // The right one too, and it counts for nothing.
            let early = now + delay / 2;
            let seen = throttle.attempt(HERE, b"dba", early, || Some(()));
            assert_eq!(seen, Tried::Wait(delay / 2));
            now += delay;
        }
        // Others are not held back, and the right password ends it.
        assert_eq!(throttle.attempt(HERE, b"guest", start, || Some(1)), Tried::Right(1));
        assert_eq!(throttle.attempt(HERE, b"dba", now, || Some(1)), Tried::Right(1));
        assert_eq!(wrong(&throttle, HERE, "dba", now), Tried::Wrong);
        assert_eq!(throttle.attempt(HERE, b"dba", now, || Some(1)), Tried::Wait(Duration::from_millis(500)));
        let forgotten = now + Duration::from_mins(11);
        assert_eq!(wrong(&throttle, HERE, "dba", forgotten), Tried::Wrong);
        assert_eq!(wrong(&throttle, HERE, "dba", forgotten), Tried::Wait(Duration::from_millis(500)));
    }

    #[tokio::test]
    async fn an_address_is_held_back_whatever_its_users() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for nth in 0..=10 {
            assert_eq!(wrong(&throttle, HERE, &format!("u{nth}"), now), Tried::Wrong);
        }
        assert!(matches!(wrong(&throttle, HERE, "another", now), Tried::Wait(_)));
        let network = |host| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]));
        assert_eq!(wrong(&throttle, network(1), "another", now), Tried::Wrong);
        assert!(matches!(wrong(&throttle, network(2), "another", now), Tried::Wait(_)));
        let mapped = Some(IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x7f00, 1]));
        assert!(matches!(wrong(&throttle, mapped, "another", now), Tried::Wait(_)), "it is HERE");
        assert_eq!(wrong(&throttle, None, "another", now), Tried::Wrong);
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for nth in 0..10_000_u32 {
            let from = Some(IpAddr::from(Ipv4Addr::from_bits(nth)));
            wrong(&throttle, from, "dba", start + Duration::from_millis(u64::from(nth)));
            assert!(throttle.wrong.lock().len() <= KEYS_MAX);
        }
        // The latest are those that are remembered.
        let latest = Some(IpAddr::from(Ipv4Addr::from_bits(9_999)));
        assert!(matches!(wrong(&throttle, latest, "dba", start + Duration::from_secs(10)), Tried::Wait(_)));
    }
}
