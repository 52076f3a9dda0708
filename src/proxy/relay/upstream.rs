//! Understanding the client's bytes: where commands begin and end, which of them must be read
//! whole, and what each one makes the backend owe.

use std::sync::Arc;

use crate::mysql::attributes::text_at;
use crate::mysql::command::{Command, Reply};
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header, Whole, first_of_payload, payload_of, whole_payload};
use crate::mysql::prepared::statement_id;
use crate::proxy::known::moves::plain_name;
use crate::proxy::known::need::Need;
use crate::proxy::known::note::Note;
use crate::proxy::known::statements::{Kept, PreparedStatement, Source, Statements};
use crate::proxy::known::tracking::{STATE_SQL, TRACK_SQL};
use crate::proxy::relay::command::{Arrived, Handled};
use crate::proxy::relay::glances::Treatment;
use crate::proxy::relay::outstanding::{Numbers, Outstanding, Purpose};
use crate::proxy::relay::{DownState, Event, Relay, Step, UpState, Violation};
use crate::rewrite::plan::effects::Effects;
use crate::sql::look::{
    LOOK_BYTES_MAX, begins_with_row_change, ends_transaction, may_see_tracking, shows_warnings,
};

/// An execution of an INSERT without a rule is read up to here, for the types of its parameters: a
/// later one may leave them out, and a rule may have come by then.
const TYPES_BYTES_MAX: usize = 64 * 1024;

impl Relay {
    /// Understands the next piece of the client's window.
    pub(crate) fn up_step(&mut self) -> Step {
        if self.up.holds_ours() {
            return Step::SendFirst;
        }
        match self.up_state {
            UpState::Boundary if self.outstanding.is_full() => Step::Hold,
            UpState::Boundary => self.command(),
            UpState::Passing { left, continues } => {
                let left = left - self.up.accept(left);
                self.up_state = match (left, continues) {
                    (0, true) => UpState::Continued,
                    (0, false) => UpState::Boundary,
                    _ => UpState::Passing { left, continues },
                };
                if left == 0 { Step::Moved } else { Step::More(1) }
            }
            UpState::Continued => match Header::parse(self.up.window()) {
                None => Step::More(HEADER_BYTES),
                Some(header) => {
                    self.count_packet();
                    self.pass_packet(header)
                }
            },
            UpState::Discarding { command, left, continues, packets } => {
                self.discard(command, left, continues, packets)
            }
            UpState::Asked { packet_nr } => {
                let packet_nr = packet_nr.wrapping_add(1);
                self.up_state = UpState::File { left: 0, continues: false, packet_nr };
                Step::BeginFile
            }
            UpState::File { left, continues, packet_nr } => self.file(left, continues, packet_nr),
        }
    }

    /// Another packet of a command that passes.
    fn count_packet(&mut self) {
        self.command_packets = self.command_packets.wrapping_add(1);
        if self.owes_last
            && let Some(Outstanding::Forward(forward)) = self.outstanding.back_mut()
        {
            forward.numbers.pass_clients();
        }
    }

    fn file(&mut self, left: usize, continues: bool, packet_nr: u8) -> Step {
        if left > 0 {
            let left = left - self.up.accept(left);
            self.up_state = UpState::File { left, continues, packet_nr };
            return if left == 0 { Step::Moved } else { Step::More(1) };
        }
        let Some(header) = Header::parse(self.up.window()) else { return Step::More(HEADER_BYTES) };
        // The file's packet numbers go on from the backend's request, which the client saw under another number.
        let after = header.packet_nr.wrapping_add(1);
        let (number, next) = match self.outstanding.numbers() {
            Some(Numbers::Moved(by)) => (header.packet_nr.wrapping_sub(*by), after),
            Some(numbers @ (Numbers::From(_) | Numbers::Due(_))) => {
                numbers.pass_clients();
                (packet_nr, numbers.counted().unwrap_or(after))
            }
            None => (header.packet_nr, after),
        };
        self.up.renumber(number);
        let packet_nr = packet_nr.wrapping_add(1);
        self.up.accept(HEADER_BYTES);
        // An empty packet after one of full length only ends that one's payload.
        if header.payload_bytes == 0 && !continues {
            self.outstanding.file_sent();
            self.up_state = UpState::Boundary;
            // The answer to the client's command continues from there.
            if let Some(Outstanding::Own(_)) = self.outstanding.front_mut() {
                self.command_packets = next;
                if self.framed.client {
                    self.down_state = DownState::Announced;
                }
            }
        } else {
            let (left, continues) = (header.payload_bytes, header.continues());
            self.up_state = UpState::File { left, continues, packet_nr };
        }
        Step::Moved
    }

    fn command(&mut self) -> Step {
        if !self.injection.is_empty() {
            if self.up.is_clear() {
                let injection = std::mem::take(&mut self.injection);
                self.up.out().extend_from_slice(&injection);
            }
            return Step::SendFirst;
        }
        if self.holds_client {
            return Step::Hold;
        }
        if let Some(step) = self.next_part() {
            return step;
        }
        let Some(header) = Header::parse(self.up.window()) else { return Step::More(HEADER_BYTES + 1) };
        if header.packet_nr != 0 {
            // The first byte shows if it is a COM_QUIT.
            if header.payload_bytes == 1 && self.up.window().len() <= HEADER_BYTES {
                return Step::More(HEADER_BYTES + 1);
            }
            return Step::Event(Event::Violation(Violation::ClientPacketNr(header.packet_nr)));
        }
        if header.payload_bytes == 0 {
            return self.refuse(header, &Refusal::UnknownCommand(0));
        }
        let Some(byte) = first_of_payload(self.up.window()) else { return Step::More(HEADER_BYTES + 1) };
        let Some(command) = Command::from_byte(byte) else {
            return self.refuse(header, &Refusal::UnknownCommand(byte));
        };
        self.forget_kept();
        let before = self.recall_warnings(command, header);
        if let Some(step) = before.or_else(|| self.give_back_tracking(command, header)) {
            return step;
        }
        match self.treatment(command, header) {
            Err(step) => step,
            Ok(treatment) => match self.insert_id_before(command, header) {
                Some(step) => step,
                None => self.apply(treatment, command, header),
            },
        }
    }

    /// Reads a SHOW WARNINGS whole where the server does not show all warnings of the last statement. `None`: it is
    /// something else.
    fn recall_warnings(&mut self, command: Command, header: Header) -> Option<Step> {
        self.known.session.warned.as_ref()?;
        // A longer one is not looked at to its end.
        if command == Command::Query && header.packet_bytes() <= LOOK_BYTES_MAX {
            match self.beginning(command, header) {
                Err(step) => return Some(step),
                Ok(text) if shows_warnings(text, self.known.session.dialect()).is_some() => {
                    return Some(self.read_whole(command, header));
                }
                Ok(_) => {}
            }
        }
        // COM_PING and COM_STMT_CLOSE leave the warnings of the last statement as they are.
        if !matches!(command, Command::Ping | Command::StmtClose) {
            self.known.session.warned = None;
        }
        None
    }

    /// The step that brings `LAST_INSERT_ID()` up to date before this command, and drops the
    /// temporary table of an INSERT ... SELECT; `None`: none is needed. Any statement may read the id, by a trigger or a function. A statement that reads
    /// what the last one left (ROW_COUNT(), warnings) must follow that one directly, so nothing is
    /// sent before it.
    fn insert_id_before(&mut self, command: Command, header: Header) -> Option<Step> {
        let may_owe = self.outstanding.may_owe_insert_id();
        let owes = may_owe || self.known.session.owed_insert_id.is_some();
        if !owes && self.known.session.stage.is_none() {
            return None;
        }
        let may_read = match command {
            Command::Query => match self.beginning(command, header) {
                Err(step) => return Some(step),
                Ok(text) => {
                    let dialect = self.known.session.dialect();
                    let back = self.known.session.sql_prepared.looks_back(text, dialect);
                    let may_read = back.may_read_insert_id();
                    if owes && !may_read && back.reads.insert_id {
                        return Some(if may_owe { Step::Hold } else { self.refuse(header, &reads_both()) });
                    }
                    may_read || self.known.session.stage.is_some() && ends_transaction(text, dialect)
                }
            },
            Command::StmtExecute => {
                match self.named_statement().and_then(|id| self.known.statements.next_to_last(id)) {
                    Some(statement) if owes && statement.names_insert_id => {
                        return Some(if may_owe { Step::Hold } else { self.refuse(header, &reads_both()) });
                    }
                    statement => statement.is_none(),
                }
            }
            Command::StmtBulkExecute => true,
            _ => false,
        };
        match may_read {
            false => None,
            // Only the answer to the INSERT shows which id that is.
            true if may_owe => Some(Step::Hold),
            true => Some(self.catch_up()),
        }
    }

    fn catch_up(&mut self) -> Step {
        if self.up.is_clear() {
            if let Some(owed) = self.known.session.owed_insert_id.take() {
                self.query_own(Purpose::LastInsertId, owed.statement());
            }
            if let Some(drop) = self.known.session.stage.take() {
                self.query_own(Purpose::DropStage, drop);
            }
        }
        Step::SendFirst
    }

    fn apply(&mut self, treatment: Treatment, command: Command, header: Header) -> Step {
        let (may_change_session, note) = match treatment {
            Treatment::Read => return self.read_whole(command, header),
            Treatment::LongData => return self.long_data(header),
            Treatment::Pass { may_change_session, note } => (may_change_session, note),
        };
        // The commands under way belong to the session that ends with it.
        if command == Command::ResetConnection && !self.outstanding.is_empty() {
            return Step::Hold;
        }
        match self.leaves_counts(command, header) {
            Err(step) => return step,
            Ok(true) if !self.up.is_clear() => return Step::SendFirst,
            Ok(true) if self.known.session.ask() => return self.ask_state(),
            Ok(_) => {}
        }
        if self.known.session.is_untouched() {
            match self.may_call(command, header) {
                Err(step) => return step,
                Ok(true) => self.known.session.temporary.unsure(),
                Ok(false) => {}
            }
        }
        self.owe_packet(self.reply_to(command), may_change_session, note);
        if command.names_statement() {
            if command == Command::StmtExecute
                && let Some(statement) =
                    self.named_statement().and_then(|id| self.known.statements.get_mut(id))
            {
                statement.forget_long_data();
            }
            self.translate_id();
        }
        match command {
            Command::StmtPrepare => self.known.statements.forget_last(),
            Command::ResetConnection => self.starts_over(),
            Command::InitDb => self.known.session.may_move(),
            _ => {}
        }
        self.pass_packet(header)
    }

    /// The form of the response to the command at the front of the window.
    pub(crate) fn reply_to(&self, command: Command) -> Reply {
        command.reply_to(self.up.window().get(HEADER_BYTES..).unwrap_or_default())
    }

    /// Sends what the session learns its state by. The lane must be clear.
    pub(crate) fn ask_state(&mut self) -> Step {
        self.query_own(Purpose::ReadState, STATE_SQL.as_bytes());
        self.query_own(Purpose::Track, TRACK_SQL.as_bytes());
        Step::SendFirst
    }

    /// The session's variables, statements and insert id are the server's defaults once the command has run.
    pub(crate) fn starts_over(&mut self) {
        self.known.session.reset();
        self.known.statements = Statements::default();
    }

    fn treatment(&self, command: Command, header: Header) -> Result<Treatment, Step> {
        let pass = |may_change_session, note| Ok(Treatment::Pass { may_change_session, note });
        match command {
            _ if self.parts.is_some() => Ok(Treatment::Read),
            // Also without rules: when there are some, the session's temporary tables and its state must be known.
            Command::Query | Command::StmtPrepare => self.glance_at(command, header),
            Command::StmtExecute
            | Command::StmtSendLongData
            | Command::StmtBulkExecute
            | Command::StmtFetch => {
                // With the flags of an execution, which tell the form of its response.
                let end = HEADER_BYTES + header.payload_bytes.min(6);
                let Some(start) = self.up.window().get(HEADER_BYTES..end) else {
                    return Err(Step::More(end));
                };
                // Too short to name a statement; the server says so.
                let Ok(id) = statement_id(start) else { return pass(false, Note::Nothing) };
                match command {
                    _ if self.known.statements.is_refused(id) => Ok(Treatment::Read),
                    Command::StmtSendLongData if self.known.statements.draws(id) => Ok(Treatment::LongData),
                    Command::StmtExecute | Command::StmtBulkExecute if self.known.statements.draws(id) => {
                        Ok(Treatment::Read)
                    }
                    Command::StmtFetch => pass(false, Note::Nothing),
                    Command::StmtSendLongData if self.known.statements.get(id).is_some() => {
                        Ok(Treatment::LongData)
                    }
                    _ if let Some(statement) = self.known.statements.get(id) => {
                        self.execution(id, statement, header)
                    }
                    _ => match self.known.statements.effects(id) {
                        Some(effects) if effects.hidden_insert.is_some() || !effects.natively.is_empty() => {
                            Ok(Treatment::Read)
                        }
                        effects => pass(true, effects.map_or(Note::Nothing, Note::effects)),
                    },
                }
            }
            Command::StmtClose | Command::StmtReset | Command::ChangeUser | Command::SetOption => {
                Ok(Treatment::Read)
            }
            Command::InitDb => {
                let name = self.up.window().get(HEADER_BYTES + 1..header.packet_bytes());
                let schema = name.filter(|_| self.known.session.is_untouched()).and_then(plain_name);
                let effects = Effects { explains_report: true, schema, ..Effects::default() };
                pass(true, Note::effects(Arc::new(effects)))
            }
            Command::ResetConnection => pass(true, Note::Nothing),
            _ => pass(false, Note::Nothing),
        }
    }

    fn execution(&self, id: u32, statement: &PreparedStatement, header: Header) -> Result<Treatment, Step> {
        let Kept { source, prepared } = &*statement.kept;
        let is_current = || {
            let lookup = self.tables.now().lookup(&source.table.schema, &source.table.table);
            statement.kept.is_current(&lookup)
        };
        let is_the_servers_last = || is_current() && !self.known.statements.is_displaced;
        if statement.server_id.is_none() && !self.outstanding.is_empty() && !is_the_servers_last() {
            // The server's id must be known: the statement is prepared again, or -1 would mean another one.
            return Err(Step::Hold);
        }
        let is_another = self.known.statements.translated(id).is_some();
        let is_long = header.payload_bytes > TYPES_BYTES_MAX && !self.is_rehearsed(source, header);
        if prepared.is_none() && is_long && !is_another && is_current() {
            return Ok(Treatment::Pass { may_change_session: false, note: Note::Nothing });
        }
        Ok(Treatment::Read)
    }

    /// An execution that would get ids were its table's rule on, and that would be read whole for it.
    fn is_rehearsed(&self, source: &Source, header: Header) -> bool {
        !header.continues()
            && header.payload_bytes <= self.statement_bytes_max
            && self.tables.now().shadowed(&source.table.schema, &source.table.table).is_some()
    }

    /// Has the whole payload in the window before anybody looks at it.
    pub(crate) fn read_whole(&mut self, command: Command, header: Header) -> Step {
        match whole_payload(self.up.window()) {
            Whole::Needs { window_bytes } | Whole::Is { window_bytes, .. }
                if window_bytes > self.statement_bytes_max.saturating_add(64) =>
            {
                self.too_long(command, header)
            }
            Whole::Needs { window_bytes } => Step::More(window_bytes),
            Whole::Is { .. } if !self.up.is_clear() => Step::SendFirst,
            // The exchange that answers it is not one of packets that follow each other in a queue.
            Whole::Is { .. } if command == Command::ChangeUser && !self.outstanding.is_empty() => Step::Hold,
            Whole::Is { window_bytes, packets } => {
                let payload = payload_of(self.up.window(), window_bytes);
                let statement = if command.names_statement() { statement_id(&payload).ok() } else { None };
                let has_attributes = command == Command::Query && self.known.has_attributes();
                let is_text = matches!(command, Command::Query | Command::StmtPrepare);
                let text_at = if is_text { text_at(&payload, has_attributes).ok() } else { None };
                drop(payload);
                let packets = self.part_packets(packets);
                Step::Event(Event::Command(Arrived { command, window_bytes, packets, statement, text_at }))
            }
        }
    }

    pub(crate) fn pass_unconcerned(&mut self, arrived: Arrived, note: Note) -> Handled {
        let command = arrived.command;
        if command == Command::StmtPrepare {
            self.known.statements.forget_last();
            match &note {
                Note::Prepare(kept) => self.known.statements.prepare(kept.clone()),
                Note::PrepareActing(effects) => self.known.statements.prepare_acting(effects.clone()),
                _ => {}
            }
        }
        let sent = self.send_as_it_came(arrived);
        self.owe(command.reply(), false, sent, note)
    }

    /// A statement is read as the server will read it: after everything before it has taken effect.
    pub(crate) fn state_first(&self, command: Command, header: Header) -> Option<Need> {
        let is_settled = self.known.session.is_settled();
        let must_ask = if self.known.session.is_in_doubt() {
            self.may_follow_question(command, header).unwrap_or(false)
        } else {
            !is_settled
        };
        (must_ask || !is_settled || self.outstanding.may_change_session()).then_some(Need::State { must_ask })
    }

    /// Answers an empty or unknown command in its turn.
    pub(crate) fn refuse(&mut self, header: Header, refusal: &Refusal) -> Step {
        let whole = header.packet_bytes();
        if header.continues() {
            return Step::Event(Event::Violation(Violation::TooLong(header.payload_bytes)));
        }
        if self.up.window().len() < whole {
            return Step::More(whole);
        }
        if !self.up.is_clear() {
            return Step::SendFirst;
        }
        self.up.skip(whole);
        self.answer_after(refusal, 1);
        Step::Moved
    }

    /// Restores the client's own session tracking before a command that may look at it, or set it. `None`: nothing
    /// is sent before the command.
    fn give_back_tracking(&mut self, command: Command, header: Header) -> Option<Step> {
        let is_tracked = self.known.session.is_tracked() && !self.known.session.is_tracked_anyway()
            || self.known.session.awaits_state();
        let may_see = match command {
            // The executions of the statement may come when the server tracks.
            Command::StmtPrepare => match self.sees_tracking(command, header) {
                Ok(sees) => {
                    self.prepares_what_sees_tracking = sees;
                    sees
                }
                Err(step) => return Some(step),
            },
            Command::Query if is_tracked => match self.sees_tracking(command, header) {
                Ok(sees) => sees,
                Err(step) => return Some(step),
            },
            Command::StmtExecute if is_tracked => {
                let start = self.up.window().get(HEADER_BYTES..HEADER_BYTES + 5);
                match start {
                    None if header.payload_bytes >= 5 => return Some(Step::More(HEADER_BYTES + 5)),
                    start => {
                        let id = start.and_then(|start| statement_id(start).ok());
                        id.is_some_and(|id| self.known.statements.sees_tracking(id))
                    }
                }
            }
            _ => false,
        };
        if !(may_see && is_tracked) {
            return None;
        }
        if self.known.session.awaits_state() {
            return Some(Step::Hold);
        }
        // After it the state would be asked for, and tracked, at once.
        if command != Command::StmtExecute && self.may_concern(command, header) {
            return None;
        }
        if !self.up.is_clear() {
            return Some(Step::SendFirst);
        }
        let statement = self.known.session.give_back_tracking()?;
        self.query_own(Purpose::Untrack, statement);
        Some(Step::SendFirst)
    }

    /// True if a command that no rule can concern may pass before the session's state is known.
    pub(crate) fn passes_unread(&self, command: Command, header: Header) -> bool {
        let is_text = matches!(command, Command::Query | Command::StmtPrepare);
        self.known.session.is_untouched()
            || is_text
                && self.known.session.shows_own_tracking()
                && self.sees_tracking(command, header).unwrap_or(false)
    }

    fn may_concern(&self, command: Command, header: Header) -> bool {
        let Ok(text) = self.beginning(command, header) else { return true };
        header.packet_bytes() > LOOK_BYTES_MAX
            || self.tables.now().concerns(text, self.known.session.default_schema(), None)
    }

    fn sees_tracking(&self, command: Command, header: Header) -> Result<bool, Step> {
        let text = self.beginning(command, header)?;
        Ok(!begins_with_row_change(text, self.known.session.dialect()) && may_see_tracking(text))
    }
}

/// `LAST_INSERT_ID()` is brought up to date by a statement of ours, which resets ROW_COUNT() and
/// its like. So one statement cannot read both.
fn reads_both() -> Refusal {
    Refusal::Statement(
        "the statement reads LAST_INSERT_ID() together with ROW_COUNT(), FOUND_ROWS() or the number of warnings, and Rowstamp must \
         set LAST_INSERT_ID() first, which resets the others; read them in separate statements, LAST_INSERT_ID() last"
            .to_owned(),
    )
}
