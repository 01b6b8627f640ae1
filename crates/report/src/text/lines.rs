//! The lines that start with a bracketed id: one for each flow of an interval, and the sums.
//!
//! The columns are determined when the test starts, by the kinds of its flows, so that all lines are aligned.

use std::collections::BTreeMap;

use weir_model::plan::Direction;
use weir_model::record::{Interval, IntervalCount, IntervalEnds, LimitedBy};

use super::details::pps;
use super::{FLOWS_SHOWN, TextOptions};
use crate::meta::FlowMeta;
use crate::number::{duration, percent, volume};
use crate::style::clean;

/// The content of a line; an absent cell prints as `-` if the flow's transport has such a figure, else blank.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) id: Option<u32>,
    pub(super) direction: Direction,
    pub(super) start_seconds: f64,
    pub(super) end_seconds: f64,
    pub(super) bytes: u64,
    pub(super) bits_per_second: Option<f64>,
    pub(super) tcp: bool,
    pub(super) udp: bool,
    /// The only end that the row shows; figures of the other end are blank.
    pub(super) end: Option<End>,
    pub(super) retransmits: Option<u64>,
    pub(super) cwnd_bytes: Option<u64>,
    pub(super) rtt_seconds: Option<f64>,
    pub(super) limited_by: Option<LimitedBy>,
    pub(super) transactions_per_second: Option<f64>,
    pub(super) jitter_seconds: Option<f64>,
    pub(super) lost_packets: Option<u64>,
    pub(super) total_packets: u64,
    pub(super) note: String,
}

/// The end that a line of the summary shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Sender,
    Receiver,
}

/// The period that the cells of TCP information cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// The end of an interval.
    Last,
    /// The whole flow.
    Mean,
}

/// Width of the column of limits: that of the longest name.
const LIMIT_WIDTH: usize = 14;

/// The columns of a test's lines.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    tcp: bool,
    udp: bool,
    /// Name of the column of transactions.
    transactions: Option<&'static str>,
    both_directions: bool,
    options: TextOptions,
}

impl Layout {
    pub(super) fn new<'a>(
        flows: impl IntoIterator<Item = &'a FlowMeta>,
        options: &TextOptions,
    ) -> Self {
        let (mut tcp, mut udp, mut forward, mut reverse) = (false, false, false, false);
        let mut transactions = None;
        for flow in flows {
            let (has_tcp, has_udp) = flow.kinds();
            tcp |= has_tcp;
            udp |= has_udp;
            if flow.shape.has_transactions() {
                let name = match flow.shape.has_volumes() {
                    true => "Transfers/s",
                    false if flow.transport.echoes() => "Replies/s",
                    false => "Transactions/s",
                };
                transactions = transactions.or(Some(name));
            }
            match flow.direction {
                Direction::Forward => forward = true,
                Direction::Reverse => reverse = true,
            }
        }
        let both_directions = forward && reverse;
        Layout { tcp, udp, transactions, both_directions, options: *options }
    }

    /// The line of column names. Round trip and congestion window are last values of an interval, but means of a flow.
    pub(super) fn heading(&self, values: Values) -> String {
        let mut out = String::from("[ ID]");
        if self.both_directions {
            out += "[Role]";
        }
        out += " Interval           Transfer  ";
        out += &format!("{:<width$}", "Bitrate", width = self.options.units.rate_width());
        if let Some(name) = self.transactions {
            out += &format!("  {name:>14}");
        }
        if self.tcp {
            let of = match values {
                Values::Last => "last",
                Values::Mean => "mean",
            };
            out += &format!("   Retr  {of} Cwnd   {of} RTT");
            if self.options.verbose && values == Values::Last {
                let width = if self.udp { LIMIT_WIDTH } else { 0 };
                out += &format!("  {:<width$}", "Limited by");
            }
        }
        if self.udp {
            out += "    Jitter  Lost/Total Datagrams";
        }
        self.options.style.bold(&out) + "\n"
    }

    pub(super) fn line(&self, line: &Line) -> String {
        let mut out = match line.id {
            Some(id) => format!("[{id:>3}]"),
            None => "[SUM]".into(),
        };
        if self.both_directions {
            out += match line.direction {
                Direction::Forward => "[TX-C]",
                Direction::Reverse => "[RX-C]",
            };
        }
        out += &format!(
            " {:>6.2}-{:<6.2} sec  {:>8}  {:>width$}",
            line.start_seconds,
            line.end_seconds,
            volume(line.bytes),
            line.bits_per_second.map_or("-".into(), |r| self.options.units.rate(r)),
            width = self.options.units.rate_width(),
        );
        let cell = |shown: bool, value: Option<String>| {
            value.unwrap_or_else(|| if shown { "-".into() } else { String::new() })
        };
        if self.transactions.is_some() {
            out += &format!("  {:>14}", cell(false, line.transactions_per_second.map(pps)));
        }
        let tcp = line.tcp && line.end != Some(End::Receiver);
        if self.tcp {
            out += &format!(
                "  {:>5}  {:>9}  {:>9}",
                cell(tcp, line.retransmits.map(|r| r.to_string())),
                cell(tcp && line.id.is_some(), line.cwnd_bytes.map(volume)),
                cell(tcp && line.id.is_some(), line.rtt_seconds.map(duration)),
            );
            // Lines of the summary have no such column: a line of its own says it.
            if self.options.verbose && line.end.is_none() {
                let limit = line.limited_by.map(|limit| limit.name().into());
                out += &format!("  {:<LIMIT_WIDTH$}", cell(tcp && line.id.is_some(), limit));
            }
        }
        let jitter = line.udp && line.id.is_some() && line.end != Some(End::Sender);
        if self.udp {
            // A sum over both transports has no count of datagrams.
            let datagrams = (line.udp && !line.tcp).then(|| match line.lost_packets {
                Some(lost) if line.total_packets > 0 => format!(
                    "{lost}/{} ({})",
                    line.total_packets,
                    percent(lost as f64 / line.total_packets as f64)
                ),
                Some(lost) => format!("{lost}/0"),
                None if line.total_packets > 0 => format!("-/{}", line.total_packets),
                None => "-".into(),
            });
            out += &format!(
                "  {:>8}  {:<20}",
                cell(jitter, line.jitter_seconds.map(duration)),
                cell(false, datagrams),
            );
        }
        if !line.note.is_empty() {
            out += "  ";
            out += &line.note;
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }
}

/// The lines of intervals: [`IntervalTable::heading`] once, then [`IntervalTable::rows`] for each interval.
///
/// A rate is the receiver's if known, else the sender's, with a note. If only the number of sent datagrams is known, it shows
/// as `-/sent`. A sum of fewer flows than ran shows their number.
#[derive(Debug, Clone)]
pub struct IntervalTable {
    layout: Layout,
    flows: BTreeMap<u32, FlowMeta>,
    show_flows: bool,
    /// Echo has no receiver with figures of its own.
    is_echo: bool,
}

impl IntervalTable {
    /// The table of a test with these flows.
    pub fn new(flows: &[FlowMeta], options: &TextOptions) -> Self {
        IntervalTable {
            layout: Layout::new(flows, options),
            flows: flows.iter().map(|f| (f.id, f.clone())).collect(),
            show_flows: options.verbose || flows.len() <= FLOWS_SHOWN,
            is_echo: flows.iter().any(|f| f.transport.echoes() && f.shape.has_transactions()),
        }
    }

    /// The line of column names.
    pub fn heading(&self) -> String {
        self.layout.heading(Values::Last)
    }

    /// One line for each flow, and a sum for each direction that has more than one.
    pub fn rows(&self, interval: &Interval) -> String {
        let mut out = String::new();
        let note = if interval.omitted { "(omitted)" } else { "" };
        if self.show_flows {
            for flow in &interval.flows {
                let Some(meta) = self.flows.get(&flow.id) else { continue };
                let ends = IntervalEnds {
                    sender: flow.sender.clone(),
                    receiver: flow.receiver.clone(),
                    ..IntervalEnds::default()
                };
                let kinds = meta.kinds();
                let host = meta.host.as_deref().map(clean).unwrap_or_default();
                let note = [&*host, note].join(" ");
                out +=
                    &self.line(Some(flow.id), meta.direction, kinds, interval, &ends, note.trim());
            }
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let members = || self.flows.values().filter(|f| f.direction == direction);
            let ends = match direction {
                Direction::Forward => &interval.total.forward,
                Direction::Reverse => &interval.total.reverse,
            };
            if let Some(ends) = ends
                && (members().count() > 1 || !self.show_flows)
            {
                let kinds = (members().any(|f| f.kinds().0), members().any(|f| f.kinds().1));
                out += &self.line(None, direction, kinds, interval, ends, note);
            }
        }
        out
    }

    fn line(
        &self,
        id: Option<u32>,
        direction: Direction,
        (tcp, udp): (bool, bool),
        interval: &Interval,
        ends: &IntervalEnds,
        note: &str,
    ) -> String {
        let none = IntervalCount::default();
        let sender = ends.sender.as_ref();
        let receiver = ends.receiver.as_ref();
        let shown = receiver.or(sender).unwrap_or(&none);
        let lost = receiver.and_then(|r| r.lost_packets);
        let earlier = receiver.and_then(|r| r.earlier_lost_packets);
        let earlier = earlier.map_or(String::new(), |n| format!("({n:+} lost earlier)"));
        let end = if self.is_echo { String::new() } else { end_note(ends) };
        let notes = [note.to_string(), end, flows_note(ends), earlier];
        let note = notes.into_iter().filter(|n| !n.is_empty()).collect::<Vec<_>>().join(" ");
        self.layout.line(&Line {
            id,
            direction,
            start_seconds: interval.start_seconds,
            end_seconds: interval.end_seconds,
            bytes: shown.bytes,
            bits_per_second: shown.bits_per_second,
            tcp,
            udp,
            retransmits: sender.and_then(|s| s.retransmits),
            cwnd_bytes: sender.and_then(|s| s.cwnd_bytes),
            rtt_seconds: sender.and_then(|s| s.rtt_seconds),
            limited_by: sender.and_then(|s| s.limited_by),
            // The client counts them, whichever end sends the data.
            transactions_per_second: [sender, receiver]
                .into_iter()
                .find_map(|end| end?.transactions_per_second),
            jitter_seconds: receiver.and_then(|r| r.jitter_seconds),
            lost_packets: lost,
            end: None,
            total_packets: shown.packets.saturating_add(lost.unwrap_or(0)),
            note,
        })
    }
}

/// A note about the end whose figure is shown, if it is not the receiver.
fn end_note(ends: &IntervalEnds) -> String {
    match (&ends.sender, &ends.receiver) {
        (_, Some(_)) => String::new(),
        (Some(_), None) => "(sender's figure)".into(),
        (None, None) => "(no figures yet)".into(),
    }
}

/// A note about the number of flows in a sum, if it is not of all.
fn flows_note(ends: &IntervalEnds) -> String {
    let shown = if ends.receiver.is_some() { ends.receiver_flows } else { ends.sender_flows };
    match (shown, ends.flows) {
        (Some(shown), Some(all)) if shown < all => format!("({shown} of {all} flows)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use weir_model::plan::TransportName;
    use weir_model::record::{IntervalFlow, IntervalTotals};

    use super::*;

    fn rows(flows: u32, ends: IntervalEnds) -> String {
        let metas: Vec<_> = (1..=flows).map(|id| FlowMeta { id, ..FlowMeta::default() }).collect();
        let flow =
            |id| IntervalFlow { id, sender: ends.sender.clone(), receiver: ends.receiver.clone() };
        let interval = Interval {
            end_seconds: 1.0,
            flows: (1..=flows).map(flow).collect(),
            total: IntervalTotals { forward: Some(ends.clone()), reverse: None },
            ..Interval::default()
        };
        IntervalTable::new(&metas, &TextOptions::default()).rows(&interval)
    }

    fn count(bytes: u64) -> Option<IntervalCount> {
        Some(IntervalCount {
            bytes,
            bits_per_second: Some(8.0 * bytes as f64),
            ..Default::default()
        })
    }

    #[test]
    fn a_line_with_the_senders_figure_has_a_note() {
        let both = IntervalEnds { sender: count(9), receiver: count(0), ..Default::default() };
        assert!(rows(1, both.clone()).contains("0.00"), "{}", rows(1, both.clone()));
        assert!(!rows(1, both.clone()).contains('('), "{}", rows(1, both));
        let sent = IntervalEnds { sender: count(9), ..Default::default() };
        assert!(
            rows(1, sent.clone()).trim_end().ends_with("(sender's figure)"),
            "{}",
            rows(1, sent)
        );
    }

    #[test]
    fn only_verbose_lines_of_intervals_have_the_limit_of_a_stream() {
        let meta = FlowMeta { id: 1, transport: TransportName::Tcp, ..FlowMeta::default() };
        let sender =
            IntervalCount { limited_by: Some(LimitedBy::SendBuffer), ..Default::default() };
        let flow = IntervalFlow { id: 1, sender: Some(sender), receiver: None };
        let interval = Interval { flows: vec![flow], ..Interval::default() };
        for verbose in [false, true] {
            let options = TextOptions { verbose, ..TextOptions::default() };
            let text = IntervalTable::new(std::slice::from_ref(&meta), &options).rows(&interval);
            assert_eq!(text.contains(LimitedBy::SendBuffer.name()), verbose, "{text}");
        }
    }

    #[test]
    fn losses_of_earlier_intervals_are_stated_when_they_become_known() {
        let receiver = IntervalCount { earlier_lost_packets: Some(699), ..count(9).unwrap() };
        let ends = IntervalEnds { receiver: Some(receiver), ..Default::default() };
        assert!(rows(1, ends.clone()).contains("+699"), "{}", rows(1, ends));
    }

    #[test]
    fn a_sum_of_fewer_flows_shows_their_number() {
        let ends = IntervalEnds {
            sender: count(9),
            receiver: count(8),
            flows: Some(500),
            sender_flows: Some(500),
            receiver_flows: Some(431),
        };
        let text = rows(500, ends);
        assert!(
            text.starts_with("[SUM]") && text.trim_end().ends_with("(431 of 500 flows)"),
            "{text}"
        );
    }
}
