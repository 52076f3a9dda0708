//! A client's answers, and the time at which its connection ends, by a clock that jumps.

use std::time::Duration;

use tokio::time::sleep;

use super::FAREWELL;
use crate::doors::api::Api;
use crate::doors::entry::End;
use crate::doors::rig::{Client, IDLE, LOGIN, ended};

async fn client(waits: Option<Duration>) -> Client {
    Client::of(|issuer| Api::new(issuer, |_| false), waits).await
}

/// The head and the body of the answer.
async fn ask(client: &mut Client) -> String {
    send(client).await;
    answer(client).await
}

async fn send(client: &mut Client) {
    client.send("POST /v1/generators/s.g/ids HTTP/1.1\r\nAuthorization: Basic YXBwOng=\r\n\r\n").await;
}

async fn answer(client: &mut Client) -> String {
    client.answer("}\n").await
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_ends() {
    assert_eq!(client(None).await.end().await, ended(End::Login, LOGIN, ""));
    let mut client = client(None).await;
    sleep(LOGIN / 2).await;
    assert!(ask(&mut client).await.starts_with("HTTP/1.1 200"));
    assert_eq!(client.end().await, ended(End::Idle, LOGIN / 2 + IDLE, ""));
}

#[tokio::test(start_paused = true)]
async fn who_speaks_another_http_ends() {
    for (sent, answer) in
        [("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""), ("GET / HTTP/1.1\r\n:\r\n\r\n", "HTTP/1.1 400")]
    {
        let mut client = client(None).await;
        client.send(sent).await;
        let (end, _, answered) = client.end().await;
        assert!(end == End::Violation && answered.starts_with(answer), "{answered}");
        assert_eq!(answered.is_empty(), answer.is_empty(), "{answered}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_not_cut_off() {
    let long = IDLE * 3;
    let mut client = client(Some(long)).await;
    assert!(ask(&mut client).await.starts_with("HTTP/1.1 503"));
    assert_eq!(client.seconds(), long.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_requests_that_are_on_their_way() {
    let mut silent = client(None).await;
    ask(&mut silent).await;
    silent.drain();
    assert_eq!(silent.end().await, ended(End::Drained, FAREWELL, ""));
    let mut late = client(None).await;
    ask(&mut late).await;
    late.drain();
    sleep(FAREWELL * 9 / 10).await;
    let answer = ask(&mut late).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(late.end().await.0, End::Drained);
}

/// However much longer it takes than a connection on which nothing is asked is kept.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_request_under_way() {
    let long = FAREWELL * 10;
    let mut client = client(Some(long)).await;
    send(&mut client).await;
    client.drain();
    let answer = answer(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(client.end().await, ended(End::Drained, long, ""));
}

/// `s.g` is answered without the router, and an encoded name by it.
#[tokio::test]
async fn a_name_may_be_encoded() {
    let login = "Authorization: Basic YXBwOng=\r\n";
    let json = format!("{login}Content-Type: application/json\r\n");
    for (query, head, body, expect) in [
        ("", &*json, "{\"count\": 3}", "200 OK"),
        ("", &*json, "{\"count\": 0}", "400 Bad Request"),
        ("", &*json, "[3]", "400 Bad Request"),
        ("", login, "{\"count\": 3}", "415 Unsupported Media Type"),
        ("?count=3", login, "", "400 Bad Request"),
        ("", "", "", "401 Unauthorized"),
    ] {
        let mut answers = Vec::new();
        for name in ["s.g", "s%2Eg", "%73.g"] {
            let mut client = client(None).await;
            let length = body.len();
            let request = format!(
                "POST /v1/generators/{name}/ids{query} HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}"
            );
            client.send(&request).await;
            answers.push(answer(&mut client).await);
        }
        let [direct, others @ ..] = &*answers else { panic!("no answer") };
        assert!(direct.starts_with(&format!("HTTP/1.1 {expect}\r\n")), "{direct}");
        for other in others {
            let is_no_date = |line: &String| !line.starts_with("date: ");
            let lines =
                |text: &str| text.lines().map(str::to_lowercase).filter(is_no_date).collect::<Vec<_>>();
            assert_eq!(lines(direct), lines(other));
        }
    }
}
