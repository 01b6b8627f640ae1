//! What arrived: packets, losses, verified content, order and copies.

use std::collections::BTreeMap;

use weir_model::counted;
use weir_model::plan::{Direction, Transport};
use weir_model::record::{Crossing, Flow, Receiver, Record, Sums};

use super::{Items, pps, receivers};
use crate::number::{percent, significant};
use crate::style::clean;

pub(super) fn packets(items: &mut Items, record: &Record) {
    for direction in [Direction::Forward, Direction::Reverse] {
        let udp = |f: &&Flow| f.direction == direction && f.transport == Transport::Udp;
        // A direction's total counts reads of streams too; it serves only where all are datagrams.
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
    let tell = |lost: u64, received: u64, ratio: Option<f64>, runs: &BTreeMap<String, u64>| {
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
            let mut text = tell(
                r.lost_packets?,
                r.packets,
                r.loss_ratio,
                r.loss_periods.as_ref().unwrap_or(&none),
            );
            if r.ambiguous == Some(true) {
                text += "; loss periods, duplicates and order may be wrong (ambiguous)";
            }
            match (r.reported_until_seconds, f.lost_an_end()) {
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
            let mut text = tell(lost, received, None, &runs);
            if ambiguous > 0 {
                text += &format!("; {} ambiguous", counted(ambiguous, "flow"));
            }
            // A stream has no loss of its own that could be known.
            let cut = |f: &&Flow| f.transport == Transport::Udp && f.lost_an_end();
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

/// `6 runs of 1, 1 of 2`: lengths in numeric order, the gathered rest last.
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

/// Only what was asked for with --verify has counts of bit errors.
pub(super) fn verified(items: &mut Items, flows: &[Flow]) {
    let clean_bytes = |r: &Receiver| {
        let is_clean = r.bit_errors == Some(0)
            && r.corrupted_packets.unwrap_or(0) == 0
            && r.truncated_packets.unwrap_or(0) == 0;
        is_clean.then_some(r.bytes)
    };
    let told = |bytes: u64| format!("{}, no bit errors", counted(bytes, "byte"));
    items.per_flow(
        "Content verified",
        flows,
        |f| f.receiver.as_ref().and_then(clean_bytes).filter(|bytes| *bytes > 0).map(told),
        |flows| {
            // What is wrong in some flow stands among the arrivals.
            let all: Option<Vec<u64>> = receivers(flows).map(|(_, r)| clean_bytes(r)).collect();
            Some(all?.iter().sum()).filter(|bytes| *bytes > 0).map(told)
        },
    );
}

pub(super) fn arrivals(items: &mut Items, flows: &[Flow]) {
    // Only what happened is printed: a clean run has no line here.
    let tell = |counts: [(Option<u64>, &str); 9]| {
        let parts: Vec<String> = counts
            .into_iter()
            .filter_map(|(n, what)| n.filter(|n| *n > 0).map(|n| format!("{n} {what}")))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    let counts = |r: &Receiver| {
        [
            (r.late_packets, "late"),
            (r.duplicate_packets, "duplicate"),
            (r.reordered_packets, "reordered"),
            (r.corrupted_packets, "corrupted"),
            (r.implausible_packets, "with an implausible number"),
            (r.forced_packets, "given up early"),
            (r.truncated_packets, "truncated"),
            (r.bit_errors, "bit errors"),
            (
                r.socket_dropped_packets,
                // The kernel counts both, and a super-packet once.
                match r.crossing {
                    Some(Crossing::Coalesced) => {
                        "buffers dropped at the socket (full, or wrong checksum)"
                    }
                    _ => "dropped at the socket (full, or wrong checksum)",
                },
            ),
        ]
    };
    items.per_flow(
        "Arrivals",
        flows,
        |f| {
            let r = f.receiver.as_ref()?;
            let mut text = tell(counts(r))?;
            if let Some(extent) = r.reordering_extent_max.filter(|e| *e > 0) {
                let mean = r.reordering_extent_mean.map(|mean| significant(mean) + " on average, ");
                let mean = mean.unwrap_or_default();
                text += &format!("; reordering extent {mean}up to {}", counted(extent, "packet"));
            }
            Some(text)
        },
        |flows| {
            let mut sums = counts(&Receiver::default());
            for (_, r) in receivers(flows) {
                for (sum, (n, _)) in sums.iter_mut().zip(counts(r)) {
                    sum.0 = Some(sum.0.unwrap_or(0).saturating_add(n.unwrap_or(0)));
                }
            }
            tell(sums)
        },
    );
}
