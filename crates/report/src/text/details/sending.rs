//! Lines about sending: TCP, pacing, and the system calls used.

use weir_model::counted;
use weir_model::record::{Flow, RateChange, TcpSample};

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
            // An imported result may lack it.
            if t.mss_bytes > 0 {
                text += &format!(", MSS {}", t.mss_bytes);
            }
            if let Some(window) = t.send_window_bytes.or(t.receive_window_bytes) {
                text += &format!(", receiver's window {}", volume(window));
            }
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
    if items.options.verbose {
        items.per_flow("Limited by", flows, |f| limits(&f.tcp_samples), |_| None);
    }
}

/// Maximum number of printed periods of [`limits`].
const MAX_PERIODS: usize = 12;

/// What limited a stream over time, by its samples: each period ends at the time stated.
fn limits(samples: &[TcpSample]) -> Option<String> {
    let named = samples.iter().filter(|sample| sample.limited_by.is_some());
    let samples: Vec<&TcpSample> = named.collect();
    let periods: Vec<_> = samples.chunk_by(|a, b| a.limited_by == b.limited_by).collect();
    let shown = periods.iter().take(MAX_PERIODS).filter_map(|period| {
        let last = period.last()?;
        let limit = last.limited_by?.name();
        Some(format!("{limit} until {}", duration(last.at_seconds)))
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = periods.len().checked_sub(MAX_PERIODS).filter(|more| *more > 0) {
        text += &format!(", {} more", counted(more as u64, "period"));
    }
    (!text.is_empty()).then_some(text)
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
               calls: Option<(u64, f64)>,
               segments: Option<f64>,
               buffer: Option<u64>| {
        let mut text = format!("{what} by {}", clean(method));
        if let Some((calls, seconds)) = calls {
            text += &format!(", {}", counted(calls, "call"));
            if calls > 0 && seconds > 0.0 {
                let (each, rate) = (seconds / calls as f64, calls as f64 / seconds);
                text += &format!(" ({} each, {}/s)", duration(each), significant(rate));
            }
        }
        if let Some(segments) = segments {
            text += &format!(", {} datagrams a message", significant(segments));
        }
        if let Some(buffer) = buffer {
            text += &format!(", buffer {}", volume(buffer));
        }
        text
    };
    // Of another tool's end, neither may be known.
    let is_known = |method: &str, calls: Option<u64>| !method.is_empty() || calls.is_some();
    items.per_flow(
        "Method",
        flows,
        |f| {
            let mut parts = vec![];
            if let Some(s) = &f.sender.as_ref().filter(|s| is_known(&s.method, s.io_calls)) {
                parts.push(end(
                    "sent",
                    &s.method,
                    s.io_calls.map(|calls| (calls, s.seconds)),
                    s.segments_per_message,
                    s.buffer_bytes,
                ));
                if let (Some(sleeps), Some(time)) = (s.sleeps, s.sleep_seconds) {
                    parts.push(format!(
                        "{} of {} in all",
                        counted(sleeps, "sleep"),
                        duration(time)
                    ));
                }
                if let Some(refused) = s.refused_sends {
                    parts.push(format!(
                        "{} refused by ICMP port unreachable",
                        counted(refused, "send")
                    ));
                }
            }
            if let Some(r) = &f.receiver.as_ref().filter(|r| is_known(&r.method, r.io_calls)) {
                parts.push(end(
                    "received",
                    &r.method,
                    r.io_calls.map(|calls| (calls, r.seconds)),
                    r.segments_per_message,
                    r.buffer_bytes,
                ));
            }
            if let Some(connect) = f.connect_seconds {
                parts.push(format!("connected in {}", duration(connect)));
            }
            (!parts.is_empty()).then(|| parts.join("; "))
        },
        |_| None,
    );
}

#[cfg(test)]
mod tests {
    use weir_model::record::LimitedBy;

    use super::*;

    #[test]
    fn periods_of_one_limit_are_joined_and_their_number_is_limited() {
        use LimitedBy::{Application, Congestion, ReceiveWindow};
        let sample = |n: usize, limited_by: Option<LimitedBy>| TcpSample {
            at_seconds: n as f64,
            limited_by,
            ..TcpSample::default()
        };
        let named = [None, Some(Congestion), Some(Congestion), Some(ReceiveWindow)];
        let samples: Vec<_> = (0..).zip(named).map(|(n, limit)| sample(n, limit)).collect();
        let text = limits(&samples).unwrap();
        assert_eq!((text.matches("congestion").count(), text.matches("until").count()), (1, 2));
        let changing = |n| sample(n, Some(if n % 2 == 0 { Congestion } else { Application }));
        let many: Vec<_> = (0..40).map(changing).collect();
        let text = limits(&many).unwrap();
        assert_eq!(text.matches("until").count(), MAX_PERIODS);
        assert!(text.contains("28 "), "{text}");
        assert_eq!(limits(&samples[..1]), None);
    }
}
