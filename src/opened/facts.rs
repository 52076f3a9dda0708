//! The store as `check --online` looks at it. None is made, and none that does not answer is waited
//! for long.

use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::config::{Config, Mysql, StoreKind};
use crate::lint::{self, Access, Denied, StoreFacts};
use crate::opened::store::{OperatorStore, store_account};
use crate::schema::facts::ServerFacts;
use crate::schema::{Schema, SchemaError};
use crate::store::mysql::Table;
use crate::store::{Json, Key, Store, Versioned};

/// Longer than a store's own deadlines.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn facts(config: &Config) -> StoreFacts {
    match &config.store.kind {
        StoreKind::Embedded { path } if !path.exists() => StoreFacts::empty(lint::StoreKind::Embedded),
        StoreKind::Embedded { .. } => opened(config, lint::StoreKind::Embedded).await,
        StoreKind::Etcd(_) => opened(config, lint::StoreKind::Etcd).await,
        StoreKind::Mysql(mysql) => of_table(config, mysql).await,
    }
}

async fn opened(config: &Config, kind: lint::StoreKind) -> StoreFacts {
    let read = async { anyhow::Ok(OperatorStore::look(config).await?.list("").await?) };
    of_answer(kind, timeout(LIMIT, read).await)
}

/// [`facts`], of a proxy that runs and has it open.
pub(crate) async fn facts_of(store: &dyn Store, config: &Config) -> StoreFacts {
    let kind = match &config.store.kind {
        StoreKind::Embedded { .. } => lint::StoreKind::Embedded,
        StoreKind::Etcd(_) => lint::StoreKind::Etcd,
        StoreKind::Mysql(mysql) => return of_table(config, mysql).await,
    };
    of_answer(kind, timeout(LIMIT, store.list("")).await.map(|read| Ok(read?)))
}

/// The users and the doors, by the configuration.
pub(crate) fn access_of(config: &Config) -> Access {
    let doors = [&config.resp, &config.api].into_iter().filter_map(|door| door.address.as_ref());
    Access { users: config.admin.users.clone(), doors: doors.map(ToString::to_string).collect() }
}

type Records = anyhow::Result<Vec<(Key, Versioned<Json>)>>;

fn of_answer(kind: lint::StoreKind, answer: Result<Records, Elapsed>) -> StoreFacts {
    match answer {
        Ok(Ok(records)) => StoreFacts::of(kind, &records),
        Ok(Err(error)) => StoreFacts::unread(kind, format!("{error:#}")),
        Err(_) => StoreFacts::unread(kind, format!("the store did not answer within {LIMIT:?}")),
    }
}

/// A table that is not there yet holds nothing.
async fn of_table(config: &Config, mysql: &Mysql) -> StoreFacts {
    let kind = lint::StoreKind::Mysql;
    match table(config, mysql).await {
        Err(error) => StoreFacts::unread(kind, error.to_string()),
        Ok(None) => StoreFacts::unread(kind, "store.user is missing; write store.user, or [backend.control]"),
        Ok(Some(Seen { server, is_made, denied })) => {
            let facts = if is_made { opened(config, kind).await } else { StoreFacts::empty(kind) };
            StoreFacts { server: Some(server), denied, ..facts }
        }
    }
}

struct Seen {
    server: ServerFacts,
    /// The table: of a store in Leaf's table, the one of ours beside it.
    is_made: bool,
    denied: Option<Denied>,
}

async fn table(config: &Config, mysql: &Mysql) -> Result<Option<Seen>, SchemaError> {
    let Some(account) = store_account(config, mysql) else { return Ok(None) };
    let schema = Schema::connect(&account).await?;
    let table = Table::parse(&mysql.table);
    let own = table.own();
    let is_made = schema.shape(&own.schema, &own.name).await?.is_some();
    let mut needs = Vec::new();
    for need in table.needs(is_made) {
        if schema.is_denied(&need.statement).await? {
            needs.push(need);
        }
    }
    let denied =
        if needs.is_empty() { None } else { Some(Denied { account: schema.account().await?, needs }) };
    Ok(Some(Seen { server: ServerFacts::read(&schema).await?, is_made, denied }))
}
