//! Which of several servers new sessions go to: one that can be written to, before a replica,
//! before one that is read_only.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::account::Inner;
use crate::role::{self, Role};

/// The pause between two rounds in which all addresses are asked. A single address is not asked.
const INTERVAL: Duration = Duration::from_secs(1);

/// The longest time that one address may take to answer.
const TIMEOUT: Duration = Duration::from_secs(1);

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
        let role = state(account, nth).await;
        account.primary().note_role(nth, role);
        states.push(role);
    }
    let before = account.primary().get();
    let now = choose(before, &states);
    if now == before {
        return;
    }
    account.primary().set(now);
    let name = |nth: usize| account.addresses().nth(nth).map(ToString::to_string).unwrap_or_default();
    let why = states.get(before).map_or("does not answer", |role| role.as_str());
    tracing::warn!(
        from = name(before),
        to = name(now),
        "{} {why}: new sessions go to another backend.address",
        name(before)
    );
}

/// The address in use stays unless another is better; of those, the first that was written.
fn choose(before: usize, roles: &[Role]) -> usize {
    let rank = |role: &Role| match role {
        Role::Writable => 0,
        Role::Replica => 1,
        Role::ReadOnly => 2,
        Role::Away => 3,
    };
    let stays = roles.get(before).map_or(u8::MAX, rank);
    let best = roles.iter().enumerate().min_by_key(|(_, role)| rank(role));
    best.filter(|(_, role)| rank(role) < stays).map_or(before, |(nth, _)| nth)
}

async fn state(account: &Inner, nth: usize) -> Role {
    let asked = async {
        let mut conn = account.connection(nth, TIMEOUT).await.ok()?;
        role::ask(&mut conn).await.ok()
    };
    let server = tokio::time::timeout(TIMEOUT, asked).await.ok().flatten();
    server.map_or(Role::Away, |server| server.role)
}

#[cfg(test)]
mod tests {
    use super::choose;
    use crate::role::Role::{Away, ReadOnly, Replica, Writable};

    #[test]
    fn who_is_written_to() {
        for (before, states, expect) in [
            (0, vec![Writable, Writable], 0),
            (1, vec![Writable, Writable], 1),
            (0, vec![ReadOnly, Writable], 1),
            (0, vec![Away, ReadOnly, Writable], 2),
            (0, vec![Away, ReadOnly, Away], 1),
            (0, vec![ReadOnly, ReadOnly], 0),
            (0, vec![Replica, Writable], 1),
            (1, vec![Away, Replica], 1),
            (0, vec![Away, ReadOnly, Replica], 2),
            (0, vec![ReadOnly, Replica], 1),
            (1, vec![Away, Away], 1),
        ] {
            assert_eq!(choose(before, &states), expect, "{states:?} behind {before}");
        }
    }
}
