use super::{Follower, Forms, Kind, PrepareOk, Reply, ResponseProgress};
use proptest::prelude::{any, proptest};

const CLASSIC: Forms = Forms {
    deprecate_eof: false,
    metadata_flag: false,
    metadata_flag_in_prepare: false,
    progress_reports: false,
};
const MODERN: Forms = Forms { deprecate_eof: true, ..CLASSIC };
/// MariaDB 10.11.19 to an INSERT, to `DO 1` of several statements, after the columns and the rows of a SELECT, of one that is
/// followed, and of an execution that opens a cursor; the same under DEPRECATE_EOF; to a SELECT of a column that is not there.
const OK: &[u8] = b"\x00\x01\x00\x02\x00\x00\x00";
const OK_MORE: &[u8] = b"\x00\x00\x00\x0a\x00\x00\x00";
const EOF: &[u8] = b"\xfe\x00\x00\x22\x00";
const EOF_MORE: &[u8] = b"\xfe\x00\x00\x2a\x00";
const EOF_CURSOR: &[u8] = b"\xfe\x00\x00\x62\x00";
const OK_EOF: &[u8] = b"\xfe\x00\x00\x22\x00\x00\x00";
const OK_EOF_CURSOR: &[u8] = b"\xfe\x00\x00\x62\x00\x00\x00";
const ERR: &[u8] = b"\xff\x1e\x04#42S22Unknown column 'nothing' in 'SELECT'";
/// MariaDB 10.11 to `ALTER TABLE ... ADD KEY`, and MySQL 9.7 to `SIGNAL ... SET MYSQL_ERRNO = 65535`.
const PROGRESS: &[u8] = b"\xff\xff\xff\x01\x02\x03\x00\x00\x00\x07Sorting";
const ERR_65535: &[u8] = b"\xff\xff\xff#45000hi";
/// MariaDB 10.11.19 to COM_STMT_PREPARE of `SELECT id FROM t WHERE id = ?`: the OK and the column.
const PREPARED: [u8; 12] = *b"\x00\x01\x00\x00\x00\x01\x00\x01\x00\x00\x00\x00";
const DEF: &[u8] = b"\x03def\x01d\x01t\x01t\x02id\x02id\0\x0c\x3f\0\x0b\0\0\0\x03\x03\x42\0\0\0";
const ROW: &[u8] = b"\x01a";

/// Letters a packet: d definition, r row, c continues, n next result, f file, D done.
#[track_caller]
fn check(reply: Reply, forms: Forms, packets: &[&[u8]], expect: &str) {
    let mut follower = Follower::new(reply, forms).unwrap();
    let mut seen = String::new();
    for packet in packets {
        seen.push(match follower.classify(packet.len(), packet.first().copied()) {
            Kind::Definition if follower.ended_with_definition() => 'D',
            Kind::Definition => 'd',
            Kind::Row => 'r',
            Kind::Control(control) => match follower.advance(control, packet).unwrap() {
                ResponseProgress::Continues => 'c',
                ResponseProgress::NextResult => 'n',
                ResponseProgress::ClientSendsFile => {
                    follower.file_sent();
                    'f'
                }
                ResponseProgress::Done => 'D',
            },
        });
    }
    assert_eq!(seen, expect);
}

#[test]
fn queries() {
    check(Reply::Query, CLASSIC, &[OK], "D");
    check(Reply::Query, CLASSIC, &[ERR], "D");
    check(Reply::Query, CLASSIC, &[&[2], DEF, DEF, EOF, ROW, ROW, EOF], "cddcrrD");
    check(Reply::Query, CLASSIC, &[&[1], DEF, EOF, ERR], "cdcD");
    check(Reply::Query, MODERN, &[&[2], DEF, DEF, ROW, OK_EOF], "cddrD");
    check(Reply::Query, CLASSIC, &[OK_MORE, &[1], DEF, EOF, EOF_MORE, OK], "ncdcnD");
    check(Reply::Query, CLASSIC, &[&[0xFB, b'f'], OK], "fD");
    let flagged = Forms { metadata_flag: true, ..MODERN };
    check(Reply::Query, flagged, &[&[2, 0], ROW, OK_EOF], "crD");
    check(Reply::Query, flagged, &[&[1, 1], DEF, OK_EOF], "cdD");
}

#[test]
fn cursors_end_behind_their_definitions() {
    check(Reply::QueryOrCursor, CLASSIC, &[&[1], DEF, EOF_CURSOR], "cdD");
    check(Reply::QueryOrCursor, MODERN, &[&[1], DEF, OK_EOF_CURSOR], "cdD");
    // Asked for, and not opened: SHOW, EXPLAIN, INSERT ... RETURNING.
    check(Reply::QueryOrCursor, CLASSIC, &[&[1], DEF, EOF, ROW, EOF_CURSOR], "cdcrD");
    check(Reply::Fetch, CLASSIC, &[&[0, 0], EOF], "rD");
}

/// A procedure that has a cursor open and selects twice, as both servers answer it.
#[test]
fn cursors_of_procedures_end_nothing() {
    const EOF_PROC: &[u8] = &[0xFE, 0, 0, 0x6A, 0];
    const OK_EOF_PROC: &[u8] = &[0xFE, 0, 0, 0x6A, 0, 0, 0];
    for (reply, end) in [(Reply::Query, 0x22), (Reply::QueryOrCursor, 0x62)] {
        let end = &[0, 0, 0, end, 0, 0, 0];
        let result: [&[u8]; 5] = [&[1], DEF, EOF_PROC, ROW, EOF_PROC];
        check(reply, CLASSIC, &[&result[..], &result, &[end]].concat(), "cdcrncdcrnD");
        let result: [&[u8]; 4] = [&[1], DEF, ROW, OK_EOF_PROC];
        check(reply, MODERN, &[&result[..], &result, &[end]].concat(), "cdrncdrnD");
    }
    // A function, of a text: nobody has asked for a cursor.
    check(Reply::Query, CLASSIC, &[&[1], DEF, EOF_CURSOR, ROW, EOF_CURSOR], "cdcrD");
}

/// A prepared CALL with PS_MULTI_RESULTS: the last result has the OUT parameters.
#[test]
fn out_parameters_are_followed_by_an_ok() {
    const EOF_OUT: &[u8] = &[0xFE, 0, 0, 0x0A, 0x10];
    const END: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
    let outs = |end| [&[2], DEF, DEF, EOF_OUT, ROW, end, END];
    // MySQL 9.7, MariaDB 10.11.
    for end in [EOF, EOF_OUT] {
        check(Reply::Query, CLASSIC, &outs(end), "cddcrnD");
        let result: [&[u8]; 5] = [&[1], DEF, EOF_MORE, ROW, EOF_MORE];
        check(Reply::Query, CLASSIC, &[&result[..], &outs(end)].concat(), "cdcrncddcrnD");
        check(Reply::Query, CLASSIC, &[&outs(end)[..6], &[ERR]].concat(), "cddcrnD");
    }
    let outs: [&[u8]; 6] = [&[2], DEF, DEF, ROW, &[0xFE, 0, 0, 0x0A, 0x10, 0, 0], END];
    check(Reply::Query, MODERN, &outs, "cddrnD");
    // After columns, more results alone say nothing of this one's end.
    check(Reply::Query, CLASSIC, &[&[1], DEF, EOF_MORE, ROW, EOF], "cdcrD");
}

#[test]
fn progress_reports_come_where_they_were_agreed_on() {
    let agreed = Forms { progress_reports: true, ..CLASSIC };
    check(Reply::Query, agreed, &[PROGRESS, PROGRESS, OK], "ccD");
    check(Reply::Query, agreed, &[ERR_65535], "D");
    check(Reply::Query, CLASSIC, &[ERR_65535], "D");
    check(Reply::Query, CLASSIC, &[PROGRESS], "D");
    check(Reply::Query, CLASSIC, &[&[1], DEF, EOF, ROW, ERR_65535], "cdcrD");
}

#[test]
fn prepares() {
    let expect = PrepareOk { statement_id: 1, columns: 1, params: 1, definitions: true };
    assert_eq!(PrepareOk::parse(&PREPARED, CLASSIC), Ok(expect));
    let ok = |columns: u8, params: u8| [&PREPARED[..5], &[columns, 0, params], &PREPARED[8..]].concat();
    check(Reply::Prepare, CLASSIC, &[&ok(0, 0)], "D");
    check(Reply::Prepare, CLASSIC, &[&ok(0, 2), DEF, DEF, EOF], "cddD");
    check(Reply::Prepare, CLASSIC, &[&PREPARED, DEF, EOF, DEF, EOF], "cdcdD");
    check(Reply::Prepare, MODERN, &[&ok(1, 1), DEF, DEF], "cdD");
    check(Reply::Prepare, MODERN, &[&ok(0, 1), DEF], "cD");
    check(Reply::Prepare, MODERN, &[ERR], "D");
    let flagged = Forms { metadata_flag: true, metadata_flag_in_prepare: true, ..MODERN };
    let mut none = PREPARED.to_vec();
    none.push(0);
    check(Reply::Prepare, flagged, &[&none], "D");
    let classic = Forms { deprecate_eof: false, ..flagged };
    check(Reply::Prepare, classic, &[&none, EOF, EOF], "ccD");
    check(Reply::Prepare, classic, &[&[&ok(0, 1)[..], &[0]].concat(), EOF], "cD");
    check(Reply::Prepare, classic, &[&[&ok(1, 0)[..], &[0]].concat(), EOF], "cD");
    check(Reply::Prepare, classic, &[&[&ok(0, 0)[..], &[0]].concat()], "D");
}

#[test]
fn the_rest() {
    check(Reply::Single, CLASSIC, &[b"Uptime: 3"], "D");
    check(Reply::FieldList, CLASSIC, &[DEF, DEF, EOF], "ddD");
}

#[test]
fn a_long_row_is_no_end() {
    let mut follower = Follower::new(Reply::Fetch, MODERN).unwrap();
    assert_eq!(follower.classify(0xFF_FFFF, Some(0xFE)), Kind::Row);
    // The row's last piece begins with whatever the value holds.
    assert_eq!(follower.classify(5, Some(0xFE)), Kind::Row);
    assert!(matches!(follower.classify(7, Some(0xFE)), Kind::Control(_)));
}

proptest! {
    #[test]
    fn garbage_is_an_error_never_a_panic(packets: Vec<Vec<u8>>, deprecate_eof in any::<bool>(), flag in any::<bool>()) {
        let forms = Forms { deprecate_eof, metadata_flag: flag, metadata_flag_in_prepare: flag, progress_reports: flag };
        for reply in [Reply::Query, Reply::QueryOrCursor, Reply::Prepare, Reply::Fetch, Reply::FieldList] {
            let mut follower = Follower::new(reply, forms).unwrap();
            for packet in &packets {
                if let Kind::Control(control) = follower.classify(packet.len(), packet.first().copied()) {
                    let _ = follower.advance(control, packet);
                }
            }
        }
        for packet in &packets {
            let _ = PrepareOk::parse(packet, forms);
        }
    }
}
