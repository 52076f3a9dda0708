//! Client setup queries: what clients send on their own account, when they connect and when a GUI
//! draws its tree. They get what a server without tables would answer, so that they go on.
//!
//! tests/console/openings.rs has what they send word by word, with its public sources.

use std::time::SystemTime;

use crate::admin::console::answer::{Answer, Column, Table, Value, texts};
use crate::admin::console::client::{catalog, select, variables};
use crate::admin::console::context::Context;
use crate::admin::console::failure::Failure;
use crate::admin::console::syntax::{self, SyntaxError};
use crate::admin::console::tokens::{Token, Tokens};

/// `None`: it is no client setup query, so it is one of the console's own statements or nothing.
pub(crate) fn answer(statement: &str, context: &Context<'_>) -> Option<Result<Answer, Failure>> {
    let mut tokens = Tokens::new(statement);
    // A statement that cannot be cut into tokens is left to the console's own language, which reports the error.
    let first = tokens.next().ok()?;
    let Some(Token::Word(first)) = first else {
        // Only comments: they are code for servers of other versions, or pings.
        let is_comment = first.is_none() && !Tokens::new(statement).is_empty();
        return is_comment.then_some(Ok(Answer::Done("")));
    };
    match &*first.to_uppercase() {
        "SELECT" => Some(select::answer(statement, context).map(Answer::Table)),
        "SET" => Some(alone(tokens).and_then(set)),
        "USE" => Some(
            alone(tokens)
                .and_then(|mut rest| Ok(Answer::Use(syntax::name(&mut rest, "a database", "USE database")?))),
        ),
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "UNLOCK" => {
            Some(alone(tokens).map(|_| Answer::Done("")))
        }
        "SHOW" => show(tokens, context).transpose().map(|table| table.map(Answer::Table)),
        _ => None,
    }
}

/// An error where a second statement follows: `SET NAMES utf8mb4; RAISE GENERATOR ...`. The rest of
/// these statements is hardly read, so it would get an OK and not be done.
fn alone(tokens: Tokens<'_>) -> Result<Tokens<'_>, Failure> {
    let mut ahead = tokens;
    while let Some(word) = ahead.next()? {
        if word == Token::Sign(';') {
            let form = "one statement at a time";
            return Err(SyntaxError::More { found: "another statement".to_owned(), form }.into());
        }
    }
    Ok(tokens)
}

/// The console has nothing that a session's settings could change, so they get an OK. What would
/// change more than the session is an error.
fn set(tokens: Tokens<'_>) -> Result<Answer, Failure> {
    const BEYOND: &str = "GLOBAL PERSIST PERSIST_ONLY PASSWORD ROLE DEFAULT RESOURCE @@GLOBAL @@PERSIST";
    let mut ahead = tokens;
    let mut is_name = true;
    while let Some(word) = ahead.next()? {
        if is_name && BEYOND.split(' ').any(|beyond| word.is(beyond)) {
            let text =
                "the console changes no settings; change rowstamp.toml or the rules, then write RELOAD RULES";
            return Err(Failure::Unsupported(text.to_owned()));
        }
        is_name = word == Token::Sign(',');
    }
    match tokens.peek()? {
        Some(Token::Word(_) | Token::Name(_)) => Ok(Answer::Done("")),
        _ => Err(SyntaxError::Wrong {
            found: "no name".to_owned(),
            wanted: "a variable's name",
            form: "SET name = value",
        }
        .into()),
    }
}

/// `None`: no SHOW of a server's.
fn show(mut tokens: Tokens<'_>, context: &Context<'_>) -> Result<Option<Table>, Failure> {
    let mut is_full = false;
    while let Some(word) = tokens.peek()? {
        if !["FULL", "GLOBAL", "SESSION", "LOCAL", "EXTENDED"].iter().any(|scope| word.is(scope)) {
            break;
        }
        is_full |= word.is("FULL");
        tokens.next()?;
    }
    let mut table = if tokens.take("VARIABLES")? {
        variables_table(variables::all())
    } else if tokens.take("STATUS")? {
        variables_table(status(context))
    } else if tokens.take("DATABASES")? || tokens.take("SCHEMAS")? {
        let mut schemas: Vec<_> = context.rules().into_iter().flat_map(|rule| rule.databases).collect();
        schemas.sort();
        schemas.dedup();
        let rows = schemas.into_iter().map(|schema| vec![schema.into()]).collect();
        Table { columns: texts(["Database"]), rows }
    } else if tokens.take("TABLES")? {
        tables(is_full, &mut tokens, context)?
    } else if tokens.take("CREATE")? {
        let what = tokens.rest();
        let what = what.get(..what.floor_char_boundary(64)).unwrap_or_default();
        return Err(Failure::Unsupported(format!(
            "this is Rowstamp's console, which has no {what}; connect to the proxy for your data"
        )));
    } else if let Some((columns, row)) = of_catalog(&mut tokens)? {
        let row = row.map(|row| catalog::names(row).map(Value::from).collect());
        Table { columns: texts(catalog::names(columns)), rows: row.into_iter().collect() }
    } else {
        return Ok(None);
    };
    filter(&mut table, alone(tokens)?)?;
    Ok(Some(table))
}

fn variables_table(values: Vec<(&'static str, String)>) -> Table {
    let rows = values.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
    Table { columns: texts(["Variable_name", "Value"]), rows }
}

fn status(context: &Context<'_>) -> Vec<(&'static str, String)> {
    let tls = if context.caller.is_tls { "TLS" } else { "" };
    let up = SystemTime::now().duration_since(context.desk.about().since).unwrap_or_default();
    vec![
        ("Ssl_cipher", tls.to_owned()),
        ("Ssl_version", tls.to_owned()),
        ("Threads_connected", "1".to_owned()),
        ("Uptime", up.as_secs().to_string()),
    ]
}

/// `SHOW [FULL] TABLES [FROM database]`: there are none, but the columns have the database's name.
fn tables(is_full: bool, tokens: &mut Tokens<'_>, context: &Context<'_>) -> Result<Table, Failure> {
    let database = if tokens.take("FROM")? || tokens.take("IN")? {
        syntax::name(tokens, "a database", "SHOW TABLES FROM database")?
    } else {
        context.database.unwrap_or_default().to_owned()
    };
    let mut columns = vec![Column::text(format!("Tables_in_{database}"))];
    if is_full {
        columns.push(Column::text("Table_type"));
    }
    Ok(Table::empty(columns))
}

/// Columns, and the row if there is one.
type Listed = (&'static str, Option<&'static str>);

fn of_catalog(tokens: &mut Tokens<'_>) -> Result<Option<Listed>, Failure> {
    for (words, columns, row) in catalog::SHOWN {
        let mut ahead = *tokens;
        let mut is_it = true;
        for word in words.split(' ') {
            is_it = is_it && ahead.take(word)?;
        }
        if is_it {
            *tokens = ahead;
            return Ok(Some((columns, row)));
        }
    }
    Ok(None)
}

/// `LIKE 'pattern'`, or a WHERE as clients write it, with the names that they look for: a row stays
/// if its name is one of the texts.
fn filter(table: &mut Table, mut tokens: Tokens<'_>) -> Result<(), Failure> {
    let mut is_where = false;
    let mut texts = Vec::new();
    while let Some(word) = tokens.next()? {
        match word {
            word if word.is("LIKE") && !is_where => {
                if let Some(Token::Text(pattern)) = tokens.next()? {
                    table.keep_like(0, &pattern);
                }
            }
            word if word.is("WHERE") => is_where = true,
            Token::Text(text) if is_where => texts.push(text),
            // FROM a table, and the like: there are no tables.
            _ => {}
        }
    }
    if !texts.is_empty() {
        table.keep_names(&texts);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::answer;
    use crate::admin::console::answer::{Answer, printed};
    use crate::admin::console::context::{Caller, Context};
    use crate::admin::desk::Desk;
    use crate::admin::fake::FakeDesk;
    use crate::users::Login;
    use proptest::prelude::proptest;

    /// Columns and rows as text; "OK", "USE x", or the error.
    fn answered(statement: &str) -> String {
        answered_by(&FakeDesk::default(), statement)
    }

    fn answered_by(desk: &FakeDesk, statement: &str) -> String {
        let roster = desk.users().roster();
        let user = roster.get("dba").unwrap();
        let login = Login { user: user.clone(), by: user.by_password() };
        let connection_id = 2_147_483_649;
        let caller = Caller { login, client: "10.0.0.5".into(), connection_id, is_tls: true };
        let context = Context { desk, caller: &caller, database: Some("shop") };
        match answer(statement, &context) {
            None => "nothing of ours".to_owned(),
            Some(Err(failure)) => format!("{:?} {failure}", failure.kind()),
            Some(Ok(Answer::Done(text))) => format!("OK{text}"),
            Some(Ok(Answer::Use(name))) => format!("USE {name}"),
            Some(Ok(Answer::Table(table))) => {
                let columns: Vec<_> = table.columns.iter().map(|column| &*column.name).collect();
                let rows = table.rows.iter().map(|row| printed(row));
                std::iter::once(columns.join("|")).chain(rows).collect::<Vec<_>>().join("\n")
            }
        }
    }

    #[track_caller]
    fn check(statement: &str, expect: &str) {
        assert_eq!(answered(statement), expect, "{statement}");
    }

    #[tokio::test]
    async fn sessions_are_set_up() {
        for statement in [
            "SET NAMES utf8mb4",
            "SET AUTOCOMMIT = 0",
            "set session transaction isolation level read committed;",
            "SET character_set_results = NULL",
            "SET sql_mode='STRICT_TRANS_TABLES'",
            "SET @@SESSION.wait_timeout=60",
            "SET SQL_SAFE_UPDATES=1",
            "/*!40101 SET NAMES utf8 */",
            "START TRANSACTION",
            "commit",
            "ROLLBACK",
        ] {
            check(statement, "OK");
        }
        check("USE `my shop`", "USE my shop");
        check("use shop;", "USE shop");
        let nothing = "ER_NOT_SUPPORTED_YET the console changes no settings; change rowstamp.toml or the rules, then write RELOAD RULES";
        check("SET GLOBAL max_connections = 5", nothing);
        check("SET @@global.x = 5", nothing);
        check("SET PASSWORD = 'x'", nothing);
        check("SET @@session.x = 5, GLOBAL y = ','", nothing);
        check("SET x = ';', y = 'GLOBAL'", "OK");
        let several = "ER_PARSE_ERROR unexpected text after the command: another statement; write one statement at a time";
        for first in ["SET x = 1", "USE shop", "BEGIN", "SHOW STATUS", "SHOW TABLES", "SHOW ENGINES LIKE 'x'"]
        {
            check(&format!("{first}; RAISE GENERATOR shop.orders TO 7"), several);
            assert_eq!(answered(&format!("{first} /* x */ ; ;\n")), answered(first));
        }
        check("SHOW RULES", "nothing of ours");
        check("SHOW GENERATORS LIKE 'x'", "nothing of ours");
        check("", "nothing of ours");
    }

    #[test]
    fn what_a_server_shows() {
        check(
            "SHOW VARIABLES LIKE 'lower_case_table_names'",
            "Variable_name|Value\nlower_case_table_names|0",
        );
        check(
            "SHOW SESSION VARIABLES LIKE 'sql_mode'",
            "Variable_name|Value\nsql_mode|STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION",
        );
        check(
            "SHOW VARIABLES WHERE Variable_name ='protocol_version' OR Variable_name = 'license'",
            "Variable_name|Value\nlicense|MIT OR Apache-2.0\nprotocol_version|10",
        );
        // The uptime of the fake desk, which started in 1970.
        let up = answered("SHOW GLOBAL STATUS LIKE 'upt%'");
        assert!(up.starts_with("Variable_name|Value\nUptime|1"), "{up}");
        check("SHOW SESSION STATUS LIKE 'Ssl_cipher'", "Variable_name|Value\nSsl_cipher|TLS");
        check("show databases", "Database\nshop");
        check("SHOW SCHEMAS LIKE 's%'", "Database\nshop");
        let two = FakeDesk { more_schemas: vec!["blog"], ..FakeDesk::default() };
        assert_eq!(answered_by(&two, "show databases"), "Database\nblog\nshop", "sorted, and each once");
        assert_eq!(answered_by(&two, "SHOW SCHEMAS LIKE 'b%'"), "Database\nblog");
        check("SHOW FULL TABLES FROM `blog` WHERE table_type != 'VIEW'", "Tables_in_blog|Table_type");
        check("SHOW TABLES", "Tables_in_shop");
        check(
            "show character set where charset = 'utf8mb4'",
            "Charset|Description|Default collation|Maxlen\nutf8mb4|UTF-8 Unicode|utf8mb4_general_ci|4",
        );
        check("SHOW ENGINES", "Engine|Support|Comment|Transactions|XA|Savepoints");
        check("SHOW WARNINGS", "Level|Code|Message");
        check("SHOW FULL COLUMNS FROM `shop`.`orders`", "Field|Type|Null|Key|Default|Extra");
        check("SHOW GRANTS", "nothing of ours");
        check(
            "SHOW CREATE TABLE shop.orders",
            "ER_NOT_SUPPORTED_YET this is Rowstamp's console, which has no TABLE shop.orders; connect to the proxy for your data",
        );
    }

    #[test]
    fn what_a_server_selects() {
        check("select @@version_comment limit 1", "@@version_comment\nRowstamp console");
        check(
            "SELECT @@session.auto_increment_increment AS a, @@GLOBAL.wait_timeout",
            "a|@@GLOBAL.wait_timeout\n1|28800",
        );
        check("SELECT @@max_allowed_packet", "@@max_allowed_packet\n1048576");
        check("SELECT DATABASE(), USER() LIMIT 1", "DATABASE()|USER()\nshop|dba@10.0.0.5");
        check("SELECT CONNECTION_ID()", "CONNECTION_ID()\n2147483649");
        check("SELECT current_user(), CURRENT_USER", "current_user()|CURRENT_USER\ndba@%|dba@%");
        check("/* ping */ SELECT 1", "1\n1");
        check("SELECT 'a', NULL x, @mine FROM dual", "'a'|x|@mine\na|NULL|NULL");
        check(
            "SELECT @@innodb_page_size",
            "ER_UNKNOWN_SYSTEM_VARIABLE Unknown system variable 'innodb_page_size'",
        );
        check(
            "SELECT SCHEMA_NAME AS TABLE_SCHEM, CATALOG_NAME FROM INFORMATION_SCHEMA.SCHEMATA ORDER BY SCHEMA_NAME",
            "TABLE_SCHEM|CATALOG_NAME",
        );
        check(
            "SELECT * FROM information_schema.ENGINES e",
            "ENGINE|SUPPORT|COMMENT|TRANSACTIONS|XA|SAVEPOINTS",
        );
        check(
            "SELECT t.TABLE_NAME, COUNT(*) FROM information_schema.TABLES t JOIN mysql.x",
            "TABLE_NAME|COUNT(*)",
        );
        check(
            "SELECT * FROM information_schema.NONE",
            "ER_NO_SUCH_TABLE Table 'information_schema.NONE' doesn't exist",
        );
        let no_tables = "ER_NOT_SUPPORTED_YET this is Rowstamp's console, which has no tables of your server; connect to the proxy for your \
                         data; SHOW COMMANDS lists the commands";
        check("SELECT * FROM orders", no_tables);
        check("SELECT id FROM shop.orders WHERE id = 1", no_tables);
        check(
            "SELECT 1+1",
            "ER_NOT_SUPPORTED_YET the console does not compute expressions; it knows @@variables, DATABASE(), USER(), VERSION(), \
             CONNECTION_ID() and constants",
        );
    }

    proptest! {
        #[test]
        fn any_text(statement: String) {
            let _ = answered(&statement);
        }

        #[test]
        fn any_select(tail in r"[ @a-zA-Z0-9_().,*'=+-]{0,60}") {
            let _ = answered(&format!("SELECT {tail}"));
        }

        #[test]
        fn any_show(tail in "(?i)(FULL |VARIABLES|STATUS|TABLES|COLUMNS| FROM| LIKE| WHERE| '%?a?'|[a-z`.=]| ){0,8}") {
            let _ = answered(&format!("SHOW {tail}"));
        }
    }
}
