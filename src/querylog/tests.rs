use crate::querylog::entry::{Entry, EntryKind};
use crate::querylog::log::{Format, Log};

/// Entries by connection, and what they are; then the number of broken lines.
fn read(log: &str, format: Format) -> Vec<String> {
    let mut log = Log::new(log.as_bytes(), format, 60);
    let mut out = Vec::new();
    while let Some(Entry { connection, line, what }) = log.next().unwrap() {
        let connection = connection.map_or("-".to_owned(), |id| id.to_string());
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let what = match what {
            EntryKind::Starts { version, shows_logins } => {
                format!("starts {version}{}", if shows_logins { "" } else { ", no logins" })
            }
            EntryKind::Connect { database } => format!("connect {}", database.unwrap_or_default()),
            EntryKind::Reset => "reset".to_owned(),
            EntryKind::Database(name) => format!("database {}", name.unwrap_or("-".into())),
            EntryKind::Query(sql) => format!("query {}", text(&sql)),
            EntryKind::Prepare(sql) => format!("prepare {}", text(&sql)),
            EntryKind::Execute(sql) => format!("execute {}", text(&sql)),
            EntryKind::TooLong => "too long".to_owned(),
            EntryKind::InRoutine => "in a routine".to_owned(),
            EntryKind::Quit => "quit".to_owned(),
            EntryKind::Other => "other".to_owned(),
        };
        out.push(format!("{connection}@{line} {what}"));
    }
    out.push(format!("{} broken", log.broken));
    out
}

#[track_caller]
fn check(log: &str, expect: &[&str]) {
    assert_eq!(read(log, Format::Auto), expect, "{log}");
}

#[test]
fn the_general_log_of_mysql() {
    check(
        "/usr/sbin/mysqld, Version: 9.7.4 (Source distribution). started with:\n\
         Tcp port: 3306  Unix socket: /x.sock\n\
         Time                 Id Command    Argument\n\
         2026-11-22T21:48:05.123456Z\t    8 Connect\troot@localhost on shop using TCP/IP\n\
         2026-11-22T21:48:05.123456Z\t    8 Query\tINSERT INTO t\n\
         VALUES (1)\n\n\
         2026-11-22T21:48:05.123456+01:00\t   12 Connect\troot@localhost on  using Socket\n\
         2026-11-22T21:48:06.123456Z\t   12 Init DB\tother\n\
         2026-11-22T21:48:06.123456Z\t   12 Prepare\tinsert into t values (?)\n\
         2026-11-22T21:48:06.123456Z\t   12 Execute\tinsert into t values ('a\tb')\n\
         2026-11-22T21:48:06.123456Z\t   12 Close stmt\t\n\
         2026-11-22T21:48:06.123456Z\t   12 Quit\t\n",
        &[
            "-@1 starts 9.7.4",
            "8@4 connect shop",
            "8@5 query INSERT INTO t\nVALUES (1)\n",
            "12@8 connect ",
            "12@9 database other",
            "12@10 prepare insert into t values (?)",
            "12@11 execute insert into t values ('a\tb')",
            "12@12 other",
            "12@13 quit",
            "0 broken",
        ],
    );
}

#[test]
fn the_general_log_of_mariadb() {
    check(
        "the rest of a statement\n\
         261122 21:48:05\t    30 Connect\tapp@localhost on shop using Socket\n\
         \t\t    30 Query\tselect 1\n\
         -- and more\n\
         261122  1:48:05\t    30 Query\tselect 2\n\
         \t\tno entry\n\
         \t\t    x Query\tno entry\n\
         \t\t    30 Jump\tno entry\n\
         261199\t    30 Query\tno entry\n\
         \t\t    31 Bulk_execute\tinsert into t values (1)\n\
         \t\t    31 Quit\n",
        &[
            "30@2 connect shop",
            "30@3 query select 1\n-- and more",
            "30@5 too long",
            "31@10 execute insert into t values (1)",
            "31@11 quit",
            "1 broken",
        ],
    );
}

#[test]
fn slow_logs() {
    check(
        "# Time: 2026-11-22T21:48:05.123456Z\n\
         # User@Host: root[root] @ localhost []  Id:     8\n\
         # Query_time: 0.000304  Lock_time: 0.000005 Rows_sent: 0  Rows_examined: 0\n\
         use shop;\n\
         SET timestamp=1795384085;\n\
         insert into t\n\
         values (1);\n\
         # Time: 2026-11-22T21:48:06.123456Z\n\
         # User@Host: root[root] @ localhost []  Id:     9\n\
         # Query_time: 0.000304  Lock_time: 0.000005 Rows_sent: 0  Rows_examined: 0\n\
         SET timestamp=1795384086;\n\
         # administrator command: Quit;\n\
         # User@Host: root[root] @ localhost []  Id:     9\n\
         SET timestamp=1795384086;\n\
         select 2;\n",
        &[
            "8@6 database shop",
            "8@6 query insert into t\nvalues (1)",
            "9@12 quit",
            "9@15 database shop",
            "9@15 query select 2",
            "0 broken",
        ],
    );
    check(
        "lost\n\
         # User@Host: app[app] @ localhost []\n\
         # Thread_id: 30  Schema: shop  QC_hit: No\n\
         # Query_time: 0.000304  Lock_time: 0.000005  Rows_sent: 0  Rows_examined: 0\n\
         # Rows_affected: 1  Bytes_sent: 11\n\
         SET last_insert_id=3,insert_id=4,timestamp=1795384085;\n\
         insert into t values (1);\n\
         # User@Host: app[app] @ localhost []\n\
         # Thread_id: 31  Schema:   QC_hit: No\n\
         SET timestamp=1795384085;\n\
         insert into shop.t values (1111111111111111111111111111111111111111111);\n",
        &[
            "30@7 database shop",
            "30@7 query insert into t values (1)",
            "31@11 database -",
            "31@11 too long",
            "1 broken",
        ],
    );
}

/// A log as both servers wrote it, the times left out.
#[test]
fn the_database_of_a_slow_log_is_the_files() {
    check(
        "# User@Host: app[app] @ localhost []  Id:    12\n\
         SET timestamp=1;\n\
         insert into t values (0);\n\
         mysqld, Version: 9.7.4-2 ((Debian)). started with:\n\
         Tcp port: 21293  Unix socket: /tmp/s.sock\n\
         Time                 Id Command    Argument\n\
         # User@Host: app[app] @ localhost []  Id:    19\n\
         SET timestamp=1;\n\
         FLUSH LOGS;\n\
         # User@Host: app[app] @ localhost []  Id:    13\n\
         use one;\n\
         SET timestamp=1;\n\
         # administrator command: Reset Connection;\n\
         # User@Host: app[app] @ localhost []  Id:    14\n\
         SET timestamp=1;\n\
         insert into t values (1);\n",
        &[
            "12@3 query insert into t values (0)",
            "-@4 starts 9.7.4-2, no logins",
            "19@9 database -",
            "19@9 query FLUSH LOGS",
            "13@13 reset",
            "14@16 database one",
            "14@16 query insert into t values (1)",
            "0 broken",
        ],
    );
    check(
        "# User@Host: app[app] @ localhost [127.0.0.1]\n\
         # Thread_id: 8  Schema: two  QC_hit: No\n\
         # Stored_routine: two.p\n\
         SET timestamp=1795397535;\n\
         INSERT INTO two.t(s) VALUES('inproc');\n\
         # User@Host: app[app] @ localhost [127.0.0.1]\n\
         # Thread_id: 9  Schema:   QC_hit: No\n\
         SET timestamp=1795397535;\n\
         CALL p();\n",
        &["8@5 database two", "8@5 in a routine", "9@9 database -", "9@9 query CALL p()", "0 broken"],
    );
}

#[test]
fn what_is_no_log_is_broken_lines() {
    check("", &["0 broken"]);
    check("a\nb\n\x00\n", &["3 broken"]);
    // A format that was named is not guessed again.
    assert_eq!(read("# Time: x\nselect 1;\n", Format::General), ["2 broken"]);
}

proptest::proptest! {
    #[test]
    fn any_lines_are_read(text in "([\\t #0-9:;TZ-]|\\n|Query\\t|Id|use |SET timestamp=|# Time: |\\PC){0,80}") {
        for format in [Format::Auto, Format::General, Format::Slow] {
            read(&text, format);
        }
    }
}
