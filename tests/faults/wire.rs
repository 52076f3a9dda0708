//! A relay of bytes that does harm to its next connection, at a byte of either direction.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use crate::support::relay::Port;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

pub(crate) const DIRECTIONS: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// RST to both ends: what was on its way is lost.
    Reset,
    /// The receiver sees an orderly end.
    Close,
    /// Nothing more arrives in this direction, not even the end; the other one goes on.
    Blackhole,
    /// Nothing arrives for so long.
    Pause(Duration),
    /// From here on byte by byte.
    Bytes,
}

/// Harm that comes when so many bytes have passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) direction: Direction,
    pub(crate) at: u64,
    pub(crate) harm: Harm,
}

pub(crate) struct Wire {
    port: Port,
    shared: Arc<Shared>,
}

struct Shared {
    target: String,
    /// The faults of the next connections, one for each.
    next: Mutex<VecDeque<Fault>>,
    /// The connection that began last.
    last: Mutex<Arc<Connection>>,
    /// No blackhole holds a socket open any more.
    is_mended: Arc<AtomicBool>,
}

#[derive(Default)]
struct Connection {
    /// Bytes in each direction.
    passed: [AtomicU64; 2],
    /// True: the connection's sockets are closed without a word.
    is_reset: AtomicBool,
    is_mended: Arc<AtomicBool>,
}

impl Wire {
    pub(crate) fn start(target: &str) -> Wire {
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            next: Mutex::default(),
            last: Mutex::default(),
            is_mended: Arc::default(),
        });
        let of_port = shared.clone();
        let port = Port::open(move |client| of_port.relay(&client));
        Wire { port, shared }
    }

    pub(crate) fn address(&self) -> String {
        self.port.address()
    }

    /// Plans a fault for the next connection that nothing else is planned for.
    pub(crate) fn plan(&self, fault: Fault) {
        lock(&self.shared.next).push_back(fault);
    }

    /// Plans nothing for the connections to come.
    pub(crate) fn forget(&self) {
        lock(&self.shared.next).clear();
    }

    /// Ends the connections that fell into a blackhole.
    pub(crate) fn repair(&self) {
        self.shared.is_mended.store(true, Ordering::Relaxed);
    }

    /// Bytes that the last connection has passed on in a direction.
    pub(crate) fn passed(&self, direction: Direction) -> u64 {
        lock(&self.shared.last).passed[direction as usize].load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.repair();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn relay(&self, client: &TcpStream) {
        let fault = lock(&self.next).pop_front();
        let connection = Arc::new(Connection { is_mended: self.is_mended.clone(), ..Connection::default() });
        *lock(&self.last) = connection.clone();
        // Who does not listen is the client's to notice: its connection ends.
        let Ok(server) = TcpStream::connect(&self.target) else { return };
        for direction in DIRECTIONS {
            let (Ok(client), Ok(server)) = (client.try_clone(), server.try_clone()) else { return };
            let fault = fault.filter(|fault| fault.direction == direction);
            let connection = connection.clone();
            thread::spawn(move || match direction {
                Direction::ToServer => connection.pass_on(direction, client, server, fault),
                Direction::ToClient => connection.pass_on(direction, server, client, fault),
            });
        }
    }
}

impl Connection {
    fn pass_on(
        &self,
        direction: Direction,
        mut from: TcpStream,
        mut to: TcpStream,
        mut fault: Option<Fault>,
    ) {
        let _ = to.set_nodelay(true);
        let passed = &self.passed[direction as usize];
        let mut buffer = vec![0; 16 * 1024];
        let mut chunk_max = buffer.len();
        loop {
            let to_go = fault.map(|fault| fault.at - passed.load(Ordering::Relaxed));
            if let Some(fault) = fault.take_if(|_| to_go == Some(0)) {
                match fault.harm {
                    Harm::Reset => return self.reset(&from, &to),
                    Harm::Close => break,
                    Harm::Blackhole => return self.swallow(&mut from, &to, &mut buffer),
                    Harm::Pause(time) => thread::sleep(time),
                    Harm::Bytes => chunk_max = 1,
                }
            }
            let room = to_go.filter(|to_go| *to_go > 0).and_then(|to_go| usize::try_from(to_go).ok());
            let room = room.unwrap_or(chunk_max).min(chunk_max);
            match from.read(&mut buffer[..room]) {
                Ok(count @ 1..) if to.write_all(&buffer[..count]).is_ok() => {
                    passed.fetch_add(count as u64, Ordering::Relaxed);
                }
                _ => break,
            }
        }
        // FIN would come before the RST.
        if !self.is_reset.load(Ordering::Relaxed) {
            let _ = to.shutdown(Shutdown::Write);
            let _ = from.shutdown(Shutdown::Read);
        }
    }

    /// RST goes out when the last copy of each socket is closed: the other direction's thread ends with its read.
    fn reset(&self, from: &TcpStream, to: &TcpStream) {
        self.is_reset.store(true, Ordering::Relaxed);
        for socket in [from, to] {
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
            let _ = socket.shutdown(Shutdown::Read);
        }
    }

    /// Reads all that comes, so that only the receiver notices, who is left waiting.
    fn swallow(&self, from: &mut TcpStream, to: &TcpStream, buffer: &mut [u8]) {
        while let Ok(1..) = from.read(buffer) {}
        while !self.is_mended.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}
