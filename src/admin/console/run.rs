//! A statement, from any client and however it is sent: what it is answered, and what its answer's columns
//! are.

use std::time::SystemTime;

use super::answer::{Answer, Column, Rows, Table, Type, Value, texts};
use super::client::setup;
use super::command::{self, Command, ShowKind};
use super::context::Context;
use super::failure::Failure;
use super::{help, query, show};
use crate::admin::desk::{Raised, Reload};
use crate::users::{self, Change, Changed, Right, User};

/// Sessions are shown by their users as well as by numbers: LIKE compares that column.
const SESSIONS_LIKE: usize = 2;

pub(super) async fn run(context: &Context<'_>, statement: &str) -> Result<Answer, Failure> {
    let user = context.user()?;
    if let Some(asked) = query::of_select(statement) {
        let asked = asked?;
        be_allowed(context, &user, needs_to_see(asked.what).map(|need| (need, "SELECT".to_owned())))?;
        let table = show::show(context.desk, &user, asked.what, SystemTime::now()).await?;
        return Ok(Answer::Table(asked.answer(table)?));
    }
    if let Some(answer) = setup::answer(statement, context) {
        return answer;
    }
    let command = command::parse(statement)?;
    let need = needs(&command);
    let is_admin = matches!(need, Some((Right::Admin, _)));
    let allowed = be_allowed(context, &user, need.map(|need| (need, name_of(&command))));
    if let (Command::Users(change), Err(denied)) = (&command, &allowed) {
        let client = &context.caller.client;
        tracing::warn!(user = user.name, client, "the console: denied: {command}");
        context.desk.note_denied(change, &user.name, client, &denied.to_string());
    }
    allowed?;
    if is_admin {
        // The log has what operators do. EXPLAIN, whose statement has literals, needs no ADMIN.
        tracing::info!(user = user.name, client = context.caller.client, "the console: {command}");
    }
    act(context, &user, command).await
}

/// A right, and the generator that it is needed for. `None`: for all generators.
type RightOn = (Right, Option<String>);

fn be_allowed(context: &Context<'_>, user: &User, need: Option<(RightOn, String)>) -> Result<(), Failure> {
    let Some(((right, generator), what)) = need else { return Ok(()) };
    let has_it = match &generator {
        Some(generator) => user.may(right, generator),
        None => user.may_everywhere(right),
    };
    if !has_it {
        let on = generator.unwrap_or_else(|| "*.*".to_owned());
        return Err(Failure::NoRight { what, right, on, user: user.name.clone() });
    }
    if right == Right::Admin && !context.desk.users().is_current_for(user) {
        return Err(Failure::Uncertain(what));
    }
    Ok(())
}

fn needs(command: &Command) -> Option<RightOn> {
    match command {
        Command::Help { .. } => None,
        Command::Show { what, .. } => needs_to_see(*what),
        Command::Explain { .. } | Command::Reload { is_dry_run: true } => Some((Right::Read, None)),
        Command::Raise { generator, .. } | Command::Pause { generator, .. } => {
            Some((Right::Admin, Some(generator.clone())))
        }
        Command::Reload { is_dry_run: false } | Command::Drain | Command::Kill { .. } | Command::Users(_) => {
            Some((Right::Admin, None))
        }
    }
}

/// Users and generators need no right here: SHOW lists only those that the user may see.
fn needs_to_see(what: ShowKind) -> Option<RightOn> {
    match what {
        ShowKind::Commands | ShowKind::Generators | ShowKind::Users | ShowKind::Grants | ShowKind::Tokens => {
            None
        }
        _ => Some((Right::Read, None)),
    }
}

/// The words that it begins with.
fn name_of(command: &Command) -> String {
    let text = command.to_string();
    let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    text.split(' ').take(2).take_while(is_word).collect::<Vec<_>>().join(" ")
}

async fn act(context: &Context<'_>, user: &User, command: Command) -> Result<Answer, Failure> {
    let desk = context.desk;
    let columns = columns_of(&command);
    let rows = match command {
        Command::Show { what, like, clauses } => {
            let mut table = show::show(desk, user, what, SystemTime::now()).await?;
            if let Some(pattern) = like {
                let column = if what == ShowKind::Sessions { SESSIONS_LIKE } else { 0 };
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
        Command::Users(change) => {
            match desk.change_user(&change, &user.name, &context.caller.client).await? {
                Changed::Done => {
                    return Ok(Answer::Done(
                        "done; every proxy that reaches the store knows within a second",
                    ));
                }
                Changed::Nothing => return Ok(Answer::Done("nothing to do")),
                Changed::Token { token, text } => {
                    let expires = token.expires.map(|end| humantime::format_rfc3339_seconds(end).to_string());
                    vec![vec![change.user.into(), text.to_string().into(), token.id().into(), expires.into()]]
                }
            }
        }
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
        Command::Users(Change { what: users::ChangeKind::Token { .. }, .. }) => {
            texts(["user", "token", "id", "expires_utc"])
        }
        Command::Users(_) | Command::Drain | Command::Kill { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{columns, run};
    use crate::admin::console::answer::{Answer, printed};
    use crate::admin::console::context::{Caller, Context};
    use crate::admin::desk::Desk;
    use crate::admin::fake::FakeDesk;
    use crate::users::{Directory, Login, Role, User};
    use std::sync::Arc;
    use std::time::Duration;

    fn caller(desk: &FakeDesk, name: &str) -> Caller {
        let user = desk.users().roster().get(name).unwrap().clone();
        let login = Login { by: user.by_password(), user };
        Caller { login, client: "10.0.0.5".into(), connection_id: 1, is_tls: false }
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

    fn denied(what: &str, right: &str, on: &str, user: &str) -> String {
        format!(
            "ER_SPECIFIC_ACCESS_DENIED_ERROR Access denied; {what} needs the right {right} ON {on}, which user {user} does not have; \
             GRANT gives it, or role = \"write\" of a user in admin.users"
        )
    }

    #[tokio::test]
    async fn what_write_may_do() {
        let desk = FakeDesk::default();
        let dba = caller(&desk, "dba");
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
        let done = [
            "reload dry_run=true",
            "reload dry_run=false",
            "raise shop.orders 20000",
            "pause shop.orders true",
            "pause shop.orders false",
            "kill 7",
            "drain",
        ];
        assert_eq!(*desk.done.lock(), done);
    }

    #[tokio::test]
    async fn what_read_may_not() {
        let desk = FakeDesk::default();
        let guest = caller(&desk, "guest");
        for (statement, what, on) in [
            ("RELOAD RULES", "RELOAD RULES", "*.*"),
            ("RAISE GENERATOR shop.orders TO 20000", "RAISE GENERATOR", "shop.orders"),
            ("PAUSE GENERATOR shop.orders", "PAUSE GENERATOR", "shop.orders"),
            ("RESUME GENERATOR shop.orders", "RESUME GENERATOR", "shop.orders"),
            ("DRAIN", "DRAIN", "*.*"),
            ("KILL 7", "KILL", "*.*"),
            ("CREATE USER x", "CREATE USER", "*.*"),
            ("CREATE TOKEN FOR x", "CREATE TOKEN", "*.*"),
            ("GRANT TAKE ON *.* TO guest", "GRANT TAKE", "*.*"),
            ("DROP USER dba", "DROP USER", "*.*"),
        ] {
            assert_eq!(answered(&desk, &guest, statement).await, denied(what, "ADMIN", on, "guest"));
        }
        let denied =
            ["CREATE USER 'x'", "CREATE TOKEN FOR 'x'", "GRANT TAKE ON *.* TO 'guest'", "DROP USER 'dba'"];
        let denied = denied.map(|change| format!("denied to guest from 10.0.0.5: {change}"));
        assert_eq!(*desk.done.lock(), denied, "each is noted, and nothing is done");
        assert!(answered(&desk, &guest, "RELOAD RULES DRY RUN").await.starts_with("result|"));
        assert!(answered(&desk, &guest, "SHOW RULES LIKE 'shop.o%'").await.starts_with("shop.orders|id|"));
        assert_eq!(answered(&desk, &guest, "SHOW RULES LIKE 'x'").await, "");
        assert!(answered(&desk, &guest, "SHOW SESSIONS LIKE 'app'").await.starts_with("7|idle|app|"));
        assert_eq!(answered(&desk, &guest, "SHOW SESSIONS LIKE 'x'").await, "");
        let help = answered(&desk, &guest, "HELP").await;
        assert!(help.starts_with("ALTER USER name IDENTIFIED BY 'password'|ADMIN|"), "{help}");
    }

    #[tokio::test]
    async fn an_account_that_has_changed_does_nothing_more() {
        let desk = FakeDesk::default();
        let dba = caller(&desk, "dba");
        let file = |users: &[(&str, &str, Role)]| {
            let user = |(name, password, role): &(&str, &str, Role)| {
                Arc::new(User::of_file(name, (*password).to_owned().into(), *role))
            };
            desk.users().set_file(&users.iter().map(user).collect::<Vec<_>>(), Duration::MAX);
        };
        let gone = "ER_SPECIFIC_ACCESS_DENIED_ERROR Access denied; your user, or its password or token, has changed: log in again";
        // The rights are those of now, not of the login.
        file(&[("dba", "s3crët", Role::Read)]);
        assert!(answered(&desk, &dba, "DRAIN").await.contains("needs the right ADMIN"));
        assert!(answered(&desk, &dba, "SHOW RULES").await.starts_with("shop"));
        for users in [&[("dba", "another", Role::Write)][..], &[("other", "s3crët", Role::Write)], &[]] {
            file(users);
            assert_eq!(answered(&desk, &dba, "SHOW RULES").await, gone, "{users:?}");
            assert_eq!(answered(&desk, &dba, "SELECT 1").await, gone, "{users:?}");
        }
    }

    /// Has users of the store too.
    fn with_store() -> FakeDesk {
        let dba = Arc::new(User::of_file("dba", "s3crët".to_owned().into(), Role::Write));
        let guest = Arc::new(User::of_file("guest", "look".to_owned().into(), Role::Read));
        let users = Directory::over_memory(&[dba, guest]);
        FakeDesk { users: users.into(), ..FakeDesk::default() }
    }

    /// Each right, and each place that it is for.
    #[tokio::test]
    async fn what_grants_let_a_user_do() {
        let desk = with_store();
        let dba = caller(&desk, "dba");
        let done = "OK done; every proxy that reaches the store knows within a second";
        assert_eq!(answered(&desk, &dba, "CREATE USER app IDENTIFIED BY 's3cret'").await, done);
        let app = || caller(&desk, "app");
        let denied = |what, on, right| denied(what, right, on, "app");
        for (statement, what) in [
            ("SHOW RULES", "SHOW RULES"),
            ("SHOW SESSIONS", "SHOW SESSIONS"),
            ("SELECT * FROM config", "SELECT"),
            ("EXPLAIN REWRITE INSERT INTO t VALUES (1)", "EXPLAIN REWRITE"),
            ("RELOAD RULES DRY RUN", "RELOAD RULES"),
        ] {
            assert_eq!(answered(&desk, &app(), statement).await, denied(what, "*.*", "READ"), "{statement}");
        }
        for (statement, expect) in [
            ("SHOW GENERATORS", ""),
            ("SHOW DATABASES", ""),
            ("SELECT 1", "1"),
            ("SHOW USERS", "app|store|yes|0|0|0|0|0"),
            ("SHOW GRANTS", ""),
            ("SHOW TOKENS", ""),
        ] {
            assert_eq!(answered(&desk, &app(), statement).await, expect, "{statement}");
        }
        assert_eq!(answered(&desk, &dba, "GRANT READ ON shop.events TO app").await, done);
        assert!(answered(&desk, &app(), "SHOW GENERATORS").await.starts_with("shop.events|timestamp|"));
        assert!(!answered(&desk, &app(), "SHOW GENERATORS").await.contains("shop.orders"));
        let paused = "PAUSE GENERATOR shop.orders";
        assert_eq!(answered(&desk, &app(), paused).await, denied("PAUSE GENERATOR", "shop.orders", "ADMIN"));
        assert_eq!(answered(&desk, &dba, "GRANT ADMIN, READ ON shop.* TO app").await, done);
        assert_eq!(answered(&desk, &app(), paused).await, "shop.orders|paused");
        assert_eq!(answered(&desk, &app(), "DRAIN").await, denied("DRAIN", "*.*", "ADMIN"));
        let grants = "app|READ|shop.events|NULL|store|GRANT READ ON shop.events TO 'app'\n\
                      app|READ|shop.*|NULL|store|GRANT READ ON shop.* TO 'app'\n\
                      app|ADMIN|shop.*|NULL|store|GRANT ADMIN ON shop.* TO 'app'";
        for statement in ["SHOW GRANTS", "SHOW GRANTS FOR CURRENT_USER()", "SHOW GRANTS FOR app"] {
            assert_eq!(answered(&desk, &app(), statement).await, grants, "{statement}");
        }
        assert_eq!(answered(&desk, &app(), "SHOW GRANTS FOR dba").await, "", "another's");
        assert_eq!(answered(&desk, &dba, "SHOW GRANTS FOR app").await, grants);
        assert_eq!(answered(&desk, &dba, "REVOKE ADMIN ON shop.* FROM app").await, done);
        assert_eq!(answered(&desk, &app(), paused).await, denied("PAUSE GENERATOR", "shop.orders", "ADMIN"));
        assert_eq!(answered(&desk, &dba, "GRANT ALL ON *.* TO app").await, done);
        assert!(answered(&desk, &app(), "SHOW USERS").await.contains("guest|rowstamp.toml|yes|0|1"));
        let before = app();
        assert_eq!(answered(&desk, &dba, "ALTER USER app IDENTIFIED BY 'other'").await, done);
        assert!(answered(&desk, &before, "SELECT 1").await.contains("log in again"));
    }

    #[tokio::test]
    async fn tokens_are_shown_once() {
        let desk = with_store();
        let dba = caller(&desk, "dba");
        answered(&desk, &dba, "CREATE USER app").await;
        let row = answered(&desk, &dba, "CREATE TOKEN FOR app EXPIRES '2999-01-01'").await;
        let [user, token, id, expires] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        assert_eq!((user, expires), ("app", "2999-01-01T00:00:00Z"));
        assert!(token.starts_with("rst_"), "{token}");
        let shown = answered(&desk, &dba, "SHOW TOKENS").await;
        assert!(shown.starts_with(&format!("app|{id}|")) && !shown.contains(token), "{shown}");
        let drop = format!("DROP TOKEN {id} FOR app");
        assert!(answered(&desk, &dba, &drop).await.starts_with("OK done"));
        assert_eq!(
            answered(&desk, &dba, &drop).await,
            format!("ER_UNKNOWN_ERROR user app has no token {id}; SHOW TOKENS lists all")
        );
        assert!(!desk.done.lock().join("\n").contains(token));
    }
}
