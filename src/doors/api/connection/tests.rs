//! A connection and its times, by a clock that jumps.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{FAREWELL, serve};
use crate::address::lobby::Lobby;
use crate::doors::api::Api;
use crate::doors::api::login::Visitor;
use crate::doors::desk::IdDesk;
use crate::doors::entry::{ClientLimits, End};
use crate::tables::InForce;
use crate::users::{Directory, Role, User};

const LOGIN: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_mins(10);

/// A connection of which the test is the client.
struct Connection {
    client: DuplexStream,
    draining: watch::Sender<bool>,
    began: Instant,
    serving: JoinHandle<io::Result<End>>,
}

impl Connection {
    /// `waits`: how long a request waits for ids. There are none where it does.
    async fn begin(waits: Option<Duration>) -> Connection {
        let rules = "schema = 's'\n[generators.g]\nkind = 'sequence'\n";
        let (tables, store) = InForce::over_memory(rules).await;
        if waits.is_none() {
            // Later ids are at hand.
            tables.take_for_door("s.g", NonZeroU64::MIN, Duration::from_mins(1)).await.unwrap();
        }
        store.set_away(waits.is_some());
        let desk = IdDesk {
            door: "api",
            tables,
            users: Directory::without_store(&[Arc::new(User::of_file(
                "app",
                "x".to_owned().into(),
                Role::Write,
            ))]),
            deadline: Box::new(move || waits.unwrap_or_default()),
            audit: Arc::default(),
            meter: Arc::default(),
        };
        let Api { office, paths } = Api::new(desk, |_| false);
        let (client, mut server) = tokio::io::duplex(1 << 16);
        let (draining, drains) = watch::channel(false);
        let began = Instant::now();
        let limits = ClientLimits {
            login_until: began + LOGIN,
            idle: IDLE,
            write: Duration::from_mins(1),
            clients: 9,
        };
        let place = Lobby::new(9).place();
        let visitor = Visitor::new(office, (None, false), 1, (limits.clients, place));
        let serving = tokio::spawn(async move { serve(&mut server, &paths, visitor, limits, drains).await });
        Connection { client, draining, began, serving }
    }

    async fn ask(&mut self) {
        let request = "POST /v1/generators/s.g/ids HTTP/1.1\r\nAuthorization: Basic YXBwOng=\r\n\r\n";
        self.client.write_all(request.as_bytes()).await.unwrap();
    }

    /// The head and the body of the next answer.
    async fn answer(&mut self) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(b"}\n") {
            answer.push(self.client.read_u8().await.unwrap());
        }
        String::from_utf8(answer).unwrap()
    }

    /// How it ends, and how long after it began; nothing more is answered.
    async fn end(mut self) -> (End, Duration) {
        let mut rest = Vec::new();
        self.client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"");
        (self.serving.await.unwrap().unwrap(), self.began.elapsed())
    }
}

fn secs(duration: Duration) -> u64 {
    duration.as_secs()
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_ends() {
    let (end, after) = Connection::begin(None).await.end().await;
    assert_eq!((end, secs(after)), (End::Login, secs(LOGIN)));
    let mut connection = Connection::begin(None).await;
    sleep(LOGIN / 2).await;
    connection.ask().await;
    assert!(connection.answer().await.starts_with("HTTP/1.1 200"));
    let (end, after) = connection.end().await;
    assert_eq!((end, secs(after)), (End::Idle, secs(LOGIN / 2 + IDLE)));
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_not_cut_off() {
    let long = IDLE * 3;
    let mut connection = Connection::begin(Some(long)).await;
    connection.ask().await;
    assert!(connection.answer().await.starts_with("HTTP/1.1 503"));
    assert_eq!(secs(connection.began.elapsed()), secs(long));
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_requests_that_are_on_their_way() {
    let mut connection = Connection::begin(None).await;
    connection.ask().await;
    connection.answer().await;
    connection.draining.send_replace(true);
    let (end, after) = connection.end().await;
    assert_eq!((end, secs(after)), (End::Drained, secs(FAREWELL)));
    let mut connection = Connection::begin(None).await;
    connection.ask().await;
    connection.answer().await;
    connection.draining.send_replace(true);
    sleep(FAREWELL * 9 / 10).await;
    connection.ask().await;
    let answer = connection.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(connection.end().await.0, End::Drained);
}

/// However much longer it takes than a connection on which nothing is asked is kept.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_request_under_way() {
    let long = FAREWELL * 10;
    let mut connection = Connection::begin(Some(long)).await;
    connection.ask().await;
    connection.draining.send_replace(true);
    let answer = connection.answer().await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    let (end, after) = connection.end().await;
    assert_eq!((end, secs(after)), (End::Drained, secs(long)));
}
