//! The console's own statements: text -> what is asked for.

use std::fmt;

use super::syntax::{SyntaxError, shown, unknown, wrong};
use super::words::{Word, Words};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Show { what: What, like: Option<String> },
    Explain { statement: String, database: Option<String> },
    Reload { is_dry_run: bool },
    Raise { generator: String, to: u64, is_meant: bool },
    Pause { generator: String },
    Resume { generator: String },
    Drain,
    Kill { session: u64 },
    Help { topic: Option<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Rules,
    Generators,
    Proxies,
    Slots,
    Sessions,
    Stats,
    Findings,
    Config,
    Version,
}

/// Of `schema.name`, with room to spare: what is longer is not for the log.
const GENERATOR_CHARACTERS_MAX: usize = 200;

/// What SHOW shows.
pub(super) const SHOWN: [(&str, What); 9] = [
    ("CONFIG", What::Config),
    ("FINDINGS", What::Findings),
    ("GENERATORS", What::Generators),
    ("PROXIES", What::Proxies),
    ("RULES", What::Rules),
    ("SESSIONS", What::Sessions),
    ("SLOTS", What::Slots),
    ("STATS", What::Stats),
    ("VERSION", What::Version),
];
/// The words that statements begin with.
const BEGINNINGS: [&str; 9] =
    ["DRAIN", "EXPLAIN", "HELP", "KILL", "PAUSE", "RAISE", "RELOAD", "RESUME", "SHOW"];

/// As the log has it: what is explained stays out of it, for its literals.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Show { what, .. } => {
                let name = SHOWN.iter().find(|(_, shown)| shown == what).map_or("", |(name, _)| name);
                write!(f, "SHOW {name}")
            }
            Command::Explain { .. } => f.write_str("EXPLAIN REWRITE"),
            Command::Reload { is_dry_run: true } => f.write_str("RELOAD RULES DRY RUN"),
            Command::Reload { is_dry_run: false } => f.write_str("RELOAD RULES"),
            Command::Raise { generator, to, is_meant } => {
                let yes = if *is_meant { " YES" } else { "" };
                write!(f, "RAISE GENERATOR {generator:?} TO {to}{yes}")
            }
            Command::Pause { generator } => write!(f, "PAUSE GENERATOR {generator:?}"),
            Command::Resume { generator } => write!(f, "RESUME GENERATOR {generator:?}"),
            Command::Drain => f.write_str("DRAIN"),
            Command::Kill { session } => write!(f, "KILL {session}"),
            Command::Help { .. } => f.write_str("HELP"),
        }
    }
}

/// Reads one statement.
pub(super) fn parse(statement: &str) -> Result<Command, SyntaxError> {
    let mut words = Words::new(statement);
    let first = words.next()?;
    let beginning = BEGINNINGS.into_iter().find(|word| first.as_ref().is_some_and(|first| first.is(word)));
    match beginning {
        Some("SHOW") => show(words),
        Some("EXPLAIN") => explain(words),
        Some("RELOAD") => reload(words),
        Some("RAISE") => raise(words),
        Some("PAUSE") => {
            let generator = named_generator(&mut words, "PAUSE GENERATOR schema.name")?;
            end(&words, Command::Pause { generator }, "PAUSE GENERATOR schema.name")
        }
        Some("RESUME") => {
            let generator = named_generator(&mut words, "RESUME GENERATOR schema.name")?;
            end(&words, Command::Resume { generator }, "RESUME GENERATOR schema.name")
        }
        Some("DRAIN") => end(&words, Command::Drain, "DRAIN"),
        Some("KILL") => kill(words),
        Some("HELP") => Ok(help(words)),
        _ => Err(unknown(first.as_ref(), &BEGINNINGS, "")),
    }
}

fn show(mut words: Words<'_>) -> Result<Command, SyntaxError> {
    // Clients' words in front of what they ask for.
    let _ = words.take("FULL")? || words.take("GLOBAL")? || words.take("SESSION")?;
    let word = words.next()?;
    // What a DBA's fingers know.
    let is_processlist = word.as_ref().is_some_and(|word| word.is("PROCESSLIST"));
    let what = SHOWN.into_iter().find(|(name, _)| word.as_ref().is_some_and(|word| word.is(name)));
    let what = match what {
        Some((_, what)) => what,
        None if is_processlist => What::Sessions,
        None => return Err(unknown(word.as_ref(), &SHOWN.map(|(name, _)| name), "SHOW ")),
    };
    let like = like(&mut words)?;
    end(&words, Command::Show { what, like }, "SHOW ... [LIKE 'pattern']")
}

/// `LIKE 'pattern'`, if it is there.
pub(super) fn like(words: &mut Words<'_>) -> Result<Option<String>, SyntaxError> {
    if words.peek()?.is_some_and(|word| word.is("WHERE")) {
        return Err(SyntaxError::Where);
    }
    if !words.take("LIKE")? {
        return Ok(None);
    }
    match words.next()? {
        Some(Word::Text(pattern)) => Ok(Some(pattern)),
        other => Err(wrong(other.as_ref(), "a pattern in quotes", "LIKE 'pattern'")),
    }
}

fn explain(mut words: Words<'_>) -> Result<Command, SyntaxError> {
    const FORM: &str = "EXPLAIN REWRITE [IN database] INSERT ...";
    if !words.take("REWRITE")? {
        return Err(wrong(words.next()?.as_ref(), "REWRITE", FORM));
    }
    let database = if words.take("IN")? { Some(name(&mut words, "a database", FORM)?) } else { None };
    let statement = words.rest();
    if statement.is_empty() {
        return Err(wrong(None, "a statement", FORM));
    }
    Ok(Command::Explain { statement: statement.to_owned(), database })
}

fn reload(mut words: Words<'_>) -> Result<Command, SyntaxError> {
    const FORM: &str = "RELOAD RULES [DRY RUN]";
    if !words.take("RULES")? {
        return Err(wrong(words.next()?.as_ref(), "RULES", FORM));
    }
    let is_dry_run = words.take("DRY")?;
    if is_dry_run && !words.take("RUN")? {
        return Err(wrong(words.next()?.as_ref(), "RUN", FORM));
    }
    end(&words, Command::Reload { is_dry_run }, FORM)
}

fn raise(mut words: Words<'_>) -> Result<Command, SyntaxError> {
    const FORM: &str = "RAISE GENERATOR schema.name TO number [YES]";
    let generator = named_generator(&mut words, FORM)?;
    if !words.take("TO")? {
        return Err(wrong(words.next()?.as_ref(), "TO", FORM));
    }
    let to = number(&mut words, FORM)?;
    let is_meant = words.take("YES")?;
    end(&words, Command::Raise { generator, to, is_meant }, FORM)
}

fn kill(mut words: Words<'_>) -> Result<Command, SyntaxError> {
    const FORM: &str = "KILL number, of SHOW SESSIONS";
    if words.take("QUERY")? {
        // Command-line clients send it at Ctrl-C, with the id of their connection to the console.
        return Err(SyntaxError::KillQuery);
    }
    let _ = words.take("CONNECTION")? || words.take("SESSION")?;
    let session = number(&mut words, FORM)?;
    end(&words, Command::Kill { session }, FORM)
}

/// All words behind it are one topic; the command-line clients put it in quotes.
fn help(mut words: Words<'_>) -> Command {
    let rest = words.rest();
    let topic = match words.next() {
        Ok(Some(Word::Text(topic))) => topic,
        _ => rest.to_owned(),
    };
    let topic = topic.split_whitespace().collect::<Vec<_>>().join(" ");
    Command::Help { topic: Some(topic).filter(|topic| !topic.is_empty()) }
}

fn named_generator(words: &mut Words<'_>, form: &'static str) -> Result<String, SyntaxError> {
    if !words.take("GENERATOR")? {
        return Err(wrong(words.next()?.as_ref(), "GENERATOR", form));
    }
    let name = name(words, "a generator's name", form)?;
    if name.chars().count() > GENERATOR_CHARACTERS_MAX {
        return Err(wrong(Some(&Word::Plain(&name)), "a generator's name", form));
    }
    Ok(name)
}

/// A name, or several with dots between, in any quotes or none.
pub(super) fn name(
    words: &mut Words<'_>,
    wanted: &'static str,
    form: &'static str,
) -> Result<String, SyntaxError> {
    let mut name = String::new();
    loop {
        match words.next()? {
            Some(Word::Plain(word)) => name.push_str(word),
            Some(Word::Name(word) | Word::Text(word)) => name.push_str(&word),
            other => return Err(wrong(other.as_ref(), wanted, form)),
        }
        // Names may have it without quotes: `my-shop.orders`.
        match words.peek()? {
            Some(Word::Sign(sign @ ('.' | '-'))) => name.push(sign),
            _ => return Ok(name),
        }
        words.next()?;
    }
}

fn number(words: &mut Words<'_>, form: &'static str) -> Result<u64, SyntaxError> {
    let word = words.next()?;
    let number = match &word {
        Some(Word::Plain(digits)) => digits.parse().ok(),
        Some(Word::Text(digits)) => digits.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong(word.as_ref(), "a number of at most 18446744073709551615", form))
}

fn end(words: &Words<'_>, command: Command, form: &'static str) -> Result<Command, SyntaxError> {
    match words.peek()? {
        None => Ok(command),
        Some(word) => Err(SyntaxError::More { found: shown(Some(&word)), form }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, What, parse};
    use proptest::prelude::{any, proptest};
    use proptest::prop_oneof;
    use proptest::strategy::{Just, Strategy};

    #[track_caller]
    fn check(statement: &str, expect: Command) {
        assert_eq!(parse(statement), Ok(expect), "{statement}");
    }

    #[track_caller]
    fn refused(statement: &str, expect: &str) {
        assert_eq!(parse(statement).unwrap_err().to_string(), expect, "{statement}");
    }

    #[test]
    fn what_is_shown() {
        for (word, what) in super::SHOWN {
            check(&format!("SHOW {word}"), Command::Show { what, like: None });
            check(&format!("show {} ;", word.to_lowercase()), Command::Show { what, like: None });
        }
        let like = |what| Command::Show { what, like: Some("shop.%".into()) };
        check("SHOW GENERATORS LIKE 'shop.%'", like(What::Generators));
        check("/* x */ show rules\nlike \"shop.%\"\\G", like(What::Rules));
        check("SHOW FULL PROCESSLIST", Command::Show { what: What::Sessions, like: None });
        refused("SHOW RULES LIKE shop", "shop in place of a pattern in quotes; write LIKE 'pattern'");
        refused(
            "SHOW RULES WHERE a = 1",
            "the console has no WHERE; write LIKE 'pattern', which the first column is compared with",
        );
        refused("SHOW RULES x", "there is more behind it: x; write SHOW ... [LIKE 'pattern']");
    }

    #[test]
    fn what_is_done() {
        let explain = |statement: &str, database: Option<&str>| Command::Explain {
            statement: statement.into(),
            database: database.map(str::to_owned),
        };
        check("EXPLAIN REWRITE INSERT INTO t VALUES (1);", explain("INSERT INTO t VALUES (1)", None));
        check(
            "explain rewrite in `my db` insert into t set a=';'",
            explain("insert into t set a=';'", Some("my db")),
        );
        check("RELOAD RULES", Command::Reload { is_dry_run: false });
        check("reload rules dry run", Command::Reload { is_dry_run: true });
        let raise = |to| Command::Raise { generator: "shop.orders".into(), to, is_meant: false };
        let meant = Command::Raise { generator: "shop.orders".into(), to: 7, is_meant: true };
        check("RAISE GENERATOR shop.orders TO 7 YES", meant);
        check("RAISE GENERATOR shop.orders TO 5000", raise(5000));
        check("RAISE GENERATOR `shop`.`orders` TO 18446744073709551615", raise(u64::MAX));
        check("RAISE GENERATOR 'shop.orders' TO '7'", raise(7));
        check("PAUSE GENERATOR my-shop.orders", Command::Pause { generator: "my-shop.orders".into() });
        check("RESUME GENERATOR \"shop\".orders", Command::Resume { generator: "shop.orders".into() });
        check("DRAIN", Command::Drain);
        check("KILL 7", Command::Kill { session: 7 });
        check("kill connection 7", Command::Kill { session: 7 });
        check("HELP", Command::Help { topic: None });
        check("help 'show  rules'", Command::Help { topic: Some("show rules".into()) });
        check("help show rules;", Command::Help { topic: Some("show rules".into()) });
    }

    #[test]
    fn what_is_not_understood() {
        refused(
            "SHOW RULSE",
            "the console has no SHOW RULSE; did you mean SHOW RULES?; HELP lists what it has",
        );
        refused(
            "SHOW PROXY",
            "the console has no SHOW PROXY; did you mean SHOW PROXIES?; HELP lists what it has",
        );
        refused(
            "SHOW GENERATOR",
            "the console has no SHOW GENERATOR; did you mean SHOW GENERATORS?; HELP lists what it has",
        );
        refused("SHWO RULES", "the console has no SHWO; did you mean SHOW?; HELP lists what it has");
        refused("SHOW", "the console has no SHOW of nothing; HELP lists what it has");
        refused("", "the console has no empty statement; HELP lists what it has");
        refused("INSERT INTO t VALUES (1)", "the console has no INSERT; HELP lists what it has");
        refused("'secret'", "the console has no a text in quotes; HELP lists what it has");
        refused(
            "EXPLAIN INSERT",
            "INSERT in place of REWRITE; write EXPLAIN REWRITE [IN database] INSERT ...",
        );
        refused(
            "EXPLAIN REWRITE",
            "the end in place of a statement; write EXPLAIN REWRITE [IN database] INSERT ...",
        );
        refused("RELOAD", "the end in place of RULES; write RELOAD RULES [DRY RUN]");
        refused("RELOAD RULES DRY", "the end in place of RUN; write RELOAD RULES [DRY RUN]");
        refused("PAUSE shop.orders", "shop in place of GENERATOR; write PAUSE GENERATOR schema.name");
        refused(
            &format!("PAUSE GENERATOR '{}'", "x".repeat(201)),
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... in place of a generator's name; write PAUSE GENERATOR schema.name",
        );
        refused(
            "RAISE GENERATOR a.b TO -1",
            "- in place of a number of at most 18446744073709551615; write RAISE GENERATOR schema.name TO number [YES]",
        );
        refused(
            "KILL QUERY 7",
            "a statement of the console is never in the middle of its work; end a session by KILL n (SHOW SESSIONS)",
        );
        refused("DRAIN now", "there is more behind it: now; write DRAIN");
        refused("SHOW `x", "a name in backticks is not closed");
    }

    #[test]
    fn what_the_log_says() {
        for statement in [
            "SHOW GENERATORS",
            "RELOAD RULES DRY RUN",
            "RELOAD RULES",
            "DRAIN",
            "KILL 7",
            "HELP",
            "RAISE GENERATOR \"shop.orders\" TO 7",
            "PAUSE GENERATOR \"a.b\"",
            "RESUME GENERATOR \"a.b\"",
        ] {
            assert_eq!(parse(statement).unwrap().to_string(), statement);
        }
        assert_eq!(parse("EXPLAIN REWRITE INSERT 'secret'").unwrap().to_string(), "EXPLAIN REWRITE");
    }

    proptest! {
        #[test]
        fn any_text(statement: String) {
            let _ = parse(&statement).map_err(|error| error.to_string());
        }

        #[test]
        fn any_words(words in proptest::collection::vec(word(), 0..8)) {
            let _ = parse(&words.join(" ")).map_err(|error| error.to_string());
        }

        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            let _ = parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string());
        }
    }

    fn word() -> impl Strategy<Value = String> {
        const KNOWN: &str = "SHOW RULES LIKE EXPLAIN REWRITE IN RELOAD DRY RUN RAISE GENERATOR TO PAUSE KILL HELP '%' `a` . - ; \\G 7 ' é";
        let known: Vec<_> = KNOWN.split(' ').collect();
        prop_oneof![
            (0..known.len()).prop_map(move |nth| known[nth].to_owned()),
            any::<String>(),
            Just("shop".to_owned()),
        ]
    }
}
