//! rowstamp.toml as it is written. The JSON schema and the reference are made from these types and their comments.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::admin::Role;
use crate::proxy::settings::{
    BackendTlsMode, ListenTlsMode, Offer, ProxyProtocol, SendProxy, ServerCompression, Verify,
};
use crate::toml_file::{ByteSize, Interval, Network, OneOrMany, OrOff, Place, Secret};

/// rowstamp.toml: where Rowstamp listens, what it stands in front of, and where its ids are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    pub listen: Listen,
    pub backend: Backend,
    pub store: Store,
    pub proxy: Proxy,
    pub state: State,
    pub rules: Rules,
    pub rewrite: Rewrite,
    pub limits: Limits,
    pub admin: Admin,
    pub http: Http,
    pub log: Log,
}

/// Where applications connect to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// "host:port" (port 0: any) or "unix:/path".
    pub address: Place,
    /// PROXY protocol, v1 or v2, in front of connections: not read, read where a load balancer sends it, or demanded.
    pub proxy_protocol: ProxyProtocol,
    /// The load balancers that may send it: addresses or networks.
    #[schemars(example = ["10.0.0.0/8"])]
    pub proxy_protocol_from: Vec<Network>,
    /// RSA private key, PEM: what clients without TLS encrypt caching_sha2_password and sha256_password passwords with, and may have on disk. Without it: made when one is asked for.
    #[schemars(example = &"rsa.pem", length(min = 1))]
    pub rsa_key: Option<PathBuf>,
    /// Compression that clients are offered.
    pub compression: Offer,
    pub tls: ListenTls,
}

impl Default for Listen {
    fn default() -> Self {
        Listen {
            address: Place(Address::Tcp { host: "127.0.0.1".to_owned(), port: 3307 }),
            proxy_protocol: ProxyProtocol::Off,
            proxy_protocol_from: Vec::new(),
            rsa_key: None,
            compression: Offer::Off,
            tls: ListenTls::default(),
        }
    }
}

/// TLS of the connections from applications.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListenTls {
    /// Whether it is offered, and must be taken.
    pub mode: ListenTlsMode,
    /// Certificate chain, PEM. Without it: self-signed, made on first start in state.path.
    #[schemars(example = &"server.pem", length(min = 1))]
    pub cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[schemars(example = &"server.key", length(min = 1))]
    pub key: Option<PathBuf>,
    /// Set: clients must show a certificate that one of these, PEM, signed.
    #[schemars(example = &"clients.pem", length(min = 1))]
    pub ca: Option<PathBuf>,
}

/// The server that Rowstamp stands in front of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["address"]))]
pub struct Backend {
    /// "host:port" or "unix:/path", or a list of them: with a control account the one that can be written to comes first, else they are tried in order.
    #[schemars(example = &"127.0.0.1:3306")]
    pub address: Option<OneOrMany<Place>>,
    /// Tell the server the client's address by PROXY protocol; MariaDB reads it from proxy_protocol_networks, MySQL does not.
    pub send_proxy: SendProxy,
    /// Compression that a server is asked for where it offers it.
    pub compression: ServerCompression,
    /// Pass passwords that clients send in clear over TLS (mysql_clear_password, PAM) to a server without TLS.
    pub clear_passwords: bool,
    pub tls: BackendTls,
    /// How long one address may take to answer.
    pub connect_timeout: Interval,
    /// Rowstamp's own account, for reading schemas and counters.
    pub control: Option<Control>,
}

impl Default for Backend {
    fn default() -> Self {
        Backend {
            address: None,
            send_proxy: SendProxy::Off,
            compression: ServerCompression::Off,
            clear_passwords: false,
            tls: BackendTls::default(),
            connect_timeout: Interval::from_secs(5),
            control: None,
        }
    }
}

/// TLS of the connections to the server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackendTls {
    /// Whether it is used, and what is verified.
    pub mode: BackendTlsMode,
    /// Certificates, PEM, that the server's must lead to; for "verify_ca" and "verify_identity".
    #[schemars(example = &"ca.pem", length(min = 1))]
    pub ca: Option<PathBuf>,
    /// Certificate that Rowstamp shows to the server, PEM.
    #[schemars(example = &"client.pem", length(min = 1))]
    pub cert: Option<PathBuf>,
    /// That certificate's private key, PEM.
    #[schemars(example = &"client.key", length(min = 1))]
    pub key: Option<PathBuf>,
}

/// Rowstamp's own account. Its password is in one of three places.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["user"]))]
pub struct Control {
    /// May read information_schema and the ruled tables.
    #[schemars(example = &"rowstamp", length(min = 1))]
    pub user: Option<String>,
    /// In clear: then this file must be open to its owner only.
    #[schemars(example = &"...")]
    pub password: Option<Secret>,
    /// A file that only its owner may read, or a secret mounted into a container; one newline at its end is no part of the password.
    #[schemars(example = &"control.password", length(min = 1))]
    pub password_file: Option<PathBuf>,
    /// Name of an environment variable.
    #[schemars(example = &"ROWSTAMP_CONTROL_PASSWORD", length(min = 1))]
    pub password_env: Option<String>,
}

/// Where bounds are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// "embedded": a file, for one proxy; "etcd", "mysql": for a fleet.
    pub kind: StoreKind,
    /// File of the embedded store.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// How long a ruled INSERT waits for an id before it is refused with 1467.
    pub deadline: Interval,
    /// etcd's members, "host:port", "http://host:port" or "https://host:port" each. One that fails is passed over.
    #[schemars(example = ["127.0.0.1:2379"])]
    pub endpoints: Vec<String>,
    /// In front of all keys in etcd.
    #[schemars(length(min = 1))]
    pub prefix: String,
    /// The table of "mysql": a name in the database "rowstamp", or database.name. "leaf_alloc": Leaf's, as it is, for sequences.
    #[schemars(length(min = 1))]
    pub table: String,
    /// The server of "mysql", where it is not the backend.
    #[schemars(example = &"127.0.0.1:3306")]
    pub address: Option<Place>,
    /// The account of etcd, or of "mysql" (default: the control account). Its password is in one of three places.
    #[schemars(example = &"rowstamp", length(min = 1))]
    pub user: Option<String>,
    /// In clear: then this file must be open to its owner only.
    #[schemars(example = &"...")]
    pub password: Option<Secret>,
    /// A file that only its owner may read, or a secret mounted into a container; one newline at its end is no part of the password.
    #[schemars(example = &"store.password", length(min = 1))]
    pub password_file: Option<PathBuf>,
    /// Name of an environment variable.
    #[schemars(example = &"ROWSTAMP_STORE_PASSWORD", length(min = 1))]
    pub password_env: Option<String>,
    /// TLS to etcd.
    pub tls: Option<StoreTls>,
}

impl Default for Store {
    fn default() -> Self {
        Store {
            kind: StoreKind::Embedded,
            path: "rowstamp.redb".into(),
            deadline: Interval::from_secs(1),
            endpoints: Vec::new(),
            prefix: "/rowstamp".to_owned(),
            table: "rowstamp_bounds".to_owned(),
            address: None,
            user: None,
            password: None,
            password_file: None,
            password_env: None,
            tls: None,
        }
    }
}

/// TLS of the connections to etcd.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreTls {
    /// Whether it is used. There is no TLS that does not verify etcd.
    pub mode: StoreTlsMode,
    /// Certificates, PEM, that etcd's must lead to; required.
    #[schemars(example = &"ca.pem", length(min = 1))]
    pub ca: Option<PathBuf>,
    /// Certificate that Rowstamp shows to etcd, PEM.
    #[schemars(example = &"client.pem", length(min = 1))]
    pub cert: Option<PathBuf>,
    /// That certificate's private key, PEM.
    #[schemars(example = &"client.key", length(min = 1))]
    pub key: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreTlsMode {
    /// Never.
    Disabled,
    /// Always; the certificate must lead to `ca` and name the host.
    #[default]
    VerifyIdentity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// One file, for one proxy.
    Embedded,
    /// For a fleet.
    Etcd,
    /// A table of MySQL or MariaDB, for a fleet.
    Mysql,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Proxy {
    /// This proxy's identity in the store, logs and metrics; default: host name and listen port.
    #[schemars(example = &"db1:3307", length(min = 1))]
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// Folder of local marks and of the certificate made on first start.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
}

impl Default for State {
    fn default() -> Self {
        State { path: "rowstamp.state".into() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Folder; every *.toml in it is a rules file.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// Take up changed files of that folder by itself, as SIGHUP does, once they have come to rest for a second.
    pub watch: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { path: "rules".into(), watch: true }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rewrite {
    /// How many rewritten statements a second parser compares with what came: what differs by more than the id is refused.
    pub verify: Verify,
    pub on_doubt: OnDoubt,
}

/// What becomes of a statement that cannot be rewritten.
#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Error 1235.
    #[default]
    Refuse,
    /// Sent as it came, where each ruled table that it names keeps its AUTO_INCREMENT; the generator goes on above the ids that the server gives.
    Forward,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Client connections in all.
    #[schemars(range(min = 1))]
    pub connections: u32,
    /// Client connections of one user; 0: no limit.
    pub per_user: u32,
    /// Client connections from one address; 0: no limit.
    pub per_address: u32,
    /// How long a client may take to log in.
    pub handshake_timeout: Interval,
    /// How long a client may be silent.
    pub idle_timeout: Interval,
    /// How long a client may leave its answer unread.
    pub write_timeout: Interval,
    /// Length of a ruled statement; longer ones are refused. At most "1GiB".
    pub statement_bytes: ByteSize,
    /// How long a stop waits for open transactions.
    pub drain_timeout: Interval,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            per_user: 0,
            per_address: 0,
            handshake_timeout: Interval::from_secs(10),
            idle_timeout: Interval::from_secs(8 * 60 * 60),
            write_timeout: Interval::from_secs(60),
            statement_bytes: ByteSize(64 << 20),
            drain_timeout: Interval::from_secs(30),
        }
    }
}

/// The console: a port that MySQL clients log in to, for SHOW GENERATORS, RELOAD RULES and the like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// "host:port", "unix:/path" or "off"; default: 127.0.0.1:3308 where admin.users has anybody, else "off".
    #[schemars(example = &"127.0.0.1:3308")]
    pub address: Option<OrOff>,
    /// Who may log in.
    pub users: Vec<AdminUser>,
}

/// A user of the console, of nothing else. The password is in one of three places.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["name"]))]
pub struct AdminUser {
    /// What they log in as.
    #[schemars(example = &"dba", length(min = 1))]
    pub name: Option<String>,
    /// In clear: then this file must be open to its owner only.
    #[schemars(example = &"...")]
    pub password: Option<Secret>,
    /// A file that only its owner may read, or a secret mounted into a container; one newline at its end is no part of the password.
    #[schemars(example = &"dba.password", length(min = 1))]
    pub password_file: Option<PathBuf>,
    /// Name of an environment variable.
    #[schemars(example = &"ROWSTAMP_DBA_PASSWORD", length(min = 1))]
    pub password_env: Option<String>,
    /// "read": SHOW and EXPLAIN REWRITE; "write": what changes something too.
    pub role: Role,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Metrics, health, and a page to look at: "host:port", "unix:/path" or "off". Nobody is asked for a password, and nothing can be changed there.
    pub address: OrOff,
}

impl Http {
    /// The port after the console's. Prometheus's own list of exporters' ports, 9100 to 9999 and some others, has not got it.
    const PORT: u16 = 3309;
}

impl Default for Http {
    fn default() -> Self {
        Http { address: OrOff::At(Address::Tcp { host: "127.0.0.1".to_owned(), port: Http::PORT }) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The least serious that is logged.
    pub level: LogLevel,
    /// Lines for people, or JSON objects.
    pub format: LogFormat,
    /// File for rewritten statements, JSON lines: digests and ids, never a literal. A reload opens it again.
    #[schemars(example = &"audit.log", length(min = 1))]
    pub audit: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}
