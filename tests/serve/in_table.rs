//! Bounds in a table of the server: Rowstamp's own, and Leaf's.

use std::time::{Duration, Instant};

use mysql_async::OptsBuilder;
use rowstamp::store::mysql::{MysqlStore, Proxy as Named, Server as Place, Table};
use rowstamp::store::{Key, Outcome, Revision, Store, StoreError, Versioned, Write};

use crate::rig::{insert_id, make, rows, server};
use crate::support::raw::{Client, Options};
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy, Server, proxy};

// The checks for every store. The crate's own tests run them on the other stores.
#[path = "../../src/store/conformance.rs"]
mod conformance;

pub(crate) const LEAF: &str = "CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) NOT NULL DEFAULT '', max_id BIGINT NOT NULL DEFAULT 1, \
                    step INT NOT NULL, description VARCHAR(256) DEFAULT NULL, update_time TIMESTAMP NOT NULL DEFAULT \
                    CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, PRIMARY KEY (biz_tag))";

fn opts(server: &Server) -> Vec<Place> {
    let way = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(server.port).user(Some("root"));
    vec![Place { address: server.address(), ways: vec![way.into()] }]
}

fn table(schema: &str, name: &str) -> Table {
    Table { schema: schema.to_owned(), name: name.to_owned() }
}

pub(crate) fn config(server: &Server, name: &str, table: &str) -> String {
    format!(
        "{}[store]\nkind = \"mysql\"\ntable = \"{table}\"\n\n[proxy]\nname = \"{name}\"\n",
        proxy::config(&server.address())
    )
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn it_is_a_store() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        server.client().run("DROP DATABASE IF EXISTS in_table");
        server.client().run("CREATE DATABASE IF NOT EXISTS in_table");
        block_on(async {
            let store = MysqlStore::open(opts(server), &table("in_table", "bounds"), None).await.unwrap();
            conformance::all(&store).await;
        });
    }
}

/// With several servers a store that is opened records which is the primary. One that is only read does not.
#[test]
fn a_look_writes_nothing() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let mut direct = server.client();
        direct.run("DROP DATABASE IF EXISTS in_table_look");
        direct.run("CREATE DATABASE in_table_look");
        let table = table("in_table_look", "bounds");
        let nobody = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(1);
        let away = Place { address: "127.0.0.1:1".to_owned(), ways: vec![nobody.into()] };
        let both = || [opts(server), vec![away.clone()]].concat();
        let records = "SELECT GROUP_CONCAT(name ORDER BY name) FROM in_table_look.bounds";
        block_on(async {
            assert!(MysqlStore::look(both(), &table).await.is_err(), "there is no table yet");
            MysqlStore::open(opts(server), &table, None).await.unwrap();
            assert_eq!(rows(&mut direct, records), "format");
            assert_eq!(MysqlStore::look(both(), &table).await.unwrap().list("").await.unwrap().len(), 1);
            assert_eq!(rows(&mut direct, records), "format");
            MysqlStore::open(both(), &table, None).await.unwrap();
            assert_eq!(rows(&mut direct, records), "format,primary");
        });
    }
}

/// Prepared statements are counted for the whole server: a client that leaves them all open stops nobody's ids.
#[test]
fn a_server_that_has_no_room_for_prepared_statements() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        make(&server, "no_room", "CREATE VIEW v AS SELECT * FROM t");
        server.client().run("SET GLOBAL max_prepared_stmt_count = 0");
        let said = server.client().prepare("SELECT 1").unwrap().unwrap_err();
        assert_eq!(said.code, 1461);
        let in_table = config(&server, "p1", "no_room.bounds");
        for config in [proxy::config(&server.address()), in_table] {
            let mut proxy = Proxy::start(&config, &[("rules", &crate::rig::rules("no_room"))]);
            let insert = |proxy: &Proxy, a: u32| {
                let options = Options { database: Some("no_room".to_owned()), ..Options::default() };
                let mut client = Client::connect(&proxy.address(), &options).unwrap();
                let id = insert_id(&mut client, &format!("INSERT INTO t(a) VALUES ({a})"));
                insert_id(&mut client, &format!("INSERT INTO v(a) VALUES ({})", a + 1));
                id
            };
            assert_eq!(insert(&proxy, 1), 1, "{}", kind.name());
            assert!(proxy.reload().0, "{}", proxy.log());
            proxy.restart();
            assert!(insert(&proxy, 3) > 2, "{}", kind.name());
            assert!(!proxy.log().contains("max_prepared_stmt_count"), "{}", proxy.log());
            drop(proxy);
            server.client().run("DELETE FROM no_room.t");
        }
    }
}

#[test]
fn one_proxy_of_a_name() {
    let Some(server) = server(Kind::MariaDb) else { return };
    server.client().run("CREATE DATABASE IF NOT EXISTS in_table_name");
    let named = |name: &str| Named { name: name.to_owned(), address: "127.0.0.1:1".to_owned(), api: None };
    block_on(async {
        let table = table("in_table_name", "bounds");
        let open = async |name: &str| MysqlStore::open(opts(server), &table, Some(&named(name))).await;
        let first = open("p").await.unwrap();
        let Err(StoreError::NameTaken { address, .. }) = open("p").await else { panic!("it is taken") };
        assert_eq!(address, "127.0.0.1:1");
        let other = open("q").await.unwrap();
        assert_eq!(other.list(Key::PROXIES).await.unwrap().len(), 2);
        first.close().await;
        // The record is still there; its writer is not, once the server has seen that.
        let end = Instant::now() + NEVER;
        while other.list(Key::PROXIES).await.unwrap().len() != 1 {
            assert!(Instant::now() < end, "it stays");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        open("p").await.unwrap();
    });
}

#[test]
fn leafs_table_keeps_generators_only_and_takes_no_ids_back() {
    let Some(server) = server(Kind::MariaDb) else { return };
    let mut direct = server.client();
    direct.run("DROP DATABASE IF EXISTS in_leaf");
    direct.run("CREATE DATABASE in_leaf");
    direct.run("USE in_leaf");
    direct.run(LEAF);
    direct.run("INSERT INTO leaf_alloc(biz_tag, max_id, step) VALUES('orders', 2001, 1000)");
    block_on(async {
        let store = MysqlStore::open(opts(server), &table("in_leaf", "leaf_alloc"), None).await.unwrap();
        let key = Key::generator("shop.orders");
        let found = store.load(&key).await.unwrap().unwrap();
        let text = String::from_utf8(found.value.clone()).unwrap();
        assert_eq!(text, r#"{"v":1,"kind":"sequence","bound":2001,"owner":"","token":""}"#);
        let raised = text.replace("2001", "5001");
        let written = store.compare_and_set(&key, Some(found.revision), raised.as_bytes()).await.unwrap();
        assert_eq!(written, Outcome::Written(Revision(5001)));
        let late = store.compare_and_set(&key, Some(found.revision), raised.as_bytes()).await.unwrap();
        assert!(matches!(late, Outcome::Conflict(Some(Versioned { revision: Revision(5001), .. }))));
        let back = store.compare_and_set(&key, Some(Revision(5001)), text.as_bytes()).await;
        assert!(matches!(back, Err(StoreError::Unavailable { .. })), "{back:?}");
        // A tag that is not there is made; another kind of generator has no place.
        let made = store.compare_and_set(&Key::generator("shop.new"), None, text.as_bytes()).await.unwrap();
        assert_eq!(made, Outcome::Written(Revision(2001)));
        let other = text.replace("sequence", "timestamp");
        let refused = store.compare_and_set(&Key::generator("shop.t"), None, other.as_bytes()).await;
        assert!(matches!(refused, Err(StoreError::WrongKind { .. })), "{refused:?}");
    });
    assert_eq!(
        rows(
            &mut direct,
            "SELECT GROUP_CONCAT(biz_tag, ' ', max_id, ' ', step ORDER BY 1) FROM in_leaf.leaf_alloc"
        ),
        "new 2001 1000,orders 5001 1000"
    );
    let own = rows(&mut direct, "SELECT GROUP_CONCAT(name) FROM in_leaf.rowstamp_bounds");
    assert_eq!(own, "format");
}

/// Two proxies, one of which is killed, over each table; Leaf's own way of taking a segment in between.
#[test]
fn proxies_share_a_table() {
    for (kind, name) in Kind::ALL.into_iter().flat_map(|kind| [(kind, "bounds"), (kind, "leaf_alloc")]) {
        let Some(server) = server(kind) else { continue };
        let db = format!("shared_{name}");
        make(server, &db, LEAF);
        let start = |proxy: &str| {
            let rules = crate::fleet::rules(&db, 10);
            Proxy::start(&config(server, proxy, &format!("{db}.{name}")), &[("rules", &rules)])
        };
        let mut proxies = [start("p1"), start("p2")];
        let mut ids = Vec::new();
        for round in 0..3 {
            for proxy in &proxies {
                let options = Options { database: Some(db.clone()), ..Options::default() };
                let mut client = Client::connect(&format!("127.0.0.1:{}", proxy.port), &options).unwrap();
                ids.extend((0..25).map(|_| insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)")));
            }
            if name == "leaf_alloc" {
                let mut direct = server.client();
                direct.run(format!("UPDATE {db}.leaf_alloc SET max_id = max_id + step"));
            }
            if round == 1 {
                proxies[0].restart();
            }
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((count, ids.len()), (150, 150), "{name}");
    }
}
