use super::Severity::{Error, Note, Warning};
use super::{BodyKind, Case, Code, trigger};

const UNKNOWN: &str = "SELECT a \\ b";

#[test]
fn bodies_that_insert() {
    use BodyKind::{Event, Procedure};
    let of = |text: &str| Case::new().body(Procedure, text);
    of("INSERT INTO other (a) VALUES (1)").check(Code::BodyInserts, None);
    of("INSERT INTO crm.orders (a) VALUES (1)").check(Code::BodyInserts, None);
    let why = "without AUTO_INCREMENT the INSERT fails";
    of("INSERT INTO orders (a) VALUES (1)").says(Code::BodyInserts, Error, why);
    let kept = || of("REPLACE shop.orders SET a = 1").counted();
    kept().says(Code::BodyInserts, Error, "and the generator issues the same id");
    let apart = kept().sequence("step = 2").variable("auto_increment_increment", "2");
    apart.says(Code::BodyInserts, Warning, "the generator does not issue the counter's ids");
    of("INSERT INTO orders (ID) VALUES (1)").says(Code::BodyInserts, Warning, "writes id itself");
    of("INSERT INTO orders VALUES (1, 2)").says(Code::BodyInserts, Warning, "without a column list");
    Case::new().body(Event, "REPLACE INTO orders (a) VALUES (1)").says(Code::BodyInserts, Error, "event: ");
    Case::new()
        .body(trigger("other", "AFTER"), "INSERT orders (a) VALUES (NEW.b)")
        .check(Code::BodyInserts, Some(Error));
    // By the sql_mode that it was made under, double quotes are names.
    let quoted = of("INSERT INTO \"orders\" (a) VALUES (1)");
    quoted.check(Code::BodyInserts, None);
    quoted
        .facts(|facts| facts.bodies[0].sql_mode = "ANSI_QUOTES".to_owned())
        .check(Code::BodyInserts, Some(Error));
    // Through a view, also one of several tables.
    let joins = "select `shop`.`orders`.`a` AS `a` from (`shop`.`orders` join `shop`.`items`)";
    of("INSERT INTO v (a) VALUES (1)").view("v", joins, &["a"]).check(Code::BodyInserts, Some(Error));
    let view = of("INSERT INTO v (a) VALUES (1)");
    view.view("v", "select `shop`.`orders`.`id` AS `id` from `shop`.`orders`", &["id"])
        .check(Code::BodyInserts, Some(Error));
}

#[test]
fn bodies_that_read_and_assign() {
    let set = "SET NEW.id = 5";
    Case::new().body(trigger("orders", "BEFORE"), set).check(Code::TriggerSetsId, Some(Warning));
    Case::new().body(trigger("other", "BEFORE"), set).check(Code::TriggerSetsId, None);
    Case::new().body(trigger("orders", "BEFORE"), "SET NEW.a = NEW.id").check(Code::TriggerSetsId, None);

    let read = "SET @x = LAST_INSERT_ID()";
    Case::new().body(trigger("orders", "AFTER"), read).check(Code::ReadsLastInsertId, Some(Warning));
    Case::new().body(trigger("other", "AFTER"), read).check(Code::ReadsLastInsertId, Some(Note));
    Case::new().body(BodyKind::Procedure, read).check(Code::ReadsLastInsertId, Some(Note));
    let own = format!("BEGIN INSERT INTO other (a) VALUES (1); {read}; END");
    Case::new().body(BodyKind::Procedure, &own).check(Code::ReadsLastInsertId, None);
    let ruled = own.replace("other", "orders");
    Case::new().body(BodyKind::Procedure, &ruled).check(Code::ReadsLastInsertId, Some(Warning));
    let elsewhere =
        Case::new().body(BodyKind::Procedure, read).facts(|facts| facts.bodies[0].schema = "crm".to_owned());
    elsewhere.check(Code::ReadsLastInsertId, None);
}

#[test]
fn bodies_that_are_not_understood() {
    let of = |text: &str| Case::new().body(BodyKind::Function, text);
    of("EXECUTE s").check(Code::DynamicSql, Some(Note));
    of("SELECT 1").check(Code::DynamicSql, None);
    of(UNKNOWN).says(Code::BodyUnreadable, Warning, "a backslash at byte 9");
    of("SELECT 1").check(Code::BodyUnreadable, None);
    let why = "not written in SQL";
    of("x").facts(|facts| facts.bodies[0].is_foreign = true).says(Code::BodyUnreadable, Warning, why);
    of("x").facts(|facts| facts.bodies[0].text = None).check(Code::BodyUnseen, Some(Warning));
    of("SELECT 1").check(Code::BodyUnseen, None);
}

#[test]
fn views() {
    let whole = "select `shop`.`orders`.`id` AS `id`,`shop`.`orders`.`a` AS `a` from `shop`.`orders`";
    let hides = "select `shop`.`orders`.`a` AS `a` from `shop`.`orders`";
    let joins = "select `shop`.`orders`.`id` AS `id` from (`shop`.`orders` join `shop`.`items`)";
    let twice = "select `shop`.`orders`.`id` AS `id`,`shop`.`orders`.`id` AS `k` from `shop`.`orders`";
    Case::new().view("v", whole, &["id", "a"]).check(Code::ViewRefused, None);
    Case::new().view("v", hides, &["a"]).says(Code::ViewRefused, Warning, "the view does not show id");
    Case::new().view("v", joins, &["id"]).says(Code::ViewRefused, Warning, "not a view of shop.orders alone");
    Case::new().view("v", twice, &["id", "k"]).says(Code::ViewRefused, Warning, "more than once");
    Case::new().view("v", &joins.replace("orders", "other"), &["id"]).check(Code::ViewRefused, None);
    // Layers of views, each of two: more ways than anyone can walk.
    let mut layers = Case::new();
    for n in 1..30 {
        for name in ["x", "y"] {
            let below = n - 1;
            let text =
                format!("select `x`.`id` AS `id` from (`shop`.`x{below}` `x` join `shop`.`y{below}` `y`)");
            layers = layers.view(&format!("{name}{n}"), &text, &["id"]);
        }
    }
    layers.check(Code::ViewRefused, None);
    let read_only = Case::new().view("v", joins, &["id"]).facts(|facts| facts.views[0].is_updatable = false);
    read_only.check(Code::ViewRefused, None);
    // A view of a view uses the names that the inner view gives the columns.
    let renamed = || Case::new().view("v", whole, &["k", "x"]);
    let over = |column: &str| format!("select `shop`.`v`.`{column}` AS `c` from `shop`.`v`");
    renamed().view("w", &over("k"), &["c"]).check(Code::ViewRefused, None);
    renamed().view("w", &over("x"), &["c"]).says(Code::ViewRefused, Warning, "the view does not show id");

    Case::new().view("v", "", &["id"]).check(Code::ViewUnseen, Some(Warning));
    Case::new().view("v", whole, &["id", "a"]).check(Code::ViewUnseen, None);
}

#[test]
fn rights() {
    let with = |grants: &[&str]| {
        let grants = grants.iter().map(|&grant| grant.to_owned()).collect();
        Case::new().facts(|facts| facts.grants = grants)
    };
    let basic = with(&["GRANT SELECT, SHOW VIEW ON `shop`.* TO `r`@`%`"]);
    basic.says(Code::TriggersUnseen, Warning, "GRANT TRIGGER ON `shop`.*");
    basic.check(Code::EventsUnseen, Some(Warning));
    basic.says(Code::RoutinesUnseen, Warning, "GRANT SELECT ON mysql.proc");
    let all = || {
        with(&[
            "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON `shop`.* TO `r`@`%`",
            "GRANT SELECT ON `mysql`.`proc` TO `r`@`%`",
        ])
    };
    all().check(Code::TriggersUnseen, None);
    all().check(Code::EventsUnseen, None);
    all().check(Code::RoutinesUnseen, None);
    // On MySQL it is another right.
    let mysql = all().variable("version", "9.4.0");
    mysql.says(Code::RoutinesUnseen, Warning, "GRANT SHOW_ROUTINE ON *.*");
    let mysql = mysql.facts(|facts| facts.grants.push("GRANT SHOW_ROUTINE ON *.* TO `r`@`%`".to_owned()));
    mysql.check(Code::RoutinesUnseen, None);
}
