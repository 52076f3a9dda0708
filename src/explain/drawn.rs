//! The calls that draw ids, in a text that is explained.

use crate::explain::tables::{NO_DATABASE, Tables};
use crate::rewrite::draws::{CallValue, refusal, write};
use crate::rewrite::plan::PlanRefusal;
use crate::rules::model::GeneratorName;
use crate::sql::dialect::Dialect;
use crate::sql::draws::{Call, CallForm, CallPlace, find, may_be_in};
use crate::sql::lex::Lexer;
use crate::sql::name;

pub(super) enum Drawn {
    /// The text has no calls that draw, as far as it can be read.
    Nothing,
    /// The text is cut before this byte, so that a statement with calls is alone.
    Cut(usize),
    /// A call cannot be served.
    Refused(PlanRefusal),
    /// The text with ids in place of its calls, and lines that say what is drawn.
    Text { text: Vec<u8>, told: String },
}

/// Handles the calls in a text as a session would: with 1 as the first id of each generator, and no SEQUENCE on the server.
pub(super) fn drawn(text: &[u8], dialect: &Dialect, database: Option<&str>, tables: &Tables<'_>) -> Drawn {
    if tables.rules.drawn().next().is_none() || !may_be_in(text) {
        return Drawn::Nothing;
    }
    let Some(Ok((draws, cut))) = Lexer::new(text, *dialect).map(|lexer| find(lexer, true)) else {
        return Drawn::Nothing;
    };
    if let Some(at) = cut {
        return Drawn::Cut(at as usize);
    }
    let mut taken: Vec<(&GeneratorName, u64)> = Vec::new();
    let mut values = Vec::with_capacity(draws.calls.len());
    for call in &draws.calls {
        let Some(generator) = generator_of(text, call, dialect, database, tables) else {
            values.push(CallValue::Left);
            continue;
        };
        if let Some(why) = refusal(call, &generator.name) {
            return Drawn::Refused(why);
        }
        let at = taken.iter().position(|(name, _)| *name == generator);
        let n = match call.form {
            _ if call.place == CallPlace::Explained => 0,
            CallForm::Next => 1,
            CallForm::Previous => 0,
            CallForm::Take(n) => n.unwrap_or_default().into(),
        };
        let before = if let Some((_, before)) = at.and_then(|at| taken.get_mut(at)) {
            std::mem::replace(before, *before + n)
        } else {
            taken.push((generator, n));
            0
        };
        values.push(match (n, before) {
            (0, 0) if call.form == CallForm::Previous => CallValue::Null,
            (0, before) => CallValue::Id(before.max(1)),
            (_, before) => CallValue::Id(before + 1),
        });
    }
    if taken.is_empty() {
        return Drawn::Nothing;
    }
    let Some(text) = write(text, &draws, &values, dialect.charset) else { return Drawn::Nothing };
    let told = taken.iter().map(|(generator, n)| {
        format!("ids that calls draw from {generator}: {n}, unless the server has a SEQUENCE of that name\n")
    });
    Drawn::Text { text, told: told.collect() }
}

fn generator_of<'a>(
    text: &[u8],
    call: &Call,
    dialect: &Dialect,
    database: Option<&str>,
    tables: &Tables<'a>,
) -> Option<&'a GeneratorName> {
    let decoded = |token| name::decode(text, token, dialect.charset);
    let generator = decoded(call.path.last)?;
    let schema = match call.path.qualifier {
        Some(token) => decoded(token)?,
        None => database.unwrap_or(NO_DATABASE).into(),
    };
    let (case, rules) = (tables.case(), tables.rules);
    let name = case.fold(&schema, &generator);
    rules.drawn().map(|spec| &spec.name).find(|known| case.fold(&known.schema, &known.name) == name)
}

#[cfg(test)]
mod tests {
    use crate::explain::{ExplainInput, explain_statement};
    use crate::proxy::settings::Verify;
    use crate::rules::RuleSet;

    #[track_caller]
    fn check(statement: &str, expect: &str) {
        let rules = RuleSet::of_text(
            "schema = 'shop'\n[generators.g]\nkind = 'sequence'\nsql = true\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\n",
        );
        let input = ExplainInput {
            statement: statement.as_bytes(),
            database: Some("shop"),
            sql_mode: "",
            server_version: "10.11.6-MariaDB",
        };
        let explained = explain_statement(&input, &rules, None, Verify::Always).unwrap();
        assert_eq!(explained.text, expect, "{statement}");
        assert_eq!(explained.is_refused, expect.contains("refused"), "{statement}");
    }

    #[test]
    fn what_becomes_of_calls() {
        let own = ", unless the server has a SEQUENCE of that name\n";
        check(
            "SET @a = NEXTVAL(g), @b = LASTVAL(g), @c = ROWSTAMP_TAKE(g, 3)",
            &format!("ids that calls draw from shop.g: 4{own}SET @a = 1, @b = 1, @c = 2\n"),
        );
        check("DO LASTVAL(shop.g)", &format!("ids that calls draw from shop.g: 0{own}DO NULL\n"));
        check(
            "SELECT NEXTVAL(g) FROM t",
            "refused (1235)\nrowstamp: NEXTVAL(g) is in a query that reads rows, each of which needs an id of its own; run SET @id = \
             NEXTVAL(g) first, and write @id in its place\n",
        );
        check(
            "DO 1; DO NEXTVAL(g)",
            &format!(
                "sent unchanged: no INSERT into a table with a rule\nafter the server's answer:\nids that calls draw from shop.g: 1{own} DO 1\n"
            ),
        );
        check("SELECT NEXTVAL(other)", "sent unchanged: no INSERT into a table with a rule\n");
    }
}
