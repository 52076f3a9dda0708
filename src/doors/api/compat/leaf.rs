//! The paths of Meituan Leaf, with its answers: an id as text, and the fields of an id. Errors are problems, as everywhere at this
//! door; Leaf answers all of them with 500.
//!
//! Sources: LeafController and LeafMonitorController of github.com/Meituan-Dianping/Leaf (leaf-server).

use std::num::NonZeroU64;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{self, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;

use crate::doors::api::answers::{InPath, json};
use crate::doors::api::login::LoggedIn;
use crate::doors::api::office::ApiOffice;
use crate::doors::api::problem::Problem;
use crate::doors::issuer::{Caller, Shape, shortened};
use crate::ids::layout::presets::Preset;
use crate::rules::model::GeneratorKind;

const SEGMENT: &str = "/api/segment/get/";
const SNOWFLAKE: &str = "/api/snowflake/get/";
const DECODE: &str = "/decodeSnowflakeId";

pub(super) fn has(path: &str) -> bool {
    path.starts_with(SEGMENT) || path.starts_with(SNOWFLAKE) || path == DECODE
}

pub(super) fn router() -> Router<Arc<ApiOffice>> {
    Router::new()
        .route(&format!("{SEGMENT}{{key}}"), get(segment).post(segment))
        .route(&format!("{SNOWFLAKE}{{key}}"), get(snowflake).post(snowflake))
        .route(DECODE, get(decode).post(decode))
        .fallback(no_path)
        .method_not_allowed_fallback(async |method: Method| Problem::only_get(&method))
}

async fn no_path(uri: Uri) -> Problem {
    let why = format!(
        "there is no {:?}; the paths of Leaf are {SEGMENT}{{key}}, {SNOWFLAKE}{{key}} and {DECODE}?snowflakeId=",
        shortened(uri.path())
    );
    Problem::new(StatusCode::NOT_FOUND, "no_path", why)
}

async fn segment(
    State(office): State<Arc<ApiOffice>>,
    LoggedIn(caller): LoggedIn,
    InPath(key): InPath<String>,
) -> Result<Response, Problem> {
    let is_sequence = |kind: &GeneratorKind| matches!(kind, GeneratorKind::Sequence(_));
    id(&office, &caller, &key, ("sequence", is_sequence)).await
}

async fn snowflake(
    State(office): State<Arc<ApiOffice>>,
    LoggedIn(caller): LoggedIn,
    InPath(key): InPath<String>,
) -> Result<Response, Problem> {
    let is_timestamp = |kind: &GeneratorKind| matches!(kind, GeneratorKind::Timestamp(_));
    id(&office, &caller, &key, ("timestamp generator", is_timestamp)).await
}

async fn id(
    office: &ApiOffice,
    caller: &Caller,
    key: &str,
    kind: (&'static str, fn(&GeneratorKind) -> bool),
) -> Result<Response, Problem> {
    let (issuer, one) = (&office.issuer, NonZeroU64::MIN);
    let name = issuer.called(caller, key, kind)?;
    let block = issuer.take(caller, &name, one, Shape::OneRun).await?;
    let text = HeaderValue::from_static("text/plain;charset=UTF-8");
    let no_store = HeaderValue::from_static("no-store");
    Ok(([(header::CONTENT_TYPE, text), (header::CACHE_CONTROL, no_store)], block.first().to_string())
        .into_response())
}

#[derive(Debug, Serialize, PartialEq)]
#[serde(untagged)]
enum Decoded {
    #[serde(rename_all = "camelCase")]
    Fields { timestamp: String, sequence_id: String, worker_id: String },
    #[serde(rename_all = "camelCase")]
    Error { error_msg: &'static str },
}

async fn decode(LoggedIn(_): LoggedIn, uri: Uri) -> Result<Response, Problem> {
    let query = uri.query().unwrap_or_default();
    let mut named = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "snowflakeId");
    match named.next() {
        Some((_, id)) => Ok(json(&decoded(&id))),
        None => Err(Problem::bad_request(format!("write the id into the query, {DECODE}?snowflakeId=7"))),
    }
}

/// Decodes the id by Leaf's own layout, as Leaf does. The time is in UTC; Leaf writes it in its machine's time zone.
fn decoded(id: &str) -> Decoded {
    let parts = || {
        let layout = Preset::find("leaf")?.layout();
        let parts = layout.decode(id.parse().ok()?).ok()?;
        let time = parts.time.to_string().replace('T', " ");
        Some(Decoded::Fields {
            timestamp: format!("{}({})", parts.time.micros() / 1000, time.trim_end_matches('Z')),
            sequence_id: parts.sequence?.to_string(),
            worker_id: parts.node?.to_string(),
        })
    };
    parts().unwrap_or(Decoded::Error { error_msg: "snowflakeId is not an id; write a whole number" })
}

#[cfg(test)]
mod tests {
    use super::decoded;

    /// The first is the example in Leaf's source, whose machine was in Shanghai.
    #[test]
    fn fields_as_leaf_tells_them() {
        let of_example =
            (((1_567_733_700_834_u64 - 1_288_834_974_657) << 22) + (39 << 12) + 3448).to_string();
        let wrong = r#"{"errorMsg":"snowflakeId is not an id; write a whole number"}"#;
        for (id, expect) in [
            (
                &*of_example,
                r#"{"timestamp":"1567733700834(2019-09-06 01:35:00.834)","sequenceId":"3448","workerId":"39"}"#,
            ),
            (
                "0",
                r#"{"timestamp":"1288834974657(2010-11-04 01:42:54.657)","sequenceId":"0","workerId":"0"}"#,
            ),
            ("", wrong),
            ("x", wrong),
            ("-1", wrong),
            ("9223372036854775808", wrong),
            ("1e3", wrong),
        ] {
            assert_eq!(serde_json::to_string(&decoded(id)).unwrap(), expect, "{id}");
        }
    }
}
