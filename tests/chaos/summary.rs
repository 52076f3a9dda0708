//! The results, in one block of lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::chaos::audit::Audit;
use crate::chaos::fleet::Fleet;
use crate::chaos::history::History;
use crate::chaos::judge::Losses;
use crate::chaos::lanes::Campaign;
use crate::chaos::plan::Kind;
use crate::chaos::tables::{Ids, TABLES};

pub(crate) fn text(
    fleet: &Fleet,
    campaign: &Campaign,
    history: &History,
    audit: &Audit,
    took: Duration,
) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let mut line = |what: &str, of: String| {
        let _ = writeln!(text, "chaos: {what:<24} {of}");
    };
    let ledger = &campaign.ledger;
    let (before, after) = ledger.halves();
    let per_second = audit.rows / took.as_secs().max(1);
    line("ids acknowledged", format!("{} in {} s", audit.acknowledged, took.as_secs()));
    line("rows in the tables", format!("{} ({per_second} a second)", audit.rows));
    line("statements cut off", ledger.cut_off().to_string());
    line("statements refused (1467)", ledger.refused().to_string());
    let share = after * 100 / (before + after).max(1);
    line("behind half the faults", format!("{share} % of the ids"));
    for kind in Kind::ALL {
        let took =
            campaign.recoveries.of(kind).map_or_else(String::new, |(measured, [median, most, slowest])| {
                let ms = |time: Duration| time.as_millis();
                format!(
                    ": INSERTs again after {} ms (p50), {} ms (p99), {} ms (slowest of {measured})",
                    ms(median),
                    ms(most),
                    ms(slowest)
                )
            });
        line(&format!("{}s", kind.name()), format!("{}{took}", campaign.count(kind)));
    }
    for (table, losses) in TABLES.iter().zip(&audit.losses) {
        let (Ids::Sequence { batch }, Some(losses)) = (table.ids, losses) else { continue };
        let Losses { all, kills, by_kills, most } = losses;
        line(
            &format!("ids lost of {} ({batch})", table.name),
            format!("{} a kill, {most} at most; {all} in all", by_kills / (*kills).max(1)),
        );
    }
    let ahead = audit.ahead.unwrap_or_default().as_millis();
    line("timestamps", format!("{ahead} ms ahead of the clock at the end"));
    let raises: usize = history.ranges.iter().flat_map(BTreeMap::values).map(Vec::len).sum();
    line("store writes", format!("{} ({raises} ranges)", history.writes));
    let given_up: u64 = fleet
        .members
        .iter()
        .flat_map(|member| member.ended.lock().unwrap().clone())
        .map(|ended| ended.given_up)
        .sum();
    line("ranges skipped", format!("{given_up}, of which it is not known whether the store saved them"));
    line("looks at the bounds", campaign.bounds.checks().to_string());
    text.trim_end().to_owned()
}
