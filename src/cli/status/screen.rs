//! A status as text, aligned.

use std::fmt::Write as _;

use crate::admin::status::{Counted, GeneratorStatus, Status, Timed};
use crate::cli::table::{aligned, table};
use crate::tables::grouped;

const NONE: &str = "-";
/// Generators whose trouble is shown.
const TROUBLED_MAX: usize = 10;

pub(super) fn screen(status: &Status) -> String {
    let parts = [
        head(status),
        troubles(status),
        generators(status),
        columns(&[statements(status), sessions(status), store(status)]),
        doors(status),
        users(status),
        fleet(status),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn head(status: &Status) -> String {
    let about = &status.about;
    let state = match (about.draining, status.ready, status.degraded) {
        (true, ..) => "draining",
        (false, false, _) => "NOT READY",
        (false, true, true) => "DEGRADED",
        (false, true, false) => "ready",
    };
    format!(
        "{}  {state}, up {}, rowstamp {}\n{} in front of {}, store {}, {} rule{}\n",
        about.name,
        duration((status.now - about.since).max(0.0).floor()),
        about.version,
        about.listen,
        about.backends.join(", "),
        about.store,
        status.rules.count,
        if status.rules.count == 1 { "" } else { "s" },
    )
}

fn troubles(status: &Status) -> String {
    // The check of the generators says the same as their own lines.
    let checks = status
        .checks
        .iter()
        .filter(|check| check.name != "generators")
        .filter_map(|check| Some(format!("{}: {}\n", check.name, check.trouble.as_ref()?)));
    let mut troubled = status.generators.iter().filter_map(|generator| {
        Some(format!("{} is {}: {}\n", generator.name, generator.state, generator.trouble.as_ref()?))
    });
    let mut generators: Vec<_> = troubled.by_ref().take(TROUBLED_MAX).collect();
    let more = troubled.count();
    if more > 0 {
        generators
            .push(format!("and {} more; the list below has the state of each\n", grouped(&more.to_string())));
    }
    let rules = (status.rules.good == Some(false)).then(|| {
        "older rules are active: the last rules that were read could not be activated (the log says why)\n".to_owned()
    });
    let fine: Vec<_> =
        status.checks.iter().filter(|check| check.trouble.is_none()).map(|check| &*check.name).collect();
    let fine = if fine.is_empty() { String::new() } else { format!("fine: {}\n", fine.join(", ")) };
    checks.chain(generators).chain(rules).collect::<String>() + &fine
}

fn generators(status: &Status) -> String {
    let head =
        ["GENERATOR", "STATE", "IDS/S", "ISSUED", "RESERVE", "LASTS", "IDS LEFT", "USED", "NODE", "AHEAD"];
    if status.generators.is_empty() {
        return "no generators\n".to_owned();
    }
    aligned(&head, status.generators.iter().map(generator), 2)
}

fn generator(row: &GeneratorStatus) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let ahead = match (row.leap_seconds, row.ahead_seconds) {
        (Some(leap), _) => format!("leapt {}", duration(leap)),
        (None, ahead) => or_none(ahead.map(duration)),
    };
    vec![
        row.name.clone(),
        row.state.clone(),
        rate(row.per_second),
        grouped(&row.issued.to_string()),
        match row.reserved_ids {
            Some(ids) => grouped(&ids.to_string()),
            None if row.node.is_some() => "time".to_owned(),
            None => NONE.to_owned(),
        },
        or_none(row.reserved_seconds.map(duration)),
        or_none(row.headroom_ids.as_deref().map(grouped)),
        if row.max.is_some() { percent(row.used) } else { NONE.to_owned() },
        or_none(row.node.map(|node| node.to_string())),
        ahead,
    ]
}

fn statements(status: &Status) -> String {
    let row = |(name, counted): (&String, &Counted)| {
        vec![name.replace('_', " "), rate(counted.per_second), grouped(&whole(counted.total))]
    };
    let refused = status.refused.iter().filter(|(_, counted)| counted.total > 0.0);
    let refused = refused.map(|(name, counted)| row((&format!("  {name}"), counted)));
    aligned(&["STATEMENTS", "/S", "IN ALL"], status.statements.iter().map(row).chain(refused), 1)
}

fn sessions(status: &Status) -> String {
    let sessions = &status.sessions;
    let of_now = [("busy", sessions.busy), ("idle", sessions.idle), ("logging in", sessions.login)];
    let since = [
        ("opened", sessions.opened),
        ("turned away", sessions.refused),
        ("logins refused", sessions.logins_refused),
    ];
    let of_now = of_now.map(|(name, count)| vec![name.to_owned(), grouped(&count.to_string())]);
    let since = since.map(|(name, count)| vec![name.to_owned(), grouped(&whole(count))]);
    aligned(&["SESSIONS", ""], of_now.into_iter().chain(since), 1)
}

fn store(status: &Status) -> String {
    let of_proxy = [("rewrite", &status.rewrite), ("wait for ids", &status.id_wait)];
    let mut rows = of_proxy.map(|(name, timed)| times(name, timed)).to_vec();
    rows.extend(status.store.iter().map(|(name, timed)| times(&format!("store {name}"), timed)));
    rows.push(vec!["store failures".to_owned(), grouped(&whole(status.store_failures)), String::new()]);
    aligned(&["TIMES", "CALLS", "MEAN"], rows, 1)
}

fn times(name: &str, timed: &Timed) -> Vec<String> {
    let calls = timed.count.to_string();
    let mean =
        calls.parse::<f64>().ok().filter(|calls| *calls > 0.0).map(|calls| duration(timed.seconds / calls));
    vec![name.to_owned(), grouped(&calls), mean.unwrap_or_else(|| NONE.to_owned())]
}

fn doors(status: &Status) -> String {
    let head = [
        "DOOR",
        "ADDRESS",
        "OPEN",
        "TLS",
        "CLIENTS",
        "REQUESTS/S",
        "REQUESTS",
        "REFUSED",
        "IDS/S",
        "IDS",
        "LOGINS REFUSED",
    ];
    let rows = status.doors.iter().filter_map(|door| {
        Some(vec![
            door.protocol.clone(),
            door.address.clone()?,
            if door.open { "yes" } else { "NO" }.to_owned(),
            door.tls.clone(),
            grouped(&door.clients.to_string()),
            rate(door.requests.per_second),
            grouped(&whole(door.requests.total)),
            grouped(&door.refused.to_string()),
            rate(door.ids.per_second),
            grouped(&whole(door.ids.total)),
            grouped(&door.logins_refused.to_string()),
        ])
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() { String::new() } else { aligned(&head, rows, 4) }
}

/// A table of the users who have asked for ids.
fn users(status: &Status) -> String {
    let rows = status.users.busiest.iter().map(|busy| {
        vec![
            busy.user.clone(),
            rate(busy.ids.per_second),
            grouped(&whole(busy.ids.total)),
            grouped(&busy.denied.to_string()),
            grouped(&busy.over_quota.to_string()),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        String::new()
    } else {
        aligned(&["USER", "IDS/S", "IDS", "DENIED", "OVER QUOTA"], rows, 1)
    }
}

fn fleet(status: &Status) -> String {
    if let Some(trouble) = &status.fleet.trouble {
        return format!("the proxies on this store are not known: {trouble}\n");
    }
    let rows = status.fleet.proxies.iter().map(|proxy| {
        let name = if proxy.is_self { format!("{} (this one)", proxy.name) } else { proxy.name.clone() };
        [name, proxy.address.clone(), proxy.version.clone(), proxy.since.clone()]
    });
    table(["PROXY", "ADDRESS", "VERSION", "SINCE (UTC)"], rows)
}

/// Blocks side by side.
fn columns(blocks: &[String]) -> String {
    let blocks: Vec<Vec<&str>> = blocks.iter().map(|block| block.lines().collect()).collect();
    let rows = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = String::new();
    for row in 0..rows {
        let mut line = String::new();
        let mut begin = 0;
        for block in &blocks {
            let width = block.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            let gap = begin - line.chars().count().min(begin);
            let _ = write!(line, "{}{}", " ".repeat(gap), block.get(row).copied().unwrap_or(""));
            begin += width + 4;
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn whole(count: f64) -> String {
    format!("{count:.0}")
}

fn rate(per_second: f64) -> String {
    if per_second == 0.0 || per_second >= 100.0 {
        return grouped(&whole(per_second));
    }
    if per_second < 1.0 { format!("{per_second:.2}") } else { format!("{per_second:.1}") }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        none if none <= 0.0 => "0 %".to_owned(),
        little if little < 0.01 => "< 0.01 %".to_owned(),
        some => format!("{some:.2} %"),
    }
}

/// In the two units that tell most.
fn duration(seconds: f64) -> String {
    const UNITS: [(f64, &str); 5] =
        [(31_536_000.0, "y"), (86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s")];
    if seconds <= 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 1.0 {
        let (number, unit) = if seconds < 1e-3 { (seconds * 1e6, "us") } else { (seconds * 1e3, "ms") };
        return if number < 10.0 { format!("{number:.1} {unit}") } else { format!("{number:.0} {unit}") };
    }
    if seconds < 120.0 {
        return if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") };
    }
    let mut units = UNITS.iter().skip_while(|(length, _)| seconds < *length);
    let Some((length, unit)) = units.next() else { return format!("{seconds:.0} s") };
    let first = (seconds / length).floor();
    let rest = units.next().map(|(short, word)| (((seconds - first * length) / short).floor(), word));
    let first_shown = grouped(&whole(first));
    match rest {
        Some((rest, word)) if rest > 0.0 && first < 100.0 => format!("{first_shown} {unit} {rest:.0} {word}"),
        _ => format!("{first_shown} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, grouped, percent, rate, screen};
    use crate::admin::Check;
    use crate::admin::fake::FakeDesk;
    use crate::admin::status::{FleetStatus, Rates, Status};

    fn status() -> Status {
        let mut status = Status::of(&FakeDesk::default(), FleetStatus::default(), &Rates::new());
        status.about.since = status.now - 3_700.0;
        status
    }

    #[test]
    fn one_screen() {
        let expect = "\
db1:3307  ready, up 1 h 1 min, rowstamp 0.0.1
127.0.0.1:3307 in front of 127.0.0.1:3306, store etcd, 2 rules

fine: listener, store

GENERATOR    STATE  IDS/S  ISSUED  RESERVE      LASTS                   IDS LEFT     USED  NODE  AHEAD
shop.events  open     2.5   1,234     time  58 min 26 s                          -  25.00 %     3  12 ms
shop.orders  open     2.5   1,234    8,766  58 min 26 s  9,223,372,036,854,765,807  25.00 %     -      -
";
        let shown = screen(&status());
        let tables = shown.split("\n\n").take(3).collect::<Vec<_>>().join("\n\n");
        let doors = "\n\nDOOR            ADDRESS         OPEN  TLS        CLIENTS  REQUESTS/S  REQUESTS  REFUSED  IDS/S    IDS  LOGINS REFUSED\n\
                     Redis protocol  127.0.0.1:6379  yes   preferred        3           0        43        3      0  4,000               5\n";
        assert!(shown.contains(doors), "{shown}");
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&tables), squeezed(expect), "{shown}");
        let [head, events, orders] =
            [0, 1, 2].map(|nth| tables.lines().nth(5 + nth).unwrap().chars().count());
        assert!(head == events && events == orders, "aligned:\n{shown}");
        assert!(shown.lines().all(|line| line.len() <= 120), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_said_first() {
        let mut status = status();
        status.ready = false;
        status.checks = vec![
            Check::needed("backend", Some("it does not answer".into())),
            Check::wanted("generators", Some("shop.events: its layout ended".into())),
        ];
        status.generators[0].state = "stopped".into();
        status.generators[0].trouble = Some("its layout ended".into());
        status.fleet.trouble = Some("the store does not answer".into());
        let shown = screen(&status);
        for told in [
            "db1:3307  NOT READY, up",
            "\nbackend: it does not answer\nshop.events is stopped: its layout ended\n",
            "the proxies on this store are not known: the store does not answer\n",
        ] {
            assert!(shown.contains(told), "{told}\n{shown}");
        }
    }

    #[test]
    fn a_few_of_many_troubles_are_shown() {
        let mut status = status();
        let mut one = status.generators.remove(0);
        one.trouble = Some("the store does not answer".into());
        status.generators = std::iter::repeat_n(one, 5_000).collect();
        let shown = screen(&status);
        assert_eq!(shown.matches("the store does not answer").count(), super::TROUBLED_MAX, "{shown}");
        assert!(shown.contains("\nand 4,990 more; the list below has the state of each\n"), "{shown}");
    }

    #[test]
    fn numbers() {
        for (digits, expect) in [("0", "0"), ("999", "999"), ("1000", "1,000"), ("1234567", "1,234,567")] {
            assert_eq!(grouped(digits), expect);
        }
        for (seconds, expect) in [
            (0.0, "0 s"),
            (4.2e-5, "42 us"),
            (0.0012, "1.2 ms"),
            (0.25, "250 ms"),
            (9.96, "10.0 s"),
            (59.0, "59 s"),
            (150.0, "2 min 30 s"),
            (3_600.0, "1 h"),
            (277_200.0, "3 d 5 h"),
            (3.2e9, "101 y"),
        ] {
            assert_eq!(duration(seconds), expect, "{seconds}");
        }
        for (share, expect) in [(0.0, "0 %"), (1e-9, "< 0.01 %"), (0.25, "25.00 %"), (1.0, "100.00 %")] {
            assert_eq!(percent(share), expect);
        }
        for (per_second, expect) in [(0.0, "0"), (0.25, "0.25"), (12.34, "12.3"), (1234.5, "1,234")] {
            assert_eq!(rate(per_second), expect);
        }
    }
}
