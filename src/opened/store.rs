//! The store that a configuration names, opened.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::address::Address;
use crate::config::{Config, Etcd, Mysql, StoreKind};
use crate::log_span::within;
use crate::opened::control;
use crate::schema::Control;
use crate::store::embedded::EmbeddedStore;
use crate::store::etcd::{self, EtcdOperator, EtcdSettings, EtcdStore};
use crate::store::gate::GateStore;
use crate::store::mysql::{self, MysqlStore};
use crate::store::{Key, Store, StoreError, record};

/// The store as an operator has it.
pub struct OperatorStore {
    pub store: Arc<dyn Store>,
    /// The store, if it is etcd: only with etcd do proxies notice by themselves that the store went back.
    pub etcd: Option<Arc<EtcdOperator>>,
}

impl OperatorStore {
    /// A file that is not there is an error, and so is a store whose bounds were moved elsewhere.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        let operator = Self::open_as_it_is(config).await?;
        record::has_not_moved(&*operator.store).await?;
        Ok(operator)
    }

    /// Also one whose bounds were moved elsewhere.
    pub async fn open_as_it_is(config: &Config) -> anyhow::Result<Self> {
        if let StoreKind::Embedded { path } = &config.store.kind
            && !path.exists()
        {
            bail!(
                "{}: there is no store yet; correct store.path, or start `rowstamp serve`, which makes the store",
                path.display()
            );
        }
        Self::make(config).await
    }

    pub async fn open_or_make(config: &Config) -> anyhow::Result<Self> {
        let operator = Self::make(config).await?;
        record::has_not_moved(&*operator.store).await?;
        Ok(operator)
    }

    /// To read only: nothing is made or written. A file or a table that is not there is an error, an etcd without records is not.
    pub async fn look(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
        let store: Arc<dyn Store> = match &config.store.kind {
            StoreKind::Embedded { .. } => return Ok(Self::open(config).await?.store),
            StoreKind::Etcd(etcd) => Arc::new(EtcdOperator::look(&etcd_settings(config, etcd)?).await?),
            StoreKind::Mysql(mysql) => {
                let (servers, table) = mysql_table(config, mysql)?;
                Arc::new(MysqlStore::look(servers, &table).await?)
            }
        };
        record::has_not_moved(&*store).await?;
        Ok(store)
    }

    /// Also one whose bounds were moved elsewhere.
    pub async fn make(config: &Config) -> anyhow::Result<Self> {
        let store: Arc<dyn Store> = match &config.store.kind {
            StoreKind::Embedded { path } => Arc::new(EmbeddedStore::open(path)?),
            StoreKind::Etcd(etcd) => {
                let operator = Arc::new(EtcdOperator::open(&etcd_settings(config, etcd)?).await?);
                return Ok(OperatorStore { store: operator.clone(), etcd: Some(operator) });
            }
            StoreKind::Mysql(mysql) => {
                let (servers, table) = mysql_table(config, mysql)?;
                Arc::new(MysqlStore::open(servers, &table, None).await?)
            }
        };
        Ok(OperatorStore { store, etcd: None })
    }

    /// An error where proxies live; `why` says it of their names.
    pub async fn be_alone(&self, why: impl Fn(String) -> String) -> anyhow::Result<()> {
        let live = self.proxies().await?;
        if live.is_empty() { Ok(()) } else { bail!(why(live.join(", "))) }
    }

    /// Names of the proxies that live.
    pub async fn proxies(&self) -> Result<Vec<String>, StoreError> {
        self.names(Key::PROXIES).await
    }

    /// The rest of each key that begins with `prefix`.
    pub async fn names(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let found = self.store.list(prefix).await?;
        Ok(found.iter().filter_map(|(key, _)| Some(key.as_str().strip_prefix(prefix)?.to_owned())).collect())
    }
}

/// Opens the store as a proxy uses it. Commands use [`OperatorStore`].
pub async fn open(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let opening = async {
        let store = open_kind(config).await?;
        match record::has_not_moved(&*store).await {
            Ok(()) => Ok(store),
            // A store that is late is looked at when it opens.
            Err(error) if error.passes() => Ok(store),
            Err(error) => {
                store.close().await;
                Err(error.into())
            }
        }
    };
    within(("store", described(config)), opening).await
}

async fn open_kind(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    match &config.store.kind {
        StoreKind::Embedded { path } => Ok(Arc::new(EmbeddedStore::open(path)?)),
        StoreKind::Etcd(etcd) => match EtcdStore::open(etcd_settings(config, etcd)?).await {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) if error.passes() => {
                tracing::error!(%error, "the store is not available: INSERTs into tables with rules fail with error 1467 until it is; everything else continues");
                let (config, etcd) = (config.clone(), etcd.clone());
                Ok(GateStore::late(error, move || {
                    let settings = etcd_settings(&config, &etcd);
                    async move {
                        let settings = settings.map_err(|error| StoreError::Unavailable {
                            store: "etcd".to_owned(),
                            reason: format!("{error:#}"),
                        })?;
                        let store = EtcdStore::open(settings).await?;
                        record::has_not_moved(&store).await?;
                        Ok(Arc::new(store) as Arc<dyn Store>)
                    }
                }))
            }
            Err(error) => Err(error.into()),
        },
        StoreKind::Mysql(mysql) => {
            let proxy = mysql::Proxy {
                name: config.proxy.name.clone(),
                address: config.proxy.listen.to_string(),
                api: config.api_elsewhere(),
            };
            let (servers, table) = mysql_table(config, mysql)?;
            Ok(Arc::new(MysqlStore::open(servers, &table, Some(&proxy)).await?))
        }
    }
}

/// The store as people name it.
pub fn described(config: &Config) -> String {
    match &config.store.kind {
        StoreKind::Embedded { path } => {
            format!("the file {}", std::path::absolute(path).unwrap_or_else(|_| path.clone()).display())
        }
        StoreKind::Etcd(etcd) => format!("etcd at {}, prefix {}", etcd.endpoints.join(", "), etcd.prefix),
        StoreKind::Mysql(mysql) => {
            let addresses = store_account(config, mysql).map(|account| account.addresses).unwrap_or_default();
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            format!("the table {} at {}", mysql.table, addresses.join(", "))
        }
    }
}

fn mysql_table(config: &Config, mysql: &Mysql) -> anyhow::Result<(Vec<mysql::Server>, mysql::Table)> {
    let account = store_account(config, mysql)
        .context("store.user is missing; write store.user, or [backend.control]")?;
    let server =
        |(address, way): (&Address, _)| mysql::Server { address: address.to_string(), ways: vec![way] };
    Ok((account.servers()?.into_iter().map(server).collect(), mysql::Table::parse(&mysql.table)))
}

/// The account for the store: the backend's control account, except for what the store's keys say.
pub fn store_account(config: &Config, mysql: &Mysql) -> Option<Control> {
    let mut config = config.clone();
    if let Some(address) = &mysql.address {
        config.proxy.backend.addresses = vec![address.clone()];
    }
    if let Some(account) = &mysql.account {
        config.control = Some(account.clone());
    }
    control(&config)
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
        api: config.api_elsewhere(),
        state_path: config.proxy.state_path.clone(),
    })
}
