//! The server as judge of our lexer: random texts are prepared; where the server can prepare one, it and we must count
//! the same placeholders, and what we make of it must prepare as well, with ours added.
//!
//! `ROWSTAMP_ORACLE_PROBES` (20,000 on each server) and `ROWSTAMP_ORACLE_SEED` (0) may be given.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

mod support;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use rowstamp::rewrite::plan::{Lookup, Planned, Protocol, Target, View, plan};
use rowstamp::rules::model::{
    ColumnShape, Explicit, GeneratorName, InsertId, Mode, Origin, Rule, TableShape, Unavailable,
};
use rowstamp::sql::dialect::{self, ClientCharset, Dialect, SqlMode};
use rowstamp::sql::lex::{Lexer, TokenKind};
use support::servers::{Kind, Server};

const PIECES: &[&str] = &[
    "'a'",
    "'?'",
    "\"?\"",
    "`k`",
    "/* ? */",
    "/*! , ? */",
    "/*!50000 , ?*/",
    "/*!50700 , ?*/",
    "/*!99999,?*/",
    "/*!100000,?*/",
    "/*!090000,?*/",
    "/*!999999 ? */",
    "/*M! , ? */",
    "/*M!100000 , ? */",
    "-- ?\n",
    "--?",
    "--",
    "# ?\n",
    "?",
    "?",
    ",",
    ",",
    ",",
    "+",
    "-",
    "*",
    "(",
    ")",
    "\\'",
    "\\",
    "'",
    "\"",
    "''",
    "_utf8mb4",
    "_gbk",
    "_binary",
    "x'41'",
    "X'4'",
    "0x",
    "0b1",
    ".",
    "1",
    "1",
    "e5",
    "1e",
    "N",
    "n'?'",
    "{ts '2020-01-01 00:00:00'}",
    "),(",
    "@",
    "@@",
    ":=",
    "\\N",
    "$",
    "$$",
    "k",
    "t.",
    "\n",
    "*/",
    "/*",
    "/*!",
    "id",
    "null",
    "default",
    "é",
    "\u{a0}",
    "\u{3000}",
    "||",
    "->",
    "->>",
    ";",
    "\x01",
    "\t",
    "`",
    "t.k",
    " as x",
    "select",
    "now()",
    "last_insert_id()",
    "case when 1 then 2 end",
    "0",
    "'0'",
    "interval",
    "b'1'",
    "`?`",
    ".5",
    "5.",
    "5.e1",
    "1.e",
    "a$b",
    "\x1a",
    "\0",
];
const HEADS: &[&str] = &[
    "insert into t(k) values(1",
    "insert into t(id,k) values(null,1",
    "insert into t values(0,1",
    "insert into t(k) values(1)",
    "select 1",
    "insert into t set k=1",
    "insert into t(k) values(1) on duplicate key update v=1",
    "replace t(k) values(1",
];
const TAILS: &[&str] = &[")", ")", "", ")"];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % n
    }

    fn of<'a>(&mut self, pieces: &[&'a str]) -> &'a str {
        pieces[self.below(pieces.len())]
    }
}

fn statement(random: &mut Random) -> String {
    let mut text = random.of(HEADS).to_owned();
    for _ in 0..=random.below(8) {
        if random.below(2) == 0 {
            text.push(' ');
        }
        text += random.of(PIECES);
    }
    text + random.of(TAILS)
}

/// `None`: we do not claim to read it.
fn count(text: &str, dialect: Dialect) -> Option<u32> {
    let mut lexer = Lexer::new(text.as_bytes(), dialect)?;
    while lexer.next().ok()?.kind != TokenKind::End {}
    Some(lexer.params())
}

fn target() -> Target {
    let column = |name: &str| ColumnShape {
        name: name.to_owned(),
        data_type: "bigint".to_owned(),
        unsigned: true,
        auto_increment: false,
        generated: false,
        invisible: false,
    };
    Target {
        table: "t".to_owned(),
        rule: Arc::new(Rule {
            schema: "oracle".to_owned(),
            table: "t".to_owned(),
            column: "id".to_owned(),
            generator: GeneratorName { schema: "oracle".to_owned(), name: "t".to_owned() },
            explicit: Explicit::Keep,
            insert_id: InsertId::Session,
            mode: Mode::On,
            unavailable: Unavailable::Refuse,
            origin: Origin { file: PathBuf::new(), line: 1 },
        }),
        shape: Some(Arc::new(TableShape { columns: ["id", "k", "v"].map(column).to_vec() })),
        step: NonZeroU64::MIN,
        view: None,
    }
}

#[derive(Default, Debug)]
struct Tally {
    probes: u64,
    prepared: u64,
    unread: u64,
    rewritten: u64,
    passed: u64,
    refused: u64,
}

async fn probe(
    conn: &mut Conn,
    text: &str,
    dialect: Dialect,
    target: &Arc<Target>,
    tally: &mut Tally,
) -> Option<String> {
    tally.probes += 1;
    let statement = conn.prep(text).await.ok()?;
    let params = statement.num_params();
    conn.close(statement).await.unwrap();
    tally.prepared += 1;
    match count(text, dialect) {
        None => tally.unread += 1,
        Some(ours) if ours == u32::from(params) => {}
        Some(ours) => return Some(format!("server counts {params}, we count {ours}: {text:?}")),
    }
    let view = View {
        dialect: &dialect,
        multi_statements: false,
        default_schema: Some("oracle"),
        any_rules: true,
        tables: &|_, table| if table == "t" { Lookup::Ruled(Arc::clone(target)) } else { Lookup::NotRuled },
        hidden: &|_, _| false,
        session: &rowstamp::rewrite::named::Fresh,
    };
    let is_insert = !text.starts_with("select");
    match plan(text.as_bytes(), &view, Protocol::Prepare) {
        Planned::Rewrite(plan) => {
            let Ok(ours) = plan.prepare(text.as_bytes()) else {
                tally.refused += 1;
                return None;
            };
            tally.rewritten += 1;
            let expected = usize::from(ours.client_params) + ours.hidden.len();
            let sent = String::from_utf8(ours.text).unwrap();
            if ours.client_params != params {
                return Some(format!("plan counts {} of {params}: {text:?}", ours.client_params));
            }
            match conn.prep(sent.as_str()).await {
                Err(error) => Some(format!("{error}: {text:?} became {sent:?}")),
                Ok(statement) => {
                    let got = usize::from(statement.num_params());
                    conn.close(statement).await.unwrap();
                    (got != expected)
                        .then(|| format!("{got} params, not {expected}: {text:?} became {sent:?}"))
                }
            }
        }
        Planned::Untouched(_) if is_insert => Some(format!("let through: {text:?}")),
        Planned::Untouched(_) => {
            tally.passed += 1;
            None
        }
        Planned::Stale { .. } => Some(format!("stale: {text:?}")),
        _ => {
            tally.refused += 1;
            None
        }
    }
}

#[test]
fn the_servers_cut_statements_as_we_do() {
    for kind in Kind::ALL {
        if let Some(server) = Server::start(kind) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(judge(server.port));
        }
    }
}

async fn judge(port: u16) {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |v| v.parse().unwrap());
    let probes = number("ROWSTAMP_ORACLE_PROBES", 20_000);
    let opts: Opts = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .prefer_socket(false)
        .user(Some("root"))
        .stmt_cache_size(0)
        .into();
    let mut conn = Conn::new(opts).await.unwrap();
    let version: String = conn.query_first("select version()").await.unwrap().unwrap();
    conn.query_drop("create database oracle").await.unwrap();
    conn.query_drop("use oracle").await.unwrap();
    conn.query_drop("create table t(id bigint unsigned primary key, k bigint unsigned, v bigint unsigned)")
        .await
        .unwrap();
    let target = Arc::new(target());
    let mut random = Random(number("ROWSTAMP_ORACLE_SEED", 0) * 2 + 1);
    let mut wrong = Vec::new();
    let modes = ["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "IGNORE_SPACE"];
    for mode in modes {
        conn.query_drop(format!("set sql_mode='{mode}'")).await.unwrap();
        let dialect = Dialect {
            server: dialect::Server::parse(&version).unwrap(),
            sql_mode: SqlMode::parse(mode),
            charset: ClientCharset::Utf8,
        };
        let mut tally = Tally::default();
        for _ in 0..probes.div_ceil(modes.len() as u64) {
            let text = statement(&mut random);
            wrong.extend(probe(&mut conn, &text, dialect, &target, &mut tally).await);
        }
        println!("{version} {mode:?}: {tally:?}");
    }
    conn.disconnect().await.unwrap();
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
