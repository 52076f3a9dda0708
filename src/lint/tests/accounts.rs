use super::Severity::{Note, Warning};
use super::{Case, Code};
use crate::schema::facts::{Privilege, Scope};

/// Rights of one account, each as `PRIVILEGE`, `PRIVILEGE(column)` on the table, `PRIVILEGE ON TABLE` or `PRIVILEGE ON SCHEMA`.
fn with(account: &str, rights: &[&str]) -> Case {
    add(Case::new(), account, rights)
}

fn add(case: Case, account: &str, rights: &[&str]) -> Case {
    let (schema, table) = ("shop".to_owned(), "orders".to_owned());
    let right = |text: &&str| {
        let (privilege, on) = if let Some(privilege) = text.strip_suffix(" ON TABLE") {
            (privilege, Scope::Table { schema: schema.clone(), table: table.clone() })
        } else if let Some(privilege) = text.strip_suffix(" ON SCHEMA") {
            (privilege, Scope::Schema("sh_p".to_owned()))
        } else if let Some((privilege, column)) = text.split_once('(') {
            let column = column.trim_end_matches(')').to_owned();
            (privilege, Scope::Column { schema: schema.clone(), table: table.clone(), column })
        } else {
            (*text, Scope::All)
        };
        Privilege { name: privilege.to_owned(), on }
    };
    let rights: Vec<Privilege> = rights.iter().map(right).collect();
    case.facts(|facts| drop(facts.accounts.rights.insert(account.to_owned(), rights)))
}

const APP: &str = "'app'@'%'";
const TEMPORARY: &str = "CREATE TEMPORARY TABLES ON SCHEMA";

#[test]
fn grants_on_single_columns() {
    let of = |rights: &[&str]| with(APP, rights);
    let why = "GRANT INSERT (`id`) ON `shop`.`orders` TO 'app'@'%'";
    of(&["INSERT(a)"]).says(Code::AccountDenied, Warning, why);
    of(&["INSERT(a)", "INSERT(ID)"]).check(Code::AccountDenied, None);
    of(&["INSERT(a)", "INSERT ON TABLE"]).check(Code::AccountDenied, None);
    of(&["INSERT(a)", "INSERT ON SCHEMA"]).check(Code::AccountDenied, None);
    of(&["INSERT(a)", "INSERT"]).check(Code::AccountDenied, None);
    of(&["SELECT(a)"]).check(Code::AccountDenied, None);
    let elsewhere = |facts: &mut crate::schema::facts::Facts| facts.tables[0].name = "items".to_owned();
    of(&["INSERT(a)"]).rules("orders", "items").facts(elsewhere).check(Code::AccountDenied, None);

    let update = "GRANT UPDATE (`id`) ON `shop`.`orders` TO 'app'@'%'";
    of(&["INSERT", "UPDATE(a)", "SELECT"]).says(Code::AccountDenied, Warning, update);
    of(&["INSERT", "UPDATE", "SELECT(a)"]).check(Code::AccountDenied, None);
    of(&["INSERT", "UPDATE(a)", "UPDATE(id)"]).check(Code::AccountDenied, None);
    of(&["INSERT", "SELECT(a)"]).check(Code::AccountDenied, None);
    // MySQL asks for no right on columns that the update list leaves alone.
    let mysql = of(&["INSERT", "UPDATE(a)", "SELECT"]).variable("version", "9.4.0");
    mysql.check(Code::AccountDenied, None);
}

#[test]
fn what_a_stage_needs() {
    let why = "GRANT CREATE TEMPORARY TABLES ON `shop`.* TO 'app'@'%'";
    with(APP, &["INSERT", "SELECT"]).says(Code::AccountUnstaged, Note, why);
    let select = "GRANT SELECT ON `shop`.`orders` TO 'app'@'%'";
    with(APP, &["INSERT ON TABLE", TEMPORARY]).says(Code::AccountUnstaged, Note, select);
    with(APP, &["INSERT ON TABLE", TEMPORARY, "SELECT(a)"]).check(Code::AccountUnstaged, None);
    with(APP, &["INSERT(id)", TEMPORARY]).check(Code::AccountUnstaged, None);
    with(APP, &["SELECT"]).check(Code::AccountUnstaged, None);
}

#[test]
fn roles_count_and_are_no_accounts() {
    let granted = |member: &str, role: &str| {
        let (member, role) = (member.to_owned(), role.to_owned());
        move |facts: &mut crate::schema::facts::Facts| {
            facts.accounts.roles.entry(member).or_default().insert(role);
        }
    };
    let role = "'adds'@''";
    let case = || add(with(APP, &["INSERT(a)"]), role, &["INSERT(id)"]);
    case().check(Code::AccountDenied, Some(Warning));
    case().facts(granted(APP, role)).check(Code::AccountDenied, None);
    let by_another = case().facts(granted(APP, "'more'@''")).facts(granted("'more'@''", role));
    by_another.check(Code::AccountDenied, None);
    add(case(), "'PUBLIC'@''", &["INSERT(id)"]).check(Code::AccountDenied, None);
    // An account that has all its rights by a role is an account too.
    let by_role = add(Case::new(), "'r'@'%'", &["INSERT(a)"]).facts(granted(APP, "'r'@'%'"));
    by_role.says(Code::AccountDenied, Warning, "TO 'app'@'%'");
}

#[test]
fn many_accounts_are_one_finding() {
    let case = (0..20).fold(Case::new(), |case, nth| add(case, &format!("'u{nth:02}'@'%'"), &["INSERT(a)"]));
    case.says(Code::AccountDenied, Warning, "'u07'@'%' and 12 more");
}

#[test]
fn whose_grants_are_seen() {
    let with = |grant: &str| {
        let grant = grant.to_owned();
        Case::new().facts(|facts| facts.grants = vec![grant])
    };
    with("GRANT SELECT ON `shop`.* TO `r`@`%`").check(Code::AccountsUnseen, Some(Note));
    with("GRANT SELECT ON `mysql`.`proc` TO `r`@`%`").check(Code::AccountsUnseen, Some(Note));
    with("GRANT SELECT ON `mysql`.* TO `r`@`%`").check(Code::AccountsUnseen, None);
}
