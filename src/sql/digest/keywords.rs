//! Words that are keywords wherever they stand unquoted and not after a dot.

/// Reserved by MySQL and by MariaDB (manual, "Keywords and Reserved Words"; Knowledge Base,
/// "Reserved Words"), sorted. A word that only one of them reserves may be a table's name to the
/// other, whose letter case counts.
const RESERVED: &[&str] = keywords!(
    ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC ASENSITIVE BEFORE BETWEEN BIGINT BINARY BLOB BOTH BY
    CALL CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONDITION CONSTRAINT CONTINUE
    CONVERT CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE
    DATABASES DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DEC DECIMAL DECLARE DEFAULT DELAYED
    DELETE DESC DESCRIBE DETERMINISTIC DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL EACH ELSE ELSEIF
    ENCLOSED ESCAPED EXCEPT EXISTS EXIT EXPLAIN FALSE FETCH FLOAT FLOAT4 FLOAT8 FOR FORCE FOREIGN
    FROM FULLTEXT GRANT GROUP HAVING HIGH_PRIORITY HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND IF
    IGNORE IN INDEX INFILE INNER INOUT INSENSITIVE INSERT INT INT1 INT2 INT3 INT4 INT8 INTEGER
    INTERSECT INTERVAL INTO IS ITERATE JOIN KEY KEYS KILL LEADING LEAVE LEFT LIKE LIMIT LINEAR LINES
    LOAD LOCALTIME LOCALTIMESTAMP LOCK LONG LONGBLOB LONGTEXT LOOP LOW_PRIORITY MATCH MAXVALUE
    MEDIUMBLOB MEDIUMINT MEDIUMTEXT MIDDLEINT MINUTE_MICROSECOND MINUTE_SECOND MOD MODIFIES NATURAL
    NOT NO_WRITE_TO_BINLOG NULL NUMERIC ON OPTIMIZE OPTION OPTIONALLY OR ORDER OUT OUTER OUTFILE
    OVER PARTITION PRECISION PRIMARY PROCEDURE PURGE RANGE READ READS READ_WRITE REAL RECURSIVE
    REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE REQUIRE RESIGNAL RESTRICT RETURN REVOKE RIGHT
    RLIKE SCHEMA SCHEMAS SECOND_MICROSECOND SELECT SENSITIVE SEPARATOR SET SHOW SIGNAL SMALLINT
    SPATIAL SPECIFIC SQL SQLEXCEPTION SQLSTATE SQLWARNING SQL_BIG_RESULT SQL_CALC_FOUND_ROWS
    SQL_SMALL_RESULT SSL STARTING STRAIGHT_JOIN TABLE TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO
    TRAILING TRIGGER TRUE UNDO UNION UNIQUE UNLOCK UNSIGNED UPDATE USAGE USE USING UTC_DATE UTC_TIME
    UTC_TIMESTAMP VALUES VARBINARY VARCHAR VARCHARACTER VARYING WHEN WHERE WHILE WITH WRITE XOR
    YEAR_MONTH ZEROFILL
);

/// Keywords after which a value may follow, so that a sign there is the value's and NULL is one.
const BEFORE_VALUES: &[&str] = &[
    "ALL", "AND", "BETWEEN", "BINARY", "BY", "CASE", "DISTINCT", "DIV", "ELSE", "HAVING", "INTERVAL", "LIKE",
    "LIMIT", "MOD", "ON", "OR", "REGEXP", "RETURN", "RLIKE", "SELECT", "THEN", "WHEN", "WHERE", "XOR",
];

/// Words that are no keywords everywhere, and what makes them some: the keyword in front of them.
const BEHIND: &[(&str, &str)] = &[
    ("CREATE", "TEMPORARY"),
    ("DROP", "TEMPORARY"),
    ("ON", "DUPLICATE"),
    ("SET", "GLOBAL"),
    ("SET", "NAMES"),
    ("SET", "SESSION"),
    ("START", "TRANSACTION"),
];

/// The keyword that the word spells, in upper case.
pub(super) fn keyword(word: &[u8]) -> Option<&'static str> {
    let found =
        RESERVED.binary_search_by(|keyword| keyword.bytes().cmp(word.iter().map(u8::to_ascii_uppercase)));
    RESERVED.get(found.ok()?).copied()
}

/// The keyword that the word spells, of those that are keywords after `before` only.
pub(super) fn keyword_behind(before: &str, word: &[u8]) -> Option<&'static str> {
    let is_it = |(front, back): &&(&str, &'static str)| {
        front.eq_ignore_ascii_case(before) && word.eq_ignore_ascii_case(back.as_bytes())
    };
    BEHIND.iter().find(is_it).map(|(_, keyword)| *keyword)
}

pub(super) fn stands_before_values(keyword: &str) -> bool {
    BEFORE_VALUES.contains(&keyword)
}

#[cfg(test)]
mod tests {
    use super::{RESERVED, keyword, keyword_behind};

    #[test]
    fn keywords_are_found() {
        assert!(RESERVED.is_sorted());
        assert!(RESERVED.iter().all(|word| keyword(word.to_lowercase().as_bytes()) == Some(*word)));
        assert_eq!(keyword(b"orders"), None);
        assert_eq!(keyword(b""), None);
        assert_eq!(keyword_behind("ON", b"duplicate"), Some("DUPLICATE"));
        assert_eq!(keyword_behind("BY", b"duplicate"), None);
    }
}
