//! Words that a query may have in front of a parenthesis without running code of the user's.

use super::super::quiet::is_quiet;

/// Besides [`is_quiet`]: functions of the server's own that aggregate, number or take JSON apart,
/// and keywords.
const BUILT_IN: &[&str] = keywords!(
    ACOS ALL ANY ANY_VALUE AS ASIN ATAN ATAN2 AVG BIT_AND BIT_COUNT BIT_LENGTH BIT_OR BIT_XOR BY
    CHARACTER_LENGTH CHARSET COLLATION COLUMNS CONNECTION_ID COS COT COUNT CUME_DIST DATABASE
    DATEDIFF DATETIME DAYNAME DAYOFMONTH DAYOFWEEK DAYOFYEAR DEGREES DENSE_RANK DISTINCT EXCEPT
    EXISTS EXP EXPORT_SET EXTRACTVALUE FIELD FIND_IN_SET FIRST_VALUE FORCE FROM FROM_DAYS GET_FORMAT
    GROUP_CONCAT GROUPING HAVING IGNORE INDEX INSERT INTERSECT ISNULL IS_UUID JOIN JSON_ARRAYAGG
    JSON_ARRAY_APPEND JSON_CONTAINS JSON_CONTAINS_PATH JSON_DEPTH JSON_INSERT JSON_KEYS JSON_LENGTH
    JSON_MERGE_PATCH JSON_MERGE_PRESERVE JSON_OBJECTAGG JSON_OVERLAPS JSON_PRETTY JSON_REMOVE
    JSON_REPLACE JSON_SEARCH JSON_TABLE JSON_TYPE JSON_VALID JSON_VALUE KEY LAG LAST_VALUE LATERAL
    LEAD LN LOG LOG10 LOG2 MAKE_SET MAX MIN MONTHNAME NTH_VALUE NTILE OCTET_LENGTH ON ORD OVER
    PARTITION PERCENT_RANK PERIOD_ADD PERIOD_DIFF PI POSITION QUARTER RADIANS RANK REGEXP
    REGEXP_INSTR REGEXP_LIKE REGEXP_SUBSTR RLIKE ROW ROW_NUMBER SCHEMA SEC_TO_TIME SELECT
    SESSION_USER SIN SOME SOUNDEX STD STDDEV STDDEV_POP STDDEV_SAMP STRCMP SUM SYSTEM_USER TAN
    TIMEDIFF TIME_FORMAT TIME_TO_SEC TO_DAYS TO_SECONDS UNION UPDATEXML USE USING VARCHAR VARIANCE
    VAR_POP VAR_SAMP VERSION WEEK WEEKDAY WEEKOFYEAR WEIGHT_STRING WHERE YEARWEEK
);

/// Whether what stands in front of a parenthesis is the server's own, and evaluating it again does
/// no more than the first time did.
pub(super) fn is_built_in(name: &str) -> bool {
    is_quiet(name.as_bytes()) || BUILT_IN.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Calls whose result has as many decimals as it says.
pub(super) fn fixes_scale(name: &str) -> bool {
    ["ROUND", "TRUNCATE", "CAST", "CONVERT", "FLOOR", "CEIL", "CEILING", "FORMAT", "COUNT", "EXISTS"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word))
}

/// Words that may stand in an assignment of ON DUPLICATE KEY UPDATE without naming a column.
pub(super) fn is_expression_word(word: &[u8]) -> bool {
    const WORDS: &[&str] = keywords!(
        AND AS BETWEEN BINARY CASE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DAY DEFAULT DIV ELSE
        END ESCAPE FALSE HOUR IN INTERVAL IS LIKE LOCALTIME LOCALTIMESTAMP MICROSECOND MINUTE MOD
        MONTH NOT NULL OR QUARTER REGEXP RLIKE SECOND SIGNED THEN TRUE UNSIGNED WEEK WHEN XOR YEAR
    );
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_of_queries() {
        for word in ["count", "Sum", "now", "OVER", "json_table"] {
            assert!(super::is_built_in(word), "{word}");
        }
        for word in ["my_function", "get_lock", "sleep", "nextval"] {
            assert!(!super::is_built_in(word), "{word}");
        }
    }
}
