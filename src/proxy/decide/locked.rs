//! Statements of a user whose password has expired. The server answers 1820 to all but its change,
//! also where the session's state is asked for, so no text can be read for certain. Nor need it be:
//! a text that the server refuses inserts nothing.
//!
//! Measured: MariaDB 10.11 refuses COM_STMT_PREPARE and every packet of several statements. MySQL
//! 9.7 prepares any text, and runs what stands after the ALTER USER of the same packet. Those two
//! may insert, so there a text that names an INSERT gets the server's error from here.

use memchr::memchr;

use crate::mysql::command::Command;
use crate::sql::look;

/// True if the server may run an INSERT of this text.
pub(crate) fn may_insert(command: Command, text: &[u8], multi_statements: bool) -> bool {
    let may_run = command == Command::StmtPrepare || multi_statements && memchr(b';', text).is_some();
    may_run && look::may_insert(text)
}

#[cfg(test)]
mod tests {
    use super::Command::{Query, StmtPrepare};
    use super::may_insert;

    #[test]
    fn what_the_server_would_run() {
        let passes = |command, text: &str, multi| !may_insert(command, text.as_bytes(), multi);
        assert!(passes(Query, "ALTER USER u IDENTIFIED BY 'insert'", true));
        assert!(passes(Query, "INSERT INTO t VALUES(1)", true), "the server says no");
        assert!(passes(Query, "ALTER USER u IDENTIFIED BY 'a;b'", true));
        assert!(passes(Query, "ALTER USER u IDENTIFIED BY 'a'; insert into t values(1)", false));
        assert!(!passes(Query, "ALTER USER u IDENTIFIED BY 'a'; insert into t values(1)", true));
        assert!(!passes(Query, "ALTER USER u IDENTIFIED BY 'a'; PREPARE s FROM @a; EXECUTE s", true));
        assert!(passes(StmtPrepare, "ALTER USER u IDENTIFIED BY ?", true));
        assert!(!passes(StmtPrepare, "/*!50000 REPLACE t */ SELECT 1", false));
    }
}
