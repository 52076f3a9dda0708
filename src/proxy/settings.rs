//! The settings that the proxy needs to act; `config` makes them from what was written in rowstamp.toml.

use std::path::PathBuf;
use std::sync::Arc;
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
    pub rsa_key: Option<Arc<RsaKey>>,
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
    /// Rowstamp reads no header.
    Off,
    /// Rowstamp reads a header if an address of `proxy_protocol_from` sends one.
    Optional,
    /// Only addresses of `proxy_protocol_from` may connect, and they must send a header.
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
    /// No compression.
    Off,
    /// All clients and servers support it.
    Zlib,
    /// MySQL 8.0.18 and later: needs less CPU time, and compresses equally well.
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

    /// The bits of a handshake for these algorithms.
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
    /// All servers support it.
    Zlib,
    /// MySQL 8.0.18 and later: needs less CPU time, and compresses equally well.
    Zstd,
    /// Both; zstd if the server supports it.
    Any,
    /// The compression that the session's client uses.
    AsClient,
}

impl ServerCompression {
    /// The compression of every session. `None`: each session uses its client's.
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
    /// Offered; a client may continue without TLS.
    #[default]
    Preferred,
    /// Rowstamp refuses a client that does not ask for TLS.
    Required,
}

/// Whose clients speak TLS: the files' keys are called after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsDoor {
    /// `listen.tls`
    Mysql,
    /// `resp.tls`
    Redis,
    /// `api.tls`
    Api,
}

impl TlsDoor {
    /// The names of the table, and of its settings for the certificate, its key and the CA.
    pub fn names(self) -> [&'static str; 4] {
        match self {
            TlsDoor::Mysql => ["listen.tls", "listen.tls.cert", "listen.tls.key", "listen.tls.ca"],
            TlsDoor::Redis => ["resp.tls", "resp.tls.cert", "resp.tls.key", "resp.tls.ca"],
            TlsDoor::Api => ["api.tls", "api.tls.cert", "api.tls.key", "api.tls.ca"],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenTls {
    pub door: TlsDoor,
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
    /// If the server offers TLS; the server's certificate is not verified.
    #[default]
    Preferred,
    /// If the client uses TLS, which Rowstamp offers only if the server does; the server's certificate is not verified.
    AsClient,
    /// Always; the server's certificate is not verified.
    Required,
    /// Always; a CA of `ca` must have signed the certificate.
    VerifyCa,
    /// Always; a CA of `ca` must have signed the certificate, and it must name the host.
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
    /// One statement of 256, counted over all sessions.
    Sample,
    /// Every statement; this costs tens of times as much as the rewrite.
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

impl Settings {
    /// A proxy in front of `backend` that listens for nobody by itself, without TLS, compression and limits on connections.
    pub fn bare(backend: Address, state_path: PathBuf) -> Settings {
        let minute = Duration::from_mins(1);
        Settings {
            listen: Address::Tcp { host: "127.0.0.1".into(), port: 0 },
            listen_proxy: ListenProxy { mode: ProxyProtocol::Off, from: Vec::new() },
            listen_tls: ListenTls {
                door: TlsDoor::Mysql,
                mode: ListenTlsMode::Disabled,
                identity: None,
                client_ca: None,
            },
            rsa_key: None,
            listen_compression: Offer::Off,
            backend: Backend {
                addresses: vec![backend],
                send_proxy: SendProxy::Off,
                tls: BackendTls { mode: BackendTlsMode::Disabled, ca: None, identity: None },
                compression: ServerCompression::Off,
                clear_passwords: false,
                connect_timeout: Duration::from_secs(5),
            },
            limits: Limits {
                connections_max: 0,
                connections_per_user_max: 0,
                connections_per_address_max: 0,
                handshake_timeout: Duration::from_secs(10),
                idle_timeout: minute,
                write_timeout: minute,
                statement_bytes_max: 1 << 20,
                drain_timeout: Duration::from_secs(1),
            },
            name: String::new(),
            state_path,
        }
    }
}
