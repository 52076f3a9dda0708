//! Which accounts lack a right that Rowstamp's INSERTs need, and a client's do not: to the id's column, and to what a stage is made of.
//!
//! Measured on MariaDB 10.11 and MySQL 9.7: INSERT on the id's column (1143) for any INSERT; on MariaDB UPDATE on it for ON DUPLICATE KEY
//! UPDATE, which needs it on each column of the INSERT's list; CREATE TEMPORARY TABLES, and SELECT on the columns that are filled, for a stage.

use std::collections::BTreeSet;

use crate::lint::checks::grants::{Grants, dialect_server, like};
use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::{Live, Survey};
use crate::schema::facts::{Accounts, ColumnFacts, PUBLIC, Privilege, Scope};
use crate::sql::dialect::ServerKind;
use crate::sql::name::{quoted, same_column};
use crate::table_name::NameCase;

/// So many accounts are named in one finding.
const NAMED_MAX: usize = 8;

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    let facts = survey.facts;
    if !survey.tables.is_empty() && !Grants::of(facts).has("SELECT", "mysql", None) {
        found.push(Finding::note(
            Code::AccountsUnseen,
            Where::object("mysql"),
            "the control account sees only its own grants: Rowstamp cannot tell whether an application's account has grants on single \
             columns, or lacks CREATE TEMPORARY TABLES",
            "GRANT SELECT ON `mysql`.* to the control account, or look at SHOW GRANTS of each account that connects to Rowstamp",
        ));
    }
    let accounts = all(&facts.accounts, facts.case);
    let is_mariadb = dialect_server(facts.server.variable("version")).kind == ServerKind::MariaDb;
    let mut temporary: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (live, id) in survey.columns() {
        let table = Judged { live, id, is_mariadb };
        let may_insert = accounts.iter().filter(|account| account.reach("INSERT", live).is_any());
        let may_insert: Vec<&Account<'_>> = may_insert.collect();
        for lack in [Lack::Insert, Lack::Update, Lack::Select] {
            let who = may_insert.iter().filter(|account| table.lacks(lack, account));
            let who: Vec<&str> = who.map(|account| account.name).collect();
            found.extend((!who.is_empty()).then(|| table.finding(lack, &who)));
        }
        let schema = live.table.schema.as_str();
        let no_stage = may_insert.iter().filter(|account| !account.has("CREATE TEMPORARY TABLES", schema));
        temporary.extend(no_stage.map(|account| (schema, account.name)));
    }
    let schemas: BTreeSet<&str> = temporary.iter().map(|(schema, _)| *schema).collect();
    for schema in schemas {
        let who: Vec<&str> =
            temporary.iter().filter(|(of, _)| *of == schema).map(|(_, account)| *account).collect();
        found.push(Finding::note(
            Code::AccountUnstaged,
            Where::object(schema),
            format!(
                "{} can insert, but cannot create temporary tables: INSERT ... SELECT, LOAD and expressions as ids are refused for such an account",
                named(&who)
            ),
            format!("GRANT CREATE TEMPORARY TABLES ON {}.* TO {}", quoted(schema), named(&who)),
        ));
    }
}

/// The right that the accounts of a finding lack.
#[derive(Clone, Copy)]
enum Lack {
    Insert,
    /// On MariaDB: the account can insert ids and update rows, but cannot update their ids.
    Update,
    /// The account fills columns that it may not read. The id does not count: it is read only if a statement brings it.
    Select,
}

/// A ruled table and its id's column.
struct Judged<'a> {
    live: &'a Live<'a>,
    id: &'a ColumnFacts,
    is_mariadb: bool,
}

impl Judged<'_> {
    fn lacks(&self, lack: Lack, account: &Account<'_>) -> bool {
        let id = &self.id.shape.name;
        let reach = |privilege| account.reach(privilege, self.live);
        match lack {
            Lack::Insert => !reach("INSERT").covers(id),
            Lack::Update => {
                let updates = reach("UPDATE");
                let may_insert_ids = || !self.lacks(Lack::Insert, account);
                self.is_mariadb && updates.is_any() && !updates.covers(id) && may_insert_ids()
            }
            Lack::Select => {
                let (inserts, reads) = (reach("INSERT"), reach("SELECT"));
                let mut columns = self.live.table.shapes().filter(|shape| !same_column(&shape.name, id));
                columns.any(|shape| inserts.covers(&shape.name) && !reads.covers(&shape.name))
            }
        }
    }

    fn finding(&self, lack: Lack, who: &[&str]) -> Finding {
        let (table, id, place) =
            (self.live.quoted(), quoted(&self.id.shape.name), self.live.column_place(self.id));
        let who = named(who);
        match lack {
            Lack::Insert => Finding::warning(
                Code::AccountDenied,
                place,
                format!(
                    "{who} can insert into other columns, but not into the id column, which Rowstamp fills: such INSERTs fail with error 1143"
                ),
                format!("GRANT INSERT ({id}) ON {table} TO {who}"),
            ),
            Lack::Update => Finding::warning(
                Code::AccountDenied,
                place,
                format!(
                    "{who} can update other columns, but not the id column: in MariaDB, ON DUPLICATE KEY UPDATE of an INSERT that names the id then fails with error 1143"
                ),
                format!("GRANT UPDATE ({id}) ON {table} TO {who}"),
            ),
            Lack::Select => Finding::note(
                Code::AccountUnstaged,
                self.live.place(),
                format!(
                    "{who} can fill columns, but cannot read them: INSERT ... SELECT, LOAD and expressions as ids are refused for such an account"
                ),
                format!("GRANT SELECT ON {table} TO {who}"),
            ),
        }
    }
}

/// An account with its roles.
struct Account<'a> {
    name: &'a str,
    rights: Vec<&'a Privilege>,
    case: NameCase,
}

/// The part of a table that a right is for.
enum Reach<'a> {
    Whole,
    Columns(Vec<&'a str>),
}

impl Reach<'_> {
    fn is_any(&self) -> bool {
        !matches!(self, Reach::Columns(columns) if columns.is_empty())
    }

    fn covers(&self, column: &str) -> bool {
        match self {
            Reach::Whole => true,
            Reach::Columns(columns) => columns.iter().any(|one| same_column(one, column)),
        }
    }
}

impl<'a> Account<'a> {
    /// True if the account has the right on the whole schema, not on some of its tables alone.
    fn has(&self, privilege: &str, schema: &str) -> bool {
        self.rights.iter().any(|right| {
            right.name == privilege
                && match &right.on {
                    Scope::All => true,
                    Scope::Schema(pattern) => like(pattern, schema),
                    Scope::Table { .. } | Scope::Column { .. } => false,
                }
        })
    }

    fn reach(&self, privilege: &str, live: &Live<'_>) -> Reach<'a> {
        let (of, is) = (live.table, |a: &str, b: &str| self.case.folded(a) == self.case.folded(b));
        let is_one = |schema: &str, table: &str| is(schema, &of.schema) && is(table, &of.name);
        if self.has(privilege, &of.schema) {
            return Reach::Whole;
        }
        let mut columns = Vec::new();
        for right in self.rights.iter().filter(|right| right.name == privilege) {
            match &right.on {
                Scope::Table { schema, table } if is_one(schema, table) => return Reach::Whole,
                Scope::Column { schema, table, column } if is_one(schema, table) => columns.push(&**column),
                _ => {}
            }
        }
        Reach::Columns(columns)
    }
}

/// All accounts that have any right or role. Roles themselves are left out.
fn all(accounts: &Accounts, case: NameCase) -> Vec<Account<'_>> {
    let roles: BTreeSet<&String> = accounts.roles.values().flatten().collect();
    let names = accounts.rights.keys().chain(accounts.roles.keys());
    let names: BTreeSet<&String> =
        names.filter(|name| !roles.contains(name) && !name.ends_with("@''")).collect();
    let with_roles = |name: &'_ String| {
        let mut of: Vec<&str> = vec![name, PUBLIC];
        let mut at = 0;
        while let Some(one) = of.get(at) {
            let more = accounts.roles.get(*one).into_iter().flatten().map(|role| &**role);
            let more: Vec<&str> = more.filter(|role| !of.contains(role)).collect();
            of.extend(more);
            at += 1;
        }
        of.iter().filter_map(|one| accounts.rights.get(*one)).flatten().collect()
    };
    names.into_iter().map(|name| Account { name, rights: with_roles(name), case }).collect()
}

fn named(who: &[&str]) -> String {
    let (first, rest) = who.split_at(who.len().min(NAMED_MAX));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    first.join(", ") + &more
}
