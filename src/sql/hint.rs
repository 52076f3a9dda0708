//! MySQL's optimizer hints of an INSERT, as far as ids depend on them.
//!
//! Only SET_VAR changes what an INSERT stores, and of the variables that it may set only these:
//! `sql_mode` (what zero means; the text is cut into tokens before it acts), `insert_id` and
//! `auto_increment_...`. A hint that the server does not understand is left out with a warning
//! (1064), as is what follows it in its comment.

/// The variables that the hints of an INSERT may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintedVariables {
    /// None that matters.
    None,
    /// `sql_mode`, if the server takes the hint.
    SqlMode,
    /// Which id the server generates.
    Ids,
    /// The end of the comment is not certain: a quote in it is not closed.
    Unclear,
}

/// `comments`: the text between the verb and the table's name, with a hint in it.
pub fn variables(comments: &[u8]) -> HintedVariables {
    if !quotes_close(comments) {
        return HintedVariables::Unclear;
    }
    let upper = comments.to_ascii_uppercase();
    let has = |word: &[u8]| memchr::memmem::find(&upper, word).is_some();
    if !has(b"SET_VAR") {
        HintedVariables::None
    } else if has(b"INSERT_ID") || has(b"AUTO_INCREMENT_") {
        HintedVariables::Ids
    } else if has(b"SQL_MODE") {
        HintedVariables::SqlMode
    } else {
        HintedVariables::None
    }
}

/// True if every quote is closed again. The server passes over quoted text when it looks for `*/`: if the quotes
/// close, the first `*/` that we found is the one it finds.
fn quotes_close(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(open) = memchr::memchr3(b'\'', b'"', b'`', rest) {
        let quote = rest.get(open).copied().unwrap_or_default();
        let inner = rest.get(open + 1..).unwrap_or_default();
        let Some(close) = memchr::memchr2(quote, b'\\', inner) else { return false };
        if inner.get(close) == Some(&b'\\') {
            return false;
        }
        rest = inner.get(close + 1..).unwrap_or_default();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{HintedVariables, variables};

    #[track_caller]
    fn check(hint: &str, expect: HintedVariables) {
        assert_eq!(variables(hint.as_bytes()), expect, "{hint}");
    }

    #[test]
    fn hints() {
        check("/*+ NO_INDEX_MERGE(t) QB_NAME(`q`) */", HintedVariables::None);
        check("/*+ SET_VAR(max_execution_time = 5) set_var(sort_buffer_size=16M) */", HintedVariables::None);
        check("/*+ set_var(`Sql_Mode` = 'ANSI') */ IGNORE", HintedVariables::SqlMode);
        check("/*+ SET_VAR(insert_id=5) */ /*+ NO_MERGE() */", HintedVariables::Ids);
        check("/*+ SET_VAR(auto_increment_offset=5) */", HintedVariables::Ids);
        check("/*+ SET_VAR(sql_mode='a*/", HintedVariables::Unclear);
        check("/*+ QB_NAME(`a*/", HintedVariables::Unclear);
        check(r"/*+ SET_VAR(sql_mode='a\\'') */", HintedVariables::Unclear);
        check("/*+ SET_VAR(sql_mode='a''b') */", HintedVariables::SqlMode);
    }
}
