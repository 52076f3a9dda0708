//! A relay that writes down what it passes on: put between client and proxy, and between proxy and server, two of them have
//! the bytes of both wires.
//!
//! Bytes are written down before they are passed on, so a test that has seen an answer finds all that led to it in the log.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    Down,
}

/// What one connection carried, in the order in which it came.
pub type Log = Vec<(Direction, Vec<u8>)>;

type SharedLog = Arc<Mutex<Log>>;

/// Whether the target serves with TLS is not asked: a log of TLS tells nothing.
pub struct Tap {
    port: u16,
    logs: Arc<Mutex<Vec<SharedLog>>>,
    is_over: Arc<AtomicBool>,
}

impl Tap {
    pub fn start(target: &str) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let tap = Tap { port, logs: Arc::default(), is_over: Arc::default() };
        let (target, logs, is_over) = (target.to_owned(), tap.logs.clone(), tap.is_over.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                // A server that is not there is the client's to notice: its connection ends.
                let Ok((client, server)) = client.and_then(|c| Ok((c, TcpStream::connect(&target)?))) else {
                    continue;
                };
                let log = SharedLog::default();
                logs.lock().unwrap_or_else(PoisonError::into_inner).push(log.clone());
                relay(&client, &server, &log);
            }
        });
        tap
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What came since the last time, by connection.
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

impl Drop for Tap {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address());
    }
}

fn relay(client: &TcpStream, server: &TcpStream, log: &SharedLog) {
    for (from, to, direction) in [(client, server, Direction::Up), (server, client, Direction::Down)] {
        let _ = from.set_nodelay(true);
        let (Ok(from), Ok(to), log) = (from.try_clone(), to.try_clone(), log.clone()) else { return };
        thread::spawn(move || pass(from, to, direction, &log));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, direction: Direction, log: &SharedLog) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        log.lock().unwrap_or_else(PoisonError::into_inner).push((direction, bytes.to_vec()));
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn what_passes_is_written_down() {
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
