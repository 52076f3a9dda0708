//! `rowstamp check --online`: the rules against the live server and the store.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use crate::cli::check::{print_json, summary};
use crate::cli::output::stdout;
use crate::cli::{EXIT_FOUND, Usage, block_on};
use crate::config::Loaded;
use crate::lint::report::Report;
use crate::lint::{self, Finding};
use crate::opened::facts::access_of;
use crate::opened::{self, control, locks};
use crate::proxy::settings::Offer;
use crate::rules::RuleSet;
use crate::rules::pattern::is_pattern;
use crate::schema::Schema;
use crate::schema::facts::Facts;
use crate::toml_file::{Findings, Severity};

pub(super) fn run(loaded: &Loaded, json: bool) -> anyhow::Result<ExitCode> {
    let Some(control) = control(&loaded.config) else {
        return Err(no_account(Some(&loaded.rules)).into());
    };
    let (facts, store, locks) = block_on(async {
        let schema = Schema::connect(&control).await?;
        let facts = Facts::read(&schema, &loaded.rules).await?;
        let store = opened::facts::facts(&loaded.config).await;
        let locks = locks::findings(&schema, &loaded.config, &facts, &loaded.rules, &store).await;
        Ok((facts, store, locks))
    })?;
    let mut findings: Vec<Finding> = loaded.warnings.iter().map(Finding::from).collect();
    findings.extend(lint::findings(&facts, &loaded.rules, &store, Some(&access_of(&loaded.config))));
    let wanted = loaded.config.proxy.backend.compression.always().map_or(&[][..], Offer::algorithms);
    findings.extend(lint::compression(&facts.server, wanted));
    findings.extend(locks);
    let report = Report::of(findings);
    let mut out = stdout();
    if json {
        print_json(&mut out, &report)?;
    } else {
        // If the store was not read, a finding says so.
        let users = store.generators.is_ok().then_some(store.users.len());
        write!(out, "{report}{}", summary(&loaded.rules, &loaded.config, users))?;
    }
    Ok(ExitCode::from(if report.errors > 0 { EXIT_FOUND } else { 0 }))
}

/// True if the findings about the files say that there is no control account.
pub(super) fn lacks_account(findings: &Findings) -> bool {
    findings.iter().any(|finding| {
        finding.severity == Severity::Warning && finding.key.as_deref() == Some("backend.control")
    })
}

/// An error that says how to create the control account. `rules`: the rules whose schemas the account is for.
pub(super) fn no_account(rules: Option<&RuleSet>) -> Usage {
    let schemas: BTreeSet<&str> =
        rules.iter().flat_map(|rules| rules.rules()).map(|rule| rule.schema.as_str()).collect();
    let schemas = if schemas.is_empty() { BTreeSet::from(["shop"]) } else { schemas };
    let grants: Vec<String> = schemas
        .iter()
        .map(|schema| {
            format!("  GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON {} TO rowstamp@'%';\n", granted(schema))
        })
        .collect();
    Usage(format!(
        "[backend.control] is missing: --online reads the server through the control account. Create this account on the \
         server:\n\n  CREATE USER rowstamp@'%' IDENTIFIED BY '...';\n{}  GRANT SELECT ON mysql.proc TO rowstamp@'%';     \
         -- MariaDB, for routines\n  GRANT SHOW_ROUTINE ON *.* TO rowstamp@'%';     -- MySQL, for routines\n\nand write it into \
         rowstamp.toml:\n\n  [backend.control]\n  user = \"rowstamp\"\n  password_file = \"control.password\"",
        grants.concat()
    ))
}

/// The tables of a database, or of those that a pattern means, as GRANT names them.
fn granted(schema: &str) -> String {
    if !is_pattern(schema) {
        return format!("`{schema}`.*");
    }
    if schema == "*" {
        return "*.*".to_owned();
    }
    let wild = |c: char| match c {
        '*' => "%".to_owned(),
        '?' => "_".to_owned(),
        '_' | '%' => format!("\\{c}"),
        c => c.to_string(),
    };
    format!("`{}`.*", schema.chars().map(wild).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{granted, no_account};

    #[test]
    fn databases_as_grant_names_them() {
        for (schema, expect) in [
            ("shop", "`shop`.*"),
            ("shop_1", "`shop_1`.*"),
            ("shop_*", r"`shop\_%`.*"),
            ("s?op*", "`s_op%`.*"),
            ("*", "*.*"),
        ] {
            assert_eq!(granted(schema), expect);
        }
    }

    #[test]
    fn how_to_make_an_account() {
        let text = no_account(None).to_string();
        for expect in ["CREATE USER", "TRIGGER, EVENT ON `shop`.*", "[backend.control]\n  user ="] {
            assert!(text.contains(expect), "{text}");
        }
    }
}
