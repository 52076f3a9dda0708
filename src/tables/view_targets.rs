//! All views of ruled tables, each followed to its table, read at one moment. Rehearsals need them
//! so: they hold no statement up to look at its view.

use std::collections::BTreeMap;

use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rewrite::through::{STEPS_MAX, TOO_MANY, ViewChain, unclear};
use crate::rules::model::TableShape;
use crate::schema::{Schema, SchemaError, TableKind, ViewText};
use crate::table_name::{FoldedName, NameCase, TableName};
use crate::tables::views::mentioning;

/// The meaning of a view's name.
#[derive(Debug, Clone)]
pub struct ViewTarget {
    pub lookup: Lookup,
    /// The ruled table that its rows go into; where that is not certain, the view itself.
    pub table: TableName,
}

pub type ViewTargets = BTreeMap<FoldedName<'static>, ViewTarget>;

/// The backend's views that mention a table of which `base` knows something: three queries and one
/// more for each 32 of them.
pub async fn read_view_targets(
    schema: &Schema,
    case: NameCase,
    base: impl Fn(&str, &str) -> Option<Lookup>,
) -> Result<ViewTargets, SchemaError> {
    let views = schema.views().await?;
    let found = mentioning(case, &views, |schema, table| base(schema, table).is_some());
    let is_found = |view: &&ViewText| found.contains(&case.fold(&view.schema, &view.name));
    let found: Vec<&ViewText> = views.iter().filter(is_found).collect();
    let names: Vec<_> = found.iter().map(|view| TableName::new(&view.schema, &view.name)).collect();
    let shapes = schema.live_tables(case, &names).await?;
    let live = found.into_iter().zip(shapes).filter_map(|(view, live)| {
        let live = live.filter(|live| live.kind == TableKind::View)?;
        Some((case.fold(&view.schema, &view.name).into_owned(), (view, live.shape)))
    });
    let live: Live<'_> = live.collect();
    Ok(live.keys().filter_map(|name| Some((name.clone(), follow(name, &live, case, &base)?))).collect())
}

type Live<'a> = BTreeMap<FoldedName<'static>, (&'a ViewText, TableShape)>;

/// `None`: its rows go into no ruled table.
fn follow(
    name: &FoldedName<'_>,
    live: &Live<'_>,
    case: NameCase,
    base: impl Fn(&str, &str) -> Option<Lookup>,
) -> Option<ViewTarget> {
    let (view, shape) = live.get(name)?;
    let own = (view.schema.as_str(), view.name.as_str());
    let ends = |lookup, (schema, table): (&str, &str)| {
        Some(ViewTarget { lookup, table: TableName::new(schema, table) })
    };
    let mut chain = ViewChain::new(shape);
    let mut text = &view.definition;
    for _ in 0..STEPS_MAX {
        let from = match chain.step(text) {
            Ok(from) => from,
            Err(why) => return ends(unclear(own, why), own),
        };
        if let Some((next, shape)) = live.get(&case.fold(&from.schema, &from.table)) {
            chain.goes_on(shape.clone());
            text = &next.definition;
            continue;
        }
        return match base(&from.schema, &from.table)? {
            Lookup::Ruled(target) => {
                let Target { rule, table, .. } = &*target;
                ends(chain.ends((own.0, own.1, shape), &target), (&rule.schema, table))
            }
            other => ends(other, (&from.schema, &from.table)),
        };
    }
    ends(unclear(own, TOO_MANY), own)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::follow;
    use crate::ids::block::Spacing;
    use crate::rewrite::plan::Lookup;
    use crate::rewrite::plan::target::Target;
    use crate::rules::model::{ColumnShape, TableShape};
    use crate::schema::ViewText;
    use crate::table_name::NameCase;
    use crate::table_name::NameCase::{Insensitive, Sensitive};

    fn shape(columns: &[&str]) -> TableShape {
        let columns = columns.iter().map(|name| ColumnShape::of(name, "bigint", "bigint(20)", ""));
        TableShape { columns: columns.collect(), shows_insert_id: false, fires_on_update: false }
    }

    fn target() -> Arc<Target> {
        let text = "schema = \"s\"\n[generators.g]\nkind = \"sequence\"\nseed = \"none\"\n\
                    [tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n";
        let rules = crate::rules::RuleSet::of_text(text);
        let rule = rules.find(Sensitive, "s", "t").unwrap().unwrap().clone();
        let shape = Some(Arc::new(shape(&["id", "a"])));
        let spacing = Spacing::by(std::num::NonZeroU64::MIN);
        Arc::new(Target::new(rule, "t", shape, spacing))
    }

    /// The id's name in the view, or what else comes of it, and the table.
    #[track_caller]
    fn check(case: NameCase, views: &[(&str, &[&str], &str)], expect: &str) {
        let texts: Vec<_> = views
            .iter()
            .map(|(name, columns, definition)| {
                let text =
                    ViewText { schema: "s".into(), name: (*name).into(), definition: (*definition).into() };
                (text, shape(columns))
            })
            .collect();
        let live: BTreeMap<_, _> = texts
            .iter()
            .map(|(text, shape)| (case.fold("s", &text.name).into_owned(), (text, shape.clone())))
            .collect();
        let base = |schema: &str, table: &str| {
            (case.fold(schema, table) == case.fold("s", "t")).then(|| Lookup::Ruled(target()))
        };
        let said = match follow(&case.fold("s", views[0].0), &live, case, base) {
            None => "-".to_owned(),
            Some(found) => {
                let said = match found.lookup {
                    Lookup::Ruled(target) => target.id_column().to_owned(),
                    Lookup::ServerFirst(why) => why,
                    other => format!("{other:?}"),
                };
                format!("{}: {said}", found.table.table)
            }
        };
        assert!(said.starts_with(expect), "{said}");
    }

    #[test]
    fn views_are_followed_to_their_table() {
        let plain = "select `s`.`t`.`id` AS `nr`,`s`.`t`.`a` AS `a` from `s`.`t`";
        let outer = "select `v`.`a` AS `b`,`v`.`nr` AS `no` from `s`.`v`";
        check(Sensitive, &[("v", &["nr", "a"], plain)], "t: nr");
        check(Sensitive, &[("w", &["b", "no"], outer), ("v", &["nr", "a"], plain)], "t: no");
        check(Sensitive, &[("v", &["nr", "a"], &plain.replace("`s`.`t`", "`s`.`u`"))], "-");
        let upper = plain.replace("from `s`.`t`", "from `S`.`T`");
        check(Insensitive, &[("v", &["nr", "a"], &upper)], "t: nr");
        check(Sensitive, &[("v", &["nr", "a"], &upper)], "-");
        check(
            Sensitive,
            &[("v", &["a"], "select `s`.`t`.`a` AS `a` from `s`.`t`")],
            "t: s.v: this view of s.t does",
        );
        check(Sensitive, &[("v", &["a"], "")], "v: s.v: this view may insert");
        check(
            Sensitive,
            &[("v", &["a"], "select `v`.`a` AS `a` from `s`.`v`")],
            "v: s.v: this view may insert",
        );
    }
}
