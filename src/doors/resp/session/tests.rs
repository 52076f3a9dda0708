//! A client and its times, by a clock that jumps.

use std::time::Duration;

use tokio::time::sleep;

use super::Redis;
use crate::doors::entry::End;
use crate::doors::rig::{Client, IDLE, LOGIN, WRITE, ended};

const AUTH: &str = "AUTH app x\r\n";
const STRANGER: &str = "-NOAUTH Authentication required.\r\n";
const TOO_LATE: &str = "-NOAUTH no login within limits.handshake_timeout\r\n";

async fn stranger(waits: Option<Duration>) -> Client {
    Client::of(|issuer| Redis::new(issuer, "p"), waits).await
}

async fn client(waits: Option<Duration>) -> Client {
    let mut client = stranger(waits).await;
    assert_eq!(ask(&mut client, AUTH).await, "+OK\r\n");
    client
}

async fn ask(client: &mut Client, request: &str) -> String {
    client.send(request).await;
    client.answer("\r\n").await
}

#[tokio::test(start_paused = true)]
async fn who_does_not_log_in_ends() {
    let too_late = ended(End::Login, LOGIN, TOO_LATE);
    assert_eq!(stranger(None).await.end().await, too_late);
    let mut in_part = stranger(None).await;
    in_part.send("*1\r\n$4\r\nPI").await;
    assert_eq!(in_part.end().await, too_late);
    // A client that sends commands without a login does not get more time by it.
    let mut talks = stranger(None).await;
    while talks.seconds() < LOGIN.as_secs() {
        assert_eq!(ask(&mut talks, "PING\r\n").await, STRANGER);
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(talks.end().await, too_late);
}

#[tokio::test(start_paused = true)]
async fn who_has_logged_in_once_may_log_out() {
    let mut has_logged_out = client(None).await;
    assert_eq!(ask(&mut has_logged_out, "RESET\r\n").await, "+RESET\r\n");
    sleep(LOGIN * 2).await;
    assert_eq!(ask(&mut has_logged_out, "PING\r\n").await, STRANGER);
}

#[tokio::test(start_paused = true)]
async fn who_has_logged_in_may_be_silent_for_so_long() {
    let mut client = client(None).await;
    sleep(IDLE * 9 / 10).await;
    assert_eq!(ask(&mut client, "INCR s.g\r\n").await, ":2\r\n");
    // Any byte counts.
    sleep(IDLE * 9 / 10).await;
    client.send("INCR").await;
    assert_eq!(client.end().await, ended(End::Idle, IDLE * 28 / 10, ""));
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_not_cut_off() {
    let long = IDLE * 3;
    let mut client = client(Some(long)).await;
    assert!(ask(&mut client, "INCR s.g\r\n").await.starts_with("-TRYAGAIN"));
    assert_eq!(client.seconds(), long.as_secs());
}

#[tokio::test(start_paused = true)]
async fn who_reads_no_answers_ends() {
    let mut client = client(None).await;
    client.send(&"PING\r\n".repeat(10_000)).await;
    let reads_late = WRITE * 9 / 10;
    sleep(reads_late).await;
    for _ in 0..10_000 {
        assert_eq!(client.answer("\r\n").await, "+PONG\r\n");
    }
    client.send(&"COMMAND\r\n".repeat(100)).await;
    assert_eq!(client.end_unread().await, (End::Stalled, (reads_late + WRITE).as_secs()));
}

/// Requests that can be answered at once are answered. A request after one that had to wait for ids is not done: the
/// client asks another proxy.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_what_is_not_under_way() {
    let whole = ("INCR s.g\r\nINCR s.g\r\nPING\r\n", ":2\r\n:3\r\n+PONG\r\n");
    for (sent, answers) in [("", ""), ("INCR s", ""), whole] {
        let mut client = client(None).await;
        client.send(sent).await;
        client.drain();
        assert_eq!(client.end().await, ended(End::Drained, Duration::ZERO, answers), "{sent}");
    }
    let long = Duration::from_secs(30);
    let mut waits = client(Some(long)).await;
    waits.send("INCR s.g\r\nPING\r\n").await;
    sleep(Duration::from_secs(1)).await;
    waits.drain();
    let (end, after, rest) = waits.end().await;
    assert_eq!((end, after, rest.matches("\r\n").count()), (End::Drained, long.as_secs(), 1), "{rest}");
    assert!(rest.starts_with("-TRYAGAIN"), "{rest}");
}
