//! The summary: both ends of each flow, sums, details such as delay and loss, warnings, and the run's id.

use weir_model::plan::Direction;
use weir_model::record::{Crossing, DirectionTotal, Flow, Record, Status, Sums};
use weir_model::warning::Warning;

use super::details::details;
use super::lines::{End, Layout, Line, Values};
use super::{FLOWS_SHOWN, TextOptions, warning, wrap::wrap};
use crate::meta::FlowMeta;
use crate::page::{bottleneck, in_one_sentence};
use crate::style::clean;

/// The summary of a record as text, printed at the end of `weir test` and by `weir runs show`.
pub fn summary(record: &Record, options: &TextOptions) -> String {
    let style = &options.style;
    let mut out = String::from("- - - - - - - - - - - - - - - - - - - - - - - - -\n");
    if record.status != Status::Complete {
        let word = match record.status {
            Status::Interrupted => "Interrupted",
            _ => "Partial result",
        };
        let text = if record.end_reason.is_empty() || record.end_reason.eq_ignore_ascii_case(word) {
            format!("{word}: what was measured until then")
        } else {
            format!("{word}: {}", clean(&record.end_reason))
        };
        out += &wrap(&text, options.width, 4).replacen(word, &style.red(word), 1);
    }
    if record.flows.is_empty() {
        out += "No flow was measured.\n";
    } else {
        out += &rows(record, options);
        out += &details(record, options);
    }
    for w in shown(&record.warnings, options.verbose) {
        out += &warning(&w, options);
    }
    if let Some(verdict) = &record.verdict {
        for e in &verdict.expectations {
            let word = if e.passed { "met".to_string() } else { style.red("NOT met") };
            let measured = e.measured.map(|m| format!(" (measured {m})")).unwrap_or_default();
            out += &format!("expectation {word}: {}{measured}\n", clean(&e.text));
        }
        out += &if verdict.passed { style.bold("passed") } else { style.red("failed") };
        out.push('\n');
    }
    if !record.flows.is_empty() {
        let text = format!("Result: {} {}", in_one_sentence(record), bottleneck(record));
        out += &wrap(&text, options.width, "Result: ".len());
    }
    if !record.id.is_empty() {
        let id = clean(&record.id);
        out += &if options.stored {
            format!("run {id} (to see it again: weir runs show {id})\n")
        } else {
            format!("run {id} (not stored)\n")
        };
    }
    out
}

/// Number of flows that are named one by one after a warning.
const FLOWS_NAMED: usize = 8;

/// The warnings to print. Of several flows with the same one, the first is stated and the others are named.
fn shown(warnings: &[Warning], verbose: bool) -> Vec<Warning> {
    let mut out: Vec<(&Warning, Vec<u32>)> = vec![];
    for w in warnings {
        let is_same = |known: &&mut (&Warning, _)| {
            known.0.flow.is_some()
                && (known.0.code.as_str(), known.0.severity) == (&w.code, w.severity)
        };
        match (w.flow, out.iter_mut().find(is_same)) {
            (Some(flow), Some((_, likewise))) if !verbose => likewise.push(flow),
            _ => out.push((w, vec![])),
        }
    }
    let with_others = |(w, others): (&Warning, Vec<u32>)| {
        let flows = match &others[..] {
            [] => return w.clone(),
            [one] => format!("flow {one}"),
            named if named.len() <= FLOWS_NAMED => {
                let names: Vec<String> = named.iter().map(u32::to_string).collect();
                format!("flows {}", names.join(", "))
            }
            many => format!("{} other flows", many.len()),
        };
        Warning { text: format!("{}; likewise {flows}", w.text), ..w.clone() }
    };
    out.into_iter().map(with_others).collect()
}

/// The bracketed lines: sender and receiver of each flow and of each direction's sum.
fn rows(record: &Record, options: &TextOptions) -> String {
    let metas: Vec<FlowMeta> = record.flows.iter().map(FlowMeta::from).collect();
    let layout = Layout::new(&metas, options);
    let mut out = layout.heading(Values::Mean);
    let show_flows = options.verbose || record.flows.len() <= FLOWS_SHOWN;
    if show_flows {
        for flow in &record.flows {
            out += &flow_rows(flow, &layout);
        }
    }
    for server in &record.servers {
        for direction in [Direction::Forward, Direction::Reverse] {
            let is_its = |f: &&Flow| {
                f.direction == direction && f.host.as_deref() == Some(server.name.as_str())
            };
            let members: Vec<&Flow> = record.flows.iter().filter(is_its).collect();
            let is_sum = members.len() > 1 || (!show_flows && !members.is_empty());
            if let Some(total) = server.total.of(direction).filter(|_| is_sum) {
                let of = format!(", {}", clean(&server.name));
                out += &sum_rows(direction, &members, total, &of, &layout);
            }
        }
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let members: Vec<&Flow> =
            record.flows.iter().filter(|f| f.direction == direction).collect();
        if (members.len() > 1 || (!show_flows && !members.is_empty()))
            && let Some(total) = record.direction(direction)
        {
            let is_shared =
                direction == Direction::Forward && !record.plan.shared_streams().is_empty();
            let of = if is_shared { ", each stream once" } else { "" };
            out += &sum_rows(direction, &members, total, of, &layout);
        }
    }
    out
}

/// The lines of a sum, both ends; `of` follows the end's name.
fn sum_rows(
    direction: Direction,
    members: &[&Flow],
    total: &DirectionTotal,
    of: &str,
    layout: &Layout,
) -> String {
    let mut out = String::new();
    if let Some(sums) = &total.sender {
        let note = sender(members) + of;
        out += &layout.line(&sum_line(direction, members, sums, false, note));
    }
    if let Some(sums) = &total.receiver {
        let note = format!("receiver{}{of}", crossing(members));
        out += &layout.line(&sum_line(direction, members, sums, true, note));
    }
    out
}

fn flow_rows(flow: &Flow, layout: &Layout) -> String {
    let (tcp, udp) = FlowMeta::from(flow).kinds();
    let line =
        || Line { id: Some(flow.id), direction: flow.direction, tcp, udp, ..Default::default() };
    let mut out = String::new();
    let host = flow.host.as_deref().map(|host| format!(", {}", clean(host))).unwrap_or_default();
    if let Some(s) = &flow.sender {
        out += &layout.line(&Line {
            end: Some(End::Sender),
            start_seconds: s.start_seconds.unwrap_or(0.0),
            end_seconds: s.end_seconds.unwrap_or(s.seconds),
            bytes: s.bytes,
            bits_per_second: s.bits_per_second,
            retransmits: flow.tcp.as_ref().map(|t| t.retransmits),
            cwnd_bytes: flow.tcp.as_ref().and_then(|t| t.cwnd_bytes),
            rtt_seconds: flow.tcp.as_ref().and_then(|t| t.rtt_seconds),
            transactions_per_second: rate_of_transactions(&[flow]),
            total_packets: s.packets,
            note: sender(&[flow]) + &host,
            ..line()
        });
    }
    if let Some(r) = &flow.receiver {
        // Without the peer's final report the flow's loss is unknown; the line of losses shows what was reported before.
        let lost = r.lost_packets.filter(|_| !flow.peer_report_missing());
        out += &layout.line(&Line {
            end: Some(End::Receiver),
            start_seconds: r.start_seconds.unwrap_or(0.0),
            end_seconds: counted_until(
                r.start_seconds,
                r.end_seconds.unwrap_or(r.seconds),
                r.bytes,
                r.bits_per_second,
            ),
            bytes: r.bytes,
            bits_per_second: r.bits_per_second,
            jitter_seconds: r.jitter_seconds,
            lost_packets: lost,
            // Without the loss the number of sent packets is unknown.
            total_packets: lost.map_or(0, |lost| r.packets.saturating_add(lost)),
            note: format!("receiver{}{host}", crossing(&[flow])),
            ..line()
        });
    }
    if flow.sender.is_none() && flow.receiver.is_none() && flow.round_trip.is_none() {
        out += &format!("[{:>3}] nothing was measured\n", flow.id);
    }
    out
}

/// The end of the period of a receiver's rate: its last arrival, or the end of sending if that is later.
fn counted_until(start: Option<f64>, end: f64, bytes: u64, rate: Option<f64>) -> f64 {
    let span = rate.filter(|r| *r > 0.0).map_or(0.0, |r| 8.0 * bytes as f64 / r);
    end.max(start.unwrap_or(0.0) + span)
}

fn sum_line(
    direction: Direction,
    members: &[&Flow],
    sums: &Sums,
    receiver: bool,
    note: String,
) -> Line {
    let is_known = members.iter().all(|f| !f.transport.datagrams() || !f.peer_report_missing());
    let lost = sums.lost_packets.filter(|_| receiver && is_known);
    let end = sums.end_seconds.unwrap_or(sums.seconds);
    Line {
        id: None,
        direction,
        end: Some(if receiver { End::Receiver } else { End::Sender }),
        start_seconds: sums.start_seconds.unwrap_or(0.0),
        end_seconds: if receiver {
            counted_until(sums.start_seconds, end, sums.bytes, sums.bits_per_second)
        } else {
            end
        },
        bytes: sums.bytes,
        bits_per_second: sums.bits_per_second,
        tcp: members.iter().any(|f| FlowMeta::from(*f).kinds().0),
        udp: members.iter().any(|f| FlowMeta::from(*f).kinds().1),
        transactions_per_second: rate_of_transactions(members).filter(|_| !receiver),
        retransmits: if receiver { None } else { sums.retransmits },
        lost_packets: lost,
        total_packets: match lost {
            None if receiver => 0,
            lost => sums.packets.saturating_add(lost.unwrap_or(0)),
        },
        note,
        ..Default::default()
    }
}

/// Transactions per second of some flows, if any has transactions.
fn rate_of_transactions(flows: &[&Flow]) -> Option<f64> {
    let rates = flows.iter().filter_map(|f| f.transactions.as_ref()?.transactions_per_second);
    rates.reduce(|sum, rate| sum + rate)
}

/// `sender`, and whether it sent super-packets, which the path may have segmented.
fn sender(flows: &[&Flow]) -> String {
    let senders = flows.iter().filter_map(|f| f.sender.as_ref()?.segments_per_message);
    let coalesced = senders.fold(1.0, f64::max) > 1.0;
    if coalesced { "sender, coalesced".into() } else { "sender".into() }
}

/// The crossing of UDP datagrams, as text after `receiver`: coalesced and per-packet rates are not comparable.
fn crossing(flows: &[&Flow]) -> String {
    Crossing::of(flows.iter().copied()).map_or(String::new(), |c| format!(", {}", c.word()))
}

#[cfg(test)]
mod tests {
    use weir_model::warning::Severity;

    use super::*;

    #[test]
    fn a_warning_of_several_flows_is_stated_once() {
        let warning = |code: &str, flow| Warning {
            flow,
            ..Warning::new(code, Severity::Warning, format!("{code} of {flow:?}"))
        };
        let all: Vec<_> = (1..=3).map(|flow| warning("late-slots", Some(flow))).collect();
        let all =
            [all, vec![warning("x", None), warning("x", None), warning("y", Some(2))]].concat();
        assert_eq!(shown(&all, true), all);
        let found = shown(&all, false);
        let heads: Vec<_> = found.iter().map(|w| (w.code.as_str(), w.flow)).collect();
        assert_eq!(
            heads,
            [("late-slots", Some(1)), ("x", None), ("x", None), ("y", Some(2))],
            "warnings of the whole test are not merged"
        );
        assert!(found[0].text.contains("flows 2, 3"), "{}", found[0].text);
        assert_eq!(found[3].text, all[5].text);
        let many: Vec<_> = (1..=100).map(|flow| warning("late-slots", Some(flow))).collect();
        assert!(shown(&many, false)[0].text.contains("99 other flows"));
    }
}
