//! The labelled lines below the table: packets, loss, delay, CPU, pacing, clocks, loss ledger.
//!
//! Up to four flows have a line each; more are summarised by median and range, so that the summary fits on a page.

mod arrivals;
mod echo;
mod files;
mod host;
mod interfaces;
mod laws;
mod sending;
mod times;
mod transactions;
mod transfers;

use weir_model::counted;
use weir_model::impairment::COUNTERS;

use weir_model::record::{
    CommandTime, DataSource, EcnCounts, Flow, ImpairedFlow, ImpairmentUse, LossLedger, Receiver,
    Record, Triangulation,
};

use arrivals::{loss, packets, plain_values, verified};
use echo::echoes;
use files::files;
use host::{clocks, cpu, link};
use interfaces::interfaces;
use laws::laws;
use sending::{pacing, tcp, ways};
use times::{delays, latency, variation, voice};
use transactions::transactions;
use transfers::{pages, transfers};

use super::TextOptions;
use super::wrap::hanging;
use crate::meta::emulator_direction;
use crate::number::duration;
use crate::style::{Style, clean};
use crate::table::{Align, Table};

/// Maximum number of flows with their own lines.
const FLOWS_DETAILED: usize = 4;
/// Column at which the text of an item starts.
const INDENT: usize = 17;

/// Collects labelled lines.
struct Items<'a> {
    out: String,
    options: &'a TextOptions,
    each: bool,
}

impl Items<'_> {
    fn item(&mut self, label: &str, text: &str) {
        let body = hanging(text, self.options.width, INDENT);
        self.out += &format!("{label:<INDENT$}{body}");
    }

    /// A line for each flow, or one summary of all.
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
    transactions(&mut items, flows);
    transfers(&mut items, flows);
    pages(&mut items, flows);
    let udp = flows.iter().any(|f| f.transport.datagrams());
    if udp {
        packets(&mut items, record);
        loss(&mut items, record);
        plain_values(&mut items, flows);
        variation(&mut items, flows);
    }
    verified(&mut items, flows);
    echoes(&mut items, flows);
    files(&mut items, flows);
    delays(&mut items, flows);
    voice(&mut items, flows);
    latency(&mut items, record);
    tcp(&mut items, flows);
    laws(&mut items, flows);
    pacing(&mut items, flows);
    ways(&mut items, flows);
    checksums(&mut items, flows);
    codepoints(&mut items, flows);
    memberships(&mut items, flows);
    cpu(&mut items, record);
    link(&mut items, record);
    interfaces(&mut items, record);
    clocks(&mut items, record);
    if let Some(used) = &record.impairment {
        emulator(&mut items, used);
    }
    if let Some(ledger) = &record.loss_ledger {
        loss_ledger(&mut items, ledger);
    }
    if let Some(joined) = &record.triangulation {
        triangulation(&mut items, joined);
    }
    if let Some(source) = &record.data_source {
        items.item("Data", &data_source(source));
    }
    commands(&mut items, record);
    items.out
}

/// A file that is or was sent, and what became of its packets, on one line.
#[must_use]
pub fn data_source(source: &DataSource) -> String {
    let mut parts = vec![];
    if let Some(packets) = source.packets {
        parts.push(counted(packets, "datagram"));
    }
    parts.push(counted(source.bytes, "byte"));
    if let Some(seconds) = source.seconds {
        parts.push(format!("{seconds:.6} s as captured"));
    }
    if let Some(speed) = &source.speed {
        parts.push(format!("speed {}", clean(speed)));
    }
    let changed = [
        (source.lengthened_packets, "lengthened to the data header"),
        (source.truncated_packets, "truncated in the capture, completed with zeros"),
        (source.stepped_back_packets, "with a time before the datagram in front"),
    ];
    let changed = changed.into_iter().filter_map(|(n, what)| Some(format!("{} {what}", n?)));
    parts.extend(changed);
    let left_out: Vec<String> =
        source.left_out_packets.iter().map(|(what, n)| format!("{n} {}", clean(what))).collect();
    if !left_out.is_empty() {
        parts.push(format!("left out: {}", left_out.join(", ")));
    }
    format!("{}: {}", clean(&source.name), parts.join(", "))
}

/// The commands around the test; their output only with `-V`.
fn commands(items: &mut Items, record: &Record) {
    for ran in &record.commands {
        let label = match ran.when {
            CommandTime::Before => "Before",
            CommandTime::After => "After",
        };
        let exit = ran.exit_code.map_or("no exit code".into(), |code| format!("exit code {code}"));
        let lines = ran.output.lines().count();
        let rest = if items.options.verbose || lines == 0 { "" } else { " (with -V)" };
        let printed = counted(lines as u64, "line");
        items.item(label, &format!("{}: {exit}, {printed}{rest}", clean(&ran.command)));
        if items.options.verbose {
            ran.output.lines().for_each(|line| items.item("", &clean(line)));
        }
    }
}

/// The checksum coverage at both ends, of transports that have one.
fn checksums(items: &mut Items, flows: &[Flow]) {
    let amount = |bytes: u16| match bytes {
        0 => "the whole datagram".to_owned(),
        bytes => format!("the first {bytes} bytes of each datagram"),
    };
    let one = |flow: &Flow| {
        let covered = amount(flow.sender.as_ref()?.checksum_coverage_bytes?);
        let required = flow.receiver.as_ref().and_then(|r| r.checksum_coverage_bytes);
        Some(match required {
            Some(bytes) if amount(bytes) != covered => {
                format!("covers {covered}; the receiver requires {}", amount(bytes))
            }
            Some(_) => format!("covers {covered}, required by the receiver"),
            None => format!("covers {covered}"),
        })
    };
    // All flows of a test that is run by hand have the same.
    items.per_flow("Checksum", flows, one, |flows| flows.first().and_then(one));
}

/// The ECN codepoints with which datagrams arrived, of flows that were sent as ECN-capable.
fn codepoints(items: &mut Items, flows: &[Flow]) {
    let text = |flows: &[Flow]| {
        let all = || flows.iter().filter_map(|f| f.receiver.as_ref()?.ecn.as_ref());
        let sum =
            |count: fn(&EcnCounts) -> u64| all().fold(0u64, |s, e| s.saturating_add(count(e)));
        all().next()?;
        let counts = [
            ("CE", sum(|e| e.ce_packets)),
            ("ECT(0)", sum(|e| e.ect0_packets)),
            ("ECT(1)", sum(|e| e.ect1_packets)),
            ("not ECN-capable", sum(|e| e.not_ect_packets)),
        ];
        // CE is what is looked for: its absence is a result.
        let shown = counts.iter().enumerate().filter(|(i, (_, n))| *i == 0 || *n > 0);
        let shown: Vec<String> =
            shown.map(|(_, (name, n))| format!("{} {name}", counted(*n, "packet"))).collect();
        Some(shown.join(", "))
    };
    items.per_flow("ECN", flows, |flow| text(std::slice::from_ref(flow)), text);
}

/// The group of each receiver, and when it joined and left.
fn memberships(items: &mut Items, flows: &[Flow]) {
    let one = |flow: &Flow| {
        let member = flow.receiver.as_ref()?.membership.as_ref()?;
        let mut text = clean(&member.group).into_owned();
        if let Some(source) = &member.source {
            text += &format!(" from {} only", clean(source));
        }
        if let Some(host) = &flow.host {
            text += &format!(", received by {}", clean(host));
        }
        if let Some(interface) = &member.interface {
            text += &format!(" on {}", clean(interface));
        }
        if let Some(at) = member.joined_seconds {
            text += &format!("; joined at {at:.3} s");
            text += &match member.join_latency_seconds {
                Some(latency) => format!(", first packet after {}", duration(latency)),
                None => ", no packet arrived".into(),
            };
        }
        if let Some(at) = member.left_seconds {
            text += &format!("; left at {at:.3} s");
            let bound = if member.leave_latency_is_bound == Some(true) { "at least " } else { "" };
            if let Some(latency) = member.leave_latency_seconds {
                text += &format!(", packets still arrived for {bound}{}", duration(latency));
            }
        }
        if let Some(packets) = member.unjoined_packets.filter(|packets| *packets > 0) {
            text += &format!("; {} sent while it was no member", counted(packets, "packet"));
        }
        Some(text)
    };
    // Each receiver of a stream is a flow of its own.
    let groups = |flows: &[Flow]| {
        let mut names: Vec<&str> = flows
            .iter()
            .filter_map(|f| Some(f.receiver.as_ref()?.membership.as_ref()?.group.as_str()))
            .collect();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| clean(&names.join(", ")).into_owned())
    };
    items.per_flow("Group", flows, one, groups);
}

/// The laws on the path, and their effect on all packets of the emulator's flow, including other traffic.
fn emulator(items: &mut Items, used: &ImpairmentUse) {
    let counter = |flow: &ImpairedFlow, name: &str| flow.counters.get(name).copied().unwrap_or(0);
    let busy = || used.flows.iter().filter(|f| counter(f, "received_packets") > 0);
    let few = if items.options.verbose { usize::MAX } else { FLOWS_DETAILED };
    let mut label = "Emulator";
    for flow in busy().take(few) {
        let way = emulator_direction(flow.direction);
        let mut text = format!(
            "{}, {way}: {}: {}",
            flow.name,
            flow.asked,
            counted(counter(flow, "received_packets"), "packet")
        );
        for name in [
            "lost_packets",
            "queue_dropped_packets",
            "unplanned_dropped_packets",
            "duplicated_packets",
            "modified_packets",
            "reordered_packets",
        ] {
            let label = COUNTERS.iter().find(|one| one.name == name).map_or(name, |one| one.label);
            match counter(flow, name) {
                0 => {}
                n => text += &format!(", {n} {label}"),
            }
        }
        items.item(label, &text);
        label = "";
    }
    let left = busy().count().saturating_sub(few);
    if left > 0 {
        items.item("", &format!("and {}", counted(left, "further flow")));
    }
    items.item(label, &format!("seed {}", used.config.seed));
}

fn receivers(flows: &[Flow]) -> impl Iterator<Item = (&Flow, &Receiver)> {
    flows.iter().filter_map(|f| Some((f, f.receiver.as_ref()?)))
}

/// `median 3 (1 to 9, 1000 flows)`.
fn spread(values: impl Iterator<Item = f64>, show: impl Fn(f64) -> String) -> Option<String> {
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let (first, last) = (values.first()?, values.last()?);
    // The lower of two middle values, so that it is a measured one.
    let median = values[(values.len() - 1) / 2];
    Some(format!(
        "median {} ({} to {}, {} flows)",
        show(median),
        show(*first),
        show(*last),
        values.len()
    ))
}

/// Packets per second to a tenth of a per mille, the resolution needed to judge pacing.
pub(super) fn pps(value: f64) -> String {
    if !value.is_finite() {
        "-".into()
    } else if value >= 10_000.0 {
        format!("{value:.0}")
    } else {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    }
}

fn triangulation(items: &mut Items, joined: &Triangulation) {
    let mut text = format!(
        "the verdicts of {} agree with the emulator's, of {} they do not; {} of {} as predicted",
        counted(joined.matched_packets, "packet"),
        joined.disagreeing_packets,
        joined.predicted_dispositions,
        joined.predicted_dispositions + joined.unpredicted_dispositions,
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

/// The table of places where packets were lost; empty if none is missing.
fn loss_ledger(items: &mut Items, ledger: &LossLedger) {
    if ledger.missing_packets == 0
        && ledger.remainder_packets == 0
        && ledger.rows.iter().all(|r| r.packets == 0)
    {
        return;
    }
    items.item("Loss ledger", &format!("{} missing", counted(ledger.missing_packets, "packet")));
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

#[cfg(test)]
mod tests {
    use weir_model::plan::Direction;
    use weir_model::record::CalibrationRef;

    use super::*;

    #[test]
    fn the_emulator_on_the_path_is_reported_with_its_laws_counts_and_seed() {
        let flow = |direction, received: u64, lost: u64| ImpairedFlow {
            name: "voice".into(),
            direction,
            asked: "loss 10%".into(),
            counters: [("received_packets", received), ("lost_packets", lost)]
                .map(|(name, n)| (name.to_owned(), n))
                .into(),
            ..ImpairedFlow::default()
        };
        let mut used = ImpairmentUse {
            flows: vec![flow(Direction::Forward, 40, 3), flow(Direction::Reverse, 0, 0)],
            ..ImpairmentUse::default()
        };
        used.config.seed.0 = 9;
        let record = Record { impairment: Some(used), ..Record::default() };
        let text = details(&record, &TextOptions::default());
        for wanted in ["voice, A to B", "loss 10%", "40 packets, 3 lost", "seed 0x9"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("B to A"), "a flow without packets: {text}");
    }

    /// A calibration has 30 figures: without `-V` they would bury those of the run.
    #[test]
    fn the_noise_floor_is_one_line_unless_verbose() {
        let names = ["lab_one_way_delay_p50_seconds", "wakeup_late_p99_seconds"];
        let further = (0..28).map(|i| format!("lab_spacing_{i}_seconds"));
        let calibration = CalibrationRef {
            at: "2026-11-20T09:00:00Z".into(),
            noise_floor: names
                .map(Into::into)
                .into_iter()
                .chain(further)
                .map(|n| (n, 1.23e-5))
                .collect(),
            ..CalibrationRef::default()
        };
        let record = Record { calibration: Some(calibration), ..Record::default() };
        let lines = |verbose| {
            let text =
                details(&record, &TextOptions { verbose, width: 80, ..TextOptions::default() });
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            (text.lines().count(), text.matches("12.3").count())
        };
        assert_eq!(lines(false), (1, 2));
        assert_eq!(lines(true).1, 30);
    }
}
