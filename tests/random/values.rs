//! The values in a row.

use crate::random::choices::group;
use crate::random::tables::Kind;
use crate::random::when::{
    ESCAPES, HAS_EARLIER, KNOWN, LISTED, MARIADB, NO_ESCAPES, NO_PARAMS, NOT_ANSI, NUMBER_ID, PARAMS, PARENT,
};
use crate::random::writer::Writer;
use crate::support::raw::Param;

group!(INT, "int":
    "number" 40,
    "param" 60 when PARAMS,
    "negative" 4,
    "sum" 4,
    "minus_minus" 3,
    "hex" 3,
    "bit" 3,
    "boolean" 3,
    "null" 5,
    "default" 4,
    "default_of" 2,
    "function" 4,
    "function_nested" 3,
    "subquery" 3,
    "subquery_exists" 2,
    "case" 3,
    "if" 3,
    "parentheses" 3,
    "parentheses_deep" 1,
    "user_variable" 3,
    "decimal" 2,
    "exponent" 2,
    "length_of_text" 3,
    "number_text" 3,
    "earlier_column" 12 when LISTED | HAS_EARLIER,
    "last_insert_id" 40 when KNOWN | PARENT,
    "last_insert_id_compared" 3 when KNOWN,
    "identity" 20 when KNOWN | PARENT,
    "in_list" 2,
);
group!(TEXT, "text":
    "plain" 30,
    "param" 60 when PARAMS,
    "empty" 3,
    "quote_doubled" 4,
    "quote_alone" 3,
    "quote_escaped" 4 when NO_PARAMS | ESCAPES,
    "backslash_end" 3 when NO_PARAMS | ESCAPES,
    "backslash_is_text" 30 when NO_PARAMS | NO_ESCAPES,
    "double_quotes" 4 when NOT_ANSI,
    "double_quotes_doubled" 3 when NOT_ANSI,
    "national" 3,
    "introducer" 3,
    "introducer_binary" 2,
    "hex" 3,
    "bit" 2,
    "adjacent" 3,
    "adjacent_newline" 2,
    "collate" 2,
    "function" 4,
    "parentheses_in_text" 4,
    "statement_in_text" 3,
    "comment_in_text" 3,
    "placeholder_in_text" 3,
    "backtick_in_text" 2,
    "semicolon_in_text" 3,
    "unicode" 3,
    "date" 2,
    "null" 4,
    "default" 3,
    "subquery" 3,
    "cast" 2,
    "number" 2,
    "long" 1,
    "newline_in_text" 2,
    "values_in_text" 3,
);
group!(KEY, "key":
    "fresh" 60,
    "colliding" 12,
    "null" 6,
);
group!(ID, "id":
    "null" 30,
    "null_lower_case" 3,
    "zero" 10,
    "zero_text" 4,
    "default" 8,
    "default_of" 3,
    "false" 3,
    "hex_zero" 3 when NUMBER_ID,
    "bit_zero" 3 when NUMBER_ID,
    "minus_zero" 3,
    "plus_zero" 3,
    "decimal" 3,
    "decimal_text" 3,
    "zeros" 3,
    "backslash_n" 6 when MARIADB | ESCAPES,
    "double_quoted_zero" 3 when NOT_ANSI,
);
group!(EXPLICIT, "explicit id":
    "number" 50,
    "text" 8 when NUMBER_ID,
    "hex" 5 when NUMBER_ID,
    "decimal" 5 when NUMBER_ID,
    "text_with_space" 5 when NUMBER_ID,
    "plus" 5 when NUMBER_ID,
    "duplicate" 3,
);
group!(BOUND_ID, "bound id":
    "null" 30,
    "null_int" 15,
    "zero" 12,
    "zero_unsigned" 6,
    "zero_text" 6,
    "false" 6,
    "number" 20,
    "number_unsigned" 6,
    "number_text" 6,
);
group!(EXPRESSION_ID, "expression id":
    "sum" 4,
    "user_variable" 4,
    "subquery" 4,
    "function" 4,
    "null_plus" 4,
    "last_insert_id" 60 when KNOWN,
    "case" 4,
);
group!(BOUND, "bound value":
    "int" 10,
    "unsigned" 4,
    "boolean" 3,
    "null" 4,
    "null_int" 3,
    "text" 6,
    "double" 3,
);
group!(BOUND_TEXT, "bound text":
    "text" 10,
    "empty" 3,
    "null" 3,
    "placeholder_in_text" 3,
    "parentheses_in_text" 3,
    "number" 3,
    "long" 2,
    "blob" 2,
);

/// The part of a row that is written so far.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// An INT column to the left, which a later value may read.
    pub(crate) earlier: Option<&'static str>,
}

impl Writer {
    pub(crate) fn value(&mut self, column: &'static str, kind: Kind, row: &mut Row, more: u32) {
        match kind {
            Kind::Int | Kind::Hidden => {
                let earlier = row.earlier;
                self.int(column, earlier, more);
                row.earlier = Some(column);
            }
            Kind::Parent => self.int(column, None, more | PARENT),
            Kind::Text => self.text(column, more),
            Kind::Key => self.key(),
            Kind::Part => {
                let part = self.choices.below(7) + 1;
                self.put(&part.to_string());
            }
            Kind::Generated => self.put("DEFAULT"),
            Kind::Id => unreachable!("an id is written by `id_value`"),
        }
    }

    fn int(&mut self, column: &'static str, earlier: Option<&str>, more: u32) {
        let more = more | if earlier.is_some() { HAS_EARLIER } else { 0 };
        let kind = self.pick(&INT, more);
        let n = self.choices.below(100);
        let text = match kind {
            "param" => return self.bound_int(),
            "negative" => format!("-{n}"),
            "sum" => format!("{n} + 1"),
            "minus_minus" => format!("{n}--1"),
            "hex" => format!("0x{n:02X}"),
            // Not as long as an id.
            "bit" => format!("b'{:b}'", n % 32),
            "boolean" => if n.is_multiple_of(2) { "TRUE" } else { "false" }.to_owned(),
            "null" => "NULL".to_owned(),
            "default" => "DEFAULT".to_owned(),
            "default_of" => format!("DEFAULT({column})"),
            "function" => format!("ABS(-{n})"),
            "function_nested" => format!("GREATEST(1, COALESCE(NULL, {n}), LEAST(2, 3))"),
            "subquery" => format!("(SELECT {n})"),
            "subquery_exists" => format!("EXISTS (SELECT {n} FROM (SELECT 1 AS x) AS y WHERE x = 1)"),
            "case" => format!("CASE WHEN {n} > 50 THEN 1 ELSE (2) END"),
            "if" => format!("IF({n} > 50, LENGTH(','), {n})"),
            "parentheses" => format!("(({n}) + (2))"),
            "parentheses_deep" => format!("{}{n}{}", "(".repeat(40), ")".repeat(40)),
            "user_variable" => "@v".to_owned(),
            "decimal" => format!("{n}.25"),
            "exponent" => format!("{n}e0"),
            "length_of_text" => format!("LENGTH('(,)') + {n}"),
            "number_text" => format!("'{n}'"),
            "earlier_column" => format!("{} + 1", earlier.unwrap_or("1")),
            "last_insert_id" => "LAST_INSERT_ID()".to_owned(),
            "last_insert_id_compared" => format!("last_insert_id() > {n}"),
            "identity" => "@@identity".to_owned(),
            "in_list" => format!("{n} IN (1, 2, 3)"),
            _ => n.to_string(),
        };
        self.put(&text);
    }

    fn bound_int(&mut self) {
        self.param(|choices| {
            let kind = choices.pick(&BOUND, 0);
            let n = i64::from(choices.below(100));
            match kind {
                "unsigned" => Param::Uint(n.unsigned_abs()),
                "boolean" => Param::Tiny(1),
                "null" => Param::Null,
                "null_int" => Param::NullInt,
                "text" => Param::String(n.to_string().into_bytes()),
                "double" => Param::Double(f64::from(u8::try_from(n).unwrap_or(0)) + 0.25),
                _ => Param::Int(n - 50),
            }
        });
    }

    fn text(&mut self, column: &'static str, more: u32) {
        let kind = self.pick(&TEXT, more);
        let n = self.choices.below(10);
        let text = match kind {
            "param" => return self.bound_text(),
            "empty" => "''",
            "quote_doubled" => "'it''s c4nary'",
            "quote_alone" => "''''",
            "quote_escaped" => r"'a\'b'",
            "backslash_end" => r"'a\\'",
            "backslash_is_text" => r"'c:\'",
            "double_quotes" => "\"it's\"",
            "double_quotes_doubled" => "\"a\"\"b\"",
            "national" => "N'x'",
            "introducer" => "_utf8mb4'x'",
            "introducer_binary" => "_binary 'x'",
            "hex" => "x'4142'",
            "bit" => "b'01000001'",
            "adjacent" => "'a' 'b'",
            "adjacent_newline" => "'a'\n  'b'",
            "collate" => "'x' COLLATE utf8mb4_bin",
            "function" => "CONCAT('a', '),(', UPPER('b'))",
            "parentheses_in_text" => "'), ('",
            "statement_in_text" => "'INSERT INTO t (a) VALUES (1)'",
            "comment_in_text" => "'/* -- #'",
            "placeholder_in_text" => "'?'",
            "backtick_in_text" => "'`'",
            "semicolon_in_text" => "';'",
            "unicode" => "'ä€😀'",
            "date" => "{d '2020-01-02'}",
            "null" => "NULL",
            "default" => "DEFAULT",
            "subquery" => "(SELECT 'x' LIMIT 1)",
            "cast" => "CAST(5 AS CHAR)",
            "number" => "17",
            "long" => "REPEAT('x', 150)",
            "newline_in_text" => "'a\nb'",
            "values_in_text" => "') VALUES ('",
            _ => return self.put(&format!("'v{n}'")),
        };
        let text = if text == "DEFAULT" && n > 5 { format!("DEFAULT({column})") } else { text.to_owned() };
        self.put(&text);
    }

    fn bound_text(&mut self) {
        self.param(|choices| {
            let kind = choices.pick(&BOUND_TEXT, 0);
            let text: &[u8] = match kind {
                "empty" => b"",
                "null" => return Param::Null,
                "placeholder_in_text" => b"? or ?",
                "parentheses_in_text" => b"), (",
                "number" => return Param::Int(17),
                "long" => return Param::String(b"y".repeat(180)),
                "blob" => return Param::Blob(b"AB".to_vec()),
                _ => b"bound",
            };
            Param::String(text.to_vec())
        });
    }

    fn key(&mut self) {
        let text = match self.pick(&KEY, 0) {
            "colliding" => (self.choices.below(5) + 1).to_string(),
            "null" => "NULL".to_owned(),
            _ => (self.choices.below(100_000) + 10).to_string(),
        };
        self.put(&text);
    }

    /// A value of the id that makes a fresh one, but for NO_AUTO_VALUE_ON_ZERO.
    pub(crate) fn no_id(&mut self, more: u32) -> &'static str {
        // Several zeros would mostly be duplicate keys.
        if self.state.mode.zero_is_a_value && !self.choices.one_in(3) {
            return "NULL";
        }
        match self.pick(&ID, more) {
            "null_lower_case" => "null",
            "zero" => "0",
            "zero_text" => "'0'",
            "default" => "DEFAULT",
            "default_of" => "DEFAULT(id)",
            "false" => "FALSE",
            "hex_zero" => "0x00",
            "bit_zero" => "b'0'",
            "minus_zero" => "-0",
            "plus_zero" => "+0",
            "decimal" => "0.4",
            "decimal_text" => "'0.4'",
            "zeros" => "000",
            "backslash_n" => r"\N",
            "double_quoted_zero" => "\"0\"",
            _ => "NULL",
        }
    }

    pub(crate) fn explicit_id(&mut self, more: u32) -> String {
        let kind = self.pick(&EXPLICIT, more);
        self.state.next_explicit += 1;
        let n = self.state.next_explicit;
        match kind {
            "text" => format!("'{n}'"),
            "hex" => format!("0x{n:04x}"),
            "decimal" => format!("{n}.0"),
            "text_with_space" => format!("' {n}'"),
            "plus" => format!("+{n}"),
            "duplicate" => "12".to_owned(),
            _ => n.to_string(),
        }
    }

    pub(crate) fn expression_id(&mut self) -> &'static str {
        self.tag("staged_warnings");
        match self.pick(&EXPRESSION_ID, 0) {
            "user_variable" => "@v",
            "subquery" => "(SELECT 77)",
            "function" => "ABS(-78)",
            "null_plus" => "NULL + 1",
            "last_insert_id" => "LAST_INSERT_ID() * 0 + 5",
            "case" => "CASE WHEN TRUE THEN 79 END",
            _ => "70 + 6",
        }
    }

    pub(crate) fn bound_id(&mut self) {
        let first = self.state.next_explicit + 1;
        let mut n = first;
        self.param(|choices| {
            n += 1;
            match choices.pick(&BOUND_ID, 0) {
                "null_int" => Param::NullInt,
                "zero" => Param::Int(0),
                "zero_unsigned" => Param::Uint(0),
                "zero_text" => Param::String(b"0".to_vec()),
                "false" => Param::Tiny(0),
                "number" => Param::Int(i64::from(n)),
                "number_unsigned" => Param::Uint(u64::from(n)),
                "number_text" => Param::String(n.to_string().into_bytes()),
                _ => Param::Null,
            }
        });
        self.state.next_explicit = n;
    }
}

/// Groups of this page, for the histogram.
pub(crate) const GROUPS: &[crate::random::choices::Group] =
    &[INT, TEXT, KEY, ID, EXPLICIT, BOUND_ID, EXPRESSION_ID, BOUND, BOUND_TEXT];
