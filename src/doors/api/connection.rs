//! A client's connection, and what it may take.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_io_timeout::TimeoutWriter;

use super::compat::Paths;
use super::login::Visitor;
use super::{answers, wanted};
use crate::address::socket::Stream;
use crate::doors::entry::{ClientLimits, End};

/// A request's line and headers.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// The time after which a connection without a request is closed when the proxy drains. A request that arrives in this
/// time is answered, with `Connection: close`. Else it would be lost: clients do not send a POST again by themselves.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves a client to its end.
pub(super) async fn serve(
    stream: &mut dyn Stream,
    paths: &Arc<Paths>,
    visitor: Visitor,
    limits: ClientLimits,
    mut draining: watch::Receiver<bool>,
) -> io::Result<End> {
    let mut timed = TimeoutWriter::new(stream);
    timed.set_timeout(Some(limits.write));
    let (visitor, drains, draining_now) = (Arc::new(visitor), draining.clone(), draining.clone());
    let service = service_fn(|request: Request<Incoming>| {
        let (paths, visitor, drains) = (paths.clone(), visitor.clone(), drains.clone());
        async move {
            let mut answer = answer(request, &paths, &visitor).await;
            if *drains.borrow()
                && let Ok(answer) = &mut answer
            {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        }
    });
    let mut settings = http1::Builder::new();
    // Times are looked at below. A client that sends no more may still wait for its answer.
    settings.header_read_timeout(None).half_close(true).max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    // To copy a short body costs less than to have the kernel collect two parts.
    settings.writev(false);
    let mut connection = pin!(settings.serve_connection(TokioIo::new(Box::pin(timed)), service));
    let mut drained = pin!(async {
        // An error: the door is no more.
        let _ = draining.wait_for(|draining| *draining).await;
        sleep(FAREWELL).await;
    });
    let mut waits_until = pin!(sleep_until(limits.login_until));
    let (mut end, mut has_drained) = (End::Client, false);
    loop {
        tokio::select! {
            // Bytes that have come are answered before a timer that fires at the same moment.
            biased;
            ended = connection.as_mut() => {
                let end = if *draining_now.borrow() { End::Drained } else { end };
                return of(ended, end);
            }
            () = &mut drained, if !has_drained => {
                has_drained = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut waits_until => {}
        }
        let now = Instant::now();
        if waits_until.deadline() > now {
            continue;
        }
        let until = visitor.heard().map(|heard| heard + limits.idle);
        if visitor.is_being_served() {
            if until.is_none() {
                end = End::Login;
                connection.as_mut().graceful_shutdown();
            }
            waits_until.as_mut().reset(now + limits.idle);
        } else {
            match until {
                None => return Ok(End::Login),
                Some(until) if until <= now => return Ok(End::Idle),
                Some(until) => waits_until.as_mut().reset(until),
            }
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    paths: &Paths,
    visitor: &Arc<Visitor>,
) -> Result<Response, std::convert::Infallible> {
    let (head, body) = request.into_parts();
    // First: what is not read of a body would end the connection, and the request that comes next on it would be lost.
    let body = match wanted::read(body).await {
        Ok(body) => body,
        Err(problem) => return Ok(paths.refused(head.uri.path(), problem)),
    };
    visitor.is_served(true);
    let answer = if let Some(name) = answers::draws_of(&head) {
        Ok(answers::draw_at_once(visitor, &head, name, &body).await.into_response())
    } else {
        let mut request = Request::from_parts(head, Body::from(body));
        request.extensions_mut().insert(visitor.clone());
        paths.router_of(request.uri().path()).call(request).await
    };
    visitor.is_served(false);
    answer
}

/// The end of the connection: `asked` if it ended without an error.
fn of(ended: hyper::Result<()>, asked: End) -> io::Result<End> {
    match ended {
        Ok(()) => Ok(asked),
        // hyper has answered with 400 or 431. The preface of HTTP/2 alone gets no answer.
        Err(error) if error.is_parse() => Ok(End::Violation),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests;
