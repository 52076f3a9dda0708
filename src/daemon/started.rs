//! The first lines of the log: what runs here, with what, and where its generators stand.

use std::path::Path;

use crate::admin::{Desk, GeneratorRow, Kind};
use crate::schema::Schema;

/// More generators than these are counted, not listed.
const GENERATORS_MAX: usize = 20;

pub(super) async fn tell(desk: &dyn Desk, config: &Path, schema: Option<&Schema>) {
    let about = desk.about();
    let server = match schema {
        Some(schema) => schema.version().await.unwrap_or_else(|error| format!("not known: {error}")),
        None => "not known without [backend.control]".to_owned(),
    };
    let generators = desk.generators();
    tracing::info!(
        version = env!("ROWSTAMP_VERSION"),
        pid = std::process::id(),
        config = %config.display(),
        proxy = about.name,
        backends = about.backends.join(", "),
        server,
        store = about.store,
        rules = desk.rules().len(),
        generators = generators.len(),
        "rowstamp starts"
    );
    for row in generators.iter().take(GENERATORS_MAX) {
        tracing::info!(
            generator = row.name,
            kind = row.kind.word(),
            state = row.state.word(),
            "{}",
            stands(row)
        );
    }
}

fn stands(row: &GeneratorRow) -> String {
    match (row.kind, row.bound, row.node) {
        (Kind::Sequence, Some(bound), _) => {
            format!("the generator is open; its bound in the store is {bound}")
        }
        (Kind::Timestamp, _, Some(node)) => format!("this proxy is node {node} of the generator"),
        _ => "the generator is not open".to_owned(),
    }
}
