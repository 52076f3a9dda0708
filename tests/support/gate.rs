//! A TCP relay whose target moves, as a virtual address or a load balancer does: what is behind it changes, the address of it
//! does not.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

pub struct Gate {
    port: u16,
    target: Arc<Mutex<String>>,
    is_over: Arc<AtomicBool>,
}

impl Gate {
    pub fn start(target: &str) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let gate = Gate { port, target: Arc::new(Mutex::new(target.to_owned())), is_over: Arc::default() };
        let (target, is_over) = (gate.target.clone(), gate.is_over.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else { continue };
                let target = target.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A server that hangs takes no more connections when its backlog is full, and others must not wait for it.
                thread::spawn(move || {
                    // Who does not listen is the client's to notice: its connection ends.
                    if let Ok(server) = TcpStream::connect(target) {
                        pass_on(&client, &server);
                    }
                });
            }
        });
        gate
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// New connections wait while the guard lives; those that are open go on.
    pub fn hold(&self) -> impl Drop + '_ {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// New connections go to `target` from here on; those that are open stay where they are.
    pub fn turn(&self, target: &str) {
        target.clone_into(&mut self.target.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address());
    }
}

fn pass_on(client: &TcpStream, server: &TcpStream) {
    for (from, to) in [(client, server), (server, client)] {
        let _ = from.set_nodelay(true);
        let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
        thread::spawn(move || {
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

#[test]
fn what_is_behind_it_changes_for_new_connections() {
    let servers: [TcpListener; 2] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let gate = Gate::start(&servers[0].local_addr().expect("an address").to_string());
    let connect = |server: &TcpListener| {
        let client = TcpStream::connect(gate.address()).expect("the gate listens");
        (client, server.accept().expect("the gate connects").0)
    };
    let mut first = connect(&servers[0]);
    gate.turn(&servers[1].local_addr().expect("an address").to_string());
    let mut second = connect(&servers[1]);
    for (client, server) in [&mut first, &mut second] {
        client.write_all(b"ask").expect("it is taken");
        let mut bytes = [0; 3];
        server.read_exact(&mut bytes).expect("it is passed on");
        assert_eq!(&bytes, b"ask");
    }
    drop(first.1);
    assert_eq!(first.0.read(&mut [0; 3]).expect("the end is passed on"), 0);
}
