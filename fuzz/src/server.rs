//! A server that answers each command as it should, and tells its answers apart.

use rowstamp::mysql::packet::{HEADER_BYTES, Header, Whole, payload_of, whole_payload};

use crate::answers::{AUTOCOMMIT, Answer, Form, MORE_RESULTS};
use crate::bench::Peer;

/// The file that this server asks for where a statement names it.
pub const FILE_NAME: &[u8] = b"'f'";

const BEGINNING_BYTES: usize = 200;

/// A command, and what its client is to see of its answer.
pub struct Answered {
    pub payload: Vec<u8>,
    pub shown: Vec<u8>,
}

pub struct Server {
    form: Form,
    /// Whether the client sees the session's state in OK packets.
    shows_state: bool,
    /// Of what came, up to where it is read.
    read: usize,
    pub answered: Vec<Answered>,
    /// It reads a file's packets.
    wants_file: bool,
    file: Vec<u8>,
}

impl Server {
    pub fn new(form: Form, shows_state: bool) -> Server {
        let (answered, file) = (Vec::new(), Vec::new());
        Server { form, shows_state, read: 0, answered, wants_file: false, file }
    }

    pub fn wants_file(&self) -> bool {
        self.wants_file
    }

    /// The last file's packets.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// Answers what has come.
    pub fn serve(&mut self, peer: &mut Peer) {
        loop {
            let came = peer.received.get(self.read..).unwrap_or_default();
            if self.wants_file {
                let Some(header) = Header::parse(came).filter(|header| header.packet_bytes() <= came.len())
                else {
                    return;
                };
                self.file.extend_from_slice(&came[..header.packet_bytes()]);
                self.read += header.packet_bytes();
                if header.payload_bytes == 0 {
                    self.wants_file = false;
                    let mut answer = Answer::new(self.form, header.packet_nr.wrapping_add(1));
                    answer.ok(1, AUTOCOMMIT);
                    peer.send(&answer.bytes);
                    let last = self.answered.last_mut().expect("the statement that asked for it");
                    last.shown.extend_from_slice(&answer.bytes);
                }
                continue;
            }
            let Whole::Is { window_bytes, packets } = whole_payload(came) else { return };
            assert_eq!(came[HEADER_BYTES - 1], 0, "a command's number");
            let payload = payload_of(came, window_bytes).into_owned();
            self.read += window_bytes;
            if payload.first() == Some(&0x01) {
                self.answered.push(Answered { payload, shown: Vec::new() });
                return peer.close_behind();
            }
            let packet_nr = u8::try_from(packets).expect("few packets");
            let answer = self.answer(&payload, packet_nr, true);
            let shown = self.answer(&payload, packet_nr, self.shows_state);
            peer.send(&answer);
            self.wants_file = asks_for_file(&payload);
            self.file.clear();
            self.answered.push(Answered { payload, shown });
        }
    }

    /// Each has its number in it.
    fn answer(&self, payload: &[u8], packet_nr: u8, shows_state: bool) -> Vec<u8> {
        let mut answer = Answer::new(self.form, packet_nr);
        let nth = u8::try_from(self.answered.len() % 250).expect("below 250");
        let text = beginning(payload).to_ascii_lowercase();
        let has = |word: &str| text.windows(word.len()).any(|part| part == word.as_bytes());
        let row = [1, nth];
        match payload.first() {
            Some(0x18 | 0x19) => {}
            Some(0x03) if asks_for_file(payload) => {
                answer.packet(b"\xfbf");
            }
            // sql_mode '', character set utf8mb4, changes are reported, no database.
            Some(0x03) if has("hex(@@sql_mode)") => {
                answer.columns(4, true).rows(&[b"\x00\x0e757466386d6234\x011\xfb"], AUTOCOMMIT);
            }
            Some(0x03) if has("bad") => {
                answer.err(&format!("no {nth}"));
            }
            Some(0x03) if has("set") || has("use") => {
                answer.ok_with_state(nth, shows_state);
            }
            Some(0x03) if has("call") => {
                let more = AUTOCOMMIT | MORE_RESULTS;
                answer.columns(1, true).rows(&[&row], more).ok(nth, AUTOCOMMIT);
            }
            Some(0x17) if nth.is_multiple_of(3) && payload.get(5).is_some_and(|flags| flags & 1 == 1) => {
                answer.cursor();
            }
            Some(0x03 | 0x17) if has("select") || has("show") || nth.is_multiple_of(2) => {
                answer.columns(2, true).rows(&[&row, b"\xfb\x03abc"], AUTOCOMMIT);
            }
            Some(0x04) => {
                answer.packet(b"\x03def").eof(AUTOCOMMIT);
            }
            Some(0x09) => {
                answer.packet(format!("Uptime: {nth}").as_bytes());
            }
            Some(0x0A) => {
                answer.columns(1, true).rows(&[&row], AUTOCOMMIT);
            }
            Some(0x16) => {
                let params = (payload.split(|&byte| byte == b'?').count() - 1) % 16;
                let params = u8::try_from(params).expect("below 16");
                answer.prepare_ok(u32::from(nth), u8::from(has("select")), params);
            }
            Some(0x1C) => {
                answer.rows(&[&row], AUTOCOMMIT);
            }
            _ => {
                answer.ok(nth, AUTOCOMMIT);
            }
        }
        answer.bytes
    }
}

/// Whether it names the file, and is a query.
pub fn asks_for_file(payload: &[u8]) -> bool {
    payload.first() == Some(&0x03)
        && beginning(payload).windows(FILE_NAME.len()).any(|name| name == FILE_NAME)
}

/// Where the words of a statement are looked for.
fn beginning(payload: &[u8]) -> &[u8] {
    payload.get(..BEGINNING_BYTES).unwrap_or(payload)
}
