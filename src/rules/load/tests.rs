mod files;

use std::fs;
use std::path::Path;

use super::{link, load};
use crate::ids::layout::Moment;
use crate::rules::model::{Explicit, GeneratorKind};
use crate::rules::{RuleSet, short_lived};
use crate::table_name::NameCase;
use crate::toml_file::{self, Findings, UtcTime};

/// The findings in files a.toml, b.toml, ..., a line each.
fn found(files: &[&str]) -> String {
    let mut findings = Findings::default();
    let names = ["a.toml", "b.toml", "c.toml"];
    let read = names
        .iter()
        .zip(files)
        .filter_map(|(name, text)| toml_file::parse(Path::new(name), text, None, &mut findings));
    let sources: Vec<_> = read.collect();
    match link(&sources, findings) {
        Ok((_, warnings)) => warnings.to_string(),
        Err(all) => all.to_string(),
    }
}

#[track_caller]
fn check(files: &[&str], expect: &str) {
    assert_eq!(found(files), expect, "{:.1000}", files.join("\n---\n"));
}

/// One sequence and the table that draws from it, with a line added to each.
fn shop(generator: &str, table: &str) -> String {
    format!(
        "schema = 'shop'\n[generators.ids]\nkind = 'sequence'\n{generator}\n[tables.orders]\ncolumn = 'id'\n\
         generator = 'ids'\n{table}"
    )
}

#[track_caller]
fn check_generator(line: &str, expect: &str) {
    check(&[&shop(line, "")], expect);
}

#[track_caller]
fn check_table(line: &str, expect: &str) {
    check(&[&shop("", line)], expect);
}

#[test]
fn generators() {
    for good in [
        "start = 1",
        "step = 3",
        "offset = 7",
        "batch = 'auto'",
        "batch = 1",
        "low_water = 1",
        "max = 18446744073709551615",
        "max = 1",
        "seed = 'none'",
        "order = 'leased'",
        "start = 8\nstep = 10\noffset = 3\nmax = 13",
        "start = 18446744073709551615\nstep = 18446744073709551615",
    ] {
        check_generator(good, "");
    }
    check_generator(
        "start = 8\nstep = 10\noffset = 3\nmax = 12",
        "error: a.toml:7: generators.ids.max: leaves no id: the first id by start = 8, step and offset is 13, above the last id, 12; correct start, step, offset or max",
    );
    check_generator(
        "start = 18446744073709551615\nstep = 2\noffset = 0",
        "error: a.toml:4: generators.ids.start: leaves no id: the first id by start = 18446744073709551615, step and \
         offset is 18446744073709551616, above the last id, 18446744073709551615; correct start, step, offset or max",
    );
    check_generator(
        "layout = 'snowflake'\nadvance = '1m'",
        "error: a.toml:4: generators.ids.layout: is a key of timestamp generators, and this is a sequence; remove it\n\
         error: a.toml:5: generators.ids.advance: is a key of timestamp generators, and this is a sequence; remove it",
    );
    for (line, expect) in [
        ("start = 0", "start: 0 is out of range: write a number from 1"),
        ("step = 0", "step: 0 is out of range: write a number from 1"),
        ("batch = 0", "batch: 0 is out of range: write a number from 1"),
        ("batch = 'many'", "batch: \"many\" is unknown; write \"auto\" or a whole number from 1"),
        ("low_water = 0", "low_water: 0 is out of range: write a number above 0 up to 1"),
        ("low_water = 1.01", "low_water: 1.01 is out of range: write a number above 0 up to 1"),
        ("node = 3", "node: is a key of timestamp generators, and this is a sequence; remove it"),
        ("order = 'global'", "order: \"global\" is not in this version of Rowstamp; write \"leased\""),
    ] {
        check_generator(line, &format!("error: a.toml:4: generators.ids.{expect}"));
    }
}

/// A timestamp generator with these keys, and the table that draws from it.
fn events(keys: &str, table: &str) -> String {
    shop(keys, table).replace("kind = 'sequence'", "kind = 'timestamp'")
}

#[track_caller]
fn check_timestamp(keys: &str, expect: &str) {
    check(&[&events(keys, "")], expect);
}

#[test]
fn timestamp_generators() {
    for good in [
        "layout = 'snowflake'",
        "layout = 'sonyflake'\nnode = 0",
        "layout = 'snowflake'\nnode = 1023\nadvance = '1s'\nmax_ahead = '10s'\nmax_forward = '1day'",
        "layout = 'snowflake'\nnode = 'auto'",
        "layout = 'pd-tso'\nnode = 0",
    ] {
        check_timestamp(good, "");
    }
    check_timestamp(
        "",
        "error: a.toml:2: generators.ids.layout: is missing; write, for example, layout = \"snowflake\"",
    );
    check_timestamp(
        "layout = 'snowflak'",
        "error: a.toml:4: generators.ids.layout: \"snowflak\" is unknown; did you mean \"snowflake\"? Known: \"cockroach\", \
         \"cosid\", \"discord\", \"instagram\", \"js-safe\", \"leaf\", \"mastodon\", \"mycat\", \"pd-tso\", \"polardbx\", \
         \"snowflake\", \"sonyflake\", \"tsid\", \"yitter\" or a table",
    );
    check_timestamp(
        "layout = 'js-safe'\nnode = 8",
        "error: a.toml:5: generators.ids.node: 8 does not fit into the layout's node with bits = 3; write a number up to 7, or \
         give the node more bits",
    );
    check_timestamp(
        "layout = 'pd-tso'\nnode = 1",
        "error: a.toml:5: generators.ids.node: 1 does not fit: the layout has no node, so only one proxy may use it; write 0, \
         or a layout with a node",
    );
    for out in ["999ms", "86401s"] {
        check_timestamp(
            &format!("layout = 'leaf'\nadvance = '{out}'"),
            "error: a.toml:5: generators.ids.advance: is out of range: write a duration from 1s to 1day",
        );
    }
    check_timestamp(
        "layout = 'leaf'\nbatch = 7\nseed = 'tables'",
        "error: a.toml:5: generators.ids.batch: is a key of sequences, and this is a timestamp generator; remove it\n\
         error: a.toml:6: generators.ids.seed: is a key of sequences, and this is a timestamp generator; remove it",
    );
    check_timestamp(
        "layout = 'leaf'\norder = 'global'",
        "error: a.toml:5: generators.ids.order: \"global\" is for sequences: ids of a timestamp generator ascend on each \
         proxy, not over all proxies; remove order",
    );
}

#[test]
fn ids_of_clients_do_not_move_a_timestamp_generator() {
    let layout = "layout = 'snowflake'";
    check(&[&events(layout, "explicit = 'keep'")], "");
    check(&[&events(layout, "explicit = 'reject'")], "");
    check(
        &[&events(layout, "explicit = 'advance'")],
        "error: a.toml:8: tables.orders.explicit: \"advance\" is for sequences, and shop.ids is a timestamp generator; \
         write \"keep\" or \"reject\"",
    );
    let rules = rules_of(&events(layout, ""));
    assert_eq!(rules.find(NameCase::Sensitive, "shop", "orders").unwrap().unwrap().explicit, Explicit::Keep);
}

fn rules_of(text: &str) -> RuleSet {
    let mut findings = Findings::default();
    let source = toml_file::parse(Path::new("a.toml"), text, None, &mut findings).unwrap();
    link(&[source], findings).unwrap().0
}

/// The layout of a table with this text in it, as the store would keep it, or what is wrong with
/// it.
#[track_caller]
fn check_layout(table: &str, expect: &str) {
    let text = events(&format!("layout = {{ {table} }}"), "");
    let found = found(&[&text]);
    if !found.is_empty() {
        return assert_eq!(found, expect, "{table}");
    }
    let rules = rules_of(&text);
    let GeneratorKind::Timestamp(spec) = &rules.generators().next().unwrap().kind else { panic!("{table}") };
    assert_eq!(spec.layout.to_string(), expect, "{table}");
}

const FIELDS: &str = "fields = [{ field = 'timestamp', bits = 41 }, { field = 'node', bits = 10 }, { field = 'sequence', bits = 12 }]";

#[test]
fn layouts_of_ones_own() {
    let at = |text: &str| format!("error: a.toml:4: generators.ids.layout.{text}");
    let spans = "timestamp 41 << 22, node 10 << 12, sequence 12 << 0";
    for epoch in
        ["'2026-01-01T00:00:00Z'", "2026-01-01T00:00:00Z", "1767225600000", "'2026-01-01T00:00:00.000Z'"]
    {
        let expect = format!("{spans}, epoch 2026-01-01T00:00:00.000Z, tick 1000 us");
        check_layout(&format!("epoch = {epoch}, {FIELDS}"), &expect);
    }
    check_layout(
        &format!("epoch = 0, tick = '10us', {FIELDS}"),
        &format!("{spans}, epoch 1970-01-01T00:00:00.000Z, tick 10 us"),
    );
    check_layout(
        "epoch = 0, fields = [{ field = 'padding', bits = 1 }, { field = 'timestamp', bits = 41 }, \
         { field = 'constant', bits = 2, value = 3 }, { field = 'sequence', bits = 12, shift = 4, random_start = 100 }]",
        "timestamp 41 << 18, sequence 12 << 4, constant 0x30000, epoch 1970-01-01T00:00:00.000Z, tick 1000 us",
    );
    // An epoch in a local time zone, the default of many a parser, is none.
    for epoch in [
        "'2026-01-01T00:00:00'",
        "2026-01-01T00:00:00",
        "'2026-01-01T08:00:00+08:00'",
        "'2026-01-01'",
        "'1969-12-31T23:59:59Z'",
    ] {
        check_layout(
            &format!("epoch = {epoch}, {FIELDS}"),
            &at("epoch: is not a UTC time from 1970 on, with microseconds at most: write, for example, \
                 \"2026-01-01T00:00:00Z\""),
        );
    }
    check_layout(FIELDS, &at("epoch: is missing; write, for example, epoch = \"2026-01-01T00:00:00Z\""));
    check_layout(
        &format!("epoch = 0, tick = '1500ns', {FIELDS}"),
        &at("tick: is not a whole number of microseconds; write, for example, \"1ms\""),
    );
    check_layout(
        &format!("epoch = 0, tick = '2m', {FIELDS}"),
        &at("tick: a tick of 120000000 us is too long; write at most \"1m\""),
    );
    let field =
        |field: &str| format!("epoch = 0, fields = [{{ field = 'timestamp', bits = 41 }}, {{ {field} }}]");
    // One id a millisecond is enough.
    check_layout(
        &field("field = 'node', bits = 3"),
        "timestamp 41 << 3, node 3 << 0, epoch 1970-01-01T00:00:00.000Z, tick 1000 us",
    );
    for (written, expect) in [
        (
            "field = 'sequence', bits = 23",
            "[0]: timestamp makes the id 64 bits long, and a signed BIGINT holds 63; shorten the fields by 1",
        ),
        ("field = 'timestamp', bits = 3", "[0]: timestamp is there twice; remove one of them"),
        ("field = 'constant', bits = 3", "[1].value: is missing; write the value of the constant"),
        (
            "field = 'node', bits = 3, value = 1",
            "[1].value: is a key of constants; remove it, or write field = \"constant\"",
        ),
        (
            "field = 'node', bits = 3, random_start = 1",
            "[1].random_start: is a key of the sequence field; remove it, or move it to that field",
        ),
        ("field = 'sequence', bits = 0", "[1].bits: 0 is out of range: write a number from 1 up to 63"),
        ("field = 'sequence'", "[1].bits: is missing; write, for example, bits = 41"),
        (
            "field = 'sequense', bits = 12",
            "[1].field: \"sequense\" is unknown; did you mean \"sequence\"? Known: \"timestamp\", \"node\", \
             \"sequence\", \"constant\" or \"padding\"",
        ),
    ] {
        check_layout(&field(written), &at(&format!("fields{expect}")));
    }
    check_layout(
        "epoch = 0, tick = '2ms', fields = [{ field = 'timestamp', bits = 41 }]",
        &at(
            "fields: leaves too few ids: 500 a second, and 1000 is the minimum; give the sequence more bits, or write a shorter tick",
        ),
    );
}

#[test]
fn layouts_that_run_out_within_five_years() {
    let at = |now: &str, layout: &str| {
        let rules = rules_of(&events(&format!("layout = {layout}"), ""));
        let now = Moment::from_micros(now.parse::<UtcTime>().unwrap().micros());
        let found = short_lived(&rules, now);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    // uid-generator's, which is no preset for generators since it ran out.
    let uid = "{ epoch = '2016-05-19T16:00:00Z', tick = '1s', fields = [{ field = 'timestamp', bits = 28 }, \
               { field = 'node', bits = 22 }, { field = 'sequence', bits = 13 }] }";
    assert_eq!(at("2019-11-20T13:24:16Z", uid), "");
    let remedy = "and a layout must last for 5 more years; write a layout of your own with a later epoch or a longer timestamp";
    let key = "a.toml:2: generators.ids.layout:";
    assert_eq!(
        at("2019-11-22T13:24:16Z", uid),
        format!("{key} will end on 2024-11-20T13:24:16.000Z, {remedy}")
    );
    assert_eq!(at("2026-01-01T00:00:00Z", uid), format!("{key} ended on 2024-11-20T13:24:16.000Z, {remedy}"));
    assert_eq!(at("2026-01-01T00:00:00Z", "'snowflake'"), "");
    assert_eq!(
        at("2025-12-31T23:59:59Z", &format!("{{ epoch = 1767225600000, {FIELDS} }}")),
        format!("{key} its epoch, 2026-01-01T00:00:00.000Z, is in the future; write an epoch in the past")
    );
}

#[test]
fn a_bad_generator_is_no_fault_of_its_tables() {
    check(
        &[&events("layout = 7", "")],
        "error: a.toml:4: generators.ids.layout: expected \"cockroach\", \"cosid\", \"discord\", \"instagram\", \"js-safe\", \
         \"leaf\", \"mastodon\", \"mycat\", \"pd-tso\", \"polardbx\", \"snowflake\", \"sonyflake\", \"tsid\", \
         \"yitter\" or a table, found an integer; write it in quotes",
    );
    check(
        &[&shop("", "").replace("kind = 'sequence'", "")],
        "error: a.toml:2: generators.ids.kind: is missing; write, for example, kind = \"sequence\"",
    );
}

#[test]
fn a_generator_that_calls_draw_from_needs_no_table() {
    let alone = |sql: &str| format!("schema = 's'\n[generators.g]\nkind = 'sequence'\n{sql}");
    check(
        &[&alone("")],
        "warning: a.toml:2: generators.g: no table uses this generator; name it in the rule of a table, or remove it",
    );
    check(&[&alone("sql = true\n")], "");
}

#[test]
fn names_of_generators() {
    let text = shop("", "").replace("generators.ids", "generators.'a.b'").replace("'ids'", "'a.b'");
    check(
        &[&text],
        "error: a.toml:2: generators.\"a.b\": is not a valid name of a generator; write up to 64 letters, digits, _ and -\n\
         warning: a.toml:2: generators.\"a.b\": no table uses this generator; name it in the rule of a table, or remove it\n\
         error: a.toml:7: tables.orders.generator: there is no generator a.b; define [generators.b] for it",
    );
}

#[test]
fn tables() {
    for good in [
        "explicit = 'keep'",
        "explicit = 'advance'",
        "explicit = 'reject'",
        "insert_id = 'packet'",
        "mode = 'off'",
        "mode = 'shadow'",
        "unavailable = 'refuse'",
        "unavailable = 'native'",
    ] {
        check_table(good, "");
    }
    check_table(
        "explict = 'keep'",
        "error: a.toml:8: tables.orders.explict: unknown key; did you mean explicit?",
    );
    check_table(
        "[tables.'']\ncolumn = 'id'\ngenerator = 'ids'",
        "error: a.toml:8: tables.\"\": is not a valid name of a table; write 1 to 64 characters",
    );
    check(
        &["schema = ''\n[tables.x]"],
        "error: a.toml:1: schema: must not be empty; write a value, or remove the key\n\
         error: a.toml:2: tables.x.column: is missing; write, for example, column = \"id\"\n\
         error: a.toml:2: tables.x.generator: is missing; write, for example, generator = \"orders\"",
    );
}

#[test]
fn names_over_all_files() {
    let good = shop("", "");
    check(
        &[&good, &good],
        "error: b.toml:2: generators.ids: shop.ids is defined at a.toml:2 already; rename or remove one of them\n\
         error: b.toml:5: tables.orders: shop.orders has a rule at a.toml:5 already; keep one rule",
    );
    let crm = "schema = 'crm'\n[tables.x]\ncolumn = 'id'\ngenerator = 'shop.ids'";
    check(&[crm, &good], "");
    check(
        &[&crm.replace("shop.ids", "ids"), &good],
        "error: a.toml:4: tables.x.generator: there is no generator crm.ids; define [generators.ids] for it",
    );
    check(
        &[&crm.replace("shop.ids", "shop.idz"), &good],
        "error: a.toml:4: tables.x.generator: there is no generator shop.idz; did you mean shop.ids?",
    );
    check(
        &["schema = 'crm'\n[generators.g]\nkind = 'sequence'"],
        "warning: a.toml:2: generators.g: no table uses this generator; name it in the rule of a table, or remove it",
    );
}
