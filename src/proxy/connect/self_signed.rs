//! The certificate of a proxy that was given none: made on first start, kept in the state folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

/// Certificate and key are one file, so that no crash can part them.
const FILE: &str = "tls.pem";
/// Ten years, with their leap days.
const VALID_FOR: Duration = Duration::from_hours(3653 * 24);
/// Clients whose clock is behind ours should not be turned away.
const VALID_BEFORE: Duration = Duration::from_hours(24);

/// The path of the file with certificate and key, once they are made.
pub(in crate::proxy) fn path(state_path: &Path) -> PathBuf {
    state_path.join(FILE)
}

/// The path of the file that holds certificate and key; makes it if it is not there.
pub(in crate::proxy) fn ensure(state_path: &Path) -> io::Result<PathBuf> {
    let path = path(state_path);
    if path.try_exists()? {
        return Ok(path);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(state_path)?;
    let pem = make(&names()).map_err(io::Error::other)?;
    let unfinished = state_path.join(format!("{FILE}.{}", std::process::id()));
    let written = write_private(&unfinished, pem.as_bytes());
    // A link, unlike a rename, leaves the file of a process that was quicker.
    let linked = written.and_then(|()| fs::hard_link(&unfinished, &path));
    // Best effort: what is left over is a private file that the next process of this id overwrites.
    let _ = fs::remove_file(&unfinished);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(path),
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One of an earlier process of this id may be there, with whatever permissions.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn make(names: &[String]) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "Rowstamp self-signed");
    let now = date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = now - VALID_BEFORE;
    params.not_after = now + VALID_FOR;
    let key = KeyPair::generate()?;
    let cert = params.self_signed(&key)?;
    Ok(cert.pem() + &key.serialize_pem())
}

/// The names that a client may know this machine by.
fn names() -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    if !host.is_empty() && host.is_ascii() && host != "localhost" {
        names.insert(0, host.to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::ensure;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn made_once_private_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/b");
        let path = ensure(&state).unwrap();
        let first = fs::read(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read(ensure(&state).unwrap()).unwrap(), first);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error() {
        assert!(ensure("/proc/nowhere".as_ref()).is_err());
    }
}
