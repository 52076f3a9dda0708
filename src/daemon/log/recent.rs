//! The last lines of the log, for readers of the page: most who want to know what has just happened
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
/// The longest line that is kept, the fields of its spans aside; a longer one is cut.
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
        let text = Fields::of(event).cut(CHARACTERS_MAX).with_spans(event).text();
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
    use crate::log_span::within;

    #[tokio::test]
    async fn the_last_lines_are_kept() {
        let _logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(Recent));
        for n in 0..2 * ROWS_MAX {
            tracing::info!(n, "line");
        }
        let long = async { tracing::warn!(table = "shop.orders", "{}", "x".repeat(2 * CHARACTERS_MAX)) };
        within(("session", 7), long).await;
        let rows = rows();
        let last = "x".repeat(CHARACTERS_MAX) + ", session 7";
        assert_eq!((rows.len(), &*rows[0].level, &*rows[0].text), (ROWS_MAX, "warn", &*last));
        assert_eq!(rows[1].text, format!("line, n {}", 2 * ROWS_MAX - 1));
    }
}
