//! The console of a proxy that runs, by an ordinary command-line client. What clients of other kinds see is tests/console's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::rig::{Rig, code, code_of, each_with, insert_id, make, rules, server};
use crate::support::raw::Param;
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy};

const CONFIG: &str = "[admin]\naddress = \"127.0.0.1:0\"\n\n[[admin.users]]\nname = \"dba\"\npassword = \"canary-1\"\nrole = \"write\"\n\n";

/// Waits until the log has the console's port, and returns it.
pub(crate) fn port(proxy: &Proxy) -> String {
    let end = Instant::now() + NEVER;
    loop {
        let log = proxy.log();
        let found =
            log.rsplit_once("the console is at 127.0.0.1:").and_then(|(_, rest)| rest.split_once('\n'));
        if let Some((port, _)) = found {
            return port.trim().to_owned();
        }
        assert!(Instant::now() < end, "there is no console: {log}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the client's output, with tabs between values, or its error.
pub(crate) fn typed_as(password: &str, proxy: &Proxy, statement: &str) -> String {
    let output = Command::new("mariadb")
        .args(["--no-defaults", "--skip-ssl", "-h127.0.0.1", "-udba", "-BN"])
        .args([&format!("-P{}", port(proxy)), &format!("-p{password}"), "-e", statement])
        .output()
        .unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap().trim_end_matches('\n').to_owned()
}

fn typed(proxy: &Proxy, statement: &str) -> String {
    typed_as("canary-1", proxy, statement)
}

#[track_caller]
fn check(rig: &Rig, statement: &str, expect: &[&str]) -> String {
    let told = typed(&rig.proxy, statement);
    for expect in expect {
        assert!(told.contains(expect), "{}: {statement}: {expect:?} is not in {told:?}", rig.name());
    }
    told
}

/// A pattern has the tables and the databases that it means, and each generator that was made for one.
#[test]
fn what_a_pattern_means_is_shown() {
    let rules = "schema = \"conp_*\"\n[tables.\"o*\"]\ncolumn = \"id\"\ngenerator = \"{table}\"\n";
    let table = "(id BIGINT NOT NULL PRIMARY KEY, a INT)";
    let made = format!("CREATE TABLE orders {table}; CREATE TABLE other {table};");
    each_with("conp_1", &made, CONFIG, rules, |rig| {
        assert_eq!(typed(&rig.proxy, "SHOW DATABASES"), "conp_1", "{}", rig.name());
        let mut client = rig.client();
        client.run("CREATE DATABASE conp_2");
        client.run(format!("CREATE TABLE conp_2.orders {table}"));
        assert_eq!(insert_id(&mut client, "INSERT INTO conp_2.orders(a) VALUES(1)"), 1, "{}", rig.name());
        assert_eq!(typed(&rig.proxy, "SHOW DATABASES"), "conp_1\nconp_2", "{}", rig.name());
        check(rig, "SHOW RULES", &["conp_*.o*\tid\t{schema}.{table}\tadvance\tsession\ton\trefuse\t3\t"]);
        let generators = typed(&rig.proxy, "SELECT generator, kind, rules FROM generators ORDER BY 1");
        let expect =
            ["conp_1.orders", "conp_1.other", "conp_2.orders"].map(|name| format!("{name}\tsequence\t1"));
        assert_eq!(generators, expect.join("\n"), "{}", rig.name());
        check(rig, "EXPLAIN REWRITE INSERT INTO conp_2.orders(a) VALUES(1)", &["conp_2.orders"]);
        check(rig, "RAISE GENERATOR conp_2.orders TO 5000", &["5000"]);
        assert_eq!(insert_id(&mut client, "INSERT INTO conp_2.orders(a) VALUES(1)"), 5000, "{}", rig.name());
    });
}

/// The store is a file: nobody else can live on it.
#[test]
fn the_nodes_of_a_proxy_that_is_alone_are_its_own() {
    const DB: &str = "console_alone";
    let timestamps = "[generators.e]\nkind = \"timestamp\"\nlayout = \"snowflake\"\n[tables.w]\ncolumn = \"id\"\ngenerator = \"e\"\n";
    let rules = rules(DB) + timestamps;
    each_with(DB, "CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, a INT)", CONFIG, &rules, |rig| {
        assert_eq!(code(&mut rig.client(), "INSERT INTO w(a) VALUES(1)"), 0, "{}", rig.name());
        check(rig, "SHOW SLOTS", &["console_alone.e\t0\t", "\tyes\t20"]);
        check(rig, "SHOW PROXIES", &["\tyes"]);
    });
}

#[test]
fn what_an_operator_sees_and_does() {
    const DB: &str = "console_sees";
    each_with(DB, "", CONFIG, &rules(DB), |rig| {
        let generator = format!("{DB}.g");
        let mut client = rig.client();
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1);
        check(
            rig,
            "SHOW RULES",
            &[&format!("{DB}.t\tid\t{generator}\tadvance\tsession\ton\trefuse\t"), "rules.toml:4"],
        );
        let row =
            check(rig, "SHOW GENERATORS LIKE 'console%'", &[&format!("{generator}\tsequence\topen\t1\t")]);
        assert!(row.ends_with("\t1\tNULL"), "{row}");
        let session =
            check(rig, "SHOW SESSIONS LIKE 'root'", &["\tidle\troot\t127.0.0.1:", &format!("\t{DB}\t")]);
        check(
            rig,
            "SHOW VERSION",
            &["store\tembedded", "check listener\tfine", "check generators\tfine", "draining\tno"],
        );
        check(rig, "SHOW CONFIG LIKE 'admin.%'", &["admin.address\t127.0.0.1:0\t", "dba (write)"]);
        check(rig, "SHOW STATS LIKE '%ids%'", &["rowstamp_"]);
        check(rig, "SHOW DATABASES", &[DB]);
        let explain = format!("EXPLAIN REWRITE IN {DB} INSERT INTO t(a) VALUES (7)");
        let expect = format!("INSERT INTO t(a,`id`) VALUES (7,LAST_INSERT_ID(<id 1 of {generator}>))");
        check(rig, &explain, &[&expect]);
        check(rig, &format!("USE {DB}; EXPLAIN REWRITE INSERT INTO t(a) VALUES (7)"), &[&expect]);
        let told = typed(&rig.proxy, "SHOW FINDINGS");
        assert!(!told.contains("ERROR"), "{}: {told}", rig.name());
        // With a store of its own the proxy is the only one.
        check(rig, "SHOW PROXIES", &[&format!("\t127.0.0.1:{}\t0.1.0\t", rig.proxy.port), "\tyes"]);
        check(rig, "SHOW BACKENDS", &[&format!("{}\tyes\tyes\t", rig.server.address())]);
        check(rig, "SELECT COUNT(*) FROM generators WHERE state = 'open'", &["1"]);
        check(rig, "SHOW RULES WHERE `table` = 'console_sees.t' LIMIT 1", &["console_sees.t\tid"]);
        check(
            rig,
            "SELECT nothing FROM rules",
            &["ERROR 1054", "there is no column nothing; the columns are table, column"],
        );
        check(rig, "SHOW COMMANDS LIKE 'KILL%'", &["KILL id\tADMIN\tEnds a session"]);

        check(rig, &format!("PAUSE GENERATOR {generator}"), &[&format!("{generator}\tpaused")]);
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(2)"), 1467, "{}", rig.name());
        check(rig, "SHOW GENERATORS", &["\tpaused\t"]);
        check(rig, &format!("RESUME GENERATOR {generator}"), &[&format!("{generator}\tcontinues")]);
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)"), 2, "{}", rig.name());
        let raise = format!("RAISE GENERATOR {generator} TO 5000000");
        check(rig, &raise, &["ERROR 1105", "is far above its bound", &format!("{raise} YES")]);
        check(rig, &format!("{raise} YES"), &["\t5000000"]);
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(3)") >= 5_000_000, "{}", rig.name());
        let too_high = "RAISE GENERATOR console_sees.g TO 9223372036854775808";
        check(rig, too_high, &["ERROR 1105", "is above 9223372036854775807, the last id of console_sees.g"]);
        check(rig, "RAISE GENERATOR nobody.g TO 5", &["ERROR 1105", "no generator nobody.g"]);

        let id = session.split('\t').next().unwrap();
        check(rig, &format!("KILL {id}"), &[""]);
        assert!(client.query("SELECT 1").is_err() || code(&mut client, "SELECT 1") != 0, "{}", rig.name());
        check(rig, &format!("KILL {id}"), &["ERROR 1105", &format!("no session {id}")]);
        assert_eq!(insert_id(&mut rig.client(), "INSERT INTO t(a) VALUES(4)") / 5_000_000, 1);

        assert_eq!(typed(&rig.proxy, "DRAIN"), "");
        rig.wait_until("it does not end", || !rig.proxy.is_running());
        let log = rig.proxy.log();
        let told = format!("the console: PAUSE GENERATOR \"{generator}\"");
        assert!(
            log.contains(&told) && log.contains("the console: DRAIN") && !log.contains("canary"),
            "{log}"
        );
    });
}

/// Without its values, by text and prepared; what no rule concerns is not looked at.
#[test]
fn the_last_statement_into_a_ruled_table() {
    const DB: &str = "console_last";
    each_with(DB, "", CONFIG, &rules(DB), |rig| {
        let mut client = rig.client();
        let last = "SELECT last_ruled, last_digest FROM sessions WHERE user = 'root'";
        assert_eq!(check(rig, last, &[]), "NULL\tNULL", "{}", rig.name());
        client.run("INSERT INTO t(a) VALUES('1'/* secret */)");
        let text = check(rig, last, &["INSERT INTO t(a) VALUES (...)\t"]);
        let shown = text.split('\t').nth(1).unwrap_or_default();
        assert!(shown.len() == 16 && !text.contains("secret"), "{}: {text}", rig.name());
        client.run("SELECT 5");
        client.run("REPLACE INTO t(a) VALUES(1),(2)");
        check(rig, last, &["REPLACE INTO t(a) VALUES (...)\t"]);
        let insert = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        let done = client.execute(&insert, &[Param::Int(6)]).unwrap();
        assert_eq!(code_of(&done), 0, "{}", rig.name());
        assert_eq!(check(rig, last, &[]), text, "{}: they differ in values alone", rig.name());
        client.run("SELECT 5");
        assert_eq!(check(rig, last, &[]), text, "{}", rig.name());
        let long = format!("INSERT INTO t(a) VALUES(7/*{}*/)", "x".repeat(4_096));
        client.run(&long);
        check(rig, last, &[&format!("(a statement of {} bytes into {DB}.t)\tNULL", long.len())]);
    });
}

/// Bounds of unused generators are the store's; a proxy may have it to itself, so that nobody else can look.
#[test]
fn generators_that_are_not_used() {
    const DB: &str = "console_unused";
    let ruled = format!(
        "{}[generators.h]\nkind = \"sequence\"\n\n[tables.w]\ncolumn = \"id\"\ngenerator = \"h\"\n",
        rules(DB)
    );
    each_with(DB, "CREATE TABLE w(id BIGINT PRIMARY KEY, a INT)", CONFIG, &ruled, |rig| {
        let h = format!("SHOW GENERATORS LIKE '{DB}.h'");
        insert_id(&mut rig.client(), "INSERT INTO w(a) VALUES(1)");
        check(rig, &format!("RAISE GENERATOR {DB}.h TO 7000"), &["\t7000"]);
        let row = check(rig, &h, &[&format!("{DB}.h\tsequence\topen\t1\t")]);
        assert!(row.ends_with("\t1\tNULL"), "{row}");
        rig.proxy.write_rules("rules", &format!("{ruled}mode = \"shadow\"\n"));
        check(rig, "RELOAD RULES", &["result\t"]);
        let unused = |counts: &str, rules: &str| {
            let row = check(rig, &h, &[&format!("{DB}.h\tsequence\tunused\t{counts}\tNULL\tNULL\t")]);
            let behind = format!(
                "\tNULL\tNULL\tNULL\tNULL\tNULL\t{rules}\tno rule with mode = \"on\" names the generator"
            );
            let bound =
                row.strip_suffix(&behind).and_then(|row| row.rsplit_once('\t')).map(|(_, bound)| bound);
            assert!(bound.and_then(|bound| bound.parse().ok()) >= Some(7_000), "{}: {row}", rig.name());
        };
        unused("1\t0", "1");
        check(
            rig,
            &format!("RAISE GENERATOR {DB}.h TO 8000"),
            &["ERROR 1105", "rowstamp store raise console_unused.h --to"],
        );
        check(rig, &format!("PAUSE GENERATOR {DB}.h"), &["\tpaused"]);
        check(rig, &h, &["\tpaused\t"]);
        // No rules at all: the store knows it still.
        rig.proxy.write_rules("rules", &rules(DB));
        check(rig, "RELOAD RULES", &["result\t"]);
        unused("0\t0", "0");
        check(rig, "SHOW VERSION", &["check generators\tfine"]);
        assert!(!typed(&rig.proxy, "SHOW STATS").contains(&format!("{DB}.h")), "{}", rig.name());
    });
}

/// Another proxy still issues the ids that it has reserved. RAISE says up to where.
#[test]
fn a_raise_says_up_to_where_others_have_reserved() {
    const DB: &str = "console_raises";
    let Some(server) = server(Kind::MariaDb) else { return };
    make(server, DB, "");
    let start = |name: &str| {
        let config = format!("{}\n{CONFIG}", crate::in_table::config(server, name, &format!("{DB}.bounds")));
        Proxy::start(&config, &[("rules", &crate::fleet::rules(DB, 100))])
    };
    let (here, there) = (start("console_a"), start("console_b"));
    let insert = |proxy: &Proxy| {
        let mut client = proxy.client();
        client.run(format!("USE {DB}"));
        insert_id(&mut client, "INSERT INTO t() VALUES()")
    };
    let (first, second) = (insert(&here), insert(&there));
    assert!(first < second, "{first} {second}");
    let told = typed(&here, &format!("RAISE GENERATOR {DB}.g TO 5000"));
    let [_, before, now] = told.split('\t').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let before: u64 = before.parse().unwrap();
    assert!(second < before && now == "5000", "{told}");
    let (mut latest, mut ids) = (second, Vec::new());
    while latest < 5_000 && ids.len() < 1_000 {
        latest = insert(&there);
        ids.push(latest);
    }
    assert!(insert(&here) >= 5_000 && latest >= 5_000);
    assert!(ids.iter().all(|id| *id < before || *id >= 5_000), "above {before}: {ids:?}");
}

#[test]
fn reloads_and_users_that_change() {
    const DB: &str = "console_reloads";
    each_with(DB, "", CONFIG, &rules(DB), |rig| {
        let with_u = format!("{}[tables.u]\ncolumn = \"id\"\ngenerator = \"g\"\n", rules(DB));
        rig.proxy.write_rules("rules", &format!("{with_u}x = 1\n"));
        let refused = ["ERROR 1105", "rules.toml:10", "tables.u.x: unknown key"];
        check(rig, "RELOAD RULES DRY RUN", &refused);
        check(rig, "RELOAD RULES", &refused);
        rig.proxy.write_rules("rules", &with_u);
        let new = format!("table {DB}.u");
        check(rig, "RELOAD RULES DRY RUN", &["result\trules: 2, generators: 1; all would be active", &new]);

        // Another password and less of a role, by the console itself.
        let file = rig.proxy.dir().join("rowstamp.toml");
        let config = fs::read_to_string(&file).unwrap();
        fs::write(&file, config.replace("canary-1", "canary-2").replace("\"write\"", "\"read\"")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        check(rig, "RELOAD RULES", &["result\t"]);
        check(rig, "SHOW RULES", &["ERROR 1045"]);
        std::thread::sleep(Duration::from_millis(600));
        let told = typed_as("canary-2", &rig.proxy, "SHOW RULES");
        assert!(told.contains(&format!("{DB}.u\tid")), "{}: {told}", rig.name());
        let told = typed_as("canary-2", &rig.proxy, "RELOAD RULES");
        assert!(told.contains("ERROR 1227"), "{}: {told}", rig.name());
        let config = typed_as("canary-2", &rig.proxy, "SHOW CONFIG");
        assert!(!config.contains("canary") && !rig.proxy.log().contains("canary"), "{config}");
    });
}

#[test]
fn a_process_that_takes_over_has_the_console() {
    const DB: &str = "console_hands_over";
    // A port that is fixed: both processes have it written.
    let free = crate::support::machine::free_port();
    let config = CONFIG.replace("127.0.0.1:0", &format!("127.0.0.1:{free}"));
    each_with(DB, "", &config, &rules(DB), |rig| {
        assert_eq!(port(&rig.proxy), free.to_string());
        let mut client = rig.client();
        let before = rig.proxy.take_over();
        let end = Instant::now() + NEVER;
        // The old process lives with its session, without a console.
        while rig.proxy.log().matches("the console is at").count() < 2 {
            assert!(Instant::now() < end, "{}: {}", rig.name(), rig.proxy.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(before.is_running());
        check(rig, "SHOW SESSIONS", &[""]);
        assert!(
            !typed(&rig.proxy, "SHOW SESSIONS").contains("root"),
            "{}: the session is the other's",
            rig.name()
        );
        client.run("SELECT 1");
    });
}
