//! A second opinion on a rewrite: sqlparser reads the text before and after it, and the trees may
//! differ by the ids alone. It decides by itself which rows lack an id and where it belongs, and
//! knows nothing of our scanner.
//!
//! sqlparser cannot read all that the servers can. What it cannot read before is not judged; what it could
//! read before and not after counts as a difference.

mod tree;

use std::borrow::Cow;
use std::num::NonZeroU64;

use memchr::{memchr, memmem};
use sqlparser::ast::Statement;
use sqlparser::dialect::MySqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};

use super::plan::{InsertPlan, Plan};
use crate::ids::block::IdBlock;
use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opinion {
    /// The ids are all that has changed, and stand where they belong.
    Agrees,
    /// The second parser cannot read the statement, or might read it otherwise than the server
    /// does.
    NotVerified,
    /// The rewrite is not to be sent.
    Differs(Difference),
}

/// A difference by more than the ids; holds nothing of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Difference(&'static str);

/// The form of the ids in the rewritten text.
#[derive(Debug, Clone, Copy)]
pub enum Written<'a> {
    /// COM_QUERY: the ids themselves, a block for each of [`Plan::demands`].
    Ids(&'a [IdBlock]),
    /// COM_STMT_PREPARE: placeholders of our own.
    Placeholders,
}

/// Compares what the client wrote with what is to be sent for it.
pub fn second_opinion(
    plan: &Plan,
    dialect: &Dialect,
    before: &[u8],
    after: &[u8],
    written: Written<'_>,
) -> Opinion {
    if before.len() > BYTES_MAX {
        return Opinion::NotVerified;
    }
    // PREPARE and EXECUTE hold a statement in a string; the rows of a stage have no id
    // in a tree.
    let is_other =
        |insert: &InsertPlan| insert.is_named || insert.first_variable.is_some() || insert.stage.is_some();
    // Modes that a statement of the packet sets hold for those after it.
    let sets_modes = plan.effects.sql_mode.is_some() || plan.effects.charset.is_some();
    if sets_modes || !plan.settled.is_empty() || plan.inserts.iter().any(is_other) {
        return Opinion::NotVerified;
    }
    let Some(before) = read(before, dialect, CHAIN_MAX).filter(Read::is_as_the_server_reads_it) else {
        return Opinion::NotVerified;
    };
    let Some(after) = read(after, dialect, CHAIN_MAX + OURS_MAX) else {
        return Opinion::Differs(Difference("the second parser cannot read the rewritten text"));
    };
    match compare(plan, dialect, &before.statements, after.statements, written) {
        Ok(true) => Opinion::Agrees,
        Ok(false) => Opinion::NotVerified,
        Err(difference) => Opinion::Differs(difference),
    }
}

struct Read {
    statements: Vec<Statement>,
    /// The number of times that the word RETURNING is outside of quotes, where the server reserves it.
    returning_words: usize,
}

impl Read {
    fn is_as_the_server_reads_it(&self) -> bool {
        let inserts = || {
            self.statements.iter().filter_map(|statement| match statement {
                Statement::Insert(insert) => Some(insert),
                _ => None,
            })
        };
        // sqlparser knows no list of columns after PARTITION, and takes RETURNING after an operator for a
        // name.
        inserts().all(|insert| insert.partitioned.is_none())
            && inserts().filter(|insert| insert.returning.is_some()).count() == self.returning_words
    }
}

/// The opinion on the text that would be sent if the generators began at 1.
pub fn opinion_on_sample(plan: &Plan, dialect: &Dialect, text: &[u8]) -> Opinion {
    let block = |(insert, ids): (&InsertPlan, u32)| {
        IdBlock::new(1, insert.target.spacing, NonZeroU64::new(u64::from(ids))?)
    };
    let blocks: Option<Vec<IdBlock>> = plan.demands().map(block).collect();
    let after = blocks.as_deref().and_then(|blocks| plan.splice(text, blocks));
    match (blocks, after) {
        (Some(blocks), Some(after)) => second_opinion(plan, dialect, text, &after, Written::Ids(&blocks)),
        _ => Opinion::NotVerified,
    }
}

/// False: there is a statement among them whose tree says nothing.
fn compare(
    plan: &Plan,
    dialect: &Dialect,
    before: &[Statement],
    after: Vec<Statement>,
    written: Written<'_>,
) -> Result<bool, Difference> {
    if before.len() != after.len() {
        return Err(Difference("the number of statements has changed"));
    }
    let mut blocks = match written {
        Written::Ids(blocks) => Some(blocks.iter()),
        Written::Placeholders => None,
    };
    let mut inserts = plan.inserts.iter().filter(|insert| !insert.edits.is_empty());
    let mut is_judged = true;
    for (before, after) in before.iter().zip(after) {
        if *before == after {
            continue;
        }
        let insert = inserts.next().ok_or(Difference("a statement that gets no id has changed"))?;
        let block = match &mut blocks {
            Some(blocks) if insert.ids > 0 => {
                Some(blocks.next().ok_or(Difference("there are fewer ids than rows"))?)
            }
            _ => None,
        };
        let zero_is_value = dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO);
        is_judged &= tree::compare(insert, block, zero_is_value, before, after)?;
    }
    match inserts.next() {
        Some(_) => Err(Difference("an INSERT has no id")),
        None => Ok(is_judged),
    }
}

/// Reading a longer text twice would keep the thread's other sessions waiting for more than a tenth
/// of a second.
const BYTES_MAX: usize = 1 << 20;
/// The most tokens in a row, added up over the parentheses around them. The parser makes
/// `1+1+1` a tree as deep as it is long, and comparing or dropping it recurses.
const CHAIN_MAX: usize = 300;
/// The most tokens that a rewrite adds to such a row, with room to spare.
const OURS_MAX: usize = 32;

fn read(text: &[u8], dialect: &Dialect, chain_max: usize) -> Option<Read> {
    let tokens = tokens(text, dialect)?;
    let is_returning = |token: &&TokenWithSpan| {
        matches!(&token.token, Token::Word(Word { keyword: Keyword::RETURNING, quote_style: None, .. }))
    };
    let returning_words = if dialect.is_mariadb() { tokens.iter().filter(is_returning).count() } else { 0 };
    if longest_chain(&tokens) > chain_max {
        return None;
    }
    let mut parser = Parser::new(&MySqlDialect {}).with_tokens_with_locations(tokens);
    let statements = parser.parse_statements().ok()?;
    // The parser stops at a word END.
    (parser.peek_token().token == Token::EOF).then_some(Read { statements, returning_words })
}

/// `None`: the text is cut in a way that sqlparser does not know.
fn tokens(text: &[u8], dialect: &Dialect) -> Option<Vec<TokenWithSpan>> {
    let mode = |mode| dialect.sql_mode.contains(mode);
    let ansi_quotes = mode(SqlMode::ANSI_QUOTES) && memchr(b'"', text).is_some();
    // sqlparser takes every version comment for code, and a backslash in every quote for an escape.
    let is_other = mode(SqlMode::ORACLE)
        || [&b"/*!"[..], b"/*M!"].iter().any(|sign| memmem::find(text, sign).is_some())
        || (ansi_quotes || mode(SqlMode::NO_BACKSLASH_ESCAPES)) && memchr(b'\\', text).is_some();
    if is_other {
        return None;
    }
    let text = characters(text, dialect.charset)?;
    let mut tokens = Tokenizer::new(&MySqlDialect {}, &text).tokenize_with_location().ok()?;
    // To the server `@` alone is a user's variable, and the name after it may stand in quotes; a
    // name ends before it. sqlparser takes the next character for the variable's name, whatever it
    // is, `a@b` for a name, and the last two names of `shop.1.id` for one.
    let is_cut_otherwise = |token: &TokenWithSpan| match &token.token {
        Token::AtSign => true,
        Token::Word(Word { value, quote_style: None, .. }) => !is_plain_name(value),
        _ => false,
    };
    // To the server `0x0a_word` is a name.
    let is_glued = |pair: &[TokenWithSpan]| {
        matches!(pair, [number, word]
            if matches!(number.token, Token::HexStringLiteral(_) | Token::Number(..))
                && matches!(word.token, Token::Word(Word { quote_style: None, .. })))
    };
    if tokens.iter().any(is_cut_otherwise) || tokens.windows(2).any(is_glued) {
        return None;
    }
    if ansi_quotes {
        for token in &mut tokens {
            if let Token::DoubleQuotedString(name) = &mut token.token {
                let value = std::mem::take(name);
                token.token =
                    Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword });
            }
        }
    }
    Some(tokens)
}

/// `name`, `@name` or `@@name`.
fn is_plain_name(word: &str) -> bool {
    let name = word.strip_prefix('@').map_or(word, |rest| rest.strip_prefix('@').unwrap_or(rest));
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
}

/// Bytes that are no UTF-8 are a character each, where no byte of a character looks like a sign.
fn characters(text: &[u8], charset: ClientCharset) -> Option<Cow<'_, str>> {
    match charset {
        ClientCharset::Utf8 => Some(match std::str::from_utf8(text) {
            Ok(text) => text.into(),
            Err(_) => utf8_or_bytes(text).into(),
        }),
        ClientCharset::Latin1 | ClientCharset::OneByte(_) | ClientCharset::Safe => {
            let letters = charset.letters();
            let one = |&byte: &u8| {
                letters.and_then(|letters| letters.letter(byte)).unwrap_or_else(|| char::from(byte))
            };
            Some(text.iter().map(one).collect::<String>().into())
        }
        _ => std::str::from_utf8(text).ok().filter(|text| text.is_ascii()).map(Cow::from),
    }
}

fn utf8_or_bytes(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().copied().map(char::from));
    }
    out
}

fn longest_chain(tokens: &[TokenWithSpan]) -> usize {
    let (mut longest, mut all, mut operators) = (0, 0, 0);
    // The tokens of each open parenthesis since its last comma; `all` is their sum.
    let mut open = vec![0usize];
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => open.push(0),
            Token::RParen | Token::RBracket | Token::RBrace if open.len() > 1 => {
                all -= open.pop().unwrap_or_default();
            }
            Token::Comma | Token::SemiColon => all -= open.last_mut().map_or(0, std::mem::take),
            Token::Word(Word { keyword: Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT, .. }) => {
                // A chain of queries goes on after a comma in one of them.
                operators += 1;
            }
            _ => {}
        }
        if let Some(here) = open.last_mut() {
            *here += 1;
            all += 1;
        }
        longest = longest.max(all + operators);
    }
    longest
}
