//! What clients send on their own account: when they connect, when a GUI draws its tree. It gets what a server without tables would
//! answer, so that they go on.
//!
//! What they send, by their public sources: tests/console/openings.rs has it word by word, with the places.

use crate::admin::console::client::guest::Guest;
use crate::admin::console::client::{catalog, select, variables};
use crate::admin::console::command;
use crate::admin::console::failure::Failure;
use crate::admin::console::show::table::{Column, Table, Value, texts};
use crate::admin::console::syntax::SyntaxError;
use crate::admin::console::words::{Word, Words};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    /// OK, and nothing is done: there is nothing that it could change.
    Done,
    /// OK, and this is the default database.
    Use(String),
    Table(Table),
}

/// `None`: not of these, so it is the console's own language or nothing.
pub(crate) fn answer(statement: &str, guest: &Guest<'_>) -> Option<Result<Reply, Failure>> {
    let mut words = Words::new(statement);
    // What cannot be cut into words is the console's language to complain of.
    let first = words.next().ok()?;
    let Some(Word::Plain(first)) = first else {
        // Only comments: they are code for servers of other versions, or pings.
        let is_comment = first.is_none() && !Words::new(statement).is_empty();
        return is_comment.then_some(Ok(Reply::Done));
    };
    match &*first.to_uppercase() {
        "SELECT" => Some(select::answer(statement, guest).map(Reply::Table)),
        "SET" => Some(alone(words).and_then(set)),
        "USE" => Some(alone(words).and_then(use_database)),
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "UNLOCK" => {
            Some(alone(words).map(|_| Reply::Done))
        }
        "SHOW" => show(words, guest).transpose().map(|table| table.map(Reply::Table)),
        _ => None,
    }
}

/// What a client sends is not read to its end where that says nothing. A second statement behind it would get an OK, and not be
/// done: `SET NAMES utf8mb4; RAISE GENERATOR ...`.
fn alone(words: Words<'_>) -> Result<Words<'_>, Failure> {
    let mut ahead = words;
    while let Some(word) = ahead.next()? {
        if word == Word::Sign(';') {
            let form = "one statement at a time";
            return Err(SyntaxError::More { found: "another statement".to_owned(), form }.into());
        }
    }
    Ok(words)
}

/// A session's settings concern the client's side of the connection, of which the console has none. What would change more than the
/// session is not swallowed.
fn set(words: Words<'_>) -> Result<Reply, Failure> {
    const BEYOND: [&str; 9] = [
        "GLOBAL",
        "PERSIST",
        "PERSIST_ONLY",
        "PASSWORD",
        "ROLE",
        "DEFAULT",
        "RESOURCE",
        "@@GLOBAL",
        "@@PERSIST",
    ];
    let mut ahead = words;
    let mut is_name = true;
    while let Some(word) = ahead.next()? {
        if is_name && BEYOND.iter().any(|beyond| word.is(beyond)) {
            let text = "the console sets nothing: change rowstamp.toml or the rules, and RELOAD RULES";
            return Err(Failure::Unsupported(text.to_owned()));
        }
        is_name = word == Word::Sign(',');
    }
    match words.peek()? {
        Some(Word::Plain(_) | Word::Name(_)) => Ok(Reply::Done),
        _ => Err(SyntaxError::Wrong {
            found: "no name".to_owned(),
            wanted: "a variable's name",
            form: "SET name = value",
        }
        .into()),
    }
}

fn use_database(mut words: Words<'_>) -> Result<Reply, Failure> {
    let name = command::name(&mut words, "a database", "USE database")?;
    Ok(Reply::Use(name))
}

/// `None`: no SHOW of a server's.
fn show(mut words: Words<'_>, guest: &Guest<'_>) -> Result<Option<Table>, Failure> {
    let mut is_full = false;
    while let Some(word) = words.peek()? {
        if !["FULL", "GLOBAL", "SESSION", "LOCAL", "EXTENDED"].iter().any(|scope| word.is(scope)) {
            break;
        }
        is_full |= word.is("FULL");
        words.next()?;
    }
    let mut table = if words.take("VARIABLES")? {
        named_values("Variable_name", variables::all())
    } else if words.take("STATUS")? {
        named_values("Variable_name", status(guest))
    } else if words.take("DATABASES")? || words.take("SCHEMAS")? {
        let rows = (guest.schemas)().into_iter().map(|schema| vec![schema.into()]).collect();
        Table { columns: texts(&["Database"]), rows }
    } else if words.take("TABLES")? {
        tables(is_full, &mut words, guest)?
    } else if words.take("GRANTS")? {
        let account = format!("Grants for {}@%", guest.user);
        let grant = format!("GRANT USAGE ON *.* TO `{}`@`%`", guest.user);
        Table { columns: vec![Column::text(account)], rows: vec![vec![grant.into()]] }
    } else if words.take("CREATE")? {
        let what = words.rest();
        let what = what.get(..what.floor_char_boundary(64)).unwrap_or_default();
        return Err(Failure::Unsupported(format!(
            "this is Rowstamp's console, which has no {what}: connect to the proxy for your data"
        )));
    } else if let Some(shown) = of_catalog(&mut words)? {
        let row = |row: &&[&str]| row.iter().map(|value| Value::from(*value)).collect();
        Table { columns: texts(shown.columns), rows: shown.rows.iter().map(row).collect() }
    } else {
        return Ok(None);
    };
    filter(&mut table, alone(words)?)?;
    Ok(Some(table))
}

fn named_values(name: &'static str, values: Vec<(&'static str, String)>) -> Table {
    let rows = values.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
    Table { columns: texts(&[name, "Value"]), rows }
}

fn status(guest: &Guest<'_>) -> Vec<(&'static str, String)> {
    let tls = |text: &str| if guest.is_tls { text.to_owned() } else { String::new() };
    vec![
        ("Ssl_cipher", tls("TLS")),
        ("Ssl_version", tls("TLS")),
        ("Threads_connected", "1".to_owned()),
        ("Uptime", guest.up_seconds.to_string()),
    ]
}

/// `SHOW [FULL] TABLES [FROM database]`: there are none, but the columns have the database's name.
fn tables(is_full: bool, words: &mut Words<'_>, guest: &Guest<'_>) -> Result<Table, Failure> {
    let database = if words.take("FROM")? || words.take("IN")? {
        command::name(words, "a database", "SHOW TABLES FROM database")?
    } else {
        guest.database.unwrap_or_default().to_owned()
    };
    let mut columns = vec![Column::text(format!("Tables_in_{database}"))];
    if is_full {
        columns.push(Column::text("Table_type"));
    }
    Ok(Table::empty(columns))
}

fn of_catalog(words: &mut Words<'_>) -> Result<Option<&'static catalog::Shown>, Failure> {
    for shown in &catalog::SHOWN {
        let mut ahead = *words;
        let mut is_it = true;
        for word in shown.words {
            is_it = is_it && ahead.take(word)?;
        }
        if is_it {
            *words = ahead;
            return Ok(Some(shown));
        }
    }
    Ok(None)
}

/// `LIKE 'pattern'`; and a WHERE as clients write it, which names what they look for: a row stays if its name is one of the texts.
fn filter(table: &mut Table, mut words: Words<'_>) -> Result<(), Failure> {
    let mut is_where = false;
    let mut texts = Vec::new();
    while let Some(word) = words.next()? {
        match word {
            word if word.is("LIKE") && !is_where => {
                if let Some(Word::Text(pattern)) = words.next()? {
                    table.keep_like(0, &pattern);
                }
            }
            word if word.is("WHERE") => is_where = true,
            Word::Text(text) if is_where => texts.push(text),
            // FROM a table, and whatever else says which of the tables that are not there.
            _ => {}
        }
    }
    if !texts.is_empty() {
        table.keep_named(&texts);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::admin::console::client::greetings::{Reply, answer};
    use crate::admin::console::client::guest::Guest;
    use crate::admin::console::show::table::Value;
    use proptest::prelude::proptest;

    fn guest() -> Guest<'static> {
        Guest {
            user: "dba",
            client: "10.0.0.5",
            connection_id: 2_147_483_649,
            database: Some("shop"),
            is_tls: true,
            up_seconds: 61,
            schemas: &|| vec!["blog".to_owned(), "shop".to_owned()],
        }
    }

    /// Columns and rows as text; "OK", "USE x", or the error.
    fn told(statement: &str) -> String {
        let value = |value: &Value| match value {
            Value::Null => "NULL".to_owned(),
            Value::Text(text) => text.clone(),
            Value::Unsigned(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
        };
        match answer(statement, &guest()) {
            None => "nothing of ours".to_owned(),
            Some(Err(failure)) => format!("{:?} {failure}", failure.kind()),
            Some(Ok(Reply::Done)) => "OK".to_owned(),
            Some(Ok(Reply::Use(name))) => format!("USE {name}"),
            Some(Ok(Reply::Table(table))) => {
                let columns: Vec<_> = table.columns.iter().map(|column| column.name.to_string()).collect();
                let rows = table.rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join("|"));
                std::iter::once(columns.join("|")).chain(rows).collect::<Vec<_>>().join("\n")
            }
        }
    }

    #[track_caller]
    fn check(statement: &str, expect: &str) {
        assert_eq!(told(statement), expect, "{statement}");
    }

    #[test]
    fn sessions_are_set_up() {
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
        let nothing = "ER_NOT_SUPPORTED_YET the console sets nothing: change rowstamp.toml or the rules, and RELOAD RULES";
        check("SET GLOBAL max_connections = 5", nothing);
        check("SET @@global.x = 5", nothing);
        check("SET PASSWORD = 'x'", nothing);
        check("SET @@session.x = 5, GLOBAL y = ','", nothing);
        check("SET x = ';', y = 'GLOBAL'", "OK");
        let several =
            "ER_PARSE_ERROR there is more behind it: another statement; write one statement at a time";
        for first in ["SET x = 1", "USE shop", "BEGIN", "SHOW STATUS", "SHOW TABLES", "SHOW ENGINES LIKE 'x'"]
        {
            check(&format!("{first}; RAISE GENERATOR shop.orders TO 7"), several);
            assert_eq!(told(&format!("{first} /* x */ ; ;\n")), told(first));
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
        check("SHOW GLOBAL STATUS LIKE 'upt%'", "Variable_name|Value\nUptime|61");
        check("SHOW SESSION STATUS LIKE 'Ssl_cipher'", "Variable_name|Value\nSsl_cipher|TLS");
        check("show databases", "Database\nblog\nshop");
        check("SHOW SCHEMAS LIKE 'b%'", "Database\nblog");
        check("SHOW FULL TABLES FROM `blog` WHERE table_type != 'VIEW'", "Tables_in_blog|Table_type");
        check("SHOW TABLES", "Tables_in_shop");
        check(
            "show character set where charset = 'utf8mb4'",
            "Charset|Description|Default collation|Maxlen\nutf8mb4|UTF-8 Unicode|utf8mb4_general_ci|4",
        );
        check("SHOW ENGINES", "Engine|Support|Comment|Transactions|XA|Savepoints");
        check("SHOW WARNINGS", "Level|Code|Message");
        check("SHOW FULL COLUMNS FROM `shop`.`orders`", "Field|Type|Null|Key|Default|Extra");
        check("SHOW GRANTS", "Grants for dba@%\nGRANT USAGE ON *.* TO `dba`@`%`");
        check(
            "SHOW CREATE TABLE shop.orders",
            "ER_NOT_SUPPORTED_YET this is Rowstamp's console, which has no TABLE shop.orders: connect to the proxy for your data",
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
        let no_tables = "ER_NOT_SUPPORTED_YET this is Rowstamp's console, which has no tables: connect to the proxy for your \
                         data; HELP lists what the console has";
        check("SELECT * FROM orders", no_tables);
        check("SELECT id FROM shop.orders WHERE id = 1", no_tables);
        check(
            "SELECT 1+1",
            "ER_NOT_SUPPORTED_YET the console computes nothing: it knows @@variables, DATABASE(), USER(), VERSION(), \
             CONNECTION_ID() and constants",
        );
    }

    proptest! {
        #[test]
        fn any_text(statement: String) {
            let _ = told(&statement);
        }

        #[test]
        fn any_select(tail in r"[ @a-zA-Z0-9_().,*'=+-]{0,60}") {
            let _ = told(&format!("SELECT {tail}"));
        }

        #[test]
        fn any_show(tail in "(?i)(FULL |VARIABLES|STATUS|TABLES|COLUMNS| FROM| LIKE| WHERE| '%?a?'|[a-z`.=]| ){0,8}") {
            let _ = told(&format!("SHOW {tail}"));
        }
    }
}
