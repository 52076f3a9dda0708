//! The process that issues ids, as others find it: who is to take over, and who did not end yet and
//! needs ids.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::table_use::Unseen;
use crate::tables::{InForce, Look};
use crate::takeover::socket::{Lines, SOCKET, TakeoverError, is_ours, listen};
use crate::takeover::wire::{HandedDoor, PROTOCOL, Reply, Request};

/// The time that the other process has between two lines of a takeover. It opens the store and every ruled table, and
/// waits some seconds for a lock that is not free yet.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Another process that asks for this one's place.
pub struct TakeoverRequest {
    lines: Lines,
    /// The address where that process is to listen, as its configuration says.
    pub address: String,
    /// The addresses for clients of Redis and of HTTP. `None`: it has none.
    pub doors: [Option<String>; 2],
}

impl TakeoverRequest {
    pub fn pid(&self) -> Option<i32> {
        self.lines.peer_pid()
    }

    pub async fn refuse(mut self, reason: String) {
        // A process that does not receive the line sees the connection's end.
        let _ = self.lines.send(&Reply::Refused { reason }).await;
    }

    /// The store is given up: the other process opens it. `Ok` when it is ready. `doors`: the sockets for clients of Redis and of
    /// HTTP, each where both listen at one address.
    pub async fn hand(&mut self, listener: impl AsFd, doors: [Option<&impl AsFd>; 2]) -> io::Result<()> {
        let given =
            HandedDoor::ALL.into_iter().zip(doors).filter_map(|(door, socket)| Some((door, socket?.as_fd())));
        let (doors, at_doors): (Vec<_>, Vec<_>) = given.unzip();
        let sockets: Vec<_> = std::iter::once(listener.as_fd()).chain(at_doors).collect();
        let [_, api] = &self.doors;
        let reply = if api.is_some() { Reply::HandedWith { doors } } else { Reply::Handed };
        self.lines.send_with(&reply, &sockets).await?;
        match timeout(TIMEOUT, self.lines.next()).await {
            Ok(Ok(Some(Request::Ready))) => self.lines.send(&Reply::Done).await,
            Ok(Ok(Some(_))) => Err(io::ErrorKind::InvalidData.into()),
            Ok(Ok(None)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// The place of a process that has given up its store.
pub struct Handover(Lines);

/// The sockets that come with a place.
pub struct Sockets {
    pub listener: OwnedFd,
    /// The sockets of the Redis protocol and of the HTTP API. `None`: the door is off.
    pub doors: [Option<OwnedFd>; 2],
}

impl Handover {
    /// Asks the process that has `folder` as its `state.path`; with its place come its listening
    /// sockets. `None`: there is none. `address` and `doors`: where this process is to listen.
    pub async fn ask(
        folder: &Path,
        address: String,
        doors: [Option<String>; 2],
    ) -> Result<Option<(Handover, Sockets)>, TakeoverError> {
        let path = folder.join(SOCKET);
        let mut lines = match Lines::connect(&path).await {
            Ok(lines) => lines,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(TakeoverError::Socket { path, error }),
        };
        let [resp, api] = doors;
        let asked = async {
            lines.send(&Request::TakeOver { protocol: PROTOCOL, address, resp, api }).await?;
            lines.next_with().await
        };
        let answer = timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (reply, sockets) = answer.map_err(|error| TakeoverError::Socket { path, error })?;
        let mut sockets = sockets.into_iter();
        let doors = match &reply {
            Some(Reply::HandedWith { doors }) => doors.clone(),
            _ => vec![HandedDoor::Resp],
        };
        match (reply, sockets.next()) {
            (Some(Reply::Handed | Reply::HandedWith { .. }), Some(listener)) => {
                let mut at_doors: Vec<_> = doors.into_iter().zip(sockets).collect();
                let of = |door| {
                    let nth = at_doors.iter().position(|(own, _)| *own == door)?;
                    Some(at_doors.swap_remove(nth).1)
                };
                Ok(Some((Handover(lines), Sockets { listener, doors: HandedDoor::ALL.map(of) })))
            }
            (Some(Reply::Refused { reason }), _) => Err(TakeoverError::Refused(reason)),
            _ => Err(TakeoverError::GoneAway),
        }
    }

    /// The store and the tables are open, and [`TakeoverServer::open`] has been called. After `Ok`
    /// this process serves.
    pub async fn ready(mut self) -> Result<(), TakeoverError> {
        let told = async {
            self.0.send(&Request::Ready).await?;
            self.0.next().await
        };
        match timeout(TIMEOUT, told).await {
            Ok(Ok(Some(Reply::Done))) => Ok(()),
            _ => Err(TakeoverError::GoneAway),
        }
    }
}

/// Answers at the socket until it is dropped.
pub struct TakeoverServer {
    serving: JoinHandle<()>,
}

impl Drop for TakeoverServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TakeoverServer {
    /// Takes the place of any other process at the socket.
    pub fn open(
        folder: &Path,
        tables: Arc<InForce>,
        requests: mpsc::Sender<TakeoverRequest>,
    ) -> Result<TakeoverServer, TakeoverError> {
        let opened = listen(folder);
        let listener = opened.map_err(|error| TakeoverError::Socket { path: folder.join(SOCKET), error })?;
        Ok(TakeoverServer { serving: tokio::spawn(accept(listener, tables, requests)) })
    }

    /// The socket of this `state.path`, if a process answers there.
    pub async fn is_taken(folder: &Path) -> Option<PathBuf> {
        let path = folder.join(SOCKET);
        UnixStream::connect(&path).await.is_ok().then_some(path)
    }
}

async fn accept(listener: UnixListener, tables: Arc<InForce>, requests: mpsc::Sender<TakeoverRequest>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) if is_ours(&stream) => {
                let (tables, requests) = (Arc::clone(&tables), requests.clone());
                tokio::spawn(async move {
                    if let Err(error) = answer(Lines::new(stream), &tables, &requests).await {
                        tracing::debug!(%error, "a connection of the takeover's socket failed");
                    }
                });
            }
            Ok(_) => tracing::warn!(
                "a process of another user connected to the takeover's socket; Rowstamp refused it"
            ),
            Err(error) => {
                tracing::warn!(%error, "the takeover's socket failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(
    mut lines: Lines,
    tables: &InForce,
    requests: &mpsc::Sender<TakeoverRequest>,
) -> io::Result<()> {
    while let Some(request) = lines.next().await? {
        let reply = match request {
            Request::TakeOver { protocol, address, resp, api } if protocol == PROTOCOL => {
                // If the receiver has ended, this connection ends too.
                let _ = requests.send(TakeoverRequest { lines, address, doors: [resp, api] }).await;
                return Ok(());
            }
            Request::TakeOver { protocol, .. } => Reply::Refused {
                reason: format!(
                    "the running process is of a version that hands over by protocol {PROTOCOL}, not {protocol}; stop it with \
                     SIGTERM, then start the new process"
                ),
            },
            Request::Ready => Reply::Refused { reason: "nothing was handed over".to_owned() },
            Request::Take { target, n, deadline_ms } => {
                match tables.take_for(&target.asked(), n, Duration::from_millis(deadline_ms)).await {
                    Ok(block) => Reply::Ids { first: block.first() },
                    Err(reason) => Reply::Refused { reason },
                }
            }
            Request::Pass { target, id, deadline_ms } => {
                match tables.pass_for(&target.asked(), id, Duration::from_millis(deadline_ms)).await {
                    Ok(advanced) => Reply::Passed(advanced),
                    Err(reason) => Reply::Refused { reason },
                }
            }
            Request::Look { target, raises, read, deadline_ms } => {
                let look = Look { raises, read };
                match tables.look_for(&target.asked(), &look, Duration::from_millis(deadline_ms)).await {
                    Ok(()) => Reply::Looked,
                    Err(Unseen { why, is_locked }) => Reply::Unseen { why, is_locked },
                }
            }
        };
        lines.send(&reply).await?;
    }
    Ok(())
}
