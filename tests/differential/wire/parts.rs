//! A packet of several statements that was cut: the server has it as several, and the client's answer is made of theirs, in which
//! every end but the last one's says that more results follow.

use super::edits::Known;
use super::transcript::{Exchange, command};
use super::{Statements, Walk};
use crate::support::raw::SERVER_MORE_RESULTS_EXISTS;

impl Walk<'_> {
    /// A command as it came or, where it differs, cut after one of its semicolons.
    pub(super) fn whole_or_cut(&mut self, asked: &Exchange) -> Result<(), String> {
        let cuts = cuts(asked);
        if cuts.is_empty() {
            return self.named_or_not(asked);
        }
        let before = self.state();
        let Err(problem) = self.named_or_not(asked) else { return Ok(()) };
        for cut in cuts {
            for packets in 0..2 {
                self.reset(&before);
                if self.in_two(asked, cut, packets).is_some() {
                    return Ok(());
                }
            }
        }
        self.reset(&before);
        Err(problem)
    }

    /// `more`: how many packets more the client got for the first part than the server's last answer to it has: a request for a
    /// file is in another one.
    fn in_two(&mut self, asked: &Exchange, cut: usize, more: usize) -> Option<()> {
        let (first, rest) = asked.command().split_at(cut);
        let part = |text: &[u8], answer: &[Vec<u8>], files: &[Vec<u8>]| {
            Exchange::new([&[text.to_vec()][..], files].concat(), answer)
        };
        let files = &asked.sent[1..];
        let unanswered = part(first, &[], files);
        let known = Known { columns: self.wire.rules.columns, told: &[] };
        let left = self.server.exchanges.get(self.at..)?;
        let run =
            self.text_run_by(&unanswered).map(|text| part(&[&[command::QUERY], &*text].concat(), &[], &[]));
        let is_it = |sent: &&Exchange| {
            [Some(&unanswered), run.as_ref()]
                .into_iter()
                .flatten()
                .any(|part| self.sent(part, sent, known).is_some())
        };
        let found = left.iter().find(is_it)?;
        let (told, later) = asked.answer.split_at_checked(found.answer.len() + more)?;
        let mut told = told.to_vec();
        if let [0xFF, ..] = told.last()?[..] {
            return later.is_empty().then(|| self.named_or_not(&part(first, &told, files)).ok())?;
        }
        // The bit is taken from the last result; the server has set it in those before.
        let pairs = told.iter_mut().rev().zip(found.answer.iter().rev());
        let taken = pairs
            .filter(|(_, sent)| more_follows(sent) == Some(false))
            .filter_map(|(packet, _)| take_bit(packet));
        taken.count().checked_sub(1)?;
        let asks = told.first().is_some_and(|packet| packet.first() == Some(&0xFB));
        self.named_or_not(&part(first, &told, if asks { files } else { &[] })).ok()?;
        self.whole_or_cut(&part(&[&[command::QUERY], rest].concat(), later, if asks { &[] } else { files }))
            .ok()
    }

    pub(super) fn state(&self) -> State {
        State {
            at: self.at,
            statements: (self.statements.clone(), self.unknown.clone(), self.stores.clone()),
            own: self.own.clone(),
            ids: self.wire.ids.clone(),
        }
    }

    pub(super) fn reset(&mut self, state: &State) {
        self.at = state.at;
        (self.statements, self.unknown, self.stores) = state.statements.clone();
        self.own = state.own.clone();
        self.wire.ids.clone_from(&state.ids);
    }
}

/// The state of a walk, to go back to.
pub(super) struct State {
    at: usize,
    statements: Statements,
    own: super::Own,
    ids: std::collections::BTreeMap<u64, u64>,
}

/// The places where a query may be cut: after its semicolons.
fn cuts(asked: &Exchange) -> Vec<usize> {
    let command = asked.command();
    if asked.byte() != command::QUERY {
        return Vec::new();
    }
    let ends = memchr::memchr_iter(b';', command).map(|at| at + 1);
    ends.filter(|end| !command[*end..].trim_ascii().is_empty()).collect()
}

/// The place of the status's low byte in a packet that ends a result or definitions.
fn status_at(packet: &[u8]) -> Option<usize> {
    let lenenc = |at: usize| match packet.get(at)? {
        0xFC => Some(at + 3),
        0xFD => Some(at + 4),
        0xFE => Some(at + 9),
        _ => Some(at + 1),
    };
    match packet {
        [0xFE, _, _, _, _] => Some(3),
        [0x00 | 0xFE, ..] => lenenc(lenenc(1)?),
        _ => None,
    }
}

fn more_follows(packet: &[u8]) -> Option<bool> {
    let low = packet.get(status_at(packet)?)?;
    Some(u16::from(*low) & SERVER_MORE_RESULTS_EXISTS != 0)
}

/// Takes the bit that more results follow.
fn take_bit(packet: &mut [u8]) -> Option<()> {
    let at = status_at(packet).filter(|_| more_follows(packet) == Some(true))?;
    *packet.get_mut(at)? &= !u8::try_from(SERVER_MORE_RESULTS_EXISTS).ok()?;
    Some(())
}
