use super::Severity::{Error, Note, Warning};
use super::{Case, Code, Facts, NameCase, TableKind, table};

#[test]
fn schemas_and_tables_that_are_not_there() {
    Case::new().check(Code::SchemaMissing, None);
    let other = Case::new().rules("'shop'", "'shop2'");
    other.check(Code::TableMissing, None);
    other.says(Code::SchemaMissing, Error, "GRANT SELECT, SHOW VIEW ON `shop2`.*");
    Case::new().rules("'shop'", "'Shop'").says(Code::SchemaMissing, Error, "write schema = \"shop\"");

    let other = Case::new().rules("[tables.orders]", "[tables.order]");
    other.says(Code::TableMissing, Error, "the database shop has no table order\ncorrect the name");
    let blind = other.facts(|facts| facts.grants.clear());
    blind.says(Code::TableMissing, Error, "GRANT SELECT, SHOW VIEW ON `shop`.*");
}

#[test]
fn letter_case() {
    let upper = || Case::new().rules("[tables.orders]", "[tables.Orders]");
    upper().says(Code::NameCase, Error, "write [tables.\"orders\"]");
    upper().check(Code::TableMissing, None);
    let folds = |facts: &mut Facts| facts.case = NameCase::Insensitive;
    upper().facts(folds).check(Code::NameCase, None);

    let both = || Case::new().more_rules("[tables.ORDERS]\ncolumn = 'id'\ngenerator = 'g'\n");
    both().facts(folds).check(Code::RulesDifferInCase, Some(Error));
    both().facts(folds).check(Code::TableAmbiguous, Some(Error));
    both().check(Code::RulesDifferInCase, None);
}

#[test]
fn what_is_no_table() {
    let kind = |kind| Case::new().table(|table| table.kind = kind);
    kind(TableKind::View).says(Code::NotATable, Error, "shop.orders is a view");
    kind(TableKind::Other).says(Code::NotATable, Error, "shop.orders is no table");
    kind(TableKind::Base).check(Code::NotATable, None);
}

#[test]
fn patterns() {
    let rules = |name: &str| format!("[tables.'{name}']\ncolumn = 'id'\ngenerator = 'g'\n");
    let two = |name: &str| Case::new().more_rules(&rules(name));
    two("item_*").says(Code::PatternUnmatched, Warning, "no table of shop matches \"item_*\"");
    // All that it matches has a rule of its own.
    two("order*").check(Code::PatternUnmatched, Some(Warning));
    let with_item = |facts: &mut Facts| facts.tables.push(table("item_1", "bigint"));
    two("item_*").facts(with_item).check(Code::PatternUnmatched, None);
    two("item_*").facts(with_item).check(Code::TableAmbiguous, None);
    let three = two("item_*").more_rules(&rules("*_1")).facts(with_item);
    three.says(Code::TableAmbiguous, Error, "\"item_*\"");
    three.check(Code::PatternUnmatched, None);
}

#[test]
fn tables_that_a_pattern_passes_over() {
    let mut rule = "[tables.'item_*']\ncolumn = 'id'\ngenerator = 'g'\n".to_owned();
    let items = |names: [&str; 3], column: &str| {
        let tables = names.map(|name| {
            let mut table = table(name, "bigint");
            column.clone_into(&mut table.columns[0].shape.name);
            table
        });
        move |facts: &mut Facts| {
            facts.tables.extend(tables);
            facts.tables.push(table("item_0", "bigint"));
        }
    };
    let some = || items(["item_1", "item_2", "other"], "k");
    let why = "the rule gives no ids to 2 tables with no column id of a type for ids: item_1, item_2";
    Case::new().more_rules(&rule).facts(some()).says(Code::PatternPasses, Note, why);
    Case::new().more_rules(&rule).facts(some()).check(Code::ColumnMissing, None);
    Case::new()
        .more_rules(&rule)
        .facts(items(["item_1", "item_2", "i"], "ID"))
        .check(Code::PatternPasses, None);
    rule = rule.replace("'id'", "'nr'");
    let none = "the rule has no effect: it matches only tables with no column nr of a type for ids: item_1, item_2, item_0";
    Case::new().more_rules(&rule).facts(some()).says(Code::PatternPasses, Warning, none);
    rule = rule.replace("'nr'", "'auto'");
    let counted = Case::new().more_rules(&rule).facts(some());
    let counted = counted.facts(|facts| facts.tables[1].columns[0].shape.auto_increment = true);
    let why = "the rule gives no ids to 2 tables with no AUTO_INCREMENT column and no primary key";
    counted.says(Code::PatternPasses, Note, why);
    counted.check(Code::ColumnMissing, None);
    let exact = Case::new().rules("column = 'id'", "column = 'auto'");
    exact.says(Code::ColumnMissing, Error, "write the column's name in the rule; the table has id");
}

#[test]
fn patterns_of_schemas() {
    let of = |schema: &str, table: &str| {
        let rules =
            format!("schema = '{schema}'\n[tables.'{table}']\ncolumn = 'id'\ngenerator = '{{table}}'\n");
        Case { rules, ..Case::new() }
    };
    let with_more = |facts: &mut Facts| {
        facts.schemas.extend(["shop_2".to_owned(), "crm".to_owned()]);
        for schema in ["shop_2", "crm"] {
            let (mut lacks, mut other) = (table("lacks", "bigint"), table("orders", "bigint"));
            (lacks.schema, other.schema) = (schema.to_owned(), schema.to_owned());
            "no".clone_into(&mut lacks.columns[0].shape.name);
            facts.tables.extend([lacks, other]);
        }
    };
    for table in ["*", "orders", "o*"] {
        let case = of("s?op*", table);
        for code in [Code::SchemaMissing, Code::TableMissing, Code::PatternUnmatched, Code::PatternPasses] {
            case.check(code, None);
        }
    }
    let why = "the rule gives no ids to 1 table with no column id of a type for ids: shop_2.lacks";
    of("shop*", "*").facts(with_more).says(Code::PatternPasses, Note, why);
    let why = "the control account sees no table that matches \"*\" in a database that matches \"crm_*\", except tables with their own rules";
    of("crm_*", "*").facts(with_more).says(Code::PatternUnmatched, Warning, why);
    of("shop*", "items").check(Code::PatternUnmatched, Some(Warning));
    // The generator that is made for a table is judged as if it were written.
    let stored = |name: &str| {
        let mut case = of("s*", "*").bound(7);
        let records = case.store.generators.as_mut().unwrap();
        let mut record = records.remove("shop.g").unwrap();
        record.kind = "timestamp".to_owned();
        records.insert(name.to_owned(), record);
        case
    };
    stored("shop.orders").check(Code::GeneratorDiffers, Some(Error));
    stored("shop.other").check(Code::GeneratorDiffers, None);
    // Two files claim it.
    let both = "[tables.'*s']\ncolumn = 'id'\ngenerator = '{table}'\n";
    let two = of("s*", "o*").more_rules(both);
    let why = "\"*s\" (rules.toml:5) and \"o*\" (rules.toml:2) both match the table";
    two.says(Code::TableAmbiguous, Error, why);
}
