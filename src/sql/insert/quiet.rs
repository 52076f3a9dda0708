//! Functions that cannot read the insert id, and statements that do nothing but store their rows.

use crate::sql::dialect::Dialect;
use crate::sql::lex::{Lexer, Token, TokenKind};

/// Functions and operators of the server's own that can be followed by a parenthesis, are resolved
/// before any stored function of that name, and never run code of the user's. Sorted. A name that
/// is not here costs nothing but the wrapper.
const QUIET: &[&str] = keywords!(
    ABS ADDDATE ADDTIME AES_DECRYPT AES_ENCRYPT AND ASCII BETWEEN BIN BINARY BIN_TO_UUID CASE CAST
    CEIL CEILING CHAR CHAR_LENGTH COALESCE COMPRESS CONCAT CONCAT_WS CONV CONVERT CONVERT_TZ CRC32
    CURDATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURTIME DATE DATE_ADD
    DATE_FORMAT DATE_SUB DAY DECIMAL DEFAULT DIV ELSE ELT EXTRACT FLOOR FORMAT FROM_BASE64
    FROM_UNIXTIME GREATEST HEX HOUR IF IFNULL IN INET6_ATON INET6_NTOA INET_ATON INET_NTOA INSTR
    INTERVAL JSON_ARRAY JSON_EXTRACT JSON_OBJECT JSON_QUOTE JSON_SET JSON_UNQUOTE LAST_DAY
    LAST_INSERT_ID LCASE LEAST LEFT LENGTH LIKE LOCALTIME LOCALTIMESTAMP LOCATE LOWER LPAD LTRIM
    MAKEDATE MAKETIME MD5 MICROSECOND MID MINUTE MOD MONTH NOT NOW NULLIF OR POINT POW POWER QUOTE
    RAND REGEXP_REPLACE REPEAT REPLACE REVERSE RIGHT ROUND RPAD RTRIM SECOND SHA SHA1 SHA2 SIGN
    SIGNED SPACE SQRT STR_TO_DATE ST_GEOMFROMTEXT ST_GEOMFROMWKB ST_POINTFROMTEXT SUBDATE SUBSTR
    SUBSTRING SUBSTRING_INDEX SUBTIME SYSDATE THEN TIME TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF
    TO_BASE64 TRIM TRUNCATE UCASE UNCOMPRESS UNHEX UNIX_TIMESTAMP UNSIGNED UPPER USER UTC_DATE
    UTC_TIME UTC_TIMESTAMP UUID UUID_SHORT UUID_TO_BIN VALUE VALUES WHEN XOR YEAR
);

/// Words of [`QUIET`] that are no functions.
const BEFORE_PARENTHESES: &[&str] = &[
    "AND", "BETWEEN", "CASE", "DIV", "ELSE", "IN", "LIKE", "NOT", "OR", "THEN", "VALUE", "VALUES", "WHEN",
    "XOR",
];

/// True if a name, in any letter case, is one of [`QUIET`].
pub(super) fn is_quiet(name: &[u8]) -> bool {
    let mut upper = [0u8; 20];
    let Some(upper) = upper.get_mut(..name.len()) else { return false };
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    QUIET.binary_search_by(|word| word.as_bytes().cmp(upper)).is_ok()
}

/// A call that names nothing and reads no insert id.
pub(super) fn is_quiet_call(name: &[u8]) -> bool {
    is_quiet(name) && !name.eq_ignore_ascii_case(b"LAST_INSERT_ID")
}

/// True if the INSERT at the start of a text can only store its rows, and these do not depend on what the statement
/// before it has left: no query, no variable, only quiet functions. `false` also if the text cannot be read.
pub fn stores_only(text: &[u8], dialect: Dialect) -> bool {
    let Some(mut lexer) = Lexer::new(text, dialect) else { return false };
    if !lexer.eat_word("INSERT").unwrap_or(false) {
        return false;
    }
    let (mut is_in_values, mut before, mut before_that) = (false, None, None);
    loop {
        let Ok(token) = lexer.next() else { return false };
        // A query; NEXT VALUE FOR of a SEQUENCE, which moves on.
        let acts = lexer.is_any_word(token, &["SELECT", "WITH", "TABLE", "FOR", "NEXTVAL", "CURRVAL"]);
        if acts || token.is_punct(b'@') {
            return false;
        }
        if token.ends_statement() {
            return is_in_values;
        }
        if let Some(name) = before.filter(|_| is_in_values && token.is_punct(b'(')) {
            let name: Token = name;
            let is_qualified = before_that.is_some_and(|token: Token| token.is_punct(b'.'));
            // After a blank a name may be a stored function's. MariaDB does not have all of these functions.
            let is_word = lexer.is_any_word(name, BEFORE_PARENTHESES);
            let is_call = name.span.end == token.span.start
                && is_quiet_call(name.span.of(text))
                && !lexer.is_any_word(name, &["BIN_TO_UUID", "UUID_TO_BIN"]);
            let is_other =
                name.kind == TokenKind::QuotedName || name.kind == TokenKind::Word && !is_word && !is_call;
            if is_other || is_qualified {
                return false;
            }
        }
        is_in_values |= lexer.is_any_word(token, &["VALUES", "VALUE", "SET"]);
        (before_that, before) = (before, Some(token));
    }
}

#[cfg(test)]
mod tests {
    use super::stores_only;
    use crate::sql::dialect::Dialect;

    #[test]
    fn what_a_statement_can_do() {
        for (text, expect) in [
            ("INSERT INTO t(a,b) VALUES (1,'@a'),(?,NOW())", true),
            ("/* x */ insert t (a) value(-1); UPDATE t SET a=@a", true),
            ("INSERT INTO t SET a = UUID(), b = DEFAULT(b)", true),
            ("INSERT INTO `values`(a) VALUES ((1 + (2)))", true),
            ("INSERT INTO t(a) VALUES (now ())", false),
            ("INSERT INTO t(a) VALUES (1 AND (2), CASE WHEN (1) THEN (2) ELSE (3) END)", true),
            ("INSERT INTO t(a) VALUES (UUID_TO_BIN('x'))", false),
            ("INSERT INTO t(a) VALUES (NEXT VALUE FOR s)", false),
            ("INSERT INTO t(a) VALUES (s.nextval)", false),
            ("INSERT INTO t(a) VALUES (@a:=1)", false),
            ("INSERT INTO t(a) VALUES (@@identity)", false),
            ("INSERT INTO t(a) VALUES (LAST_INSERT_ID())", false),
            ("INSERT INTO t(a) VALUES (ROW_COUNT())", false),
            ("INSERT INTO t(a) VALUES (f(1))", false),
            ("INSERT INTO t(a) VALUES (`now`())", false),
            ("INSERT INTO t(a) VALUES (s.now())", false),
            ("INSERT INTO t(a) VALUES ((SELECT 1))", false),
            ("INSERT INTO t(a) SELECT 1", false),
            ("INSERT INTO t(a) TABLE u", false),
            ("INSERT INTO t(a) VALUES ('", false),
            ("REPLACE INTO t(a) VALUES (1)", false),
            ("SET STATEMENT a=1 FOR INSERT INTO t(a) VALUES (1)", false),
            ("INSERT", false),
        ] {
            assert_eq!(stores_only(text.as_bytes(), Dialect::MYSQL), expect, "{text}");
        }
    }

    #[test]
    fn the_list_is_sorted() {
        assert!(super::QUIET.is_sorted());
    }

    #[test]
    fn quiet_functions_are_found_in_any_case() {
        for name in ["now", "UUID", "Values", "abs", "YEAR", "inet6_aton", "INET_NTOA", "st_geomfromtext"] {
            assert!(super::is_quiet(name.as_bytes()), "{name}");
        }
        for name in ["my_function", "nex", "", "a_name_that_is_longer_than_any_of_the_list"] {
            assert!(!super::is_quiet(name.as_bytes()), "{name}");
        }
    }
}
