use super::*;
use crate::sql::dialect::Server;

const MARIADB: Dialect = Dialect::MARIADB;
const MYSQL: Dialect = Dialect::MYSQL;

/// Kinds of all tokens, one letter each: `w`ord, `n`ame in quotes, `s`tring, `N`ational string, `i`nteger, `d`ecimal,
/// `f`loat, `x` hex, `b`its, `?`, `=` for `:=`, `\` for `\N`, `:` for `..`, signs as they are, `!` where it is odd.
fn kinds(dialect: Dialect, text: &[u8]) -> String {
    let mut lexer = Lexer::new(text, dialect).unwrap();
    let mut out = String::new();
    loop {
        match lexer.next() {
            Err(_) => return out + "!",
            Ok(token) => {
                assert!(token.span.start <= token.span.end && token.span.end as usize <= text.len());
                out.push(match token.kind {
                    TokenKind::Word => 'w',
                    TokenKind::QuotedName => 'n',
                    TokenKind::String => 's',
                    TokenKind::NationalString => 'N',
                    TokenKind::Integer => 'i',
                    TokenKind::Decimal => 'd',
                    TokenKind::Float => 'f',
                    TokenKind::Hex => 'x',
                    TokenKind::Bits => 'b',
                    TokenKind::Placeholder => '?',
                    TokenKind::Assign => '=',
                    TokenKind::BackslashN => '\\',
                    TokenKind::DotDot => ':',
                    TokenKind::Punct(byte) => char::from(byte),
                    TokenKind::End => return out,
                });
            }
        }
    }
}

fn check(rows: &[(&str, &str)], dialect: Dialect) {
    for (text, expected) in rows {
        assert_eq!(kinds(dialect, text.as_bytes()), *expected, "{text}");
    }
}

#[test]
fn tokens() {
    check(
        &[
            ("", ""),
            (" \t\r\n\x0b\x0c", ""),
            ("a", "w"),
            ("select a1 _b c$d", "wwww"),
            ("$a", "w"),
            ("1a 2e 3e4 0x 0xg 0b2 0X1F", "wwfwwww"),
            ("1 1.5 .5 1. 1e5 1.e5 1.5E-3 1e+5", "idddffff"),
            ("0x1F 0b01 x'1f' X'' b'01' B''", "xbxxbb"),
            ("0b01", "b"),
            ("1e+ 5", "!"),
            ("1.ex", "!"),
            ("1.5x", "!"),
            ("1.2.3", "!"),
            ("x'1'", "!"),
            ("x'zz'", "!"),
            ("b'2'", "!"),
            ("x 'ab' x\"ab\"", "wsws"),
            ("n'a' N'b' n \"c\"", "NNws"),
            ("_utf8mb4'a' _binary \"b\"", "wsws"),
            ("_gbk'a' _sjis ''", "wsws"),
            ("_gbk'a''b'", "!"),
            ("_gbk'a\\'", "!"),
            ("_gbk'\u{e9}'", "!"),
            ("_gbk 'a", "!"),
            ("_utf16'a'", "!"),
            ("_utf16 0xAC00 _ucs2 x'0041' _utf32 b'1'", "wxwxwb"),
            ("_utf16 /**/ 0xAC00", "!"),
            ("'a' \"b\" `c` 'd''e' \"f\"\"g\" `h``i`", "ssnssn"),
            ("'a\\'b' \"\\\"\" '\\\\'", "sss"),
            ("'a''", "!"),
            ("'a\\'", "!"),
            ("`a", "!"),
            ("``", "n"),
            ("`` ```` a", "nnw"),
            ("? ?,?", "??,?"),
            ("?a", "!"),
            ("@a @'b' @`c` @@d @@global.e", "@w@s@n@@w@@w.w"),
            (":= : =", "=:="),
            ("\\N", "\\"),
            ("\\x", "!"),
            ("t.a t.1 t.select t.1e5 `t`.a t . a", "w.ww.ww.ww.wn.ww.w"),
            ("`t`.5", "nd"),
            ("a->'$.b' a->>'c'", "w->sw->>s"),
            ("{ts '2020'}", "{ws}"),
            ("größe 日本", "ww"),
            ("\u{1F600}", "!"),
            ("'\u{1F600}'", "s"),
            ("[1]", "!"),
            ("a\0", "w!"),
            ("'\0'", "s"),
            ("\x01", "!"),
        ],
        MARIADB,
    );
    assert_eq!(kinds(MARIADB, b"\xff"), "!");
    assert_eq!(kinds(MARIADB, b"'\xff'"), "s");
}

#[test]
fn mysql_differs() {
    check(&[("$$'$$", "!"), ("$a", "!"), ("a$b", "w"), ("\\N", "!"), ("/*M! 1 */ 2", "i")], MYSQL);
}

#[test]
fn comments() {
    check(
        &[
            ("1 -- 2", "i"),
            ("1 --", "i"),
            ("1 --\t2\n3", "ii"),
            ("1--2", "i--i"),
            ("1--;", "i!"),
            ("1--; 2", "i--;i"),
            ("1 # 2\n3", "ii"),
            ("1 /* 2 */ 3", "ii"),
            ("1/**/2", "ii"),
            ("1 /*/ 2 */ 3", "ii"),
            ("1 /* 2", "i!"),
            ("/*! 1 */ 2", "ii"),
            ("/*!1*/ 2", "ii"),
            ("/*!50000 1 */ 2", "ii"),
            ("/*!50699 1 */ 2", "ii"),
            ("/*!50700 1 */ 2", "i"),
            ("/*!99999 1 */ 2", "i"),
            ("/*!100000 1 */ 2", "ii"),
            ("/*!101119 1 */ 2", "ii"),
            ("/*!101120 1 */ 2", "i"),
            ("/*!999999 1 */ 2", "i"),
            ("/*M! 1 */ 2", "ii"),
            ("/*M!50700 1 */ 2", "ii"),
            ("/*M!101120 1 */ 2", "i"),
            ("/*!999999 /* 1 */ 2 */ 3", "i"),
            ("/*!999999 /* /* 1 */ 2 */ 3 */", "!"),
            ("/*! /* 1 */ 2 */ 3", "ii"),
            ("/*! /*! 1 */ 2 */ 3", "!"),
            ("/*! 1", "i!"),
            ("/*! '*/' */", "s"),
            ("1 */ 2", "i*/i"),
            ("# \0", "!"),
            ("/* \0 */ 1", "i"),
            ("'-- ' '/*' '#'", "sss"),
        ],
        MARIADB,
    );
    check(
        &[
            ("/*!50700 1 */ 2", "ii"),
            ("/*!90704 1 */ 2", "ii"),
            ("/*!90705 1 */ 2", "i"),
            ("/*!100000 1 */ 2", "i"),
            ("/*!100000+1 */ 2", "i+ii"),
            ("/*!090704 1 */ 2", "ii"),
            ("/*!090705\t1 */ 2", "i"),
            ("/*!0907041 */ 2", "ii"),
            ("/*!900001+1 */ 2", "i+ii"),
            ("/*!900001 +1 */ 2", "i"),
            ("/*!900001\u{a0}", "!"),
            ("/*!900001", "!"),
            ("/*!907051 1 */ 2", "i"),
            ("/*!999999 1 */ 2", "i"),
            ("/*!999999+1 */ 2", "i"),
        ],
        MYSQL,
    );
    let older = Dialect { server: Server { version: 90_400, ..MYSQL.server }, ..MYSQL };
    check(&[("/*!090000 1 */", "!"), ("/*!80000 1 */", "i"), ("/*!999999 1 */ 2", "i")], older);
}

#[test]
fn modes() {
    let ansi = Dialect { sql_mode: SqlMode::ANSI_QUOTES, ..MARIADB };
    check(&[("\"a\" 'b'", "ns"), ("\"a\"\"b\"", "n"), ("\"a\\\" 'b'", "ns")], ansi);
    let no_escapes = Dialect { sql_mode: SqlMode::NO_BACKSLASH_ESCAPES, ..MARIADB };
    check(&[("'a\\' 'b'", "ss"), ("'a''b\\'", "s"), ("'\\\\\\'", "s")], no_escapes);
    let oracle = Dialect { sql_mode: SqlMode::ORACLE, ..MARIADB };
    check(&[(":a", "!"), ("a:=1", "w=i")], oracle);
}

#[test]
fn characters_that_hold_a_backslash() {
    let gbk = Dialect { charset: ClientCharset::Gbk, ..MARIADB };
    for (text, expected) in [
        (&b"'\xbf\x5c' 'a'"[..], "ss"),
        (b"'\xbf\\'' 'a'", "sw!"),
        (b"'\\\xbf\x5c'", "!"),
        (b"'\xbf\x27", "!"),
        (b"`\xbf\x60`", "!"),
        (b"\xbf\x5c", "!"),
    ] {
        assert_eq!(kinds(gbk, text), expected, "{}", text.escape_ascii());
    }
    for (charset, text, expected) in [
        (ClientCharset::Big5, &b"'\xa4\x5c'"[..], "s"),
        (ClientCharset::Sjis, b"'\x95\x5c'", "s"),
        (ClientCharset::Sjis, b"'\xb1\x5c'", "!"),
        (ClientCharset::Gb18030, b"'\x81\x30\x81\x30\x5c''", "s"),
        (ClientCharset::Gb18030, b"'\x81\x5c'", "s"),
        (ClientCharset::Utf8, b"'\xc3\x5c''", "s"),
        (ClientCharset::Latin1, b"'\xe4\x5c''", "s"),
        (ClientCharset::Unknown, b"'\xe4'", "!"),
        (ClientCharset::Unknown, b"'a\\''", "s"),
        (ClientCharset::Latin1, b"gr\xf6\xdfe", "w"),
        (ClientCharset::Latin1, b"a\xa0b", "!"),
        (ClientCharset::Latin1, b"1--\xa02", "i!"),
    ] {
        let found = kinds(Dialect { charset, ..MARIADB }, text);
        assert_eq!(found, expected, "{charset:?} {}", text.escape_ascii());
    }
}

#[test]
fn statements_end_at_semicolons_of_their_own() {
    for (text, end) in [
        ("a;b", Some(2)),
        ("a", None),
        ("';';b", Some(4)),
        ("`;` \";\" /* ; */ -- ;\n;b", Some(22)),
        ("/*! ; */ b", Some(5)),
    ] {
        let mut lexer = Lexer::new(text.as_bytes(), MARIADB).unwrap();
        let found = lexer.skip_statement().unwrap();
        assert_eq!(found.then(|| lexer.position()), end, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_end(bytes: Vec<u8>) {
        kinds(MARIADB, &bytes);
        kinds(MYSQL, &bytes);
        kinds(Dialect { charset: ClientCharset::Gb18030, ..MARIADB }, &bytes);
    }

    /// Signs that begin something are more likely here.
    #[test]
    fn any_signs_end(text in "[-'\"`\\\\/*!M#?@:.;()0-9xbe \n]{0,40}") {
        kinds(MARIADB, text.as_bytes());
        kinds(Dialect { sql_mode: SqlMode::ANSI_QUOTES, ..MYSQL }, text.as_bytes());
    }
}

#[test]
fn two_dots() {
    let rows = [
        ("0..2", "i:i"),
        ("0 .. 2", "i:i"),
        ("0 ..2", "i:i"),
        ("0.. 2", "i:i"),
        ("0...2", "i:d"),
        ("0...5e0", "i:f"),
        ("0.5..2", "d:i"),
        ("1e0..2", "f:i"),
        ("0x1..2", "x:i"),
        ("0b1..?", "b:?"),
        ("1e..2 1a..2", "w:iw:i"),
        ("a..b a...2", "w:ww:d"),
        ("'0'..'2'", "s:s"),
        ("0..`a`", "i:n"),
        ("0../**/2", "i:i"),
        ("1.2.3", "!"),
    ];
    check(&rows, MARIADB);
    // No statement of MySQL's has them.
    check(&[("0..2", "!"), ("a..b", "w..w"), ("1.2.3", "!")], MYSQL);
}
