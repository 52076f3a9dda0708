//! Each SHOW as a table: what the desk has, sorted, units in the columns' names.

mod stats;
mod users;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::answer::Type::{self, Real, Text, Unsigned};
use super::answer::{Column, Rows, Table, Value, sorted, texts};
use super::command::ShowKind;
use super::help;
use crate::admin::desk::{
    About, BackendRow, Check, ConfigRow, Desk, DeskError, DoorRow, FindingRow, GeneratorRow, GeneratorState,
    LastRow, ProxyRow, RefusedRow, RuleRow, SessionRow, SlotRow, StoredRow,
};
use crate::users::{Right, User};

/// The longest time that SHOW GENERATORS waits for the store's bounds. Its rows are shown without them, too.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);

/// A column of a SHOW: its name, its type, and its value in a row.
type Field<T> = (&'static str, Type, fn(&T) -> Value);

const RULES: [Field<RuleRow>; 9] = [
    ("table", Text, |rule| format!("{}.{}", rule.schema, rule.table).into()),
    ("column", Text, |rule| (&*rule.column).into()),
    ("generator", Text, |rule| (&*rule.generator).into()),
    ("explicit", Text, |rule| (&*rule.explicit).into()),
    ("insert_id", Text, |rule| (&*rule.insert_id).into()),
    ("mode", Text, |rule| (&*rule.mode).into()),
    ("unavailable", Text, |rule| (&*rule.unavailable).into()),
    ("tables", Unsigned, |rule| (rule.tables as u64).into()),
    ("origin", Text, |rule| (&*rule.origin).into()),
];

const GENERATORS: [Field<GeneratorRow>; 15] = [
    ("generator", Text, |row| (&*row.name).into()),
    ("kind", Text, |row| row.kind.word().into()),
    ("state", Text, |row| row.state.word().into()),
    ("issued_ids", Unsigned, |row| row.issued.into()),
    ("ids_per_second", Real, |row| rounded(row.per_second, 2).into()),
    ("reserve_ids", Unsigned, |row| row.reserved_ids.into()),
    ("reserve_seconds", Real, |row| row.reserved_for.map(seconds).into()),
    ("bound", Unsigned, |row| row.bound.into()),
    ("max_id", Unsigned, |row| row.max.into()),
    ("used_percent", Real, |row| row.max.map(|_| rounded(row.used * 100.0, 4)).into()),
    ("node", Unsigned, |row| row.node.into()),
    ("ahead_seconds", Real, |row| row.ahead.map(seconds).into()),
    ("leap_seconds", Real, |row| row.leap.map(seconds).into()),
    ("rules", Unsigned, |row| (row.rules as u64).into()),
    ("why", Text, |row| match &row.state {
        GeneratorState::Open => Value::Null,
        GeneratorState::Paused => {
            "an operator has paused the generator; RESUME GENERATOR ends the pause".into()
        }
        GeneratorState::Troubled(why) | GeneratorState::Stopped(why) => (&**why).into(),
        GeneratorState::Unused => "no rule with mode = \"on\" names the generator".into(),
    }),
];

const PROXIES: [Field<ProxyRow>; 5] = [
    ("proxy", Text, |proxy| (&*proxy.name).into()),
    ("address", Text, |proxy| (&*proxy.address).into()),
    ("version", Text, |proxy| (&*proxy.version).into()),
    ("since_utc", Text, |proxy| (&*proxy.since).into()),
    ("self", Text, |proxy| proxy.is_self.into()),
];

const SLOTS: [Field<SlotRow>; 5] = [
    ("generator", Text, |slot| (&*slot.generator).into()),
    ("node", Unsigned, |slot| slot.node.into()),
    ("proxy", Text, |slot| (&*slot.owner).into()),
    ("live", Text, |slot| slot.is_live.into()),
    ("reserved_until_utc", Text, |slot| (&*slot.reserved).into()),
];

const BACKENDS: [Field<BackendRow>; 8] = [
    ("backend", Text, |row| (&*row.address).into()),
    ("primary", Text, |row| row.is_primary.into()),
    ("up", Text, |row| row.is_up.into()),
    ("read_only", Text, |row| row.is_read_only.into()),
    ("replica", Text, |row| row.is_replica.into()),
    ("connect_errors", Unsigned, |row| row.connect_errors().into()),
    ("last_error", Text, |row| row.last_error.as_ref().map(|(why, _)| &**why).into()),
    ("last_error_utc", Text, |row| row.last_error.as_ref().map(|(_, at)| utc(*at)).into()),
];

/// A command in HELP: its words, the right that it needs, and its effect.
const COMMANDS: [Field<(&str, &str, &str)>; 3] = [
    ("command", Text, |row| row.0.into()),
    ("needs", Text, |row| row.1.into()),
    ("description", Text, |row| row.2.into()),
];

const REFUSED: [Field<RefusedRow>; 6] = [
    ("statement", Text, |refused| (&*refused.statement).into()),
    ("count", Unsigned, |refused| refused.count.into()),
    ("why", Text, |refused| (&*refused.why).into()),
    ("user", Text, |refused| (&*refused.user).into()),
    ("last_utc", Text, |refused| utc(refused.last).into()),
    ("digest", Text, |refused| (&*refused.digest).into()),
];

const FINDINGS: [Field<FindingRow>; 5] = [
    ("severity", Text, |finding| finding.severity.into()),
    ("code", Text, |finding| (&*finding.code).into()),
    ("place", Text, |finding| (&*finding.place).into()),
    ("why", Text, |finding| (&*finding.why).into()),
    ("remedy", Text, |finding| (&*finding.remedy).into()),
];

const CONFIG: [Field<ConfigRow>; 4] = [
    ("key", Text, |row| (&*row.key).into()),
    ("value", Text, |row| (&*row.value).into()),
    ("default", Text, |row| (&*row.default).into()),
    ("takes_effect", Text, |row| row.takes_effect.into()),
];

/// The doors that are off are shown too.
const DOORS: [Field<DoorRow>; 14] = [
    ("door", Text, |row| row.name.into()),
    ("protocol", Text, |row| row.protocol.into()),
    ("address", Text, |row| row.address.clone().into()),
    ("open", Text, |row| row.is_open.into()),
    ("tls", Text, |row| row.address.as_ref().map(|_| &*row.tls).into()),
    ("compat", Text, |row| row.compat.join(", ").into()),
    ("clients", Unsigned, |row| row.clients.into()),
    ("ids", Unsigned, |row| row.ids.into()),
    ("given", Unsigned, |row| requests(row, "given")),
    ("denied", Unsigned, |row| requests(row, "denied")),
    ("over_quota", Unsigned, |row| requests(row, "over_quota")),
    ("wrong", Unsigned, |row| requests(row, "wrong")),
    ("no_ids", Unsigned, |row| requests(row, "no_ids")),
    ("logins_refused", Unsigned, |row| row.logins_refused.into()),
];

/// A session, and its last statement that was given ids.
type WithLast = (SessionRow, Option<LastRow>);

const SESSIONS: [Field<WithLast>; 17] = [
    ("id", Unsigned, |(session, _)| session.id.into()),
    ("state", Text, |(session, _)| session.state.word().into()),
    ("user", Text, |(session, _)| (&*session.user).into()),
    ("client", Text, |(session, _)| (&*session.client).into()),
    ("database", Text, |(session, _)| (&*session.database).into()),
    ("server_connection", Unsigned, |(session, _)| u64::from(session.connection).into()),
    ("tls", Text, |(session, _)| session.is_tls.into()),
    ("age_seconds", Unsigned, |(session, _)| session.age.as_secs().into()),
    ("state_seconds", Real, |(session, _)| seconds(session.in_state).into()),
    ("statements", Unsigned, |(session, _)| session.statements.into()),
    ("rewritten", Unsigned, |(session, _)| session.rewritten.into()),
    ("refused", Unsigned, |(session, _)| session.refused.into()),
    ("ids", Unsigned, |(session, _)| session.ids.into()),
    ("bytes_in", Unsigned, |(session, _)| session.bytes_from_client.into()),
    ("bytes_out", Unsigned, |(session, _)| session.bytes_to_client.into()),
    ("last_ruled", Text, |(_, last)| last.as_ref().map(|last| last.statement.clone()).into()),
    ("last_digest", Text, |(_, last)| last.as_ref().and_then(|last| last.digest.clone()).into()),
];

fn heads<T>(fields: &[Field<T>]) -> Vec<Column> {
    fields.iter().map(|(name, kind, _)| Column::new(*name, *kind)).collect()
}

fn rows<T>(fields: &[Field<T>], items: &[T]) -> Rows {
    items.iter().map(|item| fields.iter().map(|(_, _, value)| value(item)).collect()).collect()
}

/// The columns of a SHOW, which are the same whatever there is.
pub(super) fn columns(what: ShowKind) -> Vec<Column> {
    match what {
        ShowKind::Rules => heads(&RULES),
        ShowKind::Generators => heads(&GENERATORS),
        ShowKind::Proxies => heads(&PROXIES),
        ShowKind::Backends => heads(&BACKENDS),
        ShowKind::Commands => heads(&COMMANDS),
        ShowKind::Refused => heads(&REFUSED),
        ShowKind::Slots => heads(&SLOTS),
        ShowKind::Sessions => heads(&SESSIONS),
        ShowKind::Stats => stats::columns(),
        ShowKind::Findings => heads(&FINDINGS),
        ShowKind::Config => heads(&CONFIG),
        ShowKind::Doors => heads(&DOORS),
        ShowKind::Users => heads(&users::USERS),
        ShowKind::Grants => heads(&users::GRANTS),
        ShowKind::Tokens => heads(&users::TOKENS),
        ShowKind::Version => texts(["name", "value"]),
    }
}

/// Asks the desk, for this user; `now` is what ages count to.
pub(super) async fn show(
    desk: &dyn Desk,
    user: &User,
    what: ShowKind,
    now: SystemTime,
) -> Result<Table, DeskError> {
    let rows = match what {
        ShowKind::Rules => sorted(rows(&RULES, &desk.rules())),
        ShowKind::Generators => {
            let mut seen = with_stored(desk).await;
            seen.retain(|row| user.may(Right::Read, &row.name));
            sorted(rows(&GENERATORS, &seen))
        }
        ShowKind::Proxies => sorted(rows(&PROXIES, &desk.proxies().await?)),
        // The one that is tried first comes first.
        ShowKind::Backends => rows(&BACKENDS, &desk.backends()),
        ShowKind::Commands => rows(&COMMANDS, &help::commands()),
        ShowKind::Refused => rows(&REFUSED, &desk.refused()),
        ShowKind::Slots => slots(desk.slots().await?),
        ShowKind::Sessions => rows(&SESSIONS, &with_last(desk)),
        ShowKind::Stats => stats::stats(&desk.metrics()),
        ShowKind::Findings => findings(desk.findings().await?),
        ShowKind::Config => sorted(rows(&CONFIG, &desk.config())),
        ShowKind::Doors => rows(&DOORS, &desk.doors()),
        ShowKind::Users => users::users(&desk.users(), user),
        ShowKind::Grants => users::grants(&desk.users(), user),
        ShowKind::Tokens => users::tokens(&desk.users(), user),
        ShowKind::Version => version(&desk.about(), &desk.checks(), now),
    };
    Ok(Table { columns: columns(what), rows })
}

/// The rules' generators, and those that the store alone knows. What is not open has its bound by
/// the store, if that answers soon: who looks for what is wrong with the store must not wait
/// for it.
async fn with_stored(desk: &dyn Desk) -> Vec<GeneratorRow> {
    let mut rows = desk.generators();
    let stored = tokio::time::timeout(STORE_TIMEOUT, desk.stored()).await;
    for StoredRow { generator, kind, bound } in stored.ok().and_then(Result::ok).unwrap_or_default() {
        match rows.iter_mut().find(|row| row.name == generator) {
            Some(row) if row.max.is_none() => row.bound = bound,
            Some(_) => {}
            None => rows.push(GeneratorRow { name: generator, kind, bound, ..GeneratorRow::default() }),
        }
    }
    rows
}

fn utc(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}

fn seconds(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64(), 3)
}

/// For people: more decimals would be noise.
fn rounded(number: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (number * scale).round() / scale
}

/// Ascending by id.
fn with_last(desk: &dyn Desk) -> Vec<WithLast> {
    let mut sessions = desk.sessions();
    sessions.sort_by_key(|session| session.id);
    let mut last: BTreeMap<_, _> = desk.last_ruled().into_iter().collect();
    let with_last = |session: SessionRow| {
        let last = last.remove(&session.id);
        (session, last)
    };
    sessions.into_iter().map(with_last).collect()
}

fn requests(row: &DoorRow, outcome: &str) -> Value {
    row.requests.iter().find(|(found, _)| *found == outcome).map(|(_, count)| *count).into()
}

fn slots(mut slots: Vec<SlotRow>) -> Rows {
    slots.sort_by(|a, b| (&a.generator, a.node).cmp(&(&b.generator, b.node)));
    rows(&SLOTS, &slots)
}

/// The worst first.
fn findings(mut findings: Vec<FindingRow>) -> Rows {
    let rank = |severity: &str| ["error", "warning", "note"].iter().position(|word| *word == severity);
    findings
        .sort_by(|a, b| (rank(a.severity), &a.place, &a.code).cmp(&(rank(b.severity), &b.place, &b.code)));
    rows(&FINDINGS, &findings)
}

fn version(about: &About, checks: &[Check], now: SystemTime) -> Rows {
    let up = now.duration_since(about.since).unwrap_or_default();
    // In the order of a first look, not of the alphabet: it is one row of a form each.
    let mut rows: Rows = [
        ("rowstamp", about.version.to_owned()),
        ("proxy", about.name.clone()),
        ("listens on", about.listen.clone()),
        ("backends", about.backends.join(", ")),
        ("store", about.store.to_owned()),
        ("since (UTC)", utc(about.since)),
        ("up (seconds)", up.as_secs().to_string()),
        ("draining", if about.is_draining { "yes" } else { "no" }.to_owned()),
    ]
    .map(|(name, value)| vec![name.into(), value.into()])
    .into();
    rows.extend(checks.iter().map(|check| {
        let trouble = check.trouble.as_deref().unwrap_or("fine");
        vec![format!("check {}", check.name).into(), trouble.into()]
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::{columns, show};
    use crate::admin::console::answer::{Rows, Type, Value, printed};
    use crate::admin::console::command::{SHOWN, ShowKind};
    use crate::admin::desk::{Desk, FindingRow, SlotRow};
    use crate::admin::fake::FakeDesk;
    use crate::users::User;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    fn dba(desk: &FakeDesk) -> Arc<User> {
        desk.users().roster().get("dba").unwrap().clone()
    }

    async fn rows(what: ShowKind) -> Rows {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(90);
        let desk = FakeDesk::default();
        show(&desk, &dba(&desk), what, now).await.unwrap().rows
    }

    #[tokio::test]
    async fn each_row_is_as_its_columns_say() {
        for (name, what) in SHOWN {
            let columns = columns(what);
            let rows = rows(what).await;
            assert!(!rows.is_empty() || what == ShowKind::Tokens, "{name}");
            for row in rows {
                assert_eq!(row.len(), columns.len(), "{name}");
                for (value, column) in row.iter().zip(&columns) {
                    let fits = match value {
                        Value::Null => true,
                        Value::Text(_) => column.kind == Type::Text,
                        Value::Unsigned(_) => column.kind == Type::Unsigned,
                        Value::Real(_) => column.kind == Type::Real,
                    };
                    assert!(fits, "{name}.{}: {value:?}", column.name);
                }
            }
        }
    }

    #[tokio::test]
    async fn what_a_client_prints() {
        for (what, expect) in [
            (
                ShowKind::Rules,
                "shop.items|id|shop.orders|advance|session|on|refuse|1|rules/shop.toml:7\n\
                 shop.orders|id|shop.orders|advance|session|on|refuse|1|rules/shop.toml:7",
            ),
            (
                ShowKind::Generators,
                "shop.events|timestamp|open|1234|2.5|NULL|3506|NULL|9223372036854775807|25|3|0.012|NULL|1|NULL\n\
                 shop.left|sequence|unused|0|0|NULL|NULL|77|NULL|NULL|NULL|NULL|NULL|0|no rule with mode = \"on\" names the generator\n\
                 shop.orders|sequence|open|1234|2.5|8766|3506|10001|9223372036854775807|25|NULL|NULL|NULL|1|NULL",
            ),
            (ShowKind::Proxies, "db1:3307|127.0.0.1:3307|0.0.1|2026-11-22 10:00:00|yes"),
            (
                ShowKind::Refused,
                "ANALYZE INSERT IGNORE INTO orders VALUES (...)|3|ANALYZE of an INSERT with IGNORE; leave IGNORE out, or write EXPLAIN|app|\
                 1970-01-01T00:01:00Z|0123456789abcdef",
            ),
            (ShowKind::Slots, "shop.events|3|db1:3307|yes|2026-11-22 10:01:00"),
            (
                ShowKind::Sessions,
                "7|idle|app|10.0.0.5:50123|shop|41|yes|61|2.5|20|5|1|9|4096|65536|INSERT INTO orders(a) VALUES (...)|fedcba9876543210",
            ),
            (
                ShowKind::Stats,
                "rowstamp_ids_issued_total|generator=shop.events|1234||Ids taken from a generator.\n\
                 rowstamp_ids_issued_total|generator=shop.orders|1234||Ids taken from a generator.",
            ),
            (
                ShowKind::Findings,
                "warning|column-not-unique|shop.orders.id|no key makes id unique: the server accepts the same id twice|\
                 ALTER TABLE shop.orders ADD UNIQUE KEY (id)",
            ),
            (
                ShowKind::Doors,
                "resp|Redis protocol|127.0.0.1:6379|yes|preferred||3|4000|40|2|1|0|0|5\n\
                 api|HTTP|NULL|no|NULL||0|0|NULL|NULL|NULL|NULL|NULL|0",
            ),
            (ShowKind::Users, "dba|rowstamp.toml|yes|0|4|0|0|0\nguest|rowstamp.toml|yes|0|1|0|0|0"),
            (ShowKind::Config, "listen.address|127.0.0.1:3307|127.0.0.1:3307|after a restart"),
        ] {
            let rows: Vec<_> = rows(what).await.iter().map(|row| printed(row)).collect();
            assert_eq!(rows.join("\n"), expect, "{what:?}");
        }
        let version: Vec<_> = rows(ShowKind::Version).await.iter().map(|row| printed(row)).collect();
        let expect = [
            "since (UTC)|1970-01-01T00:00:00Z",
            "up (seconds)|90",
            "draining|no",
            "check listener|fine",
            "check store|fine",
        ];
        assert_eq!(version[5..], expect);
    }

    #[tokio::test]
    async fn what_asks_the_store_may_fail() {
        let away = FakeDesk { is_away: true, ..FakeDesk::default() };
        for what in [ShowKind::Proxies, ShowKind::Slots, ShowKind::Findings] {
            assert!(show(&away, &dba(&away), what, SystemTime::UNIX_EPOCH).await.is_err(), "{what:?}");
        }
        let generators =
            show(&away, &dba(&away), ShowKind::Generators, SystemTime::UNIX_EPOCH).await.unwrap();
        assert_eq!(generators.rows.len(), 2, "those of the rules are known");
    }

    #[test]
    fn orders_of_their_own() {
        let finding = |severity, place: &str| FindingRow {
            severity,
            code: String::new(),
            place: place.into(),
            why: String::new(),
            remedy: String::new(),
        };
        let all = vec![
            finding("note", "a"),
            finding("warning", "c"),
            finding("error", "z"),
            finding("warning", "b"),
        ];
        let places: Vec<_> = super::findings(all).iter().map(|row| printed(&row[2..3])).collect();
        assert_eq!(places, ["z", "b", "c", "a"]);
        let slot = |node| SlotRow {
            generator: "g".into(),
            node,
            owner: String::new(),
            is_live: false,
            reserved: String::new(),
        };
        let slots = super::slots(vec![slot(10), slot(9)]);
        let nodes: Vec<_> = slots.iter().map(|row| printed(&row[1..2])).collect();
        assert_eq!(nodes, ["9", "10"]);
    }
}
