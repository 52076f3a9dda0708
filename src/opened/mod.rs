//! The control account and the store of a configuration, opened, and the facts about the store.

pub mod facts;
pub mod locks;
pub mod store;

use std::sync::Arc;

use crate::config::Config;
use crate::proxy;
use crate::schema::Control;

/// Rowstamp's own account as the backend's settings have it.
pub fn control(config: &Config) -> Option<Control> {
    let account = config.control.as_ref()?;
    let settings = config.proxy.clone();
    Some(Control {
        addresses: settings.backend.addresses.clone(),
        user: account.user.clone(),
        password: account.password.reveal().to_owned(),
        way: Arc::new(move |address| {
            proxy::connect::control::open(&settings, address).map_err(|error| error.to_string())
        }),
    })
}
