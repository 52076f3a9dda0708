//! rowstamp.toml as it is written. The JSON schema and the reference are made from these types and their comments.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::proxy::settings::{
    BackendTlsMode, ListenTlsMode, Offer, ProxyProtocol, SendProxy, ServerCompression, Verify,
};
use crate::toml_file::{AddressText, ByteSize, Interval, Network, OneOrMany, OrOff, Secret};
use crate::users::Role;

/// rowstamp.toml: where Rowstamp listens, which server it connects clients to, and where it keeps its bounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    pub listen: Listen,
    pub backend: BackendKeys,
    pub store: StoreKeys,
    pub proxy: Proxy,
    pub state: State,
    pub rules: Rules,
    pub rewrite: Rewrite,
    pub limits: Limits,
    pub admin: Admin,
    pub users: Users,
    pub http: Http,
    pub resp: Resp,
    pub api: Api,
    pub log: Log,
}

/// Where applications connect to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// "host:port" (port 0: any) or "unix:/path".
    pub address: AddressText,
    /// PROXY protocol, v1 or v2, at the start of connections: not read, read if a load balancer sends it, or required.
    pub proxy_protocol: ProxyProtocol,
    /// Addresses or networks of the load balancers that may send the PROXY protocol.
    #[schemars(example = ["10.0.0.0/8"])]
    pub proxy_protocol_from: Vec<Network>,
    /// RSA private key, PEM. Clients without TLS encrypt passwords (caching_sha2_password, sha256_password) with its public key, which they may have on disk. Without this file Rowstamp makes a key when a client asks for one.
    #[schemars(example = &"rsa.pem", length(min = 1))]
    pub rsa_key: Option<PathBuf>,
    /// Compression that Rowstamp offers to clients.
    pub compression: Offer,
    pub tls: ListenTls,
}

impl Default for Listen {
    fn default() -> Self {
        Listen {
            address: AddressText(Address::Tcp { host: "127.0.0.1".to_owned(), port: 3307 }),
            proxy_protocol: ProxyProtocol::Off,
            proxy_protocol_from: Vec::new(),
            rsa_key: None,
            compression: Offer::Off,
            tls: ListenTls::default(),
        }
    }
}

/// TLS of the connections from clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListenTls {
    /// Whether TLS is offered, and whether it is required.
    pub mode: ListenTlsMode,
    /// Certificate chain, PEM. Without it Rowstamp makes a self-signed certificate in state.path on its first start.
    #[schemars(example = &"server.pem", length(min = 1))]
    pub cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[schemars(example = &"server.key", length(min = 1))]
    pub key: Option<PathBuf>,
    /// CA certificates, PEM. If set, each client must show a certificate that one of them signed.
    #[schemars(example = &"clients.pem", length(min = 1))]
    pub ca: Option<PathBuf>,
}

/// The server that Rowstamp connects clients to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["address"]))]
pub struct BackendKeys {
    /// "host:port" or "unix:/path", or a list of them. With a control account Rowstamp tries the server that can be written to first; without one it tries them in order.
    #[schemars(example = &"127.0.0.1:3306")]
    pub address: Option<OneOrMany<AddressText>>,
    /// Tell the server the client's address by PROXY protocol. MariaDB reads it from the networks in its variable proxy_protocol_networks; MySQL does not read it.
    pub send_proxy: SendProxy,
    /// Compression of the connections to the server, if the server offers it.
    pub compression: ServerCompression,
    /// Forward passwords that clients send in clear text over TLS (mysql_clear_password, PAM) also to a server without TLS.
    pub clear_passwords: bool,
    pub tls: BackendTls,
    /// How long one address may take to answer.
    pub connect_timeout: Interval,
    /// Rowstamp's own account, with which it reads columns and counters and takes locks.
    pub control: Option<Control>,
}

impl Default for BackendKeys {
    fn default() -> Self {
        BackendKeys {
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
    /// Whether TLS is used, and what is verified.
    pub mode: BackendTlsMode,
    /// CA certificates, PEM, that verify the server's certificate; for "verify_ca" and "verify_identity".
    #[schemars(example = &"ca.pem", length(min = 1))]
    pub ca: Option<PathBuf>,
    /// Certificate that Rowstamp shows to the server, PEM.
    #[schemars(example = &"client.pem", length(min = 1))]
    pub cert: Option<PathBuf>,
    /// That certificate's private key, PEM.
    #[schemars(example = &"client.key", length(min = 1))]
    pub key: Option<PathBuf>,
}

/// Rowstamp's own account. One of three keys gives its password.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["user"]))]
pub struct Control {
    /// Name of the account. It may read information_schema and the tables with rules.
    #[schemars(example = &"rowstamp", length(min = 1))]
    pub user: Option<String>,
    /// The password in clear text. Only the owner should then be able to read rowstamp.toml.
    #[schemars(example = &"...")]
    pub password: Option<Secret>,
    /// A file with the password: a file that only its owner may read, or a secret mounted into a container. One newline at its end is not part of the password.
    #[schemars(example = &"control.password", length(min = 1))]
    pub password_file: Option<PathBuf>,
    /// Name of the environment variable that has the password.
    #[schemars(example = &"ROWSTAMP_CONTROL_PASSWORD", length(min = 1))]
    pub password_env: Option<String>,
}

/// Where bounds are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreKeys {
    /// "embedded": a file, for one proxy; "etcd" or "mysql": for several proxies.
    pub kind: StoreKindKey,
    /// File of the embedded store.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// How long an INSERT waits for an id before Rowstamp refuses it with error 1467.
    pub deadline: Interval,
    /// etcd's members, "host:port", "http://host:port" or "https://host:port" each. If one fails, Rowstamp uses another.
    #[schemars(example = ["127.0.0.1:2379"])]
    pub endpoints: Vec<String>,
    /// Prefix of all keys in etcd.
    #[schemars(length(min = 1))]
    pub prefix: String,
    /// The table of kind "mysql": a name in the database "rowstamp", or database.name. "leaf_alloc" is Leaf's own table, unchanged, for sequences only.
    #[schemars(length(min = 1))]
    pub table: String,
    /// The server of kind "mysql", if it is not the backend.
    #[schemars(example = &"127.0.0.1:3306")]
    pub address: Option<AddressText>,
    /// The account on etcd, or on the server of kind "mysql" (default: the control account). One of three keys gives its password.
    #[schemars(example = &"rowstamp", length(min = 1))]
    pub user: Option<String>,
    /// The password in clear text. Only the owner should then be able to read rowstamp.toml.
    #[schemars(example = &"...")]
    pub password: Option<Secret>,
    /// A file with the password: a file that only its owner may read, or a secret mounted into a container. One newline at its end is not part of the password.
    #[schemars(example = &"store.password", length(min = 1))]
    pub password_file: Option<PathBuf>,
    /// Name of the environment variable that has the password.
    #[schemars(example = &"ROWSTAMP_STORE_PASSWORD", length(min = 1))]
    pub password_env: Option<String>,
    /// TLS to etcd.
    pub tls: Option<StoreTls>,
}

impl Default for StoreKeys {
    fn default() -> Self {
        StoreKeys {
            kind: StoreKindKey::Embedded,
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
    /// Whether TLS is used. With TLS Rowstamp always verifies etcd.
    pub mode: StoreTlsMode,
    /// CA certificates, PEM, that verify etcd's certificate; required.
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
    /// Always; `ca` must verify the certificate, and the certificate must name the host.
    #[default]
    VerifyIdentity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreKindKey {
    /// One file, for one proxy.
    Embedded,
    /// etcd, for several proxies.
    Etcd,
    /// A table of MySQL or MariaDB, for several proxies.
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
    /// Folder for files of this proxy, for example the certificate that it makes on its first start.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// Start although others can write to state.path or to the folder of store.path, or replace them. For the volume of a container that no other program can reach.
    pub others_may_write: bool,
}

impl Default for State {
    fn default() -> Self {
        State { path: "rowstamp.state".into(), others_may_write: false }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// Folder of the rules; every *.toml file in it is a rules file.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
    /// Load changed files of that folder automatically, without SIGHUP, when they have not changed for a second.
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
    /// How many rewritten statements a second parser compares with the originals. A statement that differs by more than the id is refused.
    pub verify: Verify,
    pub on_doubt: OnDoubt,
}

/// What Rowstamp does with a statement that it cannot rewrite.
#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Error 1235.
    #[default]
    Refuse,
    /// Sent to the server unchanged, if each table with a rule that the statement names keeps its AUTO_INCREMENT; the generator continues above the ids that the server gives.
    Forward,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Client connections in total.
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
    /// Maximum length of a statement that needs ids; a longer one is refused. At most "1GiB".
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
    /// "host:port", "unix:/path" or "off"; default: 127.0.0.1:3308 if admin.users has an entry, else "off".
    #[schemars(example = &"127.0.0.1:3308")]
    pub address: Option<OrOff>,
    /// The users of this proxy alone. Those of the store are made on the console (CREATE USER).
    pub users: Vec<AdminUser>,
}

/// A user of the console and of the Redis protocol. One of three keys gives the password.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["name"]))]
pub struct AdminUser {
    /// Name to log in with.
    #[schemars(example = &"dba", length(min = 1))]
    pub name: Option<String>,
    /// The password in clear text. Only the owner should then be able to read rowstamp.toml.
    #[schemars(example = &"...")]
    pub password: Option<Secret>,
    /// A file with the password: a file that only its owner may read, or a secret mounted into a container. One newline at its end is not part of the password.
    #[schemars(example = &"dba.password", length(min = 1))]
    pub password_file: Option<PathBuf>,
    /// Name of the environment variable that has the password.
    #[schemars(example = &"ROWSTAMP_DBA_PASSWORD", length(min = 1))]
    pub password_env: Option<String>,
    /// "read": the right READ on all generators; "write": all rights on all generators, and so all commands.
    pub role: Role,
}

/// The users of the store, whom all its proxies know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Users {
    /// How long the users that are known can log in and draw ids while the store does not answer.
    pub stale_max: Interval,
}

impl Default for Users {
    fn default() -> Self {
        Users { stale_max: Interval::from_secs(600) }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address of the metrics, the health checks and the status page: "host:port", "unix:/path" or "off". It needs no password, and nothing can be changed there.
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

/// The Redis protocol: a port where clients of Redis draw ids.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resp {
    /// "host:port", "unix:/path" or "off". Clients log in as one of admin.users or as a user of the store.
    #[schemars(example = &"127.0.0.1:6379")]
    pub address: OrOff,
    pub tls: ListenTls,
}

/// The HTTP API: a port where programs draw ids by HTTP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Api {
    /// "host:port", "unix:/path" or "off". Clients log in as one of admin.users or as a user of the store.
    #[schemars(example = &"127.0.0.1:3310")]
    pub address: OrOff,
    /// Other id services whose paths this port answers too, for clients that were written for these: "leaf" (Meituan Leaf), "udf" (the Spring service org.itkk.udf.id).
    #[schemars(example = ["leaf", "udf"])]
    pub compat: Vec<Compat>,
    pub tls: ListenTls,
}

/// "leaf": Meituan Leaf. "udf": the Spring service org.itkk.udf.id, with the paths /service/id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compat {
    Leaf,
    Udf,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The least serious level that is logged.
    pub level: LogLevel,
    /// Text lines for people, or JSON objects.
    pub format: LogFormat,
    /// The audit log, a file with one JSON line for each rewritten statement: digest and ids, never a literal. A reload opens the file again.
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
