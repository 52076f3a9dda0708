//! Who tries passwords has to wait, and who is let in tells them apart by nothing else.

use std::time::{Duration, Instant};

use crate::console::raw::{BASE, Raw, response, sha2};
use crate::console::rig::Console;
use crate::support::raw::wire::packet;
use crate::support::wait::wait_until;

/// Logs in with this password, and returns the error; `None`: OK.
fn attempt(console: &Console, user: &str, password: &str) -> Option<String> {
    let mut raw = Raw::greeted(console.port);
    let answer = sha2(password, &raw.nonce);
    raw.send(&packet(1, &response(BASE, user, &answer, "caching_sha2_password")));
    let (_, payload) = raw.read().unwrap();
    (payload[0] == 0xFF).then(|| {
        assert_eq!(payload[1..9], *b"\x15\x04#28000");
        String::from_utf8_lossy(&payload[9..]).into_owned()
    })
}

#[test]
fn wrong_passwords_are_throttled() {
    let console = Console::start();
    let wrong = |user: &str| {
        format!(
            "Access denied for user '{user}' to the console (using password: YES); a user of the store logs in over TLS or the Unix socket"
        )
    };
    let waits = |user: &str| {
        format!("Access denied for user '{user}' to the console: after a wrong password, try again in ")
    };
    // A user that there is and one that there is not are told the same, in the same order.
    for user in ["dba", "nobody"] {
        // The right one too, for a half second, then for one, then for two: on a busy machine the first may be over.
        let mut begun = Instant::now();
        assert_eq!(attempt(&console, user, "guess"), Some(wrong(user)));
        while !attempt(&console, user, "s3crët").is_some_and(|told| told.starts_with(&waits(user))) {
            assert!(begun.elapsed() >= Duration::from_millis(500), "{user} did not have to wait");
            begun = Instant::now();
            attempt(&console, user, "guess");
        }
    }
    assert_eq!(attempt(&console, "guest", "look"), None, "others are not held back");
    wait_until(|| "it does not end".to_owned(), || attempt(&console, "dba", "s3crët").is_none());
    // In three seconds a guesser who never rests has no more than three tries: after them it waits 0.5 s, 1 s, 2 s.
    let (begun, mut tries) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(3) {
        let told = attempt(&console, "dba", "guess").unwrap();
        tries += usize::from(told == wrong("dba"));
        assert!(told == wrong("dba") || told.starts_with(&waits("dba")), "{told}");
    }
    let waited = Duration::from_millis(500) * ((1 << (tries - 1)) - 1);
    assert!(tries > 0 && begun.elapsed() >= waited, "{tries} tries in {:?}", begun.elapsed());
}
