//! The console's own statements: text -> what is asked for.

use std::fmt;

use super::accounts;
use super::syntax::{SyntaxError, end, expect, name, number, unknown, wrong};
use super::tokens::{Token, Tokens};
use crate::users::Change;

/// A command of the console. `clauses` are the WHERE, ORDER BY and LIMIT of a SHOW, as they were written. `Pause` is PAUSE and RESUME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Show { what: ShowKind, like: Option<String>, clauses: String },
    Explain { statement: String, database: Option<String> },
    Reload { is_dry_run: bool },
    Raise { generator: String, to: u64, is_meant: bool },
    Pause { generator: String, is_paused: bool },
    Drain,
    Kill { session: u64 },
    Users(Change),
    Help { topic: Option<String> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShowKind {
    Backends,
    Commands,
    Doors,
    Rules,
    Generators,
    Grants,
    Proxies,
    Refused,
    Slots,
    Sessions,
    Stats,
    Findings,
    Config,
    Tokens,
    Users,
    Version,
}

/// The longest `schema.name`, with room to spare: a longer one is not for the log.
const GENERATOR_CHARACTERS_MAX: usize = 200;

pub(super) const SHOWN: [(&str, ShowKind); 16] = [
    ("BACKENDS", ShowKind::Backends),
    ("COMMANDS", ShowKind::Commands),
    ("CONFIG", ShowKind::Config),
    ("DOORS", ShowKind::Doors),
    ("FINDINGS", ShowKind::Findings),
    ("GENERATORS", ShowKind::Generators),
    ("GRANTS", ShowKind::Grants),
    ("PROXIES", ShowKind::Proxies),
    ("REFUSED", ShowKind::Refused),
    ("RULES", ShowKind::Rules),
    ("SESSIONS", ShowKind::Sessions),
    ("SLOTS", ShowKind::Slots),
    ("STATS", ShowKind::Stats),
    ("TOKENS", ShowKind::Tokens),
    ("USERS", ShowKind::Users),
    ("VERSION", ShowKind::Version),
];

type Parsed = Result<Command, SyntaxError>;
type Parse = fn(Tokens<'_>) -> Parsed;

/// The words that statements begin with, and what reads the rest.
const STATEMENTS: [(&str, Parse); 14] = [
    ("ALTER", |tokens| accounts::alter(tokens).map(Command::Users)),
    ("CREATE", |tokens| accounts::create(tokens).map(Command::Users)),
    ("DRAIN", |tokens| end(tokens, Command::Drain, "DRAIN")),
    ("DROP", |tokens| accounts::drop(tokens).map(Command::Users)),
    ("EXPLAIN", explain),
    ("GRANT", |tokens| accounts::grant(tokens).map(Command::Users)),
    ("HELP", |tokens| Ok(help(tokens))),
    ("KILL", kill),
    ("PAUSE", |tokens| pause(tokens, true, "PAUSE GENERATOR schema.name")),
    ("RAISE", raise),
    ("RELOAD", reload),
    ("RESUME", |tokens| pause(tokens, false, "RESUME GENERATOR schema.name")),
    ("REVOKE", |tokens| accounts::revoke(tokens).map(Command::Users)),
    ("SHOW", show),
];

/// A command as the log has it, without the statement that is explained, because of its literals.
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
            Command::Pause { generator, is_paused: true } => write!(f, "PAUSE GENERATOR {generator:?}"),
            Command::Pause { generator, is_paused: false } => write!(f, "RESUME GENERATOR {generator:?}"),
            Command::Drain => f.write_str("DRAIN"),
            Command::Kill { session } => write!(f, "KILL {session}"),
            Command::Users(change) => change.fmt(f),
            Command::Help { .. } => f.write_str("HELP"),
        }
    }
}

pub(super) fn parse(statement: &str) -> Parsed {
    let mut tokens = Tokens::new(statement);
    let first = tokens.next()?;
    match find(first.as_ref(), &STATEMENTS) {
        Some(parse) => parse(tokens),
        None => Err(unknown(first.as_ref(), &STATEMENTS.map(|(word, _)| word), "")),
    }
}

fn find<T: Copy>(token: Option<&Token<'_>>, of: &[(&str, T)]) -> Option<T> {
    let token = token?;
    of.iter().find(|(word, _)| token.is(word)).map(|(_, found)| *found)
}

fn show(mut tokens: Tokens<'_>) -> Parsed {
    // Clients put these in front of what they ask for.
    let _ = tokens.take("FULL")? || tokens.take("GLOBAL")? || tokens.take("SESSION")?;
    let word = tokens.next()?;
    // PROCESSLIST is what a DBA's fingers know.
    let is_processlist = word.as_ref().is_some_and(|word| word.is("PROCESSLIST"));
    let what = find(word.as_ref(), &SHOWN).or(is_processlist.then_some(ShowKind::Sessions));
    let what = what.ok_or_else(|| unknown(word.as_ref(), &SHOWN.map(|(name, _)| name), "SHOW "))?;
    let like = match what {
        ShowKind::Grants if tokens.take("FOR")? => of_user(&mut tokens)?,
        _ => like(&mut tokens)?,
    };
    let begins_clause = |word: Token<'_>| ["WHERE", "ORDER", "LIMIT"].iter().any(|clause| word.is(clause));
    if tokens.peek()?.is_some_and(begins_clause) {
        let clauses = tokens.rest().to_owned();
        return Ok(Command::Show { what, like, clauses });
    }
    end(
        tokens,
        Command::Show { what, like, clauses: String::new() },
        "SHOW ... [LIKE 'pattern'] [WHERE ...] [ORDER BY ...] [LIMIT n]",
    )
}

/// The user of SHOW GRANTS FOR, as a pattern that it alone is like. CURRENT_USER is the user who asks, as without FOR.
fn of_user(tokens: &mut Tokens<'_>) -> Result<Option<String>, SyntaxError> {
    const FORM: &str = "SHOW GRANTS FOR name";
    if tokens.take("CURRENT_USER")? {
        if tokens.peek()? == Some(Token::Sign('(')) {
            tokens.next()?;
            match tokens.next()? {
                Some(Token::Sign(')')) => {}
                other => return Err(wrong(other.as_ref(), ")", FORM)),
            }
        }
        return Ok(None);
    }
    let name = name(tokens, "the name of a user", FORM)?;
    Ok(Some(name.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_")))
}

/// `LIKE 'pattern'`, if it is there.
fn like(tokens: &mut Tokens<'_>) -> Result<Option<String>, SyntaxError> {
    if !tokens.take("LIKE")? {
        return Ok(None);
    }
    match tokens.next()? {
        Some(Token::Text(pattern)) => Ok(Some(pattern)),
        other => Err(wrong(other.as_ref(), "a pattern in quotes", "LIKE 'pattern'")),
    }
}

fn explain(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "EXPLAIN REWRITE [IN database] INSERT ...";
    expect(&mut tokens, "REWRITE", FORM)?;
    let database = if tokens.take("IN")? { Some(name(&mut tokens, "a database", FORM)?) } else { None };
    let statement = tokens.rest();
    if statement.is_empty() {
        return Err(wrong(None, "a statement", FORM));
    }
    Ok(Command::Explain { statement: statement.to_owned(), database })
}

fn reload(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "RELOAD RULES [DRY RUN]";
    expect(&mut tokens, "RULES", FORM)?;
    let is_dry_run = tokens.take("DRY")?;
    if is_dry_run {
        expect(&mut tokens, "RUN", FORM)?;
    }
    end(tokens, Command::Reload { is_dry_run }, FORM)
}

fn raise(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "RAISE GENERATOR schema.name TO number [YES]";
    let generator = generator(&mut tokens, FORM)?;
    expect(&mut tokens, "TO", FORM)?;
    let to = number(&mut tokens, FORM)?;
    let is_meant = tokens.take("YES")?;
    end(tokens, Command::Raise { generator, to, is_meant }, FORM)
}

fn pause(mut tokens: Tokens<'_>, is_paused: bool, form: &'static str) -> Parsed {
    let generator = generator(&mut tokens, form)?;
    end(tokens, Command::Pause { generator, is_paused }, form)
}

fn kill(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "KILL id, with an id of SHOW SESSIONS";
    if tokens.take("QUERY")? {
        // Command-line clients send it at Ctrl-C, with the id of their connection to the console.
        return Err(SyntaxError::KillQuery);
    }
    let _ = tokens.take("CONNECTION")? || tokens.take("SESSION")?;
    let session = number(&mut tokens, FORM)?;
    end(tokens, Command::Kill { session }, FORM)
}

/// All words that follow are one topic; the command-line clients put it in quotes.
fn help(mut tokens: Tokens<'_>) -> Command {
    let rest = tokens.rest();
    let topic = match tokens.next() {
        Ok(Some(Token::Text(topic))) => topic,
        _ => rest.to_owned(),
    };
    let topic = topic.split_whitespace().collect::<Vec<_>>().join(" ");
    Command::Help { topic: Some(topic).filter(|topic| !topic.is_empty()) }
}

fn generator(tokens: &mut Tokens<'_>, form: &'static str) -> Result<String, SyntaxError> {
    expect(tokens, "GENERATOR", form)?;
    let name = name(tokens, "a generator's name", form)?;
    if name.chars().count() > GENERATOR_CHARACTERS_MAX {
        return Err(wrong(Some(&Token::Word(&name)), "a generator's name", form));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::{Command, ShowKind, parse};
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
        let show = |what| Command::Show { what, like: None, clauses: String::new() };
        for (word, what) in super::SHOWN {
            check(&format!("SHOW {word}"), show(what));
            check(&format!("show {} ;", word.to_lowercase()), show(what));
        }
        let like = |what| Command::Show { what, like: Some("shop.%".into()), clauses: String::new() };
        let clauses = "WHERE a = 1 ORDER BY b LIMIT 2";
        let with_clauses =
            Command::Show { what: ShowKind::Rules, like: Some("x".into()), clauses: clauses.into() };
        check(&format!("SHOW RULES LIKE 'x' {clauses};"), with_clauses);
        check("SHOW GENERATORS LIKE 'shop.%'", like(ShowKind::Generators));
        check("/* x */ show rules\nlike \"shop.%\"\\G", like(ShowKind::Rules));
        check("SHOW FULL PROCESSLIST", show(ShowKind::Sessions));
        refused("SHOW RULES LIKE shop", "found shop, expected a pattern in quotes; write LIKE 'pattern'");
        refused(
            "SHOW RULES x",
            "unexpected text after the command: x; write SHOW ... [LIKE 'pattern'] [WHERE ...] [ORDER BY ...] [LIMIT n]",
        );
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
        let pause = |name: &str, is_paused| Command::Pause { generator: name.into(), is_paused };
        check("PAUSE GENERATOR my-shop.orders", pause("my-shop.orders", true));
        check("RESUME GENERATOR \"shop\".orders", pause("shop.orders", false));
        check("DRAIN", Command::Drain);
        check("KILL 7", Command::Kill { session: 7 });
        check("kill connection 7", Command::Kill { session: 7 });
        check("HELP", Command::Help { topic: None });
        check("help 'show  rules'", Command::Help { topic: Some("show rules".into()) });
        check("help show rules;", Command::Help { topic: Some("show rules".into()) });
    }

    #[test]
    fn what_is_not_understood() {
        let unknown = |statement: &str, what: &str| {
            refused(
                statement,
                &format!("the console does not know {what}; SHOW COMMANDS lists the commands"),
            );
        };
        unknown("SHOW RULSE", "SHOW RULSE (did you mean SHOW RULES?)");
        unknown("SHOW PROXY", "SHOW PROXY (did you mean SHOW PROXIES?)");
        unknown("SHOW GENERATOR", "SHOW GENERATOR (did you mean SHOW GENERATORS?)");
        unknown("SHWO RULES", "SHWO (did you mean SHOW?)");
        unknown("SHOW", "SHOW alone");
        unknown("", "an empty statement");
        unknown("INSERT INTO t VALUES (1)", "INSERT");
        unknown("'secret'", "a text in quotes");
        refused(
            "EXPLAIN INSERT",
            "found INSERT, expected REWRITE; write EXPLAIN REWRITE [IN database] INSERT ...",
        );
        refused(
            "EXPLAIN REWRITE",
            "found the end of the statement, expected a statement; write EXPLAIN REWRITE [IN database] INSERT ...",
        );
        refused("RELOAD", "found the end of the statement, expected RULES; write RELOAD RULES [DRY RUN]");
        refused(
            "RELOAD RULES DRY",
            "found the end of the statement, expected RUN; write RELOAD RULES [DRY RUN]",
        );
        refused("PAUSE shop.orders", "found shop, expected GENERATOR; write PAUSE GENERATOR schema.name");
        refused(
            &format!("PAUSE GENERATOR '{}'", "x".repeat(201)),
            "found xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..., expected a generator's name; write PAUSE GENERATOR schema.name",
        );
        refused(
            "RAISE GENERATOR a.b TO -1",
            "found -, expected a number of at most 18446744073709551615; write RAISE GENERATOR schema.name TO number [YES]",
        );
        refused(
            "KILL QUERY 7",
            "the console has no running statement to kill; to end a session, write KILL id (SHOW SESSIONS has the ids)",
        );
        refused("DRAIN now", "unexpected text after the command: now; write DRAIN");
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
