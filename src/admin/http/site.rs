//! The paths, and the answer of each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header::{self, HeaderMap};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::address::Address;
use crate::address::listener::Listener;
use crate::admin::desk::{Check, Desk, Readiness};
use crate::admin::http::connections::accept;
use crate::admin::http::guard::{Hosts, guard, text};
use crate::admin::http::history::History;
use crate::admin::http::rates::{LOOK_INTERVAL, Looks};
use crate::admin::metrics::text::{Format, encode};
use crate::admin::status::{Counts, FleetStatus, Status};

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
    history: History,
}

/// Serves until it is dropped.
pub(super) async fn run(listener: Listener, address: &Address, desk: Arc<dyn Desk>) {
    let site = Arc::new(Site {
        desk,
        fleet: Fleet::default(),
        looks: Looks::default(),
        history: History::default(),
    });
    let router = router(site.clone(), Hosts::of(address));
    tokio::join!(look_on(&site), accept(&listener, &router));
}

async fn look_on(site: &Site) {
    loop {
        let now = Instant::now();
        let counted = site.desk.counted();
        site.looks.look(now, &counted);
        if site.history.is_due(now) {
            site.history.note(now, &*site.desk, &Counts::new(counted, &site.looks.rates()));
        }
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
        .route("/history.json", get(history))
        .fallback(nothing_there)
        .layer(middleware::from_fn_with_state(hosts, guard))
        .with_state(site)
}

async fn nothing_there(uri: Uri) -> Response {
    let why = format!(
        "there is no {}; the paths are / (the page), /metrics, /healthz, /readyz, /status.json and /history.json",
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

/// The answer of `/readyz`.
#[derive(Serialize)]
struct Answer {
    /// True if new clients should be sent here; the status is 200 then.
    ready: bool,
    degraded: bool,
    checks: Vec<Check>,
}

/// With `?strict` a degraded proxy is not ready.
async fn ready(State(site): State<Arc<Site>>, uri: Uri) -> Response {
    let checks = site.desk.checks();
    let readiness = Readiness::of(&checks);
    let is_strict =
        uri.query().is_some_and(|query| query.split('&').any(|part| matches!(part, "strict" | "strict=1")));
    let ready = readiness.takes_clients() && !(is_strict && readiness == Readiness::Degraded);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &Answer { ready, degraded: readiness == Readiness::Degraded, checks })
}

async fn status(State(site): State<Arc<Site>>) -> Response {
    let desk = &*site.desk;
    let fleet = site.fleet.look(desk).await;
    json(StatusCode::OK, &Status::of(desk, fleet, &site.looks.rates()))
}

/// For the page: it begins with what was before it was opened.
async fn history(State(site): State<Arc<Site>>) -> Response {
    answer(StatusCode::OK, site.history.json())
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    answer(status, serde_json::to_string(value))
}

fn answer(status: StatusCode, body: serde_json::Result<String>) -> Response {
    match body {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body + "\n").into_response(),
        Err(error) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, &format!("the answer cannot be written as JSON: {error}"))
        }
    }
}

/// The fleet is asked for again after this.
const FLEET_AGE_MAX: Duration = Duration::from_secs(5);
/// The longest time that a page waits for the store.
const FLEET_TIMEOUT: Duration = Duration::from_secs(2);

/// The proxies of a store. The store is asked for them every few seconds, however many pages are open.
#[derive(Debug, Default)]
struct Fleet(Mutex<Option<(Instant, FleetStatus)>>);

impl Fleet {
    /// A second page that comes while the store is asked waits for that answer.
    async fn look(&self, desk: &dyn Desk) -> FleetStatus {
        let mut known = self.0.lock().await;
        if let Some((at, fleet)) = known.as_ref()
            && at.elapsed() < FLEET_AGE_MAX
        {
            return fleet.clone();
        }
        let trouble = |why: String| FleetStatus { proxies: Vec::new(), trouble: Some(why) };
        let fleet = match timeout(FLEET_TIMEOUT, desk.proxies()).await {
            Ok(Ok(proxies)) => FleetStatus { proxies, trouble: None },
            Ok(Err(error)) => trouble(error.to_string()),
            Err(_) => trouble(format!("the store did not answer within {FLEET_TIMEOUT:?}")),
        };
        *known = Some((Instant::now(), fleet.clone()));
        fleet
    }
}
