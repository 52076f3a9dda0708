//! Understanding the backend's bytes: whose response each packet belongs to, where responses end, and the packets that
//! the client gets changed: OK packets (insert id, session state) and those that describe parameters of ours.

use std::time::Instant;

use crate::mysql::error::err_code;
use crate::mysql::ok::{Filled, Form, OkPacket, Patch, StateReport, status};
use crate::mysql::packet::{HEADER_BYTES, Header, first_of_payload, put_packets};
use crate::mysql::reader::{Malformed, Reader};
use crate::mysql::response::{Control, Follower, Kind, PrepareOk, ResponseProgress};
use crate::proxy::known::inserts::Settled;
use crate::proxy::known::need::IdRight;
use crate::proxy::known::note::Note;
use crate::proxy::known::rights::with_remedy;
use crate::proxy::relay::answers::ERR;
use crate::proxy::relay::outstanding::{Forward, Numbers, Outstanding};
use crate::proxy::relay::{DownState, Event, Fate, Relay, Step, Violation};
use crate::sessions::Count;

/// Header, warnings, status.
const EOF_BYTES: usize = 5;

/// True for an OK packet of its shortest form or longer.
fn is_ok(payload: &[u8]) -> bool {
    let mut r = Reader::new(payload);
    r.u8("header") == Ok(0x00) && r.left() >= 6
}

/// True if rows ended with the status bit that the session's state has changed: an EOF has no room
/// to tell how. MySQL does not set it there.
fn eof_reports_state(payload: &[u8]) -> bool {
    let mut r = Reader::new(payload);
    let status = r.bytes(EOF_BYTES - 2, "header and warnings").and_then(|_| r.u16("status"));
    status.is_ok_and(|status| status & status::SESSION_STATE_CHANGED != 0)
}

/// The payload of such an end of rows, without that bit.
fn without_state_bit(payload: &[u8]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    if let Some(high) = payload.last_mut() {
        *high &= !status::SESSION_STATE_CHANGED.to_le_bytes()[1];
    }
    payload
}

impl Relay {
    /// Understands the next piece of the backend's window.
    pub(crate) fn down_step(&mut self) -> Step {
        if self.down.holds_ours() {
            return Step::SendFirst;
        }
        if let DownState::Passing { left } = self.down_state {
            let left = left - self.down.accept(left);
            self.down_state = if left == 0 { DownState::Boundary } else { DownState::Passing { left } };
            return if left == 0 { Step::Moved } else { Step::More(1) };
        }
        if let Some(Outstanding::Answer(_)) = self.outstanding.front_mut() {
            return self.send_answer();
        }
        let Some(header) = Header::parse(self.down.window()) else { return Step::More(HEADER_BYTES) };
        match self.outstanding.front_mut() {
            Some(Outstanding::Forward(_)) => self.forward(header),
            Some(Outstanding::Own(_)) => self.own(header),
            Some(Outstanding::Answer(_)) => Step::Moved,
            None => self.unasked(header),
        }
    }

    fn forward(&mut self, header: Header) -> Step {
        let first = first_of_payload(self.down.window());
        if first.is_none() && header.payload_bytes > 0 {
            return Step::More(HEADER_BYTES + 1);
        }
        let Some(entry) = self.outstanding.forward() else { return Step::Moved };
        // Hopped over by the hundred: one by one they cost twenty times as much.
        if entry.follower.is_in_rows() && self.down.accept_rows(&mut entry.numbers) > 0 {
            return Step::Moved;
        }
        // Asked of a copy: where more bytes are needed, the packet is asked about again.
        let mut follower = entry.follower;
        let is_param = follower.awaits_param();
        match follower.classify(header.payload_bytes, first) {
            Kind::Row => {
                let Some(nr) = entry.numbers.take(header.packet_nr) else { return self.begin_answer() };
                entry.follower = follower;
                self.pass(header, nr)
            }
            Kind::Definition => {
                if is_param && entry.next_param_is_ours() {
                    let whole = header.packet_bytes();
                    if self.down.window().len() < whole {
                        return Step::More(whole);
                    }
                    if !self.down.is_clear() {
                        return Step::SendFirst;
                    }
                    entry.follower = follower;
                    entry.params_seen += 1;
                    entry.numbers.drop_one();
                    self.down.skip(whole);
                } else {
                    let Some(nr) = entry.numbers.take(header.packet_nr) else { return self.begin_answer() };
                    entry.follower = follower;
                    entry.params_seen += u16::from(is_param);
                    self.pass(header, nr);
                }
                if follower.ended_with_definition() {
                    self.complete(true);
                }
                Step::Moved
            }
            Kind::Control(control) => self.control(header, control),
        }
    }

    fn pass(&mut self, header: Header, packet_nr: u8) -> Step {
        self.down.renumber(packet_nr);
        self.down_state = DownState::Passing { left: header.packet_bytes() };
        Step::Moved
    }

    /// A packet that steers the response.
    fn control(&mut self, header: Header, control: Control) -> Step {
        let whole = match self.whole_control(header) {
            Ok(whole) => whole,
            Err(step) => return step,
        };
        if let Some(Forward { numbers: Numbers::Due(_), .. }) = self.outstanding.forward() {
            return self.begin_answer();
        }
        // A PrepareOk is noted once, so it must be sure to go.
        if control == Control::PrepareOk && !self.down.is_clear() {
            return Step::SendFirst;
        }
        // Set aside while the session reads the packet in it.
        let down = std::mem::take(&mut self.down);
        let payload = down.window().get(HEADER_BYTES..whole).unwrap_or_default();
        let first = Reader::new(payload).peek();
        let read = self.read_control(header, control, payload);
        self.down = down;
        let (mut fate, progress, follower) = match read {
            Ok(read) => read,
            // The session may be asked before the client gets this answer.
            Err(Event::UpdatedId | Event::SmallestId(_) | Event::Collided) if !self.down.is_clear() => {
                return Step::SendFirst;
            }
            Err(event) => return Step::Event(event),
        };
        let more_follows = self.outstanding.forward().is_some_and(|entry| entry.more_follows);
        if more_follows {
            let window = self.down.window().get(HEADER_BYTES..whole).unwrap_or_default();
            fate = self.with_more_results(control, window, fate);
        }
        if !matches!(fate, Fate::Pass) && !self.down.is_clear() {
            return Step::SendFirst;
        }
        let Some(entry) = self.outstanding.forward() else { return Step::Moved };
        entry.follower = follower;
        if matches!(fate, Fate::Drop) {
            entry.numbers.drop_one();
            self.down.skip(whole);
            return self.progress(header, progress, first);
        }
        let nr = entry.numbers.take(header.packet_nr).unwrap_or(header.packet_nr);
        if more_follows {
            self.part_numbered(nr);
        }
        if let Fate::Replace(payload) = fate {
            self.down.skip(whole);
            put_packets(self.down.out(), nr, &payload);
        } else {
            self.pass(header, nr);
        }
        self.progress(header, progress, first)
    }

    /// The decision on a control packet, and the position of the response after it.
    fn read_control(
        &mut self,
        header: Header,
        control: Control,
        payload: &[u8],
    ) -> Result<(Fate, ResponseProgress, Follower), Event> {
        let Some(entry) = self.outstanding.forward() else {
            return Err(Event::Violation(Violation::Unasked));
        };
        let mut follower = entry.follower;
        let drops_eof = follower.awaits_params_eof() && entry.all_params_are_ours();
        follower.classify(header.payload_bytes, Reader::new(payload).peek());
        let malformed = |error| Event::Violation(Violation::Backend(error));
        let progress = follower.advance(control, payload).map_err(malformed)?;
        let ends = progress != ResponseProgress::Continues;
        if control == Control::Eof && ends && !drops_eof {
            self.end_of_returned_rows()?;
        }
        let fate = if drops_eof { Fate::Drop } else { self.fate_of(control, payload)? };
        Ok((fate, progress, follower))
    }

    fn progress(&mut self, header: Header, progress: ResponseProgress, first: Option<u8>) -> Step {
        match progress {
            ResponseProgress::Continues => {}
            ResponseProgress::NextResult => {
                if let Some(entry) = self.outstanding.forward() {
                    entry.results += 1;
                }
            }
            ResponseProgress::ClientSendsFile => return self.expect_file(header.packet_nr),
            ResponseProgress::Done => self.complete(first != Some(ERR)),
        }
        Step::Moved
    }

    /// Decides on a control packet, and takes from it what the session must know. May be asked again about the same packet.
    fn fate_of(&mut self, control: Control, payload: &[u8]) -> Result<Fate, Event> {
        let is_ok = match control {
            Control::Ok => true,
            // MySQL ends rows that a handler cut off by the old packet (measured on 9.7).
            Control::Eof => self.forms.deprecate_eof && payload.len() > EOF_BYTES,
            Control::Any => is_ok(payload),
            Control::PrepareOk => return self.prepare_ok(payload),
            _ => false,
        };
        if !is_ok {
            if control == Control::Eof && eof_reports_state(payload) {
                self.known.session.doubt();
                if self.known.session.hides_state_bit() {
                    return Ok(Fate::Replace(without_state_bit(payload)));
                }
            }
            if self.may_collide(payload) {
                return Err(Event::Collided);
            }
            self.learn_from_error(payload);
            let target = self.outstanding.forward().and_then(|entry| entry.note.targets().next());
            let told = target.and_then(|target| with_remedy(payload, target));
            return Ok(told.map_or(Fate::Pass, Fate::Replace));
        }
        let Ok(ok) = OkPacket::parse(payload, self.known.capabilities) else {
            // COM_STATISTICS answers with a bare string, which may look like anything.
            let is_free_text = control == Control::Any;
            return if is_free_text {
                Ok(Fate::Pass)
            } else {
                Err(Event::Violation(Violation::Backend(Malformed::Bad("OK packet"))))
            };
        };
        if control == Control::Ok && ok.affected_rows > 0 && self.outstanding.explicit().is_some() {
            return Err(Event::FollowExplicit);
        }
        let insert_id = match self.outstanding.insert_reply() {
            Some(reply) if control == Control::Ok => match reply.settle(&ok) {
                Settled::Patch { insert_id } => Some(insert_id),
                Settled::Ask(question) => return Err(Event::SmallestId(question)),
                Settled::AskSession if self.outstanding.ends_here(&ok) => return Err(Event::UpdatedId),
                Settled::Leave | Settled::AskSession => None,
            },
            _ => None,
        };
        if control == Control::Any {
            self.known.session.status = ok.status;
        }
        let explained = self.outstanding.forward().is_some_and(|entry| entry.explains_report());
        self.known.session.take_changes(&ok, explained, self.outstanding.is_at_last());
        let reply = self.outstanding.insert_reply().filter(|_| control == Control::Ok);
        let more_warnings = reply.as_ref().map_or(0, |reply| reply.more_warnings);
        let filled = reply.and_then(|reply| reply.filled);
        let is_load = matches!(filled, Some(Filled { form: Form::Load(_), .. }));
        // The OK packet of LOAD has no id.
        let told_id = if is_load { Some(0) } else { insert_id };
        let is_changed =
            told_id.is_some_and(|id| id != ok.insert_id) || more_warnings != 0 || filled.is_some();
        let report =
            if self.strips_tracking { StateReport::Nothing } else { self.known.session.state_report() };
        let replaced = (is_changed || ok.has_state())
            .then(|| ok.patched(Patch { insert_id: told_id, more_warnings, filled, report }))
            .filter(|patched| patched != payload);
        if control == Control::Ok {
            self.note_insert_id(&ok, insert_id.unwrap_or(ok.insert_id));
        }
        Ok(replaced.map_or(Fate::Pass, Fate::Replace))
    }

    /// Notes what `LAST_INSERT_ID()` shows after a result that gives the client `insert_id`.
    fn note_insert_id(&mut self, ok: &OkPacket<'_>, insert_id: u64) {
        match self.outstanding.insert_reply() {
            Some(reply) => {
                let owed = reply.owed_insert_id(ok.affected_rows, insert_id);
                // A wrapper has set it again, after whatever an INSERT of the same packet left owed.
                let is_set = reply.sets_insert_id();
                if owed.is_some() || is_set {
                    self.known.session.owe_insert_id(owed);
                }
            }
            None if ok.insert_id != 0 => self.known.session.saw_insert_id(ok.insert_id),
            None => {}
        }
    }

    /// RETURNING: what the function shows after the rows. May be asked again about the same packet.
    fn end_of_returned_rows(&mut self) -> Result<(), Event> {
        if self.outstanding.explicit().is_some() {
            return Err(Event::FollowExplicit);
        }
        let Some(reply) = self.outstanding.insert_reply() else { return Ok(()) };
        match reply.settle_rows() {
            Settled::Leave | Settled::AskSession => {
                if reply.sets_insert_id() {
                    self.known.session.owe_insert_id(None);
                }
            }
            // The id counts as if one row had been inserted.
            Settled::Patch { insert_id } => {
                let owed = reply.owed_insert_id(1, insert_id);
                self.known.session.owe_insert_id(owed);
            }
            Settled::Ask(question) => return Err(Event::SmallestId(question)),
        }
        Ok(())
    }

    /// An error that other columns than we know would explain has them read again.
    fn learn_from_error(&mut self, payload: &[u8]) {
        // Unknown column, wrong number of values, no such table, no default value (of a view), out of range, wrong value.
        const OF_COLUMNS: [u16; 7] = [1054, 1136, 1146, 1264, 1364, 1366, 1423];
        let Some(code) = err_code(payload) else { return };
        let Some(entry) = self.outstanding.forward() else { return };
        for insert in entry.note.inserts() {
            self.known.rights.note_error(&insert.target, code);
        }
        if !OF_COLUMNS.contains(&code) {
            return;
        }
        let tables = self.tables.now();
        entry.note.targets().for_each(|target| tables.suspect(target));
    }

    fn prepare_ok(&mut self, payload: &[u8]) -> Result<Fate, Event> {
        let malformed = |error| Event::Violation(Violation::Backend(error));
        let ok = PrepareOk::parse(payload, self.forms).map_err(malformed)?;
        let Some(entry) = self.outstanding.forward() else { return Ok(Fate::Pass) };
        self.known.statements.note_id(ok.statement_id);
        if entry.sees_tracking {
            self.known.statements.may_see_tracking(ok.statement_id);
        }
        match &entry.note {
            Note::Prepare(kept) => self.known.statements.prepared(ok.statement_id, kept, ok.params),
            Note::PrepareActing(effects) => self.known.statements.prepared_acting(ok.statement_id, effects),
            Note::PrepareNextToLast { names_insert_id } => {
                self.known.statements.stays_next_to_last(ok.statement_id, *names_insert_id);
            }
            _ => {}
        }
        if let Some(draws) = &entry.draws {
            self.known.statements.prepared_drawing(ok.statement_id, draws);
        }
        let Some(params) = entry.client_params() else { return Ok(Fate::Pass) };
        let mut patched = payload.to_vec();
        if let Some(place) = patched.get_mut(PrepareOk::PARAMS_AT..PrepareOk::PARAMS_AT + 2) {
            place.copy_from_slice(&params.to_le_bytes());
        }
        Ok(Fate::Replace(patched))
    }

    /// The response is complete; `succeeded`: it did not end with an error.
    pub(crate) fn complete(&mut self, succeeded: bool) {
        let Some(Outstanding::Forward(entry)) = self.outstanding.pop() else { return };
        if self.outstanding.is_empty() {
            self.forget_kept();
        }
        let now = Instant::now();
        self.known.here.changes_at(now);
        let all = self.known.here.all();
        all.answered.note(now.saturating_duration_since(entry.arrived));
        all.at_server.note(now.saturating_duration_since(entry.sent));
        if entry.follower.prepares_nothing() && !self.outstanding.prepares() {
            self.known.statements.refuse_last();
        }
        if let Some(status) = entry.follower.status() {
            self.known.session.status = status;
        }
        if !succeeded && entry.more_follows {
            self.part_failed();
        }
        if !succeeded && entry.note.has_inserts() {
            self.known.here.count(Count::Failed, 1);
        }
        if let Note::Statements { effects, inserts, .. } = entry.note {
            if let Some(effects) = effects {
                if effects.ddl {
                    self.tables.forget_shapes();
                }
                let is_last = self.outstanding.is_empty();
                self.known.session.take_effects(&effects, succeeded, entry.results, is_last);
                self.known.session.sql_prepared.take(&effects, (!succeeded).then_some(entry.results));
                if effects.moves_ids {
                    self.tables.ids_may_have_moved();
                }
                // Rows of statements before an error in the packet are stored.
                for target in &effects.natively {
                    self.tables.numbered_natively(target);
                }
            }
            for insert in inserts.iter().filter(|_| succeeded) {
                self.known.rights.note(IdRight::Insert, &insert.target);
            }
        }
    }
}
