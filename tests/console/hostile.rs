//! Peers that do not keep to the protocol. Whatever they do, the console goes on for others.

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::console::raw::{BASE, PLUGIN_AUTH, Raw, SSL, native, response, sha2};
use crate::console::rig::{Console, TlsMode};
use crate::support::raw::wire::packet;

/// A client that keeps to it gets its answer.
#[track_caller]
fn still_serves(console: &Console) {
    let mut raw = Raw::logged_in(console.port, 0);
    raw.command(0x03, b"SELECT 1");
    assert_eq!(raw.rows(), ["1"]);
}

/// The answer to these bytes after the greeting is this error, and then the end.
#[track_caller]
fn check_login(mode: TlsMode, bytes: &[u8], code: u16, expect: &str) {
    let console = Console::start_with(mode);
    let mut raw = Raw::greeted(console.port);
    raw.send(bytes);
    let (found, text) = raw.error();
    assert!(found == code && text.contains(expect), "{found} {text}");
    assert_eq!(raw.read(), None);
}

#[test]
fn logins_that_are_refused() {
    use TlsMode::{Disabled, Preferred, Required};
    let login = response(BASE, "dba", &[7; 32], "caching_sha2_password");
    check_login(
        Preferred,
        &packet(1, &login),
        1045,
        "Access denied for user 'dba' to the console (using password: YES)",
    );
    let nobody = response(BASE, "nobody", &[7; 32], "caching_sha2_password");
    check_login(Preferred, &packet(1, &nobody), 1045, "user 'nobody' to the console (using password: YES)");
    let none = response(BASE, "dba", &[], "caching_sha2_password");
    check_login(Preferred, &packet(1, &none), 1045, "(using password: NO)");
    check_login(Preferred, &packet(3, &login), 1156, "out of order");
    check_login(Preferred, &packet(1, &vec![0; 16 * 1024 + 1]), 1153, "bigger than");
    check_login(Preferred, b"\xff\xff\xff\x01", 1153, "bigger than");
    check_login(Preferred, &packet(1, b""), 1043, "the packet ends before");
    check_login(Preferred, &packet(1, &login[..40]), 1043, "the packet ends before");
    let mut old = login.clone();
    old[1] &= !2;
    check_login(Preferred, &packet(1, &old), 1043, "before MySQL 4.1");
    check_login(Required, &packet(1, &login), 3159, "use TLS");
    check_login(Disabled, &packet(1, &response(BASE | SSL, "dba", b"", "x")[..32]), 1043, "");
    check_login(
        Preferred,
        &packet(1, &response(BASE | SSL, "dba", b"", "x")),
        1043,
        "the login came without TLS",
    );
}

#[test]
fn the_other_plugin() {
    let console = Console::start();
    for (named, capabilities) in [("mysql_native_password", BASE), ("client_ed25519", BASE & !1)] {
        let mut raw = Raw::greeted(console.port);
        raw.send(&packet(1, &response(capabilities, "dba", b"", named)));
        let (nr, switch) = raw.read().unwrap();
        assert_eq!((nr, switch[0]), (2, 0xFE));
        let nonce = switch.strip_prefix(b"\xfemysql_native_password\0").unwrap().strip_suffix(b"\0").unwrap();
        raw.send(&packet(3, &native("s3crët", nonce)));
        assert_eq!(raw.read().unwrap(), (4, vec![0, 0, 0, 2, 0, 0, 0]));
    }
    // MySQL's own is asked for the one that it has left.
    let mut raw = Raw::greeted(console.port);
    raw.send(&packet(1, &response(BASE, "dba", b"", "sha256_password")));
    let (_, switch) = raw.read().unwrap();
    assert!(switch.starts_with(b"\xfecaching_sha2_password\0"));
    let answer = sha2("s3crët", &raw.nonce);
    raw.send(&packet(3, &answer));
    assert_eq!((raw.read().unwrap(), raw.read().unwrap().0), ((4, vec![1, 3]), 5));
    // Too old to be asked.
    let mut raw = Raw::greeted(console.port);
    let answer = native("look", &raw.nonce);
    raw.send(&packet(1, &response(BASE & !PLUGIN_AUTH, "guest", &answer, "")));
    assert_eq!(raw.read().unwrap(), (2, vec![0, 0, 0, 2, 0, 0, 0]));
}

#[test]
fn a_login_cut_at_every_byte() {
    let console = Console::start();
    for cut in 0..60 {
        let mut raw = Raw::greeted(console.port);
        let answer = sha2("s3crët", &raw.nonce);
        let whole = packet(1, &response(BASE, "dba", &answer, "caching_sha2_password"));
        raw.send(&whole[..cut.min(whole.len() - 1)]);
        raw.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(raw.read(), None, "cut at {cut}");
    }
    still_serves(&console);
}

/// The parser of SELECTs recurses, and columns multiply: neither may cost the process its stack or its memory.
#[test]
fn statements_that_are_deep_or_wide() {
    let console = Console::start();
    let mut raw = Raw::logged_in(console.port, 0);
    let repeated = |what: &str, bytes_max: usize| what.repeat(bytes_max / what.len());
    let deep = |what: &str| repeated(what, 16_000);
    for statement in [
        format!("SELECT * FROM mysql.a{}", deep(" JOIN mysql.b")),
        format!("SELECT * FROM mysql.a{}", deep(" JOIN f(1, 2)")),
        format!("SELECT * FROM mysql.a{} ON 1", deep(" LEFT JOIN (b")),
        format!("SELECT 1{}", deep("+1")),
        format!("SELECT 1{}", deep(" AND 1")),
        format!("SELECT 1{}", deep(" IS NULL")),
        format!("SELECT 1{}", deep("::int")),
        format!("SELECT a{}", deep("[1]")),
        format!("SELECT a{}", deep(" COLLATE x")),
        format!("SELECT {}1", deep("-")),
        format!("SELECT 1{}", deep("!")),
        format!("SELECT {}1", deep("NOT ")),
        format!("SELECT {}1", deep("CASE WHEN ")),
        format!("SELECT {}1{}", repeated("(", 8_000), repeated(")", 8_000)),
        format!("SELECT * FROM {}a", deep("(")),
        format!("SELECT {}1 FROM mysql.COLUMNS{}", repeated("*,", 8_000), repeated(",sys.COLUMNS", 8_000)),
        format!("SELECT * FROM mysql.COLUMNS{}", deep(",sys.ROUTINES")),
        format!("SELECT 1{}", deep(",1")),
    ] {
        for command in [0x03, 0x16] {
            raw.command(command, statement.as_bytes());
            let (_, first) = raw.read().unwrap_or_else(|| panic!("no answer: {}", &statement[..60]));
            assert_eq!(first[0], 0xFF, "{}", &statement[..60]);
        }
    }
    raw.command(0x03, b"SELECT 1");
    assert_eq!(raw.rows(), ["1"]);
}

#[test]
fn commands_that_are_refused() {
    let console = Console::start();
    let mut raw = Raw::logged_in(console.port, 0);
    for (command, body, code) in [
        (0x11, &b"root\0\0\0"[..], 1047),
        (0x09, b"", 1047),
        (0x0C, b"\x01\0\0\0", 1047),
        (0x12, b"", 1047),
        (0x1C, b"\x01\0\0\0\x01\0\0\0", 1047),
        (0xFE, b"", 1047),
        (0x03, b"\xff\xfe", 1835),
        (0x16, b"\xff", 1835),
        (0x02, b"\xff", 1835),
        (0x17, b"\x01", 1835),
        (0x17, b"\x09\0\0\0\0\x01\0\0\0", 1243),
        (0x03, b"", 1064),
        (0x03, b"SHOW RULES LIKE 'x", 1064),
    ] {
        raw.command(command, body);
        assert_eq!(raw.error().0, code, "{command:#x} {body:?}");
    }
    raw.send(&packet(0, b""));
    assert_eq!(raw.error().0, 1047);
    raw.command(0x03, b"SELECT CURRENT_USER()");
    assert_eq!(raw.rows(), ["dba@%"]);
}

#[test]
fn packets_that_end_the_connection() {
    let console = Console::start();
    let too_big = [(1_u32 << 20) + 1, 0x00FF_FFFF].map(|bytes| {
        let mut out = bytes.to_le_bytes();
        out[3] = 0;
        out.to_vec()
    });
    for (bytes, code) in [(&too_big[0], 1153), (&too_big[1], 1153), (&packet(3, b"\x0e"), 1156)] {
        let mut raw = Raw::logged_in(console.port, 0);
        raw.send(bytes);
        // A client that was not told would go on like this.
        raw.send(&vec![0; 100_000]);
        assert_eq!(raw.error().0, code);
        assert_eq!(raw.read(), None);
    }
    // The largest that there may be.
    let mut raw = Raw::logged_in(console.port, 0);
    let text = format!("EXPLAIN REWRITE {}", "x".repeat((1 << 20) - 1 - 16));
    raw.command(0x03, text.as_bytes());
    raw.command(0x0E, b"");
    assert!(raw.read().unwrap().1.len() < 10);
    still_serves(&console);
}

#[test]
fn garbage_at_every_stage() {
    let mut random = StdRng::seed_from_u64(1);
    let console = Console::start();
    // After the login, in place of it, after its first packet. Wrong logins are held back, so they come last.
    for round in 0..300 {
        let stage = round / 100;
        let mut raw = if stage == 0 { Raw::logged_in(console.port, 0) } else { Raw::greeted(console.port) };
        if stage == 2 {
            raw.send(&packet(1, &response(BASE, "nobody", b"", "mysql_native_password")));
        }
        let mut garbage = vec![0; random.gen_range(1..3_000)];
        random.fill_bytes(&mut garbage);
        if round % 2 == 0 {
            // The garbage gets a packet's header, so that it is looked into.
            let nr = [0, 1, 3][stage];
            garbage = packet(nr, &garbage);
        }
        // The console may have ended the connection in the middle of the garbage.
        let _ = std::io::Write::write_all(&mut raw.stream, &garbage);
        let _ = raw.stream.shutdown(std::net::Shutdown::Write);
        while raw.read().is_some() {}
    }
    // This address is held back by now; a Unix socket is another.
    let mut socket = std::os::unix::net::UnixStream::connect(&console.socket).unwrap();
    let mut first = [0; 5];
    std::io::Read::read_exact(&mut socket, &mut first).unwrap();
    assert_eq!(first[4], 10);
    assert_eq!(console.done(), Vec::<String>::new());
}

#[test]
fn who_is_silent_keeps_nobody_out() {
    let console = Console::start();
    let mut silent: Vec<_> = (0..64).map(|_| Raw::greeted(console.port)).collect();
    // Renewed all the while.
    for _ in 0..10 {
        silent.extend((0..100).map(|_| Raw::greeted(console.port)));
        drop(Raw::logged_in(console.port, 0));
    }
    let seated: Vec<_> = (0..64).map(|_| Raw::logged_in(console.port, 0)).collect();
    assert_eq!(seated.len(), 64);
}
