//! A relay that writes down what it passes on: put between client and proxy, and between proxy and server, two of them have
//! the bytes of both wires.
//!
//! Bytes are written down before they are passed on, so a test that has seen an answer finds all that led to it in the log.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use super::relay::{Port, pass_on};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    Down,
}

/// The bytes that one connection carried, in the order in which they came.
pub type Log = Vec<(Direction, Vec<u8>)>;

type SharedLog = Arc<Mutex<Log>>;

/// The relay does not ask if the target serves with TLS: a log of TLS tells nothing.
pub struct Tap {
    port: Port,
    logs: Arc<Mutex<Vec<SharedLog>>>,
}

impl Tap {
    pub fn start(target: &str) -> Tap {
        let (target, logs) = (target.to_owned(), Arc::<Mutex<Vec<SharedLog>>>::default());
        let of_port = logs.clone();
        let port = Port::open(move |client| {
            // A server that is not there is the client's to notice: its connection ends.
            let Ok(server) = TcpStream::connect(&target) else { return };
            let log = SharedLog::default();
            of_port.lock().unwrap_or_else(PoisonError::into_inner).push(log.clone());
            for (from, to, direction) in
                [(&client, &server, Direction::Up), (&server, &client, Direction::Down)]
            {
                let log = log.clone();
                pass_on(from, to, move |bytes| {
                    log.lock().unwrap_or_else(PoisonError::into_inner).push((direction, bytes.to_vec()));
                });
            }
        });
        Tap { port, logs }
    }

    pub fn address(&self) -> String {
        self.port.address()
    }

    /// The connections that have not ended.
    pub fn open(&self) -> usize {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        logs.iter().filter(|log| Arc::strong_count(log) > 1).count()
    }

    /// Returns the bytes that came since the last time, by connection.
    pub fn take(&self) -> Vec<Log> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let taken =
            logs.iter().map(|log| std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner)));
        let taken = taken.collect();
        // A connection that has ended is held by nobody else.
        logs.retain(|log| Arc::strong_count(log) > 1);
        taken
    }
}

#[test]
fn what_passes_is_written_down() {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let tap = Tap::start(&server.local_addr().expect("an address").to_string());
    let mut client = TcpStream::connect(tap.address()).expect("the tap listens");
    let (mut accepted, _) = server.accept().expect("the tap connects");
    client.write_all(b"ask").expect("it is taken");
    let mut bytes = [0; 3];
    accepted.read_exact(&mut bytes).expect("it is passed on");
    accepted.write_all(b"tell").expect("it is taken");
    drop(accepted);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("the end is passed on");
    assert_eq!((&bytes, &*answer), (b"ask", &b"tell"[..]));
    assert_eq!(tap.take(), [vec![(Direction::Up, b"ask".to_vec()), (Direction::Down, b"tell".to_vec())]]);
    assert!(tap.take().iter().all(Vec::is_empty));
}
