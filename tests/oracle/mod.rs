//! The server as judge of our lexer: random texts are prepared under random sql_modes and character sets; where the server
//! can prepare one, it and we must count the same placeholders and the same columns, and what we make of it must prepare
//! as well, with ours added.
//!
//! `ROWSTAMP_ORACLE_PROBES` (20,000 on each server) and `ROWSTAMP_ORACLE_SEED` (0) may be given.

mod letters;
mod pieces;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::rewrite::rule;
use crate::support::raw::{Client, Prepared};
use crate::support::servers::{Kind, Server, announce};
use crate::support::told;
use pieces::{COLUMNS, Random};
use rowstamp::ids::block::Spacing;
use rowstamp::rewrite::plan::prepared_names::Fresh;
use rowstamp::rewrite::plan::target::Target;
use rowstamp::rewrite::plan::{Lookup, PlanContext, Planned, Protocol};
use rowstamp::rewrite::planner::plan;
use rowstamp::rewrite::verify::{Opinion, Written, second_opinion};
use rowstamp::rules::model::{ColumnShape, TableShape};
use rowstamp::sql::dialect::{self, ClientCharset, Dialect, SqlMode};
use rowstamp::sql::lex::{Lexer, TokenKind};

/// Modes that decide how a text is cut, modes that stand for several, and some that should not matter.
const MODES: &[&str] = &[
    "ANSI_QUOTES",
    "NO_BACKSLASH_ESCAPES",
    "PIPES_AS_CONCAT",
    "IGNORE_SPACE",
    "ANSI",
    "ORACLE",
    "MSSQL",
    "POSTGRESQL",
    "DB2",
    "MAXDB",
    "MYSQL323",
    "MYSQL40",
    "TRADITIONAL",
    "HIGH_NOT_PRECEDENCE",
    "EMPTY_STRING_IS_NULL",
    "SIMULTANEOUS_ASSIGNMENT",
    "NO_UNSIGNED_SUBTRACTION",
    "REAL_AS_FLOAT",
    "NO_AUTO_VALUE_ON_ZERO",
];

/// Texts under one setting of a session.
const BATCH: usize = 100;
/// Disagreements that are shown.
const SHOWN_MAX: usize = 60;

/// `None`: we do not claim to read it. Placeholders, and columns where it is a plain SELECT of expressions.
fn count(text: &[u8], dialect: Dialect) -> Option<(u32, Option<u32>)> {
    let mut lexer = Lexer::new(text, dialect)?;
    let (mut depth, mut columns, mut is_plain) = (0i32, 1, true);
    let (mut nth, mut begins) = (0, false);
    loop {
        let token = lexer.next().ok()?;
        match token.kind {
            TokenKind::End => break,
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth -= 1,
            TokenKind::Punct(b',') if depth == 0 => columns += 1,
            // All columns of a table.
            TokenKind::Punct(b'*') if begins => is_plain = false,
            TokenKind::Word if nth == 0 => is_plain = token.is_word(text, "SELECT"),
            TokenKind::Word => is_plain &= !token.is_word(text, "SELECT") || depth > 0,
            _ => {}
        }
        nth += 1;
        begins = matches!(token.kind, TokenKind::Punct(b',' | b'.')) || token.is_word(text, "SELECT");
    }
    Some((lexer.params(), is_plain.then_some(columns)))
}

fn target(table: &str, columns: &[&str]) -> Arc<Target> {
    let column = |name: &str| ColumnShape {
        name: name.to_owned(),
        data_type: "bigint".to_owned(),
        unsigned: true,
        auto_increment: false,
        generated: false,
        invisible: false,
        in_primary_key: false,
        needs_value: false,
        set_by_trigger: false,
        masked: false,
    };
    Arc::new(Target {
        table: table.to_owned(),
        rule: Arc::new(rule("oracle", table, "t")),
        shape: Some(Arc::new(TableShape {
            columns: columns.iter().map(|name| column(name)).collect(),
            shows_insert_id: false,
            fires_on_update: false,
        })),
        spacing: Spacing::by(NonZeroU64::MIN),
        view: None,
        usage: Arc::default(),
    })
}

#[derive(Default, Debug, Clone, Copy)]
struct Tally {
    probes: u64,
    prepared: u64,
    unread: u64,
    rewritten: u64,
    verified: u64,
    passed: u64,
    refused: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.probes += other.probes;
        self.prepared += other.prepared;
        self.unread += other.unread;
        self.rewritten += other.rewritten;
        self.verified += other.verified;
        self.passed += other.passed;
        self.refused += other.refused;
    }
}

/// One connection to the server that judges.
struct Judge {
    client: Client,
    version: String,
    charsets: Vec<String>,
    /// `t`, and `u` for INSERTs without a list of columns.
    targets: [Arc<Target>; 2],
    random: Random,
    wrong: Vec<String>,
}

/// The rewritten text, which is to be prepared as well.
struct Rewritten {
    from: usize,
    text: Vec<u8>,
    params: usize,
}

impl Judge {
    fn new(server: &Server, seed: u64) -> Judge {
        let mut client = server.client();
        client.run("create database oracle");
        client.run("use oracle");
        let columns: Vec<String> =
            COLUMNS.iter().skip(1).map(|name| format!("`{name}` bigint unsigned")).collect();
        client.run(format!("create table t(id bigint unsigned primary key, {})", columns.join(",")));
        client.run("create table u(id bigint unsigned primary key, k bigint unsigned, v bigint unsigned)");
        let targets = [target("t", COLUMNS), target("u", &["id", "k", "v"])];
        let version = client.run("select version()")[0].cell(0, 0).unwrap();
        let all = client.run("show character set");
        let mut charsets: Vec<String> =
            (0..all[0].rows().len()).map(|row| all[0].cell(row, 0).unwrap()).collect();
        // ucs2 and its like are not allowed for what a client sends.
        charsets.retain(|name| {
            client.query(format!("set character_set_client={name}")).unwrap()[0].ok().is_some()
        });
        Judge { client, version, charsets, targets, random: Random(seed * 2 + 1), wrong: Vec::new() }
    }

    /// A random session: the modes as the server lists them, and its character set.
    fn set_session(&mut self) -> (Dialect, String, String) {
        let charset = if self.random.below(3) == 0 {
            "utf8mb4".to_owned()
        } else {
            self.charsets[self.random.below(self.charsets.len())].clone()
        };
        let mut modes: Vec<&str> = (0..self.random.below(4)).map(|_| self.random.of(MODES)).collect();
        // A server knows not all of them.
        while self.client.query(format!("set sql_mode='{}'", modes.join(","))).unwrap()[0].ok().is_none() {
            modes.pop();
        }
        self.client.run(format!("set character_set_client={charset}"));
        let listed = self.client.run("select @@sql_mode")[0].cell(0, 0).unwrap();
        let sql_mode = SqlMode::parse(&listed);
        let written = SqlMode::parse(&modes.join(","));
        if sql_mode != written {
            self.wrong.push(format!("{} sets {listed}: {sql_mode:?} is not {written:?}", modes.join(",")));
        }
        let dialect = Dialect {
            server: dialect::Server::parse(&self.version).unwrap(),
            sql_mode,
            charset: ClientCharset::parse(&charset),
        };
        (dialect, charset, modes.join(","))
    }

    /// Prepares all texts in one go and closes what was prepared.
    fn prepare(&mut self, texts: &[&[u8]]) -> Vec<Option<Prepared>> {
        let commands: Vec<(u8, &[u8])> = texts.iter().map(|text| (0x16, *text)).collect();
        self.client.pipeline(&commands).unwrap();
        let prepared: Vec<Option<Prepared>> = texts
            .iter()
            .map(|_| {
                self.client.next_response();
                self.client.read_prepared().unwrap().ok()
            })
            .collect();
        let ids: Vec<[u8; 4]> = prepared.iter().flatten().map(|prepared| prepared.id.to_le_bytes()).collect();
        let closes: Vec<(u8, &[u8])> = ids.iter().map(|id| (0x19, &id[..])).collect();
        self.client.pipeline(&closes).unwrap();
        prepared
    }

    fn batch(&mut self, histogram: &mut BTreeMap<String, Tally>) {
        let (dialect, charset, modes) = self.set_session();
        let texts: Vec<Vec<u8>> = (0..BATCH).map(|_| pieces::statement(&mut self.random)).collect();
        let prepared = self.prepare(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut tally = Tally { probes: texts.len() as u64, ..Tally::default() };
        let (mut rewritten, mut wrong) = (Vec::new(), Vec::new());
        for (from, (text, prepared)) in texts.iter().zip(&prepared).enumerate() {
            let Some(prepared) = prepared else { continue };
            tally.prepared += 1;
            match self.compare(text, dialect, prepared, &mut tally) {
                Ok(None) => {}
                Ok(Some((text, params))) => rewritten.push(Rewritten { from, text, params }),
                Err(why) => wrong.push(format!("{why}: {}", text.escape_ascii())),
            }
        }
        let again = self.prepare(&rewritten.iter().map(|ours| ours.text.as_slice()).collect::<Vec<_>>());
        for (ours, got) in rewritten.iter().zip(again) {
            let got = got.map(|prepared| usize::from(prepared.params));
            if got != Some(ours.params) {
                wrong.push(format!(
                    "{got:?} params, not {}: {} became {}",
                    ours.params,
                    texts[ours.from].escape_ascii(),
                    ours.text.escape_ascii()
                ));
            }
        }
        self.wrong.extend(wrong.into_iter().map(|why| format!("[{charset} {modes:?}] {why}")));
        histogram.entry(format!("charset {charset}")).or_default().add(tally);
        let of_modes = modes.split(',').map(|mode| format!("mode {mode}"));
        for key in of_modes.chain(["in all".to_owned()]) {
            histogram.entry(key).or_default().add(tally);
        }
    }

    /// Reads and rewrites a text that the server could prepare. Returns the rewritten text, and how many
    /// parameters it has.
    fn compare(
        &self,
        text: &[u8],
        dialect: Dialect,
        prepared: &Prepared,
        tally: &mut Tally,
    ) -> Result<Option<(Vec<u8>, usize)>, String> {
        match count(text, dialect) {
            None => tally.unread += 1,
            Some((params, _)) if params != u32::from(prepared.params) => {
                return Err(format!("the server counts {} params, we count {params}", prepared.params));
            }
            Some((_, Some(columns))) if columns as usize != prepared.columns.len() => {
                return Err(format!(
                    "the server counts {} columns, we count {columns}",
                    prepared.columns.len()
                ));
            }
            Some(_) => {}
        }
        let view = PlanContext {
            dialect: &dialect,
            multi_statements: false,
            insert_id_is_set: false,
            cannot_update: &[],
            default_schema: Some("oracle"),
            id_names: &(),
            any_rules: true,
            tables: &|_, table| {
                let target = self.targets.iter().find(|target| target.table == table);
                target.map_or(Lookup::NotRuled, |target| Lookup::Ruled(Arc::clone(target)))
            },
            hidden: &|_, _| false,
            session: &Fresh,
        };
        let is_insert = prepared.columns.is_empty();
        match plan(text, &view, Protocol::Prepare) {
            Planned::Rewrite(_) if !is_insert => Err("it is no INSERT".to_owned()),
            Planned::Rewrite(plan) => {
                let Ok(ours) = plan.prepare(text) else {
                    tally.refused += 1;
                    return Ok(None);
                };
                tally.rewritten += 1;
                if ours.client_params != prepared.params {
                    return Err(format!(
                        "the plan counts {} params of {}",
                        ours.client_params, prepared.params
                    ));
                }
                match second_opinion(&plan, &dialect, text, &ours.text, Written::Placeholders) {
                    Opinion::Differs(why) => {
                        return Err(format!("{why}: became {}", ours.text.escape_ascii()));
                    }
                    Opinion::Agrees => tally.verified += 1,
                    Opinion::NotVerified => {}
                }
                let params = usize::from(ours.client_params) + ours.ours.len();
                Ok(Some((ours.text, params)))
            }
            Planned::Untouched(_) if is_insert => Err("let through".to_owned()),
            Planned::Untouched(_) => {
                tally.passed += 1;
                Ok(None)
            }
            Planned::Stale { .. } => Err("stale".to_owned()),
            _ => {
                tally.refused += 1;
                Ok(None)
            }
        }
    }
}

#[test]
fn the_servers_cut_statements_as_we_do() {
    let probes = told::number("ROWSTAMP_ORACLE_PROBES").unwrap_or(20_000_u64);
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let mut judge = Judge::new(&server, told::number("ROWSTAMP_ORACLE_SEED").unwrap_or(0));
        let mut histogram = BTreeMap::new();
        for _ in 0..probes.div_ceil(BATCH as u64) {
            judge.batch(&mut histogram);
        }
        for (key, tally) in &histogram {
            announce(&format!("oracle: {} {key}: {tally:?}", judge.version));
        }
        wrong.extend(judge.wrong.iter().map(|why| format!("{} {why}", judge.version)));
    }
    let all = wrong.len();
    wrong.truncate(SHOWN_MAX);
    assert!(wrong.is_empty(), "{all} disagreements:\n{}", wrong.join("\n"));
}
