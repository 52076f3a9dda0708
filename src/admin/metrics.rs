//! The catalogue of metrics: every name that `/metrics` can show, with its kind, unit, labels and
//! meaning.
//!
//! A [`Metric`] is made by an entry of it and by nothing else, so that docs/metrics.md, the alert
//! rules and the dashboard in `examples/`, which tests hold to it, say what the code does. Names
//! and units are as Prometheus advises ("Metric and label naming"): base units, the unit at the
//! end.
//!
//! No label has values without bound: names of generators and of ruled tables come from the rules,
//! names of users from those who administer them, the rest are words.

mod rows;
pub(crate) mod text;

pub use rows::{of_about, of_backends, of_checks, of_doors, of_generators, of_users};

use super::desk::{Metric, MetricKind, Sample, Timing, Unit};

/// One metric, with as many labels.
#[derive(Debug)]
pub struct Family<const LABELS: usize> {
    /// The name, as in [`Metric::name`].
    name: &'static str,
    help: &'static str,
    kind: MetricKind,
    unit: Unit,
    labels: [Label; LABELS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    pub name: &'static str,
    pub values: Values,
}

/// The values that a label may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Names that are not known beforehand, and few: what they are.
    Names(&'static str),
    /// These, and what each means.
    Words(&'static [(&'static str, &'static str)]),
}

/// A [`Family`] among others.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    pub unit: Unit,
    pub labels: &'static [Label],
}

const fn names(name: &'static str, what: &'static str) -> Label {
    Label { name, values: Values::Names(what) }
}

/// A label whose values are these words, and what each means.
macro_rules! words {
    ($name:literal: $($word:literal => $what:literal,)+) => {
        Label { name: $name, values: Values::Words(&[$(($word, $what)),+]) }
    };
}

const GENERATOR: Label = names("generator", "a generator, `schema.name`");

const STATE: Label = words! { "state":
    "open" => "the generator issues ids",
    "paused" => "an operator has paused the generator",
    "troubled" => "the generator issues ids of its reserve, but gets no new ids, for example because the store does not answer",
    "stopped" => "the generator issues no ids",
};

const NO_ID: Label = words! { "reason":
    "store" => "the reserve was empty, and the store gave no new ids within store.deadline",
    "exhausted" => "the generator has no ids left up to its max, or in its layout",
    "ahead" => "the ids are as far ahead of the clock as max_ahead allows",
    "clock" => "this machine's clock and the backend's clock differ, or the backend's clock could not be read",
    "too_many" => "one statement needs more ids than the generator can issue at once",
    "paused" => "an operator has paused the generator",
    "closed" => "the generator is not open, or another process has taken over",
    "locks" => "the proxy could not confirm in time that it holds its locks on the table, which keep out proxies of other stores",
};

const NOT_FOLLOWED: Label = words! { "reason":
    "elsewhere" => "the id is in the range of another proxy, which can still issue it",
    "too_far" => "the id is more than 1e9 above the bound",
};

const STORE_OPERATION: Label = words! { "operation":
    "read" => "one record",
    "list" => "all records of a kind",
    "write" => "a compare-and-set",
};

const STORE_FAILURE: Label = words! { "reason":
    "unavailable" => "the store did not answer",
    "unknown" => "it is not known whether the store did the write",
    "refused" => "the store refused the account, its password or its rights",
    "suspect" => "the store seems to hold older data than before, as after a restore",
    "other" => "another error, for example a damaged record or a node of another proxy; the log names it",
};

const OUTCOME: Label = words! { "outcome":
    "passed" => "sent unchanged",
    "rewritten" => "sent with ids filled in",
    "refused" => "not sent; the client got an error from the proxy",
    "failed" => "sent with ids filled in, and the server answered with an error",
};

const REFUSED: Label = words! { "reason":
    "unsupported" => "Rowstamp cannot fill the ids of the statement correctly (1235)",
    "verify" => "rewrite.verify found that the rewritten statement differs (1235)",
    "no_id" => "the generator gave no id (1467)",
    "too_long" => "the statement is longer than limits.statement_bytes (1153)",
    "unknown_command" => "Rowstamp does not relay the command (1047)",
    "malformed" => "Rowstamp cannot read the packet or its parameters (1835, 1210, 1295)",
    "unknown_statement" => "the client executed a statement that is not prepared (1243)",
};

const SHADOW_TABLE: Label =
    names("table", "`schema.table` of a rule with mode = \"shadow\", or a view that may show such a table");

const SHADOW_OUTCOME: Label = words! { "outcome":
    "rewritten" => "the INSERT would get ids",
    "refused" => "Rowstamp would refuse the INSERT",
    "passed" => "the INSERT has all ids already",
    "server_first" => "Rowstamp would ask the server, and refuse the INSERT if the server reports no error",
    "unknown" => "not known, because the columns of the table or the text of the INSERT were not known",
};

const SESSION_REFUSED: Label = words! { "reason":
    "connections" => "limits.connections (1040)",
    "per_address" => "limits.per_address (1040)",
    "per_user" => "limits.per_user (1203)",
    "proxy_protocol" => "no header of PROXY protocol, or a wrong one (1043)",
    "tls" => "the login came without TLS, which listen.tls.mode = \"required\" demands, or the TLS handshake failed (3159)",
    "timeout" => "the login took longer than limits.handshake_timeout (1159)",
    "malformed" => "the client's handshake cannot be read (1043, 1153, 1156, 3923)",
    "backend" => "the server could not be reached, or ended the login (1053, 1105)",
    "denied" => "the proxy does not relay such a login (1045)",
};

const DIRECTION: Label = words! { "direction":
    "from_client" => "bytes that clients sent",
    "to_client" => "bytes that clients got",
};

const OPINION: Label = words! { "opinion":
    "agrees" => "the rewrite is right",
    "not_verified" => "the second parser cannot read the statement",
    "differs" => "the second parser read the rewrite differently, and Rowstamp refused the statement",
};

const RELOAD_RESULT: Label = words! { "result":
    "good" => "the files took effect",
    "bad" => "the files have errors or could not be activated, and nothing changed",
};

const CHECK: Label = names("check", "a check of `/readyz`");

const BACKEND: Label = names("backend", "a server of `backend.address`");

const CONNECT_REASON: Label = words! { "reason":
    "refused" => "nothing listens at the address",
    "timeout" => "no answer within backend.connect_timeout",
    "name" => "the host's name is not known",
    "network" => "another error of the network or the system",
    "greeting" => "the server closed the connection before its greeting, or sent something else",
    "rejected" => "the server sent an error instead of its greeting: too many connections (1040), the proxy's host is blocked (1129) or not allowed (1130)",
    "tls" => "the TLS handshake with it failed",
};

const TABLE: Label = names(
    "table",
    "a table with a rule that got ids, `schema.table`; all tables after the first 10,000 share `(others).(others)`",
);

const LIMIT: Label = words! { "limit":
    "connections" => "`limits.connections`, of all clients",
    "per_user" => "`limits.per_user`, if it is set",
    "per_address" => "`limits.per_address`, if it is set",
};

const DOOR: Label =
    names("door", "a door: `resp`, the Redis protocol (`resp.address`), or `api`, HTTP (`api.address`)");

const DOOR_OUTCOME: Label = words! { "outcome":
    "given" => "the client got its ids",
    "denied" => "the user has no right to draw ids",
    "over_quota" => "the user has drawn as many ids as its `LIMIT` allows",
    "wrong" => "no such generator, or ids that it does not give in this form or number",
    "no_ids" => "the generator gave no ids",
};

const HOME: Label = words! { "home":
    "file" => "`[[admin.users]]` of rowstamp.toml",
    "store" => "the store",
};

const USER: Label = names("user", "a user of Rowstamp that has asked this process for ids");

const USER_REFUSED: Label = words! { "reason":
    "denied" => "the user has no right to draw these ids",
    "over_quota" => "the user has drawn as many ids as its `LIMIT` allows",
};

const VERSION: Label = names("version", "a version of Rowstamp");

macro_rules! catalogue {
    ($($entry:ident: $kind:ident<$labels:literal> $name:literal in $unit:ident by [$($label:ident),*], $help:literal;)*) => {
        $(pub static $entry: Family<$labels> = Family {
            name: $name,
            help: $help,
            kind: MetricKind::$kind,
            unit: Unit::$unit,
            labels: [$($label),*],
        };)*

        /// All of them, as docs/metrics.md shows them.
        pub static ALL: &[Entry] = &[$($entry.entry()),*];
    };
}

catalogue! {
    BUILD_INFO: Gauge<1> "rowstamp_build_info" in Count by [VERSION], "Always 1. The label is the version of Rowstamp.";
    START_TIME: Gauge<0> "process_start_time_seconds" in Seconds by [], "Time at which this process started, since 1970.";
    READY: Gauge<0> "rowstamp_ready" in Count by [], "1 if /readyz answers 200, else 0.";
    DEGRADED: Gauge<0> "rowstamp_degraded" in Count by [], "1 if /readyz answers 200 although a check fails, else 0.";
    CHECK_PASSED: Gauge<1> "rowstamp_check_passed" in Count by [CHECK], "1 if the check is fine, else 0.";
    DRAINING: Gauge<0> "rowstamp_draining" in Count by [], "1 while the proxy drains: it takes no new clients, and ends sessions between transactions; else 0.";

    IDS_ISSUED: Counter<1> "rowstamp_ids_issued" in Count by [GENERATOR], "Ids taken from a generator.";
    NO_ID_GIVEN: Counter<2> "rowstamp_ids_refused" in Count by [GENERATOR, NO_ID], "Requests for ids that got no id.";
    EXPLICIT_IDS_NOT_FOLLOWED: Counter<2> "rowstamp_explicit_ids_not_followed" in Count by [GENERATOR, NOT_FOLLOWED], "Explicit ids that the generator does not follow: later ids do not continue above them.";
    NATIVE: Counter<1> "rowstamp_native_statements" in Count by [GENERATOR], "Statements whose rows the server numbered, because there were no ids (unavailable = native) or the statement cannot be rewritten (rewrite.on_doubt = forward).";
    ID_COLLISIONS: Counter<1> "rowstamp_id_collisions" in Count by [GENERATOR], "INSERTs that the server answered with error 1062, because the generator's id was already in the table. INSERTs that Rowstamp sent again are included.";
    RESERVE_IDS: Gauge<1> "rowstamp_reserve_ids" in Count by [GENERATOR], "Ids of a sequence that can be issued without the store.";
    RESERVE_SECONDS: Gauge<1> "rowstamp_reserve_seconds" in Seconds by [GENERATOR], "How long the reserve lasts at the present rate; absent while nobody takes ids.";
    BOUND: Gauge<1> "rowstamp_generator_bound" in Count by [GENERATOR], "Bound of a sequence in the store: its ids are below the bound.";
    HEADROOM_IDS: Gauge<1> "rowstamp_generator_headroom_ids" in Count by [GENERATOR], "Ids that a sequence still has, from its bound to its last id, by its step, its max and the columns' types.";
    USED: Gauge<1> "rowstamp_generator_used_ratio" in Ratio by [GENERATOR], "Share of the generator's ids that are used; for a timestamp generator, the share of its layout's time.";
    STATE_OF_GENERATOR: Gauge<2> "rowstamp_generator_state" in Count by [GENERATOR, STATE], "1 for the state of the generator; the other states are absent.";
    NODE: Gauge<1> "rowstamp_generator_node" in Count by [GENERATOR], "Node of this proxy in a timestamp generator.";
    CLOCK_AHEAD: Gauge<1> "rowstamp_clock_ahead_seconds" in Seconds by [GENERATOR], "How far the ids of a timestamp generator are ahead of the clock.";
    CLOCK_LEAP: Gauge<1> "rowstamp_clock_leap_seconds" in Seconds by [GENERATOR], "How far the clock leapt, if the ids of a timestamp generator do not follow the leap, else 0.";
    CLOCK_DRIFT: Gauge<0> "rowstamp_clock_drift_seconds" in Seconds by [], "This machine's clock minus the backend's clock, at the last comparison.";
    ID_WAIT: Histogram<0> "rowstamp_id_wait_seconds" in Seconds by [], "How long statements waited for ids that were not reserved.";

    STORE_UP: Gauge<0> "rowstamp_store_up" in Count by [], "1 if the store answered the last request, else 0.";
    STORE_TIME: Histogram<1> "rowstamp_store_operation_seconds" in Seconds by [STORE_OPERATION], "How long the store took to answer, failures included.";
    STORE_FAILURES: Counter<2> "rowstamp_store_failures" in Count by [STORE_OPERATION, STORE_FAILURE], "Requests to the store that failed.";

    STATEMENTS: Counter<1> "rowstamp_statements" in Count by [OUTCOME], "Statements of clients: texts, preparations and executions.";
    STATEMENTS_REFUSED: Counter<1> "rowstamp_statements_refused" in Count by [REFUSED], "Statements that the proxy refused.";
    ANSWER_TIME: Histogram<0> "rowstamp_command_seconds" in Seconds by [], "Time from a client's command to the end of its answer, as the proxy sees it.";
    SERVER_TIME: Histogram<0> "rowstamp_command_server_seconds" in Seconds by [], "The server's share of rowstamp_command_seconds: from sending the command to the server to the end of the answer.";
    TABLE_STATEMENTS: Counter<1> "rowstamp_table_statements" in Count by [TABLE], "Statements that took ids, by table.";
    TABLE_IDS: Counter<1> "rowstamp_table_ids" in Count by [TABLE], "Ids that statements took, by table.";
    TABLE_OVERTAKEN: Counter<1> "rowstamp_table_overtaken" in Count by [TABLE], "How often ids that did not come from the generator were found above it in the table, and it continued above them.";
    REWRITE_TIME: Histogram<0> "rowstamp_rewrite_seconds" in Seconds by [], "The proxy's own time for a statement that got ids, without waiting for ids.";
    SECOND_OPINIONS: Counter<1> "rowstamp_second_opinions" in Count by [OPINION], "Rewrites that rewrite.verify checked.";
    SHADOW: Counter<2> "rowstamp_shadow_statements" in Count by [SHADOW_TABLE, SHADOW_OUTCOME], "INSERTs into tables in shadow mode, by the outcome that they would have with mode = on.";
    AUDIT_LOST: Counter<0> "rowstamp_audit_lost_lines" in Count by [], "Lines missing in the file of log.audit, because the disk was too slow or full, or hung.";

    SESSIONS: Gauge<0> "rowstamp_sessions" in Count by [], "Clients that are connected.";
    SESSIONS_LIMIT: Gauge<1> "rowstamp_sessions_limit" in Count by [LIMIT], "Clients that may be connected.";
    SESSIONS_OPENED: Counter<0> "rowstamp_sessions_opened" in Count by [], "Clients that connected.";
    SESSIONS_REFUSED: Counter<1> "rowstamp_sessions_refused" in Count by [SESSION_REFUSED], "Clients that the proxy turned away.";
    LOGINS_REFUSED: Counter<0> "rowstamp_logins_refused" in Count by [], "Logins that the server refused.";
    BYTES: Counter<1> "rowstamp_traffic_bytes" in Bytes by [DIRECTION], "Bytes between clients and the proxy, without the bytes that TLS adds.";
    BACKEND_UP: Gauge<1> "rowstamp_backend_up" in Count by [BACKEND], "1 if the server answered the last attempt, else 0; absent before the first attempt.";
    BACKEND_PRIMARY: Gauge<1> "rowstamp_backend_primary" in Count by [BACKEND], "1 for the server that new sessions go to, else 0.";
    BACKEND_READ_ONLY: Gauge<1> "rowstamp_backend_read_only" in Count by [BACKEND], "1 if the server is read_only, else 0; absent if the server was not asked or does not answer.";
    CONNECT_TIME: Histogram<1> "rowstamp_backend_connect_seconds" in Seconds by [BACKEND], "How long it took to open connections for clients, without their logins.";
    CONNECT_FAILURES: Counter<2> "rowstamp_backend_connect_failures" in Count by [BACKEND, CONNECT_REASON], "Connections for clients that failed; absent before the first failure.";

    DOOR_CONNECTIONS: Gauge<1> "rowstamp_door_connections" in Count by [DOOR], "Clients that have logged in at a door; doors that are off are absent.";
    DOOR_REQUESTS: Counter<2> "rowstamp_door_requests" in Count by [DOOR, DOOR_OUTCOME], "Requests for ids at a door.";
    DOOR_IDS: Counter<1> "rowstamp_door_ids" in Count by [DOOR], "Ids given at a door.";
    DOOR_LOGINS_REFUSED: Counter<1> "rowstamp_door_logins_refused" in Count by [DOOR], "Logins that a door refused.";

    USERS: Gauge<1> "rowstamp_users" in Count by [HOME], "Users that this proxy knows, as they were read last.";
    USERS_AGE: Gauge<0> "rowstamp_users_age_seconds" in Seconds by [], "Time since the users of the store were read; absent before the first time.";
    USER_IDS: Counter<1> "rowstamp_user_ids" in Count by [USER], "Ids that a user drew, at doors and by calls in SQL; absent before the first.";
    USER_REQUESTS_REFUSED: Counter<2> "rowstamp_user_requests_refused" in Count by [USER, USER_REFUSED], "Requests for ids that a user may not draw, at doors and by calls in SQL; absent before the first.";

    PROCESS_CPU: Counter<0> "process_cpu_seconds" in Seconds by [], "Processor time of the process, in user mode and in the kernel.";
    PROCESS_MEMORY: Gauge<0> "process_resident_memory_bytes" in Bytes by [], "Memory of the process that is in RAM.";
    PROCESS_FDS: Gauge<0> "process_open_fds" in Count by [], "File descriptors that are open; a session takes two.";
    PROCESS_FDS_MAX: Gauge<0> "process_max_fds" in Count by [], "File descriptors that may be open (ulimit -n).";
    PROCESS_THREADS: Gauge<0> "process_threads" in Count by [], "Threads of the process.";

    RULES: Gauge<0> "rowstamp_rules" in Count by [], "Tables and patterns that rules name.";
    GENERATORS: Gauge<0> "rowstamp_generators" in Count by [], "Generators that rules with mode = on name.";
    RELOADS: Counter<1> "rowstamp_reloads" in Count by [RELOAD_RESULT], "Reloads of the files, by signal, console or watch, without dry runs.";
    RELOAD_GOOD: Gauge<0> "rowstamp_last_reload_successful" in Count by [], "0 if the files that were read last have errors or could not be activated, so that older rules are active; else 1.";
    RELOAD_TIME: Gauge<0> "rowstamp_last_good_reload_timestamp_seconds" in Seconds by [], "Time at which the active rules were read, since 1970.";
}

impl<const LABELS: usize> Family<LABELS> {
    const fn entry(&'static self) -> Entry {
        Entry { name: self.name, help: self.help, kind: self.kind, unit: self.unit, labels: &self.labels }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Values of a counter or gauge, each by its labels' values in their order.
    pub fn of<'a>(&self, samples: impl IntoIterator<Item = ([&'a str; LABELS], f64)>) -> Metric {
        let sample = |(labels, value)| Sample { labels: self.labelled(labels), value, buckets: Vec::new() };
        self.metric(samples.into_iter().map(sample).collect())
    }

    /// The timings of a histogram, each by its labels' values in their order.
    pub fn timed<'a>(&self, samples: impl IntoIterator<Item = ([&'a str; LABELS], Timing)>) -> Metric {
        let sample = |(labels, timing): (_, Timing)| Sample {
            labels: self.labelled(labels),
            value: timing.seconds,
            buckets: timing.buckets,
        };
        self.metric(samples.into_iter().map(sample).collect())
    }

    fn labelled(&self, values: [&str; LABELS]) -> Vec<(&'static str, String)> {
        self.labels.iter().zip(values).map(|(label, value)| (label.name, value.to_owned())).collect()
    }

    fn metric(&self, samples: Vec<Sample>) -> Metric {
        Metric { name: self.name, help: self.help, kind: self.kind, unit: self.unit, samples }
    }
}

impl Family<0> {
    /// The value of a counter or gauge without labels.
    pub fn is(&self, value: f64) -> Metric {
        self.of([([], value)])
    }
}

impl Entry {
    /// The name that a counter's samples have; of a histogram those of its buckets, sum and count
    /// begin so.
    pub fn sample_name(&self) -> String {
        let suffix = if self.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{}{suffix}", self.name)
    }
}

/// A count as Prometheus keeps it; above 2^53 it is rounded.
#[expect(clippy::cast_precision_loss, reason = "Prometheus knows doubles only")]
pub fn number(count: u64) -> f64 {
    count as f64
}

/// The differences between these metrics and the catalogue, for tests.
pub fn faults(metrics: &[Metric]) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    let twice = metrics.iter().filter(|metric| !seen.insert(metric.name));
    let twice: Vec<_> = twice.map(|metric| format!("{} is there twice", metric.name)).collect();
    let of_each = metrics.iter().flat_map(|metric| match ALL.iter().find(|e| e.name == metric.name) {
        Some(entry) => metric.samples.iter().filter_map(|sample| fault(entry, sample)).collect(),
        None => vec![format!("{} is not in the catalogue", metric.name)],
    });
    twice.into_iter().chain(of_each).collect()
}

fn fault(entry: &Entry, sample: &Sample) -> Option<String> {
    let names: Vec<_> = sample.labels.iter().map(|(name, _)| *name).collect();
    let expected: Vec<_> = entry.labels.iter().map(|label| label.name).collect();
    if names != expected {
        return Some(format!("{} has labels {names:?}, not {expected:?}", entry.name));
    }
    let strange = entry.labels.iter().zip(&sample.labels).find(|(label, (_, value))| match label.values {
        Values::Names(_) => value.is_empty(),
        Values::Words(words) => !words.iter().any(|(word, _)| word == value),
    });
    if let Some((label, (_, value))) = strange {
        return Some(format!("{}: {value:?} is no {} of the catalogue", entry.name, label.name));
    }
    let is_histogram = entry.kind == MetricKind::Histogram;
    if is_histogram != sample.buckets.last().is_some_and(|(end, _)| end.is_infinite()) {
        return Some(format!(
            "{}: a histogram has buckets, the last one without end, others none",
            entry.name
        ));
    }
    let ascends = sample.buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
    (!ascends).then(|| format!("{}: buckets count what is at most their end", entry.name))
}

#[cfg(test)]
mod tests;
