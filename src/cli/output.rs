//! Standard output, whose reader may end first: `rowstamp check | head`.

use std::io::{self, StdoutLock, Write};

/// Standard output. It drops everything that is written after the reader has ended. A command does its work to the end, and
/// has the same exit code with a reader and without.
pub(super) struct Output {
    to: StdoutLock<'static>,
    has_reader: bool,
}

pub(super) fn stdout() -> Output {
    Output { to: io::stdout().lock(), has_reader: true }
}

impl Output {
    /// For a command that has no end of its own.
    pub(super) fn has_reader(&self) -> bool {
        self.has_reader
    }

    fn or_dropped<T>(&mut self, done: io::Result<T>, dropped: T) -> io::Result<T> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.has_reader = false;
                Ok(dropped)
            }
            done => done,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        self.or_dropped(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.or_dropped(flushed, ())
    }
}
