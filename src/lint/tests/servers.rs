use super::Severity::{Error, Note, Warning};
use super::{
    Case, Code, Denied, GeneratorRecord, Key, Moment, NOW, Revision, ServerFacts, StoreFacts, StoreKind,
    Table, Versioned, stored,
};

#[test]
fn the_servers_settings() {
    let statement = || Case::new().variable("binlog_format", "STATEMENT");
    // Nothing is logged.
    statement().check(Code::BinlogStatement, None);
    statement().variable("log_bin", "ON").check(Code::BinlogStatement, Some(Warning));
    Case::new().variable("log_bin", "ON").check(Code::BinlogStatement, None);

    Case::new().variable("read_only", "OFF").check(Code::ServerReadOnly, None);
    Case::new().variable("read_only", "ON").check(Code::ServerReadOnly, Some(Warning));
    Case::new().variable("read_only", "NO_LOCK").check(Code::ServerReadOnly, Some(Warning));
}

#[test]
fn compression_of_the_server() {
    let check = |code: Code, expect: Option<super::Severity>, wanted: &[&str], case: Case| {
        let found = super::super::compression(&case.facts.server, wanted);
        assert_eq!(found.map(|found| (found.code, found.severity)), expect.map(|severity| (code, severity)));
    };
    let mysql = |offered| Case::new().variable("protocol_compression_algorithms", offered);
    check(Code::CompressionUnoffered, None, &[], Case::new());
    check(Code::CompressionUnoffered, None, &["zlib", "zstd"], Case::new());
    check(Code::CompressionUnoffered, Some(Warning), &["zstd"], Case::new());
    check(Code::CompressionUnoffered, None, &["zstd"], mysql("zlib,zstd,uncompressed"));
    check(Code::CompressionUnoffered, Some(Warning), &["zlib", "zstd"], mysql("uncompressed"));
}

#[test]
fn clocks() {
    let apart = |seconds: u64| {
        let clocks = Some((Moment::from_micros(NOW), Moment::from_micros(NOW + seconds * 1_000_000)));
        Case::new().layout("js-safe").facts(|facts| facts.clocks = clocks)
    };
    apart(5).check(Code::ClockApart, None);
    apart(6).check(Code::ClockApart, Some(Error));
    // Sequences know no time.
    let sequence = Case::new().facts(|facts| facts.clocks = apart(60).facts.clocks);
    sequence.check(Code::ClockApart, None);
}

fn on_mysql(variables: &[(&str, &str)], replicas: u64) -> Case {
    let case = Case::new();
    let mut server = ServerFacts { replicas, ..case.facts.server.clone() };
    server.variables.extend(variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    case.store(StoreFacts { server: Some(server), ..StoreFacts::empty(StoreKind::Mysql) })
}

#[test]
fn a_store_on_a_server() {
    let semi =
        [("log_bin", "ON"), ("rpl_semi_sync_source_enabled", "ON"), ("rpl_semi_sync_source_status", "ON")];
    on_mysql(&[], 0).check(Code::StoreAsync, None);
    let why = "the binary log of the store's server is on";
    on_mysql(&[("log_bin", "ON")], 0).says(Code::StoreAsync, Warning, why);
    on_mysql(&[("log_bin", "ON")], 2).says(Code::StoreAsync, Warning, "2 replicas are connected");
    on_mysql(&semi, 1).check(Code::StoreAsync, None);
    on_mysql(&semi[..2], 1).says(Code::StoreAsync, Warning, "on but not active");
    let galera = [("log_bin", "ON"), ("wsrep_on", "ON"), ("wsrep_cluster_address", "gcomm://a")];
    on_mysql(&galera, 0).check(Code::StoreAsync, None);
    let group = [("log_bin", "ON"), ("group_replication_group_name", "8a94f357")];
    on_mysql(&group, 0).check(Code::StoreAsync, None);
    // The backend's replicas concern no store elsewhere.
    Case::new().variable("log_bin", "ON").check(Code::StoreAsync, None);

    on_mysql(&[], 0).check(Code::StoreNotDurable, None);
    on_mysql(&[("innodb_flush_log_at_trx_commit", "2")], 0).check(Code::StoreNotDurable, Some(Warning));
}

#[test]
fn rights_on_a_store_in_a_table() {
    let lacking = |table: &str, is_made: bool, rights: &[&str]| {
        let mut case = on_mysql(&[], 0);
        let mut needs = Table::parse(table).needs(is_made);
        needs.retain(|need| rights.contains(&need.right));
        case.store.denied = Some(Denied { account: "r@a@%".to_owned(), needs });
        case
    };
    on_mysql(&[], 0).check(Code::StoreDenied, None);
    let writes = lacking("bounds", true, &["INSERT", "UPDATE"]);
    writes.says(Code::StoreDenied, Error, "account 'r@a'@'%' lacks INSERT, UPDATE on `rowstamp`.`bounds`:");
    writes.says(Code::StoreDenied, Error, "GRANT INSERT, UPDATE ON `rowstamp`.`bounds` TO 'r@a'@'%'");
    // A GRANT on a table that is not there needs CREATE.
    let unmade = lacking("bounds", false, &["CREATE"]);
    unmade.says(Code::StoreDenied, Error, "GRANT CREATE, SELECT, INSERT, UPDATE ON `rowstamp`.`bounds` TO");
    let leafs = lacking("leaf.leaf_alloc", true, &["UPDATE"]);
    leafs.says(Code::StoreDenied, Error, "UPDATE on `leaf`.`leaf_alloc`; UPDATE on `leaf`.`rowstamp_bounds`");
}

#[test]
fn what_the_store_holds() {
    Case::new().check(Code::StoreUnread, None);
    let unread = StoreFacts::unread(StoreKind::Embedded, "in use");
    Case::new().store(unread).says(Code::StoreUnread, Note, "in use");
    Case::new().store(stored("{}")).check(Code::StoreUnread, Some(Note));

    Case::new().bound(7).check(Code::GeneratorDiffers, None);
    let of = |layout: &str, json: &str| Case::new().layout(layout).store(stored(json));
    let js = r#"{"v":1,"kind":"timestamp","bound":1,"owner":"o","token":"t","layout":"LAYOUT"}"#;
    let layout = crate::ids::layout::presets::Preset::find("js-safe").unwrap().layout().to_string();
    let js = js.replace("LAYOUT", &layout);
    of("js-safe", &js).check(Code::GeneratorDiffers, None);
    of("snowflake", &js).says(Code::GeneratorDiffers, Error, "with layout timestamp");
    let why = "with kind timestamp, but the rule says sequence";
    Case::new().store(stored(&js)).says(Code::GeneratorDiffers, Error, why);

    Case::new().check(Code::StoreSuspected, None);
    let json = br#"{"v":1,"by":"p1","since":"today","reason":"the witness is gone"}"#;
    let record = Versioned { revision: Revision(1), value: json.to_vec() };
    let suspected = StoreFacts::of(StoreKind::Etcd, &[(Key::suspect(), record)]);
    Case::new().store(suspected).says(Code::StoreSuspected, Error, "p1 suspects since today");
}

/// Bounds are looked for under the generator's whole name.
#[test]
fn records_are_read() {
    let read: GeneratorRecord = Case::new().bound(7).store.generators.unwrap().remove("shop.g").unwrap();
    assert_eq!(read.bound, 7);
}

#[test]
fn a_lock_that_another_holds() {
    let check = |code: Code, expect: Option<super::Severity>, holder: Option<(u64, Option<&str>)>| {
        let found = super::super::lock_held(super::super::Where::table("shop", "orders"), holder);
        assert_eq!(
            found.as_ref().map(|found| (found.code, found.severity)),
            expect.map(|severity| (code, severity))
        );
        found.map(|found| format!("{} {}", found.why, found.remedy)).unwrap_or_default()
    };
    check(Code::LockHeld, None, None);
    assert!(check(Code::LockHeld, Some(Error), Some((7, None))).contains("KILL 7"));
    let said = check(Code::LockHeld, Some(Error), Some((7, Some("\"eve\" from \"10.0.0.5\""))));
    assert!(said.contains("connection 7, of \"eve\" from"), "{said}");
}

#[test]
fn connections_that_are_shared() {
    Case::new().check(Code::ConnectionsShared, None);
    let shared = Case::new().facts(|facts| facts.server.shares_connections = true);
    shared.says(Code::ConnectionsShared, Warning, "3566");
}
