//! The peer of benches/http.sh: an axum handler that adds to an atomic, as axum itself serves it. The argument is its port.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::post;

static NEXT: AtomicU64 = AtomicU64::new(1);

#[tokio::main(worker_threads = 2)]
async fn main() {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("a port");
    let next = async || format!("{}\n", NEXT.fetch_add(1, Ordering::Relaxed));
    let router = Router::new().route("/v1/generators/{g}/ids", post(next));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    axum::serve(listener, router).await.expect("it serves");
}
