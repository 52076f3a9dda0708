//! A child process that never outlives the test.
//!
//! `Drop` is not run for statics, nor when the test is killed or interrupted. So a small shell stands between: it
//! starts the program and reads from a pipe that only the test process holds. The pipe ends with the test, and the
//! shell then kills that one program by its pid and removes its folder.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

// The child stays a zombie until the shell's `wait`, so its pid cannot be given to another process before that.
const SCRIPT: &str = r#"
dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
pid=$!
echo "$pid"
read -r word
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
[ "$word" = keep ] || rm -rf "$dir"
"#;

/// How long a process may take to stand still.
const STOP_DEADLINE: Duration = Duration::from_mins(1);

pub struct Keeper {
    pub pid: u32,
    dir: PathBuf,
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Keeper {
    /// Starts `command`, its output appended to `dir/log`; `dir` is removed when the keeper goes.
    pub fn start(dir: &Path, command: &[String]) -> Self {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "keeper"])
            .arg(dir)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // The shell has its own group: Ctrl-C reaches the test alone, and the pipe's end does the rest in order.
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("the pid is told");
        let pid = line.trim().parse().expect("a pid");
        let pipe = shell.stdin.take();
        Keeper { pid, dir: dir.to_owned(), shell, pipe }
    }

    pub fn is_running(&self) -> bool {
        // The state follows the name in parentheses, which may itself hold anything.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next())
            .is_some_and(|state| state != "Z")
    }

    /// Sends a signal by its name ("TERM", "KILL", "STOP") to this one process.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid.to_string()).status();
        assert!(status.expect("kill runs").success(), "pid {} takes the signal {name}", self.pid);
        if name == "STOP" {
            self.wait_until_stopped();
        }
    }

    /// One thread takes the signal and stops the others: on a busy machine they run on until it has its turn.
    fn wait_until_stopped(&self) {
        let end = Instant::now() + STOP_DEADLINE;
        while self.is_running() && !self.has_stopped() {
            assert!(Instant::now() < end, "pid {} does not stop", self.pid);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// True if all its threads stand still.
    fn has_stopped(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else { return false };
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state comes after the name, in which anything may stand.
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['T', 'Z', 'X']))
        })
    }

    /// Waits for the process to end by itself; false when it still runs at the deadline.
    pub fn wait(&self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        while self.is_running() {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Ends the process, but leaves its folder to a successor.
    pub fn end_keeping_folder(mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            pipe.write_all(b"keep\n").expect("the keeper reads");
        }
    }

    pub fn log(&self) -> String {
        self.log_behind(0)
    }

    /// Returns the log after its first `bytes` bytes.
    pub fn log_behind(&self, bytes: u64) -> String {
        let mut said = Vec::new();
        if let Ok(mut log) = fs::File::open(self.dir.join("log")) {
            let _ = log.seek(SeekFrom::Start(bytes)).and_then(|_| log.read_to_end(&mut said));
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    pub fn log_bytes(&self) -> u64 {
        fs::metadata(self.dir.join("log")).map_or(0, |log| log.len())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // Nothing to be done about a failure here, and a panic in drop would abort the test run.
        let _ = self.shell.wait();
    }
}
