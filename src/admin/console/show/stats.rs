//! SHOW STATS: a row for each sample, four for a histogram.

use crate::admin::console::answer::Type::{Real, Text};
use crate::admin::console::answer::{Column, Rows, sorted};
use crate::admin::desk::{Metric, MetricKind, Sample, Unit};

pub(super) fn columns() -> Vec<Column> {
    [("name", Text), ("labels", Text), ("value", Real), ("unit", Text), ("meaning", Text)]
        .map(|(name, kind)| Column::new(name, kind))
        .into()
}

pub(super) fn stats(metrics: &[Metric]) -> Rows {
    sorted(metrics.iter().flat_map(|metric| metric.samples.iter().flat_map(|s| sample(metric, s))).collect())
}

/// A histogram is four rows, the others one: named as /metrics names them.
fn sample(metric: &Metric, sample: &Sample) -> Rows {
    let labels: Vec<_> = sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let labels = labels.join(" ");
    let row = |suffix: &str, value: f64, unit: Unit| {
        let unit = match unit {
            Unit::Count => "",
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::Ratio => "ratio",
        };
        let name = format!("{}{suffix}", metric.name);
        vec![name.into(), (&*labels).into(), value.into(), unit.into(), metric.help.into()]
    };
    match metric.kind {
        MetricKind::Gauge => vec![row("", sample.value, metric.unit)],
        MetricKind::Counter => vec![row("_total", sample.value, metric.unit)],
        MetricKind::Histogram => vec![
            row("_count", counted(sample), Unit::Count),
            row("_sum", sample.value, metric.unit),
            row("_p50", quantile(sample, 0.5), metric.unit),
            row("_p99", quantile(sample, 0.99), metric.unit),
        ],
    }
}

#[allow(clippy::cast_precision_loss)] // Beyond 2^53 a count is as good rounded.
fn counted(sample: &Sample) -> f64 {
    sample.buckets.last().map_or(0.0, |(_, count)| *count as f64)
}

/// The upper end of the bucket that this share is within. It is infinite, which is shown as NULL,
/// if the share lies in the last bucket.
#[allow(clippy::cast_precision_loss)]
fn quantile(sample: &Sample, share: f64) -> f64 {
    let wanted = counted(sample) * share;
    let bucket = sample.buckets.iter().find(|(_, count)| *count > 0 && *count as f64 >= wanted);
    bucket.map_or(f64::INFINITY, |(end, _)| *end)
}

#[cfg(test)]
mod tests {
    use super::{quantile, stats};
    use crate::admin::console::answer::printed;
    use crate::admin::desk::{Metric, MetricKind, Sample, Unit};

    #[test]
    fn histograms() {
        let buckets = vec![(0.001, 50), (0.01, 98), (0.1, 99), (f64::INFINITY, 100)];
        let sample = Sample { labels: vec![], value: 1.5, buckets };
        let metric = Metric {
            name: "rowstamp_store_seconds",
            help: "h",
            kind: MetricKind::Histogram,
            unit: Unit::Seconds,
            samples: vec![sample.clone()],
        };
        let rows: Vec<_> = stats(&[metric]).iter().map(|row| printed(&row[..4])).collect();
        let expect = [
            "rowstamp_store_seconds_count||100|",
            "rowstamp_store_seconds_p50||0.001|seconds",
            "rowstamp_store_seconds_p99||0.1|seconds",
            "rowstamp_store_seconds_sum||1.5|seconds",
        ];
        assert_eq!(rows, expect);
        assert!(quantile(&sample, 0.999).is_infinite());
        assert!(quantile(&Sample { buckets: vec![], ..sample }, 0.5).is_infinite());
    }
}
