//! The console: where it listens and who may log in.

use std::collections::BTreeMap;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::AdminSettings;
use super::act::{Act, Passwords};
use super::keys::AdminUser;
use crate::address::Address;
use crate::toml_file::OrOff;
use crate::users::User;

impl Act<'_> {
    pub(super) fn admin(&mut self) -> AdminSettings {
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
            let places = Passwords {
                plain: user.password.as_ref(),
                file: user.password_file.as_deref(),
                env: user.password_env.as_deref(),
                may_be_empty: false,
            };
            let password = self.password(&table, &places);
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
