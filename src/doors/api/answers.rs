//! The answers of the paths. The OpenAPI document is made from here.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::http::Method;
use axum::http::header::{self, HeaderValue};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::doors::api::login::{LoggedIn, Visitor};
use crate::doors::api::office::ApiOffice;
use crate::doors::api::problem::Problem;
use crate::doors::api::wanted::Wanted;
use crate::doors::issuer::{Caller, Issuer, Shape};
use crate::ids::block::IdBlock;
use crate::ids::layout::Parts as Fields;
use crate::rules::model::{GeneratorKind, GeneratorSpec};

/// Ids, which nobody else gets. They are strings, since programs that read JSON numbers as floating-point numbers would round the
/// large ones.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum Taken {
    /// They follow each other.
    Run {
        #[schema(example = "1001")]
        first: String,
        /// How many ids.
        #[schema(example = 10)]
        count: u64,
        /// From one to the next.
        #[schema(example = 1)]
        step: u64,
    },
    /// They do not: a timestamp generator gives them in several runs.
    List {
        /// Ascending.
        ids: Vec<String>,
    },
}

impl Taken {
    fn new(block: &IdBlock) -> Taken {
        let (first, count, step) = (block.first(), block.count(), block.spacing().step.get());
        if block.spacing().ticks.is_none_or(|ticks| count <= ticks.ids.get()) {
            return Taken::Run { first: first.to_string(), count, step };
        }
        Taken::List { ids: (0..count).filter_map(|nth| block.nth(nth)).map(|id| id.to_string()).collect() }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Generators {
    generators: Vec<GeneratorAnswer>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Generator)]
pub(super) struct GeneratorAnswer {
    #[schema(example = "shop.orders")]
    name: String,
    kind: Kind,
    /// From one id to the next, of ids that are given at once.
    #[schema(example = 1)]
    step: u64,
    /// The highest id that this proxy has given without an INSERT since it started.
    #[schema(example = "1010")]
    last: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Sequence,
    Timestamp,
}

impl GeneratorAnswer {
    fn new(issuer: &Issuer, caller: &Caller, spec: &GeneratorSpec) -> Result<GeneratorAnswer, Problem> {
        let name = spec.name.to_string();
        let last = issuer.last(caller, &name)?.map(|id| id.to_string());
        let kind = match &spec.kind {
            GeneratorKind::Sequence(_) => Kind::Sequence,
            GeneratorKind::Timestamp(_) => Kind::Timestamp,
        };
        Ok(GeneratorAnswer { name, kind, step: spec.kind.spacing().step.get(), last })
    }
}

/// The fields of an id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Decoded {
    #[schema(example = "2052204537692160000")]
    id: String,
    /// When the tick of the id began.
    #[schema(example = "2026-05-07T09:12:01.317Z", format = DateTime)]
    time: String,
    /// Which proxy made it.
    #[schema(example = 3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<u64>,
    /// Which of the tick's ids it is.
    #[schema(example = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
}

/// Draw ids
#[utoipa::path(
    post,
    path = "/v1/generators/{g}/ids",
    operation_id = "drawIds",
    params(("g" = String, Path, description = "The generator, as `schema.name`", example = "shop.orders")),
    request_body(content = Option<Wanted>, description = "How many ids. Without a body: one"),
    responses(
        (status = 200, description = "The ids", body = Taken),
        Problem,
    )
)]
pub(super) async fn draw(
    State(office): State<Arc<ApiOffice>>,
    LoggedIn(caller): LoggedIn,
    InPath(name): InPath<String>,
    wanted: Wanted,
) -> Result<Response, Problem> {
    drawn(&office.issuer, &caller, &name, &wanted).await
}

/// The generator that a request draws from, where its path names it as it is. `None`: the router decides.
pub(super) fn draws_of(head: &Parts) -> Option<&str> {
    let name = head.uri.path().strip_prefix("/v1/generators/")?.strip_suffix("/ids")?;
    (head.method == Method::POST && !name.is_empty() && !name.contains(['/', '%'])).then_some(name)
}

/// Answers like [`draw`], for a request that [`draws_of`] has found. The router takes a tenth of the time of such a
/// request.
pub(super) async fn draw_at_once(
    visitor: &Visitor,
    head: &Parts,
    name: &str,
    body: &[u8],
) -> Result<Response, Problem> {
    let caller = visitor.caller(&head.headers).await?;
    drawn(&visitor.office.issuer, &caller, name, &Wanted::of(head, body)?).await
}

async fn drawn(issuer: &Issuer, caller: &Caller, name: &str, wanted: &Wanted) -> Result<Response, Problem> {
    let n = issuer.count(wanted.count()?)?;
    Ok(json(&Taken::new(&issuer.take(caller, name, n, Shape::List).await?)))
}

/// List the generators that the user may look at
#[utoipa::path(
    get,
    path = "/v1/generators",
    operation_id = "listGenerators",
    responses(
        (status = 200, description = "The generators, by name", body = Generators),
        Problem,
    )
)]
pub(super) async fn list(
    State(office): State<Arc<ApiOffice>>,
    LoggedIn(caller): LoggedIn,
) -> Result<Response, Problem> {
    let issuer = &office.issuer;
    let specs = issuer.generators(&caller);
    let generators: Result<_, _> =
        specs.iter().map(|spec| GeneratorAnswer::new(issuer, &caller, spec)).collect();
    Ok(json(&Generators { generators: generators? }))
}

/// Look at a generator
#[utoipa::path(
    get,
    path = "/v1/generators/{g}",
    operation_id = "getGenerator",
    params(("g" = String, Path, description = "The generator, as `schema.name`", example = "shop.orders")),
    responses(
        (status = 200, description = "The generator", body = GeneratorAnswer),
        Problem,
    )
)]
pub(super) async fn look(
    State(office): State<Arc<ApiOffice>>,
    LoggedIn(caller): LoggedIn,
    InPath(name): InPath<String>,
) -> Result<Response, Problem> {
    let issuer = &office.issuer;
    let spec = issuer.generator(&caller, &name)?;
    Ok(json(&GeneratorAnswer::new(issuer, &caller, &spec)?))
}

/// Read the fields of a timestamp id
#[utoipa::path(
    get,
    path = "/v1/generators/{g}/ids/{id}",
    operation_id = "decodeId",
    params(
        ("g" = String, Path, description = "The generator, as `schema.name`", example = "shop.events"),
        ("id" = String, Path, description = "The id", pattern = "^[0-9]{1,19}$", example = "2052204537692160000"),
    ),
    responses(
        (status = 200, description = "The fields", body = Decoded),
        Problem,
    )
)]
pub(super) async fn decode(
    State(office): State<Arc<ApiOffice>>,
    LoggedIn(caller): LoggedIn,
    InPath((name, id)): InPath<(String, String)>,
) -> Result<Response, Problem> {
    let Fields { time, node, sequence, .. } = office.issuer.decode(&caller, &name, id.as_bytes())?;
    // The id in its usual spelling.
    let id = id.parse().map_or(id, |id: u64| id.to_string());
    Ok(json(&Decoded { id, time: time.to_string(), node, sequence }))
}

/// Read this document
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    operation_id = "getDocument",
    security(()),
    responses((status = 200, description = "The OpenAPI document of this API. It needs no login", content_type = "application/json"))
)]
pub(super) async fn document(State(office): State<Arc<ApiOffice>>) -> Response {
    body(office.document.clone())
}

pub(super) fn json(answer: &impl Serialize) -> Response {
    match serde_json::to_string(answer) {
        Ok(text) => body(text + "\n"),
        Err(error) => Problem::unavailable(format!("the answer cannot be written: {error}")).into_response(),
    }
}

fn body(json: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    let no_store = HeaderValue::from_static("no-store");
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, no_store)];
    (headers, Body::new(Pieces(json.into()))).into_response()
}

/// The values that the path has.
pub(super) struct InPath<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<InPath<T>, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(InPath(named)),
            Err(rejection) => Err(Problem::bad_request(rejection.body_text())),
        }
    }
}

/// hyper copies a piece into the buffer of its connection, and never makes that smaller.
const PIECE_BYTES: usize = 8 << 10;

/// A body that is given to hyper in pieces, so that a connection does not keep the memory of a long answer.
struct Pieces(Bytes);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.0.len().min(PIECE_BYTES);
        let piece = self.0.split_to(bytes);
        Poll::Ready((bytes > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.0.len()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::{Taken, draws_of};
    use crate::ids::block::{IdBlock, Spacing, Ticks};
    use axum::http::Request;
    use std::num::NonZeroU64;

    #[test]
    fn which_requests_need_no_router() {
        for (method, uri, expect) in [
            ("POST", "/v1/generators/shop.orders/ids", Some("shop.orders")),
            ("POST", "/v1/generators/shop.orders/ids?count=3", Some("shop.orders")),
            ("POST", "http://ids.example/v1/generators/shop.orders/ids", Some("shop.orders")),
            ("POST", "/v1/generators/a+b/ids", Some("a+b")),
            ("GET", "/v1/generators/shop.orders/ids", None),
            ("HEAD", "/v1/generators/shop.orders/ids", None),
            ("OPTIONS", "*", None),
            ("POST", "/v1/generators//ids", None),
            ("POST", "/v1/generators/ids", None),
            ("POST", "/v1/generators/a/b/ids", None),
            ("POST", "/v1/generators/a/ids/", None),
            ("POST", "/v1/generators/a/ids/7", None),
            ("POST", "/v1/generators/shop%2Eorders/ids", None),
            ("POST", "/V1/generators/a/ids", None),
        ] {
            let (head, ()) = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
            assert_eq!(draws_of(&head), expect, "{method} {uri}");
        }
    }

    #[test]
    fn ids_are_strings_and_runs_are_short() {
        let n = |n| NonZeroU64::new(n).unwrap();
        let ticks = Ticks { ids: n(2), distance: n(100) };
        let (run, ticks) = (Spacing::by(n(3)), Spacing { step: n(1), ticks: Some(ticks) });
        for (spacing, count, expect) in [
            (run, 5, r#"{"first":"9007199254740993","count":5,"step":3}"#),
            (ticks, 2, r#"{"first":"9007199254740993","count":2,"step":1}"#),
            (ticks, 3, r#"{"ids":["9007199254740993","9007199254740994","9007199254741093"]}"#),
        ] {
            let block = IdBlock::new(9_007_199_254_740_993, spacing, n(count)).unwrap();
            assert_eq!(serde_json::to_string(&Taken::new(&block)).unwrap(), expect);
        }
    }
}
