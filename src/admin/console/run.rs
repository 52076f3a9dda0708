//! A statement, from any client and however it is sent: what it is answered, and what its answer's columns
//! are.

use std::time::SystemTime;

use super::answer::{Answer, Column, Rows, Table, Type, Value, texts};
use super::client::setup;
use super::command::{self, Command};
use super::context::Context;
use super::failure::Failure;
use super::{help, query, show};
use crate::admin::desk::{Raised, Reload};
use crate::users::Role;

/// Sessions are shown by their users as well as by numbers: LIKE compares that column.
const SESSIONS_LIKE: usize = 2;

pub(super) async fn run(context: &Context<'_>, statement: &str) -> Result<Answer, Failure> {
    let role = context.role()?;
    if let Some(asked) = query::of_select(statement) {
        let asked = asked?;
        let table = show::show(context.desk, asked.what, SystemTime::now()).await?;
        return Ok(Answer::Table(asked.answer(table)?));
    }
    if let Some(answer) = setup::answer(statement, context) {
        return answer;
    }
    let command = command::parse(statement)?;
    if let Some(what) = needs_write(&command) {
        if role < Role::Write {
            return Err(Failure::NeedsWrite(what));
        }
        // The log has what operators do. EXPLAIN, whose statement has literals, needs no "write".
        let caller = context.caller;
        tracing::info!(user = caller.user.name, client = caller.client, "the console: {command}");
    }
    act(context, command).await
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
        Command::Pause { is_paused: true, .. } => Some("PAUSE GENERATOR"),
        Command::Pause { is_paused: false, .. } => Some("RESUME GENERATOR"),
        Command::Drain => Some("DRAIN"),
        Command::Kill { .. } => Some("KILL"),
    }
}

async fn act(context: &Context<'_>, command: Command) -> Result<Answer, Failure> {
    let desk = context.desk;
    let columns = columns_of(&command);
    let rows = match command {
        Command::Show { what, like, clauses } => {
            let mut table = show::show(desk, what, SystemTime::now()).await?;
            if let Some(pattern) = like {
                let column = if what == command::What::Sessions { SESSIONS_LIKE } else { 0 };
                table.keep_like(column, &pattern);
            }
            if !clauses.is_empty() {
                table = query::of_show(what, &clauses)?.answer(table)?;
            }
            return Ok(Answer::Table(table));
        }
        Command::Explain { statement, database } => {
            let database = database.as_deref().or(context.database);
            let text = desk.explain(statement.as_bytes(), database).await?;
            // Not `lines`: a carriage return at a line's end may be one of a literal.
            text.strip_suffix('\n').unwrap_or(&text).split('\n').map(|line| vec![line.into()]).collect()
        }
        Command::Reload { is_dry_run } => reloaded(&desk.reload(is_dry_run).await?),
        Command::Raise { generator, to, is_meant } => {
            let Raised { generator, from, to } = desk.raise(&generator, to, is_meant).await?;
            vec![vec![generator.into(), from.into(), to.into()]]
        }
        Command::Pause { generator, is_paused } => {
            let state = match (is_paused, desk.pause(&generator, is_paused)?) {
                (true, true) => "paused",
                (true, false) => "was paused already",
                (false, true) => "continues",
                (false, false) => "was not paused",
            };
            vec![vec![generator.into(), state.into()]]
        }
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

/// First how much there is, then each change in a row of its own.
fn reloaded(reload: &Reload) -> Rows {
    let verb = if reload.is_dry_run { "all would be" } else { "all are" };
    let count = format!("rules: {}, generators: {}; {verb} active", reload.rules, reload.generators);
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
pub(super) fn columns(context: &Context<'_>, statement: &str) -> Result<Vec<Column>, Failure> {
    if let Some(asked) = query::of_select(statement) {
        let asked = asked?;
        return asked.columns(&show::columns(asked.what));
    }
    match setup::answer(statement, context) {
        Some(Ok(Answer::Table(table))) => Ok(table.columns),
        Some(Ok(Answer::Done(_) | Answer::Use(_))) => Ok(Vec::new()),
        Some(Err(failure)) => Err(failure),
        None => Ok(columns_of(&command::parse(statement)?)),
    }
}

fn columns_of(command: &Command) -> Vec<Column> {
    match command {
        Command::Show { what, .. } => show::columns(*what),
        Command::Explain { .. } => texts(["rewrite"]),
        Command::Reload { .. } => texts(["what", "change"]),
        Command::Raise { .. } => vec![
            Column::text("generator"),
            Column::new("bound_before", Type::Unsigned),
            Column::new("bound_now", Type::Unsigned),
        ],
        Command::Pause { .. } => texts(["generator", "state"]),
        Command::Help { topic } => help::help(topic.as_deref()).columns,
        Command::Drain | Command::Kill { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{columns, run};
    use crate::admin::console::answer::{Answer, printed};
    use crate::admin::console::context::{Caller, Context};
    use crate::admin::desk::Desk;
    use crate::admin::fake::FakeDesk;
    use crate::users::{Role, User};

    fn caller(name: &str, role: Role) -> Caller {
        let password = if name == "guest" { "look" } else { "s3crët" }.to_owned().into();
        Caller {
            user: User { name: name.into(), password, role },
            client: "10.0.0.5".into(),
            connection_id: 1,
            is_tls: false,
        }
    }

    async fn answered(desk: &FakeDesk, caller: &Caller, statement: &str) -> String {
        let context = Context { desk, caller, database: Some("shop") };
        match run(&context, statement).await {
            Ok(Answer::Done(text)) => format!("OK {text}"),
            Ok(Answer::Use(database)) => format!("USE {database}"),
            Ok(Answer::Table(table)) => {
                assert_eq!(columns(&context, statement).unwrap(), table.columns, "{statement}");
                table.rows.iter().map(|row| printed(row)).collect::<Vec<_>>().join("\n")
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
                "result|rules: 2, generators: 2; all would be active\n\
              rule|table shop.t is new: column id\nwaits for a restart|store.path",
            ),
            (
                "RELOAD RULES",
                "result|rules: 2, generators: 2; all are active\n\
              rule|table shop.t is new: column id\nwaits for a restart|store.path",
            ),
            ("RAISE GENERATOR shop.orders TO 20000", "shop.orders|10001|20000"),
            (
                "RAISE GENERATOR shop.none TO 1",
                "ER_UNKNOWN_ERROR the rules have no generator shop.none; SHOW GENERATORS lists all",
            ),
            ("PAUSE GENERATOR shop.orders", "shop.orders|paused"),
            ("RESUME GENERATOR shop.orders", "shop.orders|continues"),
            ("KILL 7", "OK the session has ended"),
            ("KILL 8", "ER_UNKNOWN_ERROR there is no session 8; SHOW SESSIONS lists all"),
            ("DRAIN", "OK draining: no new clients, and the proxy ends with its last session"),
            ("EXPLAIN REWRITE INSERT INTO t VALUES (1)", "in shop:\nINSERT INTO t VALUES (1)"),
            ("EXPLAIN REWRITE IN blog INSERT INTO t VALUES (1)", "in blog:\nINSERT INTO t VALUES (1)"),
            ("EXPLAIN REWRITE INSERT INTO t VALUES ('a\r\nb')", "in shop:\nINSERT INTO t VALUES ('a\r\nb')"),
            ("USE blog", "USE blog"),
            ("SHOW DATABASES", "shop"),
            ("SELECT CURRENT_USER()", "dba@%"),
        ] {
            assert_eq!(answered(&desk, &dba, statement).await, expect, "{statement}");
        }
        let done = desk.done.lock().clone();
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
                "ER_SPECIFIC_ACCESS_DENIED_ERROR Access denied; {what} needs role = \"write\", and your role is \"read\"; \
                 admin.users sets the role"
            );
            assert_eq!(answered(&desk, &guest, statement).await, expect);
        }
        assert_eq!(*desk.done.lock(), Vec::<String>::new());
        assert!(answered(&desk, &guest, "RELOAD RULES DRY RUN").await.starts_with("result|"));
        assert!(answered(&desk, &guest, "SHOW RULES LIKE 'shop.o%'").await.starts_with("shop.orders|id|"));
        assert_eq!(answered(&desk, &guest, "SHOW RULES LIKE 'x'").await, "");
        assert!(answered(&desk, &guest, "SHOW SESSIONS LIKE 'app'").await.starts_with("7|idle|app|"));
        assert_eq!(answered(&desk, &guest, "SHOW SESSIONS LIKE 'x'").await, "");
        assert!(answered(&desk, &guest, "HELP").await.starts_with("DRAIN|write|"));
    }

    #[tokio::test]
    async fn an_account_that_has_changed_does_nothing_more() {
        let desk = FakeDesk::default();
        let mut changed = caller("dba", Role::Write);
        changed.user.password = "another".to_owned().into();
        let gone = "ER_SPECIFIC_ACCESS_DENIED_ERROR Access denied; your account in admin.users has changed: log in again";
        assert_eq!(answered(&desk, &changed, "SHOW RULES").await, gone);
        assert_eq!(answered(&desk, &caller("nobody", Role::Write), "SELECT 1").await, gone);
        // The role is the one of now, not that of the login.
        let promoted = caller("guest", Role::Write);
        assert!(answered(&desk, &promoted, "DRAIN").await.contains("your role is \"read\""));
        assert_eq!(desk.users().len(), 2);
    }
}
