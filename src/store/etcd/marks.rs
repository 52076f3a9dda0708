//! The marks that a proxy keeps of its store, in its state folder: a store that is restored from a copy does not know them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::store::{FORMAT, Result, StoreError};

const FILE: &str = "etcd.json";
const LOCK: &str = "etcd.lock";

/// Numbers only grow, as long as the store is what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marks {
    pub(super) v: u64,
    /// The store that these are marks of; `name` is the proxy there.
    pub(super) prefix: String,
    pub(super) name: String,
    /// The process that wrote them.
    pub(super) run: String,
    /// `mod_revision` of our witness; 0: never written.
    pub(super) witness: u64,
    /// The number of times that an operator has raised the floors.
    pub(super) raised: u64,
    /// The highest revision of the store that was seen.
    pub(super) revision: u64,
}

pub(super) struct MarksFile {
    path: Arc<PathBuf>,
    /// Held as long as the process lives: who finds it free knows that the process of the marks has ended.
    lock: File,
}

/// Closing it would not do where a child was forked and is not another program yet: it holds the lock as we do.
impl Drop for MarksFile {
    fn drop(&mut self) {
        // A lock that cannot be given back goes with the process.
        let _ = self.lock.unlock();
    }
}

impl MarksFile {
    /// Locks the folder (made with mode 0700) and reads what an earlier process left for this store and proxy.
    pub(super) fn open(folder: &Path, prefix: &str, name: &str) -> Result<(Self, Option<Marks>)> {
        let failed = |error: io::Error| wrong(folder, error.to_string(), "check state.path and its disk");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let lock =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK));
        let lock = lock.map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => wrong(
                folder,
                "another Rowstamp process uses the folder".to_owned(),
                "give each proxy its own state.path",
            ),
            TryLockError::Error(error) => failed(error),
        })?;
        let path = folder.join(FILE);
        let marks = match fs::read(&path) {
            Ok(json) => Some(parse(&path, &json)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let marks = marks.filter(|marks| marks.prefix == prefix && marks.name == name);
        Ok((MarksFile { path: Arc::new(path), lock }, marks))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Saves the marks on disk. A failure is only logged: ids are safe, but a store that goes back is noticed later.
    pub(super) async fn save(&self, marks: Marks) {
        let path = Arc::clone(&self.path);
        let saved = tokio::task::spawn_blocking(move || write(&path, &marks)).await;
        if let Err(error) = saved.map_err(io::Error::other).and_then(|saved| saved) {
            tracing::warn!(file = %self.path.display(), %error, "cannot save the revisions of etcd; this proxy may notice a restored copy later");
        }
    }
}

fn parse(path: &Path, json: &[u8]) -> Result<Marks> {
    let marks: Marks = serde_json::from_slice(json).map_err(|error| {
        wrong(
            path,
            error.to_string(),
            "remove the file if etcd was not restored from a copy since the file was written",
        )
    })?;
    if marks.v > FORMAT {
        return Err(StoreError::NewerFormat {
            place: path.display().to_string(),
            found: marks.v,
            known: FORMAT,
        });
    }
    Ok(marks)
}

fn write(path: &Path, marks: &Marks) -> io::Result<()> {
    let unfinished = path.with_extension("json.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(&serde_json::to_vec(marks)?)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

fn wrong(path: &Path, reason: String, remedy: &str) -> StoreError {
    StoreError::Open { path: path.to_owned(), reason, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::{Marks, MarksFile};
    use crate::store::FORMAT;

    #[tokio::test]
    async fn marks_are_of_one_store_and_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let open = |prefix: &str, name: &str| MarksFile::open(folder.path(), prefix, name);
        let (file, none) = open("/rowstamp/", "p1").unwrap();
        assert_eq!(none, None);
        let marks = Marks {
            v: FORMAT,
            prefix: "/rowstamp/".to_owned(),
            name: "p1".to_owned(),
            run: "r".to_owned(),
            witness: 7,
            raised: 0,
            revision: 9,
        };
        file.save(marks.clone()).await;
        let in_use = open("/rowstamp/", "p1").err().unwrap().to_string();
        assert!(in_use.contains("another Rowstamp process uses the folder"), "{in_use}");
        drop(file);
        assert_eq!(open("/rowstamp/", "p1").unwrap().1, Some(marks));
        assert_eq!(open("/rowstamp/", "p2").unwrap().1, None);
        assert_eq!(open("/other/", "p1").unwrap().1, None);
        std::fs::write(folder.path().join(super::FILE), "{").unwrap();
        let damaged = open("/rowstamp/", "p1").err().unwrap().to_string();
        assert!(damaged.contains("etcd.json") && damaged.contains("remove the file"), "{damaged}");
    }

    /// A child has our descriptors until it becomes another program.
    #[test]
    fn a_folder_is_free_at_once_while_children_are_forked() {
        const LASTS: Duration = Duration::from_millis(700);
        let folder = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while begun.elapsed() < LASTS {
                    Command::new("true").status().unwrap();
                }
            });
            let mut in_use = 0;
            while begun.elapsed() < LASTS {
                in_use += u32::from(MarksFile::open(folder.path(), "/rowstamp/", "p1").is_err());
            }
            assert_eq!(in_use, 0);
        });
    }
}
