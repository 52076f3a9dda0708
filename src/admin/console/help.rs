//! HELP: each command with its form, its role and an example, in the columns of a server's HELP.
//! The command-line clients print one row of three columns as a topic. Source: MySQL manual, "HELP
//! Statement".

use super::answer::{Table, Value, texts};
use crate::admin::desk::Role;

struct Topic {
    form: &'static str,
    role: Role,
    does: &'static str,
    example: &'static str,
}

impl Topic {
    /// What HELP is asked for: the words that its form begins with.
    fn name(&self) -> &'static str {
        let is_argument = |c: char| c == '[' || c.is_lowercase();
        self.form.split(is_argument).next().unwrap_or_default().trim_end()
    }
}

const fn read(form: &'static str, does: &'static str, example: &'static str) -> Topic {
    Topic { form, role: Role::Read, does, example }
}

const fn write(form: &'static str, does: &'static str, example: &'static str) -> Topic {
    Topic { form, role: Role::Write, does, example }
}

const TOPICS: [Topic; 21] = [
    write(
        "DRAIN",
        "Ends this proxy as SIGTERM does: no new clients, sessions end between transactions, at most limits.drain_timeout later.",
        "DRAIN",
    ),
    read(
        "EXPLAIN REWRITE [IN database] statement",
        "What would be sent to the server for a statement, or why it would be refused. Nothing is sent and no id is issued. The \
         database is the one of IN, or else of USE.",
        "EXPLAIN REWRITE IN shop INSERT INTO orders (customer) VALUES ('Ada')",
    ),
    read("HELP [command]", "This list, or what one command does.", "HELP SHOW GENERATORS"),
    write(
        "KILL id",
        "Ends a session at once, whatever it does. Its id is the first column of SHOW SESSIONS.",
        "KILL 7",
    ),
    write(
        "PAUSE GENERATOR schema.name",
        "This proxy takes no ids of it until RESUME: INSERTs that need one are refused with 1467. Other proxies go on.",
        "PAUSE GENERATOR shop.orders",
    ),
    write(
        "RAISE GENERATOR schema.name TO number [YES]",
        "Ids that the sequence issues here from now on are at least this number, and so is what any proxy reserves from now on. Other \
         proxies issue first what they have reserved, below bound_before. It is never lowered. A number far above what is in use needs YES.",
        "RAISE GENERATOR shop.orders TO 5000000",
    ),
    write(
        "RELOAD RULES [DRY RUN]",
        "Reads rowstamp.toml and the rules again, as SIGHUP does: all of it acts, or nothing. DRY RUN checks all and changes nothing; \
         for that role = \"read\" suffices.",
        "RELOAD RULES DRY RUN",
    ),
    write("RESUME GENERATOR schema.name", "Ends a PAUSE.", "RESUME GENERATOR shop.orders"),
    read(
        "SELECT columns FROM table [WHERE ...] [ORDER BY ...] [LIMIT n]",
        "Reads what a SHOW shows: rules, generators, sessions and so on. Columns or COUNT(*); conditions of columns and constants. Every SHOW \
         takes WHERE, ORDER BY and LIMIT too.",
        "SELECT generator, issued_ids FROM generators WHERE state <> 'open' ORDER BY issued_ids DESC LIMIT 5",
    ),
    read(
        "SHOW BACKENDS [LIKE 'pattern']",
        "The servers of backend.address: which one new sessions go to, whether each answers and takes writes, and why connections for \
         clients could not be made.",
        "SHOW BACKENDS",
    ),
    read(
        "SHOW COMMANDS [LIKE 'pattern']",
        "This list. MariaDB's client keeps a bare HELP to itself.",
        "SHOW COMMANDS LIKE 'SHOW%'",
    ),
    read(
        "SHOW CONFIG [LIKE 'pattern']",
        "Every key of rowstamp.toml: its value, its default, and when a change takes effect: at once with a reload, for new connections, or after a restart. Secrets are ***.",
        "SHOW CONFIG LIKE 'limits.%'",
    ),
    read(
        "SHOW FINDINGS [LIKE 'pattern']",
        "What rowstamp check --online finds: rules against the live tables, with the remedy. Asks the backend.",
        "SHOW FINDINGS LIKE 'error'",
    ),
    read(
        "SHOW GENERATORS [LIKE 'pattern']",
        "The generators: what they issued, what is in reserve, and how much of their ids is used up. Those that no rule which acts \
         names are unused: of them the store knows the bound.",
        "SHOW GENERATORS LIKE 'shop.%'",
    ),
    read(
        "SHOW PROXIES [LIKE 'pattern']",
        "The proxies that live on the same store. Asks the store.",
        "SHOW PROXIES",
    ),
    read(
        "SHOW REFUSED [LIKE 'pattern']",
        "The statements that this proxy has refused since its start, one row for all that differ in their values alone, the most frequent \
         first. LIKE compares the statement.",
        "SHOW REFUSED LIKE '%orders%'",
    ),
    read(
        "SHOW RULES [LIKE 'pattern']",
        "The active rules, and the file and line of each.",
        "SHOW RULES LIKE 'shop.order%'",
    ),
    read(
        "SHOW SESSIONS [LIKE 'pattern']",
        "The clients of this proxy, what went through, and the last statement of each that was given ids, without its values. LIKE compares the user.",
        "SHOW SESSIONS LIKE 'app'",
    ),
    read(
        "SHOW SLOTS [LIKE 'pattern']",
        "The nodes of timestamp generators, whose they are, and up to which time ids are reserved. Asks the store.",
        "SHOW SLOTS LIKE 'shop.events'",
    ),
    read(
        "SHOW STATS [LIKE 'pattern']",
        "All that is counted and measured, under the names of /metrics.",
        "SHOW STATS LIKE '%ids%'",
    ),
    read(
        "SHOW VERSION [LIKE 'pattern']",
        "This proxy: its version, name, addresses, age, and whether new clients are served as they should be.",
        "SHOW VERSION",
    ),
];

/// A command's form, the role that it needs, and what it does; all of them.
pub(super) fn commands() -> Vec<(&'static str, &'static str, &'static str)> {
    TOPICS.iter().map(|topic| (topic.form, role(topic.role), topic.does)).collect()
}

/// All topics for `None`, and, in the form of a category, for "contents", which the clients ask for; else
/// those that have it in their name.
pub(super) fn help(topic: Option<&str>) -> Table {
    let Some(topic) = topic else {
        let row = |(form, role, does): (&str, &str, &str)| vec![form.into(), role.into(), Value::from(does)];
        let rows = commands().into_iter().map(row).collect();
        return Table { columns: texts(["command", "role", "description"]), rows };
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
        let needs = format!("{}\n\n{}\nNeeds role = \"{}\".\n", topic.form, topic.does, role(topic.role));
        let row = vec![topic.name().into(), needs.into(), format!("{}\n", topic.example).into()];
        return Table { columns: texts(["name", "description", "example"]), rows: vec![row] };
    }
    let rows = like.iter().map(|topic| vec![topic.name().into(), "N".into()]).collect();
    Table { columns: texts(["name", "is_it_category"]), rows }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Read => "read",
        Role::Write => "write",
    }
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
            (Some("generators"), 3, 1),
            (Some("show"), 2, 12),
            (Some("no such thing"), 2, 0),
        ] {
            let table = help(topic);
            assert_eq!((table.columns.len(), table.rows.len()), (columns, rows), "{topic:?}");
        }
    }
}
