//! The test whether a value at the id's place asks for an id, by what it means to the column. `insert`
//! decides that for constants, [`Meaning::of_param`] at each execution for what is bound to a `?`.

use crate::mysql::prepared::{Param, Scalar};
use crate::rules::model::ColumnShape;
use crate::sql::dialect::{Dialect, SqlMode};
use crate::sql::value::number::{Decimal, rounded_float};
use crate::sql::value::{self, Classified, IdValue};

/// The facts that decide what a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// NO_AUTO_VALUE_ON_ZERO
    pub zero_is_value: bool,
    mode: SqlMode,
    mariadb: bool,
    /// Known to be an unsigned integer: what is below zero becomes zero in it, with a warning, or
    /// is an error.
    is_unsigned: bool,
    pub(super) column: ColumnClass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnClass {
    /// An unsigned integer, a type that is none of the others, or a column that is not known.
    Unsigned,
    Signed,
    /// Strings: the wrapper, which makes integers, does not fit, and 0.4 is not zero.
    Text,
    /// 0.4 is not zero.
    Real,
}

/// The value that is bound to the id's place of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamMeaning {
    /// NULL or zero: takes an id.
    Takes,
    /// The server makes zero of it with a warning, or refuses it in strict mode. It takes an id
    /// that causes the same warning or error.
    TakesWarned,
    /// The server refuses it.
    Fails,
    /// The client's own; a value where it is an integer.
    Explicit(Option<i128>),
}

impl Meaning {
    pub fn new(dialect: &Dialect, id: Option<&ColumnShape>) -> Self {
        let data_type = id.map_or("", |id| id.data_type.as_str());
        let texts = ["char", "text", "binary", "blob", "enum", "set", "uuid"];
        let column = match id {
            // Almost every id is an integer: its name is not searched.
            Some(id) if data_type.ends_with("int") && !id.unsigned => ColumnClass::Signed,
            Some(_) if data_type.ends_with("int") => ColumnClass::Unsigned,
            _ if texts.iter().any(|kind| data_type.contains(kind)) => ColumnClass::Text,
            _ if matches!(data_type, "float" | "double" | "decimal") => ColumnClass::Real,
            _ => ColumnClass::Unsigned,
        };
        Meaning {
            zero_is_value: dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            mode: dialect.sql_mode,
            is_unsigned: column == ColumnClass::Unsigned && id.is_some_and(|id| id.unsigned),
            mariadb: dialect.is_mariadb(),
            column,
        }
    }

    fn is_integer(self) -> bool {
        matches!(self.column, ColumnClass::Signed | ColumnClass::Unsigned)
    }

    pub(super) fn clamps(self, value: i128) -> bool {
        self.is_unsigned && value < 0
    }

    /// The strict modes that are set. They decide whether the server refuses a value that it would
    /// otherwise make fit.
    pub fn strictness(self) -> SqlMode {
        let (all, trans) = (SqlMode::STRICT_ALL_TABLES, SqlMode::STRICT_TRANS_TABLES);
        let kept = [all, trans].into_iter().filter(|mode| self.mode.contains(*mode));
        kept.fold(SqlMode::NONE, SqlMode::union)
    }

    /// True if a clamped value is an error in this row, counted from 0, of a statement without
    /// IGNORE. In a table without transactions only the first row's may be one.
    pub(super) fn refuses_clamped(self, row: u32) -> bool {
        self.mode.contains(SqlMode::STRICT_ALL_TABLES)
            || row == 0 && self.mode.contains(SqlMode::STRICT_TRANS_TABLES)
    }

    /// Like [`Meaning::of_param`]; `row`: the value is of the `row`-th row of a statement without IGNORE.
    pub fn of_param_in(self, param: &Param<'_>, row: Option<u32>) -> Option<ParamMeaning> {
        match self.of_param(param) {
            Some(ParamMeaning::TakesWarned) if row.is_some_and(|row| self.refuses_clamped(row)) => {
                Some(ParamMeaning::Fails)
            }
            bound => bound,
        }
    }

    /// `None`: only the server can tell what it makes of the value. Measured on MariaDB 10.11 and
    /// MySQL 9.7.
    pub fn of_param(self, param: &Param<'_>) -> Option<ParamMeaning> {
        let clamped =
            if self.zero_is_value { ParamMeaning::Explicit(Some(0)) } else { ParamMeaning::TakesWarned };
        let value = match param.scalar().ok()? {
            Scalar::Null => return Some(ParamMeaning::Takes),
            Scalar::Integer(value) => value,
            Scalar::Float(value) if self.is_integer() => self.rounded(value)?,
            Scalar::Float(value) => rounded_float(value).filter(|_| value.fract() == 0.0)?,
            Scalar::Text(text) if param.kind.is_decimal() => self.decimal(text)?,
            Scalar::Text(text) => match self.text(text) {
                Some(value) => value,
                None if self.column == ColumnClass::Text => return Some(ParamMeaning::Explicit(None)),
                None if !self.is_integer() => return None,
                None if text.is_empty() && self.mode.contains(SqlMode::EMPTY_STRING_IS_NULL) => return None,
                None => match value::of_text(text, self.mariadb).value {
                    IdValue::Text | IdValue::TruncatedZero => return Some(clamped),
                    _ => return None,
                },
            },
            Scalar::Other => return None,
        };
        if self.clamps(value) {
            return Some(clamped);
        }
        Some(if value == 0 && !self.zero_is_value {
            ParamMeaning::Takes
        } else {
            ParamMeaning::Explicit(Some(value))
        })
    }

    fn decimal(self, text: &[u8]) -> Option<i128> {
        let decimal = Decimal::parse(text, true)?;
        let fits = match self.column {
            ColumnClass::Signed => true,
            // In strict mode an error, else a warning that an id in its place would take away.
            ColumnClass::Unsigned => !decimal.rounds_to_minus_zero(),
            ColumnClass::Text | ColumnClass::Real => decimal.is_integer(),
        };
        fits.then(|| decimal.rounded())
    }

    fn text(self, text: &[u8]) -> Option<i128> {
        let (value, integer) = match value::of_text(text, self.mariadb) {
            Classified { value: IdValue::Zero, .. } => (IdValue::Zero, 0),
            Classified { value: IdValue::ConvertedZero, .. } => (IdValue::ConvertedZero, 0),
            Classified { value, integer } => (value, integer?),
        };
        let is_spelled = matches!(value, IdValue::Zero | IdValue::Integer | IdValue::Truncated);
        if is_spelled || self.mariadb && self.is_integer() {
            return Some(integer);
        }
        let number = std::str::from_utf8(text).ok().filter(|_| self.is_integer())?.trim_matches([' ', '\t']);
        self.rounded(number.parse().ok()?)
    }

    /// MySQL converts what is bound to the type that the statement's executions so far have settled
    /// on, so that a half goes to even as a double does, or away from zero as a decimal does.
    fn rounded(self, value: f64) -> Option<i128> {
        let is_half = !self.mariadb && (value.fract().abs() - 0.5).abs() < 1e-9;
        rounded_float(value).filter(|_| !is_half)
    }
}

#[cfg(test)]
mod tests {
    use super::{Meaning, ParamMeaning};
    use crate::mysql::prepared::{Param, ParamType, ParamValue as Value};
    use crate::rules::model::ColumnShape;
    use crate::sql::dialect::{Dialect, Server, ServerKind, SqlMode};

    const DOUBLE: u8 = 0x05;
    const DECIMAL: u8 = 0xF6;
    const STRING: u8 = 0xFD;

    fn meaning(kind: ServerKind, mode: &str, column: &str) -> Meaning {
        let data_type = column.split_once(' ').map_or(column, |(data_type, _)| data_type);
        let shape = ColumnShape::of("id", data_type, column, "auto_increment");
        let server = Server { kind, ..Dialect::MYSQL.server };
        let dialect = Dialect { server, sql_mode: SqlMode::parse(mode), ..Dialect::MYSQL };
        Meaning::new(&dialect, Some(&shape))
    }

    /// The meaning of a value that is bound as `kind`, with its length in front where it is text.
    fn bound(meaning: Meaning, kind: u8, value: &[u8]) -> Option<ParamMeaning> {
        let kind = ParamType { kind, flags: 0 };
        let mut bytes = value.to_vec();
        if !matches!(kind.kind, DOUBLE) {
            bytes.insert(0, u8::try_from(value.len()).unwrap());
        }
        meaning.of_param(&Param::new(kind, Value::Value(&bytes)))
    }

    #[track_caller]
    fn check(column: &str, kind: u8, value: &str, mariadb: Option<i128>, mysql: Option<i128>) {
        for (server, expect) in [(ServerKind::MariaDb, mariadb), (ServerKind::MySql, mysql)] {
            let bytes = match kind {
                DOUBLE => value.parse::<f64>().unwrap().to_le_bytes().to_vec(),
                _ => value.as_bytes().to_vec(),
            };
            let got = bound(meaning(server, "", column), kind, &bytes);
            let expect =
                expect.map(|n| if n == 0 { ParamMeaning::Takes } else { ParamMeaning::Explicit(Some(n)) });
            assert_eq!(got, expect, "{value} {server:?}");
        }
    }

    #[test]
    fn numbers_that_are_no_integers() {
        check("bigint", DOUBLE, "0.5", Some(0), None);
        check("bigint", DOUBLE, "0.49", Some(0), Some(0));
        check("bigint", DOUBLE, "-0.0", Some(0), Some(0));
        check("bigint", DOUBLE, "1.5", Some(2), None);
        check("bigint", DOUBLE, "1.6", Some(2), Some(2));
        check("bigint", DOUBLE, "1e39", None, None);
        check("bigint", DOUBLE, "nan", None, None);
        check("double", DOUBLE, "0.5", None, None);
        check("bigint", DECIMAL, "0.4", Some(0), Some(0));
        check("bigint", DECIMAL, "15.5", Some(16), Some(16));
        check("bigint", DECIMAL, "-0.4", Some(0), Some(0));
        check("bigint unsigned", DECIMAL, "-0.4", None, None);
    }

    #[test]
    fn strings() {
        check("bigint", STRING, " 0", Some(0), Some(0));
        check("bigint", STRING, "0 ", None, Some(0));
        check("bigint", STRING, " 11 ", Some(11), Some(11));
        check("bigint", STRING, "0.5", Some(1), None);
        check("bigint", STRING, "12.5", Some(13), None);
        check("bigint", STRING, "12.6", Some(13), Some(13));
        check("bigint", STRING, "-0.4", Some(0), Some(0));
        check("bigint", STRING, "-0.5", Some(-1), None);
        check("bigint", STRING, "5e-1", Some(1), None);
        check("bigint", STRING, "1e1", Some(10), Some(10));
        check("bigint", STRING, "+14", Some(14), Some(14));
        for unclear in ["\n0", "1e", "0e", "-13abc", "13\\"] {
            check("bigint", STRING, unclear, None, None);
        }
        check("bigint", STRING, "13abc", Some(13), Some(13));
        let bigint = |mode: &str, value: &str| {
            bound(meaning(ServerKind::MySql, mode, "bigint"), STRING, value.as_bytes())
        };
        for no_number in ["", " ", "abc", "0x1", ".", "0abc", "-0.4x"] {
            assert_eq!(bigint("", no_number), Some(ParamMeaning::TakesWarned), "{no_number}");
            let zero = Some(ParamMeaning::Explicit(Some(0)));
            assert_eq!(bigint("NO_AUTO_VALUE_ON_ZERO", no_number), zero, "{no_number}");
        }
        assert_eq!(bigint("EMPTY_STRING_IS_NULL", ""), None);
        let text = |value: &str| bound(meaning(ServerKind::MySql, "", "varchar"), STRING, value.as_bytes());
        assert_eq!(text("abc"), Some(ParamMeaning::Explicit(None)));
        assert_eq!(text("0.4"), Some(ParamMeaning::Explicit(None)));
        assert_eq!(text("0"), Some(ParamMeaning::Takes));
    }

    #[test]
    fn what_strict_modes_refuse() {
        let in_row = |mode: &str, row: Option<u32>| {
            let kind = ParamType { kind: STRING, flags: 0 };
            meaning(ServerKind::MariaDb, mode, "int")
                .of_param_in(&Param::new(kind, Value::Value(b"\x01x")), row)
        };
        assert_eq!(in_row("", Some(0)), Some(ParamMeaning::TakesWarned));
        assert_eq!(in_row("STRICT_TRANS_TABLES", Some(0)), Some(ParamMeaning::Fails));
        assert_eq!(in_row("STRICT_TRANS_TABLES", Some(1)), Some(ParamMeaning::TakesWarned));
        assert_eq!(in_row("STRICT_ALL_TABLES", Some(1)), Some(ParamMeaning::Fails));
        assert_eq!(in_row("STRICT_ALL_TABLES", None), Some(ParamMeaning::TakesWarned));
        let unsigned = meaning(ServerKind::MariaDb, "", "int unsigned");
        let below = [0xFB, 0xFF, 0xFF, 0xFF];
        let below = Param::new(ParamType { kind: 0x03, flags: 0 }, Value::Value(&below));
        assert_eq!(unsigned.of_param(&below), Some(ParamMeaning::TakesWarned));
    }

    #[test]
    fn zero_may_be_a_value() {
        let meaning = meaning(ServerKind::MariaDb, "NO_AUTO_VALUE_ON_ZERO", "int");
        assert_eq!(bound(meaning, STRING, b"0.4"), Some(ParamMeaning::Explicit(Some(0))));
        let null = Param::new(ParamType { kind: STRING, flags: 0 }, Value::Null);
        assert_eq!(meaning.of_param(&null), Some(ParamMeaning::Takes));
    }
}
