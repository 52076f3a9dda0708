//! The number of ids that a request asks for: `{"count": 10}`, or one id where it has no body.

use std::fmt::Display;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use axum::http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use serde::Deserialize;
use serde_json::Number;
use utoipa::ToSchema;

use super::problem::Problem;
use crate::doors::issuer::IDS_MAX;

/// A body of some 20 bytes is enough.
const BODY_BYTES_MAX: usize = 4096;

/// A request for ids.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(super) struct Wanted {
    /// How many ids, 1 to 10,000,000.
    #[schema(value_type = u64, default = 1, minimum = 1, maximum = 10_000_000, example = 10)]
    #[serde(default = "one")]
    count: Number,
}

fn one() -> Number {
    1.into()
}

impl Wanted {
    pub(super) fn count(&self) -> Result<i64, Problem> {
        // To JSON Schema 10.0 is an integer too; it is written as 10 then.
        let whole = || self.count.as_f64()?.to_string().parse().ok();
        self.count.as_i64().or_else(whole).ok_or_else(|| {
            let why = format!("{} is not a number of ids; ask for 1 to {IDS_MAX}", self.count);
            Problem::new(StatusCode::BAD_REQUEST, "bad_count", why)
        })
    }

    pub(super) fn of(head: &Parts, body: &[u8]) -> Result<Wanted, Problem> {
        if head.uri.query().is_some() {
            return Err(Problem::bad_request(
                "the path has no query; write how many ids into the body, {\"count\": 10}",
            ));
        }
        if body.is_empty() {
            return Ok(Wanted { count: one() });
        }
        if !is_json(&head.headers) {
            let why = "the body must be JSON, with the header Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "no_json", why));
        }
        match body.trim_ascii() {
            // The OpenAPI document says so: a body that may be left out may be null.
            b"null" => Ok(Wanted { count: one() }),
            // serde would read a list of its fields, too.
            [b'[', ..] => Err(bad_body(&"it is a list")),
            body => serde_json::from_slice(body).map_err(|error| bad_body(&error)),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Wanted {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Wanted, Problem> {
        let (head, body) = request.into_parts();
        let body = Bytes::from_request(Request::new(body), state).await.map_err(|error| bad_body(&error))?;
        Wanted::of(&head, &body)
    }
}

fn bad_body(error: &dyn Display) -> Problem {
    Problem::bad_request(format!("the body must be like {{\"count\": 10}}: {error}"))
}

/// The whole body of a request.
pub(super) async fn read(body: Incoming) -> Result<Bytes, Problem> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let too_large = || {
        let why = format!("the body may have {BODY_BYTES_MAX} bytes; send no more than {{\"count\": 10}}");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why).closes()
    };
    // By its Content-Length: then none of it is read.
    if usize::try_from(body.size_hint().lower()).is_ok_and(|length| length <= BODY_BYTES_MAX) {
        match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(read) => Ok(read.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(error) => Err(Problem::bad_request(format!("the body cannot be read: {error}")).closes()),
        }
    } else {
        Err(too_large())
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.and_then(|kind| kind.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
