//! The console of a proxy that runs, by an ordinary command-line client. What clients of other kinds see is tests/console's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::rig::{Rig, code, each_with, insert_id, rules};
use crate::support::Proxy;

const CONFIG: &str = "[admin]\naddress = \"127.0.0.1:0\"\n\n[[admin.users]]\nname = \"dba\"\npassword = \"canary-1\"\nrole = \"write\"\n\n";
const SOON: Duration = Duration::from_secs(20);

/// Where the log says that the console is.
fn port(proxy: &Proxy) -> String {
    let end = Instant::now() + SOON;
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

/// What the client prints, tabs between values, or its error.
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
        for statement in ["SHOW FINDINGS", "SHOW PROXIES", "SHOW SLOTS"] {
            let told = typed(&rig.proxy, statement);
            assert!(!told.contains("ERROR"), "{}: {statement}: {told}", rig.name());
        }

        check(rig, &format!("PAUSE GENERATOR {generator}"), &[&format!("{generator}\tpaused")]);
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(2)"), 1467, "{}", rig.name());
        check(rig, "SHOW GENERATORS", &["\tpaused\t"]);
        check(rig, &format!("RESUME GENERATOR {generator}"), &[&format!("{generator}\tgoes on")]);
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)"), 2, "{}", rig.name());
        check(rig, &format!("RAISE GENERATOR {generator} TO 5000000"), &["\t5000000"]);
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(3)") >= 5_000_000, "{}", rig.name());
        check(rig, "RAISE GENERATOR nobody.g TO 5", &["ERROR 1105", "no generator nobody.g"]);

        let id = session.split('\t').next().unwrap();
        check(rig, &format!("KILL {id}"), &[""]);
        assert!(client.query("SELECT 1").is_err() || code(&mut client, "SELECT 1") != 0, "{}", rig.name());
        check(rig, &format!("KILL {id}"), &["ERROR 1105", &format!("no session {id}")]);
        assert_eq!(insert_id(&mut rig.client(), "INSERT INTO t(a) VALUES(4)") / 5_000_000, 1);

        assert_eq!(typed(&rig.proxy, "DRAIN"), "");
        let end = Instant::now() + SOON;
        while rig.proxy.is_running() {
            assert!(Instant::now() < end, "{}: it does not end: {}", rig.name(), rig.proxy.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = rig.proxy.log();
        let told = format!("the console: PAUSE GENERATOR \"{generator}\"");
        assert!(
            log.contains(&told) && log.contains("the console: DRAIN") && !log.contains("canary"),
            "{log}"
        );
    });
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
        check(rig, "RELOAD RULES DRY RUN", &["result\t2 rules and 1 generators would be in force", &new]);

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
        let end = Instant::now() + SOON;
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
