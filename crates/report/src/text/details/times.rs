//! Lines about times: jitter, delay variation, delays, round trips under load.

use weir_model::counted;
use weir_model::metric::{are_echo, are_transfers};
use weir_model::record::{Delay, Flow, Latency, PathDelaySource, Receiver, Record};

use super::{Items, receivers, spread};
use crate::number::{duration, percent, significant};
use crate::style::clean;

pub(super) fn variation(items: &mut Items, flows: &[Flow]) {
    let between = |r: &Receiver| match r.time_unit.as_deref() {
        Some("batch") => ", between batches",
        _ => "",
    };
    items.per_flow(
        "Jitter",
        flows,
        |f| {
            let r = f.receiver.as_ref()?;
            Some(format!("{} at the end (RFC 3550{})", duration(r.jitter_seconds?), between(r)))
        },
        |flows| {
            let text = spread(receivers(flows).filter_map(|(_, r)| r.jitter_seconds), duration)?;
            Some(text + " at the end, RFC 3550")
        },
    );
    let pdv = |r: &Receiver| r.delay_variation.as_ref().and_then(|v| v.pdv_p99_seconds);
    items.per_flow(
        "Delay variation",
        flows,
        |f| {
            let r = f.receiver.as_ref()?;
            let v = r.delay_variation.as_ref()?;
            let figures = |what: &str, mean: Option<f64>, p99: Option<f64>| {
                let named = [(mean, "mean"), (p99, "p99")].into_iter();
                let named: Vec<String> = named
                    .filter_map(|(v, name)| Some(format!("{name} {}", duration(v?))))
                    .collect();
                (!named.is_empty()).then(|| format!("{what} {}", named.join(", ")))
            };
            let ipdv = figures("IPDV", v.ipdv_mean_seconds, v.ipdv_p99_seconds).map(|text| match v
                .ipdv_omitted_ratio()
            {
                Some(omitted) => {
                    format!(
                        "{text} (at least: {} % of pairs omitted)",
                        significant(100.0 * omitted)
                    )
                }
                None => text,
            });
            let pdv = figures("PDV", v.pdv_mean_seconds, v.pdv_p99_seconds);
            let parts: Vec<String> = pdv.into_iter().chain(ipdv).collect();
            (!parts.is_empty()).then(|| format!("{} (RFC 5481{})", parts.join("; "), between(r)))
        },
        |flows| {
            let text = spread(receivers(flows).filter_map(|(_, r)| pdv(r)), duration)?;
            Some(format!("PDV p99 {text}, RFC 5481"))
        },
    );
}

/// `min 12 µs, mean …, p50 …, p99 …, max …, ± 8 µs`.
fn delay(d: &Delay, verbose: bool) -> String {
    let mut parts = vec![
        format!("min {}", duration(d.min_seconds)),
        format!("mean {}", duration(d.mean_seconds)),
    ];
    let percentiles = [
        (d.p50_seconds, "p50", true),
        (d.p90_seconds, "p90", verbose),
        (d.p99_seconds, "p99", true),
        (d.p99_9_seconds, "p99.9", true),
        (d.p99_99_seconds, "p99.99", verbose),
        (d.p99_999_seconds, "p99.999", verbose),
    ];
    for (value, name, shown) in percentiles {
        if let Some(value) = value.filter(|_| shown) {
            parts.push(format!("{name} {}", duration(value)));
        }
    }
    parts.push(format!("max {}", duration(d.max_seconds)));
    if let Some(error) = d.error_seconds {
        parts.push(format!("clocks ± {}", duration(error)));
    }
    let mut text = parts.join(", ");
    if let Some(n) = d.negative_samples.filter(|n| *n > 0) {
        text += &format!(
            "; {} below zero: the clocks differ by more than the bound",
            counted(n, "sample")
        );
    }
    text
}

/// R and MOS of voice connections, with what they follow from.
pub(super) fn voice(items: &mut Items, flows: &[Flow]) {
    items.per_flow(
        "Voice",
        flows,
        |f| {
            let v = f.voice.as_ref()?;
            let from = match v.path_delay_from {
                PathDelaySource::OneWayDelay => "one-way delay",
                PathDelaySource::HalfRoundTrip => "half the round trip",
            };
            let mut text = format!(
                "MOS {:.2}, R {:.1} (ITU-T G.107, {}): mouth to ear {} ({from} {}, buffer {})",
                v.mos,
                v.r_factor,
                v.codec,
                duration(v.delay_seconds),
                duration(v.path_delay_seconds),
                duration(v.jitter_buffer_seconds),
            );
            if v.missing_ratio > 0.0 {
                text += &format!(
                    ", {} missing at the decoder, burst ratio {:.2}",
                    percent(v.missing_ratio),
                    v.burst_ratio
                );
            }
            Some(text)
        },
        |flows| {
            let scores = flows.iter().filter_map(|f| Some(f.voice.as_ref()?.mos));
            let text = spread(scores, |mos| format!("{mos:.2}"))?;
            Some(format!("MOS {text}, ITU-T G.107"))
        },
    );
}

pub(super) fn delays(items: &mut Items, flows: &[Flow]) {
    let verbose = items.options.verbose;
    type Pick = fn(&Flow) -> Option<&Delay>;
    let response_time = match are_echo(flows) {
        true => "Round trip",
        false if are_transfers(flows) => "Completion time",
        false => "Response time",
    };
    let kinds: [(&str, Pick); 7] = [
        ("One-way delay", |f| f.receiver.as_ref()?.one_way_delay.as_ref()),
        ("  from schedule", |f| f.receiver.as_ref()?.one_way_delay_from_intended.as_ref()),
        (response_time, |f| f.transactions.as_ref()?.response_time.as_ref()),
        ("  from schedule", |f| f.transactions.as_ref()?.response_time_from_scheduled.as_ref()),
        ("Page load time", |f| {
            f.transactions.as_ref()?.transfers.as_ref()?.pages.as_ref()?.load_time.as_ref()
        }),
        ("Set-up time", |f| f.transactions.as_ref()?.setup_time.as_ref()),
        ("Round trip", |f| f.round_trip.as_ref()),
    ];
    for (label, pick) in kinds {
        items.per_flow(
            label,
            flows,
            |f| pick(f).map(|d| delay(d, verbose)),
            |flows| {
                let p50 = spread(flows.iter().filter_map(|f| pick(f)?.p50_seconds), duration);
                let mean =
                    || spread(flows.iter().filter_map(|f| Some(pick(f)?.mean_seconds)), duration);
                let mut text = p50
                    .map(|t| format!("p50 {t}"))
                    .or_else(|| mean().map(|t| format!("mean {t}")))?;
                let worst = |value: fn(&Delay) -> Option<f64>| {
                    flows
                        .iter()
                        .filter_map(|f| Some((value(pick(f)?)?, f.id)))
                        .max_by(|a, b| a.0.total_cmp(&b.0))
                };
                if let Some((value, id)) = worst(|d| d.p99_seconds) {
                    text += &format!(", worst p99 {} (flow {id})", duration(value));
                }
                if let Some((value, id)) = worst(|d| Some(d.max_seconds)) {
                    text += &format!(", max {} (flow {id})", duration(value));
                }
                if let Some((value, _)) = worst(|d| d.error_seconds) {
                    text += &format!(", clocks ± {}", duration(value));
                }
                Some(text)
            },
        );
    }
}

pub(super) fn latency(items: &mut Items, record: &Record) {
    if let Some(latency) = &record.latency {
        under_load(items, "Under load", "", latency);
    }
    let mut label = "Under load";
    for server in &record.servers {
        if let Some(latency) = &server.latency {
            under_load(items, label, &format!("{}: ", clean(&server.name)), latency);
            label = "";
        }
    }
}

/// The line of round trips with one server, whose name is `of`.
fn under_load(items: &mut Items, label: &str, of: &str, latency: &Latency) {
    let verbose = items.options.verbose;
    let short = |d: &Delay| match (d.p50_seconds, d.p99_seconds) {
        (Some(p50), Some(p99)) => format!("p50 {}, p99 {}", duration(p50), duration(p99)),
        (Some(p50), None) => format!("p50 {}, max {}", duration(p50), duration(d.max_seconds)),
        _ => format!("mean {}, max {}", duration(d.mean_seconds), duration(d.max_seconds)),
    };
    let mut text = match (&latency.idle, &latency.loaded) {
        (Some(idle), Some(loaded)) => format!("idle {} -> loaded {}", short(idle), short(loaded)),
        (Some(idle), None) => format!("idle {}", short(idle)),
        (None, Some(loaded)) => format!("loaded {}", short(loaded)),
        (None, None) => "no probe was answered".into(),
    };
    if let Some(rpm) = latency.responsiveness_per_minute {
        text += &format!(
            "; {} round trips a minute (60 s / mean {})",
            significant(rpm),
            duration(60.0 / rpm)
        );
    }
    if latency.lost > 0 {
        text += &format!("; {} of {} lost", latency.lost, counted(latency.sent, "probe"));
    }
    text += &format!(" ({} probes)", clean(&latency.method));
    items.item(label, &format!("{of}{text}"));
    if verbose {
        for (label, d) in [("  idle", &latency.idle), ("  loaded", &latency.loaded)] {
            if let Some(d) = d {
                items.item(label, &delay(d, true));
            }
        }
    }
}
