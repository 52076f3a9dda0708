use super::Severity::{Error, Warning};
use super::{Case, Code, Facts, NameCase, TableKind, table};

#[test]
fn schemas_and_tables_that_are_not_there() {
    Case::new().check(Code::SchemaMissing, None);
    let other = Case::new().rules("'shop'", "'shop2'");
    other.check(Code::TableMissing, None);
    other.says(Code::SchemaMissing, Error, "GRANT SELECT, SHOW VIEW ON `shop2`.*");
    Case::new().rules("'shop'", "'Shop'").says(Code::SchemaMissing, Error, "write schema = \"shop\"");

    Case::new().check(Code::TableMissing, None);
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
