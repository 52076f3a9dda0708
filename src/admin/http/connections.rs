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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::super::lobby::{Lobby, Place};
use crate::address::listener::{self, Accepted, Listener, Trouble};

/// Beyond these who came first makes room (`lobby`).
const CONNECTIONS_MAX: usize = 64;
/// For a request's line and headers, from when it may begin; so it also ends connections that are idle.
const HEADER_DEADLINE: Duration = Duration::from_secs(20);
const HEADER_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// Then it is closed behind the answer that is under way. Readers that come every few seconds connect anew once a minute.
const CONNECTION_AGE_MAX: Duration = Duration::from_mins(1);
/// In which that answer must have been taken.
const GOODBYE: Duration = Duration::from_secs(5);

/// Until it is dropped, and all connections with it.
pub(super) async fn accept(listener: &Listener, router: &Router) {
    let lobby = Lobby::new(CONNECTIONS_MAX);
    let welcome = |connections: &mut JoinSet<()>, client, from| {
        let place = lobby.enter(from);
        let nth = place.nth();
        lobby.is_of(nth, connections.spawn(talk(client, place, router.clone())));
        Ok(())
    };
    let tell = |trouble| {
        if let Trouble::Accept(error) = trouble {
            tracing::debug!(%error, "an HTTP client could not be accepted");
        }
    };
    match listener::accept(listener, &mut JoinSet::new(), welcome, tell).await {}
}

async fn talk(client: Accepted, place: Place, router: Router) {
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
    match client {
        Accepted::Tcp(stream) => talk_over(stream, router).await,
        Accepted::Unix(stream) => talk_over(stream, router).await,
    }
}

async fn talk_over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
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

/// Whether it came to its end, good or bad: what a client does wrong is told to it alone.
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
