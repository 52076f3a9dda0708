//! Answers to commands of ours: read, and swallowed.

use crate::mysql::error::{is_password_expired, parse_err};
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::response::{Control, Kind, Progress};
use crate::proxy::known::tracking::NOT_SET_WHILE_SHARED;
use crate::proxy::relay::outstanding::{Outstanding, Own, Purpose};
use crate::proxy::relay::{Event, Relay, Step, Violation};

impl Relay {
    /// A packet that answers a command of ours: read, and swallowed.
    pub(in crate::proxy) fn own(&mut self, header: Header) -> Step {
        let whole = match self.whole_control(header) {
            Ok(whole) => whole,
            Err(step) => return step,
        };
        if !self.down.is_clear() {
            return Step::SendFirst;
        }
        let payload = self.down.window().get(HEADER_BYTES..whole).unwrap_or_default().to_vec();
        let Some(Outstanding::Own(own)) = self.outstanding.front_mut() else { return Step::Moved };
        if own.asks_client(&payload) {
            return self.ask_for_file(header, whole);
        }
        self.down.skip(whole);
        let done = match own.follower.classify(payload.len(), payload.first().copied()) {
            Kind::Definition => {
                if let Some(table) = &mut own.table {
                    table.others.push(payload);
                }
                own.follower.ended_with_definition()
            }
            Kind::Row => {
                match &mut own.table {
                    Some(table) => table.rows.push(payload),
                    None => _ = own.row.get_or_insert(payload),
                }
                false
            }
            Kind::Control(control) => match own.follower.advance(control, &payload) {
                Err(malformed) => return Step::Event(Event::Violation(Violation::Backend(malformed))),
                // A progress report of a command of ours, which is none of the client's.
                Ok(Progress::Continues) if control == Control::Err => false,
                Ok(progress) => {
                    if let Some(table) = &mut own.table {
                        table.others.push(payload.clone());
                    }
                    own.first.get_or_insert(payload);
                    progress == Progress::Done
                }
            },
        };
        if done && let Some(Outstanding::Own(own)) = self.outstanding.pop() {
            self.own_complete(own);
        }
        Step::Moved
    }

    /// A LOAD of ours is in place of the client's: the server's request for a file goes to it.
    fn ask_for_file(&mut self, header: Header, whole: usize) -> Step {
        let Some(numbers) = self.outstanding.numbers() else { return Step::Moved };
        let Some(packet_nr) = numbers.take(header.packet_nr) else { return self.begin_answer() };
        self.down.renumber(packet_nr);
        self.down.accept(whole);
        match self.expect_file(header.packet_nr) {
            Ok(()) => Step::Moved,
            Err(violation) => Step::Event(Event::Violation(violation)),
        }
    }

    fn own_complete(&mut self, own: Own) {
        if let Purpose::Asked = own.purpose {
            return self.answers.push(own.answered());
        }
        let error = own.first.as_deref().and_then(parse_err);
        let Some((code, text)) = error else {
            if let Purpose::ReadState = own.purpose {
                self.known.session.take_state(own.row.as_deref());
            }
            return;
        };
        let what = match own.purpose {
            Purpose::LastInsertId => "LAST_INSERT_ID() of a session could not be set",
            Purpose::Untrack => "the client's session tracking could not be restored",
            Purpose::Track if self.known.session.is_tracked_anyway() => {
                self.known.session.sql_prepared.shares_connection |= code == NOT_SET_WHILE_SHARED;
                return;
            }
            Purpose::Track | Purpose::ReadState if is_password_expired(code) => {
                return self.known.session.is_locked(own.first.unwrap_or_default());
            }
            Purpose::Track | Purpose::ReadState => {
                self.known.session.cannot_be_known();
                "cannot read the session's state: Rowstamp refuses the session's statements on tables with a rule"
            }
            Purpose::DropStage => "the temporary table of an INSERT ... SELECT could not be dropped",
            Purpose::SetId => "insert_id could not be restored after a refused statement",
            Purpose::DropLongData | Purpose::Asked => return,
        };
        tracing::warn!(code, text, "{what}");
    }
}
