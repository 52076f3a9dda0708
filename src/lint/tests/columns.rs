use super::Severity::{Error, Note, Warning};
use super::{Case, Code, Highest, Index, foreign_key, index, table};

#[test]
fn the_column() {
    let other = Case::new().rules("column = 'id'", "column = 'ID'");
    other.check(Code::ColumnMissing, None);
    let other = Case::new().rules("column = 'id'", "column = 'order_id'");
    other.says(Code::ColumnMissing, Error, "the account sees id, a");
    other.counted().says(Code::ColumnMissing, Error, "write column = \"id\", the AUTO_INCREMENT column");

    let unseen = |case: Case| case.table(|table| table.columns.clear());
    let grant = "the control account sees no column of the table, probably because it lacks SELECT: the table's INSERTs are refused\n\
                 GRANT SELECT ON `shop`.* to the control account";
    unseen(Case::new()).says(Code::ColumnMissing, Error, grant);
    let auto = Case::new().rules("column = 'id'", "column = 'auto'");
    unseen(auto).says(Code::ColumnMissing, Error, grant);

    let native = Case::new().rules("column = 'id'", "column = 'id'\nunavailable = 'native'");
    native.says(Code::NativeWithoutCounter, Error, "keep AUTO_INCREMENT on the column");
    native.counted().check(Code::NativeWithoutCounter, None);

    Case::new().check(Code::ColumnGenerated, None);
    Case::new().column(|column| column.shape.generated = true).check(Code::ColumnGenerated, Some(Error));
}

#[test]
fn types() {
    for (column_type, expect) in [
        ("bigint(20) unsigned", None),
        ("tinyint(4)", None),
        ("varchar(20)", None),
        ("float", Some(Error)),
        ("date", Some(Error)),
        ("bit(64)", Some(Error)),
        ("enum('1','2')", Some(Error)),
    ] {
        Case::new().typed(column_type).check(Code::ColumnType, expect);
    }
    Case::new().check(Code::ColumnType, None);
    let why = "ALTER TABLE `shop`.`orders` MODIFY `id` BIGINT NOT NULL, with its COMMENT and";
    Case::new().typed("float").says(Code::ColumnType, Error, why);
    for (column_type, expect) in [
        ("bigint(20)", None),
        ("decimal(20,0)", Some(Warning)),
        ("double", Some(Warning)),
        ("char(19)", Some(Warning)),
    ] {
        Case::new().typed(column_type).check(Code::ColumnNotInteger, expect);
    }
    Case::new().check(Code::ColumnNotInteger, None);
    Case::new().typed("double").says(Code::ColumnNotInteger, Warning, "ids above 2^53");
}

#[test]
fn ids_that_do_not_fit() {
    for (layout, column_type, expect) in [
        ("snowflake", "int(11)", Some(Error)),
        ("snowflake", "bigint(20)", None),
        ("snowflake", "double", Some(Error)),
        ("snowflake", "decimal(19,0)", None),
        ("snowflake", "decimal(19,4)", Some(Error)),
        ("snowflake", "varchar(10)", Some(Error)),
        ("snowflake", "varchar(19)", None),
        ("js-safe", "double", None),
        ("js-safe", "int(10) unsigned", Some(Error)),
        // 17 digits do for some years.
        ("pd-tso", "decimal(18,0)", Some(Warning)),
    ] {
        let case = Case::new().layout(layout).typed(column_type);
        case.check(Code::ColumnTooNarrow, expect);
    }
    let narrow = Case::new().layout("snowflake").typed("int(11)");
    let why = "rowstamp migrate sql --step widen --table 'shop.orders' prints";
    narrow.says(Code::ColumnTooNarrow, Error, why);
    let tso = Case::new().layout("pd-tso").typed("decimal(18,0)");
    tso.says(Code::ColumnTooNarrow, Warning, "shop.g makes larger ids from 20");
    // A sequence.
    let high = |start: &str| Case::new().sequence(&format!("start = {start}")).typed("int(11)");
    high("2147483647").check(Code::ColumnTooNarrow, None);
    high("2147483648").says(Code::ColumnTooNarrow, Error, "the next id of shop.g is 2147483648");
}

#[test]
fn columns_that_fill_up() {
    let int = || Case::new().typed("int(11)");
    int().holds(1_717_986_915).check(Code::ColumnNearlyFull, None);
    int().holds(1_717_986_920).says(Code::ColumnNearlyFull, Warning, "ids left: 429496727");
    int().bound(1_800_000_000).says(Code::ColumnNearlyFull, Warning, "the next id of shop.g is 1800000000");
    int().sequence("step = 2").holds(2_147_483_640).says(Code::ColumnNearlyFull, Warning, "ids left: 4\n");
    let max = Case::new().sequence("max = 1000").bound(900);
    let why = "max = 1000, and the next id of shop.g is 900; ids left: 101\nraise generators.g.max";
    max.says(Code::ColumnNearlyFull, Warning, why);
}

#[test]
fn javascript() {
    Case::new().layout("snowflake").check(Code::JsUnsafe, Some(Warning));
    Case::new().layout("js-safe").check(Code::JsUnsafe, None);
    // An id that does not fit the column is never stored.
    Case::new().layout("snowflake").typed("int(11)").check(Code::JsUnsafe, None);
    let young = "kind = 'timestamp'\nlayout = { epoch = '2025-12-31T00:00:00Z', tick = '1ms', fields = [\
                 { field = 'timestamp', bits = 41 }, { field = 'node', bits = 10 }, { field = 'sequence', bits = 12 }] }";
    Case::new().rules("kind = 'sequence'", young).check(Code::JsUnsafe, Some(Note));
    let sequence = |key: &str| Case::new().sequence(key);
    sequence("max = 9007199254740991").check(Code::JsUnsafe, None);
    sequence("max = 9007199254740992").check(Code::JsUnsafe, Some(Note));
    sequence("start = 9007199254740992").check(Code::JsUnsafe, Some(Warning));
}

#[test]
fn signs_and_widths() {
    Case::new().typed("int(10) unsigned").check(Code::ColumnSigned, None);
    let why = "MODIFY `id` int UNSIGNED NOT NULL, with its COMMENT and other attributes unchanged; the column then holds ids up to 4294967295";
    Case::new().typed("int(11)").says(Code::ColumnSigned, Note, why);

    let two = |second: &str| {
        let rule = "[tables.items]\ncolumn = 'id'\ngenerator = 'g'\n";
        Case::new().more_rules(rule).facts(|facts| facts.tables.push(table("items", second)))
    };
    two("bigint(20)").check(Code::ColumnsDiffer, None);
    // No id is above a signed one's.
    two("bigint(20) unsigned").check(Code::ColumnsDiffer, None);
    two("int(11)").says(Code::ColumnsDiffer, Warning, "the sequence ends at 2147483647 for both");
    let why = "id is int(11), but the column of shop.orders";
    two("int(11)").typed("int(10) unsigned").says(Code::ColumnsDiffer, Warning, why);
    two("int(11)").layout("js-safe").check(Code::ColumnsDiffer, None);
}

#[test]
fn keys() {
    let keys = |indexes: Vec<Index>| Case::new().table(|table| table.indexes = indexes);
    keys(vec![index("PRIMARY", true, &["ID"])]).check(Code::ColumnNotUnique, None);
    keys(vec![index("PRIMARY", true, &["a", "id"])]).check(Code::ColumnNotUnique, Some(Note));
    keys(vec![index("k", false, &["id"])]).check(Code::ColumnNotUnique, Some(Warning));
    let why = "ALTER TABLE `shop`.`orders` ADD UNIQUE KEY (`id`)";
    keys(Vec::new()).says(Code::ColumnNotUnique, Warning, why);

    keys(vec![index("PRIMARY", true, &["a", "id"])]).check(Code::ColumnNotIndexed, Some(Warning));
    keys(vec![index("k", false, &["id", "a"])]).check(Code::ColumnNotIndexed, None);
    let hash = Index { is_ordered: false, ..index("k", true, &["id"]) };
    keys(vec![hash]).check(Code::ColumnNotIndexed, Some(Warning));
    let begins = Index { columns: vec![None], ..index("k", true, &[]) };
    keys(vec![begins]).check(Code::ColumnNotIndexed, Some(Warning));
}

#[test]
fn what_stray_writers_leave() {
    Case::new().column(|column| column.is_nullable = true).says(Code::ColumnDefault, Warning, "stores NULL");
    let why = "stores the column's DEFAULT";
    Case::new().column(|column| column.has_default = true).says(Code::ColumnDefault, Warning, why);
    Case::new().counted().column(|column| column.is_nullable = true).check(Code::ColumnDefault, None);

    let loose = || Case::new().variable("sql_mode", "NO_ENGINE_SUBSTITUTION");
    loose().check(Code::StrayZero, Some(Warning));
    loose().counted().check(Code::StrayZero, None);

    let kept = || Case::new().counted();
    kept().says(Code::AutoIncrementKept, Warning, "migrate sql --step drop --table 'shop.orders'");
    kept().rules("column = 'id'", "column = 'id'\nmode = 'off'").check(Code::AutoIncrementKept, None);
}

#[test]
fn steps() {
    let kept = |keys: &str, increment: &str, offset: &str| {
        Case::new()
            .sequence(keys)
            .counted()
            .variable("auto_increment_increment", increment)
            .variable("auto_increment_offset", offset)
    };
    kept("", "1", "1").check(Code::StepDiffers, None);
    kept("step = 2\noffset = 0", "2", "1").check(Code::StepDiffers, None);
    kept("step = 4\noffset = 2", "2", "1").check(Code::StepDiffers, None);
    kept("step = 2\noffset = 1", "2", "1").says(Code::StepDiffers, Warning, "remainder 1 when divided by 2");
    kept("step = 2", "1", "1").check(Code::StepDiffers, Some(Warning));
    kept("", "2", "1").says(Code::StepDiffers, Warning, "step = 2, offset = 0 for the generator");
    kept("step = 3", "2", "1").check(Code::StepDiffers, Some(Warning));
    // An offset above the increment counts for nothing.
    kept("step = 2\noffset = 0", "2", "4").check(Code::StepDiffers, None);
    let bare = |case: Case| case.column(|column| column.shape.auto_increment = false);
    bare(kept("", "2", "1")).check(Code::StepDiffers, None);

    kept("", "2", "1").check(Code::DriverStep, Some(Note));
    kept("step = 2", "2", "1").check(Code::DriverStep, None);
    Case::new().layout("snowflake").check(Code::DriverStep, None);
    Case::new().layout("sonyflake").says(Code::DriverStep, Note, "65536 apart");
}

#[test]
fn foreign_keys() {
    let key =
        |column_type: &str| Case::new().facts(|facts| facts.foreign_keys.push(foreign_key(column_type)));
    key("bigint(20)").check(Code::ForeignKeyType, None);
    key("bigint(20) unsigned").check(Code::ForeignKeyType, None);
    let why = "ALTER TABLE `shop`.`items` MODIFY `order_id` bigint(20)";
    key("int(11)").says(Code::ForeignKeyType, Error, why);
    key("int(10) unsigned").typed("int(11)").check(Code::ForeignKeyType, Some(Warning));
    key("int(11)").typed("int(11)").check(Code::ForeignKeyType, None);
    let other = key("int(11)").facts(|facts| facts.foreign_keys[0].to.2 = "a".to_owned());
    other.check(Code::ForeignKeyType, None);
}

#[test]
fn floors() {
    let none = |start: &str| Case::new().sequence(&format!("seed = 'none'\nstart = {start}"));
    none("10").holds(9).check(Code::StartBelowTable, None);
    none("10").holds(10).says(Code::StartBelowTable, Error, "start = 11");
    Case::new().holds(10).check(Code::StartBelowTable, None);
    // Once it is made its start means nothing.
    none("10").holds(10).bound(11).check(Code::StartBelowTable, None);

    Case::new().holds(10).bound(11).check(Code::RowsAboveBound, None);
    let why = "rowstamp store raise shop.g --above-tables";
    Case::new().holds(11).bound(11).says(Code::RowsAboveBound, Warning, why);
    none("1").holds(11).bound(11).check(Code::RowsAboveBound, Some(Error));
    let keep = || Case::new().rules("column = 'id'", "column = 'id'\nexplicit = 'keep'").holds(11);
    keep().bound(11).check(Code::RowsAboveBound, None);
    keep().bound(11).check(Code::KeepAboveBound, Some(Warning));
    keep().bound(12).check(Code::KeepAboveBound, None);
    keep().check(Code::KeepAboveBound, None);
}

#[test]
fn ids_ahead_of_the_clock() {
    let of = |layout: &str, highest: u64| Case::new().layout(layout).holds(highest);
    // NOW, in milliseconds since the epoch of Snowflake.
    let now: u64 = 478_390_625_343 << 22;
    of("snowflake", now - (1 << 40)).check(Code::IdsAhead, None);
    of("snowflake", now + (100_000 << 22)).says(Code::IdsAhead, Warning, "which shop.g reads as 20");
    of("snowflake", u64::MAX).says(Code::IdsAhead, Error, "has no id above");
    of("snowflake", 10_000).check(Code::IdsAhead, None);
    let unread = Case::new().table(|table| table.highest = Highest::Unread("no index".to_owned()));
    unread.says(Code::HighestUnread, Note, "no index");
    let denied = || Case::new().table(|table| table.highest = Highest::Denied("1142".to_owned()));
    denied().says(Code::HighestUnread, Error, "GRANT SELECT ON `shop`.`orders` to the control account");
    denied().sequence("seed = 'none'").check(Code::HighestUnread, Some(Note));
    Case::new().check(Code::HighestUnread, None);
}
