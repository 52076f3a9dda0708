//! Rowstamp's own account: how it connects, and to which of the backend's addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, SslOpts};

use super::SchemaError;
use super::primary::{self, Primary};
use crate::address::Address;

/// Rowstamp's own account on the backend.
#[derive(Clone, PartialEq, Eq)]
pub struct Control {
    pub addresses: Vec<Address>,
    pub user: String,
    pub password: String,
    pub tls: ControlTls,
}

/// How the control connection protects itself; certificates are verified where the backend's mode says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlTls {
    Never,
    /// Where the server offers it.
    Preferred,
    Always {
        ca: Option<std::path::PathBuf>,
        verifies_name: bool,
    },
}

impl Control {
    /// Each address, and how to connect to it in the order in which that is tried.
    pub fn servers(&self) -> impl Iterator<Item = (&Address, Vec<Opts>)> {
        self.addresses.iter().map(|address| (address, self.attempts(address).collect()))
    }

    fn attempts(&self, address: &Address) -> impl Iterator<Item = Opts> {
        self.tls.attempts().into_iter().map(|tls| options(self, address, tls))
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
    /// By each way to connect.
    pools: Vec<Pool>,
    /// The way that worked last.
    works: AtomicUsize,
}

impl Account {
    /// Connects to the first address that answers; where there are several, to the one that can be written to.
    pub(super) async fn open(control: &Control, limit: Duration) -> Result<Account, SchemaError> {
        let server = |address: &Address| Server {
            address: address.clone(),
            pools: control.attempts(address).map(Pool::new).collect(),
            works: AtomicUsize::new(0),
        };
        let servers: Vec<_> = control.addresses.iter().map(server).collect();
        let inner = Inner { user: control.user.clone(), servers, primary: Primary::default() };
        let mut last = SchemaError::Timeout(limit);
        for nth in 0..inner.servers.len() {
            match inner.connection(nth, limit).await {
                Ok(_) => {
                    inner.primary.set(nth);
                    let inner = Arc::new(inner);
                    primary::watch(&inner).await;
                    return Ok(Account(inner));
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
        let connecting = async {
            let (count, works) = (server.pools.len(), server.works.load(Ordering::Relaxed));
            let mut failed = None;
            for at in (works..count).chain(0..works) {
                let Some(pool) = server.pools.get(at) else { continue };
                match pool.get_conn().await {
                    Ok(conn) => {
                        server.works.store(at, Ordering::Relaxed);
                        return Ok(conn);
                    }
                    Err(error) => failed = Some(error.to_string()),
                }
            }
            let error = failed.unwrap_or_default();
            Err(SchemaError::Connect { user: self.user.clone(), error })
        };
        tokio::time::timeout(limit, connecting).await.unwrap_or(Err(timed_out))
    }
}

impl ControlTls {
    /// What is tried in turn.
    fn attempts(&self) -> Vec<Option<SslOpts>> {
        let unverified = || {
            SslOpts::default().with_danger_accept_invalid_certs(true).with_danger_skip_domain_validation(true)
        };
        match self {
            ControlTls::Never => vec![None],
            ControlTls::Preferred => vec![Some(unverified()), None],
            ControlTls::Always { ca: None, .. } => vec![Some(unverified())],
            ControlTls::Always { ca: Some(ca), verifies_name } => {
                let tls = SslOpts::default()
                    .with_root_certs(vec![ca.clone().into()])
                    .with_danger_skip_domain_validation(!verifies_name);
                vec![Some(tls)]
            }
        }
    }
}

fn options(control: &Control, address: &Address, tls: Option<SslOpts>) -> Opts {
    let constraints = PoolConstraints::new(0, 4).unwrap_or_default();
    let options = OptsBuilder::default()
        .user(Some(control.user.clone()))
        .pass(Some(control.password.clone()))
        .prefer_socket(false)
        .stmt_cache_size(0)
        .pool_opts(PoolOpts::default().with_constraints(constraints));
    match address {
        Address::Tcp { host, port } => {
            options.ip_or_hostname(host.clone()).tcp_port(*port).ssl_opts(tls).into()
        }
        // A Unix socket needs no TLS: nobody listens in between.
        Address::Unix(path) => {
            options.socket(Some(path.to_string_lossy().into_owned())).prefer_socket(true).into()
        }
    }
}
