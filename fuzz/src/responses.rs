//! A server's answers to commands that pass as they are: the client gets the server's bytes, none left out or changed, as long as
//! the session lives; where answers are as they should be, it lives.

use rowstamp::mysql::capabilities::Capabilities as C;
use rowstamp::mysql::packet::{as_packets, put_packets};
use rowstamp::proxy::serve::session::{End, SessionError};

use crate::answers::{AUTOCOMMIT, Answer, Form, MORE_RESULTS};
use crate::bench::{on_runtime, shared_of};
use crate::input::Input;
use crate::memory::{self, SOME_BYTES};
use crate::served::{Beginning, Served};

/// A row that takes several turns of a lane.
const LONG_ROW_BYTES: usize = 20_000;

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let (forms, slice) = (input.byte(), usize::from(input.byte()));
    let bit = |nth: u8| forms >> nth & 1 == 1;
    let capabilities = C::default()
        .with(C::DEPRECATE_EOF, bit(0))
        .with(C::OPTIONAL_RESULTSET_METADATA, bit(1))
        .with(C::MARIADB_CACHE_METADATA, bit(2))
        .with(C::MARIADB_PROGRESS, bit(4) && !bit(1));
    let beginning = Beginning {
        capabilities,
        is_shown_state: true,
        version: if bit(1) { b"9.7.4" } else { b"10.11.6-MariaDB" },
        with_rules: false,
        slice,
    };
    let text = input.rest();
    let long_rows = text.split(|&byte| byte == b'|').filter(|part| part.starts_with(b"z")).count();
    // What is sent is kept by the peers and once more to be compared, and buffers double as they grow.
    let bytes_max = SOME_BYTES + 16 * (text.len() * 8 + long_rows * LONG_ROW_BYTES);
    shared_of(false);
    memory::within(bytes_max, || on_runtime(play(&beginning, text, bit(3))));
}

async fn play(beginning: &Beginning, text: &[u8], client_goes: bool) {
    let form = Form::of(beginning.capabilities);
    let mut play = Play {
        form,
        has_reports: beginning.capabilities.contains(C::MARIADB_PROGRESS),
        served: Served::begin(beginning),
        owed: None,
        rogue: false,
        packet_nr: 1,
        to_client: Vec::new(),
        to_server: Vec::new(),
    };
    for part in text.split(|&byte| byte == b'|') {
        let Some((&kind, rest)) = part.split_first() else { continue };
        if play.served.has_ended() {
            break;
        }
        if kind.is_ascii_uppercase() { play.ask(kind, rest).await } else { play.answer(kind, rest).await }
    }
    play.end(client_goes).await;
}

/// What the server owes the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Query,
    /// Of an execution that asked for a cursor.
    Execution,
    Prepare,
    Fetch,
    FieldList,
    Single,
}

struct Play {
    form: Form,
    /// MariaDB's progress reports were agreed on.
    has_reports: bool,
    served: Served,
    /// `None`: nothing, so that the client may ask for the next.
    owed: Option<Owed>,
    /// The server has said something that is no answer to what it was asked.
    rogue: bool,
    /// Of the answer's next packet.
    packet_nr: u8,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

impl Play {
    async fn settle(&mut self) {
        self.served.settle(|_| {}).await;
        let (is, sent) = (&self.served.client.received, &self.to_client);
        let same = is.iter().zip(sent).take_while(|(a, b)| a == b).count();
        assert!(is.len() == same, "the client got what was not sent, behind {same} bytes");
    }

    fn send_command(&mut self, payload: &[u8]) {
        let packet = as_packets(0, payload);
        self.served.client.send(&packet);
        self.to_server.extend_from_slice(&packet);
    }

    /// The client asks for something.
    async fn ask(&mut self, kind: u8, rest: &[u8]) {
        if self.owed.is_some() && !self.rogue {
            return;
        }
        let (payload, owed): (&[u8], _) = match kind {
            b'Q' => (b"\x03SELECT a, b FROM u", Owed::Query),
            b'W' => (b"\x03SHOW WARNINGS", Owed::Query),
            b'P' => (b"\x16SELECT a, ? FROM u", Owed::Prepare),
            b'E' => (b"\x17\x01\0\0\0\x01\x01\0\0\0", Owed::Execution),
            b'F' => (b"\x1c\x01\0\0\0\x0a\0\0\0", Owed::Fetch),
            b'D' => (b"\x04u\0", Owed::FieldList),
            b'S' => (b"\x09", Owed::Single),
            b'N' => (b"\x0e", Owed::Single),
            b'K' => (b"\x0a", Owed::Query),
            b'B' => (b"\x02test", Owed::Single),
            b'Z' => (b"\x1f", Owed::Single),
            b'X' => {
                self.send_command(&[b"\x19\x01\0\0\0", &rest[..0]].concat());
                return self.settle().await;
            }
            _ => return,
        };
        self.send_command(payload);
        (self.owed, self.packet_nr) = (Some(owed), 1);
        self.settle().await;
    }

    /// The server says something; what is no answer makes it a rogue.
    async fn answer(&mut self, kind: u8, rest: &[u8]) {
        let Some(owed) = self.owed else { return self.say_unasked(rest).await };
        let count = rest.first().copied().unwrap_or_default() & 0x0F;
        let rows: Vec<&[u8]> = rest.split(|&byte| byte == b',').map(row_of).collect();
        let mut answer = Answer::new(self.form, self.packet_nr);
        let more = AUTOCOMMIT | MORE_RESULTS;
        let is_query = matches!(owed, Owed::Query | Owed::Execution);
        let (fits, ends) = match kind {
            b'o' => {
                answer.ok(count, AUTOCOMMIT);
                (is_query || owed == Owed::Single, true)
            }
            b't' => {
                answer.ok_with_state(count, true);
                (is_query, true)
            }
            b'm' => {
                answer.ok(count, more);
                (is_query, false)
            }
            b'e' => {
                answer.err("no");
                (true, true)
            }
            // MariaDB's progress report.
            b'g' => {
                answer.packet(b"\xff\xff\xff\x01\x01\x01\0\0\0\0");
                (is_query || !self.has_reports, !self.has_reports)
            }
            // MySQL's SIGNAL may give an error their number.
            b'h' => {
                answer.packet(b"\xff\xff\xff#45000no");
                (true, true)
            }
            b'r' | b'a' => {
                let ends = kind == b'r';
                answer.columns(count.max(1), count & 1 == 0);
                answer.rows(&rows, if ends { AUTOCOMMIT } else { more });
                (is_query, ends)
            }
            b'u' => {
                answer.cursor();
                (owed == Owed::Execution, true)
            }
            b'z' => {
                let long = vec![b'z'; LONG_ROW_BYTES];
                answer.columns(1, true).rows(&[&long, b"\x01x"], AUTOCOMMIT);
                (is_query, true)
            }
            b'p' => {
                answer.prepare_ok(1, count & 3, count >> 2);
                (owed == Owed::Prepare, true)
            }
            b'd' => {
                for _ in 0..count {
                    answer.packet(b"\x03def\0\0\0\x01c\0\x0c\x2d\0\x10\0\0\0\xfd\0\0\0\0\0\xfb");
                }
                answer.eof(AUTOCOMMIT);
                (owed == Owed::FieldList, true)
            }
            b'f' => {
                answer.rows(&rows, AUTOCOMMIT);
                (owed == Owed::Fetch, true)
            }
            b's' => {
                answer.packet(&[b"Uptime: ", rest].concat());
                (owed == Owed::Single, true)
            }
            b'l' if is_query && !self.rogue => return self.ask_for_file(rest).await,
            _ => {
                put_anything(kind, rest, &mut answer);
                (false, false)
            }
        };
        self.rogue |= !fits;
        self.packet_nr = self.packet_nr.wrapping_add(packets_in(&answer.bytes));
        self.say(&answer.bytes);
        if ends {
            self.owed = None;
        }
        self.settle().await;
    }

    fn say(&mut self, bytes: &[u8]) {
        self.served.server.send(bytes);
        self.to_client.extend_from_slice(bytes);
    }

    /// While nothing is outstanding only an error may come: a server says so why it closes.
    async fn say_unasked(&mut self, payload: &[u8]) {
        let before = self.to_client.len();
        self.say(&as_packets(0, payload));
        self.settle().await;
        if self.rogue {
            return;
        }
        let passes = payload.first() == Some(&0xFF);
        assert_eq!(self.served.has_ended(), !passes, "a packet that nobody asked for");
        let came = self.served.client.received.len();
        assert_eq!(came, if passes { self.to_client.len() } else { before });
        self.rogue = !passes;
    }

    /// LOCAL INFILE, asked for or not: it is the client's to refuse. What it sends is the file's, up to an empty packet.
    async fn ask_for_file(&mut self, name: &[u8]) {
        let mut answer = Answer::new(self.form, self.packet_nr);
        answer.packet(&[b"\xfb", name].concat());
        self.say(&answer.bytes);
        self.settle().await;
        assert_eq!(self.served.client.received, self.to_client, "a request for a file");
        let mut packets = Vec::new();
        let mut packet_nr = self.packet_nr.wrapping_add(1);
        for part in name.split(|&byte| byte == b',').filter(|part| !part.is_empty()) {
            packet_nr = put_packets(&mut packets, packet_nr, part);
        }
        packet_nr = put_packets(&mut packets, packet_nr, b"");
        self.served.client.send(&packets);
        self.to_server.extend_from_slice(&packets);
        self.settle().await;
        assert_eq!(self.served.server.received, self.to_server, "a file");
        self.packet_nr = packet_nr;
    }

    async fn end(mut self, client_goes: bool) {
        if !self.rogue {
            assert!(!self.served.has_ended(), "a session whose server is right");
            assert_eq!(self.served.client.received, self.to_client, "what the client got");
            assert_eq!(self.served.server.received, self.to_server, "what the server got");
        }
        if !self.rogue && self.owed.is_none() {
            self.ask(b'N', b"").await;
            self.answer(b'o', b"").await;
            assert_eq!(self.served.client.received, self.to_client, "a session goes on");
        }
        let (rogue, owes) = (self.rogue, self.owed.is_some());
        let end = self.served.end(client_goes).await;
        if rogue {
            return;
        }
        match end {
            Ok(End::Client) => assert!(client_goes),
            Ok(End::Backend) => assert!(!client_goes && !owes),
            Err(SessionError::BackendGone) => assert!(!client_goes && owes),
            other => panic!("{other:?}"),
        }
    }
}

/// Packets of any payload, any number, any length, or none at all.
fn put_anything(kind: u8, rest: &[u8], answer: &mut Answer) {
    let (&number, payload) = rest.split_first().unwrap_or((&0, b""));
    match kind {
        b'x' => {
            answer.packet(rest);
        }
        b'n' => {
            answer.skip_nr(number).packet(payload);
        }
        // More columns than there are packets in the world.
        b'b' => {
            let mut count = vec![0xFE];
            count.extend_from_slice(&(1u64 << 63).to_le_bytes());
            count.push(1);
            answer.packet(&count).definitions(number & 7);
        }
        _ => answer.bytes.extend_from_slice(rest),
    }
}

/// A row of one column; one that begins as an EOF or an ERR does would be another packet.
fn row_of(text: &[u8]) -> &[u8] {
    if matches!(text.first(), Some(0xFE | 0xFF)) { b"\x01a" } else { text }
}

fn packets_in(bytes: &[u8]) -> u8 {
    let (mut rest, mut packets) = (bytes, 0u8);
    while let [a, b, c, _, behind @ ..] = rest {
        let payload_bytes = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        rest = behind.get(payload_bytes..).unwrap_or_default();
        packets = packets.wrapping_add(1);
    }
    packets
}
