//! The emulator's output as text: laws at the start, counters at the end.

use weir_emulator::{
    Alarm, CapturePoint, CurrentReport, Fidelity, FidelityFigure, FidelityVerdict, FlowReport,
    JudgedFigure, Recording, RecordingKind, RecordingReport, RecordingState, Report,
    TimelineReport, TriggerReport,
};
use weir_model::counted;
use weir_model::impairment::{Counters, Impairment, Laws};
use weir_model::plan::Direction;
use weir_report::{Align, Style, Table, Units, duration, percent, significant, volume};

/// Maximum number of flows whose laws are printed one by one.
const MAX_LISTED: usize = 16;

/// The laws of each direction, a line for each flow.
pub(super) fn laws(config: &Impairment) -> String {
    let mut out = String::new();
    for flow in config.flows.iter().take(MAX_LISTED) {
        let state = if flow.run.0 { "" } else { " (run = false, forwarded unchanged)" };
        let name = format!("{}{state}", in_hop(&flow.name, flow.hop(), config.hops()));
        out += &ways(&name, &flow.laws(Direction::Forward), &flow.laws(Direction::Reverse));
    }
    if config.flows.len() > MAX_LISTED {
        // Only their number: their laws are not listed.
        out += &format!("  … and {}\n", counted(config.flows.len() - MAX_LISTED, "further flow"));
    }
    for aggregate in config.aggregates.iter().take(16) {
        let mut names = aggregate.flows.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
        if aggregate.flows.len() > 4 {
            names += &format!(" and {} more", aggregate.flows.len() - 4);
        }
        out += &ways(&format!("together, {names}"), &aggregate.a_to_b, &aggregate.b_to_a);
    }
    if config.aggregates.len() > 16 {
        out += &format!("  … and {}\n", counted(config.aggregates.len() - 16, "further aggregate"));
    }
    // As the counters call it.
    let name = match (config.flows.iter().any(|flow| flow.hop() == 1), config.hops()) {
        (false, 1) => "other (all packets)",
        (false, _) => "other (hop 1, all packets)",
        (true, 1) => "other",
        (true, _) => "other (hop 1)",
    };
    let other = &config.other;
    out += &ways(name, &other.laws(Direction::Forward), &other.laws(Direction::Reverse));
    if let Some(timeline) = &config.timeline {
        let changes = counted(timeline.changes.len(), "change");
        let period = timeline.period.map(|period| format!(", loop {period}")).unwrap_or_default();
        let speed = timeline.speed.map(|speed| format!(", speed {speed}")).unwrap_or_default();
        out += &format!("  timeline: {changes}{period}{speed}\n");
    }
    if !config.impair_arp {
        out += "  exempt: ARP, ICMPv6 neighbour discovery, frames to 01:80:C2:00:00:0X (impair_arp = true includes them)\n";
    }
    out
}

/// The name of a flow, with its hop where the path has several.
pub(super) fn in_hop(name: &str, hop: u8, hops: u8) -> String {
    let place = format!("hop {hop}");
    if hops == 1 || name == place { name.to_owned() } else { format!("{name} ({place})") }
}

fn ways(name: &str, there: &Laws, back: &Laws) -> String {
    let text = |laws: &Laws| if laws.is_empty() { "none".to_owned() } else { laws.brief() };
    if there == back {
        format!("  {name}: both ways: {}\n", text(there))
    } else {
        format!("  {name}: A to B: {}; B to A: {}\n", text(there), text(back))
    }
}

/// The state of a trigger, in a line.
pub(super) fn trigger(name: &str, direction: Direction, trigger: &TriggerReport) -> String {
    let TriggerReport { state, applications, condition } = trigger;
    let (way, state, times) = (way(direction), state.name(), counted(*applications, "time"));
    let next = condition.as_ref().map(|it| format!("; next condition: {it}")).unwrap_or_default();
    format!("trigger of {name}, {way}: {state}, laws applied {times}{next}\n")
}

/// A capture or log, in a line.
pub(super) fn recording(report: &RecordingReport) -> String {
    let Recording { kind, path, flow, direction, point, .. } = &report.recording;
    let of = flow.as_ref().map_or("all packets".to_owned(), |flow| format!("flow {flow}"));
    let way = direction.map(|direction| format!(", {}", way(direction))).unwrap_or_default();
    let point = match point {
        Some(CapturePoint::Before) => ", before the laws",
        Some(CapturePoint::After) => ", after the laws",
        None => "",
    };
    let what = if *kind == RecordingKind::Capture { "packet" } else { "verdict" };
    let (count, size) = (counted(report.records, what), volume(report.bytes));
    let ended = if report.state == RecordingState::Running { "" } else { ", ended" };
    let lack = report.lack();
    let lack = if lack.is_empty() { lack } else { format!(", {lack}") };
    let kind = kind.name();
    format!("{kind} {path} ({of}{way}{point}){ended}: {count}, {size}{lack}\n")
}

pub(super) fn way(direction: Direction) -> &'static str {
    if direction == Direction::Forward { "A to B" } else { "B to A" }
}

/// A counter of a flow.
type Count = fn(&Counters) -> u64;

/// A text of a flow's current period.
type Cell = fn(&FlowReport) -> Option<String>;

/// Groups of columns that are shown only if a flow has a text in their first one.
const RARE: [&[(&str, Cell)]; 3] = [
    &[
        ("burst mean", |flow| flow.current.realised.loss_burst_mean_packets.map(significant)),
        ("asked", |flow| flow.asked_figures.loss_burst_mean_packets.map(significant)),
        ("longest", |flow| Some(flow.current.realised.loss_burst_max_packets?.to_string())),
    ],
    &[
        ("asked deviation", |flow| {
            flow.asked_figures.delay_deviation_seconds.filter(|s| *s > 0.0).map(duration)
        }),
        ("delay deviation", |flow| flow.current.realised.delay_deviation_seconds.map(duration)),
    ],
    &[("longest queue", |flow| {
        let realised = &flow.current.realised;
        let packets = realised.queue_max_packets.map(|n| counted(n, "packet"));
        let bytes = realised.queue_max_bytes.map(volume);
        let parts = [packets, bytes, realised.queue_max_seconds.map(duration)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    })],
];

/// The verdict on a flow, with the figures that it is about, and the stages that it does not cover.
fn verdict(flow: &FlowReport) -> Option<String> {
    let Fidelity { verdict, figures, not_judged, .. } = flow.current.fidelity.as_ref()?;
    let named = |name: &str, of: &[&str]| match of {
        [] => name.to_owned(),
        of => format!("{name}: {}", of.join(", ")),
    };
    let uncovered: Vec<&str> = not_judged.iter().map(|stage| stage.name()).collect();
    let uncovered = named(FidelityVerdict::NotJudged.name(), &uncovered);
    if *verdict == FidelityVerdict::NotJudged {
        return Some(uncovered);
    }
    let is_about =
        |figure: &&JudgedFigure| figure.is_within == (*verdict == FidelityVerdict::AsAsked);
    let figures: Vec<&str> =
        figures.iter().filter(is_about).map(|figure| figure.figure.name()).collect();
    let covered = named(verdict.name(), &figures);
    Some(if not_judged.is_empty() { covered } else { format!("{covered}; {uncovered}") })
}

/// A figure outside of its bounds.
fn outside(figure: &JudgedFigure, late_limit_seconds: f64) -> String {
    let show = |value: f64| match figure.figure {
        of if of.is_time() => duration(value),
        of if of.is_rate() => Units::ADAPTIVE.rate(value),
        _ => format!("{value:.0}"),
    };
    let JudgedFigure { value, min, max, .. } = *figure;
    let by = match figure.figure {
        FidelityFigure::LatePackets => format!(" by more than {}", duration(late_limit_seconds)),
        _ => String::new(),
    };
    let name = figure.figure.name();
    format!("{name} {}{by}, expected {} to {}", show(value), show(min), show(max))
}

/// Rates of each flow and direction in its current period, what its laws ask for, and the verdict; empty if no flow saw packets in
/// it.
fn asked_and_realised(report: &Report, style: &Style) -> String {
    let right = Align::Right;
    let is_shown = |flow: &&FlowReport| {
        flow.current.counters.received_packets > 0 && flow.current.seconds > 0.0
    };
    let flows: Vec<&FlowReport> = report.impairment.flows.iter().filter(is_shown).collect();
    if flows.is_empty() {
        return String::new();
    }
    let has = |group: &&&[(&str, Cell)]| flows.iter().any(|flow| group[0].1(flow).is_some());
    let rare: Vec<&(&str, Cell)> = RARE.iter().filter(has).copied().flatten().collect();
    let columns = [
        ("since laws, start or reset", Align::Left),
        ("direction", Align::Left),
        ("time", right),
        ("packets/s", right),
        ("rate in", right),
        ("rate out", right),
        ("asked", right),
        ("lost by law", right),
        ("asked", right),
        ("delay mean", right),
        ("asked", right),
    ];
    let rare_columns = rare.iter().map(|(name, _)| (*name, right));
    let mut table =
        Table::new(columns.into_iter().chain(rare_columns).chain([("verdict", Align::Left)]));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rate = |bits: f64| Units::ADAPTIVE.rate(bits);
    let hops = report.impairment.config.hops();
    let mut off = String::new();
    for flow in flows {
        let CurrentReport { seconds, counters, realised, fidelity, .. } = &flow.current;
        let asked = &flow.asked_figures;
        let per_second = |count: u64| count as f64 / seconds;
        let name = in_hop(&flow.name, flow.hop, hops);
        let cells = [
            name.clone(),
            way(flow.direction).to_owned(),
            duration(*seconds),
            significant(per_second(counters.received_packets)),
            rate(8.0 * per_second(counters.received_bytes)),
            rate(8.0 * per_second(counters.sent_bytes)),
            or_none(asked.bits_per_second.map(|bits| rate(bits as f64))),
            or_none(realised.loss_ratio.map(percent)),
            or_none(asked.loss_ratio.map(percent)),
            or_none(realised.delay_mean_seconds.map(duration)),
            or_none(asked.delay_mean_seconds.map(duration)),
        ];
        let of_rare = rare.iter().map(|(_, cell)| or_none(cell(flow)));
        table.row(cells.into_iter().chain(of_rare).chain([or_none(verdict(flow))]));
        let outside = |fidelity: &Fidelity| {
            let off = fidelity.figures.iter().filter(|figure| !figure.is_within);
            let of = |figure| outside(figure, fidelity.late_limit_seconds);
            off.map(of).collect::<Vec<String>>()
        };
        let figures = fidelity.as_ref().map(outside).unwrap_or_default();
        if !figures.is_empty() {
            off += &format!("{name}, {}: {}\n", way(flow.direction), figures.join("; "));
        }
    }
    let note = "Rates in and out count whole frames; a rate law counts its framing bytes instead of the Ethernet header.\n";
    table.render(style) + &off + note
}

/// The alarms, a line for each kind, object and state: with several, their number and the text of the last one.
fn alarms(alarms: &[Alarm]) -> String {
    let state = |alarm: &Alarm| match (alarm.active, alarm.acknowledged_at_seconds) {
        (false, _) => " (passed)",
        (true, Some(_)) => " (acknowledged)",
        (true, None) => "",
    };
    let mut groups: Vec<Vec<&Alarm>> = vec![];
    for alarm in alarms {
        let is_same = |other: &Alarm| {
            (other.kind, &other.object, state(other)) == (alarm.kind, &alarm.object, state(alarm))
        };
        match groups.iter_mut().find(|group| is_same(group[0])) {
            Some(group) => group.push(alarm),
            None => groups.push(vec![alarm]),
        }
    }
    let mut out = String::new();
    for group in groups {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let times = match group.len() {
            1 => format!("alarm at {:.1} s", first.at_seconds),
            n => format!("{n} alarms, {:.1} s to {:.1} s", first.at_seconds, last.at_seconds),
        };
        let (kind, object) = (last.kind.name(), &last.object);
        out += &format!("{times}{}: {} [{kind} {object}]\n", state(last), last.text);
    }
    out
}

/// The counters, a line for each flow and direction that saw packets.
pub(super) fn table(report: &Report, style: &Style) -> String {
    let right = Align::Right;
    // Columns that are shown only if a flow has such packets.
    let has = |count: Count| report.impairment.flows.iter().any(|flow| count(&flow.counters) > 0);
    let marked: Count = |c| c.marked_packets;
    let batched: Count = |c| c.batched_packets;
    let aqm: Count = |c| c.aqm_dropped_packets;
    let policed: Count = |c| c.policed_packets;
    let yellow: Count = |c| c.yellow_packets;
    // Without a second colour, all of them are policed as long as none is forwarded.
    let red: Count = |c| match c.yellow_packets > 0 || c.red_packets > c.policed_packets {
        true => c.red_packets,
        false => 0,
    };
    let remarked: Count = |c| c.remarked_packets;
    let too_long: Count = |c| c.too_long_packets;
    let fragments: Count = |c| c.added_fragments;
    let rare = [
        ("policed", policed),
        ("yellow", yellow),
        ("red", red),
        ("DSCP set", remarked),
        ("too long", too_long),
        ("fragments added", fragments),
        ("AQM-dropped", aqm),
        ("marked", marked),
        ("batched", batched),
    ];
    let rare: Vec<_> = rare.into_iter().filter(|(_, count)| has(*count)).collect();
    let columns = [
        ("flow", Align::Left),
        ("direction", Align::Left),
        ("received", right),
        ("sent", right),
        ("lost", right),
        ("queue-dropped", right),
        ("duplicated", right),
        ("delayed", right),
        ("corrupted", right),
        ("reordered", right),
        ("unplanned", right),
        ("delay mean", right),
        ("late p50", right),
        ("late p99", right),
        ("late max", right),
    ];
    let width = columns.len() + rare.len();
    let mut table =
        Table::new(columns.into_iter().chain(rare.iter().map(|(name, _)| (*name, right))));
    let time = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), duration);
    let hops = report.impairment.config.hops();
    for flow in &report.impairment.flows {
        let c = &flow.counters;
        if c.received_packets == 0 && (flow.name != "other" || report.impairment.flows.len() > 2) {
            continue;
        }
        let lateness = flow.lateness.as_ref();
        let cells = [
            in_hop(&flow.name, flow.hop, hops),
            way(flow.direction).to_owned(),
            c.received_packets.to_string(),
            c.sent_packets.to_string(),
            c.lost_packets.to_string(),
            c.queue_dropped_packets.to_string(),
            c.duplicated_packets.to_string(),
            c.delayed_packets.to_string(),
            c.modified_packets.to_string(),
            c.reordered_packets.to_string(),
            c.unplanned_dropped_packets.to_string(),
            time(flow.realised.delay_mean_seconds),
            time(lateness.and_then(|l| l.p50_seconds)),
            time(lateness.and_then(|l| l.p99_seconds)),
            time(lateness.map(|l| l.max_seconds)),
        ];
        table.row(cells.into_iter().chain(rare.iter().map(|(_, count)| count(c).to_string())));
    }
    // Packets lost before classification belong to no flow, but are unplanned losses too.
    for direction in &report.directions {
        let unplanned = direction.link.unplanned_packets();
        if unplanned > 0 {
            let mut row = vec!["-".to_owned(); width];
            row[0] = "(no flow)".to_owned();
            row[1] = way(direction.direction).to_owned();
            row[10] = unplanned.to_string();
            table.row(row);
        }
    }
    let mut out = table.render(style);
    out += &asked_and_realised(report, style);
    for flow in &report.impairment.flows {
        if let Some(state) = &flow.trigger {
            out += &trigger(&flow.name, flow.direction, state);
        }
    }
    for direction in &report.directions {
        let name = way(direction.direction);
        let link = &direction.link;
        if report.seconds > 0.0 && link.cpu_nanoseconds > 0 {
            let ratio = link.cpu_nanoseconds as f64 / 1e9 / report.seconds;
            out += &format!("{name}: {} of a processor since the start\n", percent(ratio));
        }
        if let Some(TimelineReport { loops, changes, position_seconds }) = direction.timeline {
            let made = counted(changes, "change");
            out += &format!(
                "timeline, {name}: at {position_seconds:.1} s, {made} made, loop {loops}\n"
            );
        }
        for (count, what) in [
            (link.kernel_dropped_packets, "dropped by the kernel: the receive ring was full"),
            (
                link.oversized_packets,
                "dropped by the kernel: too long for this link (super-packets; disable tso and \
                gso of their sender, or use --link packet)",
            ),
            (link.memory_dropped_packets, "dropped: no memory for them"),
            (link.unusable_packets, "dropped: could not be read completely"),
            (link.refused_packets, "refused by the outgoing interface"),
            (link.driver_dropped_packets, "dropped by the outgoing interface's driver"),
            (link.left_behind_packets, "left in the receive ring at the end"),
            (link.super_packets, "arrived coalesced: laws decide on each segment"),
            (link.sent_super_packets, "left coalesced"),
            (
                direction.exempt_packets,
                "exempt from the laws (ARP, neighbour discovery, bridge frames)",
            ),
        ] {
            if count > 0 {
                out += &format!("{name}: {} {what}\n", counted(count, "frame"));
            }
        }
    }
    if let Some(packet_trace) = &report.packet_trace {
        out += &format!(
            "packet trace {}: {}",
            packet_trace.path,
            counted(packet_trace.records, "verdict")
        );
        if packet_trace.dropped_records > 0 {
            let why = match packet_trace.limit_bytes {
                _ if packet_trace.failed => "writing failed",
                // The next record is 64 bytes.
                Some(limit) if packet_trace.bytes + 64 > limit => "its limit was reached",
                _ => "it could not keep up",
            };
            out += &format!(", {} MISSING: {why}", packet_trace.dropped_records);
        }
        out.push('\n');
    }
    report.recordings.iter().for_each(|report| out += &recording(report));
    out += &alarms(&report.alarms);
    for note in &report.notes {
        out += &format!("note: {note}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_reported_for_flows_aggregates_and_the_rest() {
        let flows: String = (0..6).map(|i| format!("[[flow]]\nname = \"f{i}\"\n")).collect();
        let text = format!(
            "schema = \"weir.impair/1\"\n{flows}[[aggregate]]\n\
             flows = [\"f1\", \"f2\", \"f3\", \"f4\", \"f5\"]\na_to_b = {{ rate = {{ bits = \"1M\" }} }}\n"
        );
        let listed = laws(&Impairment::parse(&text).unwrap());
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[0], "  f0: both ways: none");
        assert_eq!(
            lines[6],
            "  together, f1, f2, f3, f4 and 1 more: A to B: rate 1M; B to A: none"
        );
        assert_eq!(lines[7], "  other: both ways: none");
    }

    #[test]
    fn rates_and_ratios_are_next_to_what_the_laws_ask_for() {
        let counters = Counters {
            received_packets: 8,
            received_bytes: 10_000,
            sent_packets: 6,
            sent_bytes: 7500,
            ..Counters::default()
        };
        let flow = |received_packets| {
            let counters = Counters { received_packets, ..counters };
            serde_json::json!({
                "name": "voice", "direction": "forward", "hop": 1, "active": true, "counters": counters,
                "asked": "loss 20%, rate 90k", "realised": {},
                "asked_figures": { "loss_ratio": 0.2, "bits_per_second": 90_000 },
                "current": {
                    "start_seconds": 1.0, "seconds": 2.0, "reason": "laws", "counters": counters,
                    "realised": { "loss_ratio": 0.25, "delay_mean_seconds": 0.004 },
                },
            })
        };
        let rows = |received_packets| {
            let report = serde_json::json!({
                "schema": "", "interfaces": ["", ""], "links": [], "seconds": 3.0, "directions": [],
                "configurations": [],
                "impairment": { "config": Impairment::default(), "flows": [flow(received_packets)] },
            });
            asked_and_realised(&serde_json::from_value(report).unwrap(), &Style::PLAIN)
        };
        let text = rows(8);
        let row = text.lines().find(|line| line.starts_with("voice")).unwrap();
        let cells: Vec<&str> =
            row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let rates = ["2.00 s", "4.00", "40.0 kbit/s", "30.0 kbit/s", "90.0 kbit/s"];
        assert_eq!(
            cells,
            [&["voice", "A to B"][..], &rates, &["25.0%", "20.0%", "4.00 ms", "-", "-"]].concat()
        );
        assert_eq!(rows(0), "");
    }

    #[test]
    fn a_figure_outside_of_its_bounds_is_named_with_them() {
        let row = |fidelity: serde_json::Value| {
            let counters = Counters { received_packets: 50_000, ..Counters::default() };
            let realised = serde_json::json!({
                "loss_ratio": 0.1, "loss_burst_mean_packets": 4.0, "loss_burst_max_packets": 19,
                "delay_deviation_seconds": 0.002, "queue_max_packets": 7, "queue_max_bytes": 7028,
            });
            let flow = serde_json::json!({
                "name": "voice", "direction": "reverse", "hop": 1, "active": true, "counters": counters,
                "asked": "", "realised": {},
                "asked_figures": { "loss_burst_mean_packets": 1.5, "delay_deviation_seconds": 0.005 },
                "current": {
                    "start_seconds": 1.0, "seconds": 2.0, "reason": "laws", "counters": counters,
                    "realised": realised, "fidelity": fidelity,
                },
            });
            let report = serde_json::json!({
                "schema": "", "interfaces": ["", ""], "links": [], "seconds": 3.0, "directions": [],
                "configurations": [],
                "impairment": { "config": Impairment::default(), "flows": [flow] },
            });
            asked_and_realised(&serde_json::from_value(report).unwrap(), &Style::PLAIN)
        };
        let text = row(
            serde_json::json!({ "verdict": "host-limited", "late_limit_seconds": 0.0003, "figures": [
                { "figure": "late_packets", "value": 700.0, "min": 0.0, "max": 500.0, "is_within": false },
                { "figure": "lost_packets", "value": 11000.0, "min": 9500.0, "max": 10500.0, "is_within": false },
                { "figure": "max_bits_per_second", "value": 3e6, "min": 0.0, "max": 2e6, "is_within": false },
                { "figure": "delay_mean_seconds", "value": 0.04, "min": 0.039, "max": 0.041, "is_within": true },
            ]}),
        );
        let voice: Vec<&str> = text.lines().filter(|line| line.starts_with("voice")).collect();
        let [cells, off] = voice[..] else { panic!("{text}") };
        for cell in [
            "4.00",
            "1.50",
            "19",
            "2.00 ms",
            "5.00 ms",
            "7 packets",
            "host-limited: late packets, lost packets, maximum rate",
        ] {
            assert!(cells.contains(cell), "{cell}: {text}");
        }
        let rate = "maximum rate 3.00 Mbit/s, expected 0.00 bit/s to 2.00 Mbit/s";
        let late = "late packets 700 by more than 300 µs, expected 0 to 500";
        let lost = "lost packets 11000, expected 9500 to 10500";
        assert_eq!(off, format!("voice, B to A: {late}; {lost}; {rate}"));
        let few = row(
            serde_json::json!({ "verdict": "not-judged", "late_limit_seconds": 0.001, "not_judged": ["loss"] }),
        );
        assert!(few.trim_end().lines().any(|line| line.ends_with("not judged: loss")), "{few}");
        assert_eq!(few.lines().filter(|line| line.starts_with("voice")).count(), 1);
        let within = row(serde_json::json!({
            "verdict": "as-asked", "late_limit_seconds": 0.001, "not_judged": ["rate", "reorder"], "figures": [
                { "figure": "lost_packets", "value": 1.0, "min": 0.0, "max": 2.0, "is_within": true },
                { "figure": "delay_mean_seconds", "value": 0.04, "min": 0.039, "max": 0.041, "is_within": true },
            ],
        }));
        let text = "as asked: lost packets, mean delay; not judged: rate, reorder";
        assert!(within.lines().any(|line| line.trim_end().ends_with(text)), "{within}");
    }

    #[test]
    fn why_a_packet_trace_lacks_verdicts_is_reported() {
        let table_of = |failed: bool, bytes: u64, limit: Option<u64>| {
            let report = serde_json::json!({
                "schema": "", "interfaces": ["", ""], "links": [], "seconds": 0.0, "directions": [],
                "configurations": [], "impairment": { "config": Impairment::default(), "flows": [] },
                "packet_trace": {
                    "path": "j", "records": 5, "dropped_records": 7, "failed": failed, "bytes": bytes,
                    "limit_bytes": limit,
                },
            });
            table(&serde_json::from_value(report).unwrap(), &Style::PLAIN)
        };
        let of = |why| format!("packet trace j: 5 verdicts, 7 MISSING: {why}\n");
        assert!(table_of(false, 4040, Some(4096)).contains(&of("its limit was reached")));
        assert!(table_of(false, 4032, Some(4096)).contains(&of("it could not keep up")));
        assert!(table_of(false, 4040, None).contains(&of("it could not keep up")));
        assert!(table_of(true, 4040, None).contains(&of("writing failed")));
    }

    #[test]
    fn a_capture_says_what_it_has_and_lacks() {
        let line = |fields: serde_json::Value| {
            let mut report = serde_json::json!({
                "kind": "capture", "path": "/x.pcapng", "start_seconds": 0.0, "state": "running",
                "records": 2, "bytes": 300, "dropped_records": 0,
            });
            for (name, value) in fields.as_object().unwrap() {
                report[name] = value.clone();
            }
            recording(&serde_json::from_value(report).unwrap())
        };
        let all = line(serde_json::json!({}));
        assert!(all.starts_with("capture /x.pcapng (all packets): 2 packets"), "{all}");
        assert!(!all.contains("MISSING") && all.lines().count() == 1);
        let full = line(serde_json::json!({
            "kind": "log", "flow": "f", "direction": "reverse", "state": "disk_full",
        }));
        assert!(full.starts_with("log /x.pcapng (flow f, B to A), ended: 2 verdicts"), "{full}");
        assert!(full.contains("disk is full") && !full.contains("keep up"), "{full}");
        let dropped = line(serde_json::json!({ "point": "after", "dropped_records": 7 }));
        assert!(dropped.contains(", after the laws)") && dropped.contains("7 packets MISSING"));
    }

    #[test]
    fn stopped_flows_and_flows_beyond_the_limit_are_marked() {
        let flow = |i| {
            let loss = "{ loss = { percentage = 1 } }";
            format!("[[flow]]\nname = \"f{i}\"\nrun = {}\na_to_b = {loss}\n", i > 0)
        };
        let flows: String = (0..18).map(flow).collect();
        let config = Impairment::parse(&format!("schema = \"weir.impair/1\"\n{flows}")).unwrap();
        let listed = laws(&config);
        let lines: Vec<&str> = listed.lines().collect();
        assert!(lines[0].starts_with("  f0 (run = false, forwarded unchanged): A to B: loss 1%"));
        assert!(lines[1].starts_with("  f1: A to B: loss 1%"));
        assert_eq!(lines[16], "  … and 2 further flows");
    }

    #[test]
    fn losses_of_the_link_are_unplanned_and_have_their_cause() {
        use weir_emulator::{
            AlarmKind, AppliedConfiguration, DirectionReport, ImpairmentReport, LinkReport,
            REPORT_SCHEMA,
        };
        let alarm = |active, acknowledged_at_seconds| Alarm {
            kind: AlarmKind::UnplannedDrop,
            object: "a-to-b".into(),
            at_seconds: 1.25,
            active,
            acknowledged_at_seconds,
            text: "packets are lost without a law".into(),
        };
        let direction = |direction, link| DirectionReport {
            direction,
            received_packets: 0,
            received_bytes: 0,
            sent_packets: 0,
            sent_bytes: 0,
            unplanned_dropped_packets: 0,
            held_packets: 0,
            exempt_packets: 3,
            exempt_bytes: 180,
            late_packets: 0,
            link,
            timeline: None,
            flows: vec![],
        };
        let lossy = LinkReport { oversized_packets: 71, ..LinkReport::default() };
        let report = Report {
            schema: REPORT_SCHEMA.into(),
            interfaces: ["a".into(), "b".into()],
            links: vec![],
            seconds: 1.0,
            end_reason: None,
            impairment: ImpairmentReport { config: Impairment::default(), flows: vec![] },
            directions: vec![
                direction(Direction::Forward, lossy),
                direction(Direction::Reverse, LinkReport::default()),
            ],
            configurations: vec![AppliedConfiguration {
                number: 0,
                is_change: true,
                at_seconds: [0.0, 0.0],
            }],
            alarms: vec![
                alarm(false, None),
                alarm(true, None),
                alarm(true, Some(2.0)),
                alarm(false, Some(2.0)),
            ],
            alarm_thresholds: None,
            packet_trace: None,
            recordings: vec![],
            notes: vec![],
        };
        let text = table(&report, &Style::PLAIN);
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("(no flow)")).collect();
        assert!(rows.len() == 1 && rows[0].contains("A to B") && rows[0].contains("71"), "{text}");
        assert!(text.contains("71 frames dropped by the kernel: too long"), "{text}");
        assert!(!text.contains("ring was full"), "{text}");
        let times = [
            "alarm at 1.2 s",
            "alarm at 1.2 s (acknowledged)",
            "2 alarms, 1.2 s to 1.2 s (passed)",
        ];
        for time in times {
            assert!(text.contains(&format!("{time}: packets are lost")), "{text}");
        }
        assert_eq!(text.matches("packets are lost").count(), 3);
    }
}
