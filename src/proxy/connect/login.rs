//! From an accepted connection to a logged-in one: the server's greeting, TLS on either side, the
//! client's response, the authentication exchange. The proxy knows no passwords; it relays, and
//! patches what must differ between the sides.

mod error;

pub use error::LoginError;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::address::Address;
use crate::mysql::auth::{AuthRelay, AuthStep, Sides, Transport};
use crate::mysql::capabilities::Capabilities;
use crate::mysql::change_user::ChangeUser;
use crate::mysql::compressed::{Agreed, BadLevel, Packing, agreed_with_client, agreed_with_server};
use crate::mysql::error::parse_err;
use crate::mysql::handshake::{self, ClientResponse, Greeting, ServerVersion};
use crate::mysql::ok::{OkPacket, Patch, StateReport};
use crate::mysql::reader::Malformed;
use crate::mysql::response::Forms;
use crate::proxy::connect::backend::{self, Connected};
use crate::proxy::connect::packet_io::{PacketStream, ReadError};
use crate::proxy::connect::proxy_protocol::{self, Ends};
use crate::proxy::connect::seats::{Seat, Seats};
use crate::proxy::connect::socket_users::SocketUsers;
use crate::proxy::connect::stream::Stream;
use crate::proxy::connect::stream::compressed::Peer;
use crate::proxy::connect::tls::{self, ClientSide, ServerSide, Tls, TlsError};
use crate::proxy::rsa_key::KeyCell;
use crate::proxy::settings::{SendProxy, Settings};
use crate::schema::Primary;
use crate::sessions::Who;

#[derive(Clone)]
pub struct LoginContext {
    pub settings: Arc<Settings>,
    pub tls: Arc<Tls>,
    pub own_key: Arc<KeyCell>,
    pub seats: Arc<Seats>,
    /// Nobody logs in under these names over a Unix socket.
    pub socket_users: SocketUsers,
    /// Which address is tried first.
    pub primary: Primary,
    /// True if those who log in are this process itself, and nobody else.
    pub serves_itself: bool,
}

impl LoginContext {
    /// Nobody's name is kept from logging in, and the first address is tried first.
    pub fn new(settings: Settings) -> Result<LoginContext, TlsError> {
        Ok(LoginContext {
            tls: Arc::new(Tls::new(&settings)?),
            seats: Arc::new(Seats::new(&settings.limits)),
            settings: Arc::new(settings),
            own_key: Arc::default(),
            socket_users: SocketUsers::default(),
            primary: Primary::default(),
            serves_itself: false,
        })
    }
}

/// A session that may begin. Its OK packet has gone to the client already, without session state if
/// the client did not ask for it. From the server not a byte after that packet has been read.
#[derive(Debug)]
pub struct LoggedIn {
    pub client: Stream,
    pub server: Stream,
    /// Bytes of the client's next command that were read already; the rest is in the stream.
    pub client_buffered: Vec<u8>,
    /// The capabilities as negotiated with the server, `SESSION_TRACK` included where it has it.
    pub capabilities: Capabilities,
    /// `false`: OK packets go to the client without session state.
    pub client_wants_session_track: bool,
    pub user: Vec<u8>,
    pub database: Option<Vec<u8>>,
    pub server_version: ServerVersion,
    /// The server's id of this connection, which the client knows too.
    pub connection_id: u32,
    /// Status bits of the OK packet.
    pub status: u16,
    /// The nonce in use, for a later COM_CHANGE_USER.
    pub nonce: Vec<u8>,
    pub sides: Sides,
    pub address: Address,
    /// The session's place among the connections of its user.
    pub seat: Seat<Vec<u8>>,
    /// The client's IP address, if it is sent to the server.
    pub forwarded_address: Option<IpAddr>,
}

impl LoggedIn {
    pub(in crate::proxy) fn who(&self) -> Who {
        Who {
            user: String::from_utf8_lossy(&self.user).into_owned(),
            database: String::from_utf8_lossy(self.database.as_deref().unwrap_or_default()).into_owned(),
            connection: self.connection_id,
            is_tls: self.sides.client == Transport::Tls,
        }
    }

    /// The forms of the server's responses, as they were negotiated.
    pub(in crate::proxy) fn forms(&self) -> Forms {
        let has = |bit| self.capabilities.contains(bit);
        let metadata_flag = has(Capabilities::OPTIONAL_RESULTSET_METADATA);
        Forms {
            deprecate_eof: has(Capabilities::DEPRECATE_EOF),
            metadata_flag: metadata_flag || has(Capabilities::MARIADB_CACHE_METADATA),
            metadata_flag_in_prepare: metadata_flag,
            progress_reports: self.server_version.is_mariadb
                && (has(Capabilities::MARIADB_PROGRESS) || has(Capabilities::PROGRESS_OLD)),
        }
    }
}

/// Runs one login within `limits.handshake_timeout`. On an error the client gets a refusal, and the connections end.
pub async fn run(client: Stream, ends: Option<Ends>, context: &LoginContext) -> Result<LoggedIn, LoginError> {
    let mut client = PacketStream::new(client);
    let limit = context.settings.limits.handshake_timeout;
    let result = timeout(limit, attempt(&mut client, ends, context)).await;
    let result = result.unwrap_or(Err(LoginError::Timeout));
    let refusal = if context.serves_itself { LoginError::refusal_to_ourselves } else { LoginError::refusal };
    if let Some(refusal) = result.as_ref().err().and_then(refusal) {
        let is_greeted = client.has_sent();
        let payload = if is_greeted { refusal.payload() } else { refusal.payload_before_greeting() };
        client.refuse(&payload).await;
    }
    result
}

/// A stream that a failed TLS handshake took along.
pub(super) fn lost() -> LoginError {
    LoginError::Client(io::ErrorKind::NotConnected.into())
}

async fn attempt(
    client: &mut PacketStream,
    ends: Option<Ends>,
    context: &LoginContext,
) -> Result<LoggedIn, LoginError> {
    let backend = &context.settings.backend;
    let Connected { mut stream, address, nth } = backend::connect(backend, &context.primary).await?;
    proxy_protocol::send(&mut stream, backend.send_proxy, ends).await.map_err(LoginError::Server)?;
    let mut server = PacketStream::new(stream);
    let failed = |error: &LoginError| {
        if let Some(failure) = error.of_connection() {
            context.primary.note_failure(nth, failure, error.to_string());
        }
    };
    let greeting = greeting(client, &mut server).await.inspect_err(failed)?;
    let ours = Framing::offered(&greeting, &context.settings);
    let has_tls = context.tls.listen.acceptor.is_some() && context.tls.backend.lets_offer(&greeting);
    let shown = greeting.shown(ours.with(Capabilities::SSL, has_tls));
    client.write(&greeting.patched(shown)).await.map_err(LoginError::Client)?;
    let response = response(client, &context.tls.listen, shown).await?;
    check_user(&response.user, address, context)?;
    let seat = context.seats.user(&response.user).ok_or(LoginError::TooManyOfUser)?;
    let framing = Framing::agree(&greeting, &response, &context.settings)?;

    let tracked = greeting.capabilities & Capabilities::SESSION_TRACK;
    let is_tls = client.stream.as_ref().is_some_and(|stream| stream.transport() == Transport::Tls);
    let connector = wanted_tls(&context.tls.backend, address, &greeting, is_tls)?;
    let capabilities = framing.for_server(response.capabilities | tracked);
    let capabilities = capabilities.with(Capabilities::SSL, connector.is_some());
    if let Some(connector) = connector {
        let request = response.ssl_request(capabilities).map_err(LoginError::ClientMalformed)?;
        server.write(&request).await.map_err(LoginError::Server)?;
        let Some(Stream::Plain(socket)) = server.stream.take() else { return Err(lost()) };
        let secured = tls::connect(connector, socket, address).await.map_err(LoginError::ServerTls);
        server.stream = Some(secured.inspect_err(failed)?);
    }
    let (Some(client_stream), Some(server_stream)) = (&client.stream, &server.stream) else {
        return Err(lost());
    };
    let sides = Sides {
        client: client_stream.transport(),
        server: server_stream.transport(),
        clear_passwords: backend.clear_passwords,
    };
    let plugin = response.plugin.as_deref().unwrap_or_default();
    let mut relay = AuthRelay::new(sides, capabilities, plugin, &greeting.nonce);
    let opening = Opening::Handshake(&response, capabilities);
    let mut exchange = Exchange { client, server: &mut server, opening: Some(opening), client_held: false };
    let ok_packet = exchange.run(&mut relay, context).await?;
    let strips = !response.capabilities.contains(Capabilities::SESSION_TRACK);
    let status = finish(client, &ok_packet, capabilities, strips).await?;
    let (client, client_buffered) = client.take_parts().ok_or_else(lost)?;
    let (server, _) = server.take_parts().ok_or_else(lost)?;
    let (client, server, client_buffered) = framing.begin(client, server, client_buffered);
    Ok(LoggedIn {
        client,
        server,
        client_buffered,
        capabilities,
        client_wants_session_track: !strips,
        user: response.user,
        database: response.database,
        server_version: greeting.version,
        connection_id: greeting.connection_id,
        status,
        nonce: relay.nonce().to_vec(),
        sides,
        address: address.clone(),
        seat,
        forwarded_address: ends.filter(|_| backend.send_proxy != SendProxy::Off).map(|ends| ends.client.ip()),
    })
}

/// The server's greeting. An ERR in its place (too many connections, host not allowed) goes to the client as it is.
async fn greeting(client: &mut PacketStream, server: &mut PacketStream) -> Result<Greeting, LoginError> {
    let payload = server.read().await.map_err(LoginError::of_server)?;
    if let Some((code, message)) = parse_err(&payload) {
        client.write(&payload).await.map_err(LoginError::Client)?;
        return Err(LoginError::ServerRefused { code, message });
    }
    let greeting = Greeting::parse(payload.to_vec()).map_err(LoginError::ServerMalformed)?;
    if greeting.capabilities.contains(Capabilities::PROTOCOL_41) {
        return Ok(greeting);
    }
    Err(LoginError::ServerMalformed(Malformed::Bad("capabilities: the server is older than MySQL 4.1")))
}

/// The client's handshake response, over TLS if it asks for that.
async fn response(
    client: &mut PacketStream,
    listen: &ClientSide,
    shown: Capabilities,
) -> Result<ClientResponse, LoginError> {
    let mut payload = client.read().await.map_err(LoginError::of_client)?;
    let asked = handshake::client_capabilities(&payload, shown).map_err(LoginError::ClientMalformed)?;
    if asked.contains(Capabilities::SSL) {
        if !handshake::is_ssl_request(&payload, asked) {
            return Err(LoginError::ClientMalformed(Malformed::Bad("SSLRequest")));
        }
        let Some(acceptor) = &listen.acceptor else { return Err(lost()) };
        let Some(Stream::Plain(socket)) = client.stream.take() else { return Err(lost()) };
        client.stream = Some(tls::accept(acceptor, socket).await.map_err(LoginError::ClientTls)?);
        payload = client.read().await.map_err(LoginError::of_client)?;
    }
    // A Unix socket passes, as it does with MySQL's require_secure_transport.
    if listen.is_required && !client.stream.as_ref().is_some_and(Stream::is_secure) {
        return Err(LoginError::TlsRequired);
    }
    ClientResponse::parse(payload, shown).map_err(LoginError::ClientMalformed)
}

pub(super) fn check_user(user: &[u8], address: &Address, context: &LoginContext) -> Result<(), LoginError> {
    if address.is_unix() && context.socket_users.has(user) {
        return Err(LoginError::OsUser(String::from_utf8_lossy(user).into_owned()));
    }
    Ok(())
}

/// The connector, if this connection to the server gets TLS. A Unix socket needs none unless TLS is asked for.
fn wanted_tls<'a>(
    tls: &'a ServerSide,
    address: &Address,
    greeting: &Greeting,
    client_has_tls: bool,
) -> Result<Option<&'a tokio_rustls::TlsConnector>, LoginError> {
    let offered = greeting.capabilities.contains(Capabilities::SSL);
    match tls {
        ServerSide::Disabled => Ok(None),
        ServerSide::Preferred(connector) => Ok((offered && !address.is_unix()).then_some(connector)),
        ServerSide::AsClient(connector) => Ok((offered && client_has_tls).then_some(connector)),
        ServerSide::Required(connector) if offered => Ok(Some(connector)),
        ServerSide::Required(_) => Err(LoginError::ServerWithoutTls),
    }
}

/// The last packet goes to the client, without session state that it did not ask for; returns the status bits.
pub(super) async fn finish(
    client: &mut PacketStream,
    ok_packet: &[u8],
    capabilities: Capabilities,
    strips_tracking: bool,
) -> Result<u16, LoginError> {
    let ok = OkPacket::parse(ok_packet, capabilities).map_err(LoginError::ServerMalformed)?;
    let report = if strips_tracking { StateReport::Nothing } else { StateReport::All };
    client.write(&ok.patched(Patch::state(report))).await.map_err(LoginError::Client)?;
    Ok(ok.status)
}

/// The packet that the first auth response travels in.
pub(super) enum Opening<'a> {
    Handshake(&'a ClientResponse, Capabilities),
    ChangeUser(&'a ChangeUser),
}

impl Opening<'_> {
    /// The packet with another auth response in place of its own.
    fn patched(&self, auth_response: &[u8]) -> Result<Zeroizing<Vec<u8>>, Malformed> {
        match self {
            Opening::Handshake(response, capabilities) => response.patched(*capabilities, auth_response),
            Opening::ChangeUser(change) => change.patched(auth_response),
        }
    }

    fn auth_response(&self) -> &[u8] {
        match self {
            Opening::Handshake(response, _) => response.auth_response(),
            Opening::ChangeUser(change) => change.auth_response(),
        }
    }
}

pub(super) struct Exchange<'a> {
    pub(super) client: &'a mut PacketStream,
    pub(super) server: &'a mut PacketStream,
    /// `None` once it is sent.
    pub(super) opening: Option<Opening<'a>>,
    /// The client's next command came early. It is not read before the login is done.
    pub(super) client_held: bool,
}

impl Exchange<'_> {
    /// Runs the exchange up to the server's OK packet, which it returns unsent.
    pub(super) async fn run(
        &mut self,
        relay: &mut AuthRelay,
        context: &LoginContext,
    ) -> Result<Vec<u8>, LoginError> {
        let first = self.opening.as_ref().map(Opening::auth_response).unwrap_or_default();
        let mut step = relay.from_client(first)?;
        loop {
            match step {
                AuthStep::ToClient(payload) => {
                    self.client.write(&payload).await.map_err(LoginError::Client)?;
                }
                AuthStep::ToServer(payload) => self.send_to_server(&payload).await?,
                AuthStep::NeedsOwnKey => {
                    step = relay.own_key(context.own_key.shown(context.settings.rsa_key.as_ref()).await?);
                    continue;
                }
                AuthStep::Pinned(cipher) => {
                    step = relay.pinned(context.settings.rsa_key.as_deref(), &cipher)?;
                    continue;
                }
                AuthStep::Done(ok_packet) => return Ok(ok_packet),
                AuthStep::Failed(payload) => {
                    self.client.write(&payload).await.map_err(LoginError::Client)?;
                    let (code, message) = parse_err(&payload).unwrap_or_default();
                    return Err(LoginError::ServerRefused { code, message });
                }
            }
            step = self.next(relay).await?;
        }
    }

    async fn send_to_server(&mut self, payload: &[u8]) -> Result<(), LoginError> {
        match self.opening.take() {
            None => self.server.write(payload).await.map_err(LoginError::Server),
            Some(opening) => {
                let patched = opening.patched(payload).map_err(LoginError::ClientMalformed)?;
                self.server.write(&patched).await.map_err(LoginError::Server)
            }
        }
    }

    /// The next packet of either side. Which one speaks is the plugin's matter, so both are read.
    async fn next(&mut self, relay: &mut AuthRelay) -> Result<AuthStep, LoginError> {
        loop {
            tokio::select! {
                biased;
                payload = self.server.read() => match payload {
                    Ok(payload) => return Ok(relay.from_server(&payload)?),
                    Err(error @ ReadError::OutOfOrder { .. }) => {
                        let last_word = self.server.last_word().await;
                        let last_word = last_word.ok_or_else(|| LoginError::of_server(error))?;
                        return Ok(AuthStep::Failed(last_word.to_vec()));
                    }
                    Err(error) => return Err(LoginError::of_server(error)),
                },
                payload = self.client.read(), if !self.client_held => match payload {
                    Ok(payload) => return Ok(relay.from_client(&payload)?),
                    // Commands are numbered from 0, answers are not.
                    Err(ReadError::OutOfOrder { found: 0, .. }) => self.client_held = true,
                    Err(error) => return Err(LoginError::of_client(error)),
                },
            }
        }
    }
}

/// Which sides of a session speak the compressed protocol from the end of the login on. Each side agrees for itself.
/// `None`: packets as they are.
#[derive(Debug, Clone, Copy)]
struct Framing {
    client: Option<Agreed>,
    server: Option<Agreed>,
}

impl Framing {
    /// The compression that a client is offered. Where both sides are to use the same one, the
    /// client is offered no more than the server offers.
    fn offered(greeting: &Greeting, settings: &Settings) -> Capabilities {
        let offered = settings.listen_compression.capabilities();
        match settings.backend.compression.always() {
            Some(_) => offered,
            None => offered & greeting.capabilities,
        }
    }

    fn agree(greeting: &Greeting, response: &ClientResponse, settings: &Settings) -> Result<Self, BadLevel> {
        let knows_zstd = !greeting.version.is_mariadb;
        let offered = Self::offered(greeting, settings);
        let client = agreed_with_client(response.compression, offered, response.zstd_level, knows_zstd)?;
        let wanted = match settings.backend.compression.always() {
            Some(wanted) => wanted.capabilities(),
            None => written_by(client),
        };
        // zstd needs its level in the response. Without room for it, the server would not find the level.
        let wanted = if response.has_room_for_level() { wanted } else { wanted & Capabilities::COMPRESS };
        let server = agreed_with_server(wanted, greeting.capabilities, response.server_zstd_level());
        Ok(Framing { client, server })
    }

    /// Begins the compression that was agreed on. Returns both sides, and the bytes of the client's packets that
    /// were read early. Where the client speaks in frames, these bytes are part of a frame and stay
    /// with its stream.
    fn begin(self, client: Stream, server: Stream, read: Vec<u8>) -> (Stream, Stream, Vec<u8>) {
        let (packets, frames) = if self.client.is_some() { (Vec::new(), read) } else { (read, Vec::new()) };
        let client = client.compressed(Peer::Client, self.client, frames);
        (client, server.compressed(Peer::Server, self.server, Vec::new()), packets)
    }

    /// The capabilities for the server: its side's compression in place of the client's.
    fn for_server(self, capabilities: Capabilities) -> Capabilities {
        capabilities.with(Capabilities::COMPRESS.union(Capabilities::ZSTD), false) | written_by(self.server)
    }
}

/// The bit of what one side's frames are packed by.
fn written_by(side: Option<Agreed>) -> Capabilities {
    match side.map(|agreed| agreed.writes) {
        Some(Packing::Zlib) => Capabilities::COMPRESS,
        Some(Packing::Zstd { .. }) => Capabilities::ZSTD,
        Some(Packing::Stored) | None => Capabilities::default(),
    }
}
