//! Peers that do not keep to the protocol, on fake backends that say exactly what a test wants.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rowstamp::mysql::capabilities::Capabilities as C;
use rowstamp::proxy::connect::login::LoginContext;
use rowstamp::proxy::connect::socket_users::SocketUsers;
use rowstamp::proxy::settings::{BackendTlsMode, ListenTlsMode};
use rowstamp::schema::{ConnectFailure, Primary};

use super::proxy::Proxy;
use super::servers::mysql_client;
use crate::support::raw::wire::{packet, read_packet};
use crate::support::wait::NEVER;

const OK: &[u8] = b"\0\0\0\x02\0\0\0";

/// The packet that MySQL 9 sends first, with a plugin of no special form.
fn greeting() -> Vec<u8> {
    let mut out = b"\x0a9.7.4\0\x05\0\0\0ABCDEFGH\0\xff\xff\xff\x02\0\xff\xdf\x15".to_vec();
    out.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0IJKLMNOPQRST\0some_plugin\0");
    packet(0, &out)
}

/// A handshake response of user "me" with these bits besides the necessary ones.
fn response(bits: C) -> Vec<u8> {
    let mut out =
        (bits | C::PROTOCOL_41 | C::SECURE_CONNECTION | C::CLIENT_MYSQL).base().to_le_bytes().to_vec();
    out.resize(32, 0);
    out.extend_from_slice(b"me\0\x03xyz");
    out
}

/// A server that sends `script`'s parts, the first at once and each other one when a packet has come; gives what it
/// received up to the end.
fn fake(script: Vec<Vec<u8>>) -> (String, Receiver<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (report, received) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut packets = Vec::new();
            let mut parts = script.iter();
            loop {
                if let Some(part) = parts.next() {
                    // The proxy may be gone already.
                    let _ = stream.write_all(part);
                }
                let Some((packet_nr, payload)) = read_packet(&mut stream) else { break };
                packets.push(packet(packet_nr, &payload));
            }
            let _ = report.send(packets);
        }
    });
    (address, received)
}

fn start(backend: &str, listen: ListenTlsMode, change: impl FnOnce(&mut LoginContext)) -> Proxy {
    Proxy::start_with(backend, listen, BackendTlsMode::Disabled, change)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", proxy.port)).unwrap();
    stream.set_read_timeout(Some(NEVER)).unwrap();
    stream
}

/// The client reads the greeting, sends `bytes`, and is told this error, as this packet.
#[track_caller]
fn check_refused(listen: ListenTlsMode, bytes: &[u8], expect: (u8, u16, &str)) {
    let (backend, received) = fake(vec![greeting()]);
    let proxy = start(&backend, listen, |_| ());
    let mut client = connect(&proxy);
    assert!(read_packet(&mut client).is_some());
    client.write_all(bytes).unwrap();
    let (packet_nr, payload) = read_packet(&mut client).expect("an answer");
    let code = u16::from_le_bytes([payload[1], payload[2]]);
    let text = String::from_utf8_lossy(&payload[3..]).into_owned();
    assert_eq!((payload[0], packet_nr, code), (0xFF, expect.0, expect.1), "{text}");
    assert!(text.starts_with(&format!("#{}", expect.2)), "{text}");
    assert_eq!(read_packet(&mut client), None);
    // Nothing of it went to the server.
    assert_eq!(received.recv_timeout(NEVER).unwrap(), Vec::<Vec<u8>>::new());
    assert!(proxy.ends.recv_timeout(NEVER).unwrap().is_err());
}

#[test]
fn clients_that_are_refused() {
    use ListenTlsMode::{Disabled, Preferred, Required};
    let good = response(C::default());
    check_refused(Preferred, &packet(1, &vec![0; 16 * 1024 + 1]), (1, 1153, "08S01"));
    check_refused(Preferred, b"\xff\xff\xff\x01", (1, 1153, "08S01"));
    check_refused(Preferred, &packet(7, &good), (1, 1156, "08S01"));
    check_refused(Preferred, &packet(1, b""), (2, 1043, "08S01"));
    check_refused(
        Preferred,
        &packet(1, &good[..good.len() - 1]),
        (2, 1043, "08S01Bad handshake: the packet ends before"),
    );
    let mut old = good.clone();
    old[1] &= !2;
    check_refused(Preferred, &packet(1, &old), (2, 1043, "08S01"));
    check_refused(Required, &packet(1, &good), (2, 3159, "HY000"));
    // TLS that was not offered is not spoken, and a response is no SSLRequest.
    let request = response(C::SSL)[..32].to_vec();
    check_refused(Disabled, &packet(1, &request), (2, 1043, "08S01"));
    check_refused(Preferred, &packet(1, &response(C::SSL)), (2, 1043, "08S01"));
}

#[test]
fn a_handshake_cut_at_every_byte_ends() {
    let (backend, received) = fake(vec![greeting()]);
    let proxy = start(&backend, ListenTlsMode::Preferred, |_| ());
    let whole = packet(1, &response(C::default()));
    for end in 0..whole.len() {
        let mut client = connect(&proxy);
        assert!(read_packet(&mut client).is_some());
        client.write_all(&whole[..end]).unwrap();
        drop(client);
        assert!(proxy.ends.recv_timeout(NEVER).unwrap().is_err(), "{end}");
        assert!(received.recv_timeout(NEVER).unwrap().is_empty(), "{end}");
    }
}

#[test]
fn plain_bytes_behind_an_ssl_request_close_the_connection() {
    let (backend, received) = fake(vec![greeting()]);
    let proxy = start(&backend, ListenTlsMode::Preferred, |_| ());
    let mut client = connect(&proxy);
    assert!(read_packet(&mut client).is_some());
    let mut bytes = packet(1, &response(C::SSL)[..32]);
    bytes.extend(packet(2, &response(C::SSL)));
    client.write_all(&bytes).unwrap();
    // An alert of TLS at most, and the end.
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.len() < 16 && rest.first().is_none_or(|first| *first == 0x15), "{rest:?}");
    assert!(received.recv_timeout(NEVER).unwrap().is_empty());
    assert!(proxy.ends.recv_timeout(NEVER).unwrap().unwrap_err().contains("TLS"));
}

/// The client gets `expect` in the greeting's place, and `failure` is counted.
#[track_caller]
fn check_server(script: &[u8], expect: &[u8], failure: ConnectFailure) {
    let (backend, _received) = fake(vec![script.to_vec()]);
    let mut primary = Primary::default();
    let proxy = start(&backend, ListenTlsMode::Preferred, |context| primary = context.primary.clone());
    let (packet_nr, payload) = read_packet(&mut connect(&proxy)).expect("an answer");
    assert_eq!(packet_nr, 0);
    assert!(payload.starts_with(expect), "{}", String::from_utf8_lossy(&payload));
    assert!(proxy.ends.recv_timeout(NEVER).unwrap().is_err());
    let seen = primary.seen(0);
    assert_eq!(seen.failed, BTreeMap::from([(failure, 1)]), "{:?}", seen.last_error);
    assert_eq!(seen.is_up(), Some(failure == ConnectFailure::Rejected));
}

#[test]
fn servers_that_do_not_greet() {
    use ConnectFailure::{Greeting, Rejected};
    // Without the SQL state, as both servers say it before the greeting.
    const MALFORMED: &[u8] = b"\xff\x51\x04The MySQL server sent a malformed packet";
    let host = b"\xff\x6a\x04Host 'x' is not allowed";
    check_server(&packet(0, host), host, Rejected);
    let full = b"\xff\x10\x04#08004Too many connections";
    check_server(&packet(0, full), full, Rejected);
    check_server(&packet(0, b"\x09old"), MALFORMED, Greeting);
    check_server(&packet(0, b""), MALFORMED, Greeting);
    check_server(b"HTTP/1.1 400 Bad Request", MALFORMED, Greeting);
    let short = &greeting()[4..40];
    check_server(&packet(0, short), MALFORMED, Greeting);
}

#[test]
fn both_clients_read_why_the_server_is_not_there() {
    let proxy = start("127.0.0.1:1", ListenTlsMode::Preferred, |_| ());
    let mut lines = vec![vec!["mariadb".to_owned(), "--no-defaults".to_owned()]];
    lines.extend(mysql_client());
    for line in lines {
        // MariaDB's client says 2002 first where it wants TLS, since anybody could have sent this packet.
        let mut command = Command::new(&line[0]);
        let output =
            command.args(&line[1..]).args(["-h127.0.0.1", &format!("-P{}", proxy.port)]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            text.contains("1053") && text.contains("Can't connect to remote MySQL server"),
            "{line:?} {text}"
        );
        let end = proxy.ends.recv_timeout(NEVER).unwrap().unwrap_err();
        assert!(end.contains("127.0.0.1:1: Connection refused"), "{end}");
    }
}

#[test]
fn a_login_has_a_deadline_however_the_bytes_trickle() {
    let (backend, _received) = fake(vec![greeting()]);
    let proxy = start(&backend, ListenTlsMode::Preferred, |context| {
        Arc::make_mut(&mut context.settings).limits.handshake_timeout = Duration::from_millis(300);
    });
    for trickle in [false, true] {
        let mut client = connect(&proxy);
        assert!(read_packet(&mut client).is_some());
        let mut writer = client.try_clone().unwrap();
        let trickling = thread::spawn(move || {
            // A packet of 16,000 bytes would take 20 minutes; it is over when the proxy has closed.
            let bytes = packet(1, &[0; 16_000]);
            for byte in bytes.iter().take_while(|_| trickle) {
                if writer.write_all(&[*byte]).is_err() {
                    break;
                }
                thread::sleep(Duration::from_millis(80));
            }
        });
        assert!(read_packet(&mut client).unwrap().1.starts_with(b"\xff\x87\x04#08S01"));
        drop(client);
        trickling.join().unwrap();
        assert!(proxy.ends.recv_timeout(NEVER).unwrap().unwrap_err().contains("handshake_timeout"));
    }
}

/// The client sends `bytes` at once and gets `answers`. After the handshake response the server gets the
/// packets of the last argument.
#[track_caller]
fn check_pipelined(script: Vec<Vec<u8>>, bytes: &[u8], answers: &[Vec<u8>], behind: &[Vec<u8>]) {
    let (backend, received) = fake(script);
    let proxy = start(&backend, ListenTlsMode::Preferred, |_| ());
    let mut client = connect(&proxy);
    assert!(read_packet(&mut client).is_some());
    client.write_all(bytes).unwrap();
    for answer in answers {
        let (packet_nr, payload) = read_packet(&mut client).expect("an answer");
        assert_eq!(&packet(packet_nr, &payload), answer);
    }
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(received.recv_timeout(NEVER).unwrap()[1..], *behind);
}

#[test]
fn commands_behind_the_handshake_are_not_lost() {
    let query = packet(0, b"\x03SELECT 1");
    let bytes = [packet(1, &response(C::default())), query.clone(), query.clone()].concat();
    let both = [query.clone(), query.clone()];
    check_pipelined(
        vec![greeting(), packet(2, OK), packet(1, OK)],
        &bytes,
        &[packet(2, OK), packet(1, OK)],
        &both,
    );
    // The server's plugin says something that needs no answer; what the client sent early is none.
    let word = [packet(2, b"\x01word"), packet(3, OK)].concat();
    check_pipelined(
        vec![greeting(), word, packet(1, OK)],
        &bytes,
        &[packet(2, b"\x01word"), packet(3, OK)],
        &both,
    );
}

#[test]
fn session_state_is_tracked_for_us_and_kept_from_a_client_that_did_not_ask() {
    let tracked = packet(2, b"\0\0\0\x02\x40\0\0\0\x04\x01\x02\x01d");
    for (bits, expect) in [(C::default(), packet(2, OK)), (C::SESSION_TRACK, tracked.clone())] {
        let (backend, received) = fake(vec![greeting(), tracked.clone()]);
        let proxy = start(&backend, ListenTlsMode::Preferred, |_| ());
        let mut client = connect(&proxy);
        let (_, shown) = read_packet(&mut client).unwrap();
        assert_eq!(shown[20..22], [0xdf, 0xff], "no compression is shown");
        // Compression is asked for although it was not shown; attributes were shown, and are followed.
        client.write_all(&packet(1, &response(bits | C::COMPRESS | C::QUERY_ATTRIBUTES))).unwrap();
        let (packet_nr, payload) = read_packet(&mut client).unwrap();
        assert_eq!(packet(packet_nr, &payload), expect);
        assert_eq!(proxy.ends.recv_timeout(NEVER).unwrap().as_deref(), Ok("me"));
        drop(client);
        let sent = packet(1, &response(C::SESSION_TRACK | C::QUERY_ATTRIBUTES));
        assert_eq!(received.recv_timeout(NEVER).unwrap(), [sent]);
    }
}

#[test]
fn the_os_user_does_not_log_in_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(&greeting());
            // The proxy ends the connection.
            let _ = stream.read(&mut [0]);
        }
    });
    let proxy = start(&format!("unix:{}", path.display()), ListenTlsMode::Required, |context| {
        context.socket_users = SocketUsers::of([b"me".to_vec()]);
    });
    let quoted = response(C::default()).windows(3).position(|bytes| bytes == b"me\0").unwrap();
    for is_quoted in [false, true] {
        let mut login = response(C::default());
        if is_quoted {
            login.splice(quoted..quoted + 2, *b"'me'");
        }
        // A client's Unix socket passes where TLS is required.
        let mut client = UnixStream::connect(&proxy.socket).unwrap();
        assert!(read_packet(&mut client).is_some());
        client.write_all(&packet(1, &login)).unwrap();
        let (_, payload) = read_packet(&mut client).unwrap();
        assert!(payload.starts_with(b"\xff\x15\x04#28000"), "{payload:?}");
        assert!(proxy.ends.recv_timeout(NEVER).unwrap().unwrap_err().contains("OS user"));
    }
}
