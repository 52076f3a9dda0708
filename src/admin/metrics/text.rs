//! Metrics as Prometheus reads them. Sources: "OpenMetrics 1.0", "Text format" (ABNF); Prometheus,
//! "Exposition formats".

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as EncodedUnit};

use crate::admin::desk::{Metric, MetricKind, Sample, Unit};

/// The format that the reader of `/metrics` asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// The format that Prometheus asks for by itself.
    OpenMetrics,
    /// The format that everything else reads.
    Plain,
}

impl Format {
    /// By an `Accept` header; both formats say the same.
    pub(crate) fn accepted(accept: &str) -> Format {
        let takes = |range: &str| {
            let mut parts = range.split(';').map(str::trim);
            let is_refused = |part: &str| {
                let quality = part.strip_prefix("q=").or(part.strip_prefix("Q="));
                quality.is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0))
            };
            parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"))
                && !parts.any(is_refused)
        };
        if accept.split(',').any(takes) { Format::OpenMetrics } else { Format::Plain }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Metrics without samples are left out.
pub(crate) fn encode(metrics: Vec<Metric>, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(metrics)));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(match format {
        Format::OpenMetrics => out,
        Format::Plain => plain(&out),
    })
}

/// OpenMetrics to the plain format. There a counter's family has the name of its samples, and there
/// are no UNIT lines and no EOF.
fn plain(text: &str) -> String {
    let counters: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let line = |line: &str| {
        let renamed = ["# HELP ", "# TYPE "].into_iter().find_map(|word| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            counters.contains(&name).then(|| format!("{word}{name}_total {rest}\n"))
        });
        match renamed {
            Some(renamed) => renamed,
            None if line.starts_with("# UNIT ") || line == "# EOF" => String::new(),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

#[derive(Debug)]
struct Scrape(Vec<Metric>);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in self.0.iter().filter(|metric| !metric.samples.is_empty()) {
            let (unit, suffix) = unit(metric.unit);
            let kind = match metric.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            // The encoder appends the unit to the name.
            let name = metric.name.strip_suffix(suffix).unwrap_or(metric.name);
            let mut of_metric = encoder.encode_descriptor(name, metric.help, unit.as_ref(), kind)?;
            for sample in &metric.samples {
                encode_sample(&mut of_metric, metric.kind, sample)?;
            }
        }
        Ok(())
    }
}

fn unit(unit: Unit) -> (Option<EncodedUnit>, &'static str) {
    match unit {
        Unit::Count => (None, ""),
        Unit::Seconds => (Some(EncodedUnit::Seconds), "_seconds"),
        Unit::Bytes => (Some(EncodedUnit::Bytes), "_bytes"),
        // The encoder's own word is "ratios".
        Unit::Ratio => (Some(EncodedUnit::Other("ratio".to_owned())), "_ratio"),
    }
}

fn encode_sample(encoder: &mut MetricEncoder<'_>, kind: MetricKind, sample: &Sample) -> fmt::Result {
    let labels: Vec<_> = sample.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if labels.is_empty() {
        return encode_value(encoder, kind, sample);
    }
    encode_value(&mut encoder.encode_family(&labels)?, kind, sample)
}

fn encode_value(encoder: &mut MetricEncoder<'_>, kind: MetricKind, sample: &Sample) -> fmt::Result {
    match kind {
        MetricKind::Counter => encoder.encode_counter::<NoLabelSet, f64, f64>(&sample.value, None),
        MetricKind::Gauge => encoder.encode_gauge(&sample.value),
        MetricKind::Histogram => {
            let buckets = of_each(&sample.buckets);
            let count = sample.buckets.last().map_or(0, |(_, count)| *count);
            encoder.encode_histogram::<NoLabelSet>(sample.value, count, &buckets, None)
        }
    }
}

/// The encoder adds them up itself.
fn of_each(cumulative: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let below = std::iter::once(0).chain(cumulative.iter().map(|(_, count)| *count));
    let each = cumulative.iter().zip(below);
    each.map(|((end, count), below)| (*end, count.saturating_sub(below))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Format, encode};
    use crate::admin::desk::Metric;
    use crate::admin::metrics::{BYTES, ID_WAIT, IDS_ISSUED, RESERVE_IDS, STORE_TIME, Timing, USED};

    #[track_caller]
    fn check(metrics: &[Metric], open: &str, plain: &str) {
        assert_eq!(encode(metrics.to_vec(), Format::OpenMetrics).unwrap(), format!("{open}# EOF\n"));
        assert_eq!(encode(metrics.to_vec(), Format::Plain).unwrap(), plain);
    }

    fn timing() -> Timing {
        Timing { seconds: 1.5, buckets: vec![(0.1, 2), (1.0, 2), (f64::INFINITY, 3)] }
    }

    #[test]
    fn both_formats() {
        check(
            &[IDS_ISSUED.of([(["shop.o\"r\\d\ner"], 3.0)])],
            "# HELP rowstamp_ids_issued Ids taken from a generator.\n# TYPE rowstamp_ids_issued counter\n\
             rowstamp_ids_issued_total{generator=\"shop.o\\\"r\\\\d\\ner\"} 3.0\n",
            "# HELP rowstamp_ids_issued_total Ids taken from a generator.\n# TYPE rowstamp_ids_issued_total counter\n\
             rowstamp_ids_issued_total{generator=\"shop.o\\\"r\\\\d\\ner\"} 3.0\n",
        );
        check(
            &[BYTES.of([(["to_client"], 7.0)])],
            "# HELP rowstamp_traffic_bytes Bytes between clients and the proxy, without the bytes that TLS adds.\n\
             # TYPE rowstamp_traffic_bytes counter\n# UNIT rowstamp_traffic_bytes bytes\n\
             rowstamp_traffic_bytes_total{direction=\"to_client\"} 7.0\n",
            "# HELP rowstamp_traffic_bytes_total Bytes between clients and the proxy, without the bytes that TLS adds.\n\
             # TYPE rowstamp_traffic_bytes_total counter\n\
             rowstamp_traffic_bytes_total{direction=\"to_client\"} 7.0\n",
        );
        let gauge = "# HELP rowstamp_generator_used_ratio Share of the generator's ids that are used; for a timestamp \
                     generator, the share of its layout's time.\n# TYPE rowstamp_generator_used_ratio gauge\n";
        let sample = "rowstamp_generator_used_ratio{generator=\"shop.g\"} 0.25\n";
        check(
            &[USED.of([(["shop.g"], 0.25)])],
            &format!("{gauge}# UNIT rowstamp_generator_used_ratio ratio\n{sample}"),
            &format!("{gauge}{sample}"),
        );
        check(&[RESERVE_IDS.of([])], "", "");
    }

    #[test]
    fn histograms() {
        let head = "# HELP rowstamp_id_wait_seconds How long statements waited for ids that were not reserved.\n\
                    # TYPE rowstamp_id_wait_seconds histogram\n";
        let samples = "rowstamp_id_wait_seconds_sum 1.5\nrowstamp_id_wait_seconds_count 3\n\
                       rowstamp_id_wait_seconds_bucket{le=\"0.1\"} 2\nrowstamp_id_wait_seconds_bucket{le=\"1.0\"} 2\n\
                       rowstamp_id_wait_seconds_bucket{le=\"+Inf\"} 3\n";
        check(
            &[ID_WAIT.timed([([], timing())])],
            &format!("{head}# UNIT rowstamp_id_wait_seconds seconds\n{samples}"),
            &format!("{head}{samples}"),
        );
        let text = encode(vec![STORE_TIME.timed([(["read"], timing())])], Format::Plain).unwrap();
        let bucket = "rowstamp_store_operation_seconds_bucket{le=\"+Inf\",operation=\"read\"} 3\n";
        assert!(text.contains(bucket), "{text}");
    }

    #[test]
    fn what_is_asked_for() {
        let of_prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3";
        for (accept, expect) in [
            ("", Format::Plain),
            ("*/*", Format::Plain),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Plain),
            (of_prometheus, Format::OpenMetrics),
            ("text/plain, Application/OpenMetrics-Text; version=1.0.0", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Plain),
            ("application/openmetrics-text; q=0.0", Format::Plain),
            ("application/openmetrics-textual", Format::Plain),
        ] {
            assert_eq!(Format::accepted(accept), expect, "{accept}");
        }
    }
}
