//! Bytes of a client of Redis, before and after its login: whatever they are, the answers can be read, are the same however the bytes are
//! sliced, and cost little memory.

use std::sync::Arc;
use std::time::Duration;

use rowstamp::doors::resp::{Door, Terms};
use rowstamp::doors::{DoorMeter, IdDesk};
use rowstamp::rules::RuleSet;
use rowstamp::store::memory::MemoryStore;
use rowstamp::tables::InForce;
use rowstamp::users::{Directory, Role, User};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::input::Input;
use crate::memory;
use crate::slices::cut;

const RULES: &str = "schema = \"s\"\n[generators.g]\nkind = \"sequence\"\n[generators.few]\nkind = \"sequence\"\nmax = 5\n\
                     [generators.high]\nkind = \"sequence\"\nstart = 9223372036854775800\nmax = 9223372036854775900\nbatch = 10\n";

/// A request of 30 bytes may be answered by 1 KiB.
const MEMORY_BYTES_MAX: usize = 8 << 20;

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    static LOADED: Arc<RuleSet> = {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s.toml"), RULES).unwrap();
        Arc::new(rowstamp::rules::load(folder.path()).expect("the rules are right").0)
    };
}

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let login: &[u8] = match input.below(4) {
        0 => b"",
        1 => b"AUTH app x\r\n",
        2 => b"HELLO 3 AUTH app x\r\n",
        _ => b"AUTH look y\r\n",
    };
    let slicing = [input.byte()];
    let bytes = [login, input.rest()].concat();
    let slices = cut(&mut Input::new(&slicing), &bytes);
    let [whole, sliced] = [vec![&*bytes], slices].map(|slices| {
        memory::within(MEMORY_BYTES_MAX, || RUNTIME.with(|runtime| runtime.block_on(talk(&slices))))
    });
    assert_eq!(String::from_utf8_lossy(&whole), String::from_utf8_lossy(&sliced), "answers depend on slices");
    let mut rest = &*whole;
    while !rest.is_empty() {
        rest = after_answer(rest);
    }
}

/// What a new client of a new door is answered.
async fn talk(slices: &[&[u8]]) -> Vec<u8> {
    let rules = LOADED.with(Arc::clone);
    let tables = InForce::open(rules, None, Arc::new(MemoryStore::new()), None, "fuzz".into(), true).await;
    let user =
        |name: &str, password: &str, role| Arc::new(User::of_file(name, password.to_owned().into(), role));
    let users = [user("app", "x", Role::Write), user("look", "y", Role::Read)].into();
    let desk = IdDesk {
        door: "resp",
        tables: Arc::new(tables.expect("a store in memory is there")),
        users: Directory::without_store(users),
        deadline: Box::new(|| Duration::from_secs(1)),
        audit: Arc::default(),
        meter: Arc::<DoorMeter>::default(),
    };
    let terms = || Terms {
        acceptor: None,
        needs_tls: false,
        connections_max: 10,
        login_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_mins(10),
        write_timeout: Duration::from_mins(1),
    };
    let door = Door::new(desk, "fuzz", terms);
    let (client, server) = tokio::io::duplex(1 << 16);
    let (mut answers, mut requests) = tokio::io::split(client);
    let asks = async {
        for slice in slices {
            // The door may have ended the connection.
            if requests.write_all(slice).await.is_err() {
                break;
            }
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        let _ = requests.shutdown().await;
    };
    let reads = async {
        let mut told = Vec::new();
        let _ = answers.read_to_end(&mut told).await;
        told
    };
    let ((), told, ()) = tokio::join!(asks, reads, door.serve(server));
    told
}

/// What stands after the answer that `bytes` begin with.
fn after_answer(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").expect("a line ends");
    let (line, mut rest) = (&bytes[..end], &bytes[end + 2..]);
    let text = std::str::from_utf8(line).expect("what is no bulk string is ASCII");
    let number = || text[1..].parse::<i64>().unwrap_or_else(|_| panic!("{text:?} has a number"));
    match line[0] {
        b'+' | b'-' => assert!(line.len() > 1, "{text:?} says nothing"),
        b':' => drop(number()),
        b'(' => assert!(text[1..].parse::<u64>().is_ok(), "{text:?}"),
        b'_' => assert_eq!(text, "_"),
        b'$' | b'=' => {
            if let Ok(bytes) = usize::try_from(number()) {
                assert_eq!(&rest[bytes..bytes + 2], b"\r\n", "a string has its length");
                rest = &rest[bytes + 2..];
            }
        }
        b'*' | b'~' => {
            for _ in 0..number() {
                rest = after_answer(rest);
            }
        }
        b'%' => {
            for _ in 0..number() * 2 {
                rest = after_answer(rest);
            }
        }
        other => panic!("{other} begins no answer"),
    }
    rest
}
