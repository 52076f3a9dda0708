//! Errors, as RFC 9457 has them: `application/problem+json`, with a `code` for programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::doors::issuer::Denied;
use crate::ids::TakeError;

/// Before a client without TLS has said anything: this is all that it gets.
pub(super) const NEEDS_TLS: &str = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/problem+json\r\ncontent-length: 125\r\ncache-control: no-store\r\n\
     connection: close\r\n\r\n\
     {\"title\":\"Forbidden\",\"status\":403,\"code\":\"needs_tls\",\"detail\":\"this port needs TLS (api.tls.mode = \\\"required\\\"); use https\"}";

/// After so long a client may ask again for what cannot be had now.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// An error, and the remedy.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    /// When it may be different.
    retry_after: Option<Duration>,
    /// Which logins there are, of a client that has to log in.
    challenge: Option<&'static str>,
    /// The URL at which the request is answered.
    location: Option<String>,
    /// The connection is of no more use.
    closes: bool,
}

/// An error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemBody<'a> {
    /// What the status is called.
    #[schema(example = "Forbidden")]
    pub(super) title: &'a str,
    #[schema(example = 403)]
    pub(super) status: u16,
    /// For programs: which error it is.
    #[schema(example = "no_right")]
    pub(super) code: &'a str,
    /// For people: what is wrong, and what to do about it.
    #[schema(example = "user labels has no TAKE right on generator \"shop.orders\"")]
    pub(super) detail: &'a str,
}

impl Problem {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Problem {
        let (retry_after, challenge, location) = (None, None, None);
        Problem { status, code, detail: detail.into(), retry_after, challenge, location, closes: false }
    }

    pub(super) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    /// Another method was used.
    pub(super) fn only_get(method: &Method) -> Problem {
        let why = format!("there is no {method} here; use GET");
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_method", why)
    }

    /// A problem that is likely to pass soon.
    pub(super) fn unavailable(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(TRY_AGAIN)
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn retry_after(self, wait: Duration) -> Problem {
        Problem { retry_after: Some(wait), ..self }
    }

    pub(super) fn challenged_by(self, challenge: &'static str) -> Problem {
        Problem { challenge: Some(challenge), ..self }
    }

    pub(super) fn located(self, url: String) -> Problem {
        Problem { location: Some(url), ..self }
    }

    pub(super) fn closes(self) -> Problem {
        Problem { closes: true, ..self }
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        let (status, code, retry_after) = match &denied {
            Denied::NoRight { .. } => (StatusCode::FORBIDDEN, "no_right", None),
            Denied::OverQuota(over) => match over.wait() {
                Some(wait) => (StatusCode::TOO_MANY_REQUESTS, "over_quota", Some(wait)),
                None => (StatusCode::BAD_REQUEST, "too_many", None),
            },
            Denied::Unknown { .. } | Denied::NoneCalled { .. } => {
                (StatusCode::NOT_FOUND, "no_generator", None)
            }
            Denied::SeveralCalled { .. } => (StatusCode::BAD_REQUEST, "several_generators", None),
            Denied::NoNodes { .. } | Denied::NoNode { .. } => (StatusCode::BAD_REQUEST, "bad_worker", None),
            Denied::OtherNode { .. } => (StatusCode::MISDIRECTED_REQUEST, "other_worker", None),
            Denied::Count { .. } => (StatusCode::BAD_REQUEST, "bad_count", None),
            Denied::OneRun { .. } | Denied::Runs { .. } | Denied::NoIds(TakeError::TooMany { .. }) => {
                (StatusCode::BAD_REQUEST, "too_many", None)
            }
            Denied::Shadow { .. } => (StatusCode::SERVICE_UNAVAILABLE, "shadow", None),
            Denied::NoIds(TakeError::Paused { .. }) => (StatusCode::SERVICE_UNAVAILABLE, "paused", None),
            Denied::NoIds(error) if error.is_outage() => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", Some(TRY_AGAIN))
            }
            Denied::NoIds(_) => (StatusCode::SERVICE_UNAVAILABLE, "exhausted", None),
            Denied::NoNumber { .. } => (StatusCode::BAD_REQUEST, "bad_id", None),
            Denied::NoFields { .. } => (StatusCode::NOT_FOUND, "no_fields", None),
            Denied::NotOfGenerator { .. } => (StatusCode::NOT_FOUND, "no_such_id", None),
        };
        Problem { retry_after, ..Problem::new(status, code, denied.to_string()) }
    }
}

/// The error statuses in the OpenAPI document, for any of the paths.
const STATUSES: [(&str, &str, bool); 8] = [
    ("400", "The request is wrong: `bad_request`, `bad_count`, `too_many`, `bad_id`", false),
    ("401", "Who asks is not known: `no_login`, `wrong_login`, `needs_tls`", false),
    ("403", "The user has not got the right: `no_right`; or the port needs TLS: `needs_tls`", false),
    ("404", "There is no such thing: `no_generator`, `no_such_id`, `no_fields`, `no_path`", false),
    ("413", "The body is too long: `too_large`", false),
    ("415", "The body is not JSON: `no_json`", false),
    ("429", "Too much at once: `over_quota`, and `slow_down` after a wrong password", true),
    (
        "503",
        "There are no ids: `unavailable`, for now; `exhausted`, `paused`, `shadow`, until somebody changes it",
        true,
    ),
];

impl IntoResponses for Problem {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let response = |(status, description, has_wait): (&str, &str, bool)| {
            let schema = Ref::from_schema_name(ProblemBody::name());
            let content = ContentBuilder::new().schema(Some(schema)).build();
            let mut response =
                ResponseBuilder::new().description(description).content("application/problem+json", content);
            if has_wait {
                let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
                let header = HeaderBuilder::new()
                    .schema(Some(seconds))
                    .description(Some("Seconds until it makes sense to try again"))
                    .build();
                response = response.header("Retry-After", header);
            }
            (status.to_owned(), response.build().into())
        };
        STATUSES.into_iter().map(response).collect()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Strings and a number are always written.
        self.told("application/problem+json", |body| serde_json::to_string(body).unwrap_or_default() + "\n")
    }
}

impl Problem {
    /// The answer, in a form of `kind`.
    pub(super) fn told(self, kind: &'static str, body: impl FnOnce(&ProblemBody<'_>) -> String) -> Response {
        let Problem { status, code, detail, retry_after, challenge, location, closes } = self;
        let title = status.canonical_reason().unwrap_or_default();
        let body = body(&ProblemBody { title, status: status.as_u16(), code, detail: &detail });
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = retry_after {
            // Whole seconds, rounded up.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(location) = location.and_then(|location| HeaderValue::from_str(&location).ok()) {
            headers.insert(header::LOCATION, location);
        }
        if closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        (status, headers, body).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::{NEEDS_TLS, Problem};
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use std::time::Duration;

    #[test]
    fn what_a_plain_client_gets_is_as_long_as_it_says() {
        let (head, body) = NEEDS_TLS.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{}", body.len());
        let read: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(read["status"], 403);
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (millis, seconds) in [(1, "1"), (1000, "1"), (1001, "2"), (0, "0")] {
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "over_quota", "x");
            let answer = problem.retry_after(Duration::from_millis(millis)).into_response();
            assert_eq!(answer.headers()["retry-after"], seconds, "{millis}");
        }
    }
}
