//! Users and their rights, against the rules: who draws ids without an INSERT.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::Survey;
use crate::rules::model::GeneratorSpec;
use crate::store::StoreError;
use crate::toml_file::nearest;
use crate::users::{Right, Scope, User};

/// The users who can log in, besides the users of the store, and the doors.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The users of rowstamp.toml.
    pub users: Arc<[Arc<User>]>,
    /// The addresses of the doors that are on.
    pub doors: Vec<String>,
}

pub(in crate::lint) fn judge(access: &Access, survey: &Survey<'_>, found: &mut Vec<Finding>) {
    let generators = names(survey.rules.generators());
    // A door gives no ids of the others.
    let acting = names(survey.rules.acting_generators());
    let draws = |user: &User| {
        let logs_in = user.has_password() || user.tokens().next().is_some();
        logs_in && acting.iter().any(|generator| user.may(Right::Take, generator))
    };
    let mut may_draw = access.users.iter().any(|user| draws(user));
    for (name, user) in &survey.store.users {
        match user {
            Err(error) => found.push(unreadable(name, error)),
            Ok(_) if access.users.iter().any(|of_file| of_file.name == *name) => found.push(twice(name)),
            Ok(user) => {
                may_draw |= draws(user);
                found.extend(unmatched(user, &generators));
            }
        }
    }
    if let (false, Some(generator), Ok(_)) = (may_draw, acting.first(), &survey.store.generators) {
        found.extend(nobody(access, generator));
    }
}

fn names<'a>(specs: impl Iterator<Item = &'a GeneratorSpec>) -> Vec<String> {
    specs.map(|spec| spec.name.to_string()).collect()
}

fn place(user: &str) -> Where {
    Where::object(format_args!("user {user}"))
}

fn unreadable(name: &str, error: &StoreError) -> Finding {
    let (why, remedy) = match error {
        StoreError::Corrupt { reason, .. } => {
            (reason.clone(), format!("DROP USER {name} on the console, and make the user again"))
        }
        // The error's text has the remedy.
        error => (error.to_string(), String::new()),
    };
    let why =
        format!("the record in the store cannot be read, so the user has no rights and cannot log in: {why}");
    Finding::error(Code::UserUnreadable, place(name), why, remedy)
}

fn twice(name: &str) -> Finding {
    let why = "rowstamp.toml and the store have a user of this name; on this proxy the user of rowstamp.toml counts";
    let remedy = "give the user of [[admin.users]] another name, and reload";
    Finding::warning(Code::UserTwice, place(name), why, remedy)
}

/// One finding for each of those whose generators are not there. CREATE is for generators that are not there yet.
fn unmatched(user: &User, generators: &[String]) -> Vec<Finding> {
    let mut rights: BTreeMap<&Scope, Vec<&str>> = BTreeMap::new();
    for grant in user.grants().iter().filter(|grant| grant.right != Right::Create) {
        if grant.on != Scope::All && !generators.iter().any(|generator| grant.on.covers(generator)) {
            rights.entry(&grant.on).or_default().push(grant.right.word());
        }
    }
    let finding = |(on, rights): (&Scope, Vec<&str>)| {
        let rights = rights.join(", ");
        let none = match on {
            Scope::Schema(schema) => format!("no generator of {schema}"),
            Scope::All | Scope::One(_) => "no such generator".to_owned(),
        };
        let why = format!("the user has {rights} on {on}, and the rules have {none}");
        let written = on.to_string();
        let near = match on {
            Scope::One(_) => nearest(&written, generators.iter().map(String::as_str)),
            Scope::All | Scope::Schema(_) => None,
        };
        let remedy = match near {
            Some(near) => format!("if {near} is meant, GRANT the rights on it, and REVOKE those on {on}"),
            None => "REVOKE the rights, unless the rules will have it, or those of another proxy have it"
                .to_owned(),
        };
        Finding::note(Code::GrantUnmatched, place(&user.name), why, remedy)
    };
    rights.into_iter().map(finding).collect()
}

fn nobody(access: &Access, generator: &str) -> Option<Finding> {
    if access.doors.is_empty() {
        return None;
    }
    let doors = access.doors.join(" or ");
    let why = format!(
        "no user who can log in has the TAKE right on a generator that gives ids: clients that connect to {doors} get none"
    );
    let remedy = if access.users.iter().any(|user| user.may_everywhere(Right::Admin)) {
        format!("CREATE USER, and GRANT TAKE ON {generator} TO the user, on the console")
    } else {
        format!(
            "write a user with role = \"write\" into [[admin.users]], who can make users on the console and GRANT TAKE ON {generator} TO them"
        )
    };
    Some(Finding::warning(Code::NobodyDraws, Where::object("users"), why, remedy))
}
