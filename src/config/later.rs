//! Keys that are known and whose feature is not in this version: refused where they are set, never
//! silently ignored.

use super::keys::{ConfigFile, OnDoubt};
use crate::toml_file::{Finding, Source};

pub(super) fn not_in_this_version(source: &Source<ConfigFile>) -> Vec<Finding> {
    let keys = &source.keys;
    let rows = [("rewrite.on_doubt", keys.rewrite.on_doubt != OnDoubt::Refuse, "write \"refuse\"")];
    let set = rows.into_iter().filter(|(_, is_set, _)| *is_set);
    set.map(|(key, _, remedy)| source.error(key, format!("is not in this version of Rowstamp; {remedy}")))
        .collect()
}
