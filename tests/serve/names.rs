//! Names on servers that do not tell letter case apart (`lower_case_table_names=1`).

use crate::rig::{code, insert_id, make, rows};
use crate::support::raw::{Client, Options};
use crate::support::servers::ServerOptions;
use crate::support::{Kind, Proxy, Server, proxy};

const RULES: &str = "schema = \"Folded\"\n[generators.g]\nkind = \"sequence\"\nstart = 1000\n\
    [tables.T]\ncolumn = \"ID\"\ngenerator = \"g\"\n[tables.\"Order_*\"]\ncolumn = \"id\"\ngenerator = \"g\"\n";

#[test]
fn letter_case_of_tables_does_not_count() {
    // MySQL wants the setting when its data are made, and the tests' data are made without.
    let options =
        ServerOptions { arguments: vec!["--lower-case-table-names=1".into()], ..Default::default() };
    let Some(server) = Server::start_with(Kind::MariaDb, options) else { return };
    make(
        &server,
        "FOLDED",
        "CREATE TABLE Order_Items (id BIGINT PRIMARY KEY, a INT); CREATE VIEW View_Of AS SELECT id, a FROM T;",
    );
    let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", RULES)]);
    let options = Options { database: Some("fOLDED".to_owned()), ..Options::default() };
    let mut client = Client::connect(&proxy.address(), &options).unwrap();
    let mut last = 999;
    for (nth, name) in
        ["t", "T", "`T`", "folded.T", "FOLDED.t", "Order_items", "ORDER_ITEMS", "view_of", "Folded.VIEW_OF"]
            .iter()
            .enumerate()
    {
        let id = insert_id(&mut client, &format!("INSERT INTO {name} VALUES (NULL, {nth})"));
        assert!(id > last, "{name}: {id} behind {last}");
        last = id;
    }
    assert_eq!(rows(&mut client, "SELECT COUNT(*), MIN(id) >= 1000 FROM t"), "7,1");
    client.run("CREATE TEMPORARY TABLE T (id INT, a INT)");
    client.run("INSERT INTO t VALUES (NULL, 1)");
    assert_eq!(rows(&mut client, "SELECT id FROM t"), "NULL", "a temporary table has no ids");
    client.run("DROP TEMPORARY TABLE t");
    client.run("ALTER TABLE FOLDED.T ADD COLUMN b INT FIRST");
    assert_eq!(code(&mut client, "INSERT INTO t VALUES (1, NULL, 100)"), 0);
    assert_eq!(rows(&mut client, "SELECT b FROM t WHERE a=100 AND id>1000"), "1");
    // A second proxy that spells the names otherwise is kept off all the same.
    let log = std::panic::catch_unwind(|| {
        let rules = RULES.replace("Folded", "folded").replace("[tables.T]", "[tables.t]");
        Proxy::start(&proxy::config(&server.address()), &[("rules", &rules)]);
    });
    assert!(log.is_err(), "the lock is another one");
}
