//! SHOW USERS, SHOW GRANTS and SHOW TOKENS. An ADMIN of all generators sees all of them, others their own.

use std::sync::Arc;

use super::{Field, rows, utc};
use crate::admin::console::answer::Type::{Text, Unsigned};
use crate::admin::console::answer::{Rows, Value};
use crate::users::{Directory, Grant, Home, Right, Token, User};

pub(super) const USERS: [Field<User>; 8] = [
    ("user", Text, |user| (&*user.name).into()),
    ("home", Text, |user| home(user).into()),
    ("password", Text, |user| user.has_password().into()),
    ("tokens", Unsigned, |user| (user.tokens().count() as u64).into()),
    ("grants", Unsigned, |user| (user.grants().len() as u64).into()),
    ("ids", Unsigned, |user| user.usage.ids().into()),
    ("denied", Unsigned, |user| user.usage.denied().into()),
    ("over_quota", Unsigned, |user| user.usage.over_quota().into()),
];

pub(super) const GRANTS: [Field<(Arc<User>, Grant)>; 6] = [
    ("user", Text, |(user, _)| (&*user.name).into()),
    ("privilege", Text, |(_, grant)| grant.right.word().into()),
    ("generators", Text, |(_, grant)| grant.on.to_string().into()),
    ("ids_per_second", Unsigned, |(_, grant)| grant.per_second.into()),
    ("home", Text, |(user, _)| home(user).into()),
    ("statement", Text, |(user, grant)| match user.home {
        // The role of a user of the file says the right, and no statement changes that.
        Home::File => Value::Null,
        Home::Store => grant.statement(&user.name).into(),
    }),
];

pub(super) const TOKENS: [Field<(Arc<User>, Token)>; 4] = [
    ("user", Text, |(user, _)| (&*user.name).into()),
    ("token", Text, |(_, token)| token.id().into()),
    ("made_utc", Text, |(_, token)| utc(token.made).into()),
    ("expires_utc", Text, |(_, token)| token.expires.map(utc).into()),
];

fn home(user: &User) -> &'static str {
    match user.home {
        Home::File => "rowstamp.toml",
        Home::Store => "store",
    }
}

fn seen(users: &Directory, by: &User) -> Vec<Arc<User>> {
    let sees_all = by.may_everywhere(Right::Admin) && users.is_current_for(by);
    let roster = users.roster();
    roster.users().filter(|user| sees_all || user.name == by.name).cloned().collect()
}

pub(super) fn users(users: &Directory, by: &User) -> Rows {
    seen(users, by).iter().map(|user| USERS.iter().map(|(_, _, value)| value(user)).collect()).collect()
}

pub(super) fn grants(users: &Directory, by: &User) -> Rows {
    let of = |user: &Arc<User>| {
        user.grants().iter().map(|grant| (user.clone(), grant.clone())).collect::<Vec<_>>()
    };
    rows(&GRANTS, &seen(users, by).iter().flat_map(of).collect::<Vec<_>>())
}

pub(super) fn tokens(users: &Directory, by: &User) -> Rows {
    let of = |user: &Arc<User>| user.tokens().map(|token| (user.clone(), token.clone())).collect::<Vec<_>>();
    rows(&TOKENS, &seen(users, by).iter().flat_map(of).collect::<Vec<_>>())
}
