//! A proxy's clock: libfaketime reads a file each time that the process asks for the time of day.

use std::fs;
use std::path::{Path, PathBuf};

pub struct Clock {
    file: PathBuf,
}

impl Clock {
    pub fn new(file: PathBuf) -> Clock {
        let clock = Clock { file };
        clock.set(0);
        clock
    }

    /// Off by so many seconds from here on.
    pub fn set(&self, by_seconds: i64) {
        let unfinished = self.file.with_extension("new");
        fs::write(&unfinished, format!("{by_seconds:+}\n")).expect("the clock's file is written");
        fs::rename(&unfinished, &self.file).expect("the clock's file is put in place");
    }

    /// The words in front of a program that is to have this clock. Monotonic time stays as it is.
    pub fn under(&self, library: &Path) -> Vec<String> {
        vec![
            "env".to_owned(),
            format!("LD_PRELOAD={}", library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.file.display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
            "DONT_FAKE_MONOTONIC=1".to_owned(),
        ]
    }
}

/// Debian's libfaketime for programs of several threads.
pub fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?;
    folders
        .filter_map(|folder| Some(folder.ok()?.path().join("faketime/libfaketimeMT.so.1")))
        .find(|file| file.is_file())
}
