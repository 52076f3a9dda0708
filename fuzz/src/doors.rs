//! A door with one client: what the client is answered, however its bytes are sliced.

use std::sync::Arc;
use std::time::Duration;

use rowstamp::doors::{Door, DoorMeter, Issuer, Protocol, Terms};
use rowstamp::rules::RuleSet;
use rowstamp::store::memory::MemoryStore;
use rowstamp::tables::InForce;
use rowstamp::users::{Directory, Role, User};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::input::Input;
use crate::memory;
use crate::slices::cut;

const RULES: &str = "schema = \"s\"\n[generators.g]\nkind = \"sequence\"\n[generators.few]\nkind = \"sequence\"\nmax = 5\n\
                     [generators.high]\nkind = \"sequence\"\nstart = 9223372036854775800\nmax = 9223372036854775900\nbatch = 10\n";

const SERVICE: &str = "schema = \"service\"\n[generators.id]\nkind = \"timestamp\"\nlayout = \"snowflake\"\n";

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    static LOADED: Arc<RuleSet> = {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("s.toml"), RULES).unwrap();
        std::fs::write(folder.path().join("service.toml"), SERVICE).unwrap();
        Arc::new(rowstamp::rules::load(folder.path()).expect("the rules are right").0)
    };
}

/// What a client that sends `bytes` is answered: where they come at once, and where they come in slices.
pub(crate) fn answers<P: Protocol>(
    bytes: &[u8],
    slicing: u8,
    memory_max: usize,
    protocol: impl Fn(Issuer) -> P,
) -> [Vec<u8>; 2] {
    let slices = cut(&mut Input::new(&[slicing]), bytes);
    [vec![bytes], slices].map(|slices| {
        memory::within(memory_max, || RUNTIME.with(|runtime| runtime.block_on(talk(&slices, &protocol))))
    })
}

/// With a new door: its users are "app" with the password "x", and "look" with "y", who may not draw.
async fn talk<P: Protocol>(slices: &[&[u8]], protocol: impl Fn(Issuer) -> P) -> Vec<u8> {
    let rules = LOADED.with(Arc::clone);
    let tables = InForce::open(rules, None, Arc::new(MemoryStore::new()), None, "fuzz".into(), true).await;
    let user =
        |name: &str, password: &str, role| Arc::new(User::of_file(name, password.to_owned().into(), role));
    let users = [user("app", "x", Role::Write), user("look", "y", Role::Read)];
    let issuer = Issuer {
        door: "fuzz",
        tables: Arc::new(tables.expect("a store in memory is there")),
        users: Directory::without_store(&users),
        deadline: Box::new(|| Duration::from_secs(1)),
        audit: Arc::default(),
        meter: Arc::<DoorMeter>::default(),
    };
    let terms = || Terms {
        acceptor: None,
        needs_tls: false,
        connections_max: 10,
        login_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_mins(10),
        write_timeout: Duration::from_mins(1),
    };
    let door = Door::new(protocol(issuer), terms);
    let (client, server) = tokio::io::duplex(1 << 16);
    let (mut answers, mut requests) = tokio::io::split(client);
    let asks = async {
        for slice in slices {
            // The door may have ended the connection.
            if requests.write_all(slice).await.is_err() {
                break;
            }
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        let _ = requests.shutdown().await;
    };
    let reads = async {
        let mut told = Vec::new();
        let _ = answers.read_to_end(&mut told).await;
        told
    };
    let ((), told, ()) = tokio::join!(asks, reads, door.serve(server));
    drop(door);
    // The tasks of its generators end at their next look at the clock, which stands still while anything runs.
    tokio::time::sleep(Duration::from_secs(1)).await;
    told
}
