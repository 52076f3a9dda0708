//! Passwords and other secrets, from files that only their owner may get at.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use crate::toml_file::Secret;

/// A longer password file is some other file.
const BYTES_MAX: u64 = 4096;
/// Permissions of those who do not own a file.
pub(super) const OTHERS_MODE: u32 = 0o077;
const OTHERS_WRITE_MODE: u32 = 0o022;
const GROUP_READ_MODE: u32 = 0o040;

/// The folders in which Docker, its swarm and Podman mount secrets, one file each.
const SECRETS_FOLDERS: [&str; 2] = ["/run/secrets", "/var/run/secrets"];
/// TMPFS_MAGIC and RAMFS_MAGIC: statfs(2).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// A password, or another secret. One newline at its end is no part of it.
pub(super) fn read(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let cannot = |error: io::Error| cannot_be_read(path, &error);
    let meta = fs::metadata(path).map_err(cannot)?;
    if !meta.is_file() || meta.len() > BYTES_MAX {
        return Err(format!(
            "{shown} is not a file of at most {BYTES_MAX} bytes; name a file that contains only the secret"
        ));
    }
    if is_open(Access::of(path, &meta)) {
        return Err(format!("others than the owner may read or change {shown}; run chmod 600 {shown}"));
    }
    let bytes = fs::read(path).map_err(cannot)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{shown} is not UTF-8; save the file as UTF-8 (a private key: as PEM)"))?;
    Ok(Secret::new(text.strip_suffix('\n').unwrap_or(&text).to_owned()))
}

pub(super) fn cannot_be_read(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "create the file, or correct the path",
        io::ErrorKind::PermissionDenied => "give the user that rowstamp runs as the right to read it",
        _ => "correct the path",
    };
    format!("{} cannot be read: {error}; {remedy}", path.display())
}

/// The facts that decide who can read or change a file.
#[derive(Debug, Clone, Copy)]
struct Access {
    mode: u32,
    owner: u32,
    ourselves: u32,
    /// True if a container's engine has mounted the file as a secret.
    is_mounted_secret: bool,
}

impl Access {
    fn of(path: &Path, meta: &Metadata) -> Access {
        Access {
            mode: meta.permissions().mode(),
            owner: meta.uid(),
            ourselves: rustix::process::geteuid().as_raw(),
            is_mounted_secret: is_mounted_secret(path),
        }
    }
}

/// Engines mount a secret read-only: Kubernetes its volumes, Docker's swarm and compose each file. Podman does not, and has a
/// file system in memory at a known place. On a machine without containers a file of a password lies on neither.
fn is_mounted_secret(path: &Path) -> bool {
    // A Kubernetes volume is symbolic links to the files of its newest version.
    let Ok(path) = path.canonicalize() else { return false };
    if statvfs(&path).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        return true;
    }
    SECRETS_FOLDERS.iter().any(|folder| path.starts_with(folder))
        && statfs(&path).is_ok_and(|mount| IN_MEMORY.contains(&mount.f_type))
}

/// True if others than the owner can read or change the file.
///
/// Two kinds of files are handed over, and their modes are not the operator's to choose: those of a service manager, which belong
/// to root and which our group may read (systemd.exec(5), "LoadCredential", whose ACL shows as the group's bits), and secrets that are
/// mounted into a container, which everybody in it may read (0444 and 0644 by default). Nobody but root or us may write to either.
fn is_open(Access { mode, owner, ourselves, is_mounted_secret }: Access) -> bool {
    let forbidden = match (owner == 0, owner == ourselves) {
        (true, _) | (_, true) if is_mounted_secret => OTHERS_WRITE_MODE,
        (true, false) => OTHERS_MODE & !GROUP_READ_MODE,
        _ => OTHERS_MODE,
    };
    mode & forbidden != 0
}

#[cfg(test)]
mod tests {
    use super::{Access, is_mounted_secret, is_open};

    #[test]
    fn who_may_read_a_password_file() {
        for (mode, owner, ourselves, mounted, expect) in [
            (0o100_600, 7, 7, false, false),
            (0o100_400, 7, 7, false, false),
            (0o100_640, 7, 7, false, true),
            (0o100_604, 7, 7, false, true),
            (0o100_440, 0, 0, false, true),
            (0o100_440, 0, 7, false, false),
            (0o100_444, 0, 7, false, true),
            (0o100_460, 0, 7, false, true),
            (0o100_440, 8, 7, false, true),
            // Secrets of containers: Docker's 0444, Kubernetes' 0644, with fsGroup 0440.
            (0o100_444, 0, 7, true, false),
            (0o100_444, 0, 0, true, false),
            (0o100_644, 0, 7, true, false),
            (0o100_440, 0, 7, true, false),
            (0o100_644, 7, 7, true, false),
            (0o100_664, 0, 7, true, true),
            (0o100_646, 0, 7, true, true),
            (0o100_644, 8, 7, true, true),
        ] {
            let access = Access { mode, owner, ourselves, is_mounted_secret: mounted };
            assert_eq!(is_open(access), expect, "{access:?}");
        }
    }

    #[test]
    fn a_file_on_a_disk_is_no_mounted_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "x").unwrap();
        assert!(!is_mounted_secret(&file) && !is_mounted_secret(&folder.path().join("none")));
    }
}
