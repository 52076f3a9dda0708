//! The right of the session's user to insert into a table with a rule at all. Ids are taken before the server judges
//! a statement, so an account without the right could use a generator up with statements that are all denied. The
//! server is therefore asked before the first one: the session prepares an INSERT of the id alone, which every
//! rewritten statement needs the right to. That costs one round trip for each account and table in the proxy's life.
//! The right to `id=LAST_INSERT_ID(id)` in ON DUPLICATE KEY UPDATE, which reports the updated row's id, is asked in the
//! same way: the assignment is left out where the account may not read and update the id.
//!
//! Measured on MariaDB 10.11 and MySQL 9.7: COM_STMT_PREPARE leaves ROW_COUNT(), FOUND_ROWS() and
//! LAST_INSERT_ID() alone; MariaDB's resets the counts of warnings and errors. The right is checked
//! before the table is opened, so locks, missing columns and the like do not hide that it is not
//! there.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::mysql::error::{err_payload, parse_err};
use crate::proxy::known::answered::Answered;
use crate::proxy::known::need::{IdRight, Need, Unsent};
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::sql::name;
use crate::table_name::TableName;

/// Users and tables that are remembered; where there are more, all are asked about again.
const REMEMBERED_MAX: usize = 100_000;
/// Tables that a session knows without asking the memory of all.
const OWN_MAX: usize = 16;
/// The most ids of a statement whose right is not asked for, or was denied.
const UNASKED_IDS_MAX: u32 = 16;

/// The key of an account: the user's name, and the client's address if the proxy sends it to the server.
type Account = (Vec<u8>, Option<IpAddr>);

/// The rights that accounts are known to have, for all sessions of the proxy.
#[derive(Debug, Default)]
pub struct Allowed(Mutex<HashMap<Account, HashSet<(IdRight, TableName)>>>);

impl Allowed {
    fn has(&self, account: &Account, right: IdRight, table: TableName) -> bool {
        self.0.lock().get(account).is_some_and(|rights| rights.contains(&(right, table)))
    }

    pub(crate) fn note(&self, account: &Account, right: IdRight, table: TableName) {
        let mut all = self.0.lock();
        if all.values().map(HashSet::len).sum::<usize>() >= REMEMBERED_MAX {
            all.clear();
        }
        all.entry(account.clone()).or_default().insert((right, table));
    }

    fn forget(&self, account: &Account, table: &TableName) {
        if let Some(rights) = self.0.lock().get_mut(account) {
            rights.retain(|(_, other)| other != table);
        }
    }
}

/// The server's answer about a right, for the statement that is being judged.
#[derive(Debug)]
enum Answer {
    /// The server's error packet. The text may also name the GRANT that the account lacks.
    Denied(Vec<u8>),
    /// The server did not tell, or could not be asked. The server judges the statement itself.
    Unsure,
}

#[derive(Debug)]
pub(crate) struct Rights {
    account: Account,
    all: Arc<Allowed>,
    own: Vec<(IdRight, TableName)>,
    /// Tables whose ids it may not update. Another session asks again.
    cannot_update: Vec<TableName>,
    answers: Vec<(TableName, Answer)>,
}

/// The name that the statement goes by: the view's, where it names one.
fn name_of(target: &Target) -> TableName {
    let (schema, name) = target.named();
    TableName::new(schema, name)
}

/// Errors of an account that lacks a right: `ER_DBACCESS_DENIED_ERROR`, `ER_TABLEACCESS_DENIED_ERROR`, `ER_COLUMNACCESS_DENIED_ERROR`,
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_VIEW_INVALID`, `ER_PROCACCESS_DENIED_ERROR`, `ER_NO_SUCH_USER` (the view's definer).
const RIGHT_MISSING: [u16; 7] = [1044, 1142, 1143, 1227, 1356, 1370, 1449];

/// The server's error 1143 of the id's column, which the client may not have named, and the grant that is missing. `None`: it is
/// another error.
pub(crate) fn with_remedy(payload: &[u8], target: &Target) -> Option<Vec<u8>> {
    const COLUMN_DENIED: u16 = 1143;
    let (code, text) = parse_err(payload).filter(|(code, _)| *code == COLUMN_DENIED)?;
    let privilege = text.split(' ').next().filter(|word| matches!(*word, "INSERT" | "SELECT" | "UPDATE"))?;
    let id = target.id_column();
    if !text.to_lowercase().contains(&format!(" for column '{}' ", id.to_lowercase())) {
        return None;
    }
    let (schema, table) = target.named();
    let [id, schema, table] = [id, schema, table].map(name::quoted);
    let remedy = format!(
        "{text}; Rowstamp fills this column: GRANT {privilege} ({id}) ON {schema}.{table} TO the account"
    );
    Some(err_payload(code, *b"42000", &remedy))
}

impl Rights {
    pub(crate) fn new(account: Account, all: Arc<Allowed>) -> Self {
        Rights { account, all, own: Vec::new(), cannot_update: Vec::new(), answers: Vec::new() }
    }

    /// The name of the user who is logged in to the server.
    pub(crate) fn user(&self) -> &[u8] {
        &self.account.0
    }

    /// The session is another user's now: nothing that was known of the rights holds.
    pub(crate) fn changes(&mut self, user: &[u8]) {
        self.account.0 = user.to_vec();
        self.own.clear();
        self.cannot_update.clear();
        self.answers.clear();
    }

    fn is_own(&self, right: IdRight, target: &Target) -> bool {
        self.own.iter().any(|(own, table)| *own == right && table.is(target.named()))
    }

    fn has(&self, right: IdRight, target: &Target) -> bool {
        self.is_own(right, target) || self.all.has(&self.account, right, name_of(target))
    }

    /// Notes the right for this session alone, which then asks nobody.
    fn note_own(&mut self, right: IdRight, target: &Target) {
        self.own.push((right, name_of(target)));
    }

    /// The server has let the account use it, or would.
    pub(crate) fn note(&mut self, right: IdRight, target: &Target) {
        if self.is_own(right, target) {
            return;
        }
        self.note_own(right, target);
        self.all.note(&self.account, right, name_of(target));
    }

    /// The server has answered an INSERT into it with this error.
    pub(crate) fn note_error(&mut self, target: &Target, code: u16) {
        if RIGHT_MISSING.contains(&code) {
            self.own.clear();
            self.all.forget(&self.account, &name_of(target));
        }
    }

    pub(crate) fn answered(&mut self, right: IdRight, target: &Target, answered: Answered) {
        match answered {
            Ok(_) => self.note(right, target),
            Err(error)
                if right == IdRight::Update
                    && RIGHT_MISSING.contains(&error.code)
                    && !error.text.starts_with("INSERT ") =>
            {
                self.cannot_update.push(name_of(target));
            }
            // The statement itself shows it.
            Err(_) if right == IdRight::Update => self.note_own(right, target),
            Err(error) if RIGHT_MISSING.contains(&error.code) => {
                let told = with_remedy(&error.payload, target).unwrap_or(error.payload);
                self.answers.push((name_of(target), Answer::Denied(told)));
            }
            Err(_) => self.answers.push((name_of(target), Answer::Unsure)),
        }
    }

    /// The server could not be asked.
    pub(crate) fn unsure(&mut self, right: IdRight, target: &Target) {
        match right {
            IdRight::Insert => self.answers.push((name_of(target), Answer::Unsure)),
            IdRight::Update => self.note_own(right, target),
        }
    }

    pub(crate) fn cannot_update(&self) -> &[TableName] {
        &self.cannot_update
    }

    /// The question for the right to read and update the id, if an INSERT updates the id to tell the updated row.
    /// `None`: no INSERT does, the right is known, or the text reads counts of warnings, which the question would reset.
    pub(crate) fn update_is_unknown(&self, plan: &Plan, reads_warnings: impl Fn() -> bool) -> Option<Need> {
        let mut telling = plan.inserts.iter().filter(|insert| insert.updates_id());
        let unknown = telling.find(|insert| !self.has(IdRight::Update, &insert.target))?;
        (!reads_warnings()).then(|| Need::Right(IdRight::Update, unknown.target.clone()))
    }

    /// The statement that they were for is decided.
    pub(crate) fn forget_answers(&mut self) {
        self.answers.clear();
        if self.own.len() > OWN_MAX {
            self.own.clear();
        }
        if self.cannot_update.len() > OWN_MAX {
            self.cannot_update.clear();
        }
    }

    /// Why no id may be taken for the packet, or not yet. `reads_warnings`: whether it reads how many warnings or errors the
    /// statement before it had, which are lost where the server is asked.
    pub(crate) fn objection(&self, plan: &Plan, reads_warnings: impl Fn() -> bool) -> Option<Unsent> {
        let takes =
            |insert: &&InsertPlan| insert.ids > 0 || !insert.explicit.is_empty() || insert.stage.is_some();
        let mut asked = plan.inserts.iter().filter(takes);
        asked.find_map(|insert| {
            let target = &insert.target;
            if self.has(IdRight::Insert, target) {
                return None;
            }
            let takes_few = insert.ids <= UNASKED_IDS_MAX && insert.stage.is_none();
            match self.answers.iter().find(|(of, _)| of.is(target.named())) {
                Some((_, Answer::Unsure)) => None,
                // The statements before it in the packet run, and the server denies this one itself.
                Some((_, Answer::Denied(_))) if insert.statement > 0 && takes_few => None,
                Some((_, Answer::Denied(error))) => Some(Unsent::Failed(error.clone())),
                None if takes_few && reads_warnings() => None,
                None => Some(Need::Right(IdRight::Insert, target.clone()).into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Allowed;
    use crate::proxy::known::need::IdRight::{Insert, Update};
    use crate::table_name::TableName;

    #[test]
    fn accounts_are_told_apart() {
        let all = Allowed::default();
        let here = Some("10.0.0.1".parse().unwrap());
        let table = |name: &str| TableName::new("s", name);
        all.note(&(b"u".to_vec(), None), Insert, table("t"));
        assert!(all.has(&(b"u".to_vec(), None), Insert, table("t")));
        assert!(!all.has(&(b"u".to_vec(), None), Update, table("t")));
        for (account, name) in
            [((b"u".to_vec(), here), "t"), ((b"v".to_vec(), None), "t"), ((b"u".to_vec(), None), "u")]
        {
            assert!(!all.has(&account, Insert, table(name)), "{account:?} {name}");
        }
        all.forget(&(b"u".to_vec(), None), &table("t"));
        assert!(!all.has(&(b"u".to_vec(), None), Insert, table("t")));
    }
}
