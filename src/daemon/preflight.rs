//! Faults that would keep `serve` from starting, as far as this machine shows them. Nothing is changed, and no server
//! is asked.
//!
//! The files themselves are read where the configuration is loaded. Here is what they name: addresses, folders, the store.

use std::path::Path;

use rustix::fs::{Access, access};

use crate::address::Address;
use crate::address::listener::Listener;
use crate::config::{Config, Loaded, StoreKind};
use crate::daemon::{doors, folders};
use crate::opened::store::OperatorStore;
use crate::proxy::connect::tls::self_made_fault;
use crate::store::embedded::folder_of;
use crate::takeover::TakeoverServer;
use crate::toml_file::{Finding, Findings, Source};

/// All findings. While a proxy of this `state.path` runs, its addresses are not tried, and its store is not opened.
pub async fn findings(loaded: &Loaded) -> Findings {
    let config = &loaded.config;
    let mut look = Look { places: &loaded.places, findings: Findings::default() };
    let runs = TakeoverServer::is_taken(&config.proxy.state_path).await.is_some();
    if !runs {
        look.addresses(config);
    }
    look.state(config);
    look.audit(config);
    if let StoreKind::Embedded { path } = &config.store.kind {
        look.store(config, path, runs).await;
    }
    look.findings.sorted()
}

struct Look<'a> {
    places: &'a Source<()>,
    findings: Findings,
}

impl Look<'_> {
    fn error(&mut self, key: &str, why: impl std::fmt::Display) {
        self.findings.push(self.places.error(key, why));
    }

    /// Adds an error as a finding about this key. True if there is no error.
    fn is_fine(&mut self, key: &str, tried: anyhow::Result<()>) -> bool {
        let is_fine = tried.is_ok();
        if let Err(error) = tried {
            self.error(key, format!("{error:#}"));
        }
        is_fine
    }

    fn addresses(&mut self, config: &Config) {
        let http = config.http.as_ref();
        let mut before: Vec<(&str, &Address)> = Vec::new();
        let without = |is_written: bool, becomes| (!is_written).then_some(becomes);
        for (key, address, without) in [
            ("listen.address", Some(&config.proxy.listen), None),
            (
                "admin.address",
                config.admin.address.as_ref(),
                without(config.admin.is_written, "there is no console"),
            ),
            (
                "http.address",
                http.map(|http| &http.address),
                without(http.is_some_and(|http| http.is_written), "there are no metrics"),
            ),
            ("resp.address", config.resp.address.as_ref(), None),
            ("api.address", config.api.address.as_ref(), None),
        ] {
            let Some(address) = address else { continue };
            let is_any = matches!(address, Address::Tcp { port: 0, .. });
            let twin = before.iter().find(|(_, other)| *other == address && !is_any);
            let found = match (twin, Listener::probe(address)) {
                (Some((twin, _)), _) => Some(
                    self.places
                        .error(key, format!("{twin} has the same address, {address}; write another address")),
                ),
                (None, Ok(())) => None,
                (None, Err(error)) => Some(self.unbound(key, address, &error, without)),
            };
            self.findings.extend(found);
            before.push((key, address));
        }
    }

    /// `default`: what a process does without, whose default address another has.
    fn unbound(
        &self,
        key: &str,
        address: &Address,
        error: &std::io::Error,
        default: Option<&'static str>,
    ) -> Finding {
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => "stop the program that listens there, or write another address",
            std::io::ErrorKind::PermissionDenied => "write a port or a folder that this user may use",
            _ => "correct the address",
        };
        let text = format!("Rowstamp cannot listen on {address}: {error}; {remedy}");
        match default.filter(|_| error.kind() == std::io::ErrorKind::AddrInUse) {
            Some(becomes) => self.places.warning(key, format!("{text}; until then {becomes}")),
            None => self.places.error(key, text),
        }
    }

    fn state(&mut self, config: &Config) {
        let folder = &config.proxy.state_path;
        if self.is_fine("state.path", folders::shut_to_others(folder, config.others_may_write)) {
            self.is_fine("state.path", folders::writable(folder, true));
        }
        let open = doors::settings(config).into_iter().filter(|door| door.address.is_some());
        let mut doors = std::iter::once(&config.proxy.listen_tls).chain(open.map(|door| &door.tls));
        if let Some(fault) = doors.find_map(|tls| self_made_fault(tls, folder)) {
            self.error("state.path", format!("{fault}; or remove the file: `serve` makes a new one"));
        }
    }

    fn audit(&mut self, config: &Config) {
        let Some(path) = &config.log.audit else { return };
        if path.exists() {
            let can = access(path, Access::WRITE_OK).map_err(std::io::Error::from);
            let is_file = !path.is_dir();
            if let (true, Ok(())) = (is_file, &can) {
                return;
            }
            let why = can.err().map_or("it is a folder".to_owned(), |error| error.to_string());
            self.error(
                "log.audit",
                format!("{} cannot be written: {why}; name another file", path.display()),
            );
        } else {
            self.is_fine("log.audit", folders::writable(folder_of(path), false));
        }
    }

    async fn store(&mut self, config: &Config, path: &Path, runs: bool) {
        let folder = folder_of(path);
        let is_fine = self.is_fine("store.path", folders::shut_to_others(folder, config.others_may_write))
            && self.is_fine("store.path", folders::writable(folder, false));
        // Opened as `serve` opens it. One that is not there is not made.
        if is_fine && path.exists() && !runs {
            self.is_fine("store.path", OperatorStore::open(config).await.map(drop));
        }
    }
}
