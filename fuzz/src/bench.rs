//! Where sessions run: one thread, a clock that only moves while all wait, and peers that are bytes to be sent and
//! bytes that came.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rowstamp::address::Address;
use rowstamp::proxy::connect::login::LoginContext;
use rowstamp::proxy::settings::{Settings, Verify};
use rowstamp::proxy::shared::Shared;
use rowstamp::rules::RuleSet;
use rowstamp::store::memory::MemoryStore;
use rowstamp::tables::InForce;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::slices::SLICES_MAX;

/// Longer than all deadlines of a session together.
const FOR_EVER: Duration = Duration::from_hours(1);

/// A statement that is longer is judged by its beginning.
pub const STATEMENT_BYTES_MAX: usize = 8 * 1024;

/// One column of a table whose name has letters that nothing else has.
const RULES: &str = r#"
schema = "zz"
[generators.zz]
kind = "sequence"
seed = "none"
[tables.zz]
column = "zz"
generator = "zz"
"#;

struct Bench {
    runtime: Runtime,
    /// Without rules, and with one.
    shared: [Shared; 2],
}

thread_local! {
    static BENCH: Bench = {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("zz.toml"), RULES).unwrap();
        let (rules, _) = rowstamp::rules::load(folder.path()).expect("the rules are right");
        let shared = [RuleSet::default(), rules].map(|rules| runtime.block_on(shared(rules)));
        Bench { runtime, shared }
    };
}

/// Where a login looks for the server: a name that is no file's, of this process.
pub fn backend_path() -> PathBuf {
    let name = format!("\0rowstamp-fuzz-{}", std::process::id());
    PathBuf::from(OsString::from_vec(name.into_bytes()))
}

async fn shared(rules: RuleSet) -> Shared {
    let mut settings = Settings::bare(Address::Unix(backend_path()), PathBuf::new());
    settings.limits.statement_bytes_max = STATEMENT_BYTES_MAX;
    let (_, draining) = watch::channel(false);
    let store = Arc::new(MemoryStore::new());
    let tables = InForce::open(Arc::new(rules), None, store, None, "fuzz".into(), true).await;
    let tables = Arc::new(tables.expect("a store in memory is there"));
    let login = LoginContext::new(settings).expect("there is no TLS");
    Shared::new(login, tables, Duration::from_secs(1), Verify::Always, draining)
}

/// What a session needs; `with_rules`: a table is ruled.
pub fn shared_of(with_rules: bool) -> Shared {
    BENCH.with(|bench| bench.shared[usize::from(with_rules)].clone())
}

/// Runs it to its end, which must come.
pub fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    BENCH.with(|bench| {
        bench.runtime.block_on(async { tokio::time::timeout(FOR_EVER, future).await.expect("it hangs") })
    })
}

/// Until everything else waits for something.
pub async fn idle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A peer's end of a connection.
pub struct Peer {
    /// `None`: closed.
    stream: Option<UnixStream>,
    to_send: Vec<u8>,
    sent: usize,
    /// Bytes sent at once; 0: all.
    slice: usize,
    pub received: Vec<u8>,
    /// It closes its end behind what is to be sent.
    is_closing: bool,
    /// The proxy has closed its end.
    is_ended: bool,
}

impl Peer {
    /// With the proxy's end.
    pub fn pair(slice: usize) -> (Peer, UnixStream) {
        let (stream, proxys) = UnixStream::pair().unwrap();
        (Peer::new(stream, slice), proxys)
    }

    pub fn new(stream: UnixStream, slice: usize) -> Peer {
        let stream = Some(stream);
        let (to_send, received) = (Vec::new(), Vec::new());
        Peer { stream, to_send, sent: 0, slice, received, is_closing: false, is_ended: false }
    }

    /// To be sent behind what is waiting already.
    pub fn send(&mut self, bytes: &[u8]) {
        self.to_send.extend_from_slice(bytes);
    }

    /// Whether nothing is left to be sent, or nobody takes it.
    pub fn has_sent_all(&self) -> bool {
        self.sent == self.to_send.len() || self.stream.is_none() || self.is_ended
    }

    /// At once.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Behind what is to be sent.
    pub fn close_behind(&mut self) {
        self.is_closing = true;
    }

    /// Sends a slice and takes what is there; whether anything moved.
    pub fn turn(&mut self) -> bool {
        let Some(stream) = &self.stream else { return false };
        let mut moved = false;
        let waiting = &self.to_send[self.sent..];
        let slice = match self.slice {
            0 => waiting.len(),
            slice => slice.max(self.to_send.len() / SLICES_MAX).min(waiting.len()),
        };
        // A proxy that has closed its end takes nothing more: that shows in what was received.
        if slice > 0
            && let Ok(sent) = stream.try_write(&waiting[..slice])
        {
            self.sent += sent;
            moved = true;
        }
        let mut buffer = [0; 16 * 1024];
        loop {
            match stream.try_read(&mut buffer) {
                Ok(read) if read > 0 => {
                    moved = true;
                    self.received.extend_from_slice(&buffer[..read]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => {
                    self.is_ended = true;
                    break;
                }
            }
        }
        if self.is_closing && self.has_sent_all() {
            self.stream = None;
        }
        moved
    }
}
