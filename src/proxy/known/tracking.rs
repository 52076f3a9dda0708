//! Session tracking, by which the proxy learns of each change of the session's state. It is
//! switched on for the proxy, and the client does not see it: it gets the reports that its own
//! variables ask for. Before a statement that may read or set these variables, they are put back.

use std::sync::LazyLock;

use crate::mysql::ok::Tracking;

/// The variables that the meaning of a text depends on, and `character_set_results`, which SET NAMES changes with them.
const SETTINGS: [&str; 5] = [
    "sql_mode",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
];

/// Adds to what the server reports in its OK packets; what the client asked for stays. MySQL
/// refuses a list with a name twice in it.
pub(crate) static TRACK_SQL: LazyLock<String> = LazyLock::new(|| {
    const LIST: &str = "@@session_track_system_variables";
    let added = SETTINGS.into_iter().chain(["session_track_schema", "session_track_state_change"]);
    let added = added.map(|name| format!("IF(FIND_IN_SET('{name}',REPLACE({LIST},' ','')),NULL,'{name}')"));
    format!(
        "SET session_track_schema=ON, session_track_state_change=ON, session_track_system_variables=\
         IF({LIST}='*','*',CONCAT_WS(',',NULLIF({LIST},''),{}))",
        added.collect::<Vec<_>>().join(",")
    )
});

/// MySQL Router with connection sharing: "The system variable cannot be set when connection sharing is enabled".
pub(crate) const NOT_SET_WHILE_SHARED: u16 = 1766;

/// The query for the session's state, in hexadecimal digits, so that the answer does not depend on
/// character_set_results. With LIMIT, as all our questions: `sql_select_limit` may be 0.
pub(crate) const STATE_SQL: &str = "SELECT HEX(@@sql_mode),HEX(@@character_set_client),HEX(@@collation_connection),\
    HEX(IFNULL(@@character_set_results,'')),HEX(@@session_track_state_change),HEX(@@session_track_schema),HEX(IFNULL(@@session_track_system_variables,'')),HEX(@@insert_id),\
    HEX(CONVERT(IFNULL(DATABASE(),'') USING utf8mb4)) LIMIT 1";

/// The variables under which a text is prepared. Its meaning depends on them.
#[derive(Debug)]
pub(crate) struct SessionSettings {
    pub(crate) sql_mode: String,
    pub(crate) charset: String,
    /// `collation_connection`
    pub(crate) collation: String,
    /// Empty: NULL.
    pub(crate) results: String,
}

impl SessionSettings {
    pub(crate) fn depend_on(variable: &[u8]) -> bool {
        SETTINGS.iter().any(|name| name.as_bytes() == variable)
    }

    /// Sets them where `others` are set. `results`: the session's `character_set_results`, which stays.
    /// `None`: they are the same.
    pub(crate) fn in_place_of(&self, others: &SessionSettings, results: &str) -> Option<String> {
        let SessionSettings { sql_mode, charset, collation, .. } = self;
        let mut sets = Vec::new();
        if *sql_mode != others.sql_mode {
            sets.push(format!("sql_mode='{sql_mode}'"));
        }
        // Parameters are of the collation that NAMES has set, which no variable shows, and which a SET of
        // `character_set_client` loses.
        let is_of_charset = collation.split('_').next() == Some(charset);
        if *charset != others.charset && is_of_charset {
            sets.push(format!(
                "NAMES '{charset}' COLLATE '{collation}',character_set_results=NULLIF('{results}','')"
            ));
        } else {
            if *charset != others.charset {
                sets.push(format!("character_set_client='{charset}'"));
            }
            if *collation != others.collation {
                sets.push(format!("collation_connection='{collation}'"));
            }
        }
        (!sets.is_empty()).then(|| format!("SET {}", sets.join(",")))
    }
}

/// The session's own tracking variables, from before the server began to track for the proxy too.
#[derive(Debug)]
pub(crate) struct OwnTracking(pub(crate) Tracking);

impl OwnTracking {
    /// The variables were read again while the server tracked for the proxy. A routine of the client's has
    /// set those that are not as the proxy set them.
    pub(crate) fn found_again(&mut self, found: Tracking) {
        self.0.schema &= found.schema;
        self.0.state_change &= found.state_change;
        if !found.tells_variable(b"session_track_state_change") {
            self.0.variables = found.variables;
        }
    }

    /// True if these alone report all that the proxy needs. MySQL Router with connection sharing sets them so, and
    /// lets nobody change them.
    pub(crate) fn suffices(&self) -> bool {
        let tells = |name: &&str| self.0.tells_variable(name.as_bytes());
        self.0.schema && self.0.state_change && SETTINGS.iter().all(tells)
    }

    /// Puts them back. The changes of state come first: else MySQL would still report our own SET.
    pub(crate) fn statement(&self) -> String {
        let Tracking { schema, state_change, variables } = &self.0;
        format!(
            "SET session_track_state_change={},session_track_schema={},session_track_system_variables='{}'",
            u8::from(*state_change),
            u8::from(*schema),
            variables.replace('\'', "''")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{OwnTracking, SessionSettings};
    use crate::mysql::ok::Tracking;

    #[test]
    fn what_differs_is_set() {
        let settings = |[sql_mode, charset, collation]: [&str; 3]| SessionSettings {
            sql_mode: sql_mode.to_owned(),
            charset: charset.to_owned(),
            collation: collation.to_owned(),
            results: String::new(),
        };
        let now = ["ANSI", "latin1", "latin1_bin"];
        for (then, expect) in [
            (now, None),
            (["", "latin1", "latin1_bin"], Some("SET sql_mode=''")),
            (["ANSI", "latin1", "gbk_bin"], Some("SET collation_connection='gbk_bin'")),
            (["ANSI", "gbk", "latin1_bin"], Some("SET character_set_client='gbk'")),
            (
                ["", "binary", "binary"],
                Some(
                    "SET sql_mode='',NAMES 'binary' COLLATE 'binary',character_set_results=NULLIF('utf8mb4','')",
                ),
            ),
        ] {
            let set = settings(then).in_place_of(&settings(now), "utf8mb4");
            assert_eq!(set.as_deref(), expect, "{then:?}");
        }
    }

    #[test]
    fn what_is_put_back() {
        let found = |schema, state_change, variables: &str| Tracking {
            schema,
            state_change,
            variables: variables.to_owned(),
        };
        let mut own = OwnTracking(found(true, false, "time_zone,autocommit"));
        let expect = "SET session_track_state_change=0,session_track_schema=1,session_track_system_variables='time_zone,autocommit'";
        assert_eq!(own.statement(), expect);
        own.found_again(found(true, true, "time_zone,autocommit,sql_mode,session_track_state_change"));
        assert_eq!(own.statement(), expect, "as the proxy has set them");
        own.found_again(found(false, true, "sql_mode"));
        assert_eq!(
            own.statement(),
            "SET session_track_state_change=0,session_track_schema=0,session_track_system_variables='sql_mode'",
            "a routine has set them"
        );
    }
}
