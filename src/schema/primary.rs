//! Which of several servers new sessions go to: one that can be written to, before one that is read_only.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mysql_async::prelude::Queryable;

use super::account::Inner;

/// How often all addresses are asked, where there are several.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long one may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The place in `backend.address` of the server that new sessions go to, counted from 0. Cloned, it is the same.
#[derive(Debug, Clone, Default)]
pub struct Primary(Arc<AtomicUsize>);

impl Primary {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn set(&self, nth: usize) {
        self.0.store(nth, Ordering::Release);
    }
}

/// What a server is found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Writable,
    ReadOnly,
    Away,
}

/// Looks once, then every second until the account is dropped. A single address is not asked.
pub(super) async fn watch(account: &Arc<Inner>) {
    if account.addresses().nth(1).is_none() {
        return;
    }
    look(account).await;
    let account = Arc::downgrade(account);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(account) = Weak::upgrade(&account) else { return };
            look(&account).await;
        }
    });
}

async fn look(account: &Arc<Inner>) {
    let mut states = Vec::new();
    for nth in 0..account.addresses().count() {
        states.push(state(account, nth).await);
    }
    let before = account.primary().get();
    let now = choose(before, &states);
    if now == before {
        return;
    }
    account.primary().set(now);
    let name = |nth: usize| account.addresses().nth(nth).map(ToString::to_string).unwrap_or_default();
    let why = match states.get(before) {
        Some(State::ReadOnly) => "is read_only",
        _ => "does not answer",
    };
    tracing::warn!(
        from = name(before),
        to = name(now),
        "{} {why}: new sessions go to another backend.address",
        name(before)
    );
}

/// Whoever is in place stays unless another is better; of those, the first that was written.
fn choose(before: usize, states: &[State]) -> usize {
    let first = |wanted: State| states.iter().position(|state| *state == wanted);
    match states.get(before) {
        Some(State::Writable) => before,
        Some(State::ReadOnly) => first(State::Writable).unwrap_or(before),
        _ => first(State::Writable).or_else(|| first(State::ReadOnly)).unwrap_or(before),
    }
}

async fn state(account: &Inner, nth: usize) -> State {
    let asked = async {
        let mut conn = account.connection(nth, PATIENCE).await.ok()?;
        // A number on both servers; MariaDB 12 has words for it.
        let value: Option<String> = conn.query_first("SELECT CONCAT(@@global.read_only, '')").await.ok()?;
        let value = value?;
        Some(if value == "0" || value.eq_ignore_ascii_case("off") {
            State::Writable
        } else {
            State::ReadOnly
        })
    };
    tokio::time::timeout(PATIENCE, asked).await.ok().flatten().unwrap_or(State::Away)
}

#[cfg(test)]
mod tests {
    use super::State::{Away, ReadOnly, Writable};
    use super::choose;

    #[test]
    fn who_is_written_to() {
        for (before, states, expect) in [
            (0, vec![Writable, Writable], 0),
            (1, vec![Writable, Writable], 1),
            (0, vec![ReadOnly, Writable], 1),
            (0, vec![Away, ReadOnly, Writable], 2),
            (0, vec![Away, ReadOnly, Away], 1),
            (0, vec![ReadOnly, ReadOnly], 0),
            (1, vec![Away, Away], 1),
        ] {
            assert_eq!(choose(before, &states), expect, "{states:?} behind {before}");
        }
    }
}
