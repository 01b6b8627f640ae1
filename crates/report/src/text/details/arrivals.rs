//! Lines about received packets: counts, losses, verified content, order and copies.

use std::collections::BTreeMap;

use weir_model::counted;
use weir_model::metric::{METRICS, Unit};
use weir_model::plan::Direction;
use weir_model::record::{Crossing, Flow, Receiver, Record, Sums};

use super::{Items, pps, receivers};
use crate::number::{duration, percent, significant};
use crate::style::clean;

pub(super) fn packets(items: &mut Items, record: &Record) {
    for direction in [Direction::Forward, Direction::Reverse] {
        let udp = |f: &&Flow| f.direction == direction && f.transport.datagrams();
        // The total of a direction includes reads of streams; it is shown only if all flows are datagrams.
        if record.flows.iter().filter(|f| f.direction == direction).any(|f| !udp(&f)) {
            continue;
        }
        let Some(total) = record.direction(direction) else { continue };
        let end = |sums: &Option<Sums>, what: &str| {
            sums.as_ref().map(|s| match s.packets_per_second {
                Some(rate) => format!("{} {what} ({}/s)", s.packets, pps(rate)),
                None => format!("{} {what}", s.packets),
            })
        };
        let parts: Vec<String> = [end(&total.sender, "sent"), end(&total.receiver, "received")]
            .into_iter()
            .flatten()
            .collect();
        if !parts.is_empty() {
            items.item("Packets", &format!("{direction}: {}", parts.join(", ")));
        }
    }
}

pub(super) fn loss(items: &mut Items, record: &Record) {
    let text_of = |lost: u64, received: u64, ratio: Option<f64>, runs: &BTreeMap<String, u64>| {
        let sent = received.saturating_add(lost);
        let ratio = ratio.unwrap_or(if sent == 0 { 0.0 } else { lost as f64 / sent as f64 });
        let mut text = format!("{lost} of {} lost ({})", counted(sent, "packet"), percent(ratio));
        if !runs.is_empty() {
            text += &format!("; {}", period_lengths(runs));
        }
        text
    };
    items.per_flow(
        "Loss",
        &record.flows,
        |f| {
            let r = f.receiver.as_ref()?;
            let none = BTreeMap::new();
            let mut text = text_of(
                r.lost_packets?,
                r.packets,
                r.loss_ratio,
                r.loss_periods.as_ref().unwrap_or(&none),
            );
            if r.ambiguous == Some(true) {
                text += "; loss periods, duplicates and order may be wrong (ambiguous)";
            }
            match (r.reported_until_seconds, f.peer_report_missing()) {
                (Some(until), _) => text += &format!(" until {until:.2} s; later not known"),
                (None, true) => {
                    text += " by the numbers that arrived; how many more were sent is not known"
                }
                (None, false) => {}
            }
            Some(text)
        },
        |flows| {
            let mut runs = BTreeMap::new();
            let (mut lost, mut received, mut ambiguous) = (0u64, 0u64, 0);
            let mut known = false;
            for (_, r) in receivers(flows) {
                if let Some(n) = r.lost_packets {
                    known = true;
                    lost = lost.saturating_add(n);
                    received = received.saturating_add(r.packets);
                }
                for (length, n) in r.loss_periods.iter().flatten() {
                    let sum: &mut u64 = runs.entry(length.clone()).or_default();
                    *sum = sum.saturating_add(*n);
                }
                ambiguous += usize::from(r.ambiguous == Some(true));
            }
            let mut text = text_of(lost, received, None, &runs);
            if ambiguous > 0 {
                text += &format!("; {} ambiguous", counted(ambiguous, "flow"));
            }
            // Only flows of datagrams have a loss.
            let cut = |f: &&Flow| f.transport.datagrams() && f.peer_report_missing();
            match flows.iter().filter(cut).count() {
                0 => {}
                n => {
                    text += &format!(
                        " as far as reported; peer report missing for {}, whose loss is unknown",
                        counted(n, "flow")
                    )
                }
            }
            known.then_some(text)
        },
    );
}

/// `6 loss periods of 1, 1 of 2`: lengths in numeric order, further lengths last.
fn period_lengths(runs: &BTreeMap<String, u64>) -> String {
    let mut list: Vec<(u64, &str, u64)> = runs
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(length, n)| (length.parse().unwrap_or(u64::MAX), length.as_str(), *n))
        .collect();
    list.sort_unstable();
    let most = 8;
    let mut parts: Vec<String> = list
        .iter()
        .take(most)
        .enumerate()
        .map(|(i, (_, length, n))| {
            format!("{n}{} of {}", if i == 0 { " loss periods" } else { "" }, clean(length))
        })
        .collect();
    if list.len() > most {
        parts.push(format!("{} longer lengths", list.len() - most));
    }
    parts.join(", ")
}

/// Verified content: only tests with `--verify` have counts of bit errors.
pub(super) fn verified(items: &mut Items, flows: &[Flow]) {
    let clean_bytes = |r: &Receiver| {
        let is_clean = r.bit_errors == Some(0)
            && r.corrupted_packets.unwrap_or(0) == 0
            && r.truncated_packets.unwrap_or(0) == 0;
        is_clean.then_some(r.bytes)
    };
    let without_errors = |bytes: u64| format!("{}, no bit errors", counted(bytes, "byte"));
    // Other damage is shown in the line of arrivals.
    let with_errors = |flows: &[Flow]| {
        let sum = |of: fn(&Receiver) -> Option<u64>| {
            receivers(flows).filter_map(|(_, r)| of(r)).fold(0, u64::saturating_add)
        };
        let (errors, bytes) = (sum(|r| r.bit_errors), sum(|r| r.verified_bytes));
        let ratio = errors as f64 / (8.0 * bytes as f64);
        let text = || format!("{} compared, bit-error ratio {ratio:.1e}", counted(bytes, "byte"));
        (errors > 0 && bytes > 0).then(text)
    };
    items.per_flow(
        "Content verified",
        flows,
        |f| {
            let clean = f.receiver.as_ref().and_then(clean_bytes).filter(|bytes| *bytes > 0);
            clean.map(without_errors).or_else(|| with_errors(std::slice::from_ref(f)))
        },
        |flows| {
            let all: Option<Vec<u64>> = receivers(flows).map(|(_, r)| clean_bytes(r)).collect();
            let clean = all.map(|all| all.iter().sum()).filter(|bytes| *bytes > 0);
            clean.map(without_errors).or_else(|| with_errors(flows))
        },
    );
}

/// The lines of plain values that metrics declare. Values of 0 are omitted, so a path without faults has no such line.
pub(super) fn plain_values(items: &mut Items, flows: &[Flow]) {
    let mut labels: Vec<&str> = vec![];
    for line in METRICS.iter().filter_map(|m| m.line) {
        if !labels.contains(&line.label) {
            labels.push(line.label);
        }
    }
    for label in labels {
        let line_of = |flows: &[Flow]| {
            let declared = METRICS.iter().filter_map(|m| Some((m, m.line?)));
            let mut parts: Vec<String> = declared
                .filter(|(_, line)| line.label == label)
                .filter_map(|(m, line)| {
                    let flows = flows.iter().filter(|f| m.of_flow(f).is_some());
                    let value = m.of_flows(flows, None).filter(|v| *v != 0.0)?;
                    Some(line.text.replace("{}", &shown(m.unit, value)))
                })
                .collect();
            if label == ARRIVALS {
                parts.extend(socket_drops(flows));
            }
            (!parts.is_empty()).then(|| parts.join(", "))
        };
        items.per_flow(
            label,
            flows,
            |f| {
                let mut text = line_of(std::slice::from_ref(f))?;
                if let Some(extent) = extent(f).filter(|_| label == ARRIVALS) {
                    text += &extent;
                }
                Some(text)
            },
            line_of,
        );
    }
}

/// The label of the line with packet counters.
const ARRIVALS: &str = "Arrivals";

/// A value with its unit.
fn shown(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Count => format!("{value:.0}"),
        Unit::Ratio => percent(value),
        Unit::Seconds => duration(value),
        Unit::Bytes => counted(value as u64, "byte"),
        Unit::BitsPerSecond
        | Unit::PacketsPerSecond
        | Unit::TransactionsPerSecond
        | Unit::PerMinute => unit.show(value),
    }
}

/// Datagrams dropped at the sockets. The kernel's counter combines two causes and counts a super-packet once.
fn socket_drops(flows: &[Flow]) -> Option<String> {
    let dropped = receivers(flows).filter_map(|(_, r)| r.socket_dropped_packets);
    let dropped = dropped.fold(0u64, u64::saturating_add);
    let is_coalesced = receivers(flows).any(|(_, r)| r.crossing == Some(Crossing::Coalesced));
    let what = if is_coalesced { "buffers dropped" } else { "dropped" };
    (dropped > 0).then(|| format!("{dropped} {what} at the socket (full, or wrong checksum)"))
}

fn extent(flow: &Flow) -> Option<String> {
    let r = flow.receiver.as_ref()?;
    let extent = r.reordering_extent_max.filter(|e| *e > 0)?;
    let mean = r.reordering_extent_mean.map(|mean| significant(mean) + " on average, ");
    let mean = mean.unwrap_or_default();
    Some(format!("; reordering extent {mean}up to {}", counted(extent, "packet")))
}
