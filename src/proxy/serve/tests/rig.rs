//! A session whose sockets are buffers, and the ways to cut what comes in.

use std::future::poll_fn;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;

use crate::address::Address;
use crate::mysql::auth::{Sides, Transport};
use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::handshake::ServerVersion;
use crate::proxy::connect::login::{LoggedIn, LoginContext};
use crate::proxy::connect::stream::Stream;
use crate::proxy::connect::stream::buffers::Wire;
use crate::proxy::decide::text::judge;
use crate::proxy::decide::verdict::Verdict;
use crate::proxy::known::explicit::set_id::{SET_ID_SQL, SetId};
use crate::proxy::known::need::IdRight;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Session, basis};
use crate::proxy::settings::{Settings, Verify};
use crate::proxy::shared::Shared;
use crate::rewrite::plan::Lookup;
use crate::rules::RuleSet;
use crate::store::memory::MemoryStore;
use crate::table_name::TableName;
use crate::tables::{InForce, TableError};

const RULES: &str = r#"
schema = "s"
[generators.g]
kind = "sequence"
seed = "none"
sql = true
[tables.t]
column = "id"
generator = "g"
"#;

pub(super) const STATEMENT_BYTES_MAX: usize = 1000;

/// The next event of a script. Bytes are whole packets.
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

pub(super) struct Rig {
    session: Session,
    client: Wire,
    server: Wire,
}

impl Rig {
    async fn new(capabilities: Capabilities) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let (rules, store) = (RuleSet::of_text(RULES), Arc::new(MemoryStore::new()));
        let tables = InForce::open(Arc::new(rules), None, store, None, "me".into(), false).await.unwrap();
        let address: Address = "127.0.0.1:1".parse().unwrap();
        let mut settings = Settings::bare(address.clone(), folder.path().join("state"));
        settings.limits.statement_bytes_max = STATEMENT_BYTES_MAX;
        let (_, draining) = watch::channel(false);
        let login = LoginContext::new(settings).unwrap();
        let (client, server) = (Wire::default(), Wire::default());
        let logged_in = LoggedIn {
            client: Stream::Buffers(client.clone()),
            server: Stream::Buffers(server.clone()),
            client_buffered: Vec::new(),
            capabilities,
            client_wants_session_track: false,
            user: b"u".to_vec(),
            database: None,
            server_version: ServerVersion::parse(b"10.11.6-MariaDB"),
            connection_id: 1,
            status: 2,
            nonce: Vec::new(),
            sides: Sides { client: Transport::Tcp, server: Transport::Tcp, clear_passwords: false },
            address: "127.0.0.1:1".parse().unwrap(),
            seat: login.seats.user(b"u").unwrap(),
            forwarded_address: None,
        };
        let shared = Shared::new(login, Arc::new(tables), Duration::from_secs(1), Verify::Always, draining);
        for right in [IdRight::Insert, IdRight::Update] {
            shared.allowed.note(&(b"u".to_vec(), None), right, TableName::new("s", "t"));
        }
        let here = shared.sessions.enter();
        Rig { session: Session::new(logged_in, shared, here), client, server }
    }

    /// With a table that was looked up, so that nothing is waited for but the id, and a state that is known.
    pub(super) async fn ready() -> Rig {
        let mut rig = Rig::new(Capabilities::DEPRECATE_EOF | Capabilities::MARIADB_STMT_BULK).await;
        rig.session.relay.known.session.take_state(Some(super::STATE_ROW));
        rig.session.shared.tables.now().fetch("s", "t", false, None).await;
        rig
    }
}

/// Tasks of generators and stores that a session may wait for are done after so many turns of the runtime.
const TURNS: usize = 8;

/// Lets the session go as far as it comes.
async fn settle(serving: &mut (impl Future + Unpin), wires: [&Wire; 2]) {
    let moved = || wires.map(|wire| wire.ends().moved);
    let mut rest = TURNS;
    while rest > 0 {
        let before = moved();
        let polled = poll_fn(|cx| Poll::Ready(Pin::new(&mut *serving).poll(cx).is_ready())).await;
        assert!(!polled, "the session is over");
        rest = if moved() == before { rest - 1 } else { TURNS };
        tokio::task::yield_now().await;
    }
}

/// The cut of a message, from its length and what came before it.
type Cut<'a> = &'a mut dyn FnMut(usize) -> usize;

/// `cut` says how long the next slice is, of so many bytes that are left.
pub(super) async fn play(capabilities: Capabilities, script: &[Say], takes: usize, how: &str, cut: Cut<'_>) {
    let Rig { mut session, client, server } = Rig::new(capabilities).await;
    (client.ends().takes, server.ends().takes) = (takes, takes);
    let show = |bytes: &[u8]| bytes[..bytes.len().min(500)].escape_ascii().to_string();
    let mut serving = Box::pin(session.serve_commands());
    for (step, say) in script.iter().enumerate() {
        match say {
            Client(bytes) | Server(bytes) => {
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let (slice, tail) = rest.split_at(cut(rest.len()).clamp(1, rest.len()));
                    rest = tail;
                    let wire = if matches!(say, Client(_)) { &client } else { &server };
                    wire.ends().input.extend_from_slice(slice);
                    settle(&mut serving, [&client, &server]).await;
                }
            }
            ToServer(bytes) | ToClient(bytes) => {
                let wire = if matches!(say, ToClient(_)) { &client } else { &server };
                let output = std::mem::take(&mut wire.ends().output);
                let same = output.iter().zip(bytes).take_while(|(a, b)| a == b).count();
                let (got, want) = (show(&output[same..]), show(&bytes[same..]));
                assert!(
                    output == *bytes,
                    "{how}, step {step}, behind {same} bytes:\n got {got}\nwant {want}"
                );
            }
        }
    }
    drop(serving);
    let rests = [&client, &server].map(|wire| show(&wire.ends().output));
    assert_eq!(rests, [String::new(), String::new()], "{how}: more for the client, for the server");
    assert!(session.relay.has_answered_all(), "{how}: answers are outstanding");
}

/// Plays the script whole, in two slices cut at every offset, byte by byte, and at random.
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

/// Plays the script in slices of any length, which may be longer than a statement that is read whole.
pub(super) async fn check_at_random(script: &[Say], seeds: u64) {
    for seed in 0..seeds {
        let mut random = StdRng::seed_from_u64(seed);
        let cut = &mut |_| random.gen_range(1..1500);
        play(Capabilities::SESSION_TRACK, script, 0, &format!("seed {seed}"), cut).await;
    }
}

/// The rules with another column for the id.
fn rules_of(column: &str) -> Arc<RuleSet> {
    Arc::new(RuleSet::of_text(&RULES.replace("\"id\"", &format!("\"{column}\""))))
}

/// Sends a command while something `changes` the rules: before it has an id, which takes a task of
/// its own. Returns what goes to the server.
async fn meanwhile<C>(rig: Rig, command: &[u8], change: impl FnOnce(Arc<InForce>) -> C) -> Vec<u8>
where
    C: Future<Output = Result<(), TableError>>,
{
    let Rig { mut session, client, server } = rig;
    let change = change(session.shared.tables.clone());
    client.ends().input.extend_from_slice(command);
    let mut serving = Box::pin(session.serve_commands());
    let settled = settle(&mut serving, [&client, &server]);
    let ((), changed) = tokio::join!(biased; settled, change);
    changed.unwrap();
    settle(&mut serving, [&client, &server]).await;
    std::mem::take(&mut server.ends().output)
}

/// The rule of the table changes to another column.
pub(super) async fn changing(rig: Rig, command: &[u8], column: &str) -> Vec<u8> {
    let rules = rules_of(column);
    meanwhile(rig, command, |tables| async move { tables.change(rules).await }).await
}

/// Sends a command whose rules were retired, with ids at hand, while none are active. Returns what goes to the server.
pub(super) async fn under_retired_rules(rig: Rig, command: &[u8]) -> Vec<u8> {
    let Rig { mut session, client, server } = rig;
    let tables = session.shared.tables.now();
    let Lookup::Ruled(target) = tables.lookup("s", "t") else { panic!("it is ruled") };
    let taken = tables.take(&target, NonZeroU64::MIN, Duration::from_secs(5)).await;
    assert!(taken.is_ok() && tables.take_at_once(&target, NonZeroU64::MIN).is_some(), "ids are at hand");
    tables.retire();
    client.ends().input.extend_from_slice(command);
    let mut serving = Box::pin(session.serve_commands());
    settle(&mut serving, [&client, &server]).await;
    std::mem::take(&mut server.ends().output)
}

/// A text, as a whole packet, for which the server is asked whether `insert_id` is set. Before it answers its table's rule
/// changes to another column. Returns what goes to the server then.
pub(super) async fn changing_before_the_answer(packet: &[u8], answer: &[u8], column: &str) -> Vec<u8> {
    let Rig { mut session, client, server } = Rig::ready().await;
    session.relay.known.session.set_id = SetId::MayBeSet;
    let tables = session.shared.tables.clone();
    let Lookup::Ruled(target) = tables.now().lookup("s", "t") else { panic!("it is ruled") };
    let taken = tables.now().take(&target, NonZeroU64::MIN, Duration::from_secs(5)).await;
    assert!(taken.is_ok(), "ids are at hand");
    client.ends().input.extend_from_slice(packet);
    let mut serving = Box::pin(session.serve_commands());
    settle(&mut serving, [&client, &server]).await;
    let question = std::mem::take(&mut server.ends().output);
    assert!(question.ends_with(SET_ID_SQL), "{}", question.escape_ascii());
    tables.change(rules_of(column)).await.unwrap();
    server.ends().input.extend_from_slice(answer);
    settle(&mut serving, [&client, &server]).await;
    std::mem::take(&mut server.ends().output)
}

/// A text, as a whole packet, while all tables are assigned again, as after a lapse of their locks.
pub(super) async fn assigning_again(packet: &[u8]) -> Vec<u8> {
    let rig = Rig::ready().await;
    meanwhile(rig, packet, |tables| async move { tables.assign_again().await }).await
}

/// While the client's command waits for its answer, the server is asked `question`. Returns what
/// went to the server, what to the client, and the answer's row. The server answers both at once,
/// with these packets.
pub(super) async fn asked_after(
    command: &[u8],
    question: &str,
    answers: &[u8],
) -> (Vec<u8>, Vec<u8>, Option<Vec<u8>>) {
    let Rig { mut session, client, server } = Rig::ready().await;
    client.ends().input.extend_from_slice(command);
    settle(&mut Box::pin(session.serve_commands()), [&client, &server]).await;
    let mut asking = Box::pin(session.ask(Question::Query(question.as_bytes())));
    let polled = poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx).is_ready())).await;
    assert!(!polled, "nothing is answered yet");
    server.ends().input.extend_from_slice(answers);
    let Ok(Ok(answer)) = asking.await else { panic!("the server answers") };
    let ends = [&server, &client].map(|wire| std::mem::take(&mut wire.ends().output));
    let [to_server, to_client] = ends;
    (to_server, to_client, answer.row)
}

/// The text is prepared, as statement 7.
pub(super) async fn with_prepared(text: &str, params: u16) -> Rig {
    let mut rig = Rig::ready().await;
    let tables = rig.session.shared.tables.now();
    let Session { relay, shared, .. } = &mut rig.session;
    let by = basis(&tables, shared, Command::StmtPrepare, None, true);
    let judged = judge(&mut relay.known, by, text.as_bytes());
    let Ok(Verdict::Prepare(kept)) = judged else { panic!("it is prepared") };
    rig.session.relay.known.statements.prepare(kept.clone());
    rig.session.relay.known.statements.prepared(7, &kept, params);
    rig
}
