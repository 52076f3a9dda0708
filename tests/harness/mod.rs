//! The harness itself: servers start, are told apart and end; the raw client reads what both servers send.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::raw::{
    CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, CLIENT_SESSION_TRACK, Client, Options, Param, Value,
};
use crate::support::wait::NEVER;
use crate::support::{Kind, Server};

#[test]
fn the_raw_client_speaks_text_and_binary_to_both_servers() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        for capabilities in
            [CLIENT_MULTI_STATEMENTS, CLIENT_MULTI_STATEMENTS | CLIENT_DEPRECATE_EOF | CLIENT_SESSION_TRACK]
        {
            let options = Options { database: Some("test".to_owned()), capabilities, ..Options::default() };
            let mut client = Client::connect(&server.address(), &options).expect("login");
            client.run("DROP TABLE IF EXISTS t; CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(9), d DATETIME)");
            let ok = client.run("INSERT INTO t (a) VALUES ('x'), (NULL)").remove(0);
            let ok = ok.ok().expect("an OK");
            assert_eq!(
                (ok.affected_rows, ok.insert_id, ok.info.as_str()),
                (2, 1, "Records: 2  Duplicates: 0  Warnings: 0")
            );
            assert_eq!(
                client.run("SELECT 1; SELECT 'b', NULL")[1].rows(),
                [[Value::Bytes(b"b".to_vec()), Value::Null]]
            );

            let insert =
                client.prepare("INSERT INTO t VALUES (?, ?, '2024-01-02')").expect("io").expect("prepares");
            assert_eq!(insert.params, 2);
            let params = [Param::NullInt, Param::String(b"abc".to_vec())];
            assert_eq!(client.execute(&insert, &params).expect("io")[0].ok().expect("an OK").insert_id, 3);
            let select =
                client.prepare("SELECT id, a, d FROM t WHERE id > ?").expect("io").expect("prepares");
            let rows = client.execute(&select, &[Param::Int(2)]).expect("io").remove(0);
            assert_eq!(
                rows.rows(),
                [[Value::Int(3), Value::Bytes(b"abc".to_vec()), Value::Packed(vec![0xE8, 0x07, 1, 2])]]
            );
            let error = client.query("SELECT nonsense").expect("io").remove(0);
            assert_eq!(error.err().map(|e| (e.code, e.sqlstate.as_str())), Some((1054, "42S22")));
            client.quit().expect("the server closes");
        }
    }
}

/// The command lines of those processes that have this folder for their temporary files, by pid.
fn processes_of(folder: &Path) -> BTreeMap<u32, String> {
    let wanted = format!("TMPDIR={}", folder.display());
    let pids = fs::read_dir("/proc").expect("there is /proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Processes that have ended meanwhile have no such file.
    let text = |pid: u32, file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let theirs =
        pids.filter(|pid| text(*pid, "environ").split(|b| *b == 0).any(|one| one == wanted.as_bytes()));
    theirs.map(|pid| (pid, String::from_utf8_lossy(&text(pid, "cmdline")).replace('\0', " "))).collect()
}

/// Until one of them is so: its pid.
fn wait_for_one(run: &mut Child, folder: &Path, is_it: impl Fn(&str) -> bool) -> u32 {
    loop {
        if let Some((pid, _)) = processes_of(folder).into_iter().find(|(_, line)| is_it(line)) {
            return pid;
        }
        assert!(run.try_wait().expect("it is ours").is_none(), "the run ended too early");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_run_that_is_killed_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut run = Command::new("bash")
        .args(["tests/run.sh", "--only", "e2e", "harness::a_server_ends"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash starts");
    wait_for_one(&mut run, folder.path(), |line| line.contains("--datadir") && line.contains("--port"));
    // Stopped, the tests' program does not end by itself.
    let program = wait_for_one(&mut run, folder.path(), |line| {
        line.contains("/deps/e2e-") && !line.contains("timeout")
    });
    let signal =
        |name: &str| Command::new("kill").args([name, &program.to_string()]).status().expect("kill runs");
    assert!(signal("-STOP").success());
    run.kill().expect("it runs");
    run.wait().expect("it is ours");
    let end = Instant::now() + NEVER;
    while !processes_of(folder.path()).is_empty() && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    let left = processes_of(folder.path());
    if !left.is_empty() {
        signal("-KILL");
    }
    assert!(left.is_empty(), "{left:?}");
    let entries = fs::read_dir(folder.path()).expect("it is there").flatten();
    let servers = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"rowstamp-"));
    assert_eq!(servers.count(), 0, "folders of servers");
}

#[test]
fn a_server_ends_with_its_owner_and_restarts_on_its_data() {
    for kind in Kind::ALL {
        let Some(mut server) = Server::start(kind) else { continue };
        server.client().run("CREATE TABLE test.kept (a INT)");
        server.restart();
        server.client().run("INSERT INTO test.kept VALUES (1)");
        let (pid, dir) = (server.pid, server.dir().to_owned());
        drop(server);
        assert!(!dir.exists(), "the folder is gone");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "the process is gone");
    }
}
