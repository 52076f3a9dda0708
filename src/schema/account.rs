//! Rowstamp's own account: how it connects, and to which of the backend's addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};

use super::SchemaError;
use crate::address::Address;

/// The name of a socket by which an address is reached.
pub type Way = Arc<dyn Fn(&Address) -> Result<String, String> + Send + Sync>;

/// Rowstamp's own account on the backend.
#[derive(Clone)]
pub struct Control {
    pub addresses: Vec<Address>,
    pub user: String,
    pub password: String,
    pub way: Way,
}

impl Control {
    /// Each address, and how to connect to it.
    pub fn servers(&self) -> Result<Vec<(&Address, Opts)>, SchemaError> {
        let server = |address| {
            let socket = (self.way)(address)
                .map_err(|error| SchemaError::Connect { user: self.user.clone(), error })?;
            Ok((address, self.options(socket)))
        };
        self.addresses.iter().map(server).collect()
    }

    fn options(&self, socket: String) -> Opts {
        let constraints = PoolConstraints::new(0, 4).unwrap_or_default();
        OptsBuilder::default()
            .user(Some(self.user.clone()))
            .pass(Some(self.password.clone()))
            .socket(Some(socket))
            .prefer_socket(true)
            .stmt_cache_size(0)
            .pool_opts(PoolOpts::default().with_constraints(constraints))
            .into()
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("user", &self.user)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// The place in `backend.address` of the server that new sessions go to, counted from 0. Cloned, it
/// is the same.
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

/// Cloned, it is the same.
#[derive(Debug, Clone)]
pub(super) struct Account(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    user: String,
    /// In the order of the configuration.
    servers: Vec<Server>,
    primary: Primary,
}

/// One address.
#[derive(Debug)]
struct Server {
    address: Address,
    pool: Pool,
}

impl Account {
    /// Connects to the first address that answers; where there are several, to the one that can be
    /// written to.
    pub(super) async fn open(control: &Control, limit: Duration) -> Result<Account, SchemaError> {
        let server =
            |(address, opts): (&Address, Opts)| Server { address: address.clone(), pool: Pool::new(opts) };
        let servers: Vec<_> = control.servers()?.into_iter().map(server).collect();
        let inner = Inner { user: control.user.clone(), servers, primary: Primary::default() };
        let mut last = SchemaError::Timeout(limit);
        for nth in 0..inner.servers.len() {
            match inner.connection(nth, limit).await {
                Ok(_) => {
                    inner.primary.set(nth);
                    return Ok(Account(Arc::new(inner)));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(super) async fn connection(&self, limit: Duration) -> Result<Conn, SchemaError> {
        self.0.connection(self.0.primary.get(), limit).await
    }

    pub(super) fn primary(&self) -> &Primary {
        &self.0.primary
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Inner {
    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.servers.iter().map(|server| &server.address)
    }

    pub(super) fn primary(&self) -> &Primary {
        &self.primary
    }

    /// With the address of this place in the configuration.
    pub(super) async fn connection(&self, nth: usize, limit: Duration) -> Result<Conn, SchemaError> {
        let timed_out = SchemaError::Timeout(limit);
        let Some(server) = self.servers.get(nth) else { return Err(timed_out) };
        let connected = tokio::time::timeout(limit, server.pool.get_conn()).await;
        connected.map_err(|_| timed_out)?.map_err(|error| SchemaError::Connect {
            user: self.user.clone(),
            error: format!("{}: {error}", server.address),
        })
    }
}
