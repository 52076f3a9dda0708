//! A TCP relay whose target changes while its address stays, like a virtual address or a load balancer.

use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::relay::{Port, pass_on};

pub struct Gate {
    port: Port,
    target: Arc<Mutex<String>>,
}

impl Gate {
    pub fn start(target: &str) -> Gate {
        let target = Arc::new(Mutex::new(target.to_owned()));
        let of_port = target.clone();
        let port = Port::open(move |client| {
            let target = of_port.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A server that hangs takes no more connections when its backlog is full, and others must not wait for it.
            thread::spawn(move || {
                // Who does not listen is the client's to notice: its connection ends.
                if let Ok(server) = TcpStream::connect(target) {
                    pass_on(&client, &server, |_| ());
                    pass_on(&server, &client, |_| ());
                }
            });
        });
        Gate { port, target }
    }

    pub fn address(&self) -> String {
        self.port.address()
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

#[test]
fn what_is_behind_it_changes_for_new_connections() {
    use std::io::{Read, Write};
    use std::net::TcpListener;

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
