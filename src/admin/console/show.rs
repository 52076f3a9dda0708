//! Each SHOW as a table: what the desk has, sorted, units in the columns' names.

mod generators;
mod stats;
pub(super) mod table;

use std::time::SystemTime;

use crate::admin::console::command::What;
use crate::admin::console::show::generators::{generators, with_stored};
use crate::admin::console::show::stats::stats;
use crate::admin::console::show::table::{Column, Rows, Table, Type, sorted, texts};
use crate::admin::desk::{
    About, Check, ConfigRow, Desk, DeskError, FindingRow, ProxyRow, RuleRow, SessionRow, SessionState,
    SlotRow,
};

/// The columns of a SHOW, which are the same whatever there is.
pub(super) fn columns(what: What) -> Vec<Column> {
    use Type::{Real, Text, Unsigned};
    let of = |columns: &[(&'static str, Type)]| {
        columns.iter().map(|(name, kind)| Column::new(*name, *kind)).collect()
    };
    match what {
        What::Rules => {
            texts(&["table", "column", "generator", "explicit", "insert_id", "mode", "unavailable", "origin"])
        }
        What::Generators => of(&[
            ("generator", Text),
            ("kind", Text),
            ("state", Text),
            ("issued_ids", Unsigned),
            ("ids_per_second", Real),
            ("reserve_ids", Unsigned),
            ("reserve_seconds", Real),
            ("bound", Unsigned),
            ("max_id", Unsigned),
            ("used_percent", Real),
            ("node", Unsigned),
            ("ahead_seconds", Real),
            ("leap_seconds", Real),
            ("rules", Unsigned),
            ("why", Text),
        ]),
        What::Proxies => texts(&["proxy", "address", "version", "since_utc", "self"]),
        What::Slots => of(&[
            ("generator", Text),
            ("node", Unsigned),
            ("proxy", Text),
            ("live", Text),
            ("reserved_until_utc", Text),
        ]),
        What::Sessions => of(&[
            ("id", Unsigned),
            ("state", Text),
            ("user", Text),
            ("client", Text),
            ("database", Text),
            ("server_connection", Unsigned),
            ("tls", Text),
            ("age_seconds", Unsigned),
            ("statements", Unsigned),
            ("rewritten", Unsigned),
            ("refused", Unsigned),
            ("ids", Unsigned),
            ("bytes_in", Unsigned),
            ("bytes_out", Unsigned),
        ]),
        What::Stats => {
            of(&[("name", Text), ("labels", Text), ("value", Real), ("unit", Text), ("meaning", Text)])
        }
        What::Findings => texts(&["severity", "code", "place", "why", "remedy"]),
        What::Config => texts(&["key", "value", "default", "takes_effect"]),
        What::Version => texts(&["name", "value"]),
    }
}

/// Asks the desk; `now` is what ages count to.
pub(super) async fn show(desk: &dyn Desk, what: What, now: SystemTime) -> Result<Table, DeskError> {
    let rows = match what {
        What::Rules => rules(&desk.rules()),
        What::Generators => generators(&with_stored(desk).await),
        What::Proxies => proxies(&desk.proxies().await?),
        What::Slots => slots(desk.slots().await?),
        What::Sessions => sessions(desk.sessions()),
        What::Stats => stats(&desk.metrics()),
        What::Findings => findings(desk.findings().await?),
        What::Config => config(&desk.config()),
        What::Version => version(&desk.about(), &desk.checks(), now),
    };
    Ok(Table { columns: columns(what), rows })
}

fn rules(rules: &[RuleRow]) -> Rows {
    let row = |rule: &RuleRow| {
        vec![
            format!("{}.{}", rule.schema, rule.table).into(),
            (&*rule.column).into(),
            (&*rule.generator).into(),
            (&*rule.explicit).into(),
            (&*rule.insert_id).into(),
            (&*rule.mode).into(),
            (&*rule.unavailable).into(),
            (&*rule.origin).into(),
        ]
    };
    sorted(rules.iter().map(row).collect())
}

fn proxies(proxies: &[ProxyRow]) -> Rows {
    let row = |proxy: &ProxyRow| {
        vec![
            (&*proxy.name).into(),
            (&*proxy.address).into(),
            (&*proxy.version).into(),
            (&*proxy.since).into(),
            proxy.is_self.into(),
        ]
    };
    sorted(proxies.iter().map(row).collect())
}

fn slots(mut slots: Vec<SlotRow>) -> Rows {
    slots.sort_by(|a, b| (&a.generator, a.node).cmp(&(&b.generator, b.node)));
    let row = |slot: &SlotRow| {
        vec![
            (&*slot.generator).into(),
            slot.node.into(),
            (&*slot.owner).into(),
            slot.is_live.into(),
            (&*slot.reserved).into(),
        ]
    };
    slots.iter().map(row).collect()
}

fn sessions(mut sessions: Vec<SessionRow>) -> Rows {
    sessions.sort_by_key(|session| session.id);
    let row = |session: &SessionRow| {
        let state = match session.state {
            SessionState::Login => "login",
            SessionState::Idle => "idle",
            SessionState::Busy => "busy",
        };
        vec![
            session.id.into(),
            state.into(),
            (&*session.user).into(),
            (&*session.client).into(),
            (&*session.database).into(),
            u64::from(session.connection).into(),
            session.is_tls.into(),
            session.age.as_secs().into(),
            session.statements.into(),
            session.rewritten.into(),
            session.refused.into(),
            session.ids.into(),
            session.bytes_from_client.into(),
            session.bytes_to_client.into(),
        ]
    };
    sessions.iter().map(row).collect()
}

/// The worst first.
fn findings(mut findings: Vec<FindingRow>) -> Rows {
    let rank = |severity: &str| ["error", "warning", "note"].iter().position(|word| *word == severity);
    findings
        .sort_by(|a, b| (rank(a.severity), &a.place, &a.code).cmp(&(rank(b.severity), &b.place, &b.code)));
    let row = |finding: &FindingRow| {
        vec![
            finding.severity.into(),
            (&*finding.code).into(),
            (&*finding.place).into(),
            (&*finding.why).into(),
            (&*finding.remedy).into(),
        ]
    };
    findings.iter().map(row).collect()
}

fn config(config: &[ConfigRow]) -> Rows {
    let row = |row: &ConfigRow| {
        vec![
            (&*row.key).into(),
            (&*row.value).into(),
            (&*row.default).into(),
            if row.is_reloaded { "on a reload" } else { "on a restart" }.into(),
        ]
    };
    sorted(config.iter().map(row).collect())
}

fn version(about: &About, checks: &[Check], now: SystemTime) -> Rows {
    let up = now.duration_since(about.since).unwrap_or_default();
    let mut rows: Vec<(String, String)> = [
        ("rowstamp", about.version.to_owned()),
        ("proxy", about.name.clone()),
        ("listens on", about.listen.clone()),
        ("backends", about.backends.join(", ")),
        ("store", about.store.to_owned()),
        ("since (UTC)", humantime::format_rfc3339_seconds(about.since).to_string()),
        ("up (seconds)", up.as_secs().to_string()),
        ("draining", if about.is_draining { "yes" } else { "no" }.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    // In the order of a first look, not of the alphabet: it is one row of a form each.
    rows.extend(checks.iter().map(|check| {
        (format!("check {}", check.name), check.trouble.clone().unwrap_or_else(|| "fine".to_owned()))
    }));
    rows.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect()
}

#[cfg(test)]
mod tests {
    use crate::admin::console::command::{SHOWN, What};
    use crate::admin::console::show::table::Rows;
    use crate::admin::console::show::table::{Type, Value};
    use crate::admin::console::show::{columns, show};
    use crate::admin::desk::{FindingRow, SlotRow};
    use crate::admin::fake::FakeDesk;
    use std::time::{Duration, SystemTime};

    async fn rows(what: What) -> Rows {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(90);
        show(&FakeDesk::default(), what, now).await.unwrap().rows
    }

    /// As a client would print it.
    fn text(value: &Value) -> String {
        match value {
            Value::Null => "NULL".into(),
            Value::Text(text) => text.clone(),
            Value::Unsigned(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
        }
    }

    fn printed(row: &[Value]) -> String {
        row.iter().map(text).collect::<Vec<_>>().join("|")
    }

    #[tokio::test]
    async fn each_row_is_as_its_columns_say() {
        for (name, what) in SHOWN {
            let columns = columns(what);
            let rows = rows(what).await;
            assert!(!rows.is_empty(), "{name}");
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
                What::Rules,
                vec![
                    "shop.items|id|shop.orders|advance|session|on|refuse|rules/shop.toml:7",
                    "shop.orders|id|shop.orders|advance|session|on|refuse|rules/shop.toml:7",
                ],
            ),
            (
                What::Generators,
                vec![
                    "shop.events|timestamp|open|1234|2.5|NULL|3506|NULL|9223372036854775807|25|3|0.012|NULL|1|NULL",
                    "shop.left|sequence|unused|0|0|NULL|NULL|77|NULL|NULL|NULL|NULL|NULL|0|no rule that acts names it",
                    "shop.orders|sequence|open|1234|2.5|8766|3506|10001|9223372036854775807|25|NULL|NULL|NULL|1|NULL",
                ],
            ),
            (What::Proxies, vec!["db1:3307|127.0.0.1:3307|0.0.1|2026-11-22 10:00:00|yes"]),
            (What::Slots, vec!["shop.events|3|db1:3307|yes|2026-11-22 10:01:00"]),
            (What::Sessions, vec!["7|idle|app|10.0.0.5:50123|shop|41|yes|61|20|5|1|9|4096|65536"]),
            (
                What::Stats,
                vec![
                    "rowstamp_ids_issued_total|generator=shop.events|1234||Ids taken from a generator.",
                    "rowstamp_ids_issued_total|generator=shop.orders|1234||Ids taken from a generator.",
                ],
            ),
            (
                What::Findings,
                vec![
                    "warning|no-unique-key|shop.orders.id|no unique key|ALTER TABLE shop.orders ADD UNIQUE (id)",
                ],
            ),
            (What::Config, vec!["listen.address|127.0.0.1:3307|127.0.0.1:3307|on a restart"]),
        ] {
            let rows: Vec<_> = rows(what).await.iter().map(|row| printed(row)).collect();
            assert_eq!(rows, expect, "{what:?}");
        }
        let version: Vec<_> = rows(What::Version).await.iter().map(|row| printed(row)).collect();
        assert_eq!(
            version[5..],
            [
                "since (UTC)|1970-01-01T00:00:00Z",
                "up (seconds)|90",
                "draining|no",
                "check listener|fine",
                "check store|fine",
            ]
        );
    }

    #[tokio::test]
    async fn what_asks_the_store_may_fail() {
        let away = FakeDesk { is_away: true, ..FakeDesk::default() };
        for what in [What::Proxies, What::Slots, What::Findings] {
            assert!(show(&away, what, SystemTime::UNIX_EPOCH).await.is_err(), "{what:?}");
        }
        let generators = show(&away, What::Generators, SystemTime::UNIX_EPOCH).await.unwrap();
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
        let places: Vec<_> = super::findings(all).iter().map(|row| text(&row[2])).collect();
        assert_eq!(places, ["z", "b", "c", "a"]);
        let slot = |node| SlotRow {
            generator: "g".into(),
            node,
            owner: String::new(),
            is_live: false,
            reserved: String::new(),
        };
        let nodes: Vec<_> = super::slots(vec![slot(10), slot(9)]).iter().map(|row| text(&row[1])).collect();
        assert_eq!(nodes, ["9", "10"]);
    }
}
