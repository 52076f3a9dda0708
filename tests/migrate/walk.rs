//! A live table under 16 writers goes from AUTO_INCREMENT to a generator and back, by the commands of docs/migrate.md and docs/migrate-back.md: no write
//! fails, no id comes twice, and every row is there with the id that its writer was told.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::migrate::bench::Bench;
use crate::migrate::guide::{self, Part, alike, last_number};
use crate::migrate::writers::{Load, Place, WRITERS, with_ids};
use crate::support::servers::{ServerOptions, announce};
use crate::support::told::{self, StopOnDrop, judge, number};
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, Server};

#[test]
fn a_live_table_moves_and_comes_back_on_mariadb() {
    walk(Kind::MariaDb);
}

#[test]
fn a_live_table_moves_and_comes_back_on_mysql9() {
    walk(Kind::MySql9);
}

fn walk(kind: Kind) {
    // A server that keeps bounds needs this: else the plan would warn.
    let arguments = vec!["--innodb-flush-log-at-trx-commit=1".to_owned()];
    let options = ServerOptions { arguments, ..ServerOptions::default() };
    let Some(server) = Server::start_with(kind, options) else { return };
    let (begun, seed) = (Instant::now(), number("ROWSTAMP_SEED").unwrap_or(1));
    announce(&format!("migrate: {} seed {seed} (ROWSTAMP_SEED repeats it)", kind.name()));
    let guide = guide::read();
    let password = tempfile::NamedTempFile::new().unwrap();
    fs::write(&password, "a secret\n").unwrap();
    let proxy = start(&server, &guide, password.path());
    let load = Load::new(server.address(), proxy.address());
    let mut walk = Walk {
        server: &server,
        proxy: &proxy,
        load: &load,
        bench: Bench::new(&server),
        transcript: String::new(),
    };
    std::thread::scope(|scope| {
        // Dropped before the scope waits for the writers, also by a panic.
        let _stop = StopOnDrop(&load.stop);
        for writer in 0..WRITERS {
            let load = &load;
            scope.spawn(move || load.write(writer, seed));
        }
        load.go_on();
        walk.all(&guide);
        load.go_on();
    });
    load.check();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("migrate-{}.txt", kind.name()));
    fs::write(path, &walk.transcript).unwrap();
    let rows = judged(&server, &load);
    announce(&format!(
        "migrate: {}: {rows} rows in {:.1} s, no write failed",
        kind.name(),
        begun.elapsed().as_secs_f64()
    ));
}

/// The proxy with the guide's configuration, before any rule is written.
fn start(server: &Server, guide: &[Part], password: &Path) -> Proxy {
    let mut root = server.client();
    for statement in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, token BIGINT NOT NULL COMMENT 'whose ''row''')",
        "CREATE USER app@'%' IDENTIFIED BY ''",
        "GRANT SELECT, INSERT ON shop.* TO app@'%'",
    ] {
        root.run(statement);
    }
    let sql = guide.iter().find_map(|part| if let Part::Sql(sql) = part { Some(sql) } else { None }).unwrap();
    for statement in sql.split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
        root.run(statement.replace("'...'", "'a secret'"));
    }
    // A session of its own would count among the old ones.
    root.quit().unwrap();
    let config = guide.iter().find_map(|part| match part {
        Part::File { name, text } if name == "rowstamp.toml" => Some(text),
        _ => None,
    });
    let config = config
        .unwrap()
        .replace("127.0.0.1:3307", "127.0.0.1:0")
        .replace("127.0.0.1:3306", &server.address())
        .replace("control.password", &password.to_string_lossy());
    let config = format!("{config}\n[http]\naddress = \"off\"\n[rewrite]\nverify = \"always\"\n");
    Proxy::start(&config, &[])
}

struct Walk<'a> {
    server: &'a Server,
    proxy: &'a Proxy,
    load: &'a Load,
    bench: Bench,
    /// Each command with what it printed.
    transcript: String,
}

impl Walk<'_> {
    fn all(&mut self, guide: &[Part]) {
        let (mut sessions, mut ids, mut reloads) = (None, None, 0);
        for part in guide {
            match part {
                Part::File { .. } | Part::Sql(_) => {}
                Part::Happens(what) => self.happens(what, &mut reloads),
                Part::Command { line, output } => {
                    let line = given(&given(line, "--sessions-up-to", sessions), "--since-id", ids);
                    let found = self.command(&line, output);
                    if found.contains("sessions_up_to") {
                        sessions = last_number(&found);
                    }
                    if line.contains("SELECT MAX(id)") {
                        ids = last_number(&found);
                    }
                }
            }
            self.load.check();
        }
        assert!(sessions.is_some() && ids.is_some() && reloads > 0, "the guide lacks its steps");
    }

    fn happens(&self, what: &str, reloads: &mut usize) {
        let load = self.load;
        match what {
            "all reconnect" => load.reconnect(0..WRITERS, Place::Server),
            "four move to the proxy" => load.reconnect(0..4, Place::Proxy),
            "half move to the proxy" => load.reconnect(0..WRITERS / 2, Place::Proxy),
            "the others move to the proxy" => load.reconnect(WRITERS / 2..WRITERS, Place::Proxy),
            "half move to the server" => load.reconnect(0..WRITERS / 2, Place::Server),
            "the others move to the server" => load.reconnect(WRITERS / 2..WRITERS, Place::Server),
            "time passes" => {}
            "the proxy takes the rules up" => {
                *reloads += 1;
                wait_until(
                    || format!("reload {reloads} does not come: {}", self.proxy.log()),
                    || self.proxy.log().matches("the files are active").count() >= *reloads,
                );
            }
            _ => panic!("the guide says <!-- test: {what} -->, which this test does not know"),
        }
        load.chapter.fetch_add(1, Ordering::SeqCst);
        load.go_on();
    }

    /// Runs the command. MariaDB's output must be what the guide shows, apart from numbers.
    fn command(&mut self, line: &str, shown: &str) -> String {
        let (code, found) = self.bench.run(self.proxy.dir(), line);
        self.transcript.extend(["$ ", line, "\n", &found]);
        let expect = i32::from(shown.contains("FINDING"));
        assert_eq!(code, Some(expect), "{line}: {found}");
        if self.server.kind == Kind::MariaDb && std::env::var_os("ROWSTAMP_GUIDE").is_none() {
            assert_eq!(alike(&found), alike(shown), "{line}: the guide shows it otherwise; {found}");
        }
        found
    }
}

/// The command with this number after the option, whatever number the guide has there.
fn given(line: &str, option: &str, number: Option<u64>) -> String {
    let (Some((before, behind)), Some(number)) = (line.split_once(option), number) else {
        return line.to_owned();
    };
    let rest = behind.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}{option} {number}{rest}")
}

/// The rows in the table, which are those that were acknowledged, each with the id that was told.
fn judged(server: &Server, load: &Load) -> usize {
    let mut root = server.client();
    told::wait_until_quiet(&mut root, "shop");
    let (stored, told) = (told::read(&mut root, "shop.orders"), load.told());
    if let Err(findings) = judge(&with_ids(&told), &stored) {
        panic!("{}: {findings}", server.kind.name());
    }
    let tokens: HashSet<u64> = stored.iter().map(|row| row.token).collect();
    let lost: Vec<_> = told.iter().filter(|one| !tokens.contains(&one.token)).collect();
    assert!(lost.is_empty(), "{}: {} rows are lost: {:?}", server.kind.name(), lost.len(), lost.first());
    assert_eq!(stored.len(), told.len(), "rows that nobody was told of");
    // Chapters in which both kinds of writers wrote: the counter gave odd ids, the generator even ones.
    let mut both = BTreeSet::new();
    for chapter in 0..=load.chapter.load(Ordering::SeqCst) {
        let of = |place| told.iter().filter(move |one| one.chapter == chapter && one.place == place);
        if of(Place::Server).count() > WRITERS && of(Place::Proxy).count() > WRITERS {
            let odd = |place| of(place).filter_map(|one| one.id).filter(|id| id % 2 == 1).count();
            if odd(Place::Proxy) == 0
                && odd(Place::Server) == of(Place::Server).filter(|one| one.id.is_some()).count()
            {
                both.insert(chapter);
            }
        }
    }
    assert!(
        both.len() >= 2,
        "{}: both kinds of ids at one time, on the way there and back: {both:?}",
        server.kind.name()
    );
    stored.len()
}
