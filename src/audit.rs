//! `log.audit`: a file of JSON lines that nobody waits for.
//!
//! A thread of its own writes them. Lines that the disk cannot take in time are dropped and counted. Neither a full
//! disk nor one that hangs may stop statements, a reload or the shutdown.

mod writer;

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use serde::Serialize;

use self::writer::Writer;

/// Lines that wait for the disk at most. Further ones are left out and counted: no session waits for a disk.
const WAITING_MAX: usize = 16_384;
/// Digests whose texts were written; of later ones the lines have the hash alone.
const TEXTS_MAX: usize = 10_000;
const OPEN_DEADLINE: Duration = Duration::from_secs(10);
/// The time limit at the process's end for the lines that wait.
const END_DEADLINE: Duration = Duration::from_secs(5);

/// The file that rewritten statements are noted in, if there is one. Shared by all sessions.
#[derive(Debug, Default)]
pub struct Audit {
    file: ArcSwapOption<AuditFile>,
    /// The lines that are missing in all files.
    lost: Arc<AtomicU64>,
    /// The writers of this file, and of files before it that have lines left to write.
    writers: Mutex<Vec<Writer>>,
}

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("log.audit: {} cannot be written: {error}; name a file in a folder to which this user may write", path.display())]
    Open { path: PathBuf, error: io::Error },
    #[error(
        "log.audit: {} does not open within {OPEN_DEADLINE:?}; check the disk, or start the reader if the file is a pipe", path.display()
    )]
    Hangs { path: PathBuf },
}

/// A file that is open and in which nothing is noted yet.
#[derive(Debug)]
pub struct Opened {
    path: PathBuf,
    file: File,
}

#[derive(Debug)]
struct AuditFile {
    lines: SyncSender<Vec<u8>>,
    /// Digests whose texts have been written.
    told: Mutex<HashSet<String>>,
    lost: Arc<LostLines>,
}

#[derive(Debug, Default)]
struct LostLines {
    here: AtomicU64,
    /// The lines that were left out of this file and all others.
    all: Arc<AtomicU64>,
}

/// One statement that ids were put into, as it was sent.
#[derive(Debug, Serialize)]
pub struct Statement<'a> {
    /// RFC 3339, UTC.
    pub time: &'a str,
    /// This proxy's number of the session.
    pub session: u64,
    /// The server's id of its connection.
    pub connection: u32,
    pub user: &'a str,
    /// Empty: over a Unix socket.
    pub client: &'a str,
    /// `schema.table`; empty: calls have drawn them.
    pub table: &'a str,
    /// `schema.name`
    pub generator: &'a str,
    /// 16 hexadecimal digits; "unknown": the text of what was prepared was too long to be kept.
    pub digest: &'a str,
    pub first: u64,
    pub last: u64,
    pub step: u64,
}

/// Ids that a door gave to a client, as it gave them.
#[derive(Debug, Serialize)]
pub struct Drawn<'a> {
    /// RFC 3339, UTC.
    pub time: &'a str,
    /// "resp"
    pub door: &'a str,
    /// The door's number of the connection.
    pub connection: u64,
    pub user: &'a str,
    /// Empty: over a Unix socket.
    pub client: &'a str,
    /// `schema.name`
    pub generator: &'a str,
    pub first: u64,
    pub last: u64,
    pub count: u64,
    pub step: u64,
}

/// A change of a user, as the console was asked for it, without any secret.
#[derive(Debug, Serialize)]
pub struct UserChange<'a> {
    /// RFC 3339, UTC.
    pub time: &'a str,
    pub user: &'a str,
    pub client: &'a str,
    /// The change as a statement of the console, without passwords and tokens.
    pub change: &'a str,
    /// Why it was not made, or may not have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

/// Opens the file, or makes it; what is in it stays. `None`: nothing is to be noted.
pub async fn open(path: Option<&Path>) -> Result<Option<Opened>, AuditError> {
    let Some(path) = path.map(Path::to_owned) else { return Ok(None) };
    let (opened, opening) = tokio::sync::oneshot::channel();
    let for_thread = path.clone();
    // Not one of the runtime's threads, which it waits for when it ends.
    std::thread::spawn(move || {
        // Readable by its owner only, as logs of what an application does are.
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(for_thread);
        let _ = opened.send(file);
    });
    match tokio::time::timeout(OPEN_DEADLINE, opening).await {
        Ok(Ok(Ok(file))) => Ok(Some(Opened { path, file })),
        Ok(Ok(Err(error))) => Err(AuditError::Open { path, error }),
        Ok(Err(_)) | Err(_) => Err(AuditError::Hangs { path }),
    }
}

impl Audit {
    /// Lines go into this file from here on, so that a file that was renamed is left (logrotate). Waits for nothing: a
    /// thread still writes the lines that wait for the file before.
    pub fn note_in(&self, opened: Option<Opened>) -> Result<(), AuditError> {
        let mut writers = self.writers.lock();
        writers.retain(|writer| !writer.has_ended());
        let Some(Opened { path, file }) = opened else {
            self.file.store(None);
            return Ok(());
        };
        let (lines, waiting) = sync_channel(WAITING_MAX);
        let lost = Arc::new(LostLines { here: AtomicU64::new(0), all: Arc::clone(&self.lost) });
        let before = writers.last().cloned();
        let writer = Writer::start(path.clone(), file, waiting, Arc::clone(&lost), before)
            .map_err(|error| AuditError::Open { path, error })?;
        writers.push(writer);
        self.file.store(Some(Arc::new(AuditFile { lines, told: Mutex::default(), lost })));
        Ok(())
    }

    pub fn is_on(&self) -> bool {
        self.file.load().is_some()
    }

    /// `text`: the digest's, without any literal.
    pub fn note(&self, statement: &Statement<'_>, text: &str) {
        let Some(file) = &*self.file.load() else { return };
        if file.is_new(statement.digest) {
            // In front of the first line that has the digest.
            file.put(&serde_json::json!({"digest": statement.digest, "statement": text}));
        }
        file.put(statement);
    }

    /// [`Drawn`] or [`UserChange`].
    pub fn note_line(&self, line: &impl Serialize) {
        if let Some(file) = &*self.file.load() {
            file.put(line);
        }
    }

    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Audit {
    /// Writes the lines that wait, if the disk takes them.
    fn drop(&mut self) {
        self.file.store(None);
        let writers = std::mem::take(self.writers.get_mut());
        let end = std::time::Instant::now() + END_DEADLINE;
        for writer in writers {
            writer.wait_until(end);
            writer.tell_what_is_left();
        }
    }
}

impl AuditFile {
    fn is_new(&self, digest: &str) -> bool {
        // A set is right whatever panicked while it was locked.
        let mut told = self.told.lock();
        told.len() < TEXTS_MAX && !told.contains(digest) && told.insert(digest.to_owned())
    }

    fn put(&self, line: &impl Serialize) {
        let Ok(mut bytes) = serde_json::to_vec(line) else { return };
        bytes.push(b'\n');
        if self.lines.try_send(bytes).is_err() {
            self.lost.add(1);
        }
    }
}

impl LostLines {
    /// Adds lost lines. Logged at the first, the second, the fourth and so on: often enough, and never too often.
    fn add(&self, lines: u64) {
        self.here.fetch_add(lines, Ordering::Relaxed);
        let before = self.all.fetch_add(lines, Ordering::Relaxed);
        let lost = before.saturating_add(lines);
        if before == 0 || before.ilog2() < lost.ilog2() {
            tracing::warn!(
                lost,
                "log.audit: the disk fails or is too slow, so lines are missing from the file; `lost` counts them since the start"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::{Audit, Statement, WAITING_MAX};

    fn open_in(audit: &Audit, path: &Path) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        audit.note_in(runtime.block_on(super::open(Some(path))).unwrap()).unwrap();
    }

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
        open_in(&audit, &path);
        audit.note(&statement("d1", 3), "INSERT a");
        audit.note(&statement("d1", 5), "INSERT a");
        fs::rename(&path, &old).unwrap();
        open_in(&audit, &path);
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

    /// A pipe that nobody reads: as a disk that hangs.
    #[test]
    fn a_disk_that_hangs_holds_up_neither_a_new_file_nor_the_end_and_what_is_lost_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, path) = (folder.path().join("pipe"), folder.path().join("audit.log"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        // Open at both ends, so that writing to it waits once it is full.
        let _reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let audit = Audit::default();
        open_in(&audit, &pipe);
        let text = "INSERT INTO t (a) VALUES (...)";
        for first in 0..WAITING_MAX as u64 + 2_000 {
            audit.note(&statement("d1", first), text);
        }
        // The pipe is read by nobody: who waits for it never comes as far as this.
        assert!(audit.lost() > 0);
        open_in(&audit, &path);
        audit.note(&statement("d2", 7), "INSERT b");
        drop(audit);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "nothing of this file was lost: {text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_does_not_open_is_said_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = super::open(Some(&pipe)).await.unwrap_err().to_string();
        assert!(error.contains("pipe does not open within 10s"), "{error}");
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_said_with_its_path() {
        let error = super::open(Some("/nowhere/audit.log".as_ref())).await.unwrap_err().to_string();
        assert!(error.starts_with("log.audit: /nowhere/audit.log cannot be written"), "{error}");
    }
}
