//! The first packet of a login through the proxy: however it is sliced, the login comes out the same, and what the
//! client has sent behind it is its first command.

use rowstamp::mysql::capabilities::Capabilities as C;
use rowstamp::mysql::handshake::{ClientResponse, Greeting};
use rowstamp::mysql::packet::{HEADER_BYTES, Header, as_packets};
use rowstamp::proxy::connect::login::{self, LoggedIn, LoginError};
use rowstamp::proxy::connect::stream::Stream;
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;
use zeroize::Zeroizing;

use crate::bench::{Peer, backend_path, idle, on_runtime, shared_of};
use crate::input::Input;
use crate::memory::{self, SOME_BYTES};

/// Of MySQL 9, with a plugin of no special form.
const GREETING: &[u8] = b"\x0a9.7.4\0\x05\0\0\0ABCDEFGH\0\xff\xff\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0\
    IJKLMNOPQRST\0some_plugin\0";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
/// A longer packet is refused before the login is done.
const PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// The packet is the input, with its header, and so is what stands behind it.
pub fn first_packet(mut input: Input<'_>) {
    let slice = usize::from(input.byte());
    let stream = input.rest();
    let came = memory::within(2 * SOME_BYTES, || on_runtime(log_in(stream, slice)));
    let shown = Greeting::parse(GREETING.to_vec()).unwrap().shown(C::default());
    let packet = Header::parse(stream).filter(|header| {
        header.packet_nr == 1
            && header.payload_bytes <= PAYLOAD_BYTES_MAX
            && header.packet_bytes() <= stream.len()
    });
    let parsed = packet.and_then(|header| {
        let payload = stream[HEADER_BYTES..header.packet_bytes()].to_vec();
        Some((ClientResponse::parse(Zeroizing::new(payload), shown).ok()?, header.packet_bytes()))
    });
    let Some((response, packet_bytes)) = parsed else {
        assert!(came.login.is_err(), "a login without a handshake response");
        return assert_eq!(came.to_server, b"", "nothing of it goes to the server");
    };
    // What is numbered as an answer is one, if it comes early enough.
    if stream.get(packet_bytes + 3).is_some_and(|&packet_nr| packet_nr != 0) {
        return;
    }
    let login = came.login.expect("a login");
    assert_eq!((&login.user, &login.database), (&response.user, &response.database));
    // In frames, where the client asks for compression: `frames` reads those.
    if response.compression == C::default() {
        assert_eq!(came.behind, stream[packet_bytes..], "behind the handshake response");
    }
    let tracked = response.capabilities | C::SESSION_TRACK;
    let sent = response.patched(tracked, response.auth_response()).unwrap();
    assert_eq!(came.to_server, as_packets(1, &sent));
}

struct Came {
    login: Result<LoggedIn, LoginError>,
    to_server: Vec<u8>,
    /// What the client has sent behind its login.
    behind: Vec<u8>,
}

async fn log_in(stream: &[u8], slice: usize) -> Came {
    let listener = UnixListener::bind(backend_path()).unwrap();
    let (mut client, proxys) = Peer::pair(slice);
    let context = shared_of(false).login;
    let running = tokio::spawn(async move { login::run(Stream::unix(proxys), None, &context).await });
    let (accepted, _) = listener.accept().await.unwrap();
    let mut server = Peer::new(accepted, 0);
    server.send(&as_packets(0, GREETING));
    client.send(stream);
    let mut answered = false;
    loop {
        idle().await;
        if !client.turn() & !server.turn() {
            break;
        }
        if !answered
            && Header::parse(&server.received).is_some_and(|h| h.packet_bytes() <= server.received.len())
        {
            server.send(&as_packets(2, OK));
            answered = true;
        }
    }
    client.close();
    let mut login = running.await.expect("no panic");
    let mut behind = Vec::new();
    if let Ok(login) = &mut login {
        behind.append(&mut login.client_buffered);
        let read = login.client.read_to_end(&mut behind).await;
        assert!(read.is_ok() || login.client.is_compressed());
    }
    server.turn();
    Came { login, to_server: server.received, behind }
}
