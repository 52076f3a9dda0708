//! `log.audit`: a file of JSON lines that nobody waits for.
//!
//! A thread of its own writes them. What comes faster than the disk takes it is left out and counted, since a full disk is no
//! reason to stop statements.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arc_swap::ArcSwapOption;
use serde::Serialize;

/// Lines that wait for the disk.
const WAITING_MAX: usize = 16_384;
/// Digests whose texts were written; of later ones the lines have the hash alone.
const TEXTS_MAX: usize = 10_000;

/// Where rewritten statements are noted, if anywhere. Shared by all sessions.
#[derive(Debug, Default)]
pub struct Audit {
    file: ArcSwapOption<AuditFile>,
    lost: AtomicU64,
}

#[derive(Debug, thiserror::Error)]
#[error("log.audit: {} cannot be written: {error}; name a file in a folder that this user may write", path.display())]
pub struct AuditError {
    path: PathBuf,
    error: io::Error,
}

#[derive(Debug)]
struct AuditFile {
    lines: SyncSender<Vec<u8>>,
    /// Of which the text has been written.
    told: Mutex<HashSet<String>>,
    writer: Option<JoinHandle<()>>,
}

/// One statement that ids were put into, as it was sent.
#[derive(Debug, Serialize)]
pub struct Statement<'a> {
    /// RFC 3339, UTC.
    pub time: &'a str,
    /// This proxy's number of the session.
    pub session: u64,
    /// The server's.
    pub connection: u32,
    pub user: &'a str,
    /// Empty: over a Unix socket.
    pub client: &'a str,
    /// `schema.table`
    pub table: &'a str,
    /// `schema.name`
    pub generator: &'a str,
    /// 16 hexadecimal digits; "unknown": the text of what was prepared was too long to be kept.
    pub digest: &'a str,
    pub first: u64,
    pub last: u64,
    pub step: u64,
}

/// What a digest stands for: in front of the first line that has it.
#[derive(Serialize)]
struct Text<'a> {
    digest: &'a str,
    /// Without any literal.
    statement: &'a str,
}

#[derive(Serialize)]
struct Lost {
    lost_lines: u64,
}

impl Audit {
    /// From here on it is this file, opened anew, so that one that was renamed is left (logrotate). `None`: nothing is noted.
    pub fn open(&self, path: Option<&Path>) -> Result<(), AuditError> {
        let opened = path
            .map(|path| AuditFile::open(path).map_err(|error| AuditError { path: path.to_owned(), error }));
        self.file.store(opened.transpose()?.map(Arc::new));
        Ok(())
    }

    pub fn is_on(&self) -> bool {
        self.file.load().is_some()
    }

    /// `text`: the digest's, without any literal.
    pub fn note(&self, statement: &Statement<'_>, text: &str) {
        let Some(file) = &*self.file.load() else { return };
        if file.is_new(statement.digest) {
            self.put(file, &Text { digest: statement.digest, statement: text });
        }
        self.put(file, statement);
    }

    /// Lines that were left out.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn put(&self, file: &AuditFile, line: &impl Serialize) {
        let Ok(mut bytes) = serde_json::to_vec(line) else { return };
        bytes.push(b'\n');
        if file.lines.try_send(bytes).is_err() && self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "log.audit: statements come faster than the disk takes their lines; some are left out, and counted"
            );
        }
    }
}

impl Drop for Audit {
    /// What waits is written.
    fn drop(&mut self) {
        let lost = *self.lost.get_mut();
        if let Some(file) = self.file.swap(None)
            && lost > 0
            && let Ok(mut line) = serde_json::to_vec(&Lost { lost_lines: lost })
        {
            line.push(b'\n');
            // Behind all that waits, however long that takes: it must not be lost itself.
            let _ = file.lines.send(line);
        }
    }
}

impl AuditFile {
    fn open(path: &Path) -> io::Result<Self> {
        // Readable by its owner only, as logs of what an application does are.
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let path = path.to_owned();
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write(file, &path, &waiting))?;
        Ok(AuditFile { lines, told: Mutex::default(), writer: Some(writer) })
    }

    fn is_new(&self, digest: &str) -> bool {
        // A set is right whatever panicked while it was locked.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < TEXTS_MAX && !told.contains(digest) && told.insert(digest.to_owned())
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        // The writer ends when its last sender is gone.
        (self.lines, _) = sync_channel(0);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Until nobody can send any more. Flushes whenever nothing waits.
fn write(file: File, path: &Path, lines: &Receiver<Vec<u8>>) {
    let mut file = BufWriter::new(file);
    let mut has_failed = false;
    loop {
        let line = match lines.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                failed(&mut has_failed, path, &file.flush());
                match lines.recv() {
                    Ok(line) => line,
                    Err(_) => break,
                }
            }
        };
        failed(&mut has_failed, path, &file.write_all(&line));
    }
    failed(&mut has_failed, path, &file.flush());
}

/// Told once, and again when it had worked in between.
fn failed(has_failed: &mut bool, path: &Path, written: &io::Result<()>) {
    if let Err(error) = written
        && !*has_failed
    {
        tracing::error!(%error, path = %path.display(), "log.audit cannot be written; statements go on");
    }
    *has_failed = written.is_err();
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{Audit, Statement};

    fn statement(digest: &str, first: u64) -> Statement<'_> {
        Statement {
            time: "2026-11-22T10:00:00.000Z",
            session: 1,
            connection: 41,
            user: "app",
            client: "",
            table: "shop.orders",
            generator: "shop.orders",
            digest,
            first,
            last: first + 1,
            step: 1,
        }
    }

    #[test]
    fn lines_are_written_and_a_renamed_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("audit.log"), folder.path().join("audit.log.1"));
        let audit = Audit::default();
        assert!(!audit.is_on());
        audit.note(&statement("d1", 1), "INSERT");
        audit.open(Some(&path)).unwrap();
        audit.note(&statement("d1", 3), "INSERT a");
        audit.note(&statement("d1", 5), "INSERT a");
        fs::rename(&path, &old).unwrap();
        audit.open(Some(&path)).unwrap();
        audit.note(&statement("d2", 7), "INSERT b");
        drop(audit);
        let lines = |path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
        let (before, behind) = (lines(&old), lines(&path));
        assert_eq!((before.len(), behind.len()), (3, 2), "{before:?} {behind:?}");
        assert_eq!(before[0], r#"{"digest":"d1","statement":"INSERT a"}"#);
        assert_eq!(
            before[1],
            r#"{"time":"2026-11-22T10:00:00.000Z","session":1,"connection":41,"user":"app","client":"","table":"shop.orders","generator":"shop.orders","digest":"d1","first":3,"last":4,"step":1}"#
        );
        assert!(behind[1].contains(r#""first":7"#));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn lost_lines_are_counted_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = Audit::default();
        audit.open(Some(&path)).unwrap();
        audit.note(&statement("d1", 1), "INSERT");
        audit.lost.store(7, std::sync::atomic::Ordering::Relaxed);
        drop(audit);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().last(), Some(r#"{"lost_lines":7}"#), "{text}");
    }

    #[test]
    fn what_cannot_be_written_is_said_with_its_path() {
        let audit = Audit::default();
        let error = audit.open(Some("/nowhere/audit.log".as_ref())).unwrap_err().to_string();
        assert!(error.starts_with("log.audit: /nowhere/audit.log cannot be written"), "{error}");
        assert!(!audit.is_on());
    }
}
