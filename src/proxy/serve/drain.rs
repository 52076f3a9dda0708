//! The end of the proxy, as a session's task sees it.

use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::sync::watch;

/// Shows if the proxy drains. The session asks each time that it is polled, so the answer is a look at a number until
/// that number changes.
pub(super) struct Drain {
    draining: watch::Receiver<bool>,
    has_begun: bool,
    /// Resolves when the proxy begins to drain. Kept, so that a poll of the session makes no new one.
    begins: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Woken by `begins`.
    waker: Option<Waker>,
}

impl Drain {
    pub(super) fn new(draining: &watch::Receiver<bool>) -> Self {
        let mut begins = draining.clone();
        let begins = Box::pin(async move {
            // The sender is gone: it never drains.
            if begins.wait_for(|draining| *draining).await.is_err() {
                std::future::pending::<()>().await;
            }
        });
        Drain { draining: draining.clone(), has_begun: *draining.borrow(), begins, waker: None }
    }

    /// True once the proxy drains. If it does not yet, the task is woken when it begins.
    pub(super) fn has_begun(&mut self, cx: &mut Context<'_>) -> bool {
        let is_watched = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let is_as_it_was = is_watched && matches!(self.draining.has_changed(), Ok(false));
        if !(self.has_begun || is_as_it_was) {
            self.has_begun = self.begins.as_mut().poll(cx).is_ready();
            self.waker = Some(cx.waker().clone());
        }
        self.has_begun
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    use tokio::sync::watch;

    use super::Drain;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_asked_last_is_woken() {
        let (begin, draining) = watch::channel(false);
        let mut drain = Drain::new(&draining);
        let wakers = [Arc::new(Counted::default()), Arc::new(Counted::default())];
        for counted in &wakers {
            let waker = Waker::from(counted.clone());
            for _ in 0..3 {
                assert!(!drain.has_begun(&mut Context::from_waker(&waker)));
            }
        }
        begin.send_replace(true);
        assert_eq!(wakers.each_ref().map(|counted| counted.0.load(Ordering::Relaxed)), [0, 1]);
        assert!(drain.has_begun(&mut Context::from_waker(Waker::noop())));
    }

    #[test]
    fn what_began_before_is_seen_at_once() {
        let (begin, draining) = watch::channel(true);
        assert!(Drain::new(&draining).has_begun(&mut Context::from_waker(Waker::noop())));
        begin.send_replace(false);
        let mut drain = Drain::new(&draining);
        drop(begin);
        assert!(!drain.has_begun(&mut Context::from_waker(Waker::noop())));
    }
}
