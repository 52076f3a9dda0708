//! The words that several of the console's statements have, and the errors about a text that is none of them: what is
//! wrong with it, and which word was meant.

use super::tokens::{Token, Tokens, Unclosed};
use crate::users::without_tokens;

/// A word with at most so many typing errors is taken for the known one.
const TYPOS_MAX: usize = 2;

/// Why a text is none of the console's statements: what is wrong, and what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SyntaxError {
    #[error(transparent)]
    Unclosed(#[from] Unclosed),
    #[error("the console does not know {found}{}; SHOW COMMANDS lists the commands", did_you_mean(.nearest.as_deref()))]
    Unknown { found: String, nearest: Option<String> },
    #[error("found {found}, expected {wanted}; write {form}")]
    Wrong { found: String, wanted: &'static str, form: &'static str },
    #[error("unexpected text after the command: {found}; write {form}")]
    More { found: String, form: &'static str },
    #[error(
        "the console has no running statement to kill; to end a session, write KILL id (SHOW SESSIONS has the ids)"
    )]
    KillQuery,
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!(" (did you mean {nearest}?)")).unwrap_or_default()
}

pub(super) fn wrong(found: Option<&Token<'_>>, wanted: &'static str, form: &'static str) -> SyntaxError {
    SyntaxError::Wrong { found: shown(found), wanted, form }
}

/// The error for a word that is none of the `known` ones, which stand after `before`.
pub(super) fn unknown(token: Option<&Token<'_>>, known: &[&str], before: &str) -> SyntaxError {
    let Some(token) = token else {
        let found =
            if before.is_empty() { "an empty statement".to_owned() } else { format!("{before}alone") };
        return SyntaxError::Unknown { found, nearest: None };
    };
    let nearest = match token {
        Token::Word(text) => nearest(text, known).map(|nearest| format!("{before}{nearest}")),
        _ => None,
    };
    SyntaxError::Unknown { found: format!("{before}{}", shown(Some(token))), nearest }
}

fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.get(..word.floor_char_boundary(32)).unwrap_or_default().to_uppercase();
    let far = |known: &str| strsim::damerau_levenshtein(&word, known);
    // A plural may have more: PROXY and PROXIES differ by three letters.
    let is_begun = |known: &str| word.len() > 2 && known.starts_with(word.trim_end_matches(['S', 'Y']));
    let typos = |known: &str| if is_begun(known) { 1 } else { far(known) };
    known
        .iter()
        .copied()
        .filter(|known| typos(known) <= TYPOS_MAX)
        .min_by_key(|known| (typos(known), far(known)))
}

/// The token as an error shows it: short, and never a text in quotes, which may be a literal of a client's data.
pub(super) fn shown(token: Option<&Token<'_>>) -> String {
    let cut = |text: &str| match text.char_indices().nth(32) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    };
    match token {
        None => "the end of the statement".to_owned(),
        Some(Token::Word(text)) => cut(text),
        Some(Token::Name(text)) => format!("`{}`", cut(text)),
        Some(Token::Text(_)) => "a text in quotes".to_owned(),
        Some(Token::Sign(sign)) => sign.escape_debug().to_string(),
    }
}

pub(super) fn expect(
    tokens: &mut Tokens<'_>,
    word: &'static str,
    form: &'static str,
) -> Result<(), SyntaxError> {
    if tokens.take(word)? { Ok(()) } else { Err(wrong(tokens.next()?.as_ref(), word, form)) }
}

/// A name, or several with dots between, in any quotes or none.
pub(super) fn name(
    tokens: &mut Tokens<'_>,
    wanted: &'static str,
    form: &'static str,
) -> Result<String, SyntaxError> {
    dotted(tokens, false, wanted, form)
}

/// A name, like [`name`]. `stars`: a `*` may stand for a name.
pub(super) fn dotted(
    tokens: &mut Tokens<'_>,
    stars: bool,
    wanted: &'static str,
    form: &'static str,
) -> Result<String, SyntaxError> {
    let mut name = String::new();
    loop {
        match tokens.next()? {
            Some(Token::Word(word)) => name.push_str(word),
            Some(Token::Name(word) | Token::Text(word)) => name.push_str(&word),
            Some(Token::Sign('*')) if stars => name.push('*'),
            other => return Err(wrong(other.as_ref(), wanted, form)),
        }
        // Names may have a minus without quotes: `my-shop.orders`.
        match tokens.peek()? {
            Some(Token::Sign(sign @ ('.' | '-'))) => name.push(sign),
            // The log has names.
            _ if without_tokens(&name) != name => {
                return Err(SyntaxError::Wrong { found: "a token".to_owned(), wanted, form });
            }
            _ => return Ok(name),
        }
        tokens.next()?;
    }
}

pub(super) fn number(tokens: &mut Tokens<'_>, form: &'static str) -> Result<u64, SyntaxError> {
    let token = tokens.next()?;
    let number = match &token {
        Some(Token::Word(digits)) => digits.parse().ok(),
        Some(Token::Text(digits)) => digits.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong(token.as_ref(), "a number of at most 18446744073709551615", form))
}

/// Gives back `read` if the statement ends here.
pub(super) fn end<T>(tokens: Tokens<'_>, read: T, form: &'static str) -> Result<T, SyntaxError> {
    match tokens.peek()? {
        None => Ok(read),
        Some(token) => Err(SyntaxError::More { found: shown(Some(&token)), form }),
    }
}
