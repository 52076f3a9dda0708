//! The login of a request, by its `Authorization`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::request::Parts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::office::ApiOffice;
use super::problem::Problem;
use crate::address::lobby::Place;
use crate::doors::issuer::Caller;
use crate::doors::meter::Seat;
use crate::users::throttle::Tried;
use crate::users::{Login, Roster, without_tokens};

const TOKENS: &str = "Bearer realm=\"rowstamp\"";
const TOKENS_AND_PASSWORDS: &str = "Bearer realm=\"rowstamp\", Basic realm=\"rowstamp\", charset=\"UTF-8\"";

/// The most characters of a name that a client wrote, in the log.
const SHOWN_CHARS_MAX: usize = 64;

/// The client of one connection.
pub(super) struct Visitor {
    pub(super) office: Arc<ApiOffice>,
    /// `None`: over a Unix socket.
    from: Option<IpAddr>,
    /// `from` as text, for the log and the audit.
    client: Arc<str>,
    is_tls: bool,
    id: u64,
    /// The most clients that are there and have logged in.
    most: u64,
    standing: Mutex<Standing>,
    /// The login of the last request that was let in: a request with the same header is let in again.
    known: Mutex<Option<LetIn>>,
    is_served: AtomicBool,
}

/// A client since a request that was logged in. `heard`: when the last of these came.
enum Standing {
    Stranger { _place: Place },
    Client { _seat: Seat, heard: Instant },
}

struct LetIn {
    /// The SHA-256 of its `Authorization`.
    sha256: [u8; 32],
    login: Login,
    /// The users by which the login was checked last.
    roster: Arc<Roster>,
}

impl Visitor {
    pub(super) fn new(
        office: Arc<ApiOffice>,
        (from, is_tls): (Option<IpAddr>, bool),
        id: u64,
        (most, place): (u64, Place),
    ) -> Visitor {
        let (standing, known) = (Mutex::new(Standing::Stranger { _place: place }), Mutex::new(None));
        let client = from.map(|from| from.to_string()).unwrap_or_default().into();
        Visitor { office, from, client, is_tls, id, most, standing, known, is_served: AtomicBool::new(false) }
    }

    /// When the last request came that was logged in. `None`: there was none.
    pub(super) fn heard(&self) -> Option<Instant> {
        match *self.standing.lock() {
            Standing::Stranger { .. } => None,
            Standing::Client { heard, .. } => Some(heard),
        }
    }

    /// A request of it is under way.
    pub(super) fn is_served(&self, is_served: bool) {
        self.is_served.store(is_served, Ordering::Relaxed);
    }

    pub(super) fn is_being_served(&self) -> bool {
        self.is_served.load(Ordering::Relaxed)
    }

    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    fn may_send_passwords(&self) -> bool {
        may_send_passwords(self.is_tls, self.from)
    }

    fn challenge(&self) -> &'static str {
        if self.may_send_passwords() { TOKENS_AND_PASSWORDS } else { TOKENS }
    }

    /// The user who sends a request with these headers.
    pub(super) async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let login = self.log_in(headers).await?;
        self.take_seat()?;
        Ok(Caller { login, client: self.client.clone(), connection: self.id })
    }

    fn not_logged_in(&self, code: &'static str, detail: &'static str) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, code, detail).challenged_by(self.challenge())
    }

    async fn log_in(&self, headers: &HeaderMap) -> Result<Login, Problem> {
        let mut all = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (all.next(), all.next()) else {
            return Err(self.not_logged_in(
                "no_login",
                "the request must have one header Authorization: Bearer with a token, or Basic with a user and a password",
            ));
        };
        let (roster, sha256) = (self.office.issuer.users.roster(), Sha256::digest(value).into());
        if let Some(login) = self.known_login(&sha256, &roster) {
            return Ok(login);
        }
        let login = self.new_login(value).await?;
        *self.known.lock() = Some(LetIn { sha256, login: login.clone(), roster });
        Ok(login)
    }

    /// Without the throttle: wrong passwords of others must not end what works.
    fn known_login(&self, sha256: &[u8; 32], roster: &Arc<Roster>) -> Option<Login> {
        let mut known = self.known.lock();
        let same = known.as_mut().filter(|known| bool::from(known.sha256.ct_eq(sha256)))?;
        if !Arc::ptr_eq(&same.roster, roster) {
            let Some(login) = same.login.as_of(roster) else {
                *known = None;
                return None;
            };
            (same.login, same.roster) = (login, roster.clone());
        }
        Some(same.login.clone())
    }

    async fn new_login(&self, value: &HeaderValue) -> Result<Login, Problem> {
        let issuer = &self.office.issuer;
        let given =
            given(value, self.may_send_passwords()).map_err(|(code, why)| self.not_logged_in(code, why))?;
        let verdict = match &given {
            Given::Token(token) => issuer.users.log_in_by_token(token),
            Given::Password(name, password) => {
                issuer.users.log_in(&self.office.throttle, self.from, name, password).await
            }
        };
        match verdict {
            Tried::Right(login) => Ok(login),
            Tried::Wrong => {
                issuer.meter.note_login_refused();
                let client = &*self.client;
                let why = match given {
                    Given::Token(_) => {
                        self.office.tell_of_wrong_token(client);
                        "no user has this token: it was dropped, has expired, or never was"
                    }
                    Given::Password(name, _) => {
                        let name = without_tokens(&String::from_utf8_lossy(&name));
                        let user: String = name.chars().take(SHOWN_CHARS_MAX).collect();
                        tracing::warn!(user, client, "a client of the HTTP API gave a wrong password");
                        "there is no such user, or the password is wrong"
                    }
                };
                Err(self.not_logged_in("wrong_login", why))
            }
            Tried::Wait(left) => {
                issuer.meter.note_login_refused();
                let why = "a wrong password came before, for this user or from this address; this one was not looked at: try again later";
                Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "slow_down", why).retry_after(left))
            }
            Tried::Unsure => Err(Problem::unavailable(
                "the users of the store are not known at present, since the store does not answer",
            )),
        }
    }

    /// From here on it is one of those who have logged in.
    fn take_seat(&self) -> Result<(), Problem> {
        let mut standing = self.standing.lock();
        match &mut *standing {
            Standing::Client { heard, .. } => *heard = Instant::now(),
            Standing::Stranger { .. } => {
                let Some(seat) = self.office.issuer.meter.seat(self.most) else {
                    let why = "as many clients are connected as limits.connections allows; try again later";
                    return Err(Problem::unavailable(why).closes());
                };
                *standing = Standing::Client { _seat: seat, heard: Instant::now() };
            }
        }
        Ok(())
    }
}

/// Others on the way cannot read what is sent. `from` is no IPv4 address written as IPv6.
fn may_send_passwords(is_tls: bool, from: Option<IpAddr>) -> bool {
    is_tls || from.is_none_or(|from| from.is_loopback())
}

/// The secret that a request logs in with.
#[derive(PartialEq)]
#[cfg_attr(test, derive(Debug))]
enum Given {
    Token(Zeroizing<Vec<u8>>),
    Password(Vec<u8>, Zeroizing<Vec<u8>>),
}

/// Else the code and the text of the error.
fn given(value: &HeaderValue, may_send_passwords: bool) -> Result<Given, (&'static str, &'static str)> {
    let (scheme, credentials) = split(value);
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(Given::Token(credentials.to_vec().into()));
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return Err((
            "no_login",
            "the scheme of Authorization must be Bearer, with a token, or Basic, with a user and a password",
        ));
    }
    if !may_send_passwords {
        return Err((
            "needs_tls",
            "a password needs TLS (https), or a loopback address; use one of them, or a token",
        ));
    }
    let decoded = STANDARD.decode(credentials).ok().map(Zeroizing::new);
    let pair = decoded.as_ref().and_then(|pair| {
        let colon = pair.iter().position(|byte| *byte == b':')?;
        Some((pair.get(..colon)?, pair.get(colon + 1..)?))
    });
    let Some((user, password)) = pair else {
        return Err(("no_login", "what follows Basic is not the base64 of user:password"));
    };
    Ok(Given::Password(user.to_vec(), password.to_vec().into()))
}

/// The scheme, and what follows it.
fn split(value: &HeaderValue) -> (&[u8], &[u8]) {
    let value = value.as_bytes();
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at_checked(end).unwrap_or((value, b""));
    (scheme, rest.trim_ascii())
}

/// The user who has sent the request.
pub(super) struct LoggedIn(pub(super) Caller);

impl<S: Sync> FromRequestParts<S> for LoggedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<LoggedIn, Problem> {
        let visitor = parts.extensions.get::<Arc<Visitor>>().cloned();
        let Some(visitor) = visitor else {
            return Err(Problem::unavailable("the connection of the request is not known"));
        };
        Ok(LoggedIn(visitor.caller(&parts.headers).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::{Given, given, may_send_passwords};
    use axum::http::header::HeaderValue;

    #[test]
    fn where_a_password_may_be_sent() {
        for (is_tls, from, expect) in [
            (false, None, true),
            (false, Some("127.0.0.1"), true),
            (false, Some("127.9.0.1"), true),
            (false, Some("::1"), true),
            (false, Some("10.0.0.7"), false),
            (false, Some("fe80::1"), false),
            (true, Some("10.0.0.7"), true),
        ] {
            let address = from.map(|from| from.parse().unwrap());
            assert_eq!(may_send_passwords(is_tls, address), expect, "{is_tls} {from:?}");
        }
    }

    #[test]
    fn what_a_request_logs_in_with() {
        let password =
            |user: &[u8], password: &[u8]| Ok(Given::Password(user.into(), password.to_vec().into()));
        let token = |token: &[u8]| Ok(Given::Token(token.to_vec().into()));
        for (value, may_send_passwords, expect) in [
            ("Bearer rst_x", false, token(b"rst_x")),
            ("bEARER   rst_x ", true, token(b"rst_x")),
            ("Bearer", true, token(b"")),
            ("Basic YXBwOnMzY3JldA==", true, password(b"app", b"s3cret")),
            ("basic YXBwOnMzOmNyOmV0", true, password(b"app", b"s3:cr:et")),
            ("Basic Og==", true, password(b"", b"")),
            ("Basic YXBwOnMzY3JldA==", false, Err("needs_tls")),
            ("Basic YXBw", true, Err("no_login")),
            ("Basic YXBwOnMzY3JldA", true, Err("no_login")),
            ("Basic *", true, Err("no_login")),
            ("Basic", true, Err("no_login")),
            ("Digest username=app", true, Err("no_login")),
            ("", true, Err("no_login")),
        ] {
            let header = HeaderValue::from_static(value);
            let found = given(&header, may_send_passwords).map_err(|(code, _)| code);
            assert_eq!(found, expect, "{value:?}");
        }
    }
}
