//! One proxy's store: a redb file, each write synced to disk before it is answered.
//!
//! * **One process.** redb locks the file; a second process gets [`StoreError::InUse`].
//! * **First creation is all or nothing**: made under another name, then linked to its own. So a file that is empty or
//!   no redb file was damaged or is somebody else's, and is never initialized again: that would forget every bound.
//! * **After a failed write** redb answers nothing more; the file is opened again at the next call. A failed fsync
//!   leaves pages in the system's cache that read back well and are on no disk, and the next fsync does not report
//!   them again. Therefore each opening writes every record again and syncs before the first answer is given. The same
//!   write shows a full or read-only disk at start instead of at the first id.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableError,
    WriteTransaction,
};

use super::record::{check_format, encode_format};
use super::{Json, Key, Outcome, Result, Revision, Store, StoreError, Versioned, Write};

/// Key -> (revision, JSON).
const RECORDS: TableDefinition<&str, (u64, &[u8])> = TableDefinition::new("records");
/// The count of writes, which gives each its revision.
const COUNTS: TableDefinition<&str, u64> = TableDefinition::new("counts");
const REVISION: &str = "revision";

/// A few thousand records of 200 bytes each; redb's default of 1 GiB is for databases.
const CACHE_BYTES: usize = 4 << 20;

/// The name of the file among all others, on this machine until it starts again. A copy of the file has another name.
pub fn file_name(path: &Path) -> io::Result<String> {
    let file = std::fs::metadata(path)?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Ok(format!("{} {} {}", boot.trim(), file.dev(), file.ino()))
}

/// The step that failed, which says whether it can have changed the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    BeforeCommit,
    Commit,
}

#[derive(Debug)]
struct Failed {
    step: Step,
    error: redb::Error,
}

/// Every error but that of [`commit`] comes before the commit.
impl<E: Into<redb::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed { step: Step::BeforeCommit, error: error.into() }
    }
}

pub struct EmbeddedStore {
    file: Arc<StoreFile>,
}

struct StoreFile {
    path: PathBuf,
    /// `None`: closed by a failed write, opened again by the next call.
    database: Mutex<Option<Database>>,
}

impl EmbeddedStore {
    /// Opens the file, or creates it (mode 0600). Blocks for a few fsyncs: for the start of a process.
    pub fn open(path: &Path) -> Result<Self> {
        let database = match open_existing(path)? {
            Some(database) => database,
            None => create(path)?,
        };
        Ok(EmbeddedStore {
            file: Arc::new(StoreFile { path: path.to_owned(), database: Mutex::new(Some(database)) }),
        })
    }

    /// Runs one transaction on a thread that may block.
    async fn run<T, F>(&self, key: Option<&Key>, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> Result<T, Failed> + Send + 'static,
    {
        let file = Arc::clone(&self.file);
        let done = tokio::task::spawn_blocking(move || file.with(work)).await;
        let store = self.file.path.display().to_string();
        let unknown = |key: &Key, reason: String| StoreError::UnknownOutcome {
            store: store.clone(),
            key: key.clone(),
            reason,
        };
        match (done, key) {
            (Ok(Ok(value)), _) => Ok(value),
            (Ok(Err(NotDone::Store(error))), _) => Err(error),
            (Ok(Err(NotDone::Failed(failed))), Some(key)) if failed.step == Step::Commit => {
                Err(unknown(key, failed.error.to_string()))
            }
            (Ok(Err(NotDone::Failed(failed))), _) => {
                Err(StoreError::Unavailable { store, reason: failed.error.to_string() })
            }
            // The runtime ended.
            (Err(lost), Some(key)) => Err(unknown(key, lost.to_string())),
            (Err(lost), None) => Err(StoreError::Unavailable { store, reason: lost.to_string() }),
        }
    }
}

enum NotDone {
    Store(StoreError),
    Failed(Failed),
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        let slot = self.database.get_mut();
        if let Some(database) = slot.take() {
            discard(database);
        }
    }
}

impl StoreFile {
    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Failed>) -> Result<T, NotDone> {
        let mut slot = self.database.lock();
        let database = match slot.take() {
            Some(database) => database,
            None => self.reopen().map_err(NotDone::Store)?,
        };
        let panicked = || Failed { step: Step::Commit, error: redb::Error::Corrupted(GAVE_UP.to_owned()) };
        match guarded(|| work(&database)).unwrap_or_else(|| Err(panicked())) {
            Ok(value) => {
                *slot = Some(database);
                Ok(value)
            }
            Err(failed) => {
                discard(database);
                // Here, since the caller may have gone; no span reaches this thread.
                tracing::warn!(store = %self.path.display(), error = %failed.error, "the store failed; the next call opens it again");
                Err(NotDone::Failed(failed))
            }
        }
    }

    fn reopen(&self) -> Result<Database> {
        open_existing(&self.path)?.ok_or_else(|| StoreError::Open {
            path: self.path.clone(),
            reason: "the file is missing".to_owned(),
            remedy: concat!("move the file back and restart; if it is lost: ", crate::book::page!("restore"))
                .to_owned(),
        })
    }
}

/// `None`: there is no file.
fn open_existing(path: &Path) -> Result<Option<Database>> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(no_access(path, &e)),
    };
    if file.metadata().map_err(|e| no_access(path, &e))?.len() == 0 {
        return Err(damaged(path, "the file is empty"));
    }
    let mut database = guarded(|| database_in(path, file)).unwrap_or_else(|| Err(damaged(path, GAVE_UP)))?;
    match guarded(|| check(path, &mut database)).unwrap_or_else(|| Err(damaged(path, GAVE_UP))) {
        Ok(()) => Ok(Some(database)),
        Err(error) => {
            discard(database);
            Err(error)
        }
    }
}

const GAVE_UP: &str = "the database library (redb) panicked";

/// redb checks what it reads, but some damage gets past its checks and ends in a panic; `None` then. The database is
/// never dropped by the unwinding itself: a second panic would end the process.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Closing writes, and so may panic on damage like anything else.
fn discard(database: Database) {
    let _ = guarded(|| drop(database));
}

fn database_in(path: &Path, file: File) -> Result<Database> {
    redb::Builder::new().set_cache_size(CACHE_BYTES).create_file(file).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::InUse { path: path.to_owned() },
        DatabaseError::Storage(StorageError::Io(e)) if e.kind() != io::ErrorKind::InvalidData => {
            no_access(path, &e)
        }
        other => damaged(path, &other.to_string()),
    })
}

/// Every checksum, the format, and a write (module page). A repair here would mean that an answered write is lost: the
/// damage of a crash was repaired before, when redb opened the file.
fn check(path: &Path, database: &mut Database) -> Result<()> {
    let unreadable = |failed| unreadable(path, failed);
    if !database.check_integrity().map_err(|error| unreadable(error.into()))? {
        return Err(damaged(path, "its checksums do not match"));
    }
    let records = records_from(database, "").map_err(unreadable)?;
    let format = records.iter().find(|(key, _)| *key == Key::format());
    check_format(format.map_or(b"".as_slice(), |(_, found)| &found.value)).map_err(|error| match error {
        StoreError::Corrupt { place, reason } => damaged(path, &format!("{place}: {reason}")),
        error => error,
    })?;
    write_all_anew(database, &records).map_err(unreadable)
}

/// Writes every record again as it is (module page).
fn write_all_anew(database: &Database, records: &[(Key, Versioned<Json>)]) -> Result<(), Failed> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(RECORDS)?;
        for (key, found) in records {
            table.insert(key.as_str(), (found.revision.0, found.value.as_slice()))?;
        }
        let mut counts = write.open_table(COUNTS)?;
        let count = counts.get(REVISION)?.map_or(0, |n| n.value());
        counts.insert(REVISION, count)?;
    }
    commit(write)
}

fn unreadable(path: &Path, failed: Failed) -> StoreError {
    match failed.error {
        redb::Error::Io(e) => no_access(path, &e),
        error => damaged(path, &error.to_string()),
    }
}

/// Makes a new file under a name of its own and links it to `path`, so that no half-made file ever stands there and of
/// two processes one wins.
fn create(path: &Path) -> Result<Database> {
    let mut making = path.as_os_str().to_owned();
    making.push(format!(".new-{}-{:08x}", std::process::id(), rand::random::<u32>()));
    let making = PathBuf::from(making);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&making)
        .map_err(|e| no_folder_or_access(path, &e))?;
    let made = database_in(path, file).and_then(|database| {
        compare_and_set_in(&database, &Key::format(), None, &encode_format())
            .map_err(|failed| unreadable(path, failed))?;
        Ok(database)
    });
    let linked = made.and_then(|database| match std::fs::hard_link(&making, path) {
        Ok(()) => sync_folder(path).map(|()| Some(database)).map_err(|e| no_access(path, &e)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(e) => Err(no_access(path, &e)),
    });
    // A leftover file of this name is in nobody's way; failing for it would be worse.
    let _ = std::fs::remove_file(&making);
    match linked? {
        Some(database) => Ok(database),
        None => open_existing(path)?.ok_or_else(|| StoreError::InUse { path: path.to_owned() }),
    }
}

/// A new name is durable once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn damaged(path: &Path, reason: &str) -> StoreError {
    StoreError::Corrupt { place: path.display().to_string(), reason: reason.to_owned() }
}

fn no_access(path: &Path, error: &io::Error) -> StoreError {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "give the user of this process the right to read and write the file"
        }
        io::ErrorKind::IsADirectory => "store.path names a folder; write a file in this folder",
        io::ErrorKind::StorageFull => "free space on its disk",
        _ => "check store.path and its disk",
    };
    StoreError::Open { path: path.to_owned(), reason: error.to_string(), remedy: remedy.to_owned() }
}

fn no_folder_or_access(path: &Path, error: &io::Error) -> StoreError {
    if error.kind() != io::ErrorKind::NotFound {
        return no_access(path, error);
    }
    let folder = folder_of(path).display();
    StoreError::Open {
        path: path.to_owned(),
        reason: format!("its folder {folder} does not exist"),
        remedy: "create the folder, or correct store.path".to_owned(),
    }
}

fn records_from(database: &Database, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>, Failed> {
    let read = database.begin_read()?;
    let table = match read.open_table(RECORDS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let mut found = Vec::new();
    for entry in table.range(prefix..)? {
        let (key, value) = entry?;
        if !key.value().starts_with(prefix) {
            break;
        }
        found.push((Key(key.value().to_owned()), versioned(value.value())));
    }
    Ok(found)
}

fn load_from(database: &Database, key: &Key) -> Result<Option<Versioned<Json>>, Failed> {
    let read = database.begin_read()?;
    let table = read.open_table(RECORDS)?;
    let found = table.get(key.as_str())?;
    Ok(found.map(|found| versioned(found.value())))
}

fn versioned((revision, json): (u64, &[u8])) -> Versioned<Json> {
    Versioned { revision: Revision(revision), value: json.to_vec() }
}

fn compare_and_set_in(
    database: &Database,
    key: &Key,
    expected: Option<Revision>,
    value: &[u8],
) -> Result<Outcome, Failed> {
    let write = database.begin_write()?;
    match write_in(&write, key, expected, value)? {
        // The transaction is dropped.
        conflict @ Outcome::Conflict(_) => Ok(conflict),
        written => commit(write).map(|()| written),
    }
}

/// One transaction, and one sync, for all that are at their revisions.
fn write_all_in(database: &Database, writes: &[Write]) -> Result<Vec<bool>, Failed> {
    let transaction = database.begin_write()?;
    let write = |one: &Write| {
        let outcome = write_in(&transaction, &one.key, one.expected, &one.value)?;
        Ok(matches!(outcome, Outcome::Written(_)))
    };
    let written = writes.iter().map(write).collect::<Result<Vec<bool>, Failed>>()?;
    commit(transaction).map(|()| written)
}

fn commit(write: WriteTransaction) -> Result<(), Failed> {
    write.commit().map_err(|e| Failed { step: Step::Commit, error: e.into() })
}

fn write_in(
    write: &WriteTransaction,
    key: &Key,
    expected: Option<Revision>,
    value: &[u8],
) -> Result<Outcome, Failed> {
    let mut records = write.open_table(RECORDS)?;
    let found = records.get(key.as_str())?.map(|found| versioned(found.value()));
    if found.as_ref().map(|found| found.revision) != expected {
        return Ok(Outcome::Conflict(found));
    }
    let mut counts = write.open_table(COUNTS)?;
    let revision = counts.get(REVISION)?.map_or(0, |n| n.value()) + 1;
    counts.insert(REVISION, revision)?;
    records.insert(key.as_str(), (revision, value))?;
    Ok(Outcome::Written(Revision(revision)))
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        let key = key.clone();
        self.run(None, move |database| load_from(database, &key)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        let prefix = prefix.to_owned();
        self.run(None, move |database| records_from(database, &prefix)).await
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        let (owned, value) = (key.clone(), value.to_vec());
        self.run(Some(key), move |database| compare_and_set_in(database, &owned, expected, &value)).await
    }

    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let owned = writes.to_vec();
        let first = writes.first().map(|write| &write.key);
        self.run(first, move |database| write_all_in(database, &owned)).await
    }
}

#[cfg(test)]
mod tests;
