//! The checks of every request, and the headers of every answer.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::address::Address;

const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Scripts and styles come from here alone, nothing is embedded anywhere, and nothing is kept in a
/// cache.
const SECURITY: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Which `Host` a request may name. This is against DNS rebinding: a foreign page, whose name was
/// made to resolve to 127.0.0.1, could read what is shown here through a DBA's browser. Its
/// requests have that name as their `Host`. On an address that the network reaches anybody may ask
/// anyway, and under names that nobody can list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hosts {
    Any,
    /// Addresses, and names that mean this machine wherever they are resolved.
    Local,
}

impl Hosts {
    pub(super) fn of(address: &Address) -> Hosts {
        match address {
            Address::Tcp { host, .. } if is_local_name(host) => Hosts::Local,
            Address::Tcp { host, .. } if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) => {
                Hosts::Local
            }
            Address::Tcp { .. } | Address::Unix(_) => Hosts::Any,
        }
    }

    fn allow(self, headers: &HeaderMap) -> bool {
        let Some(host) = headers.get(header::HOST) else { return true };
        self == Hosts::Any || host.to_str().is_ok_and(|host| is_name_or_address(without_port(host)))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_name_or_address(host: &str) -> bool {
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_address = match v6 {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<IpAddr>().is_ok(),
    };
    is_address || is_local_name(host)
}

/// RFC 6761, 6.3: names that no resolver looks up elsewhere.
fn is_local_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

pub(super) async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = match refusal(hosts, &request) {
        Some(refusal) => refusal,
        None => tokio::time::timeout(REQUEST_DEADLINE, next.run(request)).await.unwrap_or_else(|_| {
            let why = format!("the proxy did not answer within {REQUEST_DEADLINE:?}; try again");
            text(StatusCode::SERVICE_UNAVAILABLE, &why)
        }),
    };
    for (name, value) in SECURITY {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refusal(hosts: Hosts, request: &Request) -> Option<Response> {
    let headers = request.headers();
    if !hosts.allow(headers) {
        let why =
            "http.address is a loopback address: name an IP address or localhost as the host of the request";
        return Some(text(StatusCode::MISDIRECTED_REQUEST, why));
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response =
            text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only: a request changes nothing here");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    let length = headers.get(header::CONTENT_LENGTH);
    let has_body =
        length.is_some_and(|length| length != "0") || headers.contains_key(header::TRANSFER_ENCODING);
    has_body.then(|| text(StatusCode::PAYLOAD_TOO_LARGE, "a request must have no body"))
}

pub(super) fn text(status: StatusCode, text: &str) -> Response {
    (status, format!("{text}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::{HeaderMap, HeaderValue, Hosts, header};
    use crate::address::Address;

    #[track_caller]
    fn check(address: &str, host: &str, expect: bool) {
        let address: Address = address.parse().unwrap();
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
        assert_eq!(Hosts::of(&address).allow(&headers), expect, "{address} {host}");
        assert!(Hosts::of(&address).allow(&HeaderMap::new()), "HTTP/1.0 names no host");
    }

    #[test]
    fn a_loopback_address_is_asked_for_by_name_of_this_machine() {
        for local in ["127.0.0.1:3309", "127.0.1.1:3309", "[::1]:3309", "localhost:3309"] {
            for host in [
                "127.0.0.1:3309",
                "localhost:3309",
                "LOCALHOST",
                "a.localhost:1",
                "[::1]:3309",
                "localhost.",
                "10.0.0.5",
            ] {
                check(local, host, true);
            }
            for host in [
                "evil.example",
                "evil.example:3309",
                "localhost.evil.example",
                "127.0.0.1.evil.example",
                "",
                "[evil]:1",
            ] {
                check(local, host, false);
            }
        }
        for open in ["0.0.0.0:3309", "10.0.0.5:3309", "db1.example:3309", "unix:/run/x.sock"] {
            check(open, "db1.example:3309", true);
        }
    }
}
