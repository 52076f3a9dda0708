//! Decisions as rows. `decisions.txt` has the session's state, the client's texts, and what is decided. Nothing waits and no server
//! is asked here: a fact that is missing is part of the verdict. `ROWSTAMP_UPDATE=1` writes the verdicts again.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::mysql::capabilities::Capabilities;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Expected, Param, ParamType, ParamValue, Scalar};
use crate::proxy::decide::draws::{self, Drawing};
use crate::proxy::decide::unconcerned::{self, Unconcerned};
use crate::proxy::decide::verdict::{FilledPacket, Verdict};
use crate::proxy::decide::{Basis, execution, text};
use crate::proxy::known::Known;
use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::explicit::set_id::{NextIds, SetId};
use crate::proxy::known::need::{IdRight, Need, Supplied, Unsent};
use crate::proxy::known::note::Note;
use crate::proxy::known::rights::Rights;
use crate::proxy::known::session_state::SessionState;
use crate::proxy::known::statements::{Kept, Statements};
use crate::proxy::settings::Verify;
use crate::proxy::verifier::Verifier;
use crate::rewrite::plan::Lookup;
use crate::rules::RuleSet;
use crate::rules::model::ColumnShape;
use crate::sessions::Sessions;
use crate::sql::dialect::{Server, ServerKind};
use crate::sql::draws::may_be_in;
use crate::sql::look::{Glance, glance};
use crate::store::memory::MemoryStore;
use crate::table_name::{NameCase, TableName};
use crate::tables::{InForce, Tables};

const RULES: &str = "schema = \"shop\"
[generators.g]
kind = \"sequence\"
seed = \"none\"
sql = true
[tables.orders]
column = \"id\"
generator = \"g\"
[tables.strict]
column = \"id\"
generator = \"g\"
explicit = \"reject\"
[tables.kept]
column = \"id\"
generator = \"g\"
unavailable = \"native\"
";

const ROWS: &str = include_str!("decisions.txt");

/// The clock stands still: no decision here depends on the machine's.
fn clock() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// The rules with id 1 of `shop.orders` taken, and the next ones at hand.
async fn in_force(rules: &str) -> InForce {
    let (rules, store) = (Arc::new(RuleSet::of_text(rules)), Arc::new(MemoryStore::new()));
    let in_force = InForce::open(rules, None, store, None, "me".into(), false).await.unwrap();
    let tables = in_force.now();
    for table in ["orders", "strict", "kept"] {
        tables.fetch("shop", table, false, None).await;
        let id = ColumnShape::of("id", "bigint", "bigint", "auto_increment");
        tables.know_columns("shop", table, &[id, ColumnShape::of("a", "int", "int", "")]);
    }
    let Lookup::Ruled(target) = tables.lookup("shop", "orders") else { panic!("orders has a rule") };
    let taken = tables.take(&target, NonZeroU64::MIN, Duration::from_mins(1)).await;
    assert_eq!(taken.unwrap().first(), 1);
    in_force
}

/// The row that answers [`crate::proxy::known::tracking::STATE_SQL`].
fn state_row(sql_mode: &str, insert_id: &str) -> Vec<u8> {
    let hex = |text: &str| text.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02X}"));
    let row = [
        hex(sql_mode),
        hex("utf8mb4"),
        hex("utf8mb4_general_ci"),
        hex("utf8mb4"),
        "1".to_owned(),
        "1".to_owned(),
        String::new(),
        insert_id.to_owned(),
        hex("shop"),
    ];
    row.iter().flat_map(|value| [&[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat()).collect()
}

const SEVERAL: &str = "several statements";

/// The words of sections. `sql_mode` has a mode after it.
const WORDS: &str = "several statements, nothing asked, MySQL, prepared, executed, insert_id may be set, insert_id is taken, \
                     a routine ran, rights are not known, the state cannot be read, the password has expired, there are no ids, \
                     on_doubt = forward, the rules are retired, no ids are at hand, ";

/// A session as the words of a section say.
fn known(words: &[&str]) -> Known {
    let is_known =
        |word: &&str| WORDS.split(", ").any(|known| known == *word) || word.starts_with("sql_mode ");
    assert!(words.iter().all(is_known), "{words:?}");
    let has = |word: &str| words.contains(&word);
    let kind = if has("MySQL") { ServerKind::MySql } else { ServerKind::MariaDb };
    let server = Server { kind, version: if has("MySQL") { 90_704 } else { 101_119 } };
    let mut session = SessionState::new(server, NameCase::Sensitive, has(SEVERAL), 2, Some(b"shop"));
    if !has("nothing asked") {
        let sql_mode = words.iter().find_map(|word| word.strip_prefix("sql_mode ")).unwrap_or("");
        let insert_id = if has("insert_id may be set") { "32" } else { "0" };
        assert!(session.take_state(Some(&state_row(sql_mode, insert_id))));
    }
    let next_ids = NextIds::parse("50,1,1,0").map(|(next, _)| next);
    if has("insert_id is taken") {
        session.set_id = SetId::Taken(next_ids.unwrap());
    }
    if has("the state cannot be read") {
        session.cannot_be_known();
    }
    if has("the password has expired") {
        session.is_locked(b"\xff\x1c\x07#HY000You must change your password".to_vec());
    }
    if has("a routine ran") {
        session.temporary.unsure();
    }
    let allowed = Arc::default();
    let mut known = Known {
        session,
        statements: Statements::default(),
        rights: Rights::new((b"app".to_vec(), None), Arc::clone(&allowed)),
        supplied: Supplied::default(),
        may_have_locked: false,
        capabilities: Capabilities::default(),
        here: Arc::new(Sessions::default()).enter(),
    };
    if !has("rights are not known") {
        for table in ["orders", "strict", "kept"] {
            for right in [IdRight::Insert, IdRight::Update] {
                allowed.note(&(b"app".to_vec(), None), right, TableName::new("shop", table));
            }
        }
    }
    known.supplied.without_ids = has("there are no ids").then(|| "the store is away".to_owned());
    known
}

fn said_need(need: &Need) -> String {
    match need {
        Need::State { .. } => "the session's state".to_owned(),
        Need::Temporary(name) => format!("whether a temporary table hides {name}"),
        Need::SetId { taken_for } => {
            let taken = taken_for.as_ref().map(|target| format!(", taken for {}", target.table));
            format!("insert_id{}", taken.unwrap_or_default())
        }
        Need::Right(right, target) => format!("the right to {right:?} of {}", target.table),
        Need::Ids { target, n, .. } => format!("ids of {}: {n}", target.rule.generator),
        Need::Rules { .. } => "the rules that come next".to_owned(),
        other => format!("{other:?}"),
    }
}

fn server_text(kept: &Kept) -> String {
    String::from_utf8_lossy(kept.server_text().unwrap_or_default()).into_owned()
}

fn said_refusal(refusal: &Refusal) -> String {
    format!("refuse with {}: {refusal}", refusal.code().0)
}

/// The ids that the client wrote, and the effects that later statements depend on.
fn said_note(note: &Note) -> String {
    let Note::Statements { explicit, effects, .. } = note else { return String::new() };
    let mut said = said_explicit(explicit);
    if let Some(effects) = effects {
        let facts = [
            (effects.ddl, "tables may change"),
            (effects.moves_ids, "ids may move"),
            (effects.schema.is_some(), "the default database moves"),
            (effects.sql_mode.is_some(), "sql_mode changes"),
            (!effects.temporary.is_empty(), "temporary tables come or go"),
            (effects.hidden_insert.is_some(), "a temporary table hides the ruled one"),
            (!effects.natively.is_empty(), "the server numbers the rows"),
        ];
        facts.iter().filter(|(is, _)| *is).for_each(|(_, fact)| said = format!("{said}; {fact}"));
    }
    said
}

fn said_explicit(explicit: &[ExplicitIds]) -> String {
    explicit.iter().fold(String::new(), |said, one| said + &format!("; the client wrote {:?}", one.ids))
}

fn said(decided: Result<Verdict, Unsent>, text: &[u8]) -> String {
    match decided {
        Err(Unsent::Needs(need)) => format!("need {}", said_need(&need)),
        Err(Unsent::Refused(refusal)) => said_refusal(&refusal),
        Err(Unsent::WithoutIds(why)) => format!("refuse, or number natively, since {why}"),
        Err(Unsent::Failed(_)) => "answer with the server's error".to_owned(),
        Err(Unsent::Unreadable(shown)) => {
            format!("show to the server, else {}", said_refusal(&shown.refusal))
        }
        Ok(Verdict::Pass { note, .. }) => format!("pass{}", said_note(&note)),
        Ok(Verdict::PassActing(_)) => "pass; its executions act".to_owned(),
        Ok(Verdict::Forward { why, .. }) => format!("pass, and the server numbers the rows, since {why}"),
        Ok(Verdict::Send(FilledPacket { plan, blocks, explicit, .. })) => {
            let sent = plan.splice(text, &blocks).unwrap();
            let before = plan.variables(&blocks).map(|sets| format!("{sets}; then "));
            let (before, sent) = (before.unwrap_or_default(), String::from_utf8_lossy(&sent));
            format!("send {before}{sent}{}", said_explicit(&explicit))
        }
        Ok(Verdict::SendExecution(payload, note)) => {
            format!("send {}{}", said_params(&payload, text), said_note(&note))
        }
        Ok(Verdict::Prepare(kept)) => format!("prepare {}", server_text(&kept)),
        Ok(Verdict::Cut(at)) => format!("cut before {}", String::from_utf8_lossy(&text[at..]).trim_start()),
        Ok(Verdict::Stage(task)) => format!("stage for {}", task.insert().unwrap().target.table),
        Ok(Verdict::StageExecution(kept)) => format!("stage for {}", kept.source.table),
    }
}

/// The parameters of an execution of a text of the server's.
fn said_params(payload: &[u8], text: &[u8]) -> String {
    let params = u16::try_from(text.split(|byte| *byte == b'?').count() - 1).unwrap();
    let expected = Expected { params, types: None, long_data: &BTreeSet::new(), with_attributes: false };
    let execute = Execute::parse(payload, expected).unwrap();
    let said = |param: &Param<'_>| match param.scalar().unwrap() {
        Scalar::Null => "NULL".to_owned(),
        Scalar::Integer(value) => value.to_string(),
        Scalar::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    let all: Vec<_> = execute.params.iter().map(said).collect();
    format!("({})", all.join(", "))
}

/// The client's execution of statement 7 with these values.
fn execution_of(values: &str) -> Vec<u8> {
    let values: Vec<_> = values.split(", ").collect();
    let bytes: Vec<_> = values.iter().map(|value| value.parse::<i64>().map(i64::to_le_bytes)).collect();
    let text = |value: &&str| [&[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    let texts: Vec<_> = values.iter().map(text).collect();
    let param = |(nth, value): (usize, &&str)| match &bytes[nth] {
        _ if *value == "NULL" => Param::new(ParamType::BIGINT, ParamValue::Null),
        Ok(bytes) => Param::new(ParamType::BIGINT, ParamValue::Value(bytes)),
        Err(_) => Param::text(&texts[nth]),
    };
    let params = values.iter().enumerate().map(param).collect();
    Execute::new(&Execute::head(7, false), params, false).build()
}

/// The verdict on a row in a session that is as the words say.
fn decided(tables: &Arc<Tables>, words: &[&str], row: &str) -> String {
    let has = |word: &str| words.contains(&word);
    let (verifier, mut known) = (Verifier::new(Verify::Always), known(words));
    let is_prepare = has("prepared") || has("executed");
    let command = if is_prepare { Command::StmtPrepare } else { Command::Query };
    let forwards = has("on_doubt = forward");
    let by = Basis {
        tables,
        verifier: &verifier,
        clock,
        users: None,
        forwards,
        command,
        statement: None,
        is_first: true,
    };
    // The relay reads no more of it (`relay/glances`). It looks at an UPDATE by itself, for ids that move: that is not shown here.
    let glance = glance(row.as_bytes(), known.session.presumed_dialect(), true, has(SEVERAL) && !is_prepare);
    let is_harmless = matches!(glance, Glance::Harmless(word) if !word.eq_ignore_ascii_case(b"UPDATE"));
    if is_harmless && !may_be_in(row.as_bytes()) {
        return "the relay passes it by its first word".to_owned();
    }
    if has("nothing asked") {
        return match unconcerned::text(&mut known, by, row.as_bytes()) {
            Unconcerned::Text(note) => format!("pass unread{}", said_note(&note)),
            Unconcerned::ViewsFirst => "need the views of ruled tables".to_owned(),
            Unconcerned::Execution | Unconcerned::No => "need the session's state".to_owned(),
        };
    }
    let (sent, values) = row.split_once(" <- ").unwrap_or((row, ""));
    let text = match draws::draw(&mut known, by, sent.as_bytes(), false) {
        Err(unsent) => return said(Err(unsent), sent.as_bytes()),
        Ok(Drawing::Cut(at)) => return said(Ok(Verdict::Cut(at)), sent.as_bytes()),
        Ok(Drawing::Nothing) => sent.as_bytes().to_vec(),
        Ok(Drawing::Drawn { text, .. }) => text,
    };
    let is_drawn = text != sent.as_bytes();
    let decided = text::decide(&mut known, by, &text);
    let kept = match &decided {
        Ok(Verdict::Prepare(kept)) if has("executed") => kept.clone(),
        Ok(Verdict::Pass { note, .. }) if is_drawn => {
            return format!("send {}{}", String::from_utf8_lossy(&text), said_note(note));
        }
        _ => return said(decided, &text),
    };
    known.statements.prepare(kept.clone());
    known.statements.prepared(7, &kept, u16::try_from(values.split(", ").count()).unwrap());
    let by = Basis { command: Command::StmtExecute, statement: Some(7), ..by };
    said(execution::decide(&mut known, by, &execution_of(values)), kept.server_text().unwrap())
}

#[test]
fn decisions_are_those_of_the_file() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (mut found, mut words) = (String::new(), Vec::new());
    for line in ROWS.lines().filter(|line| !line.starts_with("    ")) {
        found.push_str(line);
        found.push('\n');
        if let Some(section) = line.strip_prefix('[') {
            words = section.trim_end_matches(']').split(", ").collect();
        } else if !line.is_empty() && !line.starts_with('#') {
            // A line has a generator of its own, so that its row says which ids it gets.
            let rules = if words.contains(&"no ids are at hand") { "max = 1\n[tables" } else { "[tables" };
            let in_force = runtime.block_on(in_force(&RULES.replacen("[tables", rules, 1)));
            let tables = in_force.now();
            if words.contains(&"the rules are retired") {
                runtime.block_on(in_force.change(Arc::new(RuleSet::of_text(RULES)))).unwrap();
            }
            found.extend(["    ", &decided(&tables, &words, line), "\n"]);
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/proxy/decide/decisions.txt");
    if std::env::var_os("ROWSTAMP_UPDATE").is_some() {
        std::fs::write(file, &found).unwrap();
    }
    let rows = std::fs::read_to_string(file).unwrap();
    let differ = rows.lines().zip(found.lines()).find(|(before, now)| before != now);
    assert!(differ.is_none() && rows == found, "decided otherwise: {differ:?}");
}
