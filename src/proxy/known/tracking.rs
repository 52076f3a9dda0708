//! Session tracking, by which the proxy learns of each change of the session's state. It is
//! switched on for the proxy, and the client does not see it: it gets the reports that its own
//! variables ask for. Before a statement that may read or set these variables, they are put back.

use crate::mysql::ok::Tracking;

/// Adds to what the server reports in its OK packets; what the client asked for stays. MySQL
/// refuses a list with a name twice in it.
pub(in crate::proxy) const TRACK_SQL: &str = "SET session_track_schema=ON, session_track_state_change=ON, session_track_system_variables=\
    IF(@@session_track_system_variables='*','*',CONCAT_WS(',',NULLIF(@@session_track_system_variables,''),\
    IF(FIND_IN_SET('sql_mode',REPLACE(@@session_track_system_variables,' ','')),NULL,'sql_mode'),\
    IF(FIND_IN_SET('character_set_client',REPLACE(@@session_track_system_variables,' ','')),NULL,\
    'character_set_client'),\
    IF(FIND_IN_SET('session_track_schema',REPLACE(@@session_track_system_variables,' ','')),NULL,\
    'session_track_schema'),\
    IF(FIND_IN_SET('session_track_state_change',REPLACE(@@session_track_system_variables,' ','')),NULL,\
    'session_track_state_change')))";

/// MySQL Router with connection sharing: "The system variable cannot be set when connection sharing
/// is enabled".
pub(in crate::proxy) const NOT_SET_WHILE_SHARED: u16 = 1766;

/// In hexadecimal digits, so that the answer does not depend on character_set_results.
pub(in crate::proxy) const STATE_SQL: &str = "SELECT HEX(@@sql_mode),HEX(@@character_set_client),HEX(@@session_track_state_change),\
    HEX(@@session_track_schema),HEX(@@session_track_system_variables),HEX(@@insert_id),\
    HEX(CONVERT(DATABASE() USING utf8mb4))";

/// What the session's own variables were before the server began to track for the proxy too.
#[derive(Debug)]
pub(in crate::proxy) struct Own(pub(in crate::proxy) Tracking);

impl Own {
    /// They were read again while the server tracked for the proxy. A routine of the client's has
    /// set those that are not as the proxy set them.
    pub(in crate::proxy) fn found_again(&mut self, found: Tracking) {
        self.0.schema &= found.schema;
        self.0.state_change &= found.state_change;
        if !found.tells_variable(b"session_track_state_change") {
            self.0.variables = found.variables;
        }
    }

    /// Whether these alone report all that the proxy needs. MySQL Router with connection sharing
    /// sets them so, and lets nobody change them.
    pub(in crate::proxy) fn suffices(&self) -> bool {
        let needed = [&b"sql_mode"[..], b"character_set_client"];
        self.0.schema && self.0.state_change && needed.iter().all(|name| self.0.tells_variable(name))
    }

    /// Puts them back. The changes of state come first: else MySQL would still report our own SET.
    pub(in crate::proxy) fn statement(&self) -> String {
        let Tracking { schema, state_change, variables } = &self.0;
        format!(
            "SET session_track_state_change={},session_track_schema={},session_track_system_variables='{}'",
            u8::from(*state_change),
            u8::from(*schema),
            variables.replace('\'', "''")
        )
    }
}

/// Whether a statement may read or set a session's variables by their names: it has
/// `session_track`, or `variables` (SHOW VARIABLES, and the tables that have them all).
pub(in crate::proxy) fn may_see_tracking(text: &[u8]) -> bool {
    let has = |word: &[u8], at: Option<usize>| {
        let place = at.and_then(|at| text.get(at..at + word.len()));
        place.is_some_and(|place| place.eq_ignore_ascii_case(word))
    };
    // By a letter of each that is rare.
    memchr::memchr2_iter(b'v', b'V', text).any(|at| has(b"variables", Some(at)))
        || memchr::memchr2_iter(b'k', b'K', text).any(|at| has(b"session_track", at.checked_sub(12)))
}

#[cfg(test)]
mod tests {
    use super::{Own, may_see_tracking};
    use crate::mysql::ok::Tracking;

    #[test]
    fn who_may_see_it() {
        let check = |text: &str, expect| assert_eq!(may_see_tracking(text.as_bytes()), expect, "{text}");
        check("SELECT @@session_track_schema", true);
        check("set SESSION_TRACK_state_change=1", true);
        check("Show Session VARIABLES like 'a%'", true);
        check("select * from performance_schema.Variables_by_thread", true);
        check("select variable from t", false);
        check("select a from track", false);
    }

    #[test]
    fn what_is_put_back() {
        let found = |schema, state_change, variables: &str| Tracking {
            schema,
            state_change,
            variables: variables.to_owned(),
        };
        let mut own = Own(found(true, false, "time_zone,autocommit"));
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
