//! The things that every private server needs of this machine: its program, a folder, a free port.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::Rng;

/// Past libtest's capture, which hides what a passing test prints.
pub fn announce(line: &str) {
    use std::io::Write;
    // Writing to the handle is not captured, the macros are. A closed stderr is not the test's business.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The folder of the Debian sid root with MySQL 9; `tests/install.sh` makes it.
pub fn sid_root() -> PathBuf {
    std::env::var_os("ROWSTAMP_SID_ROOT")
        .map_or_else(|| PathBuf::from("/var/tmp/rowstamp-sid"), PathBuf::from)
}

/// A program of the sid root as a command line that needs neither chroot nor root: the root's own loader runs it
/// with the root's libraries.
pub fn sid_command(program: &str) -> Vec<String> {
    let root = sid_root();
    let root = root.display();
    vec![
        format!("{root}/lib64/ld-linux-x86-64.so.2"),
        "--library-path".to_owned(),
        // The last one is MariaDB 11.8's.
        [
            "usr/lib/x86_64-linux-gnu",
            "usr/lib/mysql/private",
            "usr/lib/mysql-router",
            "opt/mariadb/usr/lib/x86_64-linux-gnu",
        ]
        .map(|folder| format!("{root}/{folder}"))
        .join(":"),
        format!("{root}/{program}"),
    ]
}

pub fn find_program(name: &str) -> Option<PathBuf> {
    // Debian keeps daemons in sbin, which is not on an ordinary user's PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    folders.map(|folder| Path::new(folder).join(name)).find(|file| file.is_file())
}

/// Returns the memory that a process holds.
pub fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("in KiB")
}

/// A port that was free a moment ago. It is below those that Linux gives to outgoing connections and to listeners of
/// port 0, from 32768 on, and drawn at random: another test, or a connection, rarely takes it before its server does.
pub fn free_port() -> u16 {
    let drawn = || rand::thread_rng().gen_range(10_000..32_000);
    std::iter::repeat_with(drawn)
        .take(1_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// A fresh folder that is not removed by `Drop`: its keeper does that. Socket paths below it stay under 107 bytes.
pub fn temporary_folder(name: &str) -> PathBuf {
    temporary_folder_in(&std::env::temp_dir(), name)
}

/// The place for servers' data: memory if there is plenty, for DDL waits on a disk several times a statement.
/// TMPDIR overrides.
pub fn data_home() -> PathBuf {
    const PLENTY_KIB: u64 = 4 << 20;
    let memory = Path::new("/dev/shm");
    let output = Command::new("df").args(["-k", "--output=avail"]).arg(memory).output();
    let free_kib = output.ok().and_then(|output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().nth(1).and_then(|number| number.trim().parse::<u64>().ok())
    });
    let plenty = free_kib.is_some_and(|free| free >= PLENTY_KIB);
    if plenty && std::env::var_os("TMPDIR").is_none() { memory.to_owned() } else { std::env::temp_dir() }
}

pub fn temporary_folder_in(home: &Path, name: &str) -> PathBuf {
    tempfile::Builder::new()
        .prefix(&format!("rowstamp-{name}-"))
        .tempdir_in(home)
        .expect("a temporary folder")
        .keep()
}
