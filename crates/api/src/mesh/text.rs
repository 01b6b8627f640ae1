//! Prometheus' text format, version 0.0.4.

use std::fmt::Write;

use super::{Family, Kind};
use crate::exporter::{Labels, Number};

pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn encode(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.series.is_empty()) {
        // Writing into a string can't fail.
        let _ = write_family(&mut out, family);
    }
    out
}

fn write_family(out: &mut String, family: &Family) -> std::fmt::Result {
    let Family { name, help, kind, series } = family;
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")?;
    for (labels, value) in series {
        match value {
            Number::Integer(number) => writeln!(out, "{name}{} {number}", shown(labels, None))?,
            Number::Real(number) => writeln!(out, "{name}{} {number}", shown(labels, None))?,
            Number::Histogram(histogram) => {
                for (bound, count) in histogram.classic() {
                    let labels = shown(labels, Some(&bound.to_string()));
                    writeln!(out, "{name}_bucket{labels} {count}")?;
                }
                let count = histogram.count;
                writeln!(out, "{name}_bucket{} {count}", shown(labels, Some("+Inf")))?;
                writeln!(out, "{name}_sum{} {}", shown(labels, None), histogram.sum)?;
                writeln!(out, "{name}_count{} {count}", shown(labels, None))?;
            }
        }
    }
    Ok(())
}

fn shown(labels: &Labels, bound: Option<&str>) -> String {
    let escaped = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let all = labels.chain(bound.map(|bound| ("le", bound)));
    let all: Vec<String> =
        all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", all.join(","))
}
