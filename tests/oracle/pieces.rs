//! The pieces that texts are put together from. They are bytes: a session may have any character set.

/// Values and what stands between them: most texts of these prepare.
const WELL_FORMED: &[&[u8]] = &[
    b"'a'",
    b"'?'",
    b"\"?\"",
    b"`k`",
    b"?",
    b"?",
    b"1",
    b"0",
    b"null",
    b"default",
    b"now()",
    b"last_insert_id()",
    b"'0'",
    b"`?`",
    b"case when 1 then 2 end",
    b"(select 1)",
    b"concat('?',?)",
    b"n'?'",
    b"N'a'",
    b"x'41'",
    b"X'4142'",
    b"b'01'",
    b"B'1'",
    b"0x1F",
    b"0b01",
    b"1.5",
    b".5",
    b"5.",
    b"5.e1",
    b"1e5",
    b"1E-3",
    b"1e+5",
    b"1..2",
    b"1...2",
    b"1.5..?",
    b"?..2",
    b"k..2",
    b"1--1",
    b"1--?",
    b"1 -- ?\n",
    b"1 --\t?\n",
    b"1 --\n",
    b"1 # ?\n",
    b"1 /* ? */",
    b"/* ' */ 1",
    b"1 /*! + ? */",
    b"1 /*!50000 + ? */",
    b"1 /*!99999 + ? */",
    b"1 /*!100000 + ? */",
    b"1 /*!101119 +? */",
    b"1 /*!999999 + ? */",
    b"1 /*!50700+?*/",
    b"1 /*!80000 +?*/",
    b"1 /*!90700 +?*/",
    b"1 /*!090700 +?*/",
    b"1 /*!0900001+? */",
    b"1 /*!900001 +? */",
    b"1 /*!50000+?*/",
    b"1 /*!500000 +?*/",
    b"1 /*!500001+?*/",
    b"1 /*!100000+?*/",
    b"1 /*!5000 0+?*/",
    b"1 /*!5 +?*/",
    b"1 /*!*/",
    b"1 /*M! + ? */",
    b"1 /*M!100000 + ? */",
    b"1 /*M!50700 + ? */",
    b"1 /*M!999999 + ? */",
    b"1 /*!999999 /* ? */ + ? */",
    b"1 /*! /* ? */ + ? */",
    b"1 /*!50000 # ?\n + ? */",
    b"1 /*! -- ?\n + ? */",
    b"1 /*!999999 '*/'*/",
    b"1 /*+ ? */",
    b"1 /*+ ' */",
    b"{ts '2020-01-01 00:00:00'}",
    b"{d'2020-01-01'}",
    b"_utf8mb4'?'",
    b"_latin1'a'",
    b"_binary'?'",
    b"_utf8mb4 x'41'",
    b"_binary 0x41",
    b"_gbk'a'",
    b"_utf8mb4?",
    b"@v",
    b"@'?'",
    b"@`?`",
    b"@\"?\"",
    b"@v:=?",
    b"@@version",
    b"@@global.sql_mode",
    b"@@`version`",
    b"@a.b",
    b"@ v",
    b"'it''s ?'",
    b"\"a\"\"?\"",
    b"'a\\'?'",
    b"'\\\\'",
    b"'\\'",
    b"'a' '?'",
    b"'a'\n'?'",
    b"`a``?`",
    b"'--'",
    b"'/*'",
    b"'#'",
    b"'*/'",
    b"\\N",
    b"t.k",
    b"t.`k`",
    b"t . k",
    b"`t`.k",
    b"oracle.t.k",
    b"t.1a",
    b"a$b",
    b"k->'$.?'",
    b"k->>'$.a'",
    b"1||?",
    b"1&&?",
    b"not ?",
    b"!?",
    b"~?",
    b"?=?",
    b"1<=>?",
    b"interval 1 day+now()",
    b"(1)",
    b"((?))",
    b"(1,2)=(?,3)",
    b"cast(? as signed)",
    b"?+ ?",
    b"-?",
    b"- -?",
    b"--1",
    b"+?",
    b"?in(1,2)",
    b"? is null",
    b"true",
    b"false",
    b"date'2020-01-01'",
    b"'\0?'",
    b"'\x1a'",
    b"\"'?\"",
    b"'\"?'",
    b"''",
    b"\"\"",
    b"k k2",
    b"values(k)",
    b"1e",
    b"1ea",
    b"0x",
    b"0xg",
    b"0b2",
    b"1a",
    b"k1",
    b"9k",
    b"t.9k",
    b"t.1e5",
    b"k.5",
    b"1.k",
    b"1..k",
    b"1.5.k",
    b"1 .k",
];

/// Signs, halves and what confuses.
#[rustfmt::skip] // A table.
const PIECES: &[&[u8]] = &[
    b",", b",", b"?", b"+", b"-", b"*", b"(", b")", b"\\'", b"\\", b"'", b"\"", b"''", b"`", b"_utf8mb4", b"_gbk",
    b"_binary", b"X'4'", b"0x", b".", b"e5", b"1e", b"N", b"),(", b"@", b"@@", b":=", b":", b":a", b"\\N", b"$",
    b"$$", b"$$?$$", b"$a$?$a$", b"$q", b"\n", b"*/", b"/*", b"/*!", b"/*M!", b"/*+", b"/*!50000", b"/*!999999",
    b"/*!99999", b"--", b"--?", b"-- ", b"--\x01?\n", b"--\x7f?\n", b"--\xc2\xa0?\n", b"--\0", b"#", b"# ?\n",
    b"#\0\n", b"# \r?", b"id", b"||", b"->", b"->>", b";", b"\x01", b"\x02", b"\x07", b"\x08", b"\x0b", b"\x0c",
    b"\x1b", b"\x1f", b"\x7f", b"\t", b"\r", b" as x", b"select", b"interval", b"\x1a", b"\0", b"\xef\xbb\xbf",
    b"\xc2\xa0", b"\xe3\x80\x80", b"\xc3\xa9", b"\xf0\x9f\x98\x80", b"\xe6\x97\xa5", b"/* ? */", b"/**/", b"/*/",
    b"/***/", b"/* /* */", b"*/ */", b"/*!*/", b"[", b"]", b"{", b"}", b"^", b"~", b"%", b"&", b"|", b"<", b">", b"=",
    b"!", b"?a", b"?1", b"a?", b"1?", b"??", b"_", b"\xff", b"\x80", b"x'zz'", b"b'2'", b"x'", b"n'", b"n\"?\"",
    b"x\"41\"", b"''''", b"'''", b"\"\"\"", b"`a`.`b`", b".1",
];

/// Columns of `t`, the first few for lists; of the others expressions speak.
#[rustfmt::skip] // A table.
pub(crate) const COLUMNS: &[&str] = &[
    "id", "k", "v", "c1", "c2", "c3", "c4", "k1", "1a", "1e", "1ea", "0x", "0xg", "0b2", "9k", "1e5", "a$b",
    "k2", "1_", "0x1g", "\u{e9}",
];
const LISTED: &[&str] = &["k", "v", "c1", "c2", "c3", "c4", "k1"];
#[rustfmt::skip] // A table.
const INSERTS: &[&[u8]] = &[
    b"insert into t", b"insert into t", b"insert t", b"replace t", b"replace into`t`", b"insert ignore into t",
    b"/*!50000 insert */ into t", b"insert /*!999999 ignore */ into t", b"/* ? */ insert into t",
    b"-- x\nreplace into t", b"\xef\xbb\xbfinsert into t", b"insert into/**/t", b"insert into t\n",
    b"insert /*+ ? */ into t", b"insert/*!99999 ? */into t", b"insert into oracle.t", b"insert into `oracle` . t",
];
#[rustfmt::skip] // A table.
const BLANKS: &[&[u8]] = &[
    b"", b"", b"", b" ", b"\t", b"\n", b"/**/", b"/* ? */", b" -- ?\n", b"#\n", b"/*!*/", b"/*!50000*/",
    b"/*!999999 ? */", b"\r\n", b"\x0b", b"\x0c",
];

/// Bytes from 0x80 on, and what may follow them.
#[rustfmt::skip] // A table.
const HIGH: &[&[u8]] = &[
    b"\x81\x5c", b"\x95\x5c", b"\xbf\x5c", b"\xa4\x5c", b"\xe0\x5c", b"\xfc\x5c", b"\xbf\x27", b"\x81\x27",
    b"\x81\x60", b"\x83\x60", b"\xa1\x60", b"\x81\x3f", b"\x81\x30\x81\x30", b"\x81\x30\x81", b"\x81\x30",
    b"\x8e\xb1", b"\x8f\xa1\xa1", b"\x8f\xa1", b"\xa1\xa1", b"\xb1\xa1", b"\xb1", b"\xdf", b"\xe9", b"\xa0", b"\x85",
    b"\xc3\xa9", b"\xc3", b"\xe3\x81\x82", b"\xe3\x81", b"\xf0\x9f\x98\x80", b"\xf0\x9f", b"\x80", b"\xff",
    b"\xfe\xfe", b"\xc9\xc0", b"\xfe\x7e", b"\x81\x40", b"\x81\x7f", b"\xd7", b"\xf7", b"\x84\x31\xa4\x37",
    b"\xed\xa0\x80", b"\xc0\x80", b"\xf8\x88\x80\x80\x80",
];
const SECOND: &[u8] = b"\\'\"`?,0@~\x7f\x80\xa1\xff *";

/// xorshift64*
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % n
    }

    pub(crate) fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    fn byte(&mut self, all: &[u8]) -> u8 {
        all[self.below(all.len())]
    }
}

/// A statement or what is none.
pub(crate) fn statement(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    let items = 1 + random.below(4);
    match random.below(8) {
        0..=3 => {
            text.extend_from_slice(random.of(&[
                &b"select 1,"[..],
                b"select ",
                b"select ",
                b"/*! select */ ",
                b"select/**/",
                b"SELECT 1,",
            ]));
            list(random, &mut text, items, &[]);
            text.extend_from_slice(random.of(&[
                &b" from t"[..],
                b" from t",
                b" from t",
                b"",
                b" from t;",
                b"\nfrom t -- ?",
            ]));
        }
        4 => {
            text.extend_from_slice(random.of(INSERTS));
            text.extend_from_slice(b" set ");
            list(random, &mut text, items, LISTED);
        }
        5 => {
            text.extend_from_slice(random.of(&[
                &b"insert into u values ("[..],
                b"insert u value(",
                b"replace u values\t(",
            ]));
            list(random, &mut text, 3, &[]);
            text.push(b')');
        }
        _ => rows(random, &mut text, items),
    }
    if text.starts_with(b"insert") && random.below(6) == 0 {
        text.extend_from_slice(b" on duplicate key update ");
        list(random, &mut text, 1, LISTED);
    }
    text.extend_from_slice(random.of(&[
        &b""[..],
        b"",
        b"",
        b"",
        b"",
        b";",
        b" ; ",
        b" -- ?",
        b" # ?",
        b"/* ? */",
        b"--;",
        b" --",
    ]));
    text
}

fn rows(random: &mut Random, text: &mut Vec<u8>, items: usize) {
    text.extend_from_slice(random.of(INSERTS));
    let with_id = random.below(3) == 0;
    let mut columns = LISTED[..items].to_vec();
    if with_id {
        columns.insert(random.below(items + 1), "id");
    }
    text.extend_from_slice(format!("({})", columns.join(",")).as_bytes());
    text.extend_from_slice(random.of(&[&b" values "[..], b"values", b" VALUE", b"/**/values\n"]));
    for nth in 0..=random.below(2) {
        if nth > 0 {
            text.push(b',');
        }
        text.push(b'(');
        for (nth, column) in columns.iter().enumerate() {
            if nth > 0 {
                text.push(b',');
            }
            if *column == "id" {
                text.extend_from_slice(random.of(&[
                    &b"null"[..],
                    b"0",
                    b"default",
                    b"?",
                    b"7",
                    b"'0'",
                    b" null/* ? */",
                    b"-0",
                    b"0x00",
                    b"0.4",
                ]));
            } else {
                item(random, text);
            }
        }
        text.push(b')');
    }
}

/// Expressions, or assignments to these columns.
fn list(random: &mut Random, text: &mut Vec<u8>, items: usize, columns: &[&str]) {
    for nth in 0..items {
        if nth > 0 {
            text.push(b',');
        }
        if let Some(column) = columns.get(nth) {
            text.extend_from_slice(column.as_bytes());
            text.push(b'=');
        }
        item(random, text);
    }
}

fn item(random: &mut Random, text: &mut Vec<u8>) {
    text.extend_from_slice(random.of(BLANKS));
    match random.below(16) {
        0 => text.extend_from_slice(random.of(PIECES)),
        1 => {
            text.extend_from_slice(random.of(WELL_FORMED));
            text.extend_from_slice(random.of(PIECES));
            text.extend_from_slice(random.of(WELL_FORMED));
        }
        2..=4 => high(random, text),
        _ => text.extend_from_slice(random.of(WELL_FORMED)),
    }
    if random.below(8) == 0 {
        text.extend_from_slice(random.of(BLANKS));
    }
}

/// A character, or what looks like one, in quotes, in a comment, or by itself.
fn high(random: &mut Random, text: &mut Vec<u8>) {
    let (open, close): (&[u8], &[u8]) = *random.of(&[
        &(&b"'"[..], &b"'"[..]),
        &(b"'?", b"?'"),
        &(b"\"", b"\""),
        &(b"`", b"`"),
        &(b"@`", b"`"),
        &(b"@'", b"'"),
        &(b"'\\", b"'"),
        &(b"'", b"\\'?'"),
        &(b"", b""),
        &(b"@", b""),
        &(b"1 as ", b""),
        &(b"1 /* ", b" ? */"),
        &(b"1 # ", b"?\n"),
        &(b"1 -- ", b"?\n"),
        &(b"1 --", b"?\n"),
        &(b"n'", b"'"),
        &(b"_utf8mb4'", b"'"),
        &(b"1/*!999999 ", b" */"),
        &(b"1/*!50000 +'", b"'*/"),
        &(b"1 ", b""),
        &(b"?", b""),
        &(b"k", b"k"),
        &(b"_gbk'", b"'"),
        &(b"_big5'", b"'"),
        &(b"_latin1'", b"'"),
    ]);
    text.extend_from_slice(open);
    for _ in 0..=random.below(3) {
        match random.below(4) {
            0 => {
                text.push(u8::try_from(0x80 + random.below(0x80)).unwrap());
                text.push(random.byte(SECOND));
            }
            1 => text.extend_from_slice(b"a?"),
            _ => text.extend_from_slice(random.of(HIGH)),
        }
    }
    text.extend_from_slice(close);
}
