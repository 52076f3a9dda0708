//! This process as Linux sees it, under the names that Prometheus' own clients use. Other systems have no such metrics.
//!
//! Sources: proc(5), the files stat, status and limits of a process; Prometheus, "Writing client libraries", "Process metrics".

use std::fs;

use crate::admin::Metric;
use crate::admin::metrics::{
    PROCESS_CPU, PROCESS_FDS, PROCESS_FDS_MAX, PROCESS_MEMORY, PROCESS_THREADS, number,
};

/// USER_HZ, which is 100 on every architecture that Linux has a port of in use.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Default, PartialEq)]
struct Process {
    cpu_seconds: Option<f64>,
    threads: Option<u64>,
    resident_bytes: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
}

pub(super) fn metrics() -> Vec<Metric> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut process =
        parsed(&read("/proc/self/stat"), &read("/proc/self/status"), &read("/proc/self/limits"));
    process.open_fds = fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64);
    let count = |count: Option<u64>| count.map(|count| ([], number(count)));
    vec![
        PROCESS_CPU.of(process.cpu_seconds.map(|seconds| ([], seconds))),
        PROCESS_THREADS.of(count(process.threads)),
        PROCESS_MEMORY.of(count(process.resident_bytes)),
        PROCESS_FDS.of(count(process.open_fds)),
        PROCESS_FDS_MAX.of(count(process.max_fds)),
    ]
}

/// The process by these files of /proc/self.
fn parsed(stat: &str, status: &str, limits: &str) -> Process {
    // The name in parentheses may hold anything.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    // Counted from the state, which is field 3.
    let field = |nth: usize| after_name.split_whitespace().nth(nth - 3)?.parse::<u64>().ok();
    let word_after = |text: &str, name: &str, nth: usize| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(nth)?.parse::<u64>().ok()
    };
    let seconds = |ticks: u64| number(ticks) / TICKS_PER_SECOND;
    Process {
        cpu_seconds: field(14).zip(field(15)).map(|(user, system)| seconds(user + system)),
        threads: field(20),
        resident_bytes: word_after(status, "VmRSS:", 0).map(|kib| kib * 1024),
        open_fds: None,
        max_fds: word_after(limits, "Max open files", 0),
    }
}

#[cfg(test)]
mod tests {
    use super::{Process, metrics, parsed};

    #[test]
    fn what_linux_says() {
        let stat = "4711 (a ) b) S 1 4711 4711 0 -1 4194560 7000 0 1 0 250 50 0 0 20 0 5 0 12345 262668288 3000 184467 1 1";
        let status = "Name:\ta\nVmRSS:\t   12000 kB\nThreads:\t5\n";
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 1048576              files\n";
        let found = parsed(stat, status, limits);
        let expect = Process {
            cpu_seconds: Some(3.0),
            threads: Some(5),
            resident_bytes: Some(12_288_000),
            open_fds: None,
            max_fds: Some(1_024),
        };
        assert_eq!(found, expect);
        assert_eq!(parsed("", "", ""), Process::default());
    }

    #[test]
    fn of_this_process() {
        for metric in metrics() {
            let [sample] = &metric.samples[..] else { panic!("{} has no value", metric.name) };
            assert!(sample.value > 0.0 || metric.name == "process_cpu_seconds", "{}", metric.name);
        }
    }
}
