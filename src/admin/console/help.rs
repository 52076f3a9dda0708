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

const TOPICS: [Topic; 17] = [
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
        "SHOW CONFIG [LIKE 'pattern']",
        "Every key of rowstamp.toml: its value, its default, and whether a change acts on a reload or on a restart. Secrets are ***.",
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
        "SHOW RULES [LIKE 'pattern']",
        "The rules in force, and the file and line of each.",
        "SHOW RULES LIKE 'shop.order%'",
    ),
    read(
        "SHOW SESSIONS [LIKE 'pattern']",
        "The clients of this proxy, and what went through. LIKE compares the user.",
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

/// All topics for `None` and for "contents", which the clients ask for; else those that have it in
/// their name.
pub(super) fn help(topic: Option<&str>) -> Table {
    let wanted = topic.unwrap_or("contents").to_uppercase();
    if wanted == "CONTENTS" {
        let rows = TOPICS
            .iter()
            .map(|topic| vec![topic.form.into(), role(topic.role).into(), Value::from(topic.does)]);
        return Table { columns: texts(["command", "role", "description"]), rows: rows.collect() };
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

    #[test]
    fn every_command_has_its_topic_and_every_example_is_one() {
        let names: Vec<_> = TOPICS.iter().map(Topic::name).collect();
        assert!(names.is_sorted() && names.contains(&"EXPLAIN REWRITE"), "{names:?}");
        for (word, _) in SHOWN {
            assert!(names.contains(&&*format!("SHOW {word}")), "{word}");
        }
        for topic in &TOPICS {
            assert!(parse(topic.example).is_ok(), "{}", topic.example);
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
            (Some("show"), 2, 9),
            (Some("no such thing"), 2, 0),
        ] {
            let table = help(topic);
            assert_eq!((table.columns.len(), table.rows.len()), (columns, rows), "{topic:?}");
        }
    }
}
