//! Listening sockets besides that of the proxy, which another process may have for a moment yet.

use std::time::Duration;

use crate::address::Address;
use crate::address::listener::{ListenError, Listener};

/// The pause before the socket of the process before is asked for again.
const AGAIN: Duration = Duration::from_millis(200);

/// So often is nothing said of an address that is taken.
const TAKEN_MAX: u32 = 10;

pub(super) struct Names {
    /// The words before the address in the error that it cannot listen.
    pub(super) what: &'static str,
    /// The effect of its absence.
    pub(super) without: &'static str,
    /// The remedies for [`ListenError::new`].
    pub(super) remedies: [&'static str; 3],
}

#[derive(Debug)]
pub(super) enum Socket {
    /// "off", or its default port is another's.
    Off,
    Bound(Listener),
    /// The process that hands over has it still.
    Pending(Address),
}

impl Socket {
    /// `None`: it is off. `is_written`: that another has the address is an error then.
    pub(super) async fn bind(
        names: &Names,
        address: Option<&Address>,
        is_written: bool,
        takes_over: bool,
    ) -> Result<Socket, ListenError> {
        let Some(address) = address else { return Ok(Socket::Off) };
        match bind(names, address).await {
            Ok(listener) => Ok(Socket::Bound(listener)),
            Err(error) if error.is_taken() && takes_over => Ok(Socket::Pending(address.clone())),
            Err(error) if error.is_taken() && !is_written => {
                tracing::warn!("{error}; {}", names.without);
                Ok(Socket::Off)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until it is there. `None`: it is off.
    pub(super) async fn listener(self, names: &Names) -> Option<Listener> {
        let address = match self {
            Socket::Off => return None,
            Socket::Bound(listener) => return Some(listener),
            Socket::Pending(address) => address,
        };
        let (mut told, mut attempts) = (None, 0_u32);
        loop {
            match bind(names, &address).await {
                Ok(listener) => return Some(listener),
                Err(error) => {
                    let text = error.to_string();
                    // The process that hands over may need a moment.
                    attempts += 1;
                    let is_told = !error.is_taken() || attempts > TAKEN_MAX;
                    if is_told && told.as_ref() != Some(&text) {
                        tracing::warn!("{text}; Rowstamp tries again, and {}", names.without);
                        told = Some(text);
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

async fn bind(names: &Names, address: &Address) -> Result<Listener, ListenError> {
    let bound = Listener::bind(address).await;
    bound.map_err(|error| ListenError::new(names.what, address, error, names.remedies))
}
