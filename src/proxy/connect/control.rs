//! The way of Rowstamp's own accounts to a server: by a relay inside of this process. The client library believes what a server says: a
//! result of 2^32 columns had it ask for more memory than there is, which ends the process. So it connects to an abstract Unix socket here,
//! and what comes from the server reaches it within bounds only. TLS and authentication on the server's side are those of sessions.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener};
use std::time::Duration;

use rand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{UnixListener, UnixStream};

use crate::address::Address;
use crate::mysql::command::Command;
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::reader::Reader;
use crate::mysql::response::{Control, Follower, Kind, ResponseProgress};
use crate::proxy::connect::login::{self, LoggedIn, LoginContext};
use crate::proxy::connect::stream::Stream;
use crate::proxy::connect::tls::TlsError;
use crate::proxy::settings::{Backend, BackendTlsMode, Settings};

/// The most columns that a result has on MySQL and MariaDB.
const COLUMNS_MAX: u64 = 4096;
/// The most bytes of one answer: far above what any question of ours has (the texts of all views of a server).
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// The pause after a failure to accept, as for want of file descriptors: without it the task would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a connection of ours ends before the library closes it.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the server's answer cannot be used: {0}")]
    Server(String),
}

/// Opens the way to one address: the name of the socket to connect to, beginning with the zero byte
/// of abstract ones. Only this process is let in. Needs a Tokio runtime, and lasts as long as that.
pub fn open(settings: &Settings, address: &Address) -> Result<String, OpenError> {
    // Without the names of socket users: our own account may be one of them.
    let context = LoginContext { serves_itself: true, ..LoginContext::new(bare(settings, address))? };
    let name = format!("rowstamp-{}-{:032x}", std::process::id(), rand::thread_rng().r#gen::<u128>());
    let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    tokio::spawn(accept(UnixListener::from_std(listener)?, context));
    Ok(format!("\0{name}"))
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("Rowstamp cannot open the socket for its own connections to the server: {0}")]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A proxy that listens for nobody else, in front of one address.
fn bare(settings: &Settings, address: &Address) -> Settings {
    let mut bare = Settings::bare(address.clone(), settings.state_path.clone());
    bare.rsa_key.clone_from(&settings.rsa_key);
    bare.limits.handshake_timeout = settings.limits.handshake_timeout;
    // Each key of the backend is named, so that a new one is thought of here.
    let Backend { addresses: _, send_proxy: _, compression: _, tls, clear_passwords, connect_timeout } =
        &settings.backend;
    bare.backend.tls = tls.clone();
    bare.backend.clear_passwords = *clear_passwords;
    bare.backend.connect_timeout = *connect_timeout;
    if tls.mode == BackendTlsMode::AsClient {
        bare.backend.tls.mode = BackendTlsMode::Preferred;
    }
    bare
}

async fn accept(listener: UnixListener, context: LoginContext) {
    loop {
        match listener.accept().await {
            Ok((client, _)) if is_own(&client) => {
                let context = context.clone();
                tokio::spawn(async move {
                    let Ok(login) = login::run(Stream::unix(client), None, &context).await else { return };
                    if let Err(error @ Broken::Server(_)) = relay(login).await {
                        let address = context.settings.backend.addresses.first();
                        let address = address.map(ToString::to_string).unwrap_or_default();
                        tracing::error!(address, "closed a connection of the control account: {error}");
                    }
                });
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn is_own(client: &UnixStream) -> bool {
    let pid = client.peer_cred().ok().and_then(|peer| peer.pid());
    pid.and_then(|pid| u32::try_from(pid).ok()) == Some(std::process::id())
}

/// One command and its answer after the other: the library sends none ahead.
async fn relay(login: LoggedIn) -> Result<(), Broken> {
    let forms = login.forms();
    let (mut client, mut server) = (BufStream::new(login.client), BufStream::new(login.server));
    let mut packet = Vec::new();
    loop {
        let mut first = None;
        loop {
            let header = read_packet(&mut client, &mut packet).await?;
            first = first.or(Reader::new(packet.get(HEADER_BYTES..).unwrap_or_default()).peek());
            server.write_all(&packet).await?;
            if !header.continues() {
                break;
            }
        }
        server.flush().await?;
        let command = first.and_then(Command::from_byte);
        if let Some(follower) = command.and_then(|command| Follower::new(command.reply(), forms)) {
            answer(&mut client, &mut server, follower, &mut packet).await?;
        }
    }
}

async fn answer(
    client: &mut BufStream<Stream>,
    server: &mut BufStream<Stream>,
    mut follower: Follower,
    packet: &mut Vec<u8>,
) -> Result<(), Broken> {
    let mut bytes = 0;
    loop {
        let header = tokio::select! {
            read = read_packet(server, packet) => read?,
            // The client sends nothing before it has its answer: it is gone, and nobody waits for the server.
            _ = client.read_u8() => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        };
        bytes += packet.len();
        if bytes > ANSWER_BYTES_MAX {
            return Err(Broken::Server(format!("it has more than {ANSWER_BYTES_MAX} bytes")));
        }
        let payload = packet.get(HEADER_BYTES..).unwrap_or_default();
        let progress = match follower.classify(header.payload_bytes, Reader::new(payload).peek()) {
            Kind::Definition if follower.ended_with_definition() => ResponseProgress::Done,
            Kind::Row | Kind::Definition => ResponseProgress::Continues,
            Kind::Control(control) => {
                check(control, payload)?;
                follower.advance(control, payload).map_err(|error| Broken::Server(error.to_string()))?
            }
        };
        client.write_all(packet).await?;
        if progress == ResponseProgress::Done {
            return Ok(client.flush().await?);
        }
    }
}

/// Refuses packets that the library must not meet.
fn check(control: Control, payload: &[u8]) -> Result<(), Broken> {
    match control {
        Control::Infile => Err(Broken::Server("it requests a local file".to_owned())),
        Control::ColumnCount => match Reader::new(payload).lenenc("column count") {
            Ok(0..=COLUMNS_MAX) => Ok(()),
            Ok(columns) => Err(Broken::Server(format!("it has {columns} columns, more than {COLUMNS_MAX}"))),
            Err(error) => Err(Broken::Server(error.to_string())),
        },
        _ => Ok(()),
    }
}

/// Reads a whole packet, with its header.
async fn read_packet(stream: &mut BufStream<Stream>, packet: &mut Vec<u8>) -> Result<Header, Broken> {
    packet.clear();
    let mut bytes = [0; HEADER_BYTES];
    stream.read_exact(&mut bytes).await?;
    packet.extend_from_slice(&bytes);
    let header = Header::parse(&bytes).ok_or(io::ErrorKind::UnexpectedEof).map_err(io::Error::from)?;
    // The packet grows with what comes, not with what is announced.
    let read = stream.take(header.payload_bytes as u64).read_to_end(packet).await?;
    if read < header.payload_bytes {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::{Control, check};

    #[test]
    fn what_reaches_the_library() {
        let count = |payload: &[u8]| check(Control::ColumnCount, payload).is_ok();
        assert!(count(b"\x01") && count(b"\xfc\x00\x10"));
        assert!(!count(b"\xfc\x01\x10") && !count(b"\xfe\0\0\0\0\x01\0\0\0") && !count(b"\xfe\xff"));
        assert!(!count(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255]));
        assert!(check(Control::Infile, b"\xfb/etc/passwd").is_err());
        assert!(check(Control::Ok, b"").is_ok());
    }
}
