//! One client: its requests in their order, each answered before the next is looked at. What has come at once is answered by one write.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};

use tokio::io::{AsyncWriteExt, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::client::{RespOffice, RespSession, Then};
use super::command::{Command, CommandKind};
use super::request::{Args, Limits, Parsed, parse};
use crate::address::lobby::Place;
use crate::address::socket::Stream;
use crate::doors::entry::{End, Guest, Protocol};
use crate::doors::issuer::Issuer;

/// Answers are sent when there are so many bytes of them, and where no whole request is left.
const ANSWERS_BYTES: usize = 64 * 1024;

const READ_BYTES: usize = 16 * 1024;

thread_local! {
    /// A client that is silent holds no buffer: bytes are read into this one.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// The Redis protocol.
pub struct Redis(Arc<RespOffice>);

impl Redis {
    /// `proxy`: its name.
    pub fn new(issuer: Issuer, proxy: &str) -> Redis {
        let (throttle, proxy) = (Arc::default(), proxy.to_owned());
        Redis(Arc::new(RespOffice { issuer, throttle, proxy, since: Instant::now() }))
    }
}

impl Protocol for Redis {
    const NAME: &'static str = "the Redis protocol";
    const NEEDS_TLS: &'static str = "-ERR this port needs TLS (resp.tls.mode = \"required\")\r\n";

    async fn serve(&self, guest: Guest<'_>) -> io::Result<End> {
        let mut session = RespSession::new(self.0.clone(), &guest);
        session.serve(guest.stream, guest.place, guest.draining).await
    }
}

impl RespSession {
    /// Serves the client to its end. `place`: among those who have not logged in.
    async fn serve(
        &mut self,
        wire: &mut dyn Stream,
        place: Place,
        draining: watch::Receiver<bool>,
    ) -> io::Result<End> {
        // Made once: a timer that is set for each request would cost as much as the request.
        let mut drain = draining.clone();
        let mut drained = pin!(drain.wait_for(|draining| *draining));
        let mut waits_until = pin!(sleep_until(self.limits.login_until));
        let (mut place, mut heard) = (Some(place), Instant::now());
        let (mut input, mut needs) = (Vec::new(), 1);
        loop {
            let (used, end) = self.answer_all(wire, &input, &mut needs, &draining).await?;
            if self.seat.is_some() {
                place = None;
            }
            if !self.send(wire).await? {
                return Ok(End::Stalled);
            }
            if let Some(end) = end {
                return Ok(end);
            }
            if used == input.len() {
                input = Vec::new();
            } else {
                input.drain(..used);
            }
            // Not by the timer alone: while bytes come, nothing else is looked at below.
            if *draining.borrow() {
                return Ok(End::Drained);
            }
            if place.is_some() && Instant::now() >= self.limits.login_until {
                return self.came_too_late(wire).await;
            }
            let read = loop {
                // While the proxy drains, a request that has come in part is not done: the client asks another proxy.
                tokio::select! {
                    biased;
                    read = read_some(wire, &mut input) => break read?,
                    _ = &mut drained => return Ok(End::Drained),
                    () = &mut waits_until => {}
                }
                if place.is_some() {
                    return self.came_too_late(wire).await;
                }
                let until = heard + self.limits.idle;
                if until <= Instant::now() {
                    return Ok(End::Idle);
                }
                waits_until.as_mut().reset(until);
            };
            if read == 0 {
                return Ok(End::Client);
            }
            heard = Instant::now();
        }
    }

    async fn came_too_late(&mut self, wire: &mut dyn Stream) -> io::Result<End> {
        self.replies.error("NOAUTH", "no login within limits.handshake_timeout");
        self.send(wire).await?;
        Ok(End::Login)
    }

    /// Answers each request that has come whole; how many bytes these were. `needs`: so many bytes there are at least of the one that has not.
    async fn answer_all(
        &mut self,
        wire: &mut dyn Stream,
        input: &[u8],
        needs: &mut usize,
        draining: &watch::Receiver<bool>,
    ) -> io::Result<(usize, Option<End>)> {
        let (mut args, mut used, mut repeats) = (Args::default(), 0, true);
        loop {
            // For each: the client may have let answers wait.
            self.look_again();
            let rest = input.get(used..).unwrap_or_default();
            if rest.len() < *needs {
                return Ok((used, None));
            }
            let limits = if self.caller.is_some() { Limits::LOGGED_IN } else { Limits::BEFORE_LOGIN };
            match parse(rest, limits, &mut args) {
                Ok(Parsed::Part(bytes)) => *needs = bytes,
                Ok(Parsed::Whole(bytes)) => {
                    *needs = 1;
                    let (then, times) = self.answer(&args, rest, bytes, &mut repeats).await;
                    used += bytes * times;
                    if let Then::End(end) = then {
                        return Ok((used, Some(end)));
                    }
                    if self.replies.bytes.len() >= ANSWERS_BYTES && !self.send(wire).await? {
                        return Ok((used, Some(End::Stalled)));
                    }
                    // Much may have changed meanwhile.
                    if std::mem::take(&mut self.has_waited) && *draining.borrow() {
                        return Ok((used, Some(End::Drained)));
                    }
                }
                Err(violation) => {
                    self.replies.error("ERR", violation);
                    return Ok((used, Some(End::Violation)));
                }
            }
        }
    }

    /// A client whose user or secret is no more has to log in again.
    fn look_again(&mut self) {
        let roster = self.office.issuer.users.roster();
        if Arc::ptr_eq(&roster, &self.roster) {
            return;
        }
        if let Some(caller) = &mut self.caller {
            match caller.login.as_of(&roster) {
                Some(login) => caller.login = login,
                None => self.caller = None,
            }
        }
        self.roster = roster;
    }

    /// Answers the request of so many bytes at the beginning of `input`, and perhaps more that are the same: how many. `repeats`: those are looked
    /// for.
    async fn answer(&mut self, args: &Args, input: &[u8], bytes: usize, repeats: &mut bool) -> (Then, usize) {
        let Some(name) = args.get(input, 0) else { return (Then::Next, 1) };
        let Some(command) = Command::find(name) else {
            self.unknown(name);
            return (Then::Next, 1);
        };
        if !command.takes(args.len()) {
            let why = format_args!("wrong number of arguments for '{}' command", command.name);
            self.replies.error("ERR", why);
            return (Then::Next, 1);
        }
        if command.needs_login() && self.caller.is_none() {
            self.replies.error("NOAUTH", "Authentication required.");
            return (Then::Next, 1);
        }
        if command.what == CommandKind::Incr && *repeats {
            // A pipeline often repeats one request.
            let first = input.get(..bytes).unwrap_or_default();
            let same = input.chunks_exact(bytes).take_while(|request| *request == first).count();
            *repeats = self.incr(args.get(input, 1).unwrap_or_default(), same);
            if *repeats {
                return (Then::Next, same);
            }
        }
        (self.run(command, args, input).await, 1)
    }

    /// Sends the answers that there are. `false`: the client does not read them.
    async fn send(&mut self, wire: &mut dyn Stream) -> io::Result<bool> {
        if self.replies.bytes.is_empty() {
            return Ok(true);
        }
        let bytes = std::mem::take(&mut self.replies.bytes);
        let written = timeout(self.limits.write, async {
            wire.write_all(&bytes).await?;
            wire.flush().await
        });
        match written.await {
            Ok(written) => written.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// Adds what has come to `input`. 0: the client has ended.
async fn read_some(wire: &mut dyn Stream, input: &mut Vec<u8>) -> io::Result<usize> {
    poll_fn(|cx| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut into = ReadBuf::new(scratch);
            ready!(Pin::new(&mut *wire).poll_read(cx, &mut into))?;
            input.extend_from_slice(into.filled());
            Poll::Ready(Ok(into.filled().len()))
        })
    })
    .await
}

#[cfg(test)]
mod tests;
