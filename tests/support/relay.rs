//! The parts that all relays share: a port that takes connections, and a thread for each direction of one.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Takes connections until it is dropped.
pub struct Port {
    port: u16,
    is_over: Arc<AtomicBool>,
}

impl Port {
    /// The next connection waits until `take` returns.
    pub fn open(mut take: impl FnMut(TcpStream) + Send + 'static) -> Port {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let is_over = Arc::new(AtomicBool::new(false));
        let of_thread = is_over.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if of_thread.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(client) = client {
                    take(client);
                }
            }
        });
        Port { port, is_over }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address());
    }
}

/// In a thread of its own, until one of the two ends; `sees` is given the bytes before `to` has them.
pub fn pass_on(from: &TcpStream, to: &TcpStream, mut sees: impl FnMut(&[u8]) + Send + 'static) {
    let _ = from.set_nodelay(true);
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            sees(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}
