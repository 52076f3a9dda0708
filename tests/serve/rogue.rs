//! Servers that answer what no server would, and clients that send what no client would: the other side gets it or the session
//! ends, and the proxy serves on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::rig::{code, each, rows};
use crate::support::Proxy;
use crate::support::machine::memory_kib;
use crate::support::raw::wire::{packet, read_packet};
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Options};

/// A server that lets everybody in and answers each command with `answer`, then with an OK to whatever comes; a proxy before it.
fn proxy_before(answer: Vec<u8>) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut greeting =
                b"\x0a10.11.6-MariaDB\0\x05\0\0\0ABCDEFGH\0\xff\xf7\x2d\x02\0\xff\x81\x15".to_vec();
            greeting.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0IJKLMNOPQRST\0mysql_native_password\0");
            let ok = |packet_nr| packet(packet_nr, b"\0\0\0\x02\0\0\0");
            let _ = stream.write_all(&packet(0, &greeting));
            if read_packet(&mut stream).is_none() {
                continue;
            }
            let _ = stream.write_all(&ok(2));
            let _ = read_packet(&mut stream);
            let _ = stream.write_all(&answer);
            while read_packet(&mut stream).is_some() {
                let _ = stream.write_all(&ok(2));
            }
        }
    });
    let config = format!(
        "[listen]\naddress = \"127.0.0.1:0\"\n[backend]\naddress = \"{address}\"\n[http]\naddress = \"off\"\n"
    );
    Proxy::start(&config, &[])
}

/// Asks `SELECT 1`. Returns the bytes that come until a pause, and true if the session has ended.
fn answered(proxy: &Proxy) -> (Vec<u8>, bool) {
    let (mut stream, got) = first_bytes(proxy, usize::MAX);
    (got, matches!(stream.read(&mut [0]), Ok(0)))
}

/// Returns up to `limit` bytes of the answer, with the connection.
fn first_bytes(proxy: &Proxy, limit: usize) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    read_packet(&mut stream).unwrap();
    let mut response = 0x0008_a285_u32.to_le_bytes().to_vec();
    response.resize(32, 0);
    response.extend_from_slice(b"me\0\0mysql_native_password\0");
    stream.write_all(&packet(1, &response)).unwrap();
    assert_eq!(read_packet(&mut stream).unwrap().1[0], 0, "it is logged in");
    stream.write_all(&packet(0, b"\x03SELECT 1")).unwrap();
    let mut got = Vec::new();
    let mut piece = vec![0; 65_536];
    while got.len() < limit {
        match stream.read(&mut piece) {
            Ok(n @ 1..) => got.extend_from_slice(&piece[..n]),
            _ => break,
        }
    }
    (stream, got)
}

#[test]
fn what_a_rogue_server_answers() {
    let columns = [b"\xfe".as_slice(), &(1u64 << 63).to_le_bytes()].concat();
    let column = packet(2, b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\x08\x81\0\0\0\0");
    for (what, answer) in [
        // The client's own rule is whether it sends the file.
        ("a file to SELECT", packet(1, b"\xfb/etc/passwd")),
        ("2^63 columns", [packet(1, &columns), column.clone(), column].concat()),
        ("half a packet", packet(1, &[0; 100])[..50].to_vec()),
        ("an OK that ends early", packet(1, b"\0\xfd")),
        ("no such error", packet(1, b"\xff")),
        ("an empty packet", packet(1, b"")),
    ] {
        let proxy = proxy_before(answer.clone());
        let (got, ended) = answered(&proxy);
        // The proxy may hold back an unfinished packet. It adds nothing that the server did not send.
        assert!(ended || answer.starts_with(&got), "{what}: {}\n{}", got.escape_ascii(), proxy.log());
        if what == "a file to SELECT" {
            assert_eq!((&got, ended), (&answer, false), "{what}");
        }
        // Others are served, and nothing has grown.
        assert_eq!(answered(&proxy).0, got, "{what}: {}", proxy.log());
        assert!(memory_kib(proxy.pid) < 60_000, "{what}: {} KiB", memory_kib(proxy.pid));
        assert!(!proxy.log().contains("panicked"), "{what}: {}", proxy.log());
    }
}

#[test]
fn a_server_that_sends_without_end_is_read_no_faster_than_its_client() {
    let row = packet(3, &[&[0xfd, 0xf0, 0xff, 0][..], &vec![b'x'; 65_520][..]].concat());
    let head =
        [packet(1, b"\x01"), packet(2, b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\xfc\x81\0\0\0\0")].concat();
    let rows: Vec<u8> = std::iter::repeat_n(row, 1_000).flatten().collect();
    let proxy = proxy_before([head, rows].concat());
    // 64 MB wait for a client that takes 100 KB, and stays.
    let (stream, got) = first_bytes(&proxy, 100_000);
    assert!(got.len() >= 100_000, "{} bytes", got.len());
    std::thread::sleep(Duration::from_millis(300));
    assert!(memory_kib(proxy.pid) < 60_000, "{} KiB", memory_kib(proxy.pid));
    drop(stream);
}

/// Empty packets, which are answered with 1047 each, after a query that takes its time.
#[test]
fn commands_without_end_ahead_of_their_answers() {
    const COMMANDS: usize = 300_000;
    each("rogue_pipeline", "", |rig| {
        let before = memory_kib(rig.proxy.pid);
        let mut client = rig.client();
        client.next_response();
        client.write_bytes(&packet(0, b"\x03SELECT SLEEP(1.5)")).unwrap();
        let mut writer = client.try_clone_stream();
        let writing = std::thread::spawn(move || writer.write_all(&vec![0; 4 * COMMANDS]));
        std::thread::sleep(Duration::from_secs(1));
        let grown = memory_kib(rig.proxy.pid).saturating_sub(before);
        assert!(grown < 8_000, "{}: {grown} KiB for {COMMANDS} commands that wait", rig.name());
        assert_eq!(client.read_outcomes(false).unwrap()[0].rows().len(), 1, "{}", rig.name());
        for nth in 0..COMMANDS {
            client.next_response();
            let answer = client.read_packet().unwrap();
            assert_eq!(answer[..3], [0xFF, 0x17, 0x04], "{}: {nth}", rig.name());
        }
        writing.join().unwrap().unwrap();
        assert_eq!(rows(&mut client, "SELECT 5"), "5", "{}", rig.name());
    });
}

#[test]
fn what_odd_clients_send() {
    each("rogue_clients", "", |rig| {
        let deep = |n: usize| format!("INSERT INTO t(a) VALUES({}1{})", "(".repeat(n), ")".repeat(n));
        let mut client = rig.client_with(Options::default().capabilities | CLIENT_MULTI_STATEMENTS);
        for (what, sql) in [
            ("deep", deep(100_000)),
            ("open", format!("INSERT INTO t(a) VALUES({}", "(".repeat(100_000))),
            ("rows", format!("INSERT INTO nowhere(a) VALUES(1){}", ",(1)".repeat(200_000))),
            ("bom", "\u{feff}INSERT INTO t(a) VALUES(1)".to_owned()),
            ("nul", "INSERT INTO t(a) VALUES(1)\0, (2)".to_owned()),
            ("nul in front", "\0INSERT INTO t(a) VALUES(1)".to_owned()),
            ("semicolons", ";".repeat(100_000)),
        ] {
            let told = code(&mut client, &sql);
            let mut direct = rig.direct_with(Options::default().capabilities | CLIENT_MULTI_STATEMENTS);
            let native = code(&mut direct, &sql);
            // Refused here as by the server, or by us: nothing of it is stored.
            assert!(
                told != 0 && (told == native || told == 1235 || told == 1467),
                "{what}: {told}, natively {native}"
            );
            assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "0", "{}: {what}", rig.name());
        }
        // Commands: of no byte, of one byte that wants more, and none that there is.
        for (command, what) in
            [(&b""[..], "empty"), (b"\x11", "COM_CHANGE_USER of one byte"), (b"\xf0", "unknown")]
        {
            let mut client = rig.client();
            client.next_response();
            client.write_bytes(&packet(0, command)).unwrap();
            let answer = client.read_packet().map(|packet| packet[0]);
            assert!(matches!(answer, Ok(0xFF) | Err(_)), "{}: {what}: {answer:?}", rig.name());
        }
        // A session sends a byte each 0.3 s. Another session is answered between two of them.
        let mut slow = rig.client();
        let query = packet(0, b"\x03SELECT 7");
        slow.next_response();
        for byte in query {
            slow.write_bytes(&[byte]).unwrap();
            assert_eq!(rows(&mut client, "SELECT 1"), "1");
            std::thread::sleep(Duration::from_millis(300));
        }
        let answer = slow.read_outcomes(false).unwrap();
        assert_eq!(answer[0].rows()[0][0].text().as_deref(), Some("7"), "{}", rig.name());
    });
}
