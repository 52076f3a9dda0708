//! The thread that writes lines to the disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::LostLines;

/// Lines are put together up to so many bytes.
const BUFFER_BYTES: usize = 8 << 10;
/// Bytes that the disk refuses are tried again up to this many; then they are dropped and counted.
const REFUSED_BYTES_MAX: usize = 1 << 20;
/// The longest time that a new file waits for the lines of the file before it. So, if both are one file, its lines are
/// in order, unless the disk hangs.
const BEFORE_MAX: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A thread that writes a file until nobody can send it lines any more.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    path: PathBuf,
    thread: Arc<JoinHandle<()>>,
    /// Lines that were taken from the senders and are not in the file.
    held: Arc<AtomicU64>,
}

/// Lines on their way into the file.
struct Sink<W> {
    to: W,
    bytes: Vec<u8>,
    held: Arc<AtomicU64>,
    lost: Arc<LostLines>,
    has_failed: bool,
    /// The last byte that was written ended no line.
    is_torn: bool,
    /// The rest of that line was given up.
    lacks_end: bool,
}

impl Writer {
    pub(super) fn start(
        path: PathBuf,
        file: File,
        lines: Receiver<Vec<u8>>,
        lost: Arc<LostLines>,
        before: Option<Writer>,
    ) -> io::Result<Writer> {
        let held = Arc::new(AtomicU64::new(0));
        let sink = Sink::new(file, Arc::clone(&held), lost);
        let for_thread = path.clone();
        let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(move || {
            if let Some(before) = before {
                before.wait_until(Instant::now() + BEFORE_MAX);
            }
            write(sink, &for_thread, &lines);
        })?;
        Ok(Writer { path, thread: Arc::new(thread), held })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(super) fn wait_until(&self, end: Instant) {
        while !self.has_ended() && Instant::now() < end {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Called when the process ends: says in the log that lines are missing, if the writer still has some.
    pub(super) fn tell_what_is_left(&self) {
        if !self.has_ended() {
            tracing::error!(
                path = %self.path.display(),
                at_least = self.held.load(Ordering::Relaxed),
                "log.audit: the disk hangs; the last lines are not in the file"
            );
        }
    }
}

/// Until nobody can send any more. Writes whenever nothing waits.
fn write(mut sink: Sink<File>, path: &Path, lines: &Receiver<Vec<u8>>) {
    loop {
        let line = match lines.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                sink.flush(path);
                match lines.recv() {
                    Ok(line) => line,
                    Err(_) => break,
                }
            }
        };
        sink.take(&line, path);
    }
    sink.end(path);
}

impl<W: Write> Sink<W> {
    fn new(to: W, held: Arc<AtomicU64>, lost: Arc<LostLines>) -> Sink<W> {
        Sink { to, bytes: Vec::new(), held, lost, has_failed: false, is_torn: false, lacks_end: false }
    }

    fn take(&mut self, line: &[u8], path: &Path) {
        if self.bytes.len() + line.len() > REFUSED_BYTES_MAX {
            self.give_up();
        }
        self.bytes.extend_from_slice(line);
        self.held.fetch_add(1, Ordering::Relaxed);
        if self.bytes.len() >= BUFFER_BYTES {
            self.flush(path);
        }
    }

    fn flush(&mut self, path: &Path) {
        let written = self.try_flush();
        if let Err(error) = &written
            && !self.has_failed
        {
            // Logged once, and again if it has worked in between.
            tracing::error!(%error, path = %path.display(), "log.audit cannot be written; statements continue");
        }
        self.has_failed = written.is_err();
    }

    /// Bytes that the disk does not take stay.
    fn try_flush(&mut self) -> io::Result<()> {
        if self.lacks_end {
            self.to.write_all(b"\n")?;
            (self.lacks_end, self.is_torn) = (false, false);
        }
        while !self.bytes.is_empty() {
            let count = match self.to.write(&self.bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let written = self.bytes.drain(..count.min(self.bytes.len()));
            let (lines, last) =
                written.fold((0, 0), |(lines, _), byte| (lines + u64::from(byte == b'\n'), byte));
            self.held.fetch_sub(lines, Ordering::Relaxed);
            self.is_torn = last != b'\n';
        }
        Ok(())
    }

    /// Leaves out what the disk has refused; of a line that is half written the rest.
    fn give_up(&mut self) {
        self.lost.add(self.held.swap(0, Ordering::Relaxed));
        self.bytes.clear();
        self.lacks_end = self.is_torn;
    }

    fn end(&mut self, path: &Path) {
        self.flush(path);
        if !self.bytes.is_empty() {
            self.give_up();
        }
        let lost = self.lost.here.load(Ordering::Relaxed);
        if lost > 0 {
            self.take(format!("{{\"lost_lines\":{lost}}}\n").as_bytes(), path);
            self.flush(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use super::{REFUSED_BYTES_MAX, Sink};
    use crate::audit::LostLines;

    /// Takes so many bytes, three at a time, and then says that it is full.
    struct Disk {
        room: usize,
        held: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room).min(3);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.held.extend(&bytes[..count]);
            self.room -= count;
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn sink(room: usize) -> Sink<Disk> {
        Sink::new(Disk { room, held: Vec::new() }, Arc::default(), Arc::new(LostLines::default()))
    }

    #[test]
    fn what_a_full_disk_refuses_is_written_once_it_has_room() {
        let (mut sink, path) = (sink(5), Path::new("x"));
        for line in ["ab\n", "cd\n", "ef\n"] {
            sink.take(line.as_bytes(), path);
        }
        sink.flush(path);
        assert_eq!((sink.held.load(Ordering::Relaxed), sink.has_failed), (2, true));
        sink.to.room = 100;
        sink.end(path);
        assert_eq!(sink.to.held, b"ab\ncd\nef\n");
        assert_eq!(sink.lost.here.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_a_full_disk_refuses_for_long_is_counted() {
        let (mut sink, path) = (sink(5), Path::new("x"));
        let long = [&vec![b'x'; REFUSED_BYTES_MAX / 2][..], b"\n"].concat();
        sink.take(b"ab\n", path);
        for _ in 0..3 {
            sink.take(&long, path);
        }
        sink.to.room = usize::MAX;
        sink.end(path);
        let text = String::from_utf8(sink.to.held).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines[0], lines[1]), ("ab", "xx"), "a line that is half written ends");
        assert_eq!((lines.len(), lines[2].len(), lines[3]), (4, long.len() - 1, r#"{"lost_lines":2}"#));
        assert_eq!(sink.lost.all.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_is_left_at_the_end_is_counted() {
        let (mut sink, path) = (sink(4), Path::new("x"));
        sink.take(b"ab\n", path);
        sink.take(b"cd\n", path);
        sink.end(path);
        assert_eq!(sink.lost.all.load(Ordering::Relaxed), 1);
    }
}
