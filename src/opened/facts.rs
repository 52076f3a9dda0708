//! The store as `check --online` looks at it. None is made, and none that does not answer is waited for long.

use std::time::Duration;

use crate::config::{Config, Mysql, StoreKind};
use crate::lint::{self, StoreFacts};
use crate::opened::store::{OperatorStore, store_account};
use crate::schema::facts::ServerFacts;
use crate::schema::{Schema, SchemaError};
use crate::store::Store;
use crate::store::mysql::Table;

/// Longer than a store's own deadlines.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn facts(config: &Config) -> StoreFacts {
    match &config.store.kind {
        StoreKind::Embedded { path } if !path.exists() => StoreFacts::empty(lint::StoreKind::Embedded),
        StoreKind::Embedded { .. } => records(config, lint::StoreKind::Embedded).await,
        StoreKind::Etcd(_) => records(config, lint::StoreKind::Etcd).await,
        StoreKind::Mysql(mysql) => of_table(config, mysql).await,
    }
}

async fn records(config: &Config, kind: lint::StoreKind) -> StoreFacts {
    let read = async {
        let desk = OperatorStore::open(config).await?;
        anyhow::Ok(desk.store.list("").await?)
    };
    match tokio::time::timeout(LIMIT, read).await {
        Ok(Ok(records)) => StoreFacts::of(kind, &records),
        Ok(Err(error)) => StoreFacts::unread(kind, format!("{error:#}")),
        Err(_) => StoreFacts::unread(kind, format!("it did not answer within {LIMIT:?}")),
    }
}

/// [`facts`], of a proxy that runs and has it open.
pub(crate) async fn facts_of(store: &dyn Store, config: &Config) -> StoreFacts {
    let kind = match &config.store.kind {
        StoreKind::Embedded { .. } => lint::StoreKind::Embedded,
        StoreKind::Etcd(_) => lint::StoreKind::Etcd,
        StoreKind::Mysql(mysql) => return of_table(config, mysql).await,
    };
    match tokio::time::timeout(LIMIT, store.list("")).await {
        Ok(Ok(records)) => StoreFacts::of(kind, &records),
        Ok(Err(error)) => StoreFacts::unread(kind, error.to_string()),
        Err(_) => StoreFacts::unread(kind, format!("it did not answer within {LIMIT:?}")),
    }
}

/// A table that is not there yet holds nothing.
async fn of_table(config: &Config, mysql: &Mysql) -> StoreFacts {
    let kind = lint::StoreKind::Mysql;
    match server(config, mysql).await {
        Err(error) => StoreFacts::unread(kind, error.to_string()),
        Ok(None) => StoreFacts::unread(kind, "store.user is missing"),
        Ok(Some((server, is_made))) => {
            let facts = if is_made { records(config, kind).await } else { StoreFacts::empty(kind) };
            StoreFacts { server: Some(server), ..facts }
        }
    }
}

/// The table's server, and whether the table is made.
async fn server(config: &Config, mysql: &Mysql) -> Result<Option<(ServerFacts, bool)>, SchemaError> {
    let Some(account) = store_account(config, mysql) else { return Ok(None) };
    let schema = Schema::connect(&account).await?;
    let table = Table::parse(&mysql.table);
    let is_made = schema.shape(&table.schema, &table.name).await?.is_some();
    Ok(Some((ServerFacts::read(&schema).await?, is_made)))
}
