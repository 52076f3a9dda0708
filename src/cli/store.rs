//! The store that the configuration names, opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use crate::config::{Config, Etcd, Mysql, StoreKind};
use crate::schema::Control;
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::etcd::{self, EtcdSettings, EtcdStore};
use crate::store::mysql::{self, MysqlStore};

/// For the proxy that it configures.
pub(super) async fn open(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    match &config.store.kind {
        StoreKind::Embedded { path } => Ok(Arc::new(EmbeddedStore::open(path)?)),
        StoreKind::Etcd(etcd) => Ok(Arc::new(EtcdStore::open(etcd_settings(config, etcd)?).await?)),
        StoreKind::Mysql(mysql) => {
            let proxy =
                mysql::Proxy { name: config.proxy.name.clone(), address: config.proxy.listen.to_string() };
            let account = store_account(config, mysql).context("store.user is missing")?;
            let table = mysql::Table::parse(&mysql.table);
            Ok(Arc::new(MysqlStore::open(account.servers(), &table, Some(&proxy)).await?))
        }
    }
}

/// As the backend's control account, but for what the store's keys say.
fn store_account(config: &Config, mysql: &Mysql) -> Option<Control> {
    let mut config = config.clone();
    if let Some(address) = &mysql.address {
        config.proxy.backend.addresses = vec![address.clone()];
    }
    if let Some(account) = &mysql.account {
        config.control = Some(account.clone());
    }
    super::control(&config)
}

fn etcd_settings(config: &Config, etcd: &Etcd) -> anyhow::Result<EtcdSettings> {
    let read =
        |path: &Path| std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
    let account = etcd.account.as_ref().map(|account| etcd::Account {
        user: account.user.clone(),
        password: account.password.reveal().to_owned().into(),
    });
    let tls = match &etcd.tls {
        None => None,
        Some(tls) => {
            let identity = match &tls.identity {
                None => None,
                Some(identity) => Some((read(&identity.cert)?, read(&identity.key)?.into())),
            };
            Some(etcd::EtcdTls { ca: read(&tls.ca)?, identity })
        }
    };
    Ok(EtcdSettings {
        endpoints: etcd.endpoints.clone(),
        prefix: etcd.prefix.clone(),
        account,
        tls,
        name: config.proxy.name.clone(),
        address: config.proxy.listen.to_string(),
        state_path: config.proxy.state_path.clone(),
    })
}
