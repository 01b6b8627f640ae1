//! Lines about sending: TCP, pacing, and the system calls used.

use weir_model::counted;
use weir_model::record::{Flow, RateChange};

use super::{Items, pps, spread};
use crate::number::{duration, percent, significant, volume};
use crate::style::clean;

pub(super) fn tcp(items: &mut Items, flows: &[Flow]) {
    items.per_flow(
        "TCP",
        flows,
        |f| {
            let t = f.tcp.as_ref()?;
            let mut text = format!("{} retransmitted", counted(t.retransmits, "segment"));
            if let Some(bytes) = t.retransmitted_bytes.filter(|b| *b > 0) {
                text += &format!(" ({})", volume(bytes));
            }
            if let Some(mean) = t.rtt_seconds {
                text += &format!(", rtt mean {}", duration(mean));
                let ends = [("min", t.min_rtt_seconds), ("max", t.max_rtt_seconds)];
                let ends =
                    ends.iter().filter_map(|(name, s)| Some(format!("{name} {}", duration((*s)?))));
                let ends: Vec<_> = ends.collect();
                if !ends.is_empty() {
                    text += &format!(" ({})", ends.join(", "));
                }
            }
            if let Some(mean) = t.cwnd_bytes {
                text += &format!(", cwnd mean {}", volume(mean));
                if let Some(max) = t.max_cwnd_bytes {
                    text += &format!(" (max {})", volume(max));
                }
            }
            text += &format!(", MSS {}", t.mss_bytes);
            if !t.congestion_control.is_empty() {
                text += &format!(", {}", clean(&t.congestion_control));
            }
            if t.ecn == Some(true) {
                text += ", ECN";
                if let Some(marked) = t.ce_segments {
                    text += &format!(" ({} marked CE)", counted(marked, "segment"));
                }
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
            let rtt = spread(all().filter_map(|t| t.rtt_seconds), duration)?;
            let retransmits = all().fold(0u64, |sum, t| sum.saturating_add(t.retransmits));
            let segments = counted(retransmits, "segment");
            Some(format!("{segments} retransmitted, mean rtt {rtt}"))
        },
    );
}

pub(super) fn pacing(items: &mut Items, flows: &[Flow]) {
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
                // Of the difference to each intended interval, not of the intervals, which may vary by a law.
                let mut error = vec![format!("± {}", duration(spacing.deviation_seconds))];
                error.extend(spacing.p99_seconds.map(|p99| format!("p99 {}", duration(p99))));
                error.push(format!("max {}", duration(spacing.max_seconds)));
                let (mean, error) = (duration(spacing.intended_seconds), error.join(", "));
                parts.push(format!("intended spacing {mean} (error {error})"));
            }
            if let (Some(mean), Some(most)) = (s.mean_call_packets, s.max_call_packets)
                && s.asked_packets_per_second.is_some()
            {
                parts.push(format!("sent in calls of {mean:.1} packets, {most} at most"));
            }
            parts.extend(rate_changes(&s.rate_changes));
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
            // Relative to each flow's own rate, since rates may differ and not all flows run concurrently.
            let share = |s: &weir_model::record::Sender| {
                let asked = s.asked_packets_per_second.filter(|a| *a > 0.0)?;
                Some(s.packets_per_second? / asked)
            };
            let mut parts: Vec<String> = vec![];
            if let Some(sent) = spread(senders().filter_map(share), percent) {
                parts.push(format!("sent of asked {sent}"));
            }
            if let Some(spacing) = spacing {
                parts.push(format!("spacing error {spacing}"));
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

/// The first changes of a rate, and how many more there were.
pub(crate) fn rate_changes(changes: &[RateChange]) -> Option<String> {
    const SHOWN: usize = 3;
    let shown = changes.iter().take(SHOWN);
    let mut parts: Vec<String> =
        shown.map(|c| format!("{} from {}", c.rate, duration(c.at_seconds))).collect();
    if changes.len() > SHOWN {
        parts.push(format!("{} more changes", changes.len() - SHOWN));
    }
    (!parts.is_empty()).then(|| format!("rate changed: {}", parts.join(", ")))
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

/// The methods of sending and receiving; only in verbose output.
pub(super) fn ways(items: &mut Items, flows: &[Flow]) {
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
            text += &format!(", {}", counted(calls, "call"));
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
