//! Finds where CREATE PROCEDURE and its like end: the `;` of their bodies do not end them.

use crate::sql::lex::{Lexer, Odd, Token, TokenKind};
use crate::sql::name;

/// Moves after the `;` that ends the statement, or to the end; says whether there was one. `None`:
/// the blocks do not close, so nothing is known about where it ends.
pub fn skip(lexer: &mut Lexer<'_>) -> Result<Option<bool>, Odd> {
    let mut depth = 0u32;
    let mut starts = false;
    let mut last: Option<Token> = None;
    loop {
        let token = lexer.next()?;
        let text = lexer.text();
        let is = |words: &[&str]| words.iter().any(|word| token.is_word(text, word));
        let is_name_part = last.is_some_and(|t| t.is_punct(b'.') || t.is_punct(b'@'));
        let mut starts_next = false;
        match token.kind {
            TokenKind::End => return Ok((depth == 0).then_some(false)),
            TokenKind::Punct(b';') if depth == 0 => return Ok(Some(true)),
            TokenKind::Punct(b';' | b':') => starts_next = true,
            TokenKind::Word if !is_name_part => {
                if is(&["END"]) {
                    let Some(less) = depth.checked_sub(1) else { return Ok(None) };
                    depth = less;
                    end_of(lexer)?;
                } else if is(&["THEN"]) && depth == 0 {
                    // A body that is a single IF.
                    depth = 1;
                } else if is(&["BEGIN", "CASE"]) || (starts || depth == 0) && is(&["LOOP", "WHILE"]) {
                    depth += 1;
                } else if starts && is(&["IF", "FOR", "REPEAT"]) {
                    let calls = is(&["REPEAT"]) && lexer.peek()?.is_punct(b'(');
                    depth += u32::from(!calls);
                }
                starts_next = is(&["BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "ATOMIC"]);
            }
            _ => {}
        }
        starts = starts_next;
        last = Some(token);
    }
}

/// After END: the word that names the block.
fn end_of(lexer: &mut Lexer<'_>) -> Result<(), Odd> {
    let next = lexer.peek()?;
    let names_block =
        ["IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR"].iter().any(|word| lexer.is_word(next, word));
    if name::is_name(next) && names_block {
        lexer.next()?;
    }
    Ok(())
}
