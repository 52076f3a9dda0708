//! A session whose sockets are buffers, and the ways to cut what comes in.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::super::{Session, Shared};
use crate::mysql::auth::{Sides, Transport};
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::handshake::ServerVersion;
use crate::proxy::lane::Lane;
use crate::proxy::login::{LoggedIn, LoginContext};
use crate::proxy::pump::{Outcome, Watchdog, poll_pump};
use crate::proxy::rights::Allowed;
use crate::proxy::rsa_key::KeyCell;
use crate::proxy::ruled::Verdict;
use crate::proxy::seats::Seats;
use crate::proxy::settings::{
    Backend, BackendTls, BackendTlsMode, Limits, ListenProxy, ListenTls, ListenTlsMode, Offer, ProxyProtocol,
    SendProxy, ServerCompression, Settings, Verify,
};
use crate::proxy::socket_users::SocketUsers;
use crate::proxy::statements::{Kept, Source};
use crate::proxy::stream::{Connection, Stream};
use crate::proxy::tables::InForce;
use crate::proxy::tls::Tls;
use crate::proxy::verifier::Verifier;
use crate::rules::RuleSet;
use crate::schema::Primary;
use crate::store::memory::MemoryStore;

const RULES: &str = r#"
schema = "s"
[generators.g]
kind = "sequence"
seed = "none"
[tables.t]
column = "id"
generator = "g"
"#;

pub(super) const STATEMENT_BYTES_MAX: usize = 1000;

/// What happens next. Bytes are whole packets.
#[derive(Clone)]
pub(super) enum Say {
    /// The client sends.
    Client(Vec<u8>),
    /// The server must have got, and nothing else.
    ToServer(Vec<u8>),
    /// The server sends.
    Server(Vec<u8>),
    /// The client must have got, and nothing else.
    ToClient(Vec<u8>),
}
pub(super) use Say::{Client, Server, ToClient, ToServer};

/// One peer's socket.
#[derive(Default)]
struct Wire {
    input: Vec<u8>,
    output: Vec<u8>,
    /// So many bytes are taken by one write; 0: all.
    takes: usize,
}

impl Connection for Wire {}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.input.is_empty() {
            return Poll::Pending;
        }
        let n = buf.remaining().min(self.input.len());
        buf.put_slice(&self.input[..n]);
        self.input.drain(..n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let n = if self.takes == 0 { buf.len() } else { buf.len().min(self.takes) };
        self.output.extend_from_slice(&buf[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn settings(folder: &std::path::Path) -> Settings {
    Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        listen_is_written: true,
        listen_proxy: ListenProxy { mode: ProxyProtocol::Off, from: Vec::new() },
        listen_tls: ListenTls { mode: ListenTlsMode::Disabled, identity: None, client_ca: None },
        rsa_key: None,
        listen_compression: Offer::Off,
        backend: Backend {
            addresses: vec!["127.0.0.1:1".parse().unwrap()],
            send_proxy: SendProxy::Off,
            clear_passwords: false,
            compression: ServerCompression::Off,
            tls: BackendTls { mode: BackendTlsMode::Disabled, ca: None, identity: None },
            connect_timeout: Duration::from_secs(1),
        },
        limits: Limits {
            connections_max: 1,
            connections_per_user_max: 0,
            connections_per_address_max: 0,
            handshake_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_mins(1),
            statement_bytes_max: STATEMENT_BYTES_MAX,
            drain_timeout: Duration::from_secs(1),
        },
        name: "test".into(),
        state_path: folder.join("state"),
    }
}

struct Rig {
    session: Session,
    stream: Stream,
    client: Wire,
    server: Wire,
    watchdog: Watchdog,
    /// The client's end of `stream`, for last words.
    _peer: UnixStream,
}

impl Rig {
    async fn new(capabilities: Capabilities) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let rules = folder.path().join("rules");
        std::fs::create_dir(&rules).unwrap();
        std::fs::write(rules.join("s.toml"), RULES).unwrap();
        let (rules, _) = crate::rules::load(&rules).unwrap();
        let store = Arc::new(MemoryStore::new());
        let tables = InForce::open(Arc::new(rules), None, store, None, "me".into(), false).await.unwrap();
        let settings = settings(folder.path());
        let (_, draining) = watch::channel(false);
        let login = LoginContext {
            tls: Arc::new(Tls::new(&settings).unwrap()),
            seats: Arc::new(Seats::new(&settings.limits)),
            settings: Arc::new(settings),
            own_key: Arc::new(KeyCell::default()),
            socket_users: SocketUsers::default(),
            primary: Primary::default(),
        };
        let (near, peer) = UnixStream::pair().unwrap();
        let (server, _) = UnixStream::pair().unwrap();
        let logged_in = LoggedIn {
            client: Stream::unix(near),
            server: Stream::unix(server),
            client_buffered: Vec::new(),
            capabilities,
            client_wants_session_track: false,
            user: b"u".to_vec(),
            database: None,
            collation: 45,
            server_version: ServerVersion::parse(b"10.11.6-MariaDB"),
            connection_id: 1,
            status: 2,
            ok_packet: Vec::new(),
            nonce: Vec::new(),
            sides: Sides { client: Transport::Tcp, server: Transport::Tcp, clear_passwords: false },
            address: "127.0.0.1:1".parse().unwrap(),
            seat: login.seats.user(b"u").unwrap(),
            address_told: None,
        };
        let allowed = Allowed::default();
        allowed.note(&(b"u".to_vec(), None), ("s".into(), "t".into()));
        let shared = Shared {
            login,
            tables: Arc::new(tables),
            id_deadline: Duration::from_secs(1),
            verifier: Verifier::new(Verify::Always),
            sessions: Arc::default(),
            audit: Arc::default(),
            allowed: Arc::new(allowed),
            draining,
        };
        let here = shared.sessions.enter();
        let (session, sockets) = Session::new(logged_in, shared, here);
        let watchdog = Watchdog::new(Duration::from_mins(1), Duration::from_mins(1));
        let (client, server) = (Wire::default(), Wire::default());
        Rig { session, stream: sockets.client, client, server, watchdog, _peer: peer }
    }

    async fn pump(&mut self) {
        loop {
            let mut cx = Context::from_waker(Waker::noop());
            let relay = &mut self.session.relay;
            match poll_pump(&mut cx, relay, &mut self.client, &mut self.server, &mut self.watchdog) {
                Poll::Pending => return,
                Poll::Ready(Outcome::Event(event)) => {
                    self.session.handle(event, &mut self.stream).await.unwrap();
                }
                Poll::Ready(other) => panic!("{other:?}"),
            }
        }
    }
}

/// How a message is cut, from its length and what came before it.
type Cut<'a> = &'a mut dyn FnMut(usize) -> usize;

/// `cut` says how long the next slice is, of so many bytes that are left.
pub(super) async fn play(capabilities: Capabilities, script: &[Say], takes: usize, how: &str, cut: Cut<'_>) {
    let mut rig = Rig::new(capabilities).await;
    (rig.client.takes, rig.server.takes) = (takes, takes);
    let show = |bytes: &[u8]| bytes[..bytes.len().min(500)].escape_ascii().to_string();
    for (step, say) in script.iter().enumerate() {
        match say {
            Client(bytes) | Server(bytes) => {
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let (slice, tail) = rest.split_at(cut(rest.len()).clamp(1, rest.len()));
                    rest = tail;
                    let wire = if matches!(say, Client(_)) { &mut rig.client } else { &mut rig.server };
                    wire.input.extend_from_slice(slice);
                    rig.pump().await;
                }
            }
            ToServer(bytes) | ToClient(bytes) => {
                let wire = if matches!(say, ToClient(_)) { &mut rig.client } else { &mut rig.server };
                let output = std::mem::take(&mut wire.output);
                let same = output.iter().zip(bytes).take_while(|(a, b)| a == b).count();
                let (got, want) = (show(&output[same..]), show(&bytes[same..]));
                assert!(
                    output == *bytes,
                    "{how}, step {step}, behind {same} bytes:\n got {got}\nwant {want}"
                );
            }
        }
    }
    assert!(rig.client.output.is_empty(), "{how}: more for the client: {}", show(&rig.client.output));
    assert!(rig.server.output.is_empty(), "{how}: more for the server: {}", show(&rig.server.output));
    assert!(rig.session.relay.outstanding.is_empty(), "{how}: answers are outstanding");
}

/// Whole, in two slices cut at every offset of the script, byte by byte, and at random.
pub(super) async fn check(capabilities: Capabilities, script: &[Say]) {
    let bytes: usize = script.iter().map(|s| if let Client(b) | Server(b) = s { b.len() } else { 0 }).sum();
    play(capabilities, script, 0, "whole", &mut |left| left).await;
    play(capabilities, script, 1, "bytes", &mut |_| 1).await;
    for offset in 1..bytes {
        let mut at = 0;
        let mut cut = |left: usize| {
            let n = if at < offset && offset < at + left { offset - at } else { left };
            at += n;
            n
        };
        play(capabilities, script, 0, &format!("cut at {offset}"), &mut cut).await;
    }
    for seed in 0..50 {
        let mut random = StdRng::seed_from_u64(seed);
        let takes = random.gen_range(0..9);
        play(capabilities, script, takes, &format!("seed {seed}"), &mut |_| random.gen_range(1..30)).await;
    }
}

impl Rig {
    /// With a table that was looked up, so that nothing is waited for but the id, and a state that is known.
    async fn ready(capabilities: Capabilities) -> Rig {
        let mut rig = Rig::new(capabilities).await;
        rig.session.relay.view.take_state(Some(b"\x00\x0e757466386d6234\x010\x011\x00\xfb"));
        rig.session.shared.tables.now().fetch("s", "t", false).await;
        rig
    }
}

/// The rules with another column for the id.
fn rules_of(column: &str) -> Arc<RuleSet> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), RULES.replace("\"id\"", &format!("\"{column}\""))).unwrap();
    Arc::new(crate::rules::load(folder.path()).unwrap().0)
}

/// Judges a text while its table's rule changes to another column: before it has an id, which takes a task of its own.
pub(super) async fn changing(text: &str, column: &str) {
    let rig = Rig::ready(Capabilities::DEPRECATE_EOF).await;
    let tables = rig.session.shared.tables.clone();
    let judged = rig.session.judge(Command::Query, text.as_bytes());
    let (verdict, changed) = tokio::join!(biased; judged, tables.change(rules_of(column)));
    changed.unwrap();
    let Verdict::Send(held) = verdict else { panic!("it is sent") };
    assert_eq!(held.plan.inserts[0].target.rule.column, column);
}

/// Executes a prepared text, by a whole packet that names statement 7, while its table's rule changes. Returns what goes to the
/// server.
pub(super) async fn changing_execution(text: &str, params: u16, execution: &[u8], column: &str) -> Vec<u8> {
    let mut rig = Rig::ready(Capabilities::DEPRECATE_EOF | Capabilities::MARIADB_STMT_BULK).await;
    let tables = rig.session.shared.tables.clone();
    let Verdict::Prepare(prepared) = rig.session.judge(Command::StmtPrepare, text.as_bytes()).await else {
        panic!("it is prepared");
    };
    let state = rig.session.relay.view.state().unwrap();
    let source = Source {
        text: Some(text.as_bytes().to_vec()),
        dialect: state.dialect,
        reads_alike: false,
        database: None,
        named: ("s".into(), "t".into()),
    };
    let kept = Arc::new(Kept { source: Arc::new(source), prepared: Some(prepared) });
    rig.session.relay.statements.prepare(kept.clone());
    rig.session.relay.statements.prepared(7, &kept, params);
    rig.session.relay.up = Lane::holding(execution);
    let command = Command::from_byte(execution[4]).unwrap();
    let executed = rig.session.execute(command, execution.len(), 1);
    let ((), changed) = tokio::join!(biased; executed, tables.change(rules_of(column)));
    changed.unwrap();
    rig.session.relay.up.out().clone()
}
