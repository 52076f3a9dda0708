//! The paths of the Spring service `org.itkk.udf.id`: ids by worker, batches, and the fields of an id, each in an envelope that also
//! errors come in. All ids are of one generator, `service.id`, whose nodes are the workers.
//!
//! Sources: IIdWorkerController, IdWorkerFactory, RestResponse, ErrorResult and IdWorker of that service, as of 2017. Other versions of it
//! have the paths `worker/` and `reverse/`, which are here too, and `{count}` in place of `{dwId}`, which cannot be.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::http::header::{self, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use axum::{Extension, Router};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::doors::api::answers::json;
use crate::doors::api::login::{LoggedIn, Visitor};
use crate::doors::api::office::ApiOffice;
use crate::doors::api::problem::{Problem, ProblemBody};
use crate::doors::issuer::{Caller, Denied, Shape, shortened};
use crate::ids::Holder;
use crate::ids::layout::Moment;
use crate::rules::model::GENERATOR_OF_UDF as GENERATOR;

const PREFIX: &str = "/service/id";

/// A worker is a datacenter and a worker within it, of so many bits.
const WORKER_BITS: u32 = 5;
const DATACENTERS: u64 = 32;
const WORKERS: u64 = 32;

/// Whose the workers are is read again after this time.
const HOLDERS_AGE_MAX: Duration = Duration::from_secs(1);

/// So many ids at most in one answer, which names each of them.
const COUNT_MAX: u64 = 10_000;

/// An error names so many workers.
const HOLDERS_NAMED_MAX: usize = 20;

pub(super) fn has(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(super) fn router(office: Arc<ApiOffice>) -> Router {
    Router::new().fallback(answer).with_state(Arc::new(Udf { office, holders: Mutex::default() }))
}

/// The state that these paths share.
struct Udf {
    office: Arc<ApiOffice>,
    /// The proxies that are the workers, and when they were read.
    holders: Mutex<Option<(Instant, Holders)>>,
}

/// `None`: the store does not answer.
type Holders = Option<Arc<BTreeMap<u64, Holder>>>;

/// The request that a path makes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asked<'a> {
    One { worker: Option<u64> },
    Batch { worker: Option<u64>, count: NonZeroU64 },
    Fields { id: &'a str },
}

impl Asked<'_> {
    /// Reads a path without its beginning. A slash at its end says nothing.
    fn read(rest: &str) -> Result<Asked<'_>, Problem> {
        let parts: Vec<_> = rest.strip_suffix('/').unwrap_or(rest).split('/').skip(1).collect();
        Ok(match parts[..] {
            [] => Asked::One { worker: None },
            ["reverse", id] => Asked::Fields { id },
            ["batch"] => return Err(bad_count("")),
            ["batch", n] => Asked::Batch { worker: None, count: count(n)? },
            ["batch", worker, n] => Asked::Batch { worker: Some(whole(worker)?), count: count(n)? },
            ["batch" | "worker", datacenter, worker, n] => {
                Asked::Batch { worker: Some(of_datacenter(datacenter, worker)?), count: count(n)? }
            }
            [worker] => Asked::One { worker: Some(whole(worker)?) },
            [datacenter, worker] | ["worker", datacenter, worker] => {
                Asked::One { worker: Some(of_datacenter(datacenter, worker)?) }
            }
            _ => {
                let why = format!(
                    "there is no \"{PREFIX}{}\"; the paths are {PREFIX}, {PREFIX}/{{dwId}}, {PREFIX}/{{datacenterId}}/{{workerId}}, \
                     {PREFIX}/batch/{{count}}, {PREFIX}/batch/{{dwId}}/{{count}}, {PREFIX}/batch/{{datacenterId}}/{{workerId}}/{{count}} and \
                     {PREFIX}/reverse/{{id}}",
                    shortened(rest).escape_debug()
                );
                return Err(Problem::new(StatusCode::NOT_FOUND, "no_path", why));
            }
        })
    }
}

/// A datacenter and its worker in one number.
fn whole(worker: &str) -> Result<u64, Problem> {
    number("dwId", worker, DATACENTERS * WORKERS - 1)
}

fn of_datacenter(datacenter: &str, worker: &str) -> Result<u64, Problem> {
    let datacenter = number("datacenterId", datacenter, DATACENTERS - 1)?;
    Ok(datacenter << WORKER_BITS | number("workerId", worker, WORKERS - 1)?)
}

fn number(name: &str, written: &str, most: u64) -> Result<u64, Problem> {
    written.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
        let why = format!("{name} is {:?}; write a whole number from 0 to {most}", shortened(written));
        Problem::new(StatusCode::BAD_REQUEST, "bad_worker", why)
    })
}

fn count(written: &str) -> Result<NonZeroU64, Problem> {
    written
        .parse()
        .ok()
        .filter(|count: &NonZeroU64| count.get() <= COUNT_MAX)
        .ok_or_else(|| bad_count(written))
}

fn bad_count(written: &str) -> Problem {
    let why = format!("count is {:?}; write a whole number from 1 to {COUNT_MAX}", shortened(written));
    Problem::new(StatusCode::BAD_REQUEST, "bad_count", why)
}

async fn answer(
    State(udf): State<Arc<Udf>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    caller: Result<LoggedIn, Problem>,
    method: Method,
    uri: Uri,
) -> Response {
    let is_known = matches!(method, Method::GET | Method::HEAD);
    let answered = if is_known {
        let scheme = if visitor.is_tls() { "https" } else { "http" };
        answered(&udf, caller, (scheme, uri.path())).await
    } else {
        Err(Problem::only_get(&method))
    };
    let mut response = answered.unwrap_or_else(refused);
    if !is_known {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
    }
    response
}

pub(super) fn refused(problem: Problem) -> Response {
    problem.told("application/json", in_envelope)
}

async fn answered(
    udf: &Arc<Udf>,
    caller: Result<LoggedIn, Problem>,
    asked: (&str, &str),
) -> Result<Response, Problem> {
    let (LoggedIn(caller), (_, path)) = (caller?, asked);
    Ok(match Asked::read(path.strip_prefix(PREFIX).unwrap_or_default())? {
        Asked::One { worker } => {
            let ids = draw(udf, &caller, (asked, worker), NonZeroU64::MIN).await?;
            json(&Envelope::of(ids.first()))
        }
        Asked::Batch { worker, count } => {
            json(&Envelope::of(Some(&draw(udf, &caller, (asked, worker), count).await?)))
        }
        Asked::Fields { id } => json(&Envelope::of(Some(&fields(udf, &caller, id)?))),
    })
}

async fn draw(
    udf: &Arc<Udf>,
    caller: &Caller,
    (asked, worker): ((&str, &str), Option<u64>),
    n: NonZeroU64,
) -> Result<Vec<String>, Problem> {
    let issuer = &udf.office.issuer;
    let block = match worker {
        None => issuer.take(caller, GENERATOR, n, Shape::List).await?,
        Some(worker) => match issuer.take_as(caller, (GENERATOR, worker), n).await {
            Ok(block) => block,
            Err(Denied::OtherNode { own, .. }) => return Err(elsewhere(udf, asked, (worker, own)).await),
            Err(denied) => return Err(denied.into()),
        },
    };
    Ok((0..n.get()).filter_map(|nth| block.nth(nth)).map(|id| id.to_string()).collect())
}

impl Udf {
    /// However many ask, and however many of them leave, the store is asked once in a while.
    async fn holders(self: &Arc<Self>) -> Holders {
        let udf = self.clone();
        let reading = tokio::spawn(async move {
            let mut read = udf.holders.lock().await;
            if let Some((_, holders)) = read.as_ref().filter(|(at, _)| at.elapsed() < HOLDERS_AGE_MAX) {
                return holders.clone();
            }
            let holders = udf.office.issuer.holders(GENERATOR).await.map(Arc::new);
            *read = Some((Instant::now(), holders.clone()));
            holders
        });
        // An error: the process ends.
        reading.await.ok().flatten()
    }
}

/// The error for a worker that is another proxy or none. This proxy is the worker `own`.
async fn elsewhere(udf: &Arc<Udf>, (scheme, path): (&str, &str), (worker, own): (u64, u64)) -> Problem {
    let Some(holders) = udf.holders().await else {
        return Problem::unavailable(format!(
            "this proxy is worker {own}, and who is worker {worker} cannot be read from the store now; try again"
        ));
    };
    let Some(Holder { proxy, api }) = holders.get(&worker) else {
        let others = holders.iter().filter(|(worker, _)| **worker != own).take(HOLDERS_NAMED_MAX);
        let others = others.map(|(worker, holder)| format!(", {worker} is {}", holder.proxy));
        let others: String = others.collect();
        let why = format!(
            "no proxy is worker {worker}; {own} is this proxy{others}; ask for one of these, or without a worker"
        );
        return Problem::new(StatusCode::NOT_FOUND, "no_worker", why);
    };
    let other = |why: String| Problem::new(StatusCode::MISDIRECTED_REQUEST, "other_worker", why);
    match api {
        Some(api) => other(format!("worker {worker} is proxy {proxy}; ask at {api}"))
            .located(format!("{scheme}://{api}{path}")),
        None => other(format!(
            "worker {worker} is proxy {proxy}, which has no api.address that other machines can reach; ask without a worker"
        )),
    }
}

/// The fields of an id.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields {
    /// When its tick began, in milliseconds since 1970.
    timestamp: u64,
    dw_id: u64,
    datacenter_id: u64,
    worker_id: u64,
    sequence: u64,
}

fn fields(udf: &Udf, caller: &Caller, id: &str) -> Result<Fields, Problem> {
    let parts = udf.office.issuer.decode(caller, GENERATOR, id.as_bytes())?;
    let node = parts.node.unwrap_or_default();
    Ok(Fields {
        timestamp: parts.time.micros() / 1000,
        dw_id: node,
        datacenter_id: node >> WORKER_BITS,
        worker_id: node % WORKERS,
        sequence: parts.sequence.unwrap_or_default(),
    })
}

/// Every answer of the service.
#[derive(Serialize)]
struct Envelope<'a, T> {
    /// The answer's own id.
    id: String,
    code: String,
    message: &'a str,
    result: Option<&'a T>,
    error: Option<Trouble<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trouble<'a> {
    date: String,
    r#type: &'a str,
    message: &'a str,
    /// The service may have been set to tell it.
    stack_trace: Option<&'a str>,
    /// The error of another service that the service asked.
    child: Option<&'a str>,
}

impl<'a, T> Envelope<'a, T> {
    fn of(result: Option<&'a T>) -> Self {
        Envelope { id: fresh_id(), code: "200".to_owned(), message: "OK", result, error: None }
    }
}

fn in_envelope(problem: &ProblemBody<'_>) -> String {
    let error = Trouble {
        date: written(SystemTime::now().into()),
        r#type: problem.code,
        message: problem.detail,
        stack_trace: None,
        child: None,
    };
    let envelope: Envelope<'_, ()> = Envelope {
        id: fresh_id(),
        code: problem.status.to_string(),
        message: problem.title,
        result: None,
        error: Some(error),
    };
    // Strings are always written.
    serde_json::to_string(&envelope).unwrap_or_default()
}

fn fresh_id() -> String {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string()
}

/// The time in the service's format, `yyyy-MM-dd'T'HH:mm:ss:SSSZ`.
fn written(moment: Moment) -> String {
    let millis = moment.micros() / 1000;
    let whole = Moment::from_micros(millis * 1000).to_string();
    let (seconds, _) = whole.split_once('.').unwrap_or((&whole, ""));
    format!("{seconds}:{:03}+0000", millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::{Asked, written};
    use crate::ids::layout::Moment;
    use axum::http::StatusCode;
    use std::num::NonZeroU64;

    #[test]
    fn what_a_path_asks_for() {
        let one = |worker| Ok(Asked::One { worker });
        let batch = |worker, count| Ok(Asked::Batch { worker, count: NonZeroU64::new(count).unwrap() });
        for (path, expect) in [
            ("", one(None)),
            ("/", one(None)),
            ("/0", one(Some(0))),
            ("/0/", one(Some(0))),
            ("/1023", one(Some(1023))),
            ("/1024", Err(400)),
            ("/-1", Err(400)),
            ("/x", Err(400)),
            ("//", Err(400)),
            ("/2/3", one(Some(67))),
            ("/31/31", one(Some(1023))),
            ("/32/0", Err(400)),
            ("/0/32", Err(400)),
            ("/worker/2/3", one(Some(67))),
            ("/worker/2", Err(400)),
            ("/batch/10", batch(None, 10)),
            ("/batch/10000", batch(None, 10_000)),
            ("/batch/10001", Err(400)),
            ("/batch/0", Err(400)),
            ("/batch/-1", Err(400)),
            ("/batch/x", Err(400)),
            ("/batch", Err(400)),
            ("/batch/67/10", batch(Some(67), 10)),
            ("/batch/2/3/10", batch(Some(67), 10)),
            ("/worker/2/3/10", batch(Some(67), 10)),
            ("/batch/2/3/10/4", Err(404)),
            ("/1/2/3", Err(404)),
            ("/reverse/77", Ok(Asked::Fields { id: "77" })),
        ] {
            let expect = expect.map_err(|status| StatusCode::from_u16(status).unwrap());
            let found = Asked::read(path).map_err(|problem| problem.status());
            assert_eq!(found, expect, "{path}");
        }
    }

    #[test]
    fn dates_as_the_service_writes_them() {
        let check = |micros, expect: &str| assert_eq!(written(Moment::from_micros(micros)), expect);
        check(1_567_733_700_834_999, "2019-09-06T01:35:00:834+0000");
        check(1_567_733_700_004_000, "2019-09-06T01:35:00:004+0000");
    }
}
