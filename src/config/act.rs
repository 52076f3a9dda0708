//! Settings from keys: paths resolved, passwords read, what must go together checked.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::address::Address;
use crate::admin::http::HttpSettings;
use crate::config::keys::{self, AdminUser, ConfigFile};
use crate::config::secret::{self, OTHERS_MODE};
use crate::config::{
    Account, AdminSettings, Config, DoorSettings, LogSettings, RewriteSettings, RulesSettings, StoreSettings,
};
use crate::proxy::connect::tls::{self, TlsError};
use crate::proxy::rsa_key::RsaKey;
use crate::proxy::settings::{
    Backend, BackendTls, BackendTlsMode, Limits, ListenProxy, ListenTls, ListenTlsMode, ProxyProtocol,
    Settings, TlsDoor, TlsIdentity,
};
use crate::toml_file::{ByteSize, Environment, Findings, OneOrMany, OrOff, Secret, Source};
use crate::users::User;

/// MySQL's own limit of max_allowed_packet.
const STATEMENT_BYTES_MAX: u64 = 1 << 30;

/// `None` only where something without a default is missing or bad, which `findings` then says.
pub(super) fn config(
    source: &Source<ConfigFile>,
    environment: &Environment,
    findings: &mut Findings,
) -> Option<Config> {
    let keys = &source.keys;
    let mut act = Act { source, environment, findings };
    let control = act.control();
    let proxy = act.proxy();
    let store = act.store();
    let admin = act.admin();
    let resp = act.door(TlsDoor::Redis, &keys.resp.address, &keys.resp.tls);
    let api = act.door(TlsDoor::Api, &keys.api.address, &keys.api.tls);
    if api.address.is_none() && !keys.api.compat.is_empty() {
        act.warning("api.compat", "has no effect, since api.address is \"off\"");
    }
    Some(Config {
        proxy: proxy?,
        control,
        store: StoreSettings { kind: store, deadline: keys.store.deadline.0 },
        others_may_write: keys.state.others_may_write,
        rules: RulesSettings { path: source.resolve(&keys.rules.path), watch: keys.rules.watch },
        rewrite: RewriteSettings { verify: keys.rewrite.verify, on_doubt: keys.rewrite.on_doubt },
        http: http(source),
        admin,
        users_stale_max: keys.users.stale_max.0,
        resp,
        api,
        api_compat: keys.api.compat.clone(),
        log: LogSettings {
            level: keys.log.level,
            format: keys.log.format,
            audit: keys.log.audit.as_ref().map(|path| source.resolve(path)),
        },
    })
}

pub(super) fn http(source: &Source<ConfigFile>) -> Option<HttpSettings> {
    let OrOff::At(address) = &source.keys.http.address else { return None };
    let is_written = source.is_written("http.address");
    Some(HttpSettings { address: resolved(source, address), is_written })
}

fn resolved(source: &Source<ConfigFile>, address: &Address) -> Address {
    match address {
        Address::Unix(path) => Address::Unix(source.resolve(path)),
        tcp @ Address::Tcp { .. } => tcp.clone(),
    }
}

pub(super) struct Act<'a> {
    pub(super) source: &'a Source<ConfigFile>,
    environment: &'a Environment,
    findings: &'a mut Findings,
}

/// A password is in one of these places: the key itself, a file, an environment variable.
pub(super) type Passwords<'a> = (Option<&'a Secret>, Option<&'a Path>, Option<&'a str>);

impl Act<'_> {
    pub(super) fn error(&mut self, key: &str, text: impl std::fmt::Display) {
        self.findings.push(self.source.error(key, text));
    }

    pub(super) fn warning(&mut self, key: &str, text: impl std::fmt::Display) {
        self.findings.push(self.source.warning(key, text));
    }

    fn proxy(&mut self) -> Option<Settings> {
        let keys = &self.source.keys;
        let listen = self.address(&keys.listen.address.0);
        let backend = self.backend();
        let settings = Settings {
            name: keys.proxy.name.clone().unwrap_or_else(|| default_name(&listen)),
            listen,
            listen_proxy: self.listen_proxy(),
            listen_tls: self.listen_tls(TlsDoor::Mysql, &keys.listen.tls),
            rsa_key: self.rsa_key(),
            listen_compression: keys.listen.compression,
            limits: self.limits(),
            state_path: self.source.resolve(&keys.state.path),
            backend: backend?,
        };
        self.tls_faults(tls::faults(&settings));
        Some(settings)
    }

    /// Adds an error with its line for each file that would stop `serve`, so that it stops `check` too.
    pub(super) fn tls_faults(&mut self, faults: Vec<TlsError>) {
        for fault in faults {
            if let TlsError::File { key, path, error } = fault {
                self.error(key, format!("{} {error}", path.display()));
            }
        }
    }

    pub(super) fn address(&self, address: &Address) -> Address {
        resolved(self.source, address)
    }

    fn listen_proxy(&mut self) -> ListenProxy {
        let listen = &self.source.keys.listen;
        let (mode, from) = (listen.proxy_protocol, &listen.proxy_protocol_from);
        if mode != ProxyProtocol::Off && listen.address.0.is_unix() {
            self.error(
                "listen.proxy_protocol",
                "is for TCP, and listen.address is a Unix socket; write \"off\"",
            );
        }
        // A value that is no network has its own error.
        let has_any = !from.is_empty() || self.source.is_written("listen.proxy_protocol_from[0]");
        if mode != ProxyProtocol::Off && !has_any {
            self.error(
                "listen.proxy_protocol_from",
                "is empty, so nobody may send a header; list the addresses of the load balancers",
            );
        }
        if mode == ProxyProtocol::Off && !from.is_empty() {
            self.error(
                "listen.proxy_protocol_from",
                "has no effect while listen.proxy_protocol is \"off\"; set that key to \"optional\" or \"required\", or remove this one",
            );
        }
        ListenProxy { mode, from: from.iter().map(|network| network.0).collect() }
    }

    fn listen_tls(&mut self, door: TlsDoor, tls: &keys::ListenTls) -> ListenTls {
        let [table, .., ca_key] = door.names();
        ListenTls {
            door,
            mode: tls.mode,
            identity: self.identity(table, tls.cert.as_deref(), tls.key.as_deref()),
            client_ca: self.readable(ca_key, tls.ca.as_deref()),
        }
    }

    fn door(&mut self, door: TlsDoor, address: &OrOff, tls: &keys::ListenTls) -> DoorSettings {
        let tls = self.listen_tls(door, tls);
        self.tls_faults(tls::faults_of_door(&tls));
        let OrOff::At(address) = address else { return DoorSettings { address: None, tls } };
        let address = self.address(address);
        if tls.mode == ListenTlsMode::Disabled && !address.is_of_this_machine() {
            let [table, ..] = door.names();
            let key = format!("{table}.mode");
            // The HTTP API takes no password so.
            let what = if door == TlsDoor::Api { "tokens" } else { "passwords and tokens" };
            let why = format!(
                "is \"disabled\", and other machines can connect to {address}: {what} cross the network unencrypted; write \"required\", or \
                 a loopback address for a load balancer on this machine that ends TLS"
            );
            self.warning(&key, why);
        }
        DoorSettings { address: Some(address), tls }
    }

    fn rsa_key(&mut self) -> Option<Arc<RsaKey>> {
        let path = self.source.resolve(self.source.keys.listen.rsa_key.as_deref()?);
        let key = secret::read(&path).and_then(|pem| {
            RsaKey::from_pem(pem.reveal()).map_err(|error| format!("{} {error}", path.display()))
        });
        key.map(Arc::new).map_err(|why| self.error("listen.rsa_key", why)).ok()
    }

    fn backend(&mut self) -> Option<Backend> {
        let backend = &self.source.keys.backend;
        let tls = &backend.tls;
        let verifies = matches!(tls.mode, BackendTlsMode::VerifyCa | BackendTlsMode::VerifyIdentity);
        if verifies && tls.ca.is_none() {
            self.error(
                "backend.tls.ca",
                "is missing, and the mode verifies the server with it; name a file of CA certificates",
            );
        }
        let settings = BackendTls {
            mode: tls.mode,
            ca: self.readable("backend.tls.ca", tls.ca.as_deref()),
            identity: self.identity("backend.tls", tls.cert.as_deref(), tls.key.as_deref()),
        };
        let addresses = backend.address.clone().map(OneOrMany::into_vec)?;
        if addresses.is_empty() {
            self.error("backend.address", "is an empty list; write at least one address");
        }
        Some(Backend {
            addresses: addresses.iter().map(|place| self.address(&place.0)).collect(),
            send_proxy: backend.send_proxy,
            compression: backend.compression,
            clear_passwords: backend.clear_passwords,
            tls: settings,
            connect_timeout: backend.connect_timeout.0,
        })
    }

    pub(super) fn identity(
        &mut self,
        table: &str,
        cert: Option<&Path>,
        key: Option<&Path>,
    ) -> Option<TlsIdentity> {
        let names = [format!("{table}.cert"), format!("{table}.key")];
        let [cert_name, key_name] = &names;
        match (cert.is_some(), key.is_some()) {
            (true, false) => {
                self.error(key_name, "is missing; name the PEM file of the certificate's private key");
            }
            (false, true) => {
                self.error(cert_name, "is missing; name the PEM file of the private key's certificate");
            }
            (true, true) | (false, false) => {}
        }
        let cert = self.readable(cert_name, cert);
        let key = self.readable(key_name, key);
        Some(TlsIdentity { cert: cert?, key: key? })
    }

    /// The path, resolved; an error where there is no such file.
    pub(super) fn readable(&mut self, key: &str, path: Option<&Path>) -> Option<PathBuf> {
        let path = self.source.resolve(path?);
        if let Err(error) = fs::File::open(&path) {
            self.error(key, secret::cannot_be_read(&path, &error));
        }
        Some(path)
    }

    fn limits(&mut self) -> Limits {
        let limits = &self.source.keys.limits;
        let bytes = limits.statement_bytes.0;
        if bytes > STATEMENT_BYTES_MAX {
            let max = ByteSize(STATEMENT_BYTES_MAX);
            self.error(
                "limits.statement_bytes",
                format!("is more than a server accepts; write at most \"{max}\""),
            );
        }
        // Numbers beyond the machine's words mean as many as it can have.
        let count = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Limits {
            connections_max: count(limits.connections),
            connections_per_user_max: count(limits.per_user),
            connections_per_address_max: count(limits.per_address),
            handshake_timeout: limits.handshake_timeout.0,
            idle_timeout: limits.idle_timeout.0,
            write_timeout: limits.write_timeout.0,
            statement_bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX),
            drain_timeout: limits.drain_timeout.0,
        }
    }

    fn control(&mut self) -> Option<Account> {
        let control = self.source.keys.backend.control.as_ref()?;
        let places =
            (control.password.as_ref(), control.password_file.as_deref(), control.password_env.as_deref());
        let password = self.password("backend.control", places, true);
        Some(Account { user: control.user.clone()?, password: password? })
    }

    /// The password of an account whose keys are in `table`. `may_be_empty`: some servers' accounts have none.
    pub(super) fn password(
        &mut self,
        table: &str,
        places: Passwords<'_>,
        may_be_empty: bool,
    ) -> Option<Secret> {
        let name = |key| format!("{table}.{key}");
        let (key, found) = match places {
            (Some(password), None, None) => {
                self.warn_if_others_read(&name("password"));
                (name("password"), Some(password.clone()))
            }
            (None, Some(file), None) => {
                let (key, path) = (name("password_file"), self.source.resolve(file));
                let found = secret::read(&path).map_err(|why| self.error(&key, why)).ok();
                (key, found)
            }
            (None, None, Some(variable)) => {
                let (key, value) = (name("password_env"), self.environment.text(variable));
                let value = value.map_err(|why| self.error(&key, format!("{why}; set it for this process")));
                (key, value.ok().map(|text| Secret::new(text.to_owned())))
            }
            (None, None, None) => {
                let none = if may_be_empty { " (\"\" for none)" } else { "" };
                let why = format!("needs a password; write password_file, password_env or password{none}");
                self.error(table, why);
                return None;
            }
            _ => {
                let why = "has several passwords; write one of password_file, password_env and password";
                self.error(table, why);
                return None;
            }
        };
        if !may_be_empty && found.as_ref().is_some_and(|password| password.reveal().is_empty()) {
            self.error(&key, "is an empty password, and anybody could log in with it; write a password");
            return None;
        }
        found
    }

    fn warn_if_others_read(&mut self, key: &str) {
        let file = &self.source.file;
        if self.source.is_in_file(key)
            && fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & OTHERS_MODE != 0)
        {
            let text = format!("others than the owner may read the file; run chmod 600 {}", file.display());
            self.findings.push(self.source.warning(key, text));
        }
    }

    fn admin(&mut self) -> AdminSettings {
        let admin = &self.source.keys.admin;
        let users = self.admin_users(&admin.users);
        let address = match &admin.address {
            Some(OrOff::At(address)) => {
                if admin.users.is_empty() {
                    let why = "is set, but admin.users is empty, so only users of the store can log in, and none of admin.users can make \
                               the first of them; add a user, or write \"off\"";
                    self.warning("admin.address", why);
                }
                Some(self.address(address))
            }
            None if !admin.users.is_empty() => {
                Some(Address::Tcp { host: "127.0.0.1".to_owned(), port: AdminSettings::PORT })
            }
            None | Some(OrOff::Off) => None,
        };
        AdminSettings { address, is_written: admin.address.is_some(), users: users.into() }
    }

    fn admin_users(&mut self, keys: &[AdminUser]) -> Vec<Arc<User>> {
        let mut first = BTreeMap::new();
        let mut users = Vec::new();
        for (nth, user) in keys.iter().enumerate() {
            let table = format!("admin.users[{nth}]");
            let places =
                (user.password.as_ref(), user.password_file.as_deref(), user.password_env.as_deref());
            let password = self.password(&table, places, false);
            // A name that is missing has its finding.
            let Some(name) = &user.name else { continue };
            let key = format!("{table}.name");
            if let Some(before) = first.insert(name, self.source.line(&key)) {
                self.error(&key, format!("{name:?} is already in line {before}; remove one of the two"));
            }
            users.extend(password.map(|password| {
                let password = Zeroizing::new(password.reveal().to_owned());
                Arc::new(User::of_file(name, password, user.role))
            }));
        }
        users
    }
}

/// Host name and listen port.
fn default_name(listen: &Address) -> String {
    let host = host_name();
    match listen {
        Address::Tcp { port, .. } => format!("{host}:{port}"),
        Address::Unix(path) => format!("{host}:{}", path.display()),
    }
}

pub(super) fn host_name() -> String {
    let sources = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let read = sources.iter().find_map(|path| fs::read_to_string(path).ok());
    let host = read.as_deref().map(str::trim).filter(|host| !host.is_empty());
    host.unwrap_or("localhost").to_owned()
}
