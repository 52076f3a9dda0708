//! The login, before opensrv-mysql gets the connection. The library knows one plugin, sends no fast-authentication packet, and does no
//! TLS with our version of rustls.
//!
//! The greeting names caching_sha2_password. A client that answers with mysql_native_password, or with a plugin that is not known here, is
//! asked again with one that it has (an auth switch). A client that is too old for that has answered by mysql_native_password. Sources:
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_auth_switch_request.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>.

use std::net::IpAddr;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::OsRng;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::address::socket::Stream;
use crate::admin::console::SERVER_VERSION;
use crate::admin::console::protocol::scramble::{NONCE_BYTES, Plugin};
use crate::admin::console::protocol::wire::{PAYLOAD_BYTES_MAX, Wire, WireError};
use crate::admin::desk::Desk;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::mysql::handshake::{ClientResponse, client_capabilities, is_ssl_request};
use crate::mysql::reader::Malformed;
use crate::users::throttle::{Throttle, Tried};
use crate::users::{Directory, Login, without_tokens};

/// The console's capabilities. No compression, no several statements in one, no session tracking, no query attributes.
const OFFERED: Capabilities = Capabilities::CLIENT_MYSQL
    .union(Capabilities::FOUND_ROWS)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC)
    .union(Capabilities::DEPRECATE_EOF);
/// utf8mb4_general_ci
const COLLATION: u8 = 45;
/// SERVER_STATUS_AUTOCOMMIT
const STATUS: u16 = 2;
/// fast_auth_success of caching_sha2_password: no more of an exchange is needed.
const FAST_AUTH_DONE: &[u8] = &[1, 3];
/// perform_full_authentication of caching_sha2_password: the client sends its password, where nobody on the way can read it.
const FULL_AUTH: &[u8] = &[1, 4];

/// TLS towards clients, as `listen.tls` has it for applications.
#[derive(Clone, Default)]
pub struct Tls {
    pub acceptor: Option<TlsAcceptor>,
    pub is_required: bool,
}

/// Logs clients in: what all logins have in common.
pub(crate) struct Authenticator {
    pub(crate) desk: Arc<dyn Desk>,
    pub(crate) users: Arc<Directory>,
    pub(crate) throttle: Arc<Throttle>,
}

pub(crate) struct LoggedIn {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) login: Login,
    pub(crate) database: Option<String>,
    pub(crate) capabilities: Capabilities,
    pub(crate) is_tls: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    #[error("{0}")]
    Wire(#[from] WireError),
    /// The client gets this error.
    #[error("{0}")]
    Refused(Refusal),
    #[error("wrong password or unknown user {user:?}")]
    Wrong { user: String, refusal: Refusal },
    #[error("user {user:?} must wait after wrong passwords")]
    Waits { user: String, refusal: Refusal },
    #[error("user {user:?} is not known at present: the store does not answer")]
    Unsure { user: String, refusal: Refusal },
    #[error("the TLS handshake failed: {0}")]
    Tls(std::io::Error),
}

impl From<Malformed> for LoginError {
    fn from(malformed: Malformed) -> Self {
        LoginError::Refused(Refusal::BadHandshake(malformed.to_string()))
    }
}

impl LoginError {
    /// The error for the client. `None`: there is nobody to read it.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        Some(match self {
            LoginError::Wire(WireError::Io(_)) | LoginError::Tls(_) => return None,
            LoginError::Wire(WireError::TooBig(_)) => Refusal::FixedLimit(PAYLOAD_BYTES_MAX),
            LoginError::Wire(WireError::OutOfOrder { .. }) => Refusal::PacketsOutOfOrder,
            LoginError::Refused(refusal)
            | LoginError::Wrong { refusal, .. }
            | LoginError::Waits { refusal, .. }
            | LoginError::Unsure { refusal, .. } => refusal.clone(),
        })
    }
}

/// Without the bytes that a client may take for its end: MySQL's own nonces have neither NUL nor `$`.
pub(crate) fn nonce() -> [u8; NONCE_BYTES] {
    std::array::from_fn(|_| {
        let byte = OsRng.gen_range(1..=126);
        if byte == b'$' { 127 } else { byte }
    })
}

/// Protocol::HandshakeV10
fn greeting(connection_id: u32, nonce: &[u8; NONCE_BYTES], offered: Capabilities) -> Vec<u8> {
    let [a, b, c, d] = offered.base().to_le_bytes();
    let (first, second) = nonce.split_at(8);
    let mut out = vec![10];
    out.extend_from_slice(SERVER_VERSION.as_bytes());
    out.push(0);
    out.extend_from_slice(&connection_id.to_le_bytes());
    out.extend_from_slice(first);
    out.extend_from_slice(&[0, a, b, COLLATION]);
    out.extend_from_slice(&STATUS.to_le_bytes());
    out.extend_from_slice(&[c, d, 21]);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(second);
    out.push(0);
    out.extend_from_slice(Plugin::CachingSha2.name().as_bytes());
    out.push(0);
    out
}

impl Authenticator {
    /// The whole login, on a new connection. After an error the wire is left to send it.
    pub(crate) async fn login(
        &self,
        wire: &mut Wire,
        from: Option<IpAddr>,
        connection_id: u32,
        tls: &Tls,
    ) -> Result<LoggedIn, LoginError> {
        let nonce = nonce();
        let offered = OFFERED.with(Capabilities::SSL, tls.acceptor.is_some() && from.is_some());
        wire.write(&greeting(connection_id, &nonce, offered)).await?;
        let mut first = wire.read().await?;
        let capabilities = client_capabilities(&first, offered)?;
        let is_tls = is_ssl_request(&first, capabilities);
        if is_tls {
            let acceptor = tls.acceptor.as_ref().ok_or_else(|| no_tls("was not offered"))?;
            let plain = std::mem::replace(&mut wire.stream, Box::new(tokio::io::empty()));
            let secure = acceptor.accept(plain).await.map_err(LoginError::Tls)?;
            wire.stream = Box::new(secure);
            first = wire.read().await?;
        } else if capabilities.contains(Capabilities::SSL) {
            return Err(no_tls("was asked for, but the login came without TLS"));
        } else if tls.is_required && from.is_some() {
            return Err(LoginError::Refused(Refusal::TlsRequired));
        }
        let response = ClientResponse::parse(first, offered)?;
        let login = self.authenticate(wire, (from, is_tls), &response, &nonce).await?;
        let database = response.database.as_deref().map(|name| String::from_utf8_lossy(name).into_owned());
        let stream = std::mem::replace(&mut wire.stream, Box::new(tokio::io::empty()));
        Ok(LoggedIn { stream, login, database, capabilities: response.capabilities, is_tls })
    }

    async fn authenticate(
        &self,
        wire: &mut Wire,
        (from, is_tls): (Option<IpAddr>, bool),
        response: &ClientResponse,
        nonce: &[u8; NONCE_BYTES],
    ) -> Result<Login, LoginError> {
        let name = &response.user;
        // The store has no password from which a scramble could be made: such a user sends its own.
        let may_send = is_tls || from.is_none();
        let knows_plugins = response.capabilities.contains(Capabilities::PLUGIN_AUTH);
        let asked = response.plugin.as_deref().and_then(Plugin::of_name);
        let (plugin, answer) = match asked {
            Some(Plugin::CachingSha2) => (Plugin::CachingSha2, response.auth_response().to_vec()),
            _ if !knows_plugins => (Plugin::Native, response.auth_response().to_vec()),
            // The answer is for a plugin that the greeting did not name, or there is none.
            _ => {
                let is_mysql = response.capabilities.contains(Capabilities::CLIENT_MYSQL);
                let fallback = if is_mysql { Plugin::CachingSha2 } else { Plugin::Native };
                // Only a client that names another plugin can tell by this whether the file has the name.
                let sends = may_send && self.users.may_be_of_store(name);
                let plugin = if sends { Plugin::CachingSha2 } else { asked.unwrap_or(fallback) };
                // Protocol::AuthSwitchRequest
                let request = [&[0xFE], plugin.name().as_bytes(), &[0], nonce, &[0]].concat();
                wire.write(&request).await?;
                (plugin, wire.read().await?.to_vec())
            }
        };
        let answer = zeroize::Zeroizing::new(answer);
        let is_empty = answer.is_empty() || answer[..] == [0];
        let scrambled = self.of_scramble(name, plugin, nonce, &answer);
        let verdict = match self.throttle.wait(from, name, Instant::now()) {
            Some(wait) => Tried::Wait(wait),
            None if scrambled.is_none() && may_send && plugin == Plugin::CachingSha2 && !is_empty => {
                wire.write(FULL_AUTH).await?;
                let sent = wire.read().await?;
                let password = sent.strip_suffix(&[0]).unwrap_or(&sent);
                self.users.log_in(&self.throttle, from, name, password).await
            }
            None => {
                let verdict = self.throttle.attempt(from, name, Instant::now(), || scrambled);
                if matches!(verdict, Tried::Right(_)) && plugin == Plugin::CachingSha2 {
                    wire.write(FAST_AUTH_DONE).await?;
                }
                verdict
            }
        };
        let user: String = without_tokens(&String::from_utf8_lossy(name)).chars().take(64).collect();
        let refused = |why: &str| Refusal::ConsoleDenied(format!("'{user}' to the console{why}"));
        match verdict {
            Tried::Right(login) => {
                wire.write(&[0, 0, 0, 2, 0, 0, 0]).await?;
                Ok(login)
            }
            Tried::Wrong => {
                let using = if is_empty { "NO" } else { "YES" };
                // The remedy is the same for all names.
                let remedy =
                    if may_send { "" } else { "; a user of the store logs in over TLS or the Unix socket" };
                let refusal = refused(&format!(" (using password: {using}){remedy}"));
                Err(LoginError::Wrong { user, refusal })
            }
            Tried::Wait(wait) => {
                let wait = wait.as_secs_f64();
                let refusal = refused(&format!(": after a wrong password, try again in {wait:.1} s"));
                Err(LoginError::Waits { user, refusal })
            }
            Tried::Unsure => {
                let refusal = refused(
                    ": the users of the store are not known at present, since the store does not answer; users of admin.users can log in",
                );
                Err(LoginError::Unsure { user, refusal })
            }
        }
    }

    /// The user of this name, if it is one of the file and the password is theirs. For a name that no user has, as much is calculated.
    fn of_scramble(
        &self,
        name: &[u8],
        plugin: Plugin,
        nonce: &[u8; NONCE_BYTES],
        answer: &[u8],
    ) -> Option<Login> {
        let roster = self.users.roster();
        let user = std::str::from_utf8(name).ok().and_then(|name| roster.get(name));
        let password = user.map_or("", |user| user.plain_password());
        let is_known = plugin.is_known(password, nonce, answer);
        user.filter(|_| is_known).map(|user| Login { user: user.clone(), by: user.by_password() })
    }
}

fn no_tls(why: &str) -> LoginError {
    LoginError::Refused(Refusal::BadHandshake(format!("TLS {why}")))
}

#[cfg(test)]
mod tests {
    use super::{OFFERED, greeting, nonce};
    use crate::mysql::handshake::Greeting;

    #[test]
    fn the_greeting_is_one() {
        let nonce = nonce();
        let read = Greeting::parse(greeting(0x8000_0001, &nonce, OFFERED)).unwrap();
        assert_eq!((read.version.is_mariadb, read.version.number.0), (false, 8));
        assert_eq!((&read.nonce[..], &read.plugin[..]), (&nonce[..], &b"caching_sha2_password"[..]));
        assert_eq!((read.connection_id, read.status, read.capabilities), (0x8000_0001, 2, OFFERED));
    }

    #[test]
    fn nonces_differ_and_have_no_ends_in_them() {
        let nonces: std::collections::BTreeSet<_> = (0..1_000).map(|_| nonce()).collect();
        assert_eq!(nonces.len(), 1_000);
        assert!(nonces.iter().flatten().all(|byte| (1..=127).contains(byte) && *byte != b'$'));
    }
}
