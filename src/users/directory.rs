//! The users of the file and those of the store, which is looked at several times a second.
//!
//! A look reads one small record, `users`, which is written after each change of a user. Where its revision is another than
//! before, all users are read. They are also read now and then where it is not: a proxy that ended between the two
//! writes has left a change that `users` does not show.
//!
//! While the store does not answer, the users that are known stay for `users.stale_max`.

mod writes;

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::writes::ChangeError;
use super::quota::{OverQuota, Quotas};
use super::record::{UserRecord, user_of};
use super::rights::Grant;
use super::secret::{Cost, Proven};
use super::turns::Turns;
use super::{Home, Login, Usage, User};
use crate::store::gate::GateStore;
use crate::store::{Key, Revision, Store, StoreError};

/// Between two looks: what was changed acts everywhere within a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// All users are read at least so often.
const LIST_AGE_MAX: Duration = Duration::from_secs(10);
/// So old may the last look be for what only ADMIN may do.
const ADMIN_AGE_MAX: Duration = Duration::from_secs(3);

/// All users, as they are until there is another roster.
#[derive(Debug)]
pub(crate) struct Roster {
    users: BTreeMap<String, Arc<User>>,
    /// By the SHA-256 of each of their tokens; made when it is first asked for.
    by_token: OnceLock<HashMap<[u8; 32], Login>>,
    pub(crate) store: StoreUsers,
}

/// The store's users in a roster: known, or the reason why they are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreUsers {
    Known,
    /// The store has not answered since the start.
    NotYet,
    /// The store has not answered for `users.stale_max`.
    Stale,
}

impl Roster {
    fn is_like(&self, other: &Roster) -> bool {
        self.store == other.store && self.users == other.users
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    pub(super) fn with_token(&self, sha256: &[u8; 32]) -> Option<&Login> {
        let logins = || {
            let all = self.users.values().flat_map(|user| {
                user.by_tokens().map(|(sha256, by)| (sha256, Login { user: user.clone(), by }))
            });
            all.collect()
        };
        self.by_token.get_or_init(logins).get(sha256)
    }

    /// Sorted by name.
    pub(crate) fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }
}

pub struct Directory {
    store: Arc<dyn Store>,
    roster: ArcSwap<Roster>,
    /// True if the store has answered since the start.
    has_answered: watch::Sender<bool>,
    known: Mutex<RosterSources>,
    /// True if a change may be written that `users` does not show, so that other proxies do not notice it.
    is_untold: AtomicBool,
    /// One look, or one change, at a time.
    turn: tokio::sync::Mutex<()>,
    quotas: Quotas,
    /// The number of proxies that live on the store.
    proxies: AtomicU64,
    pub(super) proven: Proven,
    pub(super) hashes: Turns,
    pub(super) cost: Cost,
}

/// The users and times that the roster is made of.
#[derive(Default)]
struct RosterSources {
    of_file: Arc<[Arc<User>]>,
    of_store: BTreeMap<String, Arc<User>>,
    stale_max: Duration,
    /// When the last look began that was answered.
    looked_at: Option<Instant>,
    /// When all users were read, and what `users` stood at before.
    listed: Option<(Instant, Option<Revision>)>,
    /// Records that cannot be read, each at the revision that was logged.
    damaged: HashMap<Key, Revision>,
    /// The usage by name. A user who is dropped and made again goes on with the old counts.
    usage: HashMap<String, Usage>,
}

/// The rights of a user are not known: the store has not answered yet, or not for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsure;

/// Ids that were taken off a quota. They go back to it where they are not given.
#[must_use]
pub(crate) struct Charge<'a> {
    quotas: &'a Quotas,
    user: &'a User,
    grant: &'a Grant,
    n: u64,
}

impl Charge<'_> {
    /// The ids are given.
    pub(crate) fn keep(mut self) {
        self.user.usage.note_given(self.n);
        self.n = 0;
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        if self.n > 0 {
            self.quotas.refund(&self.user.name, self.grant, self.n);
        }
    }
}

impl Directory {
    /// Needs a Tokio runtime, in which it looks at the store while it lives.
    pub fn watch(store: Arc<dyn Store>, of_file: &[Arc<User>], stale_max: Duration) -> Arc<Self> {
        let directory = Arc::new(Self::new(store, of_file, stale_max));
        let weak = Arc::downgrade(&directory);
        tokio::spawn(async move {
            while let Some(directory) = weak.upgrade() {
                directory.look_by_the_clock().await;
                drop(directory);
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        });
        directory
    }

    /// Users of the file alone.
    pub fn without_store(of_file: &[Arc<User>]) -> Arc<Self> {
        let reason = "this proxy has none".to_owned();
        let store = GateStore::absent(StoreError::Unavailable { store: "none".to_owned(), reason });
        Self::over(store, of_file)
    }

    /// Over a store that nobody else has.
    #[cfg(test)]
    pub(crate) fn over_memory(of_file: &[Arc<User>]) -> Arc<Self> {
        Self::over(Arc::new(crate::store::memory::MemoryStore::new()), of_file)
    }

    fn over(store: Arc<dyn Store>, of_file: &[Arc<User>]) -> Arc<Self> {
        let directory = Directory { cost: Cost::LEAST, ..Self::new(store, of_file, Duration::MAX) };
        directory.known.lock().looked_at = Some(Instant::now());
        directory.publish(&directory.known.lock());
        Arc::new(directory)
    }

    fn new(store: Arc<dyn Store>, of_file: &[Arc<User>], stale_max: Duration) -> Self {
        let mut known = RosterSources { stale_max, ..RosterSources::default() };
        known.of_file = known.counted_file(of_file);
        Directory {
            store,
            roster: ArcSwap::from_pointee(known.roster(SystemTime::now())),
            has_answered: watch::Sender::new(false),
            known: Mutex::new(known),
            is_untold: AtomicBool::new(false),
            turn: tokio::sync::Mutex::default(),
            quotas: Quotas::default(),
            proxies: AtomicU64::new(1),
            proven: Proven::default(),
            hashes: Turns::default(),
            cost: Cost::FULL,
        }
    }

    pub(crate) fn roster(&self) -> Arc<Roster> {
        self.roster.load_full()
    }

    /// The users of rowstamp.toml.
    pub(crate) fn of_file(&self) -> Arc<[Arc<User>]> {
        self.known.lock().of_file.clone()
    }

    /// Takes the users and `users.stale_max` of rowstamp.toml.
    pub(crate) fn set_file(&self, of_file: &[Arc<User>], stale_max: Duration) {
        let mut known = self.known.lock();
        known.of_file = known.counted_file(of_file);
        known.stale_max = stale_max;
        self.publish(&known);
    }

    /// The number of users with this home, including those who cannot log in now.
    pub(crate) fn count(&self, home: Home) -> usize {
        let known = self.known.lock();
        match home {
            Home::File => known.of_file.len(),
            Home::Store => known.of_store.len(),
        }
    }

    /// The usage of the users who have asked for ids, by name.
    pub(crate) fn usage(&self) -> BTreeMap<String, Usage> {
        let known = self.known.lock();
        let drawn = known.usage.iter().filter(|(_, usage)| usage.has_any());
        drawn.map(|(name, usage)| (name.clone(), usage.clone())).collect()
    }

    /// Since when the store has not been looked at. `None`: it never was.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.known.lock().looked_at.map(|at| at.elapsed())
    }

    /// The trouble with the store's users. `None`: there is none.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self.roster().store {
            StoreUsers::Known => None,
            StoreUsers::NotYet => {
                Some("the users of the store are not known yet: it has not answered".to_owned())
            }
            StoreUsers::Stale => Some(
                "the users of the store cannot log in: it has not answered for longer than users.stale_max"
                    .to_owned(),
            ),
        }
    }

    /// True if the user's rights are certain enough for what only ADMIN may do.
    pub(crate) fn is_current_for(&self, user: &User) -> bool {
        user.home == Home::File || self.age().is_some_and(|age| age <= ADMIN_AGE_MAX)
    }

    /// Takes ids off what a user may draw by this grant.
    pub(crate) fn charge<'a>(
        &'a self,
        user: &'a User,
        grant: &'a Grant,
        (generator, n): (&str, u64),
        now: Instant,
    ) -> Result<Charge<'a>, OverQuota> {
        if grant.per_second.is_some() {
            let proxies = self.proxies.load(Ordering::Relaxed);
            self.quotas.take(&user.name, grant, (generator, n), proxies, now)?;
        }
        Ok(Charge { quotas: &self.quotas, user, grant, n })
    }

    /// The user whose name somebody has at the server. `Ok(None)`: none of ours has it, and the server decides.
    pub(crate) fn of_sql(&self, name: &[u8]) -> Result<Option<Arc<User>>, Unsure> {
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        let roster = self.roster();
        match roster.get(name) {
            Some(user) => Ok(Some(user.clone())),
            None if roster.store == StoreUsers::NotYet => Err(Unsure),
            None if roster.store == StoreUsers::Stale && self.known.lock().of_store.contains_key(name) => {
                Err(Unsure)
            }
            None => Ok(None),
        }
    }

    fn publish(&self, known: &RosterSources) {
        let next = known.roster(SystemTime::now());
        if self.roster.load().is_like(&next) {
            return;
        }
        if next.store == StoreUsers::Stale {
            let age = known.looked_at.map_or(Duration::ZERO, |at| at.elapsed());
            tracing::warn!(
                "users: the store has not answered for {} s, which is more than users.stale_max; until it does, its users cannot \
                 log in, and draw no ids",
                age.as_secs()
            );
        }
        let next = Arc::new(next);
        self.roster.store(next.clone());
        self.has_answered.send_replace(next.store != StoreUsers::NotYet);
        if next.store != StoreUsers::Known {
            return;
        }
        let is_kept = |user: &str, on: &_| {
            let user = next.get(user);
            user.is_some_and(|user| {
                user.grants().iter().any(|grant| grant.on == *on && grant.per_second.is_some())
            })
        };
        self.quotas.keep(is_kept);
    }

    /// A look that the store does not answer for long delays nothing that only the clock decides: a token's end, `users.stale_max`.
    async fn look_by_the_clock(&self) {
        let mut look = pin!(self.look());
        while tokio::time::timeout(LOOK_INTERVAL, look.as_mut()).await.is_err() {
            self.publish(&self.known.lock());
        }
    }

    /// The store has not answered since the start.
    pub(crate) fn is_new(&self) -> bool {
        self.roster().store == StoreUsers::NotYet
    }

    /// Returns when the store has answered once.
    pub(crate) async fn first_look(&self) {
        // The channel's sender lives as long as this directory.
        let _ = self.has_answered.subscribe().wait_for(|has_answered| *has_answered).await;
    }

    /// Looks at the store now.
    pub(crate) async fn look(&self) {
        let _turn = self.turn.lock().await;
        self.look_in_turn().await;
    }

    async fn look_in_turn(&self) {
        if self.is_untold.load(Ordering::Relaxed) {
            // A failed attempt is made again at the next look.
            let _ = self.tell().await;
        }
        let began = Instant::now();
        let read = self.read(began).await;
        if matches!(read, Ok(Some(_))) {
            self.count_proxies().await;
        }
        let mut known = self.known.lock();
        match read {
            Ok(listed) => {
                if let Some((revision, users)) = listed {
                    // If the users are the same, the old ones are kept: the next roster is then compared by address.
                    if known.of_store != users {
                        known.of_store =
                            users.into_iter().map(|(name, user)| (name, known.counted(user))).collect();
                    }
                    known.listed = Some((began, revision));
                }
                known.looked_at = Some(began);
            }
            Err(error) => tracing::debug!(%error, "the users of the store cannot be read"),
        }
        self.publish(&known);
    }

    /// All users, where they have to be read, and what `users` stood at before.
    async fn read(
        &self,
        now: Instant,
    ) -> Result<Option<(Option<Revision>, BTreeMap<String, Arc<User>>)>, StoreError> {
        let revision = self.store.load(&Key::user_changes()).await?.map(|found| found.revision);
        let listed = self.known.lock().listed;
        let is_new =
            listed.is_none_or(|(at, before)| before != revision || now.duration_since(at) >= LIST_AGE_MAX);
        if !is_new {
            return Ok(None);
        }
        let mut users = BTreeMap::new();
        for (key, found) in self.store.list(Key::USERS).await? {
            let Some((name, user)) = user_of(&key, &found.value) else { continue };
            match user {
                Ok(user) => drop(users.insert(name, Arc::new(user))),
                Err(error) => {
                    // There is a user of this name, who may do nothing.
                    let user = UserRecord::new().user(&name).map(Arc::new);
                    users.extend(user.map(|user| (name, user)));
                    let told = self.known.lock().damaged.insert(key, found.revision);
                    if told != Some(found.revision) {
                        tracing::error!(%error, "users: a user has no rights, and cannot log in");
                    }
                }
            }
        }
        Ok(Some((revision, users)))
    }

    async fn count_proxies(&self) {
        if let Ok(living) = self.store.list(Key::PROXIES).await {
            let living = u64::try_from(living.len()).unwrap_or(u64::MAX);
            self.proxies.store(living.max(1), Ordering::Relaxed);
        }
    }
}

impl RosterSources {
    /// The user, counted with those of the same name before it.
    fn counted(&mut self, user: Arc<User>) -> Arc<User> {
        let usage = self.usage.entry(user.name.clone()).or_default().clone();
        Arc::new(User { usage, ..Arc::unwrap_or_clone(user) })
    }

    fn counted_file(&mut self, of_file: &[Arc<User>]) -> Arc<[Arc<User>]> {
        of_file.iter().map(|user| self.counted(user.clone())).collect()
    }

    fn roster(&self, now: SystemTime) -> Roster {
        let store = match self.looked_at {
            None => StoreUsers::NotYet,
            Some(at) if at.elapsed() > self.stale_max => StoreUsers::Stale,
            Some(_) => StoreUsers::Known,
        };
        let of_store = self.of_store.values().filter(|_| store == StoreUsers::Known);
        let users = of_store.map(|user| User::without_expired(user, now));
        // The file's users come last, so one of them replaces a user of the store with the same name.
        let users = users.chain(self.of_file.iter().cloned());
        let users = users.map(|user| (user.name.clone(), user)).collect();
        Roster { users, by_token: OnceLock::new(), store }
    }
}

#[cfg(test)]
mod tests;
