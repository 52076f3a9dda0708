//! What the proxy needs to know to act; `config` makes it from what was written in rowstamp.toml.

use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rsa_key::RsaKey;
use crate::address::Address;
use crate::mysql::capabilities::Capabilities;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub listen: Address,
    pub listen_proxy: ListenProxy,
    pub listen_tls: ListenTls,
    /// `None`: one is made where one is needed.
    pub rsa_key: Option<RsaKey>,
    /// Offered to clients.
    pub listen_compression: Offer,
    pub backend: Backend,
    pub limits: Limits,
    /// This proxy's identity in the store and the logs.
    pub name: String,
    /// Folder of local marks and of the self-signed certificate; made on first start.
    pub state_path: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProxyProtocol {
    /// What clients send is theirs.
    Off,
    /// A header is read where one of the addresses sends it.
    Optional,
    /// Only the addresses may connect, and send one.
    Required,
}

/// PROXY protocol at the start of clients' connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenProxy {
    pub mode: ProxyProtocol,
    /// Whose word is taken.
    pub from: Vec<IpNet>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendProxy {
    /// Nothing is sent.
    Off,
    /// As text.
    V1,
    /// In binary.
    V2,
}

/// Compression of the connections of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Packets as they are.
    Off,
    /// What every client and server has.
    Zlib,
    /// MySQL 8.0.18 and later: costs less, and packs as well.
    Zstd,
    /// Both.
    Any,
}

impl Offer {
    /// By their names.
    pub fn algorithms(self) -> &'static [&'static str] {
        match self {
            Offer::Off => &[],
            Offer::Zlib => &["zlib"],
            Offer::Zstd => &["zstd"],
            Offer::Any => &["zlib", "zstd"],
        }
    }

    /// As bits of a handshake.
    pub fn capabilities(self) -> Capabilities {
        let (zlib, zstd) = (Capabilities::COMPRESS, Capabilities::ZSTD);
        match self {
            Offer::Off => Capabilities::default(),
            Offer::Zlib => zlib,
            Offer::Zstd => zstd,
            Offer::Any => zlib | zstd,
        }
    }
}

/// Compression that the server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerCompression {
    /// None.
    Off,
    /// What every server has.
    Zlib,
    /// MySQL 8.0.18 and later: costs less, and packs as well.
    Zstd,
    /// Both; zstd where the server has it.
    Any,
    /// What the session's client has agreed on with the proxy.
    AsClient,
}

impl ServerCompression {
    /// The same for every session; `None`: each client's.
    pub fn always(self) -> Option<Offer> {
        match self {
            ServerCompression::Off => Some(Offer::Off),
            ServerCompression::Zlib => Some(Offer::Zlib),
            ServerCompression::Zstd => Some(Offer::Zstd),
            ServerCompression::Any => Some(Offer::Any),
            ServerCompression::AsClient => None,
        }
    }
}

#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListenTlsMode {
    /// Not offered.
    Disabled,
    /// Offered; a client may go on without it.
    #[default]
    Preferred,
    /// A client that does not ask for it is turned away.
    Required,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenTls {
    pub mode: ListenTlsMode,
    /// Certificate chain and key (PEM); `None`: self-signed, made on first start in the state folder.
    pub identity: Option<TlsIdentity>,
    /// Set: clients must show a certificate that one of these (PEM) signed.
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsIdentity {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendTlsMode {
    /// Never.
    Disabled,
    /// Where the server offers it; its certificate is not verified.
    #[default]
    Preferred,
    /// Where the client uses it, which is offered it only where the server does; the server's certificate is not verified.
    AsClient,
    /// Always; its certificate is not verified.
    Required,
    /// Always; the certificate must lead to `ca`.
    VerifyCa,
    /// Always; the certificate must lead to `ca` and name the host.
    VerifyIdentity,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendTls {
    pub mode: BackendTlsMode,
    pub ca: Option<PathBuf>,
    pub identity: Option<TlsIdentity>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Tried in order at each connect; never empty.
    pub addresses: Vec<Address>,
    pub send_proxy: SendProxy,
    pub tls: BackendTls,
    /// Spoken to a server that offers it.
    pub compression: ServerCompression,
    /// Passwords in clear go on to a server without TLS.
    pub clear_passwords: bool,
    pub connect_timeout: Duration,
}

#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    #[default]
    Off,
    /// One of 256, by a counter over all sessions.
    Sample,
    /// Costs tens of times what the rewrite does.
    Always,
}

/// Zero means no limit where the type says "0: none".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub connections_max: usize,
    /// 0: none.
    pub connections_per_user_max: usize,
    /// 0: none.
    pub connections_per_address_max: usize,
    pub handshake_timeout: Duration,
    pub idle_timeout: Duration,
    pub write_timeout: Duration,
    pub statement_bytes_max: usize,
    pub drain_timeout: Duration,
}
