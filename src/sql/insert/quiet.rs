//! Functions that cannot read the insert id.

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

/// Whether a name, in any letter case, is one of [`QUIET`].
pub(super) fn is_quiet(name: &[u8]) -> bool {
    let mut upper = [0u8; 20];
    let Some(upper) = upper.get_mut(..name.len()) else { return false };
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    QUIET.binary_search_by(|word| word.as_bytes().cmp(upper)).is_ok()
}

#[cfg(test)]
mod tests {
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
