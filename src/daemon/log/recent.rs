//! The last lines of the log, for whoever looks at the page: most who want to know what has just happened
//! have no terminal on the machine.

use std::collections::VecDeque;
use std::time::SystemTime;

use parking_lot::Mutex;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::json::Fields;
use crate::admin::EventRow;
use crate::admin::status::seconds_since_1970;

/// The lines that are kept: as many as a screen has.
const ROWS_MAX: usize = 50;
/// The longest line that is kept; a longer one is cut.
const CHARACTERS_MAX: usize = 500;

/// The last lines of this process.
static ROWS: Mutex<VecDeque<EventRow>> = Mutex::new(VecDeque::new());

/// The newest first.
pub(crate) fn rows() -> Vec<EventRow> {
    ROWS.lock().iter().rev().cloned().collect()
}

/// Keeps what the log's level lets through.
pub(super) struct Recent;

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let text = Fields::of(event).text().chars().take(CHARACTERS_MAX).collect();
        let mut rows = ROWS.lock();
        if rows.len() >= ROWS_MAX {
            rows.pop_front();
        }
        rows.push_back(EventRow { at: seconds_since_1970(SystemTime::now()), level, text });
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::{CHARACTERS_MAX, ROWS_MAX, Recent, rows};

    #[test]
    fn the_last_lines_are_kept() {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(Recent), || {
            for n in 0..2 * ROWS_MAX {
                tracing::info!(n, "line");
            }
            tracing::warn!(table = "shop.orders", "{}", "x".repeat(2 * CHARACTERS_MAX));
        });
        let rows = rows();
        assert_eq!(
            (rows.len(), rows[0].level.as_str(), rows[0].text.len()),
            (ROWS_MAX, "warn", CHARACTERS_MAX)
        );
        assert_eq!(rows[1].text, format!("line, n {}", 2 * ROWS_MAX - 1));
    }
}
