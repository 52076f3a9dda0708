//! The HTTP server: metrics, health, and the page. It takes GET and HEAD only, and no request
//! changes anything.

mod connections;
mod guard;
mod history;
mod rates;
mod site;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::desk::Desk;
use crate::address::Address;
use crate::address::listener::{ListenError, Listener};

/// Between two attempts to bind an address that another process has.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    pub address: Address,
    /// The address stands in the configuration, so it is an error if it cannot be bound.
    pub is_written: bool,
}

/// For an address that is taken, for one that this user may not have, and for others.
const REMEDIES: [&str; 3] = [
    "stop the program that listens there, set another address, or write \"off\"",
    "this user may not use that port or folder: set another address, or write \"off\"",
    "correct the address, or write \"off\"",
];

/// An address that this process listens on, or will.
#[derive(Debug)]
pub struct Listening {
    address: Address,
    /// `None`: not yet.
    listener: Option<Listener>,
}

/// Binds the address. If that fails, and the address `is_written`, it is an error. Else it is a
/// warning, and the address is tried again until it is free. The latter is also done for an address
/// that the process before this one is about to free (`waits`).
pub async fn listen(settings: &HttpSettings, waits: bool) -> Result<Listening, ListenError> {
    let address = settings.address.clone();
    let error = match Listener::bind(&address).await {
        Ok(listener) => return Ok(Listening { address, listener: Some(listener) }),
        Err(error) => error,
    };
    let error = ListenError::new("http.address", &address, error, REMEDIES);
    if waits && error.is_taken() {
        tracing::info!(
            "http.address {address} is still in use by the previous process; waiting until it is free"
        );
    } else if settings.is_written {
        return Err(error);
    } else {
        tracing::warn!("{error}; Rowstamp tries again, and serves no metrics and no page until then");
    }
    Ok(Listening { address, listener: None })
}

impl Listening {
    /// Serves until what this returns is dropped; the address is free then.
    #[must_use]
    pub fn serve(self, desk: Arc<dyn Desk>) -> JoinSet<()> {
        let Listening { address, listener } = self;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let listener = match listener {
                Some(listener) => listener,
                None => bind_in_time(&address).await,
            };
            tracing::info!("metrics and the page: {}", shown(&listener));
            site::run(listener, &address, desk).await;
        });
        tasks
    }
}

async fn bind_in_time(address: &Address) -> Listener {
    loop {
        tokio::time::sleep(RETRY_PAUSE).await;
        if let Ok(listener) = Listener::bind(address).await {
            return listener;
        }
    }
}

/// For people: where to go, with the port as it came out.
fn shown(listener: &Listener) -> String {
    match listener {
        Listener::Tcp(tcp) => match tcp.local_addr() {
            Ok(address) => format!("http://{address}/"),
            Err(error) => format!("http, at an unknown address: {error}"),
        },
        Listener::Unix { .. } => listener.address(),
    }
}

#[cfg(test)]
mod tests;
