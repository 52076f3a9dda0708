//! Whose a line of the log is. A line that is logged within a span has the span's fields after its own: `session`, `client` and
//! `user` of a client's session, `reload`, `takeover`, `store`.
//!
//! A span is a task-local of tokio. The spans of `tracing` would do the same, and cost every statement of a session 4 to 7 % more
//! instructions, since they are entered and left at each poll (`benches/instructions.sh`).

use std::sync::Arc;

use serde_json::Value;

/// Names and values, in the order of the line.
pub type Fields = Vec<(&'static str, Value)>;

/// The fields of the lines within a span. They are asked for at each line, since a user is known after the login only.
pub trait LogSpan: Send + Sync {
    fn fields(&self) -> Fields;
}

/// A span of one field.
impl<T: Clone + Into<Value> + Send + Sync> LogSpan for (&'static str, T) {
    fn fields(&self) -> Fields {
        vec![(self.0, self.1.clone().into())]
    }
}

impl<S: LogSpan> LogSpan for Option<S> {
    fn fields(&self) -> Fields {
        self.iter().flat_map(LogSpan::fields).collect()
    }
}

#[derive(Clone)]
struct Within {
    span: Arc<dyn LogSpan>,
    outer: Option<Arc<Within>>,
}

tokio::task_local! {
    static WITHIN: Arc<Within>;
}

/// `work`, within `span` and the spans around this call. A task that `work` spawns is in none of them; one of [`spawn`] is in the
/// innermost.
pub fn within<F: Future>(span: impl LogSpan + 'static, work: F) -> impl Future<Output = F::Output> {
    let outer = WITHIN.try_with(Arc::clone).ok();
    WITHIN.scope(Arc::new(Within { span: Arc::new(span), outer }), work)
}

/// A task that outlives what spawns it, and so is within the innermost span alone.
pub fn spawn<F>(work: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    match WITHIN.try_with(|within| Within { outer: None, ..Within::clone(within) }) {
        Ok(within) => tokio::spawn(WITHIN.scope(Arc::new(within), work)),
        Err(_) => tokio::spawn(work),
    }
}

/// The fields of a line that is logged now: those of the outermost span first, and of two of one name the inner one.
pub fn fields() -> Fields {
    fn of(within: &Within) -> Fields {
        let own = within.span.fields();
        let mut fields = within.outer.as_deref().map(of).unwrap_or_default();
        fields.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
        fields.extend(own);
        fields
    }
    WITHIN.try_with(|within| of(within)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{fields, spawn, within};

    fn told() -> String {
        let fields: Vec<_> = fields().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        fields.join(" ")
    }

    #[tokio::test]
    async fn a_line_has_the_fields_of_all_spans_around_it() {
        assert_eq!(told(), "");
        let inner = async {
            tokio::task::yield_now().await;
            (told(), spawn(async { told() }).await.unwrap(), tokio::spawn(async { told() }).await.unwrap())
        };
        let work = async {
            let before = told();
            (before, within(("store", "file"), within(("store", "etcd"), inner)).await, told())
        };
        // Another task's span is its own.
        let other = within(("session", 8), async {
            tokio::task::yield_now().await;
            told()
        });
        let ((before, inner, after), other) = tokio::join!(within(("session", 7), work), other);
        assert_eq!(
            (before.as_str(), after.as_str(), other.as_str()),
            ("session=7", "session=7", "session=8")
        );
        assert_eq!(inner, ("session=7 store=\"etcd\"".into(), "store=\"etcd\"".into(), String::new()));
        assert_eq!(spawn(async { told() }).await.unwrap(), "");
    }
}
