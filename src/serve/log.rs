//! The log, on stderr.

use tracing_subscriber::EnvFilter;

use crate::config::LogSettings;
use crate::config::keys::{LogFormat, LogLevel};
use crate::rules::word;

/// Sets the least serious level that is logged.
pub type SetLogLevel = Box<dyn Fn(LogLevel) + Send + Sync>;

/// Libraries are heard when something is wrong with them.
fn filter(level: LogLevel) -> EnvFilter {
    let level = word(&level);
    // Of each client that connects by an IP address rustls says "Illegal SNI extension": nothing is
    // wrong, and all connect so.
    EnvFilter::new(format!("warn,rustls::msgs::handshake=error,rowstamp={level}"))
}

pub fn log_to_stderr(settings: &LogSettings) -> SetLogLevel {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
    // Another filter is refused only where the log is gone.
    match settings.format {
        LogFormat::Text => {
            let log = log.with_ansi(false).with_env_filter(filter(settings.level)).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
        LogFormat::Json => {
            let log = log.json().with_env_filter(filter(settings.level)).with_filter_reloading();
            let handle = log.reload_handle();
            log.init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::filter;
    use crate::config::keys::LogLevel;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_warn_but_not_of_clients_that_connect_by_address() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(filter(LogLevel::Info))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "rustls::msgs::handshake", "Illegal SNI extension: ignoring IP address");
            tracing::warn!(target: "rustls::conn", "heard");
            tracing::info!(target: "rustls::conn", "passed over");
            tracing::info!(target: "rowstamp::proxy", "said");
        });
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let seen = ["Illegal", "heard", "passed over", "said"].map(|text| log.contains(text));
        assert_eq!(seen, [false, true, false, true], "{log}");
    }
}
