//! The console of a process that serves: its socket, and who speaks TLS there.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::address::listener::ListenError;
use crate::admin::Desk;
use crate::admin::console::{self, Tls};
use crate::config::AdminSettings;
use crate::daemon::socket::{Names, Socket};
use crate::proxy::shared::Shared;

const NAMES: Names = Names {
    what: "the console cannot listen on",
    without: "until then there is no console",
    remedies: [
        "stop the program that listens there, or set another admin.address",
        "admin.address needs a port or a folder that this user may use",
        "correct admin.address",
    ],
};

/// `takes_over`: from a process that listens there until it has handed over.
pub(super) async fn bind_socket(settings: &AdminSettings, takes_over: bool) -> Result<Socket, ListenError> {
    Socket::bind(&NAMES, settings.address.as_ref(), settings.is_written, takes_over).await
}

/// Serves the console for as long as it is polled.
pub(super) async fn serve(socket: Socket, desk: Arc<dyn Desk>, shared: Arc<ArcSwap<Shared>>) {
    let Some(listener) = socket.listener(&NAMES).await else { return };
    // Not in the words that tell where the proxy listens, which scripts look for.
    tracing::info!("the console is at {}", listener.address());
    let tls = move || {
        let side = &shared.load().login.tls.listen;
        Tls { acceptor: side.acceptor.clone(), is_required: side.is_required }
    };
    console::serve(listener, desk, tls).await;
}

#[cfg(test)]
mod tests {
    use super::{NAMES, bind_socket};
    use crate::address::Address;
    use crate::config::AdminSettings;
    use crate::daemon::socket::Socket;

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
        let pending = bind_socket(&settings(true), true).await.unwrap();
        assert!(matches!(pending, Socket::Pending(_)));
        let waiting = tokio::spawn(async move { pending.listener(&NAMES).await });
        drop(taken);
        assert!(waiting.await.unwrap().is_some());
        let off = AdminSettings { address: None, is_written: true, users: [].into() };
        assert!(matches!(bind_socket(&off, false).await, Ok(Socket::Off)));
    }
}
