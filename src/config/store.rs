//! Which store, and how it is reached.

use super::act::Act;
use super::keys::{self, ConfigFile, StoreTlsMode};
use super::{Account, Etcd, EtcdTls, Mysql, StoreKind};
use crate::address::{Address, AddressError};
use crate::proxy::connect::tls::client_faults;

impl Act<'_> {
    pub(super) fn store(&mut self) -> StoreKind {
        self.misplaced();
        let store = &self.source.keys.store;
        match store.kind {
            keys::StoreKindKey::Embedded => StoreKind::Embedded { path: self.source.resolve(&store.path) },
            keys::StoreKindKey::Etcd => StoreKind::Etcd(self.etcd()),
            keys::StoreKindKey::Mysql => StoreKind::Mysql(self.mysql()),
        }
    }

    /// Keys of another kind than the one that is written: each would be without effect.
    fn misplaced(&mut self) {
        let (store, defaults) = (&self.source.keys.store, ConfigFile::default().store);
        let embedded = (&[keys::StoreKindKey::Embedded][..], "\"embedded\"");
        let etcd = (&[keys::StoreKindKey::Etcd][..], "\"etcd\"");
        let mysql = (&[keys::StoreKindKey::Mysql][..], "\"mysql\"");
        let either = (&[keys::StoreKindKey::Etcd, keys::StoreKindKey::Mysql][..], "\"etcd\" or \"mysql\"");
        for (key, is_set, (kinds, names)) in [
            ("store.path", store.path != defaults.path, embedded),
            ("store.endpoints", !store.endpoints.is_empty(), etcd),
            ("store.prefix", store.prefix != defaults.prefix, etcd),
            ("store.tls", store.tls.is_some(), etcd),
            ("store.table", store.table != defaults.table, mysql),
            ("store.address", store.address.is_some(), mysql),
            ("store.user", store.user.is_some(), either),
            ("store.password", store.password.is_some(), either),
            ("store.password_file", store.password_file.is_some(), either),
            ("store.password_env", store.password_env.is_some(), either),
        ] {
            if is_set && !kinds.contains(&store.kind) {
                self.error(key, format!("is only for kind = {names}; write that kind, or remove the key"));
            }
        }
    }

    fn mysql(&mut self) -> Mysql {
        let store = &self.source.keys.store;
        if self.source.keys.backend.control.is_none() && store.user.is_none() {
            let why = "is missing, and the store's table needs an account; add [backend.control] or this key";
            self.error("store.user", why);
        }
        Mysql {
            table: store.table.clone(),
            address: store.address.as_ref().map(|place| place.0.clone()),
            account: self.store_account(),
        }
    }

    fn etcd(&mut self) -> Etcd {
        let store = &self.source.keys.store;
        if store.endpoints.is_empty() {
            let why = "is missing; write etcd's members, for example endpoints = [\"127.0.0.1:2379\"]";
            self.error("store.endpoints", why);
        }
        let endpoints: Vec<_> = store.endpoints.iter().filter_map(|written| self.endpoint(written)).collect();
        let account = self.store_account();
        let tls = self.etcd_tls();
        Etcd { endpoints, prefix: store.prefix.trim_end_matches('/').to_owned(), account, tls }
    }

    /// `host:port`, also of a URL, as etcd's own tools have it; whether TLS is spoken must be the same in both places.
    fn endpoint(&mut self, written: &str) -> Option<String> {
        let schemes = [("http://", false), ("https://", true)];
        let scheme = schemes.into_iter().find(|(scheme, _)| written.starts_with(scheme));
        let bare = scheme.and_then(|(scheme, _)| written.strip_prefix(scheme)).unwrap_or(written);
        let bare = if scheme.is_some() { bare.strip_suffix('/').unwrap_or(bare) } else { bare };
        let tls = self.source.keys.store.tls.as_ref();
        let speaks_tls = tls.is_some_and(|tls| tls.mode != StoreTlsMode::Disabled);
        let why = match (bare.parse(), scheme) {
            (Ok(Address::Tcp { .. }), Some((_, true))) if !speaks_tls && !bare.contains('/') => {
                format!(
                    "{written:?} has TLS, which needs [store.tls] with ca; add [store.tls], or write http://"
                )
            }
            (Ok(Address::Tcp { .. }), Some((_, false))) if speaks_tls && !bare.contains('/') => {
                format!(
                    "{written:?} is without TLS, and [store.tls] demands TLS; write https://, or mode = \"disabled\" in [store.tls]"
                )
            }
            (Ok(Address::Tcp { .. }), _) if !bare.contains('/') => return Some(bare.to_owned()),
            (Err(error @ AddressError::Account), _) => error.to_string(),
            _ => format!(
                "{written:?} is not the address of an etcd member; write host:port, http://host:port or https://host:port"
            ),
        };
        self.error("store.endpoints", why);
        None
    }

    fn store_account(&mut self) -> Option<Account> {
        let store = &self.source.keys.store;
        let places = (store.password.as_ref(), store.password_file.as_deref(), store.password_env.as_deref());
        let Some(user) = store.user.clone() else {
            if places != (None, None, None) {
                self.error("store.user", "is missing; write the name of the user whose password this is");
            }
            return None;
        };
        Some(Account { user, password: self.password("store", places, true)? })
    }

    fn etcd_tls(&mut self) -> Option<EtcdTls> {
        let tls = self.source.keys.store.tls.as_ref()?;
        if tls.mode == StoreTlsMode::Disabled {
            return None;
        }
        if tls.ca.is_none() {
            let why = "is missing; name a file of CA certificates that verify etcd's certificate";
            self.error("store.tls.ca", why);
        }
        let identity = self.identity("store.tls", tls.cert.as_deref(), tls.key.as_deref());
        let ca = self.readable("store.tls.ca", tls.ca.as_deref())?;
        let keys = ["store.tls.ca", "store.tls.cert", "store.tls.key"];
        self.tls_faults(client_faults(keys, &ca, identity.as_ref()));
        Some(EtcdTls { ca, identity })
    }
}
