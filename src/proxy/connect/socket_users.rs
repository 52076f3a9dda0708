//! Users that nobody logs in as over a Unix socket. The server takes the proxy's own OS user for that of the client,
//! and lets some accounts in by that alone: the one of the same name
//! (`unix_socket`, `auth_socket`), and on MySQL any that is `IDENTIFIED WITH auth_socket AS 'that
//! user'`. (Measured: MariaDB 10.11 looks at the account's name only.)

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::address::Address;
use crate::proxy::connect::backend::os_user;
use crate::schema::Schema;

/// The time between two questions to the server which accounts there are.
const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default)]
pub struct SocketUsers(Arc<ArcSwap<BTreeSet<Vec<u8>>>>);

impl SocketUsers {
    pub fn of(users: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let these = SocketUsers::default();
        these.0.store(Arc::new(users.into_iter().collect()));
        these
    }

    pub fn has(&self, user: &[u8]) -> bool {
        self.0.load().contains(user)
    }

    /// If the backend is reached over a Unix socket, the server is asked now, and again as long
    /// as the process lives.
    pub async fn watch(backend: &[Address], schema: Option<Schema>) -> Self {
        let own = os_user().filter(|_| backend.iter().any(Address::is_unix));
        let Some(own) = own else { return SocketUsers::default() };
        let these = SocketUsers::of([own.clone()]);
        let name = String::from_utf8_lossy(&own).into_owned();
        let Some(schema) = schema else {
            tracing::warn!(
                "backend.address is a Unix socket, and without [backend.control] Rowstamp does not know the accounts that need no password there \
                 from OS user {name:?} (MySQL: IDENTIFIED WITH auth_socket AS {name:?}); make sure that there are none"
            );
            return these;
        };
        let mut seen = Seen::default();
        these.look(&schema, &own, &name, &mut seen).await;
        let watched = these.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                watched.look(&schema, &own, &name, &mut seen).await;
            }
        });
        these
    }

    async fn look(&self, schema: &Schema, own: &[u8], name: &str, seen: &mut Seen) {
        match schema.socket_users(name).await {
            Ok(users) if users == seen.users => {}
            Ok(users) => {
                if !users.is_empty() {
                    tracing::warn!(
                        "the server accepts {} over the Unix socket without a password from {name:?}, the OS user of Rowstamp; Rowstamp \
                         refuses logins under these names",
                        users.join(", ")
                    );
                }
                let all = users.iter().map(|user| user.as_bytes().to_vec()).chain([own.to_vec()]);
                self.0.store(Arc::new(all.collect()));
                seen.users = users;
            }
            Err(error) if !seen.is_unread => {
                seen.is_unread = true;
                tracing::warn!(
                    "cannot read which accounts need no password over the Unix socket from {name:?}, the OS user of Rowstamp: {error}; GRANT SELECT \
                     (user, plugin, authentication_string) ON mysql.user TO the control account, or connect by TCP"
                );
            }
            Err(_) => {}
        }
    }
}

/// The findings that are in the log already.
#[derive(Default)]
struct Seen {
    users: Vec<String>,
    is_unread: bool,
}
