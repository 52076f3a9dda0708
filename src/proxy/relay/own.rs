//! Questions of ours to the server, and answers to commands of ours, which are read and swallowed.

use crate::mysql::command::{Command, Reply, command_payload};
use crate::mysql::error::{is_password_expired, parse_err};
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::reader::Reader;
use crate::mysql::response::{Control, Kind, ResponseProgress};
use crate::proxy::known::answered::Table;
use crate::proxy::known::tracking::NOT_SET_WHILE_SHARED;
use crate::proxy::relay::outstanding::{Outstanding, Own, Purpose};
use crate::proxy::relay::{Event, Relay, Step, Violation};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Question<'a> {
    Query(&'a [u8]),
    /// A query of whose result everything is wanted.
    Table(&'a [u8]),
    /// A text, to learn whether it can be prepared; nothing of it stays.
    Prepare(&'a [u8]),
    /// A text to prepare. The statement stays prepared.
    PrepareAndKeep(&'a [u8]),
    /// The whole payload of a command that is answered as a query is.
    Command(&'a [u8]),
    /// The whole payload of a LOAD, whose file the client may have.
    Load(&'a [u8]),
}

const STATE_UNREADABLE: &str =
    "cannot read the session's state: Rowstamp refuses the session's statements on tables with a rule";

impl Relay {
    /// Sends a question before the client's next command.
    pub(crate) fn send_question(&mut self, question: &Question<'_>) {
        match question {
            Question::Query(sql) => self.query_own(Purpose::Asked, sql),
            Question::Table(sql) => {
                self.query_own(Purpose::Asked, sql);
                if let Some(Outstanding::Own(own)) = self.outstanding.back_mut() {
                    own.table = Some(Table::default());
                }
            }
            Question::Command(payload) => self.send_own(Purpose::Asked, Reply::Query, payload),
            Question::Load(payload) => self.send_load(payload),
            Question::Prepare(text) | Question::PrepareAndKeep(text) => {
                self.known.statements.is_displaced = true;
                let payload = command_payload(Command::StmtPrepare, text);
                self.send_own(Purpose::Asked, Reply::Prepare, &payload);
            }
        }
    }

    /// Sends a question whose answer comes before that of the client's command, which is held.
    pub(crate) fn send_question_within(&mut self, question: &Question<'_>) {
        self.send_question(question);
        self.outstanding.answer_last_first();
    }

    /// A packet that answers a command of ours: read, and swallowed.
    pub(crate) fn own(&mut self, header: Header) -> Step {
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
        let done = match own.follower.classify(payload.len(), Reader::new(&payload).peek()) {
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
                Ok(ResponseProgress::Continues) if control == Control::Err => false,
                Ok(progress) => {
                    if let Some(table) = &mut own.table {
                        table.others.push(payload.clone());
                    }
                    own.first.get_or_insert(payload);
                    progress == ResponseProgress::Done
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
        self.expect_file(header.packet_nr)
    }

    fn own_complete(&mut self, own: Own) {
        if let Purpose::Asked = own.purpose {
            return self.answers.push(own.answered());
        }
        let error = own.first.as_deref().and_then(parse_err);
        let Some((code, text)) = error else {
            if let Purpose::ReadState = own.purpose
                && !self.known.session.take_state(own.row.as_deref())
            {
                tracing::warn!("{STATE_UNREADABLE}");
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
                STATE_UNREADABLE
            }
            Purpose::DropStage => "the temporary table of an INSERT ... SELECT could not be dropped",
            Purpose::SetId => "insert_id could not be restored after a refused statement",
            Purpose::DropLongData | Purpose::Asked => return,
        };
        tracing::warn!(code, text, "{what}");
    }
}
