//! Connections, and what one may take: a monitoring port must not be what brings a proxy down.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::task::JoinSet;

use crate::address::listener::{self, Listener, Trouble};
use crate::address::lobby::{Lobby, Place};
use crate::address::socket::{Stream, stream};

/// If more come, one of those who came first is disconnected (`lobby`).
const CONNECTIONS_MAX: usize = 64;
/// For a request's line and headers. It counts from when the request may begin, so it also ends
/// connections that are idle.
const HEADER_DEADLINE: Duration = Duration::from_secs(20);
const HEADER_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// An older connection is closed after the answer that is under way. A client that asks every few
/// seconds connects again once a minute.
const CONNECTION_AGE_MAX: Duration = Duration::from_mins(1);
/// The time that the client has to read that answer.
const GOODBYE: Duration = Duration::from_secs(5);

/// Accepts until it is dropped, and all connections with it.
pub(super) async fn accept(listener: &Listener, router: &Router) {
    let lobby = Lobby::new(CONNECTIONS_MAX);
    let welcome = |connections: &mut JoinSet<()>, client, from| {
        let stream = stream(client)?;
        lobby.serve(connections, from, |place| talk(stream, place, router.clone()));
        Ok(())
    };
    let tell = |trouble| {
        if let Trouble::Accept(error) = trouble {
            tracing::debug!(%error, "an HTTP client could not be accepted");
        }
    };
    match listener::accept(listener, &mut JoinSet::new(), welcome, tell).await {}
}

async fn talk(stream: Box<dyn Stream>, place: Place, router: Router) {
    let place = Arc::new(place);
    let noted = Arc::clone(&place);
    let router = router.layer(from_fn(move |request: Request, next: Next| {
        let place = Arc::clone(&noted);
        async move {
            place.serves(true);
            let answer = next.run(request).await;
            place.serves(false);
            answer
        }
    }));
    let mut settings = http1::Builder::new();
    settings
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let connection = settings.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let ended = within(CONNECTION_AGE_MAX, connection.as_mut()).await;
    if !ended {
        connection.as_mut().graceful_shutdown();
        within(GOODBYE, connection).await;
    }
}

/// Runs the connection for this time at most. True if it ended, well or badly. Errors are only debug lines in the log.
async fn within(time: Duration, connection: impl Future<Output = hyper::Result<()>>) -> bool {
    match tokio::time::timeout(time, connection).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::debug!(%error, "an HTTP connection ended");
            true
        }
        Err(_) => false,
    }
}
