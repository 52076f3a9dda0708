//! The rights of the control account, from SHOW GRANTS, and the checks that cannot be made without them.
//!
//! Source: MySQL manual, "SHOW GRANTS" and "GRANT": `GRANT privileges ON [object] scope TO account`, where a scope is `*.*`,
//! `` `schema`.* `` with `_` and `%` as wildcards, or `` `schema`.`table` ``.

use std::collections::BTreeSet;

use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::Survey;
use crate::schema::facts::Facts;
use crate::sql::dialect::{ClientCharset, Dialect, Server, ServerKind, SqlMode};
use crate::sql::lex::{Lexer, Token, TokenKind};
use crate::sql::name;

/// All active grants of the control account.
pub(in crate::lint) struct Grants(Vec<Grant>);

struct Grant {
    /// In upper case, words by one blank.
    privileges: Vec<String>,
    /// `*` as it is written.
    schema: String,
    table: String,
    /// MySQL's partial revokes take from what a global grant gives.
    revokes: bool,
}

impl Grants {
    pub(in crate::lint) fn of(facts: &Facts) -> Self {
        let server = dialect_server(facts.server.variable("version"));
        let sql_mode = SqlMode::parse(facts.server.variable("sql_mode"));
        let dialect = Dialect { server, sql_mode, charset: ClientCharset::Utf8 };
        Grants(facts.grants.iter().filter_map(|line| grant(line, dialect)).collect())
    }

    /// On all of a schema, or where `table` is given on this one at least.
    pub(in crate::lint) fn has(&self, privilege: &str, schema: &str, table: Option<&str>) -> bool {
        let covers = |grant: &&Grant| {
            let whole = grant.table == "*" && (grant.schema == "*" || like(&grant.schema, schema));
            let is_one = table.is_some_and(|table| grant.table.eq_ignore_ascii_case(table))
                && grant.schema.eq_ignore_ascii_case(schema);
            (whole || is_one) && grant.gives(privilege)
        };
        let mut found = self.0.iter().filter(covers).peekable();
        found.peek().is_some() && !found.any(|grant| grant.revokes)
    }

    /// True if one grant gives the privilege on `*.*`, and no partial revoke takes from that grant.
    pub(in crate::lint) fn has_globally(&self, privilege: &str) -> bool {
        self.0.iter().any(|grant| {
            grant.schema == "*" && grant.table == "*" && !grant.revokes && grant.gives(privilege)
        })
    }
}

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    let facts = survey.facts;
    let grants = Grants::of(facts);
    let schemas: BTreeSet<&str> = survey.tables.iter().map(|live| live.table.schema.as_str()).collect();
    let mut unseen = |code, schema: &str, what: &str, right: String| {
        let why = format!(
            "the control account lacks the right to see the {what} of {schema}: Rowstamp cannot tell whether they insert into tables with a rule"
        );
        found.push(Finding::warning(code, Where::object(schema), why, right));
    };
    for schema in schemas {
        let grant = |right: &str| format!("GRANT {right} ON `{schema}`.* to the control account");
        if !grants.has("TRIGGER", schema, None) {
            unseen(Code::TriggersUnseen, schema, "triggers", grant("TRIGGER"));
        }
        if !grants.has("EVENT", schema, None) {
            unseen(Code::EventsUnseen, schema, "events", grant("EVENT"));
        }
        if let Some(right) = routines(facts, &grants) {
            unseen(Code::RoutinesUnseen, schema, "routines", format!("{right} to the control account"));
        }
    }
}

/// The grant that is missing to see every routine's text. Sources: MySQL manual, "The INFORMATION_SCHEMA ROUTINES Table";
/// MariaDB knowledge base, "Information Schema ROUTINES Table" and "SHOW CREATE ROUTINE".
fn routines(facts: &Facts, grants: &Grants) -> Option<&'static str> {
    let server = dialect_server(facts.server.variable("version"));
    match server.kind {
        ServerKind::MySql => {
            let sees = grants.has_globally("SHOW_ROUTINE") || grants.has_globally("SELECT");
            (!sees).then_some("GRANT SHOW_ROUTINE ON *.*")
        }
        ServerKind::MariaDb => {
            let sees =
                grants.has("SELECT", "mysql", Some("proc")) || grants.has_globally("SHOW CREATE ROUTINE");
            (!sees).then_some("GRANT SELECT ON mysql.proc")
        }
    }
}

impl Grant {
    fn gives(&self, privilege: &str) -> bool {
        self.privileges.iter().any(|given| given == privilege || given == "ALL PRIVILEGES" || given == "ALL")
    }
}

/// The server for any version text, also one that cannot be parsed: the result only decides how texts are cut into tokens.
pub(in crate::lint) fn dialect_server(version: &str) -> Server {
    let kind = if version.contains("MariaDB") { ServerKind::MariaDb } else { ServerKind::MySql };
    Server::parse(version).unwrap_or(Server { kind, version: 0 })
}

/// `None`: it grants a role, or cannot be read.
fn grant(line: &str, dialect: Dialect) -> Option<Grant> {
    let mut lexer = Lexer::new(line.as_bytes(), dialect)?;
    let first = lexer.next().ok()?;
    let revokes = lexer.is_word(first, "REVOKE");
    if !revokes && !lexer.is_word(first, "GRANT") {
        return None;
    }
    let (mut privileges, mut words) = (Vec::new(), Vec::new());
    loop {
        let token = lexer.next().ok()?;
        let ends = lexer.is_word(token, "ON");
        match token.kind {
            _ if ends => {}
            TokenKind::Word => {
                words.push(String::from_utf8_lossy(token.span.of(line.as_bytes())).to_ascii_uppercase());
                continue;
            }
            // The columns of `SELECT (a, b)`: no whole table's privilege.
            TokenKind::Punct(b'(') => {
                while !lexer.next().ok()?.is_punct(b')') {}
                words.clear();
                continue;
            }
            TokenKind::Punct(b',') => {}
            _ => return None,
        }
        if !words.is_empty() {
            privileges.push(std::mem::take(&mut words).join(" "));
        }
        if ends {
            break;
        }
    }
    let mut schema = lexer.next().ok()?;
    if ["PROCEDURE", "FUNCTION", "PACKAGE", "TABLE"].iter().any(|word| lexer.is_word(schema, word)) {
        schema = lexer.next().ok()?;
    }
    if !lexer.eat_punct(b'.').ok()? {
        return None;
    }
    let table = lexer.next().ok()?;
    Some(Grant { privileges, schema: part(line, schema)?, table: part(line, table)?, revokes })
}

fn part(line: &str, token: Token) -> Option<String> {
    if token.is_punct(b'*') {
        return Some("*".to_owned());
    }
    name::decode(line.as_bytes(), token, ClientCharset::Utf8).map(std::borrow::Cow::into_owned)
}

/// A schema's name with `%`, `_` and `\` as LIKE has them.
pub(super) fn like(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.to_lowercase().chars().collect();
    // Entry n is true if the pattern, as far as it was read, matches the first n characters of the name.
    let mut matches = vec![false; name.len() + 1];
    matches.iter_mut().take(1).for_each(|none| *none = true);
    let pattern = pattern.to_lowercase();
    let mut pattern = pattern.chars();
    while let Some(one) = pattern.next() {
        if one == '%' {
            let first = matches.iter().position(|is| *is).unwrap_or(matches.len());
            matches.iter_mut().skip(first).for_each(|is| *is = true);
            continue;
        }
        let literal = if one == '\\' { pattern.next() } else { Some(one).filter(|one| *one != '_') };
        let fits = |c: &char| literal.is_none_or(|literal| literal == *c);
        let next = matches.iter().zip(&name).map(|(is, c)| *is && fits(c));
        matches = std::iter::once(false).chain(next).collect();
    }
    matches.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::{Grants, grant};
    use crate::sql::dialect::Dialect;

    #[track_caller]
    fn check(lines: &[&str], privilege: &str, schema: &str, expect: bool) {
        let grants = Grants(lines.iter().filter_map(|line| grant(line, Dialect::MARIADB)).collect());
        assert_eq!(grants.has(privilege, schema, None), expect, "{lines:?} {privilege} {schema}");
    }

    #[test]
    fn what_is_granted() {
        let own = [
            "GRANT USAGE ON *.* TO `r`@`%` IDENTIFIED BY PASSWORD '*1'",
            "GRANT SELECT, SHOW VIEW ON `shop`.* TO `r`@`%`",
        ];
        check(&own, "SELECT", "shop", true);
        check(&own, "SHOW VIEW", "shop", true);
        check(&own, "TRIGGER", "shop", false);
        check(&own, "SELECT", "crm", false);
        check(&["GRANT ALL PRIVILEGES ON *.* TO `r`@`%` WITH GRANT OPTION"], "EVENT", "shop", true);
        check(&["GRANT EVENT ON `sh\\_p%`.* TO `r`@`%`"], "EVENT", "sh_p_eu", true);
        check(&["GRANT EVENT ON `sh\\_p%`.* TO `r`@`%`"], "EVENT", "shop", false);
        check(&["GRANT EVENT ON `sh_p`.* TO `r`@`%`"], "EVENT", "shop", true);
        check(&["GRANT EVENT ON `%p`.* TO `r`@`%`"], "EVENT", "shop", true);
        check(&["GRANT EVENT ON `s%%h%`.* TO `r`@`%`"], "EVENT", "shop", true);
        check(&["GRANT EVENT ON `_sh%`.* TO `r`@`%`"], "EVENT", "shop", false);
        check(&["GRANT EVENT ON `%`.* TO `r`@`%`"], "EVENT", "shop", true);
        let slow = format!("GRANT EVENT ON `{}b`.* TO `r`@`%`", "%a".repeat(30));
        check(&[&slow], "EVENT", &"a".repeat(64), false);
        check(&["GRANT TRIGGER ON `shop`.`orders` TO `r`@`%`"], "TRIGGER", "shop", false);
        check(&["GRANT SELECT (a, b), EVENT ON `shop`.* TO `r`@`%`"], "EVENT", "shop", true);
        check(&["GRANT `role`@`%` TO `r`@`%`"], "SELECT", "shop", false);
        let partly = ["GRANT SELECT ON *.* TO `r`@`%`", "REVOKE SELECT ON `shop`.* FROM `r`@`%`"];
        check(&partly, "SELECT", "shop", false);
        check(&partly, "SELECT", "crm", true);
        check(&["nonsense", ""], "SELECT", "shop", false);
    }
}
