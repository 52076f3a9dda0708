//! The known facts about the store that keeps the rules' bounds.

use std::collections::BTreeMap;

use crate::schema::facts::ServerFacts;
use crate::store::mysql::NeededRight;
use crate::store::record::{GeneratorRecord, IdentityRecord, SuspectRecord, decode};
use crate::store::{Json, Key, StoreError, Versioned};
use crate::users::{User, user_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    Embedded,
    Etcd,
    Mysql,
}

#[derive(Debug, Clone)]
pub struct StoreFacts {
    pub kind: StoreKind,
    /// By `schema.name`; an error: why they could not be read. A store that is not there yet has none.
    pub generators: Result<BTreeMap<String, GeneratorRecord>, String>,
    /// For kind "mysql": the server that the store's table is on, if it could be asked.
    pub server: Option<ServerFacts>,
    /// The rights that the account of a store in a table lacks.
    pub denied: Option<Denied>,
    pub suspect: Option<SuspectRecord>,
    /// The users of the store by name, without users that were dropped; an error: why the record cannot be read.
    pub users: Vec<(String, Result<User, StoreError>)>,
    /// The id of the store; `None`: no proxy has asked for one.
    pub identity: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// `user@host`
    pub account: String,
    pub needs: Vec<NeededRight>,
}

impl StoreFacts {
    pub fn of(kind: StoreKind, records: &[(Key, Versioned<Json>)]) -> Self {
        let mut facts = StoreFacts::unread(kind, String::new());
        let (mut generators, mut damaged) = (BTreeMap::new(), None);
        for (key, found) in records {
            let error = if let Some(name) = key.as_str().strip_prefix(Key::GENERATORS) {
                let put = |record| drop(generators.insert(name.to_owned(), record));
                decode(key, &found.value).map(put).err()
            } else if *key == Key::suspect() {
                decode(key, &found.value).map(|record| facts.suspect = Some(record)).err()
            } else if *key == Key::identity() {
                decode(key, &found.value).map(|record: IdentityRecord| facts.identity = Some(record.id)).err()
            } else {
                facts.users.extend(user_of(key, &found.value));
                None
            };
            damaged = damaged.or(error);
        }
        facts.generators = damaged.map_or(Ok(generators), |error| Err(error.to_string()));
        facts
    }

    /// The facts of a store that is not made yet.
    pub fn empty(kind: StoreKind) -> Self {
        StoreFacts::of(kind, &[])
    }

    /// The facts of a store that did not answer, or may not be opened.
    pub fn unread(kind: StoreKind, why: impl Into<String>) -> Self {
        StoreFacts {
            kind,
            generators: Err(why.into()),
            server: None,
            denied: None,
            suspect: None,
            users: Vec::new(),
            identity: None,
        }
    }

    /// The facts from the records; if these could not be read, facts that say why.
    pub fn read(kind: StoreKind, records: Result<Vec<(Key, Versioned<Json>)>, StoreError>) -> Self {
        match records {
            Ok(records) => StoreFacts::of(kind, &records),
            Err(error) => StoreFacts::unread(kind, error.to_string()),
        }
    }
}
