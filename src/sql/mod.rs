//! Bytes to tokens with spans, tokens to the shape of a statement. Pure: no rules, no runtime, no
//! clock.
//!
//! A scanner here returns [`lex::Odd`] for a text that it does not know for certain, never a guess.

/// A table of words: `keywords!(AND OR)` is `&["AND", "OR"]`.
macro_rules! keywords {
    ($($word:ident)*) => { &[$(stringify!($word)),*] };
}

pub mod charset;
pub mod dialect;
pub mod digest;
pub mod draws;
pub mod hint;
pub mod insert;
pub mod letters;
pub mod lex;
pub mod load;
pub mod look;
pub mod name;
pub mod reads;
pub mod scan;
pub mod statement;
pub mod value;
