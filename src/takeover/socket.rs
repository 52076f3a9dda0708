//! The Unix socket of a takeover: lines of JSON, and a listening socket that is passed along.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::{UnixListener, UnixStream};

use super::wire::{HandedDoor, Reply};

/// In `state.path`.
pub const SOCKET: &str = "takeover.sock";

/// The sockets that one line has room for: the listener and one for each door.
const SOCKETS_MAX: usize = 1 + HandedDoor::ALL.len();

/// No line is longer: names are at most some hundred bytes.
const LINE_BYTES_MAX: u64 = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    #[error("the running process refused the takeover: {0}")]
    Refused(String),
    #[error(
        "the running process broke off the takeover; it continues to serve, unless it has ended; read its log"
    )]
    GoneAway,
    #[error(
        "the listening socket that was handed over cannot be used: {0}; write the listen.address of the running process"
    )]
    Listener(io::Error),
    #[error("{path}: {error}", path = path.display())]
    Socket { path: PathBuf, error: io::Error },
}

/// A socket at `folder` in the place of any that is there. Another process of the same user may
/// connect.
pub(super) fn listen(folder: &Path) -> io::Result<UnixListener> {
    // The name is the other process's until the last step, which puts one in the other's place.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let made = folder.join(format!("{SOCKET}.{}", std::process::id()));
    match std::fs::remove_file(&made) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&made)?;
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&made, folder.join(SOCKET))?;
    Ok(listener)
}

/// True if the peer is a process of this user, or root's.
pub(super) fn is_ours(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == me || peer.uid() == 0)
}

/// One end of a connection.
pub(super) struct Lines(BufReader<UnixStream>);

impl Lines {
    pub(super) fn peer_pid(&self) -> Option<i32> {
        self.0.get_ref().peer_cred().ok()?.pid()
    }

    pub(super) fn new(stream: UnixStream) -> Lines {
        Lines(BufReader::new(stream))
    }

    pub(super) async fn connect(path: &Path) -> io::Result<Lines> {
        UnixStream::connect(path).await.map(Lines::new)
    }

    pub(super) async fn send(&mut self, line: &impl Serialize) -> io::Result<()> {
        self.0.write_all(&encoded(line)?).await
    }

    /// `None`: the peer has ended.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        (&mut self.0).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        decoded(&line).map(Some)
    }

    /// Sends a line and sockets with it.
    pub(super) async fn send_with(
        &mut self,
        line: &impl Serialize,
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let line = encoded(line)?;
        let stream = self.0.get_ref();
        let sent = stream.async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
                return Err(io::ErrorKind::ArgumentListTooLong.into());
            }
            Ok(sendmsg(stream, &[IoSlice::new(&line)], &mut ancillary, SendFlags::NOSIGNAL)?)
        });
        // An empty socket's buffer holds a line whole.
        if sent.await? < line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(())
    }

    /// The next line with the sockets that came with it; nothing has been read ahead.
    pub(super) async fn next_with(&mut self) -> io::Result<(Option<Reply>, Vec<OwnedFd>)> {
        let stream = self.0.get_ref();
        let mut line = [0; 4096];
        let (bytes, sockets) = stream
            .async_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let mut into = [IoSliceMut::new(&mut line)];
                let received = recvmsg(stream, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
                let sockets = ancillary.drain().filter_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
                    _ => None,
                });
                Ok((received.bytes, sockets.flatten().collect()))
            })
            .await?;
        let line = line.get(..bytes).unwrap_or_default();
        let reply = if line.is_empty() { None } else { Some(decoded(line)?) };
        Ok((reply, sockets))
    }
}

fn encoded(line: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    Ok(line)
}

fn decoded<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(line)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use tokio::net::UnixStream;

    use super::{Lines, Reply, SOCKETS_MAX};

    #[tokio::test]
    async fn the_listener_and_the_sockets_of_all_doors_go_along() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (Lines::new(ours), Lines::new(theirs));
        let socket = std::fs::File::open("/dev/null").unwrap();
        ours.send_with(&Reply::Handed, &[socket.as_fd(); SOCKETS_MAX]).await.unwrap();
        let (reply, sockets) = theirs.next_with().await.unwrap();
        assert!(matches!(reply, Some(Reply::Handed)));
        assert_eq!(sockets.len(), SOCKETS_MAX);
        let too_many = [socket.as_fd(); SOCKETS_MAX + 8];
        ours.send_with(&Reply::Handed, &too_many).await.unwrap_err();
    }
}
