//! The console of a process that serves: its socket, and who speaks TLS there.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::address::Address;
use crate::address::listener::{ListenError, Listener};
use crate::admin::Desk;
use crate::admin::console::{self, Tls};
use crate::config::AdminSettings;
use crate::proxy::session::Shared;

/// As of [`ListenError::new`].
const REMEDIES: [&str; 3] = [
    "stop the program that listens there, or set another admin.address",
    "admin.address needs a port or a folder that this user may use",
    "correct admin.address",
];

/// How often the socket of the process before is asked for.
const AGAIN: Duration = Duration::from_millis(200);

/// The console's socket.
#[derive(Debug)]
pub(super) enum Socket {
    /// No users, "off", or the default port is another's.
    Off,
    Bound(Listener),
    /// The process that hands over has it still.
    Pending(Address),
}

/// `takes_over`: from a process that listens there until it has handed over.
pub(super) async fn bind_socket(settings: &AdminSettings, takes_over: bool) -> Result<Socket, ListenError> {
    let Some(address) = &settings.address else { return Ok(Socket::Off) };
    match bind(address).await {
        Ok(listener) => Ok(Socket::Bound(listener)),
        Err(error) if error.is_taken() && takes_over => Ok(Socket::Pending(address.clone())),
        Err(error) if error.is_taken() && !settings.is_written => {
            tracing::warn!("{error}; until then there is no console");
            Ok(Socket::Off)
        }
        Err(error) => Err(error),
    }
}

async fn bind(address: &Address) -> Result<Listener, ListenError> {
    Listener::bind(address)
        .await
        .map_err(|error| ListenError::new("the console cannot listen on", address, error, REMEDIES))
}

/// Serves the console for as long as it is polled.
pub(super) async fn serve(socket: Socket, desk: Arc<dyn Desk>, shared: Arc<ArcSwap<Shared>>) {
    let listener = match socket {
        Socket::Off => return,
        Socket::Bound(listener) => listener,
        Socket::Pending(address) => wait_for(&address).await,
    };
    // Not in the words that tell where the proxy listens, which scripts look for.
    tracing::info!("the console is at {}", listener.address());
    let tls = move || {
        let side = &shared.load().login.tls.listen;
        Tls { acceptor: side.acceptor().cloned(), is_required: side.is_required() }
    };
    console::serve(listener, desk, tls).await;
}

async fn wait_for(address: &Address) -> Listener {
    let mut told = None;
    loop {
        match bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                let text = error.to_string();
                if !error.is_taken() && told.as_ref() != Some(&text) {
                    tracing::warn!("{text}; Rowstamp tries again");
                    told = Some(text);
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Socket, bind_socket, wait_for};
    use crate::address::Address;
    use crate::config::AdminSettings;

    #[tokio::test]
    async fn an_address_that_is_taken() {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Address = taken.local_addr().unwrap().to_string().parse().unwrap();
        let settings =
            |is_written| AdminSettings { address: Some(address.clone()), is_written, users: [].into() };
        let error = bind_socket(&settings(true), false).await.unwrap_err().to_string();
        assert!(
            error.contains("stop the program that listens there, or set another admin.address"),
            "{error}"
        );
        assert!(matches!(bind_socket(&settings(false), false).await, Ok(Socket::Off)));
        assert!(matches!(bind_socket(&settings(true), true).await, Ok(Socket::Pending(_))));
        let waiting = tokio::spawn(async move { wait_for(&address).await });
        drop(taken);
        waiting.await.unwrap();
        let off = AdminSettings { address: None, is_written: true, users: [].into() };
        assert!(matches!(bind_socket(&off, false).await, Ok(Socket::Off)));
    }
}
