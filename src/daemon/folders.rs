//! The folders that a proxy keeps its state in: nobody else may write to them. Who may puts a file
//! of an older state in the place of ours, or a certificate's key that they know.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};
use rustix::fs::{Access, access};

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// An error where others can write to the folder, or put another in its place, unless `others_may_write`: then a warning in the log. A
/// folder that is not there yet is made by us.
pub(crate) fn be_ours(key: &str, folder: &Path, others_may_write: bool) -> anyhow::Result<()> {
    if let Some(open) = open_to_others(folder).with_context(|| key.to_owned())? {
        if !others_may_write {
            return Err(open.error()).with_context(|| key.to_owned());
        }
        tracing::warn!(key, "{}, which state.others_may_write allows", open.found);
    }
    Ok(())
}

/// [`be_ours`], without the key and the log.
pub(super) fn shut_to_others(folder: &Path, others_may_write: bool) -> anyhow::Result<()> {
    match open_to_others(folder)? {
        Some(open) if !others_may_write => Err(open.error()),
        _ => Ok(()),
    }
}

/// A folder that others can write to.
struct Open {
    found: String,
    remedy: String,
}

impl Open {
    fn error(self) -> anyhow::Error {
        anyhow::anyhow!("{}; {}", self.found, self.remedy)
    }
}

fn open_to_others(folder: &Path) -> anyhow::Result<Option<Open>> {
    let Ok(path) = std::path::absolute(folder) else { return Ok(None) };
    for link in path.ancestors().filter(|part| part.is_symlink()) {
        let owner = fs::symlink_metadata(link)?.uid();
        if ![0, own_user()].contains(&owner) {
            bail!(
                "{} is a symbolic link of user {owner}, who can point it to another folder; give it to the user that rowstamp \
                 runs as (chown -h), or write the path of the folder itself",
                link.display()
            );
        }
    }
    // The part of the path that is there, without links.
    let Some(there) = path.ancestors().find_map(|part| part.canonicalize().ok()) else { return Ok(None) };
    let is_itself = path.canonicalize().is_ok();
    for (nth, part) in there.ancestors().enumerate() {
        let Ok(found) = fs::metadata(part) else { continue };
        // In a sticky folder, as /tmp is, nobody moves what belongs to others; but they may put
        // files of theirs there.
        let is_sticky = found.mode() & STICKY != 0 && !(nth == 0 && is_itself);
        if is_sticky {
            continue;
        }
        if let Some(who) = who_else_writes(found.mode(), found.gid()) {
            let (what, why) = match nth {
                0 if is_itself => ("the folder", ""),
                _ => ("the folder above it", " and replace the folder"),
            };
            let whose = if who == "everybody" { "o-w" } else { "g-w" };
            let chmod = format!("run chmod {whose} {}", part.display());
            // Only its owner and root can change its mode.
            let remedy = if [0, found.uid()].contains(&own_user()) {
                chmod
            } else {
                format!(
                    "{chmod} as user {}, or, if no other program can reach the folder (the volume of a container), write \
                     state.others_may_write = true",
                    found.uid()
                )
            };
            return Ok(Some(Open {
                found: format!("{who} can write to {what} {}{why}", part.display()),
                remedy,
            }));
        }
    }
    Ok(None)
}

/// An error where we cannot make files in the folder. `is_made`: where it is not there it is made, with those above it.
pub(super) fn writable(folder: &Path, is_made: bool) -> anyhow::Result<()> {
    let path = std::path::absolute(folder)?;
    let there = path.ancestors().find(|part| part.symlink_metadata().is_ok()).unwrap_or(&path);
    if there != path && !is_made {
        bail!("the folder {} is not there; make it, or correct the path", folder.display());
    }
    if !there.is_dir() {
        bail!("{} is no folder; correct the path", there.display());
    }
    let can = access(there, Access::WRITE_OK | Access::EXEC_OK);
    can.map_err(|error| {
        let user = own_user();
        anyhow::anyhow!(
            "user {user}, who runs this program, cannot write to the folder {}: {}; chown the folder to the user that rowstamp runs as",
            there.display(),
            std::io::Error::from(error)
        )
    })
}

/// The group that a process runs as is the user's own on most systems.
fn who_else_writes(mode: u32, group: u32) -> Option<&'static str> {
    if mode & OTHERS_WRITE != 0 {
        return Some("everybody");
    }
    let is_own = [0, rustix::process::getegid().as_raw()].contains(&group);
    (mode & GROUP_WRITES != 0 && !is_own).then_some("its group")
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    use super::{be_ours, writable};

    fn folder(path: &Path, mode: u32) {
        fs::create_dir_all(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn check(path: &Path, expect: &str) {
        let said = |allowed| {
            let error = be_ours("state.path", path, allowed).err();
            error.map_or_else(|| "fine".to_owned(), |error| format!("{error:#}"))
        };
        assert!(said(false).contains(expect), "{}: {}", path.display(), said(false));
        assert_eq!(said(true), "fine", "{}", path.display());
    }

    #[test]
    fn who_may_write_where() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        for (name, mode, expect) in [
            ("own", 0o755, "fine"),
            ("private", 0o700, "fine"),
            ("open", 0o777, "chmod o-w"),
            // Others may put files there, before we do.
            ("sticky", 0o1777, "everybody can write to the folder "),
            ("group", 0o775, "fine"),
        ] {
            folder(&at(name), mode);
            check(&at(name), expect);
        }
        // A user who can write to the folder above can put another folder in its place, but not if the one above is
        // sticky.
        folder(&at("sticky/state"), 0o700);
        check(&at("sticky/state"), "fine");
        folder(&at("open/state"), 0o700);
        check(&at("open/state"), "can write to the folder above it");
        check(&at("open/not-there"), "can write to the folder above it");
        check(&at("own/not-there"), "fine");
        fs::write(at("file"), "").unwrap();
        for (name, is_made, expect) in [
            ("own", false, "fine"),
            ("own/new", true, "fine"),
            ("own/new", false, "new is not there; make it, or correct the path"),
            ("file", false, "file is no folder; correct the path"),
            ("file/new", true, "file is no folder; correct the path"),
        ] {
            let said = writable(&at(name), is_made)
                .err()
                .map_or_else(|| "fine".to_owned(), |error| error.to_string());
            assert!(said.ends_with(expect), "{name}: {said}");
        }
        // Root may write anywhere.
        folder(&at("own/shut"), 0o555);
        if !rustix::process::geteuid().is_root() {
            let said = writable(&at("own/shut/new"), true).unwrap_err().to_string();
            assert!(said.contains("cannot write to the folder ") && said.contains("shut: "), "{said}");
        }
        // A link counts as what it points to.
        symlink(at("open"), at("own/link")).unwrap();
        check(&at("own/link"), "chmod o-w");
        symlink(at("own"), at("private/link")).unwrap();
        check(&at("private/link"), "fine");
    }
}
