//! The cost for MariaDB of the control account's looks at the schema. MariaDB finds a table's columns by the
//! table's file if a query of information_schema compares both names with constants. Otherwise it reads whole
//! folders.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::rig::{code, each_with, insert_id, make, rules as one_table, server};
use crate::support::raw::{Client, Param};
use crate::support::servers::ServerOptions;
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, Server, proxy};

/// The tables that the pattern fits: so many are asked for by a list of names, not one by one.
const PATTERN_TABLES: usize = 40;

const DB: &str = "looks";

fn tables() -> String {
    let mut sql = "CREATE TABLE auto (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT); \
                   CREATE VIEW shown AS SELECT * FROM t; CREATE VIEW again AS SELECT * FROM shown; \
                   CREATE TABLE s_1 (id BIGINT PRIMARY KEY, a INT); CREATE VIEW s_shown AS SELECT * FROM s_1; \
                   CREATE TABLE texts (id VARCHAR(30) PRIMARY KEY, a INT); "
        .to_owned();
    for nth in 0..PATTERN_TABLES {
        let _ = write!(sql, "CREATE TABLE p_{nth} (id BIGINT NOT NULL PRIMARY KEY, a INT); ");
    }
    sql
}

fn rules(more: &str) -> String {
    let rule =
        |table: &str, more: &str| format!("[tables.\"{table}\"]\ncolumn = \"id\"\ngenerator = \"g\"\n{more}");
    let all = [
        rule("t", ""),
        rule("auto", ""),
        rule("p_*", ""),
        rule("later", ""),
        rule("s_*", "mode = \"shadow\"\n"),
    ];
    format!("schema = \"{DB}\"\n[generators.g]\nkind = \"sequence\"\n{}{more}", all.concat())
}

/// A server that notes all that it is asked in a table, and a proxy whose account is nobody else's.
fn start() -> Option<(Server, Proxy)> {
    let arguments = ["--general-log=1", "--log-output=TABLE"].map(str::to_owned).to_vec();
    let server = Server::start_with(Kind::MariaDb, ServerOptions { arguments, ..ServerOptions::default() })?;
    make(&server, DB, &tables());
    server.client().run("CREATE USER looker@'%'");
    server.client().run("GRANT SELECT, SHOW VIEW, TRIGGER, PROCESS ON *.* TO looker@'%'");
    let config = proxy::config(&server.address()).replace("user = \"root\"", "user = \"looker\"");
    let proxy = Proxy::start(&config, &[("rules", &rules(""))]);
    Some((server, proxy))
}

/// All that makes the proxy ask the server something.
fn use_it(server: &Server, proxy: &Proxy) {
    let mut client = proxy.client();
    client.run(format!("USE {DB}"));
    for sql in [
        "INSERT INTO t(a) VALUES(1)",
        "INSERT INTO t VALUES(NULL,2)",
        "INSERT INTO t(id,a) VALUES(NULL,3),(1+1+(SELECT 1000),4)",
        "INSERT INTO auto(a) SELECT 5",
        "INSERT INTO shown(a) VALUES(6)",
        "INSERT INTO again(a) VALUES(7)",
        "INSERT INTO s_1(id,a) VALUES(1,8)",
        "INSERT INTO p_7(a) VALUES(9)",
        "ALTER TABLE t ADD b INT",
        "INSERT INTO t(a) VALUES(10)",
        "CREATE TABLE later (id BIGINT PRIMARY KEY, a INT)",
        "INSERT INTO later(a) VALUES(11)",
        "RENAME TABLE p_8 TO other",
        "INSERT IGNORE INTO p_9(a) VALUES(12)",
    ] {
        assert_eq!(code(&mut client, sql), 0, "{sql}: {}", proxy.log());
    }
    let statement = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
    client.execute(&statement, &[Param::Int(13)]).unwrap();
    for nth in (0..PATTERN_TABLES).filter(|nth| *nth != 8) {
        assert!(insert_id(&mut client, &format!("INSERT INTO p_{nth}(a) VALUES(14)")) > 0);
    }
    // Past the proxy, so that it finds out by itself.
    let mut direct = server.client();
    direct.run(format!("ALTER TABLE {DB}.auto ADD b INT FIRST"));
    let shows =
        |client: &mut Client| client.query("INSERT INTO auto VALUES(1,NULL,2)").unwrap()[0].ok().is_some();
    wait_until(|| format!("the column is not seen: {}", proxy.log()), || shows(&mut client));
    proxy.write_rules("rules", &rules("[tables.texts]\ncolumn = \"id\"\ngenerator = \"g\"\n"));
    wait_until(
        || format!("the rules are not read: {}", proxy.log()),
        || {
            code(&mut client, "INSERT INTO texts(a) VALUES(15)") == 0
                && client.run("SELECT id FROM texts")[0].cell(0, 0).is_some_and(|id| !id.is_empty())
        },
    );
}

#[test]
fn no_look_at_a_table_reads_the_folders_of_all_schemas() {
    let Some((server, proxy)) = start() else { return };
    use_it(&server, &proxy);
    drop(proxy);
    let mut direct = server.client();
    direct.run("SET GLOBAL general_log = 0");
    let asked = direct.run(
        "SELECT argument FROM mysql.general_log WHERE user_host LIKE 'looker%' AND command_type = 'Query' \
         AND argument LIKE '%FROM information_schema.%'",
    );
    let asked: BTreeSet<String> = asked[0].rows().iter().filter_map(|row| row[0].text()).collect();
    let of = |what: &str| asked.iter().filter(|sql| sql.contains(what)).count();
    assert!(of("information_schema.columns") > 0 && of("information_schema.views") > 0, "{asked:?}");
    let mut wrong = Vec::new();
    for sql in &asked {
        // Which views there are only all folders tell: `a_quiet_server_is_asked_for_no_views`.
        if sql.contains("is_updatable = 'YES'") {
            continue;
        }
        let plan = direct.run(format!("EXPLAIN {sql}"));
        let extra = plan[0].rows().iter().filter_map(|row| row.last()?.text());
        if extra.into_iter().any(|extra| extra.contains("Scanned all databases")) {
            wrong.push(sql);
        }
    }
    assert!(wrong.is_empty(), "{} of {} scan all databases: {wrong:#?}", wrong.len(), asked.len());
}

#[test]
fn a_reload_that_waits_tells_each_second_how_far_it_is() {
    let db = "looks_progress";
    each_with(db, "CREATE TABLE v (id BIGINT PRIMARY KEY, a INT);", "", &one_table(db), |rig| {
        let mut direct = rig.direct();
        direct.run("LOCK TABLES v WRITE");
        let more = "[tables.v]\ncolumn = \"id\"\ngenerator = \"g\"\n";
        rig.proxy.write_rules("rules", &format!("{}{more}", one_table(db)));
        let has = |text: &str| rig.proxy.log().contains(text);
        let tells = "reading the highest ids of tables: 0 of 1";
        rig.wait_until("nothing tells how far it is", || has(tells));
        direct.run("UNLOCK TABLES");
        rig.wait_until("the rules do not act", || has("the files are active"));
        assert!(insert_id(&mut rig.client(), "INSERT INTO v(a) VALUES(1)") > 0, "{}", rig.name());
    });
}

fn connections(direct: &mut Client) -> Vec<String> {
    let all = direct.run("SELECT id FROM information_schema.processlist WHERE user = 'locker'");
    all[0].rows().iter().filter_map(|row| row[0].text()).collect()
}

/// One connection keeps the locks of a thousand tables.
#[test]
fn the_locks_of_more_tables_than_one_connection_has() {
    const TABLES: usize = 1_050;
    let db = "looks_locks";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let table = |nth| format!("CREATE TABLE p_{nth} (id BIGINT NOT NULL PRIMARY KEY, a INT); ");
        make(server, db, &(0..TABLES).map(table).collect::<String>());
        let mut direct = server.client();
        direct.run("CREATE USER locker@'%'");
        direct.run(format!("GRANT SELECT, SHOW VIEW ON {db}.* TO locker@'%'"));
        let rules = format!(
            "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\n[tables.\"p_*\"]\ncolumn = \"id\"\ngenerator = \"g\"\n"
        );
        let config = proxy::config(&server.address()).replace("user = \"root\"", "user = \"locker\"");
        let proxy = Proxy::start(&config, &[("rules", &rules)]);
        let mut client = proxy.client();
        client.run(format!("USE {db}"));
        let ends = [0, TABLES - 1].map(|nth| format!("INSERT INTO p_{nth}(a) VALUES(1)"));
        let first = ends.each_ref().map(|sql| insert_id(&mut client, sql));
        // With its connections go the locks; it takes them again, and asks what is in the tables.
        let before = connections(&mut direct);
        for id in &before {
            let _ = direct.query(format!("KILL {id}"));
        }
        wait_until(
            || format!("{}: {}", kind.name(), proxy.log()),
            || {
                connections(&mut direct).iter().filter(|id| !before.contains(*id)).count() > 1
                    && ends.iter().all(|sql| code(&mut client, sql) == 0)
            },
        );
        let next = ends.each_ref().map(|sql| insert_id(&mut client, sql));
        assert!(first[0] < first[1] && first[1] < next[0] && next[0] < next[1], "{first:?} {next:?}");
    }
}
