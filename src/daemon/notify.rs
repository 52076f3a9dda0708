//! Messages to a service manager: sd_notify(3), if NOTIFY_SOCKET says that it listens.

use sd_notify::NotifyState;

pub(super) fn ready(address: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("listening on {address}"))]);
}

/// Until [`ready`]. The time lets it tell this reload from one before.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => warn(&error),
    }
}

pub(super) fn stopping(why: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(why)]);
}

/// Another process has the clients. Not `Stopping`, after which systemd's own deadline for sessions would begin.
pub(super) fn handed_over() {
    tell(&[NotifyState::Status(
        "another process has taken over; this process serves its remaining sessions",
    )]);
}

fn tell(state: &[NotifyState<'_>]) {
    // Without NOTIFY_SOCKET it does nothing.
    if let Err(error) = sd_notify::notify(state) {
        warn(&error);
    }
}

fn warn(error: &std::io::Error) {
    tracing::warn!(%error, "Rowstamp cannot notify the service manager at NOTIFY_SOCKET");
}
