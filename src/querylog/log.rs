//! The entries of a server's query log, general or slow, as MySQL and MariaDB write them.
//!
//! Neither log distinguishes a line of a statement from one of its own: a line that looks like the beginning
//! of an entry is taken for one.

use std::io::{self, BufRead};

use crate::querylog::entry::{Entry, EntryKind};
use crate::querylog::general;
use crate::querylog::lines::{Line, Lines};
use crate::querylog::slow::Slow;

/// Which log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The log's first lines decide.
    Auto,
    General,
    Slow,
}

/// The greatest length of the text in front of a statement in a general log's line.
const PREFIX_BYTES_MAX: usize = 256;

pub(crate) struct Log<R> {
    lines: Lines<R>,
    format: Format,
    bytes_max: usize,
    open: Option<general::Open>,
    slow: Slow,
    ready: std::collections::VecDeque<Entry>,
    has_ended: bool,
    /// Lines that belong to no entry.
    pub(crate) broken: u64,
}

impl<R: BufRead> Log<R> {
    /// A statement of more than `bytes_max` becomes an [`EntryKind::TooLong`].
    pub(crate) fn new(from: R, format: Format, bytes_max: usize) -> Self {
        Log {
            lines: Lines::new(from, bytes_max.saturating_add(PREFIX_BYTES_MAX)),
            format,
            bytes_max,
            open: None,
            slow: Slow::default(),
            ready: std::collections::VecDeque::new(),
            has_ended: false,
            broken: 0,
        }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Entry>> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Ok(Some(entry));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.line()?;
        }
    }

    fn line(&mut self) -> io::Result<()> {
        let Some(Line { bytes: line, number, is_cut }) = self.lines.next()? else {
            self.has_ended = true;
            self.ready.extend(self.open.take().map(general::Open::entry));
            self.ready.extend(self.slow.end());
            return Ok(());
        };
        if let Some(version) = banner(line) {
            let version = version.to_owned();
            self.ready.extend(self.open.take().map(general::Open::entry));
            self.ready.extend(self.slow.end());
            self.slow.starts_again();
            let what = EntryKind::Starts { version, shows_logins: self.format != Format::Slow };
            self.ready.push_back(Entry { connection: None, line: number, what });
            return Ok(());
        }
        if self.open.is_none() && is_heading(line) {
            return Ok(());
        }
        if self.format == Format::Auto {
            self.format = match () {
                () if Slow::is_header(line) => Format::Slow,
                () if general::Open::start(line, number, is_cut, self.bytes_max).is_some() => Format::General,
                () => Format::Auto,
            };
        }
        match self.format {
            Format::Slow => {
                let (entry, is_taken) = self.slow.line(line, number, is_cut, self.bytes_max);
                self.ready.extend(entry);
                self.broken += u64::from(!is_taken);
            }
            Format::General | Format::Auto => {
                match general::Open::start(line, number, is_cut, self.bytes_max) {
                    Some(next) => self.ready.extend(self.open.replace(next).map(general::Open::entry)),
                    None => match &mut self.open {
                        Some(open) => open.goes_on(line, is_cut, self.bytes_max),
                        None => self.broken += 1,
                    },
                }
            }
        }
        Ok(())
    }
}

/// `/usr/sbin/mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:`
fn banner(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let (_, rest) = line.strip_suffix("started with:")?.split_once(", Version: ")?;
    rest.split_ascii_whitespace().next()
}

/// The two lines after the banner.
fn is_heading(line: &[u8]) -> bool {
    let is_columns = line.starts_with(b"Time") && memchr::memmem::find(line, b"Id Command").is_some();
    is_columns || line.starts_with(b"Tcp port:") || line.starts_with(b"TCP Port:")
}
