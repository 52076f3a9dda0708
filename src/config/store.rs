//! Which store, and how it is reached.

use super::act::{Act, Passwords};
use super::keys::{self, ConfigFile};
use super::{Account, Etcd, EtcdTls, StoreKind};
use crate::address::Address;
use crate::proxy::settings::BackendTlsMode;

impl Act<'_> {
    /// `None`: `findings` say why, or `later` does.
    pub(super) fn store(&mut self) -> Option<StoreKind> {
        self.misplaced();
        let store = &self.source.keys.store;
        match store.kind {
            keys::StoreKind::Embedded => Some(StoreKind::Embedded { path: self.source.resolve(&store.path) }),
            keys::StoreKind::Etcd => Some(StoreKind::Etcd(self.etcd())),
            keys::StoreKind::Mysql => None,
        }
    }

    /// Keys of another kind than the one that is written: each would be without effect.
    fn misplaced(&mut self) {
        let (store, defaults) = (&self.source.keys.store, ConfigFile::default().store);
        let of_etcd = [
            ("store.endpoints", !store.endpoints.is_empty()),
            ("store.prefix", store.prefix != defaults.prefix),
            ("store.user", store.user.is_some()),
            ("store.password", store.password.is_some()),
            ("store.password_file", store.password_file.is_some()),
            ("store.password_env", store.password_env.is_some()),
            ("store.tls", store.tls.is_some()),
        ];
        let of_embedded = [("store.path", store.path != defaults.path)];
        let (rows, remedy): (&[_], _) = match store.kind {
            keys::StoreKind::Embedded => (&of_etcd, "is for kind = \"etcd\"; write that, or remove the key"),
            keys::StoreKind::Etcd => (&of_embedded, "is for kind = \"embedded\"; remove the key"),
            keys::StoreKind::Mysql => return,
        };
        for (key, _) in rows.iter().filter(|(_, is_set)| *is_set) {
            self.error(key, remedy);
        }
    }

    fn etcd(&mut self) -> Etcd {
        let store = &self.source.keys.store;
        if store.endpoints.is_empty() {
            let why = "is missing; write etcd's members, say, endpoints = [\"127.0.0.1:2379\"]";
            self.error("store.endpoints", why);
        }
        for endpoint in &store.endpoints {
            let is_address = matches!(endpoint.parse(), Ok(Address::Tcp { .. })) && !endpoint.contains('/');
            if !is_address {
                let why = format!("{endpoint:?} is no host:port; TLS is what [store.tls] says");
                self.error("store.endpoints", why);
            }
        }
        let account = self.etcd_account();
        let tls = self.etcd_tls();
        Etcd {
            endpoints: store.endpoints.clone(),
            prefix: store.prefix.trim_end_matches('/').to_owned(),
            account,
            tls,
        }
    }

    fn etcd_account(&mut self) -> Option<Account> {
        let store = &self.source.keys.store;
        let places = Passwords {
            plain: store.password.as_ref(),
            file: store.password_file.as_deref(),
            env: store.password_env.as_deref(),
        };
        let Some(user) = store.user.clone() else {
            if places.plain.is_some() || places.file.is_some() || places.env.is_some() {
                self.error("store.user", "is missing; a password needs its user");
            }
            return None;
        };
        Some(Account { user, password: self.password("store", &places)? })
    }

    fn etcd_tls(&mut self) -> Option<EtcdTls> {
        let tls = self.source.keys.store.tls.as_ref()?;
        // The table's default, "preferred", is nothing that etcd's protocol has: not written, it is to verify.
        if self.source.is_written("store.tls.mode") {
            match tls.mode {
                BackendTlsMode::VerifyIdentity => {}
                BackendTlsMode::Disabled => return None,
                _ => {
                    let why =
                        "etcd is always verified, by name too; write \"verify_identity\" or \"disabled\"";
                    self.error("store.tls.mode", why);
                }
            }
        }
        if tls.ca.is_none() {
            let why = "is missing; name a file of certificates that etcd's lead to";
            self.error("store.tls.ca", why);
        }
        let identity = self.identity("store.tls", tls.cert.as_deref(), tls.key.as_deref());
        Some(EtcdTls { ca: self.readable("store.tls.ca", tls.ca.as_deref())?, identity })
    }
}
