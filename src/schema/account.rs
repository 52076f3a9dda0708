//! Rowstamp's own account: how it connects, and to which of the backend's addresses.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Conn, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};

use super::SchemaError;
use super::servers::Primary;
use crate::address::Address;

/// The error of a [`Way`] that cannot reach the server (ER_SERVER_SHUTDOWN), and its text before the reason.
const UNREACHABLE: u16 = 1053;
const UNREACHABLE_TEXT: &str = "Can't connect to remote MySQL server: ";
/// The error of a [`Way`] to a server whose TLS or greeting does not fit (ER_UNKNOWN_ERROR).
const UNFIT: u16 = 1105;

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

/// All clones share the connections.
#[derive(Debug, Clone)]
pub(super) struct Account(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    user: String,
    /// In the order of `backend.address`.
    servers: Vec<Server>,
    primary: Primary,
}

#[derive(Debug)]
struct Server {
    address: Address,
    opts: Opts,
    pool: Pool,
}

impl Account {
    /// Connects to the first address that answers; where there are several, to the one that can be
    /// written to.
    pub(super) async fn open(control: &Control, limit: Duration) -> Result<Account, SchemaError> {
        let server = |(address, opts): (&Address, Opts)| Server {
            address: address.clone(),
            pool: Pool::new(opts.clone()),
            opts,
        };
        let servers: Vec<_> = control.servers()?.into_iter().map(server).collect();
        let inner = Inner { user: control.user.clone(), servers, primary: Primary::default() };
        let mut errors = Vec::new();
        for nth in 0..inner.servers.len() {
            match inner.connection(nth, limit).await {
                Ok(_) => {
                    inner.primary.set(nth);
                    return Ok(Account(Arc::new(inner)));
                }
                Err(error) => errors.push(error),
            }
        }
        let only = if errors.len() == 1 { errors.pop() } else { None };
        Err(only.unwrap_or(SchemaError::Nowhere(errors)))
    }

    pub(super) async fn connection(&self, limit: Duration) -> Result<Conn, SchemaError> {
        self.0.connection(self.0.primary.get(), limit).await
    }

    /// A connection outside of the pool: what its session holds, such as a named lock, must not pass to another query.
    pub(super) async fn own_connection(&self, limit: Duration) -> Result<Conn, SchemaError> {
        let inner = &self.0;
        let server = inner.servers.get(inner.primary.get()).ok_or(SchemaError::Timeout(limit))?;
        inner.connected(server, limit, Conn::new(server.opts.clone())).await
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

    /// `nth`: the address's place in `backend.address`.
    pub(super) async fn connection(&self, nth: usize, limit: Duration) -> Result<Conn, SchemaError> {
        let server = self.servers.get(nth).ok_or(SchemaError::Timeout(limit))?;
        self.connected(server, limit, server.pool.get_conn()).await
    }

    async fn connected(
        &self,
        server: &Server,
        limit: Duration,
        connecting: impl Future<Output = mysql_async::Result<Conn>>,
    ) -> Result<Conn, SchemaError> {
        match tokio::time::timeout(limit, connecting).await {
            Ok(Ok(conn)) => Ok(conn),
            Ok(Err(error)) => Err(self.blame(&server.address, &error)),
            Err(_) => Err(SchemaError::Unreachable {
                address: server.address.to_string(),
                why: format!(
                    "does not answer the control account within {limit:?}; check whether it hangs, or correct the address"
                ),
            }),
        }
    }

    fn blame(&self, address: &Address, error: &mysql_async::Error) -> SchemaError {
        let (user, address) = (self.user.clone(), address.to_string());
        match error {
            mysql_async::Error::Server(error) if error.code == UNREACHABLE => {
                let why = error.message.strip_prefix(UNREACHABLE_TEXT).unwrap_or(&error.message);
                let why = format!("cannot be reached: {why}; start it, or correct the address");
                SchemaError::Unreachable { address, why }
            }
            mysql_async::Error::Server(error) if error.code == UNFIT => {
                SchemaError::Unreachable { address, why: format!("cannot be used: {}", error.message) }
            }
            mysql_async::Error::Server(error) => {
                SchemaError::Connect { user, error: format!("{address}: {} ({})", error.message, error.code) }
            }
            error => SchemaError::Unreachable {
                address,
                why: format!(
                    "ends the connection during the login: {error}; read its log, and check that it is a MySQL or MariaDB server"
                ),
            },
        }
    }
}
