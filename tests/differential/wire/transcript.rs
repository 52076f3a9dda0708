//! The bytes of a connection as commands and their answers.
//!
//! Packet numbers alone tell which packet answers which command, not what is in the packets: an answer goes on
//! from its command's numbers, one by one. An answer of exactly 255 packets could not be told from the next one's
//! beginning; the cases have none.

use std::collections::VecDeque;

use crate::support::tap::Direction;

pub(crate) const PACKET_MAX: usize = 0x00FF_FFFF;

/// Commands that nothing answers.
const UNANSWERED: [u8; 3] = [command::QUIT, command::STMT_CLOSE, command::STMT_SEND_LONG_DATA];

/// First bytes of commands.
pub(crate) mod command {
    pub(crate) const QUIT: u8 = 0x01;
    pub(crate) const QUERY: u8 = 0x03;
    pub(crate) const CHANGE_USER: u8 = 0x11;
    pub(crate) const STMT_PREPARE: u8 = 0x16;
    pub(crate) const STMT_EXECUTE: u8 = 0x17;
    pub(crate) const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub(crate) const STMT_CLOSE: u8 = 0x19;
    pub(crate) const STMT_RESET: u8 = 0x1A;
    pub(crate) const STMT_FETCH: u8 = 0x1C;
}

/// A message of one side, put together from its packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payload {
    /// The number of its first packet.
    nr: u8,
    packets: u8,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// The command, and what the client sends on within it: a local file, the steps of a COM_CHANGE_USER.
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) answer: Vec<Vec<u8>>,
    /// The number of the next packet.
    due: u8,
}

#[derive(Debug)]
pub(crate) struct Transcript {
    /// The capabilities that the client asked for in its login.
    pub(crate) capabilities: u32,
    /// The exchanges after the login.
    pub(crate) exchanges: Vec<Exchange>,
}

impl Exchange {
    /// Makes an exchange from parts of another one.
    pub(crate) fn new(sent: Vec<Vec<u8>>, answer: &[Vec<u8>]) -> Self {
        Exchange { sent, answer: answer.to_vec(), due: 0 }
    }

    pub(crate) fn command(&self) -> &[u8] {
        &self.sent[0]
    }

    /// The bytes after the command's byte.
    pub(crate) fn text(&self) -> &[u8] {
        self.command().get(1..).unwrap_or_default()
    }

    pub(crate) fn byte(&self) -> u8 {
        self.command().first().copied().unwrap_or_default()
    }

    /// Code and message of the error that the answer ends with.
    pub(crate) fn error(&self) -> Option<(u16, &[u8])> {
        match self.answer.last()?.as_slice() {
            [0xFF, low, high, b'#', _, _, _, _, _, text @ ..] => {
                Some((u16::from_le_bytes([*low, *high]), text))
            }
            _ => None,
        }
    }

    /// The statement's id, if this is a COM_STMT_PREPARE that succeeded.
    pub(crate) fn statement_id(&self) -> Option<u32> {
        let answer = self.answer.first().filter(|answer| answer.first() == Some(&0))?;
        number(answer, 1)
    }
}

/// Four bytes of it.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl Transcript {
    /// With the connection's number, which is the same on both sides of the proxy. `None`: the log does not begin with a
    /// login.
    pub(crate) fn read(log: &[(Direction, Vec<u8>)]) -> Option<(u32, Result<Transcript, String>)> {
        let (payloads, left) = payloads(log);
        let is_command =
            |(direction, payload): &(Direction, Payload)| *direction == Direction::Up && payload.nr == 0;
        let begin = payloads.iter().position(is_command).unwrap_or(payloads.len());
        let (login, commands) = payloads.split_at(begin);
        let greeting =
            login.first().filter(|(direction, payload)| *direction == Direction::Down && payload.nr == 0)?;
        let version_end = greeting.1.bytes.iter().position(|byte| *byte == 0)?;
        let connection_id = number(&greeting.1.bytes, version_end + 1)?;
        let response = login.iter().find(|(direction, _)| *direction == Direction::Up)?;
        let mut transcript =
            Transcript { capabilities: number(&response.1.bytes, 0)?, exchanges: Vec::new() };
        let followed = transcript.follow(commands).and(left);
        Some((connection_id, followed.map(|()| transcript)))
    }

    fn follow(&mut self, payloads: &[(Direction, Payload)]) -> Result<(), String> {
        // Exchanges that wait for their answers, or for the rest of them.
        let mut open: VecDeque<usize> = VecDeque::new();
        for (direction, payload) in payloads {
            let next = open.front().map(|at| &mut self.exchanges[*at]);
            let after = payload.nr.wrapping_add(payload.packets);
            match (direction, next) {
                // Numbers of a long file come by 0 again.
                (Direction::Up, Some(exchange))
                    if payload.nr != 0 || exchange.due == 0 && exchange.answer.len() == 1 =>
                {
                    exchange.expect(payload.nr)?;
                    exchange.sent.push(payload.bytes.clone());
                    exchange.due = after;
                }
                (Direction::Up, _) if payload.nr == 0 => {
                    let sent = vec![payload.bytes.clone()];
                    self.exchanges.push(Exchange { sent, answer: Vec::new(), due: after });
                    if payload.bytes.first().is_some_and(|byte| !UNANSWERED.contains(byte)) {
                        open.push_back(self.exchanges.len() - 1);
                    }
                }
                (Direction::Down, Some(exchange)) => {
                    let exchange = if exchange.due != payload.nr && !exchange.answer.is_empty() {
                        open.pop_front();
                        let next = open.front().map(|at| &mut self.exchanges[*at]);
                        next.ok_or_else(|| unasked(payload))?
                    } else {
                        exchange
                    };
                    exchange.expect(payload.nr)?;
                    exchange.answer.push(payload.bytes.clone());
                    exchange.due = after;
                }
                _ => return Err(unasked(payload)),
            }
        }
        let unanswered =
            open.iter().map(|at| &self.exchanges[*at]).find(|exchange| exchange.answer.is_empty());
        match unanswered {
            Some(exchange) => Err(format!("nothing answers {}", shown(exchange.command()))),
            None => Ok(()),
        }
    }
}

impl Exchange {
    fn expect(&self, nr: u8) -> Result<(), String> {
        if nr == self.due {
            return Ok(());
        }
        Err(format!(
            "packet number {nr} where {} was due, in the answer to {}",
            self.due,
            shown(self.command())
        ))
    }
}

fn unasked(payload: &Payload) -> String {
    format!("packet number {} answers nothing: {}", payload.nr, shown(&payload.bytes))
}

/// The payloads in the order in which they were complete, and what is wrong after them.
fn payloads(log: &[(Direction, Vec<u8>)]) -> (Vec<(Direction, Payload)>, Result<(), String>) {
    let mut all = Vec::new();
    let mut lanes = [(Vec::new(), None), (Vec::new(), None)];
    for (direction, bytes) in log {
        let (rest, open) = &mut lanes[usize::from(*direction == Direction::Down)];
        rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some([a, b, c, nr]) =
            rest.get(at..at + 4).and_then(|header| <[u8; 4]>::try_from(header).ok())
        {
            let length = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
            let Some(part) = rest.get(at + 4..at + 4 + length) else { break };
            at += 4 + length;
            let payload = open.get_or_insert_with(|| Payload { nr, packets: 0, bytes: Vec::new() });
            if nr != payload.nr.wrapping_add(payload.packets) {
                let problem = format!("packet number {nr} goes on with {}", shown(&payload.bytes));
                return (all, Err(problem));
            }
            payload.bytes.extend_from_slice(part);
            payload.packets = payload.packets.wrapping_add(1);
            if length < PACKET_MAX {
                all.extend(open.take().map(|payload| (*direction, payload)));
            }
        }
        rest.drain(..at);
    }
    let is_whole = lanes.iter().all(|(rest, open)| rest.is_empty() && open.is_none());
    (all, if is_whole { Ok(()) } else { Err("the connection ends within a packet".to_owned()) })
}

/// For complaints.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 400;
    let head = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii();
    if bytes.len() > SHOWN_BYTES { format!("{head}… ({} bytes)", bytes.len()) } else { head.to_string() }
}
