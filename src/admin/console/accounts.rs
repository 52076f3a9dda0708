//! The statements about users: text -> the change that is asked for.

use std::time::SystemTime;

use super::syntax::{SyntaxError, dotted, end, expect, name, number, unknown, wrong};
use super::tokens::{Token, Tokens};
use crate::users::{Change, ChangeKind, Right, Scope, Token as LoginToken};

type Parsed = Result<Change, SyntaxError>;

/// The objects of CREATE and DROP.
const MADE: [&str; 2] = ["TOKEN", "USER"];

pub(super) fn create(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "CREATE USER [IF NOT EXISTS] name [IDENTIFIED BY 'password']";
    if tokens.take("TOKEN")? {
        return create_token(tokens);
    }
    be_user(&mut tokens, "CREATE ")?;
    let if_not_exists = tokens.take("IF")?;
    if if_not_exists {
        expect(&mut tokens, "NOT", FORM)?;
        expect(&mut tokens, "EXISTS", FORM)?;
    }
    let user = user(&mut tokens, FORM)?;
    let password = if tokens.peek()?.is_some() { Some(password(&mut tokens, FORM)?) } else { None };
    of(tokens, user, ChangeKind::Create { password, if_not_exists }, FORM)
}

pub(super) fn alter(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "ALTER USER name IDENTIFIED BY 'password'";
    expect(&mut tokens, "USER", FORM)?;
    let user = user(&mut tokens, FORM)?;
    let password = password(&mut tokens, FORM)?;
    of(tokens, user, ChangeKind::Password(password), FORM)
}

pub(super) fn drop(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "DROP USER [IF EXISTS] name";
    if tokens.take("TOKEN")? {
        return drop_token(tokens);
    }
    be_user(&mut tokens, "DROP ")?;
    let if_exists = tokens.take("IF")?;
    if if_exists {
        expect(&mut tokens, "EXISTS", FORM)?;
    }
    let user = user(&mut tokens, FORM)?;
    of(tokens, user, ChangeKind::Drop { if_exists }, FORM)
}

fn drop_token(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "DROP TOKEN id FOR name";
    const WANTED: &str = "the id of a token, 12 hexadecimal digits";
    let id = match tokens.next()? {
        Some(Token::Word(written)) => LoginToken::id_in(written),
        Some(Token::Name(written) | Token::Text(written)) => LoginToken::id_in(&written),
        Some(Token::Sign(_)) => None,
        None => return Err(wrong(None, WANTED, FORM)),
    };
    // The text in the id's place may be most of a token, which nothing may show.
    let id =
        id.ok_or(SyntaxError::Wrong { found: "something else".to_owned(), wanted: WANTED, form: FORM })?;
    expect(&mut tokens, "FOR", FORM)?;
    let user = user(&mut tokens, FORM)?;
    of(tokens, user, ChangeKind::DropToken { id }, FORM)
}

fn create_token(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "CREATE TOKEN FOR name [EXPIRES 'YYYY-MM-DD hh:mm:ss'], in UTC";
    expect(&mut tokens, "FOR", FORM)?;
    let user = user(&mut tokens, FORM)?;
    let expires = if tokens.take("EXPIRES")? { Some(time(&mut tokens, FORM)?) } else { None };
    of(tokens, user, ChangeKind::Token { expires }, FORM)
}

pub(super) fn grant(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "GRANT TAKE | READ | CREATE | ADMIN | ALL ON schema.name | schema.* | *.* TO name [LIMIT n PER SECOND]";
    let (rights, on) = rights_on(&mut tokens, FORM)?;
    expect(&mut tokens, "TO", FORM)?;
    let user = user(&mut tokens, FORM)?;
    let mut per_second = None;
    if tokens.take("LIMIT")? {
        per_second = Some(number(&mut tokens, FORM)?);
        expect(&mut tokens, "PER", FORM)?;
        expect(&mut tokens, "SECOND", FORM)?;
    }
    of(tokens, user, ChangeKind::Grant { rights, on, per_second }, FORM)
}

pub(super) fn revoke(mut tokens: Tokens<'_>) -> Parsed {
    const FORM: &str = "REVOKE TAKE | READ | CREATE | ADMIN | ALL ON schema.name | schema.* | *.* FROM name";
    let (rights, on) = rights_on(&mut tokens, FORM)?;
    expect(&mut tokens, "FROM", FORM)?;
    let user = user(&mut tokens, FORM)?;
    of(tokens, user, ChangeKind::Revoke { rights, on }, FORM)
}

fn of(tokens: Tokens<'_>, user: String, what: ChangeKind, form: &'static str) -> Parsed {
    end(tokens, Change { user, what }, form)
}

fn be_user(tokens: &mut Tokens<'_>, before: &str) -> Result<(), SyntaxError> {
    let found = tokens.next()?;
    if found.as_ref().is_some_and(|token| token.is("USER")) {
        return Ok(());
    }
    Err(unknown(found.as_ref(), &MADE, before))
}

fn user(tokens: &mut Tokens<'_>, form: &'static str) -> Result<String, SyntaxError> {
    name(tokens, "the name of a user", form)
}

/// Reads a password, always in quotes: an error never shows what is in them.
fn password(tokens: &mut Tokens<'_>, form: &'static str) -> Result<zeroize::Zeroizing<String>, SyntaxError> {
    expect(tokens, "IDENTIFIED", form)?;
    expect(tokens, "BY", form)?;
    match tokens.next()? {
        Some(Token::Text(password)) => Ok(password.into()),
        Some(_) => Err(SyntaxError::Wrong {
            found: "something else".to_owned(),
            wanted: "a password in quotes",
            form,
        }),
        None => Err(wrong(None, "a password in quotes", form)),
    }
}

/// UTC, with or without a time of the day.
fn time(tokens: &mut Tokens<'_>, form: &'static str) -> Result<SystemTime, SyntaxError> {
    const WANTED: &str = "a time in quotes, as '2027-01-31 23:59:59'";
    let token = tokens.next()?;
    let Some(Token::Text(text)) = &token else { return Err(wrong(token.as_ref(), WANTED, form)) };
    let text = text.trim();
    let text = if text.len() == "2027-01-31".len() { format!("{text} 00:00:00") } else { text.to_owned() };
    let found = || SyntaxError::Wrong { found: text.chars().take(32).collect(), wanted: WANTED, form };
    humantime::parse_rfc3339_weak(&text).map_err(|_| found())
}

fn rights_on(tokens: &mut Tokens<'_>, form: &'static str) -> Result<(Vec<Right>, Scope), SyntaxError> {
    let mut rights = Vec::new();
    loop {
        let token = tokens.next()?;
        let is = |word: &str| token.as_ref().is_some_and(|token| token.is(word));
        if is("ALL") {
            let _ = tokens.take("PRIVILEGES")?;
            rights.extend(Right::ALL);
        } else if let Some(right) = Right::ALL.into_iter().find(|right| is(right.word())) {
            rights.push(right);
        } else {
            return Err(wrong(token.as_ref(), "a right", form));
        }
        if tokens.peek()? != Some(Token::Sign(',')) {
            break;
        }
        tokens.next()?;
    }
    rights.sort_unstable();
    rights.dedup();
    expect(tokens, "ON", form)?;
    Ok((rights, scope(tokens, form)?))
}

fn scope(tokens: &mut Tokens<'_>, form: &'static str) -> Result<Scope, SyntaxError> {
    const WANTED: &str = "schema.name, schema.* or *.*";
    let text = dotted(tokens, true, WANTED, form)?;
    text.parse().map_err(|_| wrong(Some(&Token::Word(&text)), WANTED, form))
}

#[cfg(test)]
mod tests {
    use super::{SyntaxError, alter, create, drop, grant, revoke};
    use crate::admin::console::tokens::Tokens;
    use crate::users::Change;

    fn parse(statement: &str) -> Result<Change, SyntaxError> {
        let mut tokens = Tokens::new(statement);
        let first = tokens.next().unwrap().unwrap();
        let all = [
            ("ALTER", alter as fn(Tokens<'_>) -> _),
            ("CREATE", create),
            ("DROP", drop),
            ("GRANT", grant),
            ("REVOKE", revoke),
        ];
        all.iter().find(|(word, _)| first.is(word)).unwrap().1(tokens)
    }

    /// Compares with the text that the log has.
    #[track_caller]
    fn check(statement: &str, expect: &str) {
        let change = parse(statement).unwrap();
        assert_eq!(change.to_string(), expect, "{statement}");
        assert!(!format!("{change:?}").contains("s3cret"), "{change:?}");
    }

    #[test]
    fn statements() {
        for (statement, expect) in [
            ("CREATE USER app IDENTIFIED BY 's3cret'", "CREATE USER 'app'"),
            ("create user if not exists `app` identified by \"s3cret\";", "CREATE USER 'app'"),
            ("CREATE USER 'app'", "CREATE USER 'app'"),
            ("ALTER USER app IDENTIFIED BY 's3cret'", "ALTER USER 'app'"),
            ("DROP USER IF EXISTS app", "DROP USER 'app'"),
            ("CREATE TOKEN FOR app", "CREATE TOKEN FOR 'app'"),
            (
                "CREATE TOKEN FOR app EXPIRES '2027-01-31 12:00:00'",
                "CREATE TOKEN FOR 'app' EXPIRES '2027-01-31T12:00:00Z'",
            ),
            (
                "CREATE TOKEN FOR app EXPIRES '2027-01-31'",
                "CREATE TOKEN FOR 'app' EXPIRES '2027-01-31T00:00:00Z'",
            ),
            ("DROP TOKEN 5f70bf18a086 FOR app", "DROP TOKEN \"5f70bf18a086\" FOR 'app'"),
            // A token's text becomes its id, by SHA-256.
            ("DROP TOKEN 'rst_s3cret' FOR app", "DROP TOKEN \"41120ea95ec5\" FOR 'app'"),
            ("GRANT TAKE ON shop.orders TO app", "GRANT TAKE ON shop.orders TO 'app'"),
            ("GRANT read, take ON `my shop`.* TO 'app'", "GRANT TAKE, READ ON my shop.* TO 'app'"),
            (
                "GRANT TAKE ON my-shop.orders TO my-app LIMIT 100 PER SECOND",
                "GRANT TAKE ON my-shop.orders TO 'my-app' LIMIT 100 PER SECOND",
            ),
            ("GRANT ALL PRIVILEGES ON *.* TO dba", "GRANT TAKE, READ, CREATE, ADMIN ON *.* TO 'dba'"),
            ("REVOKE TAKE ON shop.* FROM app", "REVOKE TAKE ON shop.* FROM 'app'"),
        ] {
            check(statement, expect);
        }
    }

    #[test]
    fn what_is_not_understood() {
        let form = "write GRANT TAKE | READ | CREATE | ADMIN | ALL ON schema.name | schema.* | *.* TO name [LIMIT n PER SECOND]";
        for (statement, expect) in [
            ("CREATE TABLE t", "the console does not know CREATE TABLE; SHOW COMMANDS lists the commands"),
            (
                "DROP USRE app",
                "the console does not know DROP USRE (did you mean DROP USER?); SHOW COMMANDS lists the commands",
            ),
            (
                "CREATE USER app IDENTIFIED BY s3cret",
                "found something else, expected a password in quotes; write CREATE USER [IF NOT EXISTS] name [IDENTIFIED BY 'password']",
            ),
            (
                "CREATE USER app IDENTIFIED WITH x BY 's3cret'",
                "found WITH, expected BY; write CREATE USER [IF NOT EXISTS] name [IDENTIFIED BY 'password']",
            ),
            ("GRANT SELECT ON shop.orders TO app", &format!("found SELECT, expected a right; {form}")),
            (
                "GRANT TAKE ON orders TO app",
                &format!("found orders, expected schema.name, schema.* or *.*; {form}"),
            ),
            (
                "GRANT TAKE ON *.orders TO app",
                &format!("found *.orders, expected schema.name, schema.* or *.*; {form}"),
            ),
            ("GRANT TAKE TO app", &format!("found TO, expected ON; {form}")),
            (
                "CREATE TOKEN FOR app EXPIRES 'soon'",
                "found soon, expected a time in quotes, as '2027-01-31 23:59:59'; write CREATE TOKEN FOR name [EXPIRES \
                 'YYYY-MM-DD hh:mm:ss'], in UTC",
            ),
            (
                "DROP TOKEN s3cret FOR app",
                "found something else, expected the id of a token, 12 hexadecimal digits; write DROP TOKEN id FOR name",
            ),
            (
                "REVOKE TAKE ON shop.orders TO app",
                "found TO, expected FROM; write REVOKE TAKE | READ | CREATE | ADMIN | ALL ON schema.name | schema.* | *.* FROM name",
            ),
        ] {
            assert_eq!(parse(statement).unwrap_err().to_string(), expect, "{statement}");
        }
    }
}
