//! What a client sends, for opensrv-mysql 0.7.0, which is fed one packet a read.
//!
//! Behind a packet its reader frees the buffer that the packet is borrowed from, if there is more in it: so there never is. It ends
//! the connection, panics or says OK where a command is not what it knows: those come to it as an empty query with the refusal beside
//! it, or not at all. It answers `SELECT @@max_allowed_packet` and `USE` by itself, by the first bytes of the text: texts get a blank
//! in front. Its login is one of a form, since the real one is behind us: what it says in it goes to nobody.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use crate::admin::console::PACKET_BYTES_MAX;
use crate::admin::console::patience::Patience;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header, put_packets};

const COM_QUIT: u8 = 0x01;
const COM_INIT_DB: u8 = 0x02;
const COM_QUERY: u8 = 0x03;
const COM_FIELD_LIST: u8 = 0x04;
const COM_PING: u8 = 0x0E;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_SEND_LONG_DATA: u8 = 0x18;
const COM_STMT_CLOSE: u8 = 0x19;
const COM_STMT_RESET: u8 = 0x1A;
const COM_RESET_CONNECTION: u8 = 0x1F;
/// COM_STMT_EXECUTE: the command, the statement's id, flags, a count.
const EXECUTE_BYTES_MIN: usize = 10;
/// What the gate and the session know together.
#[derive(Debug, Default)]
pub(crate) struct Between {
    /// The answer to the query that comes next.
    pub(crate) refusal: Option<Refusal>,
    /// The texts of prepared statements.
    pub(crate) prepared: BTreeMap<u32, String>,
    pub(crate) database: Option<String>,
}

pub(crate) type Shared = Arc<Mutex<Between>>;

pub(crate) fn lock(shared: &Shared) -> MutexGuard<'_, Between> {
    // Each change is whole by itself.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the client sends, packet by packet.
pub(crate) struct Gate<R> {
    client: R,
    shared: Shared,
    patience: Patience,
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    payload: Vec<u8>,
    payload_bytes: usize,
    /// A packet for opensrv-mysql, and how much of it was read.
    ready: Vec<u8>,
    taken_bytes: usize,
    has_ended: bool,
}

/// What becomes of a command.
#[derive(Debug, PartialEq, Eq)]
enum Passed {
    /// This packet goes on.
    On(Vec<u8>),
    Refused(Refusal),
    /// It has no answer.
    Dropped,
}

impl<R> Gate<R> {
    /// First comes a login of a form, with what the client can do.
    pub(crate) fn new(client: R, shared: Shared, capabilities: Capabilities, idle: Duration) -> Self {
        Gate {
            client,
            shared,
            patience: Patience::new(idle),
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            payload: Vec::new(),
            payload_bytes: 0,
            ready: login(capabilities),
            taken_bytes: 0,
            has_ended: false,
        }
    }

    /// What is ready of a packet goes to the reader; whether there was any.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.ready.get(self.taken_bytes..).unwrap_or_default();
        let now = rest.get(..rest.len().min(buf.remaining())).unwrap_or_default();
        if now.is_empty() {
            return false;
        }
        buf.put_slice(now);
        self.taken_bytes += now.len();
        if self.taken_bytes == self.ready.len() {
            (self.ready, self.taken_bytes) = (Vec::new(), 0);
        }
        true
    }

    fn refuse(&mut self, refusal: Refusal) {
        lock(&self.shared).refusal = Some(refusal);
        self.ready = packet(&[COM_QUERY]);
    }

    /// The header is whole. What cannot be followed by another packet ends the connection behind its answer.
    fn begin(&mut self, header: Header) {
        if header.packet_nr != 0 {
            self.has_ended = true;
            self.refuse(Refusal::PacketsOutOfOrder);
        } else if header.payload_bytes > PACKET_BYTES_MAX {
            self.has_ended = true;
            self.refuse(Refusal::PacketTooBig { bytes_max: PACKET_BYTES_MAX });
        }
        self.payload_bytes = header.payload_bytes;
    }

    /// The payload is whole.
    fn end(&mut self) {
        self.header_bytes = 0;
        let payload = std::mem::take(&mut self.payload);
        let passed = pass(payload, &mut lock(&self.shared));
        match passed {
            Passed::On(payload) => self.ready = packet(&payload),
            Passed::Refused(refusal) => self.refuse(refusal),
            Passed::Dropped => {}
        }
    }
}

/// HandshakeResponse41, of nobody: the session has no use for a name, and is told OK whatever it is.
fn login(capabilities: Capabilities) -> Vec<u8> {
    // Servers put the length in front of an OK's text for every client, and MariaDB's takes it for malformed without; opensrv-mysql
    // does so only behind session tracking, which changes nothing else.
    let form = (Capabilities::DEPRECATE_EOF & capabilities) | Capabilities::SESSION_TRACK;
    let bits = form | Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
    let mut payload = bits.base().to_le_bytes().to_vec();
    payload.resize(34, 0);
    let mut out = Vec::new();
    put_packets(&mut out, 1, &payload);
    out
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
    put_packets(&mut out, 0, payload);
    out
}

fn pass(mut payload: Vec<u8>, between: &mut Between) -> Passed {
    let Some((&command, rest)) = payload.split_first() else {
        return Passed::Refused(Refusal::UnknownCommand(0));
    };
    let statement = rest.first_chunk().map(|id| u32::from_le_bytes(*id));
    let is_known = statement.is_some_and(|id| between.prepared.contains_key(&id));
    let unknown = Refusal::UnknownStatement(statement.unwrap_or_default());
    match command {
        COM_QUERY | COM_STMT_PREPARE | COM_INIT_DB if std::str::from_utf8(rest).is_err() => {
            Passed::Refused(Refusal::MalformedPacket)
        }
        COM_QUERY => {
            payload.insert(1, b' ');
            Passed::On(payload)
        }
        COM_STMT_EXECUTE if payload.len() < EXECUTE_BYTES_MIN => Passed::Refused(Refusal::MalformedPacket),
        // To a reset, which it does not know, opensrv-mysql says OK.
        COM_STMT_EXECUTE | COM_STMT_RESET | COM_STMT_CLOSE if is_known => Passed::On(payload),
        COM_STMT_EXECUTE | COM_STMT_RESET => Passed::Refused(unknown),
        COM_STMT_CLOSE | COM_STMT_SEND_LONG_DATA => Passed::Dropped,
        COM_RESET_CONNECTION => {
            *between = Between::default();
            Passed::On(payload)
        }
        COM_STMT_PREPARE | COM_INIT_DB | COM_QUIT | COM_PING | COM_FIELD_LIST => Passed::On(payload),
        other => Passed::Refused(Refusal::UnknownCommand(other)),
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Gate<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        loop {
            if gate.give(buf) || gate.has_ended || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let is_header = gate.header_bytes < HEADER_BYTES;
            let mut piece = [0; 4096];
            let wanted = if is_header {
                HEADER_BYTES - gate.header_bytes
            } else {
                piece.len().min(gate.payload_bytes - gate.payload.len())
            };
            let mut read = ReadBuf::new(piece.get_mut(..wanted).unwrap_or_default());
            if wanted > 0 {
                let polled = Pin::new(&mut gate.client).poll_read(cx, &mut read);
                ready!(gate.patience.poll(cx, polled))?;
                if read.filled().is_empty() {
                    // In the middle of a packet or not: nobody is there to be told.
                    gate.has_ended = true;
                    continue;
                }
            }
            if is_header {
                for byte in read.filled() {
                    if let Some(place) = gate.header.get_mut(gate.header_bytes) {
                        *place = *byte;
                        gate.header_bytes += 1;
                    }
                }
                if let Some(header) =
                    Header::parse(&gate.header).filter(|_| gate.header_bytes == HEADER_BYTES)
                {
                    gate.begin(header);
                }
            } else {
                gate.payload.extend_from_slice(read.filled());
            }
            let is_whole = gate.header_bytes == HEADER_BYTES && gate.payload.len() == gate.payload_bytes;
            if is_whole && !gate.has_ended {
                gate.end();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Between, COM_PING, COM_QUERY, Gate, Passed, Shared, lock, packet, pass};
    use crate::admin::console::PACKET_BYTES_MAX;
    use crate::mysql::capabilities::Capabilities;
    use crate::mysql::error::Refusal;
    use proptest::prelude::proptest;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    const SOON: Duration = Duration::from_secs(5);

    fn gate(sent: Vec<u8>) -> (Shared, Gate<std::io::Cursor<Vec<u8>>>) {
        let shared = Shared::default();
        let capabilities = Capabilities::DEPRECATE_EOF;
        (shared.clone(), Gate::new(std::io::Cursor::new(sent), shared, capabilities, SOON))
    }

    /// What each read gives, the login left out.
    async fn reads(gate: &mut (impl tokio::io::AsyncRead + Unpin), buffer_bytes: usize) -> Vec<Vec<u8>> {
        let mut reads = Vec::new();
        loop {
            let mut buffer = vec![0; buffer_bytes];
            match gate.read(&mut buffer).await.unwrap() {
                0 => return reads.split_off(1),
                bytes => reads.push(buffer[..bytes].to_vec()),
            }
        }
    }

    #[tokio::test]
    async fn however_much_is_sent_a_read_gives_one_packet() {
        let texts: Vec<_> = (0..100).map(|nth| format!("SELECT {nth}{}", " ".repeat(nth * 60))).collect();
        let sent = |text: &String| packet(&[&[COM_QUERY], text.as_bytes()].concat());
        let (_, mut gate) = gate(texts.iter().flat_map(sent).collect());
        let expect: Vec<_> = texts.iter().map(|text| packet(format!("\x03 {text}").as_bytes())).collect();
        assert_eq!(reads(&mut gate, 1 << 16).await, expect);
    }

    #[tokio::test]
    async fn a_small_buffer_gets_pieces_of_one_packet() {
        let (_, mut gate) = gate([packet(b"\x03SELECT 1"), packet(&[COM_PING])].concat());
        let mut login = [0; 38];
        gate.read_exact(&mut login).await.unwrap();
        let pieces = reads(&mut std::io::Cursor::new([0]).chain(gate), 5).await;
        assert!(pieces.iter().all(|piece| piece.len() <= 5));
        assert_eq!(pieces.concat(), [packet(b"\x03 SELECT 1"), packet(&[COM_PING])].concat()[..]);
    }

    #[tokio::test]
    async fn what_ends_a_connection() {
        let mut big = packet(&[COM_PING]);
        big.extend_from_slice(&u32::try_from(PACKET_BYTES_MAX + 1).unwrap().to_le_bytes());
        let full = |out: &mut Vec<u8>| out.extend_from_slice(&[0xFF, 0xFF, 0xFF, 0]);
        let mut several = Vec::new();
        full(&mut several);
        let second = [packet(&[COM_PING]), vec![1, 0, 0, 1, COM_PING]].concat();
        let bytes_max = PACKET_BYTES_MAX;
        for (sent, pings, refusal) in [
            (big, 1, Refusal::PacketTooBig { bytes_max }),
            (several, 0, Refusal::PacketTooBig { bytes_max }),
            (second, 1, Refusal::PacketsOutOfOrder),
        ] {
            let (shared, mut gate) = gate([sent, packet(&[COM_PING])].concat());
            let mut expect = vec![packet(&[COM_PING]); pings];
            expect.push(packet(&[COM_QUERY]));
            assert_eq!(reads(&mut gate, 100).await, expect);
            assert_eq!(lock(&shared).refusal, Some(refusal));
        }
    }

    #[test]
    fn commands() {
        let mut between = Between { prepared: [(1, String::new())].into(), ..Between::default() };
        let execute = |id: u8| vec![0x17, id, 0, 0, 0, 0, 1, 0, 0, 0];
        let refused = Passed::Refused;
        for (payload, expect) in [
            (b"\x03USE x".to_vec(), Passed::On(b"\x03 USE x".to_vec())),
            (b"\x03\xff".to_vec(), refused(Refusal::MalformedPacket)),
            (b"\x02\xff".to_vec(), refused(Refusal::MalformedPacket)),
            (b"\x16SHOW RULES".to_vec(), Passed::On(b"\x16SHOW RULES".to_vec())),
            (execute(1), Passed::On(execute(1))),
            (execute(2), refused(Refusal::UnknownStatement(2))),
            (execute(1)[..9].to_vec(), refused(Refusal::MalformedPacket)),
            (b"\x17".to_vec(), refused(Refusal::MalformedPacket)),
            (b"\x1a\x02\0\0\0".to_vec(), refused(Refusal::UnknownStatement(2))),
            (b"\x19\x02\0\0\0".to_vec(), Passed::Dropped),
            (b"\x19\x01".to_vec(), Passed::Dropped),
            (b"\x18\x01\0\0\0\0\0x".to_vec(), Passed::Dropped),
            (b"\x11dba".to_vec(), refused(Refusal::UnknownCommand(0x11))),
            (b"\x09".to_vec(), refused(Refusal::UnknownCommand(9))),
            (b"\x0c\x01\0\0\0".to_vec(), refused(Refusal::UnknownCommand(0x0C))),
            (b"\xff".to_vec(), refused(Refusal::UnknownCommand(0xFF))),
            (vec![], refused(Refusal::UnknownCommand(0))),
            (b"\x1f".to_vec(), Passed::On(b"\x1f".to_vec())),
            (execute(1), refused(Refusal::UnknownStatement(1))),
        ] {
            assert_eq!(pass(payload.clone(), &mut between), expect, "{payload:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces(sent: Vec<u8>, buffer_bytes in 1_usize..50) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async { reads(&mut gate(sent).1, buffer_bytes).await });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_silent_is_left() {
        let (near, _far) = tokio::io::duplex(16);
        let mut idle = Gate::new(near, Shared::default(), Capabilities::default(), SOON);
        let mut login = [0; 100];
        assert_eq!(idle.read(&mut login).await.unwrap(), 38);
        let silent = idle.read(&mut login).await.unwrap_err();
        assert_eq!(silent.kind(), std::io::ErrorKind::TimedOut);
    }
}
