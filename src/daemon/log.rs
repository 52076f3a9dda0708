//! The log, on stderr.

mod json;
pub(crate) mod recent;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogSettings;
use crate::config::keys::{LogFormat, LogLevel};
use crate::rules::word;

/// Sets the least serious level that is logged.
pub type SetLogLevel = Box<dyn Fn(LogLevel) + Send + Sync>;

/// Libraries are heard when something is wrong with them.
fn filter(level: LogLevel) -> EnvFilter {
    let level = word(&level);
    // For each client that connects by an IP address rustls says "Illegal SNI extension": nothing is wrong, and all
    // connect so.
    EnvFilter::new(format!("warn,rustls::msgs::handshake=error,rowstamp={level}"))
}

pub fn log_to_stderr(settings: &LogSettings) -> SetLogLevel {
    // A line that cannot be written (a full disk) is lost. To say so on stderr would panic, and end the
    // session that had something to tell.
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).log_internal_errors(false);
    // Another filter is refused only where the log is gone.
    match settings.format {
        LogFormat::Text => {
            // Whose line it is, its words tell; modules are the code's business.
            let log = log
                .with_ansi(false)
                .with_target(false)
                .with_env_filter(filter(settings.level))
                .with_filter_reloading();
            let handle = log.reload_handle();
            log.finish().with(recent::Recent).init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
        LogFormat::Json => {
            let log =
                log.event_format(json::Json).with_env_filter(filter(settings.level)).with_filter_reloading();
            let handle = log.reload_handle();
            log.finish().with(recent::Recent).init();
            Box::new(move |level| drop(handle.reload(filter(level))))
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::io::{self, Write};
    use std::sync::Arc;

    use super::{filter, json};
    use crate::config::keys::LogLevel;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_of_json_is_flat() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().event_format(json::Json).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let address = std::net::Ipv4Addr::LOCALHOST;
            tracing::warn!(target: "rowstamp::x", user = "a\"b", client = %address, session = 7_u64, tls = true, "it \n ends");
            tracing::info!(target: "rustls::conn", "heard");
        });
        let log = String::from_utf8(log.0.lock().clone()).unwrap();
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut first = lines[0].clone();
        let ts = first.as_object_mut().unwrap().remove("ts").unwrap();
        assert!(humantime::parse_rfc3339(ts.as_str().unwrap()).is_ok(), "{ts}");
        let expect = serde_json::json!({"level": "warn", "msg": "it \n ends", "user": "a\"b", "client": "127.0.0.1", "session": 7, "tls": true});
        assert_eq!(first, expect);
        assert_eq!((&lines[1]["from"], &lines[1]["msg"]), (&"rustls::conn".into(), &"heard".into()));
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
        let log = String::from_utf8(log.0.lock().clone()).unwrap();
        let seen = ["Illegal", "heard", "passed over", "said"].map(|text| log.contains(text));
        assert_eq!(seen, [false, true, false, true], "{log}");
    }
}
