//! A statement, whoever it is sent by and however: what it answers, and what its answer's columns are.

use std::time::SystemTime;

use super::command::{self, Command};
use super::failure::Failure;
use crate::admin::console::client::greetings::{self, Reply};
use crate::admin::console::client::guest::Guest;
use crate::admin::console::show::table::{Column, Table, Type, Value, texts};
use crate::admin::console::{help, show};
use crate::admin::desk::{Desk, Raised, Reload, Role, User};

/// Sessions are shown by their users as well as by numbers: LIKE compares that column.
const SESSIONS_LIKE: usize = 2;

/// Who is logged in.
pub(super) struct Caller {
    pub(super) user: User,
    /// The address that the connection comes from, as the log has it.
    pub(super) client: String,
    pub(super) connection_id: u32,
    pub(super) is_tls: bool,
}

impl Caller {
    /// The account as it is now: a reload may have changed it.
    fn role(&self, desk: &dyn Desk) -> Result<Role, Failure> {
        let users = desk.users();
        let now =
            users.iter().find(|user| user.name == self.user.name && user.password == self.user.password);
        now.map(|user| user.role).ok_or(Failure::Gone)
    }

    fn guest<'a>(
        &'a self,
        database: Option<&'a str>,
        up_seconds: u64,
        schemas: &'a (dyn Fn() -> Vec<String> + Sync),
    ) -> Guest<'a> {
        Guest {
            user: &self.user.name,
            client: &self.client,
            connection_id: self.connection_id,
            database,
            is_tls: self.is_tls,
            up_seconds,
            schemas,
        }
    }
}

/// What a client is answered.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// OK, with a word of what was done.
    Done(&'static str),
    /// OK, and this is the default database.
    Use(String),
    Table(Table),
}

pub(super) async fn run(
    desk: &dyn Desk,
    caller: &Caller,
    database: Option<&str>,
    statement: &str,
) -> Result<Answer, Failure> {
    let role = caller.role(desk)?;
    if let Some(reply) = greeting(desk, caller, database, statement) {
        return reply.map(|reply| match reply {
            Reply::Done => Answer::Done(""),
            Reply::Use(database) => Answer::Use(database),
            Reply::Table(table) => Answer::Table(table),
        });
    }
    let command = command::parse(statement)?;
    if let Some(what) = needs_write(&command) {
        if role < Role::Write {
            return Err(Failure::NeedsWrite(what));
        }
        // What operators do is the log's to remember; EXPLAIN, which holds literals, is not among it.
        tracing::info!(user = caller.user.name, client = caller.client, "the console: {command}");
    }
    act(desk, command, database).await
}

fn greeting(
    desk: &dyn Desk,
    caller: &Caller,
    database: Option<&str>,
    statement: &str,
) -> Option<Result<Reply, Failure>> {
    let schemas = || {
        let mut schemas: Vec<_> = desk.rules().into_iter().map(|rule| rule.schema).collect();
        schemas.sort();
        schemas.dedup();
        schemas
    };
    let up = SystemTime::now().duration_since(desk.about().since).unwrap_or_default();
    greetings::answer(statement, &caller.guest(database, up.as_secs(), &schemas))
}

/// What the role "write" is needed for, if it is.
fn needs_write(command: &Command) -> Option<&'static str> {
    match command {
        Command::Show { .. }
        | Command::Explain { .. }
        | Command::Help { .. }
        | Command::Reload { is_dry_run: true } => None,
        Command::Reload { is_dry_run: false } => Some("RELOAD RULES"),
        Command::Raise { .. } => Some("RAISE GENERATOR"),
        Command::Pause { .. } => Some("PAUSE GENERATOR"),
        Command::Resume { .. } => Some("RESUME GENERATOR"),
        Command::Drain => Some("DRAIN"),
        Command::Kill { .. } => Some("KILL"),
    }
}

async fn act(desk: &dyn Desk, command: Command, database: Option<&str>) -> Result<Answer, Failure> {
    let columns = columns_of(&command).unwrap_or_default();
    let rows = match command {
        Command::Show { what, like } => {
            let mut table = show::show(desk, what, SystemTime::now()).await?;
            if let Some(pattern) = like {
                let column = if what == command::What::Sessions { SESSIONS_LIKE } else { 0 };
                table.keep_like(column, &pattern);
            }
            return Ok(Answer::Table(table));
        }
        Command::Explain { statement, database: named } => {
            let database = named.as_deref().or(database);
            let text = desk.explain(statement.as_bytes(), database).await?;
            // `lines` would take a carriage return for a line's end, where it is one of a literal.
            text.strip_suffix('\n').unwrap_or(&text).split('\n').map(|line| vec![line.into()]).collect()
        }
        Command::Reload { is_dry_run } => reloaded(&desk.reload(is_dry_run).await?),
        Command::Raise { generator, to, is_meant } => {
            let Raised { generator, from, to } = desk.raise(&generator, to, is_meant).await?;
            vec![vec![generator.into(), from.into(), to.into()]]
        }
        Command::Pause { generator } => paused(desk, generator, true)?,
        Command::Resume { generator } => paused(desk, generator, false)?,
        Command::Drain => {
            desk.drain();
            return Ok(Answer::Done("draining: no new clients, and the proxy ends with its last session"));
        }
        Command::Kill { session } => {
            desk.kill(session)?;
            return Ok(Answer::Done("the session has ended"));
        }
        Command::Help { topic } => return Ok(Answer::Table(help::help(topic.as_deref()))),
    };
    Ok(Answer::Table(Table { columns, rows }))
}

fn paused(desk: &dyn Desk, generator: String, is_paused: bool) -> Result<Vec<Vec<Value>>, Failure> {
    let has_changed = desk.pause(&generator, is_paused)?;
    let state = match (is_paused, has_changed) {
        (true, true) => "paused",
        (true, false) => "was paused already",
        (false, true) => "goes on",
        (false, false) => "was not paused",
    };
    Ok(vec![vec![generator.into(), state.into()]])
}

/// First how much there is, then each change in a row of its own.
fn reloaded(reload: &Reload) -> Vec<Vec<Value>> {
    let verb = if reload.is_dry_run { "would be" } else { "are" };
    let count = format!("{} rules and {} generators {verb} in force", reload.rules, reload.generators);
    let row = |what: &str, text: &str| vec![Value::from(what), Value::from(text)];
    let mut rows = vec![row("result", &count)];
    for (what, lines) in [
        ("rule", &reload.changes),
        ("setting", &reload.settings),
        ("waits for a restart", &reload.waiting),
        ("warning", &reload.warnings),
    ] {
        rows.extend(lines.iter().map(|line| row(what, line)));
    }
    rows
}

/// The columns of what a statement will answer, for a client that prepares it; none: it answers OK.
pub(super) fn columns(
    desk: &dyn Desk,
    caller: &Caller,
    database: Option<&str>,
    statement: &str,
) -> Result<Vec<Column>, Failure> {
    match greeting(desk, caller, database, statement) {
        Some(Ok(Reply::Table(table))) => Ok(table.columns),
        Some(Ok(Reply::Done | Reply::Use(_))) => Ok(Vec::new()),
        Some(Err(failure)) => Err(failure),
        None => Ok(columns_of(&command::parse(statement)?).unwrap_or_default()),
    }
}

/// `None`: OK is all that it answers.
fn columns_of(command: &Command) -> Option<Vec<Column>> {
    match command {
        Command::Show { what, .. } => Some(show::columns(*what)),
        Command::Explain { .. } => Some(texts(&["rewrite"])),
        Command::Reload { .. } => Some(texts(&["what", "change"])),
        Command::Raise { .. } => Some(vec![
            Column::text("generator"),
            Column::new("bound_before", Type::Unsigned),
            Column::new("bound_now", Type::Unsigned),
        ]),
        Command::Pause { .. } | Command::Resume { .. } => Some(texts(&["generator", "state"])),
        Command::Help { topic } => Some(help::help(topic.as_deref()).columns),
        Command::Drain | Command::Kill { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Caller, columns, run};
    use crate::admin::console::show::table::Value;
    use crate::admin::desk::{Desk, Role, User};
    use crate::admin::fake::FakeDesk;

    fn caller(name: &str, role: Role) -> Caller {
        let password = if name == "guest" { "look" } else { "s3crët" }.to_owned().into();
        Caller {
            user: User { name: name.into(), password, role },
            client: "10.0.0.5".into(),
            connection_id: 1,
            is_tls: false,
        }
    }

    async fn told(desk: &FakeDesk, caller: &Caller, statement: &str) -> String {
        let text = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Unsigned(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        match run(desk, caller, Some("shop"), statement).await {
            Ok(Answer::Done(text)) => format!("OK {text}"),
            Ok(Answer::Use(database)) => format!("USE {database}"),
            Ok(Answer::Table(table)) => {
                let prepared = columns(desk, caller, Some("shop"), statement).unwrap();
                assert_eq!(prepared, table.columns, "{statement}");
                let rows = table.rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|"));
                rows.collect::<Vec<_>>().join("\n")
            }
            Err(failure) => format!("{:?} {failure}", failure.kind()),
        }
    }

    #[tokio::test]
    async fn what_write_may_do() {
        let (desk, dba) = (FakeDesk::default(), caller("dba", Role::Write));
        for (statement, expect) in [
            (
                "RELOAD RULES DRY RUN",
                "result|2 rules and 2 generators would be in force\n\
              rule|table shop.t is new: column id\nwaits for a restart|store.path",
            ),
            (
                "RELOAD RULES",
                "result|2 rules and 2 generators are in force\n\
              rule|table shop.t is new: column id\nwaits for a restart|store.path",
            ),
            ("RAISE GENERATOR shop.orders TO 20000", "shop.orders|10001|20000"),
            (
                "RAISE GENERATOR shop.none TO 1",
                "ER_UNKNOWN_ERROR there is no sequence \"shop.none\": SHOW GENERATORS",
            ),
            ("PAUSE GENERATOR shop.orders", "shop.orders|paused"),
            ("RESUME GENERATOR shop.orders", "shop.orders|goes on"),
            ("KILL 7", "OK the session has ended"),
            ("KILL 8", "ER_UNKNOWN_ERROR there is no session 8: SHOW SESSIONS"),
            ("DRAIN", "OK draining: no new clients, and the proxy ends with its last session"),
            ("EXPLAIN REWRITE INSERT INTO t VALUES (1)", "in shop:\nINSERT INTO t VALUES (1)"),
            ("EXPLAIN REWRITE IN blog INSERT INTO t VALUES (1)", "in blog:\nINSERT INTO t VALUES (1)"),
            ("EXPLAIN REWRITE INSERT INTO t VALUES ('a\r\nb')", "in shop:\nINSERT INTO t VALUES ('a\r\nb')"),
            ("USE blog", "USE blog"),
            ("SHOW DATABASES", "shop"),
            ("SELECT CURRENT_USER()", "dba@%"),
        ] {
            assert_eq!(told(&desk, &dba, statement).await, expect, "{statement}");
        }
        let done = desk.done.lock().unwrap().clone();
        assert_eq!(
            done,
            [
                "reload dry_run=true",
                "reload dry_run=false",
                "raise shop.orders 20000",
                "pause shop.orders true",
                "pause shop.orders false",
                "kill 7",
                "drain",
            ]
        );
    }

    #[tokio::test]
    async fn what_read_may_not() {
        let (desk, guest) = (FakeDesk::default(), caller("guest", Role::Read));
        for (statement, what) in [
            ("RELOAD RULES", "RELOAD RULES"),
            ("RAISE GENERATOR shop.orders TO 20000", "RAISE GENERATOR"),
            ("PAUSE GENERATOR shop.orders", "PAUSE GENERATOR"),
            ("RESUME GENERATOR shop.orders", "RESUME GENERATOR"),
            ("DRAIN", "DRAIN"),
            ("KILL 7", "KILL"),
        ] {
            let expect = format!(
                "ER_SPECIFIC_ACCESS_DENIED_ERROR Access denied; you need role = \"write\" for {what}, and yours is \"read\": \
                 an operator may change it in admin.users"
            );
            assert_eq!(told(&desk, &guest, statement).await, expect);
        }
        assert_eq!(*desk.done.lock().unwrap(), Vec::<String>::new());
        assert!(told(&desk, &guest, "RELOAD RULES DRY RUN").await.starts_with("result|"));
        assert!(told(&desk, &guest, "SHOW RULES LIKE 'shop.o%'").await.starts_with("shop.orders|id|"));
        assert_eq!(told(&desk, &guest, "SHOW RULES LIKE 'x'").await, "");
        assert!(told(&desk, &guest, "SHOW SESSIONS LIKE 'app'").await.starts_with("7|idle|app|"));
        assert_eq!(told(&desk, &guest, "SHOW SESSIONS LIKE 'x'").await, "");
        assert!(told(&desk, &guest, "HELP").await.starts_with("DRAIN|write|"));
    }

    #[tokio::test]
    async fn an_account_that_has_changed_does_nothing_more() {
        let desk = FakeDesk::default();
        let mut changed = caller("dba", Role::Write);
        changed.user.password = "another".to_owned().into();
        let gone = "ER_SPECIFIC_ACCESS_DENIED_ERROR Access denied; your account in admin.users has changed: log in again";
        assert_eq!(told(&desk, &changed, "SHOW RULES").await, gone);
        assert_eq!(told(&desk, &caller("nobody", Role::Write), "SELECT 1").await, gone);
        // The role is the one of now, not that of the login.
        let promoted = caller("guest", Role::Write);
        assert!(told(&desk, &promoted, "DRAIN").await.contains("yours is \"read\""));
        assert_eq!(desk.users().len(), 2);
    }
}
