//! Keys on the id column, and foreign keys to it.

use crate::ids::BIGINT_MAX;
use crate::lint::checks::widths::capacity;
use crate::lint::finding::{Code, Finding, Where};
use crate::lint::survey::{Live, Survey};
use crate::schema::facts::{ColumnFacts, ForeignKey, Index};
use crate::sql::name::{quoted, same_column};

pub(in crate::lint) fn judge(survey: &Survey<'_>, found: &mut Vec<Finding>) {
    for (live, column) in survey.columns() {
        found.extend(unique(live, column));
        found.extend(indexed(live, column));
    }
    for key in &survey.facts.foreign_keys {
        found.extend(foreign(survey, key));
    }
}

fn is_at(index: &Index, place: usize, column: &ColumnFacts) -> bool {
    index
        .columns
        .get(place)
        .is_some_and(|name| name.as_ref().is_some_and(|name| same_column(name, &column.shape.name)))
}

fn unique(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    let mut keys = live.table.indexes.iter().filter(|index| index.is_unique);
    if keys.clone().any(|index| index.columns.len() == 1 && is_at(index, 0, column)) {
        return None;
    }
    let name = &column.shape.name;
    let add = format!("ALTER TABLE {} ADD UNIQUE KEY ({})", live.quoted(), quoted(name));
    let place = live.column_place(column);
    let among = keys.find(|index| (0..index.columns.len()).any(|at| is_at(index, at, column)));
    Some(if let Some(key) = among {
        // A partitioned table cannot have any other.
        let why = format!("{name} is unique only together with other columns (key {})", key.name);
        let remedy = format!("{add}; a partitioned table may not allow such a key");
        Finding::note(Code::ColumnNotUnique, place, why, remedy)
    } else {
        let why = format!(
            "no key makes {name} unique: the server accepts the same id twice, for example from a direct INSERT (not through Rowstamp)"
        );
        Finding::warning(Code::ColumnNotUnique, place, why, add)
    })
}

fn indexed(live: &Live<'_>, column: &ColumnFacts) -> Option<Finding> {
    let leads = |index: &Index| index.is_ordered && is_at(index, 0, column);
    if live.table.indexes.iter().any(leads) {
        return None;
    }
    let why = format!(
        "no index begins with {}: each start reads the whole table for its highest id",
        column.shape.name
    );
    let remedy = format!("ALTER TABLE {} ADD INDEX ({})", live.quoted(), quoted(&column.shape.name));
    Some(Finding::warning(Code::ColumnNotIndexed, live.column_place(column), why, remedy))
}

/// A finding if the key's column has another type than the id. Between integers of different types InnoDB makes no key, nor
/// lets MODIFY make one under foreign_key_checks = 0 (MariaDB: 1833, MySQL: 3780); lengths of text may differ.
fn foreign(survey: &Survey<'_>, key: &ForeignKey) -> Option<Finding> {
    let (schema, table, column) = &key.to;
    let live = survey.ruled(schema, table)?;
    let id = live.column.filter(|id| same_column(&id.shape.name, column))?;
    let [ours, theirs] = [capacity(id)?, capacity(&key.column)?].map(|ids| ids.min(BIGINT_MAX));
    let (mine, its) = (&id.shape, &key.column.shape);
    let is_other_sign = mine.highest().is_some() && its.highest().is_some() && mine.unsigned != its.unsigned;
    let place = Where::table(&key.schema, &key.table).column(&its.name).of(&key.name).at(&live.rule.origin);
    let what = format!(
        "{} references {schema}.{table}.{column}, which is {}",
        key.column.column_type, id.column_type
    );
    let remedy = format!(
        "ALTER TABLE {}.{} MODIFY {} {}, with its NULL, DEFAULT and other attributes unchanged; if the server refuses this (1832), \
         drop the key first, and add the key again afterwards",
        quoted(&key.schema),
        quoted(&key.table),
        quoted(&its.name),
        id.column_type
    );
    if theirs < ours {
        let why = format!("{what}: ids above {theirs} cannot be referenced");
        return Some(Finding::error(Code::ForeignKeyType, place, why, remedy));
    }
    // Two BIGINTs both hold more ids than anybody uses.
    (is_other_sign && ours < BIGINT_MAX).then(|| {
        Finding::warning(Code::ForeignKeyType, place, format!("{what}: the types differ in sign"), remedy)
    })
}
