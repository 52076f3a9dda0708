//! HELP: each command with its form, the right that it needs and an example, in the columns of a server's HELP.
//! The command-line clients print one row of three columns as a topic. Source: MySQL manual, "HELP
//! Statement".

use super::answer::{Table, Value, texts};
use crate::users::Right;

struct Topic {
    form: &'static str,
    /// On all generators; PAUSE, RAISE and RESUME need it on theirs. `None`: every user may.
    right: Option<Right>,
    does: &'static str,
    example: &'static str,
}

impl Topic {
    /// The name that HELP takes: the first words of the form.
    fn name(&self) -> &'static str {
        let is_argument = |c: char| c == '[' || c.is_lowercase();
        self.form.split(is_argument).next().unwrap_or_default().trim_end()
    }
}

const fn read(form: &'static str, does: &'static str, example: &'static str) -> Topic {
    Topic { form, right: Some(Right::Read), does, example }
}

const fn admin(form: &'static str, does: &'static str, example: &'static str) -> Topic {
    Topic { form, right: Some(Right::Admin), does, example }
}

const fn any(form: &'static str, does: &'static str, example: &'static str) -> Topic {
    Topic { form, right: None, does, example }
}

const TOPICS: [Topic; 32] = [
    admin(
        "ALTER USER name IDENTIFIED BY 'password'",
        "Gives a user of the store another password. Connections that logged in by the old password end their rights at once.",
        "ALTER USER app IDENTIFIED BY 'another'",
    ),
    admin(
        "CREATE TOKEN FOR name [EXPIRES 'YYYY-MM-DD hh:mm:ss']",
        "Makes a token, which a user of the store logs in with in place of its password. The token is shown this once. The time is in UTC.",
        "CREATE TOKEN FOR app EXPIRES '2027-12-31 00:00:00'",
    ),
    admin(
        "CREATE USER [IF NOT EXISTS] name [IDENTIFIED BY 'password']",
        "Makes a user in the store, which all proxies of the store know within a second. The user has no right until GRANT gives one. Without \
         a password it logs in by tokens alone.",
        "CREATE USER app IDENTIFIED BY 'a password'",
    ),
    admin(
        "DRAIN",
        "Ends this proxy, as SIGTERM does: it takes no new clients, and ends each session between transactions, after limits.drain_timeout at the \
         latest.",
        "DRAIN",
    ),
    admin(
        "DROP TOKEN id FOR name",
        "Removes a token. Connections that logged in by it end their rights within a second. SHOW TOKENS has the ids.",
        "DROP TOKEN 5f70bf18a086 FOR app",
    ),
    admin(
        "DROP USER [IF EXISTS] name",
        "Removes a user of the store, its rights and its tokens. Its connections to the console and to the port for clients of Redis have no rights within \
         a second, at every proxy. What a session of that name may draw by calls in SQL is then the server's to decide, as for other names.",
        "DROP USER app",
    ),
    read(
        "EXPLAIN REWRITE [IN database] statement",
        "Shows the text that Rowstamp would send to the server for a statement, or why it would refuse the statement. The command sends \
         nothing and issues no id. The database is that of IN, otherwise that of USE.",
        "EXPLAIN REWRITE IN shop INSERT INTO orders (customer) VALUES ('Ada')",
    ),
    admin(
        "GRANT right [, right] ON generators TO name [LIMIT n PER SECOND]",
        "Gives a user of the store rights: TAKE to draw ids, READ to look, CREATE to make generators, ADMIN to raise and pause them, or ALL. \
         The generators are schema.name, schema.* or *.*. LIMIT is for TAKE: so many ids a second, of all proxies together. \
         The same GRANT without LIMIT removes the limit.",
        "GRANT TAKE ON shop.* TO app LIMIT 1000 PER SECOND",
    ),
    any("HELP [command]", "Shows this list, or the description of one command.", "HELP SHOW GENERATORS"),
    admin(
        "KILL id",
        "Ends a session at once, whatever the session does. The first column of SHOW SESSIONS has the ids.",
        "KILL 7",
    ),
    admin(
        "PAUSE GENERATOR schema.name",
        "This proxy takes no ids of the generator until RESUME. INSERTs that need an id fail with error 1467. Other proxies continue.",
        "PAUSE GENERATOR shop.orders",
    ),
    admin(
        "RAISE GENERATOR schema.name TO number [YES]",
        "Raises a sequence: from now on this proxy issues no id below the number, and no proxy reserves such an id. Other proxies first issue \
         the ids that they have reserved, below bound_before. RAISE never lowers a sequence. A number far above the ids in use needs YES.",
        "RAISE GENERATOR shop.orders TO 5000000",
    ),
    admin(
        "RELOAD RULES [DRY RUN]",
        "Reads rowstamp.toml and the rules again, as SIGHUP does. Everything takes effect, or nothing. DRY RUN checks everything and changes \
         nothing; it needs only READ.",
        "RELOAD RULES DRY RUN",
    ),
    admin("RESUME GENERATOR schema.name", "Ends a PAUSE.", "RESUME GENERATOR shop.orders"),
    admin(
        "REVOKE right [, right] ON generators FROM name",
        "Takes rights away that GRANT gave, with the same words after ON. It acts within a second, at every proxy, also for connections that are open.",
        "REVOKE TAKE ON shop.* FROM app",
    ),
    read(
        "SELECT columns FROM table [WHERE ...] [ORDER BY ...] [LIMIT n]",
        "Reads the table of a SHOW: rules, generators, sessions and so on. A SELECT takes columns or COUNT(*), and conditions of columns \
         and constants. Every SHOW takes WHERE, ORDER BY and LIMIT too.",
        "SELECT generator, issued_ids FROM generators WHERE state <> 'open' ORDER BY issued_ids DESC LIMIT 5",
    ),
    read(
        "SHOW BACKENDS [LIKE 'pattern']",
        "The servers of backend.address: the one that new sessions go to, whether each answers and accepts writes, and the last error of a \
         connection for a client.",
        "SHOW BACKENDS",
    ),
    any(
        "SHOW COMMANDS [LIKE 'pattern']",
        "This list. The clients mysql and mariadb do not send HELP without a topic.",
        "SHOW COMMANDS LIKE 'SHOW%'",
    ),
    read(
        "SHOW CONFIG [LIKE 'pattern']",
        "Every key of rowstamp.toml: its value, its default, and when a change takes effect: at once with a reload, for new connections, or after a restart. Secrets are ***.",
        "SHOW CONFIG LIKE 'limits.%'",
    ),
    read(
        "SHOW DOORS [LIKE 'pattern']",
        "The ports where clients of Redis and of HTTP draw ids: where each listens, its clients, and what became of their requests and logins since the \
         start.",
        "SHOW DOORS",
    ),
    read(
        "SHOW FINDINGS [LIKE 'pattern']",
        "The findings of rowstamp check --online, which compares the rules with the live tables, and their remedies. Asks the backend.",
        "SHOW FINDINGS LIKE 'error'",
    ),
    any(
        "SHOW GENERATORS [LIKE 'pattern']",
        "The generators that the user has READ on: how many ids each has issued, has in reserve and has used. A generator that no rule with mode = \"on\" names is \
         unused; its bound comes from the store.",
        "SHOW GENERATORS LIKE 'shop.%'",
    ),
    any(
        "SHOW GRANTS [FOR name] [LIKE 'pattern']",
        "The rights of users, and the statement that gives each. An ADMIN of all generators sees those of all users, others their own. LIKE \
         compares the user.",
        "SHOW GRANTS FOR app",
    ),
    read(
        "SHOW PROXIES [LIKE 'pattern']",
        "The proxies that run with the same store. Asks the store.",
        "SHOW PROXIES",
    ),
    read(
        "SHOW REFUSED [LIKE 'pattern']",
        "The statements that this proxy has refused since its start, the most frequent first. Statements that differ only in their values \
         share a row. LIKE compares the statement.",
        "SHOW REFUSED LIKE '%orders%'",
    ),
    read(
        "SHOW RULES [LIKE 'pattern']",
        "The active rules, and the file and line of each.",
        "SHOW RULES LIKE 'shop.order%'",
    ),
    read(
        "SHOW SESSIONS [LIKE 'pattern']",
        "The clients of this proxy, their numbers of statements, ids and bytes, and the last statement of each that got ids, without its \
         values. LIKE compares the user.",
        "SHOW SESSIONS LIKE 'app'",
    ),
    read(
        "SHOW SLOTS [LIKE 'pattern']",
        "The nodes of timestamp generators, the proxy that has each node, and the time up to which it has reserved ids. Asks the store.",
        "SHOW SLOTS LIKE 'shop.events'",
    ),
    read(
        "SHOW STATS [LIKE 'pattern']",
        "All metrics, under the names of /metrics.",
        "SHOW STATS LIKE '%ids%'",
    ),
    any(
        "SHOW TOKENS [LIKE 'pattern']",
        "The tokens of users: the id of each, when it was made and when it expires. An ADMIN of all generators sees those of all users, others \
         their own.",
        "SHOW TOKENS LIKE 'app'",
    ),
    any(
        "SHOW USERS [LIKE 'pattern']",
        "The users of this proxy's rowstamp.toml and those of the store. An ADMIN of all generators sees all, others themselves.",
        "SHOW USERS",
    ),
    read(
        "SHOW VERSION [LIKE 'pattern']",
        "This proxy: its version, name, addresses and age, and the result of each check.",
        "SHOW VERSION",
    ),
];

/// A command's form, the right that it needs, and what it does; all of them.
pub(super) fn commands() -> Vec<(&'static str, &'static str, &'static str)> {
    TOPICS.iter().map(|topic| (topic.form, right(topic), topic.does)).collect()
}

/// All topics for `None`, and, in the form of a category, for "contents", which the clients ask for; else
/// those that have it in their name.
pub(super) fn help(topic: Option<&str>) -> Table {
    let Some(topic) = topic else {
        let row =
            |(form, right, does): (&str, &str, &str)| vec![form.into(), right.into(), Value::from(does)];
        let rows = commands().into_iter().map(row).collect();
        return Table { columns: texts(["command", "needs", "description"]), rows };
    };
    let wanted = topic.to_uppercase();
    if wanted == "CONTENTS" {
        let row = |topic: &Topic| vec!["Contents".into(), topic.name().into(), "N".into()];
        let columns = texts(["source_category_name", "name", "is_it_category"]);
        return Table { columns, rows: TOPICS.iter().map(row).collect() };
    }
    let exact = TOPICS.iter().find(|topic| topic.name() == wanted);
    let like: Vec<_> = TOPICS.iter().filter(|topic| topic.name().contains(&wanted)).collect();
    let only = if let [only] = like[..] { Some(only) } else { None };
    if let Some(topic) = exact.or(only) {
        let needs = topic.right.map_or_else(String::new, |right| format!("Needs {right}.\n"));
        let needs = format!("{}\n\n{}\n{needs}", topic.form, topic.does);
        let row = vec![topic.name().into(), needs.into(), format!("{}\n", topic.example).into()];
        return Table { columns: texts(["name", "description", "example"]), rows: vec![row] };
    }
    let rows = like.iter().map(|topic| vec![topic.name().into(), "N".into()]).collect();
    Table { columns: texts(["name", "is_it_category"]), rows }
}

/// Empty: none.
fn right(topic: &Topic) -> &'static str {
    topic.right.map_or("", Right::word)
}

#[cfg(test)]
mod tests {
    use super::{TOPICS, Topic, help};
    use crate::admin::console::command::{SHOWN, parse};
    use crate::admin::console::query::of_select;

    #[test]
    fn every_command_has_its_topic_and_every_example_is_one() {
        let names: Vec<_> = TOPICS.iter().map(Topic::name).collect();
        assert!(names.is_sorted() && names.contains(&"EXPLAIN REWRITE"), "{names:?}");
        for (word, _) in SHOWN {
            assert!(names.contains(&&*format!("SHOW {word}")), "{word}");
        }
        for topic in &TOPICS {
            let is_known = parse(topic.example).is_ok() || matches!(of_select(topic.example), Some(Ok(_)));
            assert!(is_known, "{}", topic.example);
            assert!(topic.example.starts_with(topic.name()), "{}", topic.form);
        }
    }

    #[test]
    fn forms_that_the_clients_know() {
        for (topic, columns, rows) in [
            (None, 3, TOPICS.len()),
            (Some("contents"), 3, TOPICS.len()),
            (Some("show rules"), 3, 1),
            (Some("KILL"), 3, 1),
            (Some("slots"), 3, 1),
            (Some("show"), 2, 16),
            (Some("no such thing"), 2, 0),
        ] {
            let table = help(topic);
            assert_eq!((table.columns.len(), table.rows.len()), (columns, rows), "{topic:?}");
        }
    }
}
