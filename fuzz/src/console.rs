//! Statements and commands to the console, by a user who may only read and by one who may write: whatever they are, they get one
//! answer that a client can read, the next command gets its own, and who may only read changes nothing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rowstamp::address::Address;
/// As `fake` finds it.
use rowstamp::admin as desk;
use rowstamp::admin::console::{self, Listener, Tls};
use rowstamp::users;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use crate::input::Input;
use crate::memory;

/// The unit tests' own.
#[path = "../../src/admin/fake.rs"]
mod fake;

const PING: u8 = 0x0E;
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const RESET: u8 = 0x1F;
const CLOSE: u8 = 0x19;
/// COM_QUIT ends the connection, the others have no answer, or one that needs no statement to be right.
const LEFT_OUT: [u8; 4] = [0x01, 0x04, 0x18, CLOSE];
/// Of real time; what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// A statement of some hundred bytes may ask for the columns of all tables there are, up to the limit.
const MEMORY_BYTES_MAX: usize = 16 << 20;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let (may_write, how) = (input.below(2) == 1, input.below(4));
    RIG.with_borrow_mut(|rig| {
        let rig = rig.get_or_insert_with(Rig::start);
        rig.desk.done.lock().clear();
        let client = &mut rig.clients[usize::from(may_write)];
        memory::within(MEMORY_BYTES_MAX, || {
            let talk = async { tokio::time::timeout(PATIENCE, client.talk(how, input)).await };
            rig.runtime.block_on(talk).expect("it answers in time");
        });
        let done = rig.desk.done.lock().clone();
        // A prepared statement is executed once.
        assert!(done.len() <= 1, "{done:?}");
        assert!(may_write || done.iter().all(|done| done == "reload dry_run=true"), "{done:?}");
    });
}

thread_local! {
    /// A console and its clients, for all inputs: a login takes longer than most statements.
    static RIG: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

struct Rig {
    runtime: Runtime,
    desk: Arc<fake::FakeDesk>,
    /// Who may read, and who may write.
    clients: [Client; 2],
    _folder: tempfile::TempDir,
}

impl Rig {
    fn start() -> Rig {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let desk = Arc::new(fake::FakeDesk { issued: Some(u64::MAX), ..fake::FakeDesk::default() });
        let clients = runtime.block_on(async {
            let listener = Listener::bind(&Address::Unix(path.clone())).await.unwrap();
            tokio::spawn(console::serve(listener, desk.clone(), Tls::default));
            [Client::login(&path, "guest", "look").await, Client::login(&path, "dba", "s3crët").await]
        });
        Rig { runtime, desk, clients, _folder: folder }
    }
}

struct Client {
    stream: UnixStream,
}

/// What a command was answered.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Ok,
    Error,
    /// So many columns.
    Rows(usize),
}

impl Client {
    async fn login(path: &Path, user: &str, password: &str) -> Client {
        let mut client = Client { stream: UnixStream::connect(path).await.unwrap() };
        let (_, greeting) = client.packet().await;
        let version_end = greeting[1..].iter().position(|byte| *byte == 0).unwrap() + 1;
        let nonce = [&greeting[version_end + 5..][..8], &greeting[version_end + 32..][..12]].concat();
        // PROTOCOL_41, SECURE_CONNECTION, CLIENT_MYSQL; too old to know plugins, so mysql_native_password it is.
        let mut response = 0x8201_u32.to_le_bytes().to_vec();
        response.resize(32, 0);
        response.extend_from_slice(user.as_bytes());
        response.extend_from_slice(&[0, 20]);
        let once = Sha1::digest(password);
        let mask = Sha1::new().chain_update(&nonce).chain_update(Sha1::digest(once)).finalize();
        response.extend(once.iter().zip(mask).map(|(a, b)| a ^ b));
        client.send(1, &response).await;
        let (packet_nr, told) = client.packet().await;
        assert_eq!((packet_nr, told[0]), (2, 0), "{}", String::from_utf8_lossy(&told));
        client
    }

    async fn talk(&mut self, how: u8, mut input: Input<'_>) {
        self.send(0, &[RESET]).await;
        assert_eq!(self.told().await, Told::Ok);
        match how {
            0 | 1 => {
                self.send(0, &[&[QUERY], input.rest()].concat()).await;
                self.told().await;
            }
            2 => self.prepared(input.rest()).await,
            _ => {
                let command = input.byte();
                if !LEFT_OUT.contains(&command) {
                    self.send(0, &[&[command], input.rest()].concat()).await;
                    if command == PREPARE {
                        self.is_prepared().await;
                    } else {
                        self.told().await;
                    }
                }
            }
        }
        self.send(0, &[PING]).await;
        assert_eq!(self.told().await, Told::Ok);
    }

    /// What it was prepared as it is when executed.
    async fn prepared(&mut self, statement: &[u8]) {
        self.send(0, &[&[PREPARE], statement].concat()).await;
        let Some((id, columns)) = self.is_prepared().await else { return };
        self.send(0, &[&[EXECUTE], &id[..], &[0, 1, 0, 0, 0]].concat()).await;
        match self.told().await {
            Told::Rows(found) => assert_eq!(found, columns),
            Told::Ok => assert_eq!(columns, 0),
            // It may not be done, or not be there.
            Told::Error => {}
        }
        self.send(0, &[&[CLOSE], &id[..]].concat()).await;
    }

    /// COM_STMT_PREPARE_OK: its number and how many columns it will have; `None`: an error.
    async fn is_prepared(&mut self) -> Option<([u8; 4], usize)> {
        let (_, first) = self.packet().await;
        if first[0] == 0xFF {
            error(&first);
            return None;
        }
        assert_eq!((first[0], &first[7..9]), (0, &[0, 0][..]), "no parameters");
        let columns = usize::from(u16::from_le_bytes([first[5], first[6]]));
        for _ in 0..columns {
            self.packet().await;
        }
        if columns > 0 {
            assert!(is_eof(&self.packet().await.1));
        }
        Some((first[1..5].try_into().unwrap(), columns))
    }

    /// An answer of COM_QUERY or COM_STMT_EXECUTE, to its end.
    async fn told(&mut self) -> Told {
        let (mut packet_nr, first) = self.packet().await;
        assert_eq!(packet_nr, 1);
        match first[0] {
            0 => return Told::Ok,
            0xFF => {
                error(&first);
                return Told::Error;
            }
            _ => {}
        }
        let (columns, rest) = number(&first);
        assert!(rest.is_empty() && columns > 0, "{first:?}");
        let mut left = VecDeque::from([columns, usize::MAX]);
        while let Some(count) = left.pop_front() {
            for _ in 0..count {
                let (next, packet) = self.packet().await;
                packet_nr = packet_nr.wrapping_add(1);
                assert_eq!(next, packet_nr);
                if is_eof(&packet) {
                    assert_eq!(count, usize::MAX, "an end in place of a column");
                    break;
                }
            }
            if count == columns {
                let (next, packet) = self.packet().await;
                packet_nr = packet_nr.wrapping_add(1);
                assert!(next == packet_nr && is_eof(&packet), "no end of the columns");
            }
        }
        Told::Rows(columns)
    }

    async fn send(&mut self, packet_nr: u8, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        let packet = [&length[..3], &[packet_nr], payload].concat();
        self.stream.write_all(&packet).await.expect("the connection is there");
    }

    async fn packet(&mut self) -> (u8, Vec<u8>) {
        let header = self.stream.read_u32_le().await.expect("the connection is there");
        let mut payload = vec![0; usize::try_from(header & 0x00FF_FFFF).unwrap()];
        self.stream.read_exact(&mut payload).await.expect("the packet is whole");
        assert!(!payload.is_empty());
        (header.to_le_bytes()[3], payload)
    }
}

fn is_eof(packet: &[u8]) -> bool {
    packet[0] == 0xFE && packet.len() < 9
}

/// ERR_Packet: a code, a state, and a text that a person can read.
fn error(packet: &[u8]) {
    let text = std::str::from_utf8(&packet[9..]).expect("UTF-8");
    assert!(u16::from_le_bytes([packet[1], packet[2]]) >= 1000 && packet[3] == b'#' && !text.is_empty());
    assert!(text.len() < 8_000, "{} bytes of text", text.len());
}

/// A length-encoded integer, and what is behind it.
fn number(bytes: &[u8]) -> (usize, &[u8]) {
    match bytes[0] {
        small @ 0..=0xFA => (small.into(), &bytes[1..]),
        0xFC => (u16::from_le_bytes([bytes[1], bytes[2]]).into(), &bytes[3..]),
        other => panic!("{other:#x} begins no number of columns"),
    }
}
