//! The log, on stderr.

mod json;
pub(crate) mod recent;

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
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
            let log = log
                .event_format(Text::default())
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

/// A line as `tracing_subscriber` writes it, and after it the fields of the spans that it is in.
struct Text(Format);

impl Default for Text {
    fn default() -> Self {
        // Modules are the code's business.
        Text(Format::default().with_ansi(false).with_target(false))
    }
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        out.write_str(line.trim_end_matches('\n'))?;
        for (name, value) in json::of_spans(event) {
            // A text of a client's cannot end the line: it is written as `tracing` writes its own fields.
            match value {
                serde_json::Value::String(text) => write!(out, " {name}={text:?}")?,
                other => write!(out, " {name}={other}")?,
            }
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::sync::Arc;

    use super::{Text, filter, json};
    use crate::config::keys::LogLevel;
    use crate::log_span::within;

    /// A log's file, and what is in it.
    fn file() -> (Arc<File>, impl Fn() -> String) {
        let file = tempfile::NamedTempFile::new().unwrap();
        (Arc::new(file.reopen().unwrap()), move || fs::read_to_string(file.path()).unwrap())
    }

    #[tokio::test]
    async fn a_line_of_json_is_flat() {
        let (writer, log) = file();
        let subscriber = tracing_subscriber::fmt().event_format(json::Json).with_writer(writer).finish();
        let _logs = tracing::subscriber::set_default(subscriber);
        let address = std::net::Ipv4Addr::LOCALHOST;
        within(("client", "somebody"), within(("session", 7), async {
            tracing::warn!(target: "rowstamp::x", user = "a\"b", client = %address, tls = true, "it \n ends");
        }))
        .await;
        tracing::info!(target: "rustls::conn", "heard");
        let lines: Vec<serde_json::Value> =
            log().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut first = lines[0].clone();
        let ts = first.as_object_mut().unwrap().remove("ts").unwrap();
        assert!(humantime::parse_rfc3339(ts.as_str().unwrap()).is_ok(), "{ts}");
        let expect = serde_json::json!({"level": "warn", "msg": "it \n ends", "user": "a\"b", "client": "127.0.0.1", "session": 7, "tls": true});
        assert_eq!(first, expect);
        assert_eq!((&lines[1]["from"], &lines[1]["msg"]), (&"rustls::conn".into(), &"heard".into()));
    }

    #[tokio::test]
    async fn libraries_warn_but_not_of_clients_that_connect_by_address() {
        let (writer, log) = file();
        let subscriber = tracing_subscriber::fmt()
            .event_format(Text::default())
            .with_env_filter(filter(LogLevel::Info))
            .with_writer(writer)
            .finish();
        let _logs = tracing::subscriber::set_default(subscriber);
        within(("user", "a\n\u{9b}b"), async {
            tracing::warn!(target: "rustls::msgs::handshake", "Illegal SNI extension: ignoring IP address");
            tracing::warn!(target: "rustls::conn", "heard");
            tracing::info!(target: "rustls::conn", "passed over");
            tracing::info!(target: "rowstamp::proxy", id = 1, "said");
        })
        .await;
        let seen = [
            "Illegal",
            " WARN heard user=\"a\\n\\u{9b}b\"\n",
            "passed over",
            " INFO said id=1 user=\"a\\n\\u{9b}b\"\n",
        ]
        .map(|text| log().contains(text));
        assert_eq!(seen, [false, true, false, true], "{}", log());
    }
}
