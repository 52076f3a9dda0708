//! A session that is logged in already, between two peers.

use rowstamp::mysql::auth::{Sides, Transport};
use rowstamp::mysql::capabilities::Capabilities as C;
use rowstamp::mysql::handshake::ServerVersion;
use rowstamp::proxy::connect::login::LoggedIn;
use rowstamp::proxy::connect::stream::Stream;
use rowstamp::proxy::serve;
use rowstamp::proxy::serve::session::{End, SessionError};
use tokio::task::JoinHandle;

use crate::bench::{Peer, idle, shared_of};

/// How a session begins.
pub struct Beginning {
    /// Beside those that every session has.
    pub capabilities: C,
    /// OK packets go to the client with the session's state.
    pub is_shown_state: bool,
    pub version: &'static [u8],
    pub with_rules: bool,
    /// Bytes that each peer sends at once; 0: all.
    pub slice: usize,
}

pub struct Served {
    pub client: Peer,
    pub server: Peer,
    session: JoinHandle<Result<End, SessionError>>,
}

impl Served {
    pub fn begin(how: &Beginning) -> Served {
        let shared = shared_of(how.with_rules);
        let (client, clients) = Peer::pair(how.slice);
        let (server, servers) = Peer::pair(how.slice);
        let always = C::SESSION_TRACK | C::PROTOCOL_41 | C::SECURE_CONNECTION | C::PLUGIN_AUTH;
        let logged_in = LoggedIn {
            client: Stream::unix(clients),
            server: Stream::unix(servers),
            client_buffered: Vec::new(),
            capabilities: how.capabilities | always,
            client_wants_session_track: how.is_shown_state,
            user: b"u".to_vec(),
            database: None,
            server_version: ServerVersion::parse(how.version),
            connection_id: 1,
            status: 2,
            nonce: b"ABCDEFGHIJKLMNOPQRST".to_vec(),
            sides: Sides { client: Transport::Unix, server: Transport::Unix, clear_passwords: false },
            address: "127.0.0.1:1".parse().unwrap(),
            seat: shared.login.seats.user(b"u").expect("no limit"),
            forwarded_address: None,
        };
        let here = shared.sessions.enter();
        Served { client, server, session: tokio::spawn(serve::serve(logged_in, shared, here)) }
    }

    /// Until nothing moves; the server has its say each time that something came.
    pub async fn settle(&mut self, mut serve: impl FnMut(&mut Peer)) {
        loop {
            idle().await;
            let moved = self.client.turn() | self.server.turn();
            serve(&mut self.server);
            if !moved && self.server.has_sent_all() {
                return;
            }
        }
    }

    pub fn has_ended(&self) -> bool {
        self.session.is_finished()
    }

    /// How it ends when the client, or else the server, is gone.
    pub async fn end(mut self, client_goes: bool) -> Result<End, SessionError> {
        let gone = if client_goes { &mut self.client } else { &mut self.server };
        gone.close();
        let session = self.session;
        session.await.expect("no panic")
    }
}
