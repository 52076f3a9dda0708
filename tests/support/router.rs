//! MySQL Router before a MySQL 9, with or without `connection_sharing`.

use std::fs;
use std::time::{Duration, Instant};

use super::keeper::Keeper;
use super::machine::{announce, free_port, sid_command, sid_root, temporary_folder};
use super::raw::{Client, Options};
use super::servers::Server;

pub struct Router {
    keeper: Keeper,
    port: u16,
}

impl Router {
    /// `None`: it is not on this machine.
    pub fn start(server: &Server, sharing: bool) -> Option<Router> {
        if !sid_root().join("usr/bin/mysqlrouter").exists() {
            announce("SKIPPED: MySQL Router is not on this machine: tests/install.sh installs it");
            return None;
        }
        let (dir, port) = (temporary_folder("router"), free_port());
        let config = format!(
            "[DEFAULT]\nlogging_folder =\nplugin_folder = {root}/usr/lib/mysqlrouter/plugin\nruntime_folder = {dir}\n\
             data_folder = {dir}\nkeyring_path = {dir}/keyring\n[logger]\nlevel = warning\n[io]\nthreads = 2\n\
             [connection_pool]\nmax_idle_server_connections = 8\n[routing:mysql]\nbind_address = 127.0.0.1\n\
             bind_port = {port}\ndestinations = {to}\nrouting_strategy = first-available\nprotocol = classic\n\
             client_ssl_mode = PREFERRED\nclient_ssl_key = {data}/server-key.pem\nclient_ssl_cert = {data}/server-cert.pem\n\
             server_ssl_mode = PREFERRED\nconnection_sharing = {sharing}\nconnection_sharing_delay = 0.2\n",
            root = sid_root().display(),
            dir = dir.display(),
            to = server.address(),
            data = server.dir().join("data").display(),
            sharing = u8::from(sharing),
        );
        fs::write(dir.join("router.conf"), config).expect("its configuration is written");
        let mut line = sid_command("usr/bin/mysqlrouter");
        line.extend(["--config".to_owned(), dir.join("router.conf").display().to_string()]);
        line.push("--user=root".to_owned());
        let router = Router { keeper: Keeper::start(&dir, &line), port };
        let end = Instant::now() + Duration::from_mins(1);
        while Client::connect(&router.address(), &Options::default()).is_err() {
            assert!(Instant::now() < end && router.keeper.is_running(), "{}", router.keeper.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(router)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}
