//! What is at which path.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::header::{self, HeaderMap};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use serde::Serialize;

use super::connections::accept;
use super::fleet::Fleet;
use super::guard::{Hosts, guard, text};
use super::rates::{LOOK_INTERVAL, Looks};
use crate::address::Address;
use crate::address::listener::Listener;
use crate::admin::desk::{Check, Desk};
use crate::admin::metrics::text::{Format, encode};
use crate::admin::status::{Status, is_ready};

const PAGE: &str = include_str!("../page/index.html");
const STYLE: &str = include_str!("../page/page.css");
pub(super) const SCRIPTS: [(&str, &str); 8] = [
    ("/dom.js", include_str!("../page/dom.js")),
    ("/generators.js", include_str!("../page/generators.js")),
    ("/numbers.js", include_str!("../page/numbers.js")),
    ("/page.js", include_str!("../page/page.js")),
    ("/past.js", include_str!("../page/past.js")),
    ("/plots.js", include_str!("../page/plots.js")),
    ("/tables.js", include_str!("../page/tables.js")),
    ("/tiles.js", include_str!("../page/tiles.js")),
];

struct Site {
    desk: Arc<dyn Desk>,
    fleet: Fleet,
    looks: Looks,
}

/// Serves until it is dropped.
pub(super) async fn run(listener: Listener, address: &Address, desk: Arc<dyn Desk>) {
    let site = Arc::new(Site { desk, fleet: Fleet::default(), looks: Looks::default() });
    let router = router(site.clone(), Hosts::of(address));
    tokio::join!(look_on(&site), accept(&listener, &router));
}

async fn look_on(site: &Site) {
    loop {
        site.looks.look(Instant::now(), &site.desk.metrics());
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn router(site: Arc<Site>, hosts: Hosts) -> Router {
    let asset =
        |kind: &'static str, text: &'static str| get(async move || ([(header::CONTENT_TYPE, kind)], text));
    let script =
        |router: Router<_>, (path, text)| router.route(path, asset("text/javascript; charset=utf-8", text));
    SCRIPTS
        .into_iter()
        .fold(Router::new(), script)
        .route("/", asset("text/html; charset=utf-8", PAGE))
        .route("/page.css", asset("text/css; charset=utf-8", STYLE))
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || text(StatusCode::OK, "ok")))
        .route("/readyz", get(ready))
        .route("/status.json", get(status))
        .fallback(nothing_there)
        .layer(middleware::from_fn_with_state(hosts, guard))
        .with_state(site)
}

async fn nothing_there(uri: Uri) -> Response {
    let why = format!(
        "there is no {}; there are / (the page), /metrics, /healthz, /readyz and /status.json",
        uri.path()
    );
    text(StatusCode::NOT_FOUND, &why)
}

async fn metrics(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(&accepts.collect::<Vec<_>>().join(","));
    match encode(site.desk.metrics(), format) {
        Ok(body) => ([(header::CONTENT_TYPE, format.content_type())], body).into_response(),
        Err(error) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, &format!("the metrics cannot be written: {error}"))
        }
    }
}

/// Whether new clients should be sent here.
#[derive(Serialize)]
struct Ready {
    ready: bool,
    checks: Vec<Check>,
}

async fn ready(State(site): State<Arc<Site>>) -> Response {
    let checks = site.desk.checks();
    let ready = is_ready(&checks);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &Ready { ready, checks })
}

async fn status(State(site): State<Arc<Site>>) -> Response {
    let desk = &*site.desk;
    let fleet = site.fleet.look(desk).await;
    json(StatusCode::OK, &Status::of(desk, fleet, &site.looks.rates()))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body + "\n").into_response(),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("this cannot be written: {error}")),
    }
}
