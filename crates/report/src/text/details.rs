//! The labelled lines under the table: packets, loss, delay, CPU, pacing, clocks, the ledger.
//!
//! Up to four flows have a line each; more are told by their median and range, so that the summary stays a page.

use std::collections::BTreeMap;

use weir_model::plan::{Direction, Transport};
use weir_model::record::{CpuEnd, Delay, Flow, LossLedger, Receiver, Record, Sums, Triangulation};
use weir_model::units::BitRate;

use super::TextOptions;
use super::wrap::wrap;
use crate::number::{duration, percent, significant, volume};
use crate::style::{Style, clean};
use crate::table::{Align, Table};

/// Up to this many flows have lines of their own.
const FLOWS_DETAILED: usize = 4;
/// Column at which the text of an item begins.
const INDENT: usize = 17;

/// Collects labelled lines.
struct Items<'a> {
    out: String,
    options: &'a TextOptions,
    each: bool,
}

impl Items<'_> {
    fn item(&mut self, label: &str, text: &str) {
        // The label is put in after wrapping, as its padding is no place to break.
        let body = wrap(text, self.options.width.saturating_sub(INDENT), 0);
        for (i, line) in body.lines().enumerate() {
            self.out += &format!("{:<INDENT$}{line}\n", if i == 0 { label } else { "" });
        }
    }

    /// A line for each flow, or one digest of all.
    fn per_flow(
        &mut self,
        label: &str,
        flows: &[Flow],
        one: impl Fn(&Flow) -> Option<String>,
        digest: impl Fn(&[Flow]) -> Option<String>,
    ) {
        if self.each {
            let mut label = label;
            for flow in flows {
                if let Some(text) = one(flow) {
                    let text =
                        if flows.len() > 1 { format!("[{:>3}] {text}", flow.id) } else { text };
                    self.item(label, &text);
                    label = "";
                }
            }
        } else if let Some(text) = digest(flows) {
            self.item(label, &text);
        }
    }
}

/// All labelled lines of a record.
pub(super) fn details(record: &Record, options: &TextOptions) -> String {
    let each = options.verbose || record.flows.len() <= FLOWS_DETAILED;
    let mut items = Items { out: String::new(), options, each };
    let flows = &record.flows;
    let udp = flows.iter().any(|f| f.transport == Transport::Udp);
    if udp {
        packets(&mut items, record);
        loss(&mut items, record);
        arrivals(&mut items, flows);
        variation(&mut items, flows);
    }
    verified(&mut items, flows);
    delays(&mut items, flows);
    latency(&mut items, record);
    tcp(&mut items, flows);
    pacing(&mut items, flows);
    ways(&mut items, flows);
    cpu(&mut items, record);
    link(&mut items, record);
    clocks(&mut items, record);
    if let Some(ledger) = &record.loss_ledger {
        loss_ledger(&mut items, ledger);
    }
    if let Some(joined) = &record.triangulation {
        triangulation(&mut items, joined);
    }
    items.out
}

fn receivers(flows: &[Flow]) -> impl Iterator<Item = (&Flow, &Receiver)> {
    flows.iter().filter_map(|f| Some((f, f.receiver.as_ref()?)))
}

/// `median 3 (1 to 9, 1000 flows)`.
fn spread(values: impl Iterator<Item = f64>, show: fn(f64) -> String) -> Option<String> {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let (first, last) = (values.first()?, values.last()?);
    // The lower of the two middle values: one that was measured.
    let median = values[(values.len() - 1) / 2];
    Some(format!(
        "median {} ({} to {}, {} flows)",
        show(median),
        show(*first),
        show(*last),
        values.len()
    ))
}

fn packets(items: &mut Items, record: &Record) {
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

fn loss(items: &mut Items, record: &Record) {
    let tell = |lost: u64, received: u64, ratio: Option<f64>, runs: &BTreeMap<String, u64>| {
        let sent = received.saturating_add(lost);
        let ratio = ratio.unwrap_or(if sent == 0 { 0.0 } else { lost as f64 / sent as f64 });
        let mut text = format!("{lost} of {sent} packets lost ({})", percent(ratio));
        if !runs.is_empty() {
            text += &format!("; {}", run_lengths(runs));
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
                r.loss_runs.as_ref().unwrap_or(&none),
            );
            if r.ambiguous == Some(true) {
                text += "; runs, duplicates and order may be wrong (ambiguous)";
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
                for (length, n) in r.loss_runs.iter().flatten() {
                    let sum: &mut u64 = runs.entry(length.clone()).or_default();
                    *sum = sum.saturating_add(*n);
                }
                ambiguous += usize::from(r.ambiguous == Some(true));
            }
            let mut text = tell(lost, received, None, &runs);
            if ambiguous > 0 {
                text += &format!("; {ambiguous} flows ambiguous");
            }
            // A stream has no loss of its own that could be known.
            let cut = |f: &&Flow| f.transport == Transport::Udp && f.lost_an_end();
            match flows.iter().filter(cut).count() {
                0 => {}
                n => {
                    text += &format!(
                        " as far as was told; {n} flows lost an end, their loss is not known"
                    )
                }
            }
            known.then_some(text)
        },
    );
}

/// `6 runs of 1, 1 of 2`: lengths in numeric order, the gathered rest last.
fn run_lengths(runs: &BTreeMap<String, u64>) -> String {
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
            format!("{n}{} of {}", if i == 0 { " runs" } else { "" }, clean(length))
        })
        .collect();
    if list.len() > most {
        parts.push(format!("{} longer lengths", list.len() - most));
    }
    parts.join(", ")
}

/// Only what was asked for with --verify has counts of bit errors.
fn verified(items: &mut Items, flows: &[Flow]) {
    let clean_bytes = |r: &Receiver| {
        let is_clean = r.bit_errors == Some(0)
            && r.corrupted_packets.unwrap_or(0) == 0
            && r.truncated_packets.unwrap_or(0) == 0;
        is_clean.then_some(r.bytes)
    };
    let told = |bytes: u64| format!("{bytes} bytes, no bit errors");
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

fn arrivals(items: &mut Items, flows: &[Flow]) {
    // Only what happened is told: a clean run has no line here.
    let tell = |counts: [(Option<u64>, &str); 7]| {
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
            (r.truncated_packets, "truncated"),
            (r.bit_errors, "bit errors"),
            (r.socket_dropped_packets, "dropped by the socket's full buffer"),
        ]
    };
    items.per_flow(
        "Arrivals",
        flows,
        |f| {
            let r = f.receiver.as_ref()?;
            let mut text = tell(counts(r))?;
            if let Some(extent) = r.reordering_extent_max.filter(|e| *e > 0) {
                text += &format!("; reordering extent up to {extent} packets");
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

fn variation(items: &mut Items, flows: &[Flow]) {
    let between = |r: &Receiver| match r.time_unit.as_deref() {
        Some("batch") => ", between batches",
        _ => "",
    };
    items.per_flow(
        "Jitter",
        flows,
        |f| {
            let r = f.receiver.as_ref()?;
            Some(format!("{} (RFC 3550{})", duration(r.jitter_seconds?), between(r)))
        },
        |flows| {
            let text = spread(receivers(flows).filter_map(|(_, r)| r.jitter_seconds), duration)?;
            Some(text + ", RFC 3550")
        },
    );
    let pdv = |r: &Receiver| r.delay_variation.as_ref().and_then(|v| v.pdv_p99_seconds);
    let ipdv = |r: &Receiver| r.delay_variation.as_ref().and_then(|v| v.ipdv_p99_seconds);
    items.per_flow(
        "Delay variation",
        flows,
        |f| {
            let r = f.receiver.as_ref()?;
            let parts: Vec<String> = [(pdv(r), "PDV p99"), (ipdv(r), "IPDV p99")]
                .into_iter()
                .filter_map(|(v, what)| Some(format!("{what} {}", duration(v?))))
                .collect();
            (!parts.is_empty()).then(|| format!("{} (RFC 5481{})", parts.join(", "), between(r)))
        },
        |flows| {
            let text = spread(receivers(flows).filter_map(|(_, r)| pdv(r)), duration)?;
            Some(format!("PDV p99 {text}, RFC 5481"))
        },
    );
}

/// `min 12 us, mean …, p50 …, p99 …, max …, ± 8 us`.
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
        parts.push(format!("± {}", duration(error)));
    }
    let mut text = parts.join(", ");
    if let Some(n) = d.negative_samples.filter(|n| *n > 0) {
        text += &format!("; {n} samples below zero: the clocks differ by more than the bound");
    }
    text
}

fn delays(items: &mut Items, flows: &[Flow]) {
    let verbose = items.options.verbose;
    type Pick = fn(&Flow) -> Option<&Delay>;
    let kinds: [(&str, Pick); 3] = [
        ("One-way delay", |f| f.receiver.as_ref()?.one_way_delay.as_ref()),
        ("  from intended", |f| f.receiver.as_ref()?.one_way_delay_from_intended.as_ref()),
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
                    text += &format!(", ± {}", duration(value));
                }
                Some(text)
            },
        );
    }
}

fn latency(items: &mut Items, record: &Record) {
    let Some(latency) = &record.latency else { return };
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
        (None, None) => "no probe came back".into(),
    };
    if let Some(rpm) = latency.responsiveness_per_minute {
        text += &format!("; {} round trips a minute", significant(rpm));
    }
    if latency.lost > 0 {
        text += &format!("; {} of {} probes lost", latency.lost, latency.sent);
    }
    text += &format!(" ({} probes)", clean(&latency.method));
    items.item("Under load", &text);
    if verbose {
        for (label, d) in [("  idle", &latency.idle), ("  loaded", &latency.loaded)] {
            if let Some(d) = d {
                items.item(label, &delay(d, true));
            }
        }
    }
}

fn tcp(items: &mut Items, flows: &[Flow]) {
    items.per_flow(
        "TCP",
        flows,
        |f| {
            let t = f.tcp.as_ref()?;
            let mut text = format!("{} segments retransmitted", t.retransmits);
            if let Some(bytes) = t.retransmitted_bytes.filter(|b| *b > 0) {
                text += &format!(" ({})", volume(bytes));
            }
            text += &format!(", rtt {}", duration(t.rtt_seconds));
            if let Some(min) = t.min_rtt_seconds {
                text += &format!(" (min {})", duration(min));
            }
            text += &format!(", cwnd {}, MSS {}", volume(t.cwnd_bytes), t.mss_bytes);
            if !t.congestion_control.is_empty() {
                text += &format!(", {}", clean(&t.congestion_control));
            }
            let limits = [
                (t.receive_window_limited_ratio, "receive window"),
                (t.send_buffer_limited_ratio, "send buffer"),
            ];
            for (ratio, what) in limits {
                if let Some(ratio) = ratio.filter(|r| *r > 0.0) {
                    text += &format!(", {} limited by the {what}", percent(ratio));
                }
            }
            Some(text)
        },
        |flows| {
            let all = || flows.iter().filter_map(|f| f.tcp.as_ref());
            let rtt = spread(all().map(|t| t.rtt_seconds), duration)?;
            let retransmits = all().fold(0u64, |sum, t| sum.saturating_add(t.retransmits));
            Some(format!("{retransmits} segments retransmitted, rtt {rtt}"))
        },
    );
}

fn pacing(items: &mut Items, flows: &[Flow]) {
    items.per_flow(
        "Pacing",
        flows,
        |f| {
            let s = f.sender.as_ref()?;
            let mut parts = vec![];
            if let Some(asked) = s.asked_packets_per_second {
                parts.push(format!(
                    "asked {}/s, sent {}/s",
                    pps(asked),
                    s.packets_per_second.map_or("-".into(), pps)
                ));
            }
            if let Some(spacing) = &s.spacing {
                let mut text = format!(
                    "spacing {} ± {}",
                    duration(spacing.intended_seconds),
                    duration(spacing.deviation_seconds)
                );
                if let Some(p99) = spacing.p99_seconds {
                    text +=
                        &format!(" (p99 {}, max {})", duration(p99), duration(spacing.max_seconds));
                } else {
                    text += &format!(" (max {})", duration(spacing.max_seconds));
                }
                parts.push(text);
            }
            parts.extend(slots(s.late_slots, s.missed_slots, s.intended_slots));
            if s.intended_slots.is_some() && s.scheduling.as_deref() == Some("fifo") {
                parts.push("real-time scheduling".into());
            }
            (!parts.is_empty()).then(|| parts.join(", "))
        },
        |flows| {
            let senders = || flows.iter().filter_map(|f| f.sender.as_ref());
            let spacing = spread(
                senders().filter_map(|s| Some(s.spacing.as_ref()?.deviation_seconds)),
                duration,
            );
            let sum = |value: fn(&weir_model::record::Sender) -> Option<u64>| {
                senders().filter_map(value).reduce(u64::saturating_add)
            };
            // Each against its own rate: flows may differ, and not all run at once.
            let share = |s: &weir_model::record::Sender| {
                let asked = s.asked_packets_per_second.filter(|a| *a > 0.0)?;
                Some(s.packets_per_second? / asked)
            };
            let mut parts: Vec<String> = vec![];
            if let Some(sent) = spread(senders().filter_map(share), percent) {
                parts.push(format!("sent of asked {sent}"));
            }
            if let Some(spacing) = spacing {
                parts.push(format!("spacing deviation {spacing}"));
            }
            parts.extend(slots(
                sum(|s| s.late_slots),
                sum(|s| s.missed_slots),
                sum(|s| s.intended_slots),
            ));
            (!parts.is_empty()).then(|| parts.join(", "))
        },
    );
}

/// Packets per second to the tenth of a per mille, which is what pacing is judged by.
fn pps(value: f64) -> String {
    if !value.is_finite() {
        "-".into()
    } else if value >= 10_000.0 {
        format!("{value:.0}")
    } else {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    }
}

fn slots(late: Option<u64>, missed: Option<u64>, intended: Option<u64>) -> Option<String> {
    let mut parts = vec![];
    if let Some(late) = late {
        parts.push(format!("{late} late"));
    }
    if let Some(missed) = missed {
        parts.push(format!("{missed} missed"));
    }
    if parts.is_empty() {
        return None;
    }
    let of = intended.map(|n| format!(" of {n}")).unwrap_or_default();
    Some(format!("slots: {}{of}", parts.join(", ")))
}

/// How bytes were sent and received; only when verbose.
fn ways(items: &mut Items, flows: &[Flow]) {
    if !items.options.verbose {
        return;
    }
    let end = |what: &str,
               method: &str,
               calls: Option<u64>,
               segments: Option<f64>,
               buffer: Option<u64>| {
        let mut text = format!("{what} by {}", clean(method));
        if let Some(calls) = calls {
            text += &format!(", {calls} calls");
        }
        if let Some(segments) = segments {
            text += &format!(", {} datagrams a message", significant(segments));
        }
        if let Some(buffer) = buffer {
            text += &format!(", buffer {}", volume(buffer));
        }
        text
    };
    items.per_flow(
        "Method",
        flows,
        |f| {
            let mut parts = vec![];
            if let Some(s) = &f.sender {
                parts.push(end(
                    "sent",
                    &s.method,
                    s.io_calls,
                    s.segments_per_message,
                    s.buffer_bytes,
                ));
            }
            if let Some(r) = &f.receiver {
                let p =
                    end("received", &r.method, r.io_calls, r.segments_per_message, r.buffer_bytes);
                parts.push(p);
            }
            if let Some(connect) = f.connect_seconds {
                parts.push(format!("connected in {}", duration(connect)));
            }
            (!parts.is_empty()).then(|| parts.join("; "))
        },
        |_| None,
    );
}

fn cpu(items: &mut Items, record: &Record) {
    let Some(cpu) = &record.cpu else { return };
    let end = |name: &str, end: &CpuEnd| {
        let busy = end.user_ratio + end.system_ratio + end.irq_ratio;
        let mut text = format!(
            "{name} {} (user {}, system {}, irq {}",
            percent(busy),
            percent(end.user_ratio),
            percent(end.system_ratio),
            percent(end.irq_ratio)
        );
        if end.steal_ratio > 0.0 {
            text += &format!(", stolen {}", percent(end.steal_ratio));
        }
        text += ")";
        if let Some(core) = end.busiest_core_ratio {
            text += &format!(", busiest core {}", percent(core));
        }
        text + &format!(
            ", weir {} cores",
            significant(end.process_user_ratio + end.process_system_ratio)
        )
    };
    for (label, name, side) in [("CPU", "local", &cpu.local), ("", "remote", &cpu.remote)] {
        if let Some(side) = side {
            let label = if cpu.local.is_none() { "CPU" } else { label };
            items.item(label, &end(name, side));
        }
    }
}

fn link(items: &mut Items, record: &Record) {
    let Some(usage) = &record.link_usage else { return };
    items.item(
        "Link usage",
        &format!(
            "{}: payload {}, IP {}, Ethernet {}, wire {} of {}bit/s ({})",
            usage.direction,
            percent(usage.payload_ratio),
            percent(usage.ip_ratio),
            percent(usage.ethernet_ratio),
            percent(usage.wire_ratio),
            BitRate(usage.nominal_bits_per_second),
            clean(&usage.source)
        ),
    );
}

fn clocks(items: &mut Items, record: &Record) {
    if let Some(source) = &record.time_source {
        items.item(
            "Time source",
            &format!(
                "send {}, receive {}, resolution {}",
                clean(&source.send),
                clean(&source.receive),
                duration(source.resolution_seconds)
            ),
        );
    }
    if let Some(clock) = &record.clock {
        let text = if clock.method == "shared" {
            format!("one clock shared by both ends, ± {}", duration(clock.error_seconds))
        } else {
            let (method, offset, error) = (
                clean(&clock.method),
                duration(clock.offset_seconds),
                duration(clock.error_seconds),
            );
            let mut text = match clock.source.as_deref() {
                None | Some("probes") => format!(
                    "{method}: offset {offset}, skew {} ppm, ± {error} from {} probes",
                    significant(clock.skew_ratio * 1e6),
                    clock.samples
                ),
                Some(service) => format!(
                    "{method}: offset {offset}, ± {error} by {} at both ends, tighter than {} probes and not against them",
                    clean(service),
                    clock.samples
                ),
            };
            if let Some(min) = clock.min_round_trip_seconds {
                text += &format!(" (smallest round trip {})", duration(min));
            }
            text
        };
        items.item("Clocks", &text);
    }
    if let Some(calibration) = &record.calibration {
        let parts: Vec<String> =
            calibration.noise_floor.iter().map(|(name, value)| noise(name, *value)).collect();
        items.item(
            "Noise floor",
            &format!("{} (calibrated {})", parts.join(", "), clean(&calibration.at)),
        );
    }
}

/// A figure of the noise floor in words: the end of its name tells its unit.
fn noise(name: &str, value: f64) -> String {
    type Show = fn(f64) -> String;
    let units: [(&str, Show); 4] = [
        ("_packets_per_second", |v| format!("{}/s", pps(v))),
        ("_bits_per_second", |v| crate::number::Units::ADAPTIVE.rate(v)),
        ("_seconds", duration),
        ("_ratio", percent),
    ];
    for (end, show) in units {
        if let Some(stem) = name.strip_suffix(end) {
            return format!("{} {}", clean(&stem.replace('_', " ")), show(value));
        }
    }
    format!("{} {}", clean(&name.replace('_', " ")), significant(value))
}

/// The table of places where packets went missing; nothing when none is.
fn triangulation(items: &mut Items, joined: &Triangulation) {
    let mut text = format!(
        "{} packets' fates agree with the emulator's, {} do not; {} of {} as predicted",
        joined.matched_packets,
        joined.disagreeing_packets,
        joined.predicted_fates,
        joined.predicted_fates + joined.unpredicted_fates,
    );
    if let Some(r) = &joined.residual {
        text += &format!(
            "; residual delay p50 {}, p99 {}, max {}",
            duration(r.p50_seconds),
            duration(r.p99_seconds),
            duration(r.max_seconds)
        );
    }
    items.item("Triangulation", &text);
}

fn loss_ledger(items: &mut Items, ledger: &LossLedger) {
    if ledger.missing_packets == 0
        && ledger.remainder_packets == 0
        && ledger.rows.iter().all(|r| r.packets == 0)
    {
        return;
    }
    items.item("Loss ledger", &format!("{} packets missing", ledger.missing_packets));
    let mut table = Table::new([
        ("stage", Align::Left),
        ("side", Align::Left),
        ("packets", Align::Right),
        ("kind", Align::Left),
        ("source", Align::Left),
    ])
    .indented(2);
    for row in ledger.rows.iter().filter(|r| r.packets > 0 || items.options.verbose) {
        let side = row.side.as_deref().unwrap_or("");
        table.row([row.stage.as_str(), side, &row.packets.to_string(), &row.kind, &row.source]);
    }
    table.row(["not placed", "", &ledger.remainder_packets.to_string(), "", ""]);
    items.out += &table.render(&Style::PLAIN);
}
