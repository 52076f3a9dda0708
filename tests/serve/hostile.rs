//! Servers that answer the control account what no server would: the proxy goes on, and works again with a server that is one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::rig::{code, make, rules, server};
use crate::support::gate::Gate;
use crate::support::machine::memory_kib;
use crate::support::raw::wire::{packet, read_packet};
use crate::support::raw::{Client, Options};
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy, Server, proxy};

const DB: &str = "hostile_control";

/// Hostile answers to a query, each with its name.
fn answers() -> Vec<(&'static str, Vec<u8>)> {
    let count = |bytes: &[u8]| packet(1, bytes);
    let column = b"\x03def\0\0\0\x01a\0\x0c\x2d\0\xff\xff\xff\xff\xfd\0\0\0\0\0";
    let row_of = |row: &[u8]| {
        [packet(1, b"\x01"), packet(2, column), packet(3, b"\xfe\0\0\x02\0"), packet(4, row)].concat()
    };
    vec![
        ("2^32 columns", count(b"\xfe\0\0\0\0\x01\0\0\0")),
        ("2^63 columns", count(b"\xfe\0\0\0\0\0\0\0\x80")),
        ("2^64-1 columns", count(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255])),
        ("16,777,215 columns", count(b"\xfd\xff\xff\xff")),
        ("a column count that ends early", count(b"\xfe\xff")),
        ("a wish for a file", count(b"\xfb/etc/passwd")),
        ("an empty packet", count(b"")),
        ("an OK that ends early", count(b"\0\0")),
        (
            "an OK whose state is longer than it is",
            count(b"\0\0\0\x02\x40\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
        ),
        ("an error without a text", count(b"\xff")),
        (
            "a column of 2^63 bytes",
            [packet(1, b"\x01"), packet(2, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")].concat(),
        ),
        ("a row of 2^63 bytes", row_of(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")),
        ("a row that is no row", row_of(b"\xfc\xff")),
        ("half a packet", b"\xff\xff\xff\x01half".to_vec()),
        ("packets out of order", packet(77, b"\0\0\0\x02\0\0\0")),
        ("nothing but zeros", vec![0; 4096]),
        (
            "rows without end",
            row_of(&[b'a'; 250])
                .repeat(1)
                .into_iter()
                .chain(packet(5, &[b"\xfa".to_vec(), vec![b'a'; 250]].concat()).repeat(40_000))
                .collect(),
        ),
    ]
}

/// A server that lets everybody in and answers each query with `answer`; how often it was asked.
fn rogue(answer: Vec<u8>) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (answer, asked) = (answer.clone(), counted.clone());
            std::thread::spawn(move || {
                let mut greeting =
                    b"\x0a10.11.6-MariaDB\0\x05\0\0\0ABCDEFGH\0\xff\xf7\x2d\x02\0\xff\x81\x15".to_vec();
                greeting.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0IJKLMNOPQRST\0mysql_native_password\0");
                let _ = stream.write_all(&packet(0, &greeting));
                if read_packet(&mut stream).is_none() {
                    return;
                }
                let _ = stream.write_all(&packet(2, b"\0\0\0\x02\0\0\0"));
                while read_packet(&mut stream).is_some() {
                    asked.fetch_add(1, Ordering::Relaxed);
                    if stream.write_all(&answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, asked)
}

#[test]
fn what_the_control_account_is_answered_ends_nothing() {
    // A server of its own, since its connections are killed.
    let Some(real) = Server::start(Kind::MariaDb) else { return };
    make(&real, DB, "");
    let gate = Gate::start(&real.address());
    let text = format!("{}[backend.tls]\nmode = \"disabled\"\n", proxy::config(&gate.address()));
    let proxy = Proxy::start(&text, &[("rules", &rules(DB))]);
    let options = Options { database: Some(DB.to_owned()), ..Options::default() };
    let works = |what: &str| {
        let end = Instant::now() + NEVER;
        loop {
            assert!(proxy.is_running(), "{what}: {}", proxy.log());
            let said = Client::connect(&proxy.address(), &options)
                .and_then(|mut client| client.query("INSERT INTO t(a) VALUES (NULL)"));
            match said {
                Ok(outcomes) if outcomes[0].ok().is_some() => return,
                said => assert!(Instant::now() < end, "{what}: {said:?}\n{}", proxy.log()),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    works("at first");
    for (what, answer) in answers() {
        let (address, asked) = rogue(answer);
        gate.turn(&address);
        // The connections that there are end, and the next ones are the rogue's.
        let mut direct = real.client();
        let mine = direct.connection_id;
        for id in crate::rig::rows(
            &mut direct,
            "SELECT id FROM information_schema.processlist WHERE db IS NULL OR db = 'hostile_control'",
        )
        .split(' ')
        {
            if id != mine.to_string() {
                code(&mut direct, format!("KILL {id}"));
            }
        }
        let end = Instant::now() + NEVER;
        while asked.load(Ordering::Relaxed) < 2 {
            assert!(proxy.is_running(), "{what}: {}", proxy.log());
            assert!(Instant::now() < end, "{what}: it is not asked\n{}", proxy.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(200));
        gate.turn(&real.address());
        works(what);
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Hostile answers of an etcd that is none. They are sent after the client's first bytes.
fn etcds() -> Vec<(&'static str, Vec<u8>)> {
    const SETTINGS: (u8, u8, u32) = (4, 0, 0);
    let settings = frame(SETTINGS.0, SETTINGS.1, SETTINGS.2, b"");
    // :status 200, content-type application/grpc
    let headers = frame(1, 4, 1, b"\x88\x5f\x10application/grpc");
    let answer = |message: &[u8]| [&settings[..], &headers, &frame(0, 0, 1, message)].concat();
    let with = |more: Vec<u8>| [settings.clone(), more].concat();
    vec![
        ("nothing", Vec::new()),
        ("garbage", b"\xde\xad\xbe\xef".repeat(4096)),
        ("HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec()),
        ("settings of 2^32-1", frame(4, 0, 0, b"\0\x04\xff\xff\xff\xff")),
        ("a frame of 16 MiB", with(vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1])),
        ("windows without end", with(frame(8, 0, 0, b"\x7f\xff\xff\xff").repeat(1000))),
        ("100,000 pings", with(frame(6, 0, 0, b"12345678").repeat(100_000))),
        (
            "headers without end",
            with([frame(1, 0, 1, b"\x88"), frame(9, 0, 1, &[0; 16_000]).repeat(1000)].concat()),
        ),
        ("a message of 4 GiB", answer(b"\0\xff\xff\xff\xff\x0a")),
        ("a packed message", answer(b"\x01\0\0\0\x04\x1f\x8b\x08\x00")),
        (
            "a message that is no protobuf",
            answer(b"\0\0\0\0\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ),
        ("a field of 2^63 bytes", answer(b"\0\0\0\0\x0a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")),
        ("an empty answer", answer(b"\0\0\0\0\0")),
        ("a farewell", with(frame(7, 0, 0, b"\0\0\0\0\0\0\0\x02"))),
    ]
}

/// Takes every connection, waits for its first bytes, answers them, and closes a moment later.
fn rogue_etcd(answer: &Arc<Mutex<Vec<u8>>>, asked: &Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (answer, asked) = (answer.clone(), asked.clone());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (answer, asked) = (answer.lock().unwrap().clone(), asked.clone());
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                if !matches!(stream.read(&mut buffer), Ok(1..)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
                let _ = stream.write_all(&answer);
                let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
                while matches!(stream.read(&mut buffer), Ok(1..)) {}
                asked.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    address
}

#[test]
fn what_an_etcd_answers_ends_nothing() {
    const DB: &str = "hostile_etcd";
    let Some(real) = server(Kind::MariaDb) else { return };
    make(real, DB, "");
    let (said, asked) = (Arc::default(), Arc::default());
    let address = rogue_etcd(&said, &asked);
    let config = format!(
        "{}[store]\nkind = \"etcd\"\nendpoints = [\"{address}\"]\n[proxy]\nname = \"p1\"\n",
        proxy::config(&real.address())
    );
    let proxy = Proxy::start(&config, &[("rules", &rules(DB))]);
    let options = Options { database: Some(DB.to_owned()), ..Options::default() };
    let mut client = Client::connect(&proxy.address(), &options).unwrap();
    for (what, answer) in etcds() {
        *said.lock().unwrap() = answer;
        asked.store(0, Ordering::Relaxed);
        let end = Instant::now() + NEVER;
        // The first of them may have been accepted before.
        while asked.load(Ordering::Relaxed) < 2 {
            assert!(proxy.is_running() && Instant::now() < end, "{what}: {}", proxy.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(code(&mut client, "INSERT INTO u VALUES (1, 1)"), 0, "{what}: {}", proxy.log());
        let kib = memory_kib(proxy.pid);
        assert!(kib < 300 * 1024, "{what}: {kib} KiB");
    }
    assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES (NULL)"), 1467, "{}", proxy.log());
}
