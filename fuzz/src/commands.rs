//! A client's commands, to a server that answers as it should: what no rule concerns comes to the server byte for
//! byte and in order, however it is sliced, and each command gets its answer: the server's own, or an error of ours.

use std::time::Duration;

use rowstamp::mysql::capabilities::Capabilities as C;
use rowstamp::mysql::change_user::ChangeUser;
use rowstamp::mysql::packet::{as_packets, put_packets};
use rowstamp::proxy::serve::session::End;
use zeroize::Zeroizing;

use crate::answers::Form;
use crate::bench::{STATEMENT_BYTES_MAX, on_runtime, shared_of};
use crate::input::Input;
use crate::memory::{self, SOME_BYTES};
use crate::served::{Beginning, Served};
use crate::server::{FILE_NAME, Server, asks_for_file};

/// A payload that takes several turns of a lane, and is longer than a statement that is read.
const LONG_BYTES: usize = 20_000;
pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let (forms, slice) = (input.byte(), usize::from(input.byte()));
    let bit = |nth: u8| forms >> nth & 1 == 1;
    let capabilities = C::default()
        .with(C::DEPRECATE_EOF, bit(0))
        .with(C::OPTIONAL_RESULTSET_METADATA, bit(1))
        .with(C::QUERY_ATTRIBUTES, bit(2))
        .with(C::MULTI_STATEMENTS, bit(3))
        .with(C::MARIADB_STMT_BULK, bit(4));
    let beginning = Beginning {
        capabilities,
        is_shown_state: bit(5),
        version: if bit(1) { b"9.7.4" } else { b"10.11.6-MariaDB" },
        with_rules: bit(6),
        slice,
    };
    let text = input.rest();
    let items = text.split(|&byte| byte == b'|');
    let long = items.clone().filter(|item| item.starts_with(b"l")).count();
    // Each byte is kept by both peers, and buffers double as they grow; short commands may have long answers.
    let bytes_max = SOME_BYTES + 512 * text.len() + 16 * long * LONG_BYTES;
    shared_of(beginning.with_rules);
    memory::within(bytes_max, || on_runtime(play(&beginning, items)));
}

async fn play(beginning: &Beginning, items: impl Iterator<Item = &[u8]>) {
    let mut play = Play {
        beginning,
        served: Served::begin(beginning),
        server: Server::new(Form::of(beginning.capabilities), beginning.is_shown_state),
        sent: Vec::new(),
        is_right: true,
        must_end: false,
    };
    for item in items {
        let Some((&how, payload)) = item.split_first() else { continue };
        if play.must_end || play.served.has_ended() {
            break;
        }
        play.item(how, payload).await;
    }
    play.end().await;
}

/// A command of the client's.
struct Sent {
    payload: Vec<u8>,
    is_answered: bool,
}

impl Sent {
    /// Whether it is about the statement that was prepared last, whatever its id.
    fn names_last(&self) -> bool {
        matches!(self.payload[..], [0x17..=0x1A | 0x1C | 0xFA, 0xFF, 0xFF, 0xFF, 0xFF, ..])
    }
}

struct Play<'a> {
    beginning: &'a Beginning,
    served: Served,
    server: Server,
    sent: Vec<Sent>,
    /// All the client has sent are commands.
    is_right: bool,
    /// The client has sent what ends a session.
    must_end: bool,
}

impl Play<'_> {
    async fn settle(&mut self) {
        let server = &mut self.server;
        self.served.settle(|peer| server.serve(peer)).await;
    }

    async fn item(&mut self, how: u8, payload: &[u8]) {
        match how {
            b'f' => return self.file(payload).await,
            b'h' => {
                // Whatever it is, it is not a command with its header.
                self.is_right = false;
                return self.served.client.send(payload);
            }
            b'p' => {
                let Some((&packet_nr, payload)) = payload.split_first() else { return };
                // An answer that is under way would be cut off.
                self.settle().await;
                self.must_end = true;
                return self.served.client.send(&as_packets(packet_nr.max(1), payload));
            }
            b'w' => self.settle().await,
            _ => {}
        }
        let mut payload = payload.to_vec();
        if how == b'l' {
            let last = payload.last().copied().unwrap_or_default();
            payload.resize(LONG_BYTES, last);
        }
        // Its table's name, or what could be a part of it.
        let may_be_ruled = || payload.iter().any(|byte| matches!(byte, b'z' | b'Z' | b'\\' | b'\''));
        if asks_for_file(&payload)
            || self.beginning.with_rules && (may_be_ruled() || self.may_be_ours(&payload))
        {
            return;
        }
        self.command(payload).await;
    }

    /// Whether the proxy may send, or have sent, what the client sends too: it prepares what it cannot read, whether that came to
    /// be run or to be prepared, and closes that again.
    fn may_be_ours(&self, payload: &[u8]) -> bool {
        let is_text_of = |prepare: &[u8], whole: &[u8]| {
            prepare
                .split_first()
                .is_some_and(|(&first, text)| first == 0x16 && !text.is_empty() && whole.ends_with(text))
        };
        match payload.first() {
            Some(0x03 | 0x16) => {
                let is_same =
                    |sent: &Sent| is_text_of(payload, &sent.payload) || is_text_of(&sent.payload, payload);
                self.sent.iter().any(is_same)
            }
            Some(0x19) => true,
            _ => false,
        }
    }

    async fn command(&mut self, payload: Vec<u8>) {
        let first = payload.first().copied();
        let changes_user = first == Some(0x11);
        if changes_user {
            // The client waits for what comes before, and for this.
            self.settle().await;
            let capabilities = self.beginning.capabilities | C::SECURE_CONNECTION | C::PLUGIN_AUTH;
            self.must_end = ChangeUser::parse(Zeroizing::new(payload.clone()), capabilities).is_err()
                && payload.len() <= STATEMENT_BYTES_MAX;
        }
        self.must_end |= first == Some(0x01);
        self.served.client.send(&as_packets(0, &payload));
        self.sent.push(Sent { is_answered: !matches!(first, Some(0x01 | 0x18 | 0x19)), payload });
        if changes_user {
            self.settle().await;
        }
    }

    /// LOAD DATA LOCAL, with what the file has.
    async fn file(&mut self, content: &[u8]) {
        let mut payload = vec![0x03];
        if self.beginning.capabilities.contains(C::QUERY_ATTRIBUTES) {
            payload.extend_from_slice(&[0, 1]);
        }
        payload.extend_from_slice(b"LOAD DATA LOCAL INFILE ");
        payload.extend_from_slice(FILE_NAME);
        payload.extend_from_slice(b" INTO TABLE u");
        self.settle().await;
        self.command(payload).await;
        self.settle().await;
        if !self.server.wants_file() {
            return;
        }
        let (mut packets, mut packet_nr) = (Vec::new(), 2);
        for part in content.split(|&byte| byte == b',').filter(|part| !part.is_empty()) {
            packet_nr = put_packets(&mut packets, packet_nr, part);
        }
        put_packets(&mut packets, packet_nr, b"");
        self.served.client.send(&packets);
        self.settle().await;
        if self.is_right && !self.must_end {
            assert_eq!(self.server.file(), packets, "a file");
        }
    }

    async fn end(mut self) {
        self.settle().await;
        if self.must_end {
            // A client that is turned away may take a moment to read why.
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.settle().await;
        }
        let has_ended = self.served.has_ended();
        if self.is_right {
            assert_eq!(has_ended, self.must_end, "its end");
            self.answers(has_ended);
        }
        let end = self.served.end(true).await;
        if self.is_right && !has_ended {
            assert!(matches!(end, Ok(End::Client)), "{end:?}");
        }
    }

    /// Every command's answer is in its place, and the commands that the server answered are the client's.
    fn answers(&self, has_ended: bool) {
        let (mut came, mut nth) = (&self.served.client.received[..], 0);
        for sent in &self.sent {
            nth += self.not_the_clients(nth);
            let arrived = self.server.answered.get(nth);
            let arrived = arrived.filter(|arrived| self.is_same(&arrived.payload, sent));
            if let Some(arrived) = arrived
                && let Some(behind) = came.strip_prefix(&arrived.shown[..])
            {
                came = behind;
                nth += 1;
                continue;
            }
            // What cannot be read is prepared, to have the server's error, and else refused.
            let is_probe =
                arrived.is_some() && sent.payload.first() == Some(&0x16) && self.beginning.with_rules;
            nth += usize::from(is_probe);
            if has_ended && came.is_empty() {
                return;
            }
            if !sent.is_answered {
                let is_refused = sent.names_last() || sent.payload.len() > STATEMENT_BYTES_MAX;
                assert!(
                    is_refused || self.beginning.with_rules || has_ended,
                    "{} is gone",
                    sent.payload.escape_ascii()
                );
                continue;
            }
            came = self.refused(sent, came);
        }
        if self.must_end && !came.is_empty() {
            let (code, behind) = error(came).expect("a last word");
            assert!(code == 1156 && behind.is_empty(), "error {code}");
            came = behind;
        }
        assert_eq!(came, b"", "behind the last answer");
        nth += self.not_the_clients(nth);
        assert_eq!(nth, self.server.answered.len(), "the server got what the client did not send");
    }

    /// Whether what arrived is what was sent. A statement of the proxy's own may be the server's last one, so that
    /// the client's
    /// last one is named by its id.
    fn is_same(&self, arrived: &[u8], sent: &Sent) -> bool {
        let payload = &sent.payload[..];
        arrived == payload
            || self.beginning.with_rules
                && sent.names_last()
                && arrived.len() == payload.len()
                && (arrived[0], &arrived[5..]) == (payload[0], &payload[5..])
    }

    /// How many commands of the proxy's own stand here.
    fn not_the_clients(&self, nth: usize) -> usize {
        let rest = &self.server.answered[nth..];
        let is_own = |payload: &[u8]| !self.sent.iter().any(|sent| self.is_same(payload, sent));
        let own = rest.iter().take_while(|arrived| is_own(&arrived.payload));
        own.inspect(|arrived| {
            let asks_state = [&b"@@sql_mode"[..], b"SET session_track_schema"]
                .iter()
                .any(|text| arrived.payload.windows(text.len()).any(|part| part == *text));
            let payload = arrived.payload.escape_ascii();
            assert!(asks_state || self.beginning.with_rules, "nobody sent {payload}");
        })
        .count()
    }

    /// The rest behind our error, which is one that fits the command.
    fn refused<'b>(&self, sent: &Sent, came: &'b [u8]) -> &'b [u8] {
        let payload = || sent.payload[..sent.payload.len().min(200)].escape_ascii();
        let (code, behind) = error(came).unwrap_or_else(|| {
            panic!("no answer to {}, but {}", payload(), came[..came.len().min(200)].escape_ascii())
        });
        let is_known = sent
            .payload
            .first()
            .is_some_and(|&byte| rowstamp::mysql::command::Command::from_byte(byte).is_some());
        let fits = match code {
            1043 => self.must_end && sent.payload.first() == Some(&0x11),
            1047 => !is_known,
            1153 => sent.payload.len() > STATEMENT_BYTES_MAX,
            1835 => self.beginning.capabilities.contains(C::QUERY_ATTRIBUTES),
            1235 => self.beginning.with_rules,
            // The statement was refused when it was to be prepared.
            1243 => sent.names_last() || self.beginning.with_rules,
            _ => false,
        };
        assert!(fits, "error {code} for {}", payload());
        behind
    }
}

/// Code of an error packet, and what stands behind it.
fn error(bytes: &[u8]) -> Option<(u16, &[u8])> {
    // 1156 ends a session, and has the servers' number for that.
    let [a, b, c, 0 | 1, behind @ ..] = bytes else { return None };
    let (payload, behind) = behind.split_at_checked(u32::from_le_bytes([*a, *b, *c, 0]) as usize)?;
    let [0xFF, low, high, ..] = payload else { return None };
    Some((u16::from_le_bytes([*low, *high]), behind))
}
