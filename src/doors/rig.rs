//! For tests: one client of a door, by a clock that jumps.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::entry::{ClientLimits, End, Guest, Protocol};
use super::issuer::Issuer;
use crate::address::lobby::Lobby;
use crate::tables::InForce;
use crate::users::{Directory, Role, User};

pub(super) const LOGIN: Duration = Duration::from_secs(10);
pub(super) const IDLE: Duration = Duration::from_mins(10);
pub(super) const WRITE: Duration = Duration::from_mins(1);

/// So many bytes of answers may wait for the client.
const PIPE_BYTES: usize = 1 << 16;

/// An end as [`Client::end`] returns it.
pub(super) fn ended(end: End, after: Duration, rest: &str) -> (End, u64, String) {
    (end, after.as_secs(), rest.to_owned())
}

/// A connection of which the test is the client. The user is `app`, its password `x`, and the generator `s.g`.
pub(super) struct Client {
    stream: DuplexStream,
    draining: watch::Sender<bool>,
    began: Instant,
    serving: JoinHandle<io::Result<End>>,
}

impl Client {
    /// `waits`: there are no ids, and who asks for some is refused after so long.
    pub(super) async fn of<P: Protocol>(door: fn(Issuer) -> P, waits: Option<Duration>) -> Client {
        let rules = "schema = 's'\n[generators.g]\nkind = 'sequence'\n";
        let (tables, store) = InForce::over_memory(rules).await;
        if waits.is_none() {
            // Later ids are at hand.
            tables.take_for_door("s.g", NonZeroU64::MIN, Duration::from_mins(1)).await.unwrap();
        }
        store.set_away(waits.is_some());
        let user = Arc::new(User::of_file("app", "x".to_owned().into(), Role::Write));
        let door = door(Issuer {
            door: "test",
            tables,
            users: Directory::without_store(&[user]),
            deadline: Box::new(move || waits.unwrap_or_default()),
            audit: Arc::default(),
            meter: Arc::default(),
        });
        let (stream, mut server) = tokio::io::duplex(PIPE_BYTES);
        let (draining, drains) = watch::channel(false);
        let began = Instant::now();
        let serving = tokio::spawn(async move {
            let guest = Guest {
                stream: &mut server,
                from: None,
                at: None,
                is_tls: false,
                id: 1,
                limits: ClientLimits { login_until: began + LOGIN, idle: IDLE, write: WRITE, clients: 9 },
                place: Lobby::new(9).place(),
                draining: drains,
            };
            door.serve(guest).await
        });
        Client { stream, draining, began, serving }
    }

    pub(super) async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// The answer, up to these bytes.
    pub(super) async fn answer(&mut self, end: &str) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            answer.push(self.stream.read_u8().await.unwrap());
        }
        String::from_utf8(answer).unwrap()
    }

    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// The seconds since the connection began.
    pub(super) fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// The end of the connection, the seconds until then, and the rest of the answers.
    pub(super) async fn end(mut self) -> (End, u64, String) {
        let mut rest = String::new();
        self.stream.read_to_string(&mut rest).await.unwrap();
        let (end, after) = self.end_unread().await;
        (end, after, rest)
    }

    /// The end, like [`Client::end`], of a client that reads nothing more.
    pub(super) async fn end_unread(self) -> (End, u64) {
        // The pipe stays open meanwhile.
        let Client { stream: _stream, draining: _draining, began, serving } = self;
        (serving.await.unwrap().unwrap(), began.elapsed().as_secs())
    }
}
