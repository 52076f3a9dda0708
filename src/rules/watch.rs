//! Notices that the files of a rules folder differ from those that were read, and that nobody writes them any more.
//!
//! The folder is looked at again and again rather than waited on: what a link leads to, what lies
//! on another machine's disk, and a folder that is put in another's place change without a notice
//! from the kernel.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::load::files_of;

/// A folder's rules files as they lie there; two are equal where nobody has written in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    folder: PathBuf,
    /// `Err`: why the folder cannot be read.
    files: Result<Vec<(PathBuf, Option<FileMark>)>, String>,
}

/// The mark of one file; for a link, that of the file that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileMark {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// The time of the last change, also of the owner, rights and links: a copy may bear its original's time.
    changed: (i64, i64),
}

impl Mark {
    pub fn of(folder: &Path) -> Mark {
        let marked = |file: PathBuf| {
            let mark = FileMark::of(&file).ok();
            (file, mark)
        };
        let files = files_of(folder).map(|files| files.into_iter().map(marked).collect());
        Mark { folder: folder.to_owned(), files }
    }
}

impl FileMark {
    fn of(file: &Path) -> io::Result<FileMark> {
        let file = std::fs::metadata(file)?;
        Ok(FileMark {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// Decides when changed files are to be read: not while somebody writes them.
#[derive(Debug, Default)]
pub struct Watch {
    last: Option<Mark>,
}

impl Watch {
    /// Takes a look at the folder. True if it differs from what was `read` last, and is the same as at
    /// the look before.
    pub fn is_due(&mut self, now: Mark, read: &Mark) -> bool {
        let rests = self.last.as_ref() == Some(&now);
        let differs = now != *read;
        self.last = Some(now);
        rests && differs
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{Mark, Watch};

    /// Checks whether a change shows in the mark of a folder with a.toml in it.
    #[track_caller]
    fn changes(change: impl Fn(&Path), expect: bool) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "schema = \"a\"").unwrap();
        let before = Mark::of(folder.path());
        assert_eq!(Mark::of(folder.path()), before, "nothing has changed");
        change(folder.path());
        assert_eq!(Mark::of(folder.path()) != before, expect);
    }

    #[test]
    fn what_counts_as_a_change() {
        changes(|folder| fs::write(folder.join("a.toml"), "schema = \"longer\"").unwrap(), true);
        changes(|folder| fs::write(folder.join("b.toml"), "").unwrap(), true);
        changes(|folder| fs::remove_file(folder.join("a.toml")).unwrap(), true);
        changes(|folder| fs::rename(folder.join("a.toml"), folder.join("b.toml")).unwrap(), true);
        changes(|folder| fs::remove_dir_all(folder).unwrap(), true);
        // An editor's own files.
        changes(|folder| fs::write(folder.join(".a.toml.swp"), "x").unwrap(), false);
        changes(|folder| fs::write(folder.join("a.toml~"), "x").unwrap(), false);
    }

    /// The new file has the same length and the same time, and is renamed over the old one.
    #[test]
    fn a_file_put_in_anothers_place() {
        changes(
            |folder| {
                let (old, new) = (folder.join("a.toml"), folder.join("new"));
                fs::write(&new, "schema = \"b\"").unwrap();
                let times =
                    fs::FileTimes::new().set_modified(fs::metadata(&old).unwrap().modified().unwrap());
                fs::File::options().write(true).open(&new).unwrap().set_times(times).unwrap();
                fs::rename(new, old).unwrap();
            },
            true,
        );
    }

    /// The links of a mounted Kubernetes ConfigMap: a.toml -> ..data/a.toml, and `..data` is a link that
    /// is swapped.
    #[test]
    fn a_link_above_the_file_is_swapped() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("a.toml"), "schema = \"a\"").unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/a.toml", at("a.toml")).unwrap();
        let before = Mark::of(folder.path());
        symlink("..2", at("..next")).unwrap();
        fs::rename(at("..next"), at("..data")).unwrap();
        assert_ne!(Mark::of(folder.path()), before);
    }

    #[test]
    fn a_change_is_due_once_it_rests() {
        let [one, two, three] =
            ["1", "2", "3"].map(|folder| Mark { folder: folder.into(), files: Ok(Vec::new()) });
        let mut watch = Watch::default();
        for (now, read, expect) in [
            (&one, &one, false),
            (&one, &one, false),
            (&two, &one, false),
            (&three, &one, false),
            (&three, &one, true),
            // Not read yet.
            (&three, &one, true),
            (&three, &three, false),
            // Put back before it came to rest.
            (&two, &three, false),
            (&three, &three, false),
        ] {
            assert_eq!(watch.is_due(now.clone(), read), expect, "{now:?} {read:?}");
        }
    }
}
