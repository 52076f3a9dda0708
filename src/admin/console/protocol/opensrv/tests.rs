use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use proptest::prelude::{any, proptest};
use proptest::prop_oneof;
use proptest::strategy::{Just, Strategy};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use super::{OnePacketReader, Writer};
use crate::admin::console::PACKET_BYTES_MAX;
use crate::admin::console::protocol::commands::SharedState;
use crate::mysql::capabilities::Capabilities;
use crate::mysql::error::Refusal;
use crate::mysql::packet::Header;

const SOON: Duration = Duration::from_secs(5);
const PING: &[u8] = b"\x0e";
/// The command that the library gets in place of a refused one.
const EMPTY_QUERY: &[u8] = b"\x03";

fn packet(payload: &[u8]) -> Vec<u8> {
    super::packet(0, payload).into_inner()
}

/// A client's bytes as they come in: a read finds the rest of one piece, and the next piece is not there yet.
struct Pieces {
    left: VecDeque<Vec<u8>>,
    waits: bool,
}

impl Pieces {
    /// `lengths`, again and again; none: all at once.
    fn new(sent: &[u8], lengths: &[usize]) -> Pieces {
        let mut lengths = lengths.iter().copied().cycle();
        let (mut left, mut rest) = (VecDeque::new(), sent);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(lengths.next().unwrap_or(usize::MAX).min(rest.len()));
            left.push_back(piece.to_vec());
            rest = behind;
        }
        Pieces { left, waits: false }
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.waits) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(mut piece) = self.left.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            self.waits = rest.is_empty();
            if !rest.is_empty() {
                self.left.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The payloads that the library gets, packet by packet, without the login. This is its reader as its source has it:
/// the bytes of a read go to the end of its buffer, and it reads again only if no whole packet is there. The buffer
/// must never have a byte of a second packet.
async fn library_gets(reader: &mut (impl AsyncRead + Unpin), read_bytes_max: usize) -> Vec<Vec<u8>> {
    let (mut packets, mut buffer) = (Vec::new(), Vec::new());
    loop {
        if let Some(header) = Header::parse(&buffer).filter(|header| buffer.len() >= header.packet_bytes()) {
            assert_eq!(buffer.len(), header.packet_bytes(), "a second packet in the buffer: {buffer:?}");
            packets.push(std::mem::take(&mut buffer));
        }
        let mut read = vec![0; read_bytes_max];
        match reader.read(&mut read).await.unwrap() {
            0 => {
                assert!(buffer.is_empty(), "a part of a packet at the end: {buffer:?}");
                return packets.split_off(1);
            }
            bytes => buffer.extend_from_slice(&read[..bytes]),
        }
    }
}

fn reader_of(sent: &[u8], lengths: &[usize]) -> (SharedState, OnePacketReader<Pieces>) {
    let state = SharedState::default();
    let capabilities = Capabilities::DEPRECATE_EOF;
    (state.clone(), OnePacketReader::new(Pieces::new(sent, lengths), state, capabilities, SOON))
}

fn on_a_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// A client's command, and what the library gets of it.
fn command() -> impl Strategy<Value = (Vec<u8>, Option<Vec<u8>>)> {
    let given = |payload: &[u8]| (payload.to_vec(), Some(payload.to_vec()));
    prop_oneof![
        Just(given(PING)),
        (0..9_000_usize).prop_map(|bytes| {
            let text = "x".repeat(bytes);
            (format!("\x03{text}").into_bytes(), Some(format!("\x03 {text}").into_bytes()))
        }),
        // COM_STMT_CLOSE of what is not prepared has no answer.
        Just((b"\x19\x07\0\0\0".to_vec(), None)),
        Just((b"\x11root\0".to_vec(), Some(EMPTY_QUERY.to_vec()))),
        Just((vec![], Some(EMPTY_QUERY.to_vec()))),
    ]
}

proptest! {
    #[test]
    fn no_two_packets_reach_the_library_at_once(
        commands in proptest::collection::vec(command(), 0..20),
        lengths in proptest::collection::vec(1..10_000_usize, 0..20),
        read_bytes_max in prop_oneof![Just(4_096_usize), Just(1 << 20), 1..64_usize],
    ) {
        let sent: Vec<u8> = commands.iter().flat_map(|(payload, _)| packet(payload)).collect();
        let expect: Vec<_> = commands.iter().filter_map(|(_, given)| given.as_deref().map(packet)).collect();
        let got = on_a_runtime(async { library_gets(&mut reader_of(&sent, &lengths).1, read_bytes_max).await });
        assert_eq!(got, expect);
    }

    #[test]
    fn any_bytes_in_any_pieces(sent: Vec<u8>, length in 1..50_usize, read_bytes_max in any::<u8>()) {
        let read_bytes_max = usize::from(read_bytes_max) + 1;
        on_a_runtime(async { library_gets(&mut reader_of(&sent, &[length]).1, read_bytes_max).await });
    }
}

#[tokio::test]
async fn what_ends_a_connection() {
    let bytes_max = PACKET_BYTES_MAX;
    let too_big = [u32::try_from(bytes_max + 1).unwrap(), 0xFF_FFFF].map(u32::to_le_bytes);
    for (sent, pings, refusal) in [
        ([packet(PING), too_big[0].to_vec()].concat(), 1, Refusal::FixedLimit(bytes_max)),
        (too_big[1].to_vec(), 0, Refusal::FixedLimit(bytes_max)),
        ([packet(PING), vec![1, 0, 0, 1, 0x0E]].concat(), 1, Refusal::PacketsOutOfOrder),
    ] {
        let (state, mut reader) = reader_of(&[sent, packet(PING)].concat(), &[]);
        let mut expect = vec![packet(PING); pings];
        expect.push(packet(EMPTY_QUERY));
        assert_eq!(library_gets(&mut reader, 100).await, expect);
        assert_eq!(state.lock().refusal, Some(refusal));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_silent_is_dropped() {
    let (near, _far) = tokio::io::duplex(16);
    let mut idle = OnePacketReader::new(near, SharedState::default(), Capabilities::default(), SOON);
    let mut login = [0; 100];
    assert_eq!(idle.read(&mut login).await.unwrap(), 38);
    assert_eq!(idle.read(&mut login).await.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_dropped() {
    let (near, _far) = tokio::io::duplex(16);
    let mut writer = Writer::new(near, SOON);
    writer.flush().await.unwrap();
    writer.flush().await.unwrap();
    assert_eq!(writer.write_all(&[0; 17]).await.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test]
async fn what_is_written_before_the_second_flush_goes_to_nobody() {
    let mut client = Vec::new();
    let mut writer = Writer::new(&mut client, SOON);
    for text in ["greeting", "OK", "answer"] {
        writer.write_all(text.as_bytes()).await.unwrap();
        writer.flush().await.unwrap();
    }
    assert_eq!(client, b"answer");
}
