//! The tables of a run.

use std::collections::BTreeMap;

use weir_model::metric::{
    Definition, End, Group, METRICS, Read, Statistic, Unit, are_echo, are_transfers,
};
use weir_model::plan::Direction;
use weir_model::record::{
    CpuEnd, Delay, Flow, Host, ImpairmentUse, LossLedger, PathDelaySource, Record, Sums,
    Triangulation, stage,
};

use super::grid::{Cell, Column, Grid};
use super::phrases;
use crate::meta::emulator_direction;
use crate::plot::Quantity::{self, *};

/// Maximum number of rows of a table of flows; the record has all flows.
const ROWS: usize = 2000;
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Reverse];

fn figures(head: &str, quantity: Quantity) -> Column {
    Column::figures(head, quantity)
}

/// The quantity of a unit.
pub(super) fn quantity(unit: Unit) -> Quantity {
    match unit {
        Unit::BitsPerSecond => BitsPerSecond,
        Unit::PacketsPerSecond => PacketsPerSecond,
        Unit::Seconds => Seconds,
        Unit::Ratio => Ratio,
        Unit::Bytes => Bytes,
        Unit::Count => Count,
        Unit::TransactionsPerSecond => TransactionsPerSecond,
        Unit::PerMinute => PerMinute,
    }
}

/// The name of a statistic in headings.
pub(super) fn statistic(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Min => "minimum",
        Statistic::P50 => "median",
        Statistic::Max => "maximum",
        other => other.name(),
    }
}

/// The plain metrics of a group, distributions excluded.
fn metrics(group: Group) -> impl Iterator<Item = &'static Definition> {
    METRICS.iter().filter(move |m| m.group == group && !m.is_distribution())
}

/// The column of a metric; times of one group share their unit.
fn column(m: &Definition) -> Column {
    column_of(m, &[])
}

/// The same of a table of these flows.
fn column_of(m: &Definition, flows: &[Flow]) -> Column {
    let quantity = match quantity(m.unit) {
        // A reply is a packet.
        TransactionsPerSecond if are_echo(flows) => PacketsPerSecond,
        TransactionsPerSecond if are_transfers(flows) => TransfersPerSecond,
        quantity => quantity,
    };
    let column = figures(m.label_of(flows), quantity);
    match (m.unit, m.group) {
        (Unit::Seconds, Group::Variation) => column.group("variation"),
        (Unit::Seconds, Group::Bursts) => column.group("bursts"),
        (Unit::Seconds, Group::Tcp) => column.group("rtt"),
        _ => column,
    }
}

/// A cell with a value; absent for a 0 of a rare event.
fn cell(m: &Definition, value: Option<f64>) -> Cell {
    value.filter(|v| !m.is_rare || *v > 0.0).into()
}

/// Sums of each direction, both ends.
pub(super) fn totals(record: &Record) -> Grid {
    let summed = || [Group::Packets, Group::Bursts, Group::Pacing].into_iter().flat_map(metrics);
    // Sent and received packets share a column.
    let summed = || summed().filter(|m| !["packets", "sent_packets"].contains(&m.name));
    let mut grid = Grid::new(
        "Sums of each direction",
        [
            Column::text("Direction"),
            Column::text("End"),
            figures("Rate", BitsPerSecond),
            figures("Packet rate", PacketsPerSecond),
            figures("Payload", Bytes),
            figures("Packets", Count),
            figures("Time", Seconds),
        ]
        .into_iter()
        .chain(summed().map(column)),
    );
    for direction in DIRECTIONS {
        let Some(total) = record.direction(direction) else { continue };
        // A stream has no packets: its counts are of writes and reads.
        let udp = record
            .flows
            .iter()
            .filter(|f| f.direction == direction)
            .all(|f| f.transport.datagrams());
        let ends: [(&str, &Option<Sums>, bool); 2] =
            [("sender", &total.sender, true), ("receiver", &total.receiver, false)];
        for (end, sums, is_sender) in ends {
            let Some(s) = sums else { continue };
            let first = [
                Cell::Text(direction.to_string()),
                end.into(),
                s.bits_per_second.into(),
                s.packets_per_second.filter(|_| udp).into(),
                s.bytes.into(),
                Some(s.packets).filter(|_| udp).into(),
                s.seconds.into(),
            ];
            grid.row(first.into_iter().chain(summed().map(|m| {
                let is_here = (m.end == End::Sender) == is_sender;
                cell(m, m.of(record, Some(direction), None).filter(|_| is_here))
            })));
        }
    }
    grid.without_empty_columns()
}

/// Sums of each server's flows, both ends; nothing for one server.
pub(super) fn servers(record: &Record) -> Option<Grid> {
    let mut grid = Grid::new(
        "Sums of each server",
        [
            Column::text("Server"),
            Column::text("Direction"),
            Column::text("End"),
            figures("Rate", BitsPerSecond),
            figures("Packet rate", PacketsPerSecond),
            figures("Payload", Bytes),
            figures("Packets", Count),
            figures("Lost", Count),
            figures("Loss", Ratio),
            figures("Time", Seconds),
        ],
    );
    for server in &record.servers {
        for direction in DIRECTIONS {
            let Some(total) = server.total.of(direction) else { continue };
            let of_server = |f: &&Flow| f.host.as_deref() == Some(&server.name);
            let mut flows = record.flows.iter().filter(of_server);
            let udp = flows.all(|f| f.direction != direction || f.transport.datagrams());
            for (end, sums) in [("sender", &total.sender), ("receiver", &total.receiver)] {
                let Some(s) = sums else { continue };
                grid.row([
                    Cell::Text(server.name.clone()),
                    Cell::Text(direction.to_string()),
                    end.into(),
                    s.bits_per_second.into(),
                    s.packets_per_second.filter(|_| udp).into(),
                    s.bytes.into(),
                    Some(s.packets).filter(|_| udp).into(),
                    s.lost_packets.into(),
                    s.loss_ratio.into(),
                    s.seconds.into(),
                ]);
            }
        }
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

fn flow_head(flow: &Flow) -> [Cell; 3] {
    [
        u64::from(flow.id).into(),
        Cell::code(&phrases::flow_title(flow)),
        Cell::Text(format!("{} {}", flow.transport.to_string().to_uppercase(), flow.direction)),
    ]
}

fn flow_columns() -> [Column; 3] {
    [figures("Flow", Count), Column::text("Name"), Column::text("Kind")]
}

/// A caption that says when rows are missing.
fn caption(words: &str, flows: usize) -> String {
    if flows > ROWS { format!("{words}: the first {ROWS} of {flows}") } else { words.into() }
}

/// Volume and loss of each flow.
pub(super) fn flows(record: &Record) -> Grid {
    let counted = || [Group::Packets, Group::Bursts].into_iter().flat_map(metrics);
    let mut grid = Grid::new(
        &caption("Volume and loss of each flow", record.flows.len()),
        flow_columns()
            .into_iter()
            .chain([
                figures("Sent", BitsPerSecond).group("rate"),
                figures("Received", BitsPerSecond).group("rate"),
            ])
            .chain(counted().map(column))
            .chain([Column::text("Crossing")]),
    );
    for f in record.flows.iter().take(ROWS) {
        let (s, r) = (f.sender.as_ref(), f.receiver.as_ref());
        let rates =
            [s.and_then(|s| s.bits_per_second).into(), r.and_then(|r| r.bits_per_second).into()];
        let crossing = [r.and_then(|r| r.crossing).map_or("", |c| c.word()).into()];
        let counts = counted().map(|m| cell(m, m.of_flow(f)));
        grid.row(flow_head(f).into_iter().chain(rates).chain(counts).chain(crossing));
    }
    grid.without_empty_columns()
}

/// Times of each flow: jitter, variation, delays, round trips.
pub(super) fn times(record: &Record) -> Option<Grid> {
    let mut grid = Grid::new(
        &caption("Delay of each flow", record.flows.len()),
        flow_columns().into_iter().chain([
            Column::text("Figure"),
            figures("Samples", Count),
            figures("Minimum", Seconds).group("delay"),
            figures("Mean", Seconds).group("delay"),
            figures("Median", Seconds).group("delay"),
            figures("p90", Seconds).group("delay"),
            figures("p99", Seconds).group("delay"),
            figures("p99.9", Seconds).group("delay"),
            figures("p99.99", Seconds).group("delay"),
            figures("Maximum", Seconds).group("delay"),
            figures("± error", Seconds),
        ]),
    );
    let mut add = |head: [Cell; 3], what: &str, d: &Delay| {
        grid.row(head.into_iter().chain([
            what.into(),
            d.count.into(),
            d.min_seconds.into(),
            d.mean_seconds.into(),
            d.p50_seconds.into(),
            d.p90_seconds.into(),
            d.p99_seconds.into(),
            d.p99_9_seconds.into(),
            d.p99_99_seconds.into(),
            d.max_seconds.into(),
            d.error_seconds.into(),
        ]));
    };
    for f in record.flows.iter().take(ROWS) {
        for m in METRICS {
            if let Read::Flows(get, _) = m.read
                && let Some(delay) = get(f)
            {
                add(flow_head(f), m.label_of([f]), delay);
            }
        }
    }
    if let Some(latency) = &record.latency {
        let head = || {
            let probes = format!("probes ({})", latency.method);
            [Cell::Absent, Cell::Text(probes), Cell::Absent]
        };
        for m in METRICS {
            if let Read::RunDelay(get) = m.read
                && let Some(delay) = get(record)
            {
                add(head(), m.label, delay);
            }
        }
    }
    for server in &record.servers {
        let Some(latency) = &server.latency else { continue };
        let of = format!("probes of {} ({})", server.name, latency.method);
        for (what, delay) in [("Idle", &latency.idle), ("Under load", &latency.loaded)] {
            if let Some(delay) = delay {
                add([Cell::Absent, Cell::Text(of.clone()), Cell::Absent], what, delay);
            }
        }
    }
    grid.row_heads = false;
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// Variation of delay of each flow.
pub(super) fn variation(record: &Record) -> Option<Grid> {
    let mut grid = Grid::new(
        &caption("Jitter and delay variation of each flow", record.flows.len()),
        flow_columns().into_iter().chain(metrics(Group::Variation).map(column)).chain([
            figures("IPDV pairs omitted", Ratio),
            Column::text("Between"),
            figures("Timed in user space", Count),
        ]),
    );
    for f in record.flows.iter().take(ROWS) {
        let Some(r) = &f.receiver else { continue };
        let variation = r.delay_variation.as_ref();
        if r.jitter_seconds.is_none() && variation.is_none() {
            continue;
        }
        let between = match r.time_unit.as_deref() {
            Some("packet") => "packets",
            Some("batch") => "batches",
            other => other.unwrap_or(""),
        };
        let values = metrics(Group::Variation).map(|m| cell(m, m.of_flow(f)));
        grid.row(flow_head(f).into_iter().chain(values).chain([
            variation.and_then(|v| v.ipdv_omitted_ratio()).into(),
            between.into(),
            r.user_timed_messages.into(),
        ]));
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// Quality of voice connections.
pub(super) fn voice(record: &Record) -> Option<Grid> {
    let mut grid = Grid::new(
        &caption("Voice by the E-model", record.flows.len()),
        flow_columns()
            .into_iter()
            .chain([Column::text("Codec")])
            .chain(metrics(Group::Voice).map(column))
            .chain([Column::text("Path delay from"), figures("Burst ratio", Count)]),
    );
    for f in record.flows.iter().take(ROWS) {
        let Some(v) = &f.voice else { continue };
        let from = match v.path_delay_from {
            PathDelaySource::OneWayDelay => "one-way delay",
            PathDelaySource::HalfRoundTrip => "half the round trip",
        };
        let values = metrics(Group::Voice).map(|m| cell(m, m.of_flow(f)));
        grid.row(
            flow_head(f)
                .into_iter()
                .chain([Cell::code(v.codec.label())])
                .chain(values)
                .chain([from.into(), Some(v.burst_ratio).into()]),
        );
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// The laws of payload sizes and intervals, or of the volumes and pauses of transfers: their bounds and mean, and the actual mean.
pub(super) fn laws(record: &Record) -> Option<Grid> {
    let mut grid = Grid::new(
        &caption("Laws of sizes and times, clamped to their bounds", record.flows.len()),
        flow_columns().into_iter().chain([
            Column::text("Law of sizes"),
            figures("At least", Bytes).group("size"),
            figures("At most", Bytes).group("size"),
            figures("Mean by the law", Bytes).group("size"),
            figures("Actual mean", Bytes).group("size"),
            Column::text("Law of intervals"),
            figures("At least", Seconds).group("interval"),
            figures("At most", Seconds).group("interval"),
            figures("Mean by the law", Seconds).group("interval"),
            figures("Actual mean", Seconds).group("interval"),
        ]),
    );
    for f in record.flows.iter().take(ROWS) {
        let (s, t) =
            (f.sender.as_ref(), f.transactions.as_ref().and_then(|t| t.transfers.as_ref()));
        // Law, its draws and their actual mean. Datagrams of transfers vary in size without a law of theirs.
        let (size_law, sizes, mean_size) = match (&f.payload_law, t) {
            (None, Some(t)) => {
                (t.volume_law.as_ref(), t.volume_draws.as_ref(), t.mean_volume_bytes)
            }
            (law, _) => {
                (law.as_ref(), f.payload_draws.as_ref(), s.and_then(|s| s.mean_payload_bytes))
            }
        };
        let (time_law, times, mean_time) = match (&f.spacing_law, t) {
            (None, Some(t)) => (t.pause_law.as_ref(), t.pause_draws.as_ref(), t.mean_pause_seconds),
            (law, _) => {
                (law.as_ref(), f.spacing_draws.as_ref(), s.and_then(|s| s.mean_spacing_seconds))
            }
        };
        if size_law.is_none() && time_law.is_none() {
            continue;
        }
        let law = |law: Option<String>| Cell::code(law.as_deref().unwrap_or(""));
        grid.row(flow_head(f).into_iter().chain([
            law(size_law.map(ToString::to_string)),
            sizes.and_then(|d| d.clamp_min_bytes).into(),
            sizes.and_then(|d| d.clamp_max_bytes).into(),
            sizes.map(|d| d.mean_bytes).into(),
            mean_size.into(),
            law(time_law.map(ToString::to_string)),
            times.and_then(|d| d.clamp_min_seconds).into(),
            times.and_then(|d| d.clamp_max_seconds).into(),
            times.and_then(|d| d.mean_seconds).into(),
            mean_time.into(),
        ]));
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// Pacing of each flow: intended and sent.
pub(super) fn pacing(record: &Record) -> Option<Grid> {
    let mut grid = Grid::new(
        &caption("Pacing: intended and sent", record.flows.len()),
        flow_columns().into_iter().chain([
            figures("Asked", PacketsPerSecond).group("rate"),
            figures("Sent", PacketsPerSecond).group("rate"),
            figures("Slots", Count),
            figures("Late slots", Count),
            figures("Missed slots", Count),
            figures("Intended gap", Seconds),
            figures("± spacing", Seconds).group("error"),
            figures("p99 of error", Seconds).group("error"),
            figures("Largest error", Seconds).group("error"),
            Column::text("Scheduling"),
        ]),
    );
    for f in record.flows.iter().take(ROWS) {
        let Some(s) = &f.sender else { continue };
        if s.asked_packets_per_second.is_none() && s.intended_slots.is_none() {
            continue;
        }
        let spacing = s.spacing.as_ref();
        grid.row(flow_head(f).into_iter().chain([
            s.asked_packets_per_second.into(),
            s.packets_per_second.into(),
            s.intended_slots.into(),
            s.late_slots.into(),
            s.missed_slots.into(),
            spacing.map(|p| p.intended_seconds).into(),
            spacing.map(|p| p.deviation_seconds).into(),
            spacing.and_then(|p| p.p99_seconds).into(),
            spacing.map(|p| p.max_seconds).into(),
            s.scheduling.as_deref().unwrap_or("").into(),
        ]));
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// Transactions of each flow that consists of them.
pub(super) fn transactions(record: &Record) -> Option<Grid> {
    let what = match are_echo(&record.flows) {
        true => "Echo requests",
        false if are_transfers(&record.flows) => "Transfers",
        false => "Transactions",
    };
    let mut grid = Grid::new(
        &caption(&format!("{what} of each flow"), record.flows.len()),
        flow_columns()
            .into_iter()
            .chain([
                Column::text("Shape"),
                figures("Request", Bytes),
                figures("Response", Bytes),
                figures("In progress", Count),
            ])
            .chain(metrics(Group::Transactions).map(|m| column_of(m, &record.flows)))
            .chain([Column::text("Failed by reason")]),
    );
    for f in record.flows.iter().take(ROWS) {
        let Some(t) = &f.transactions else { continue };
        let reasons: Vec<String> =
            t.failures.iter().map(|(why, n)| format!("{why}: {n}")).collect();
        let head = [
            Cell::Text(t.shape.to_string()),
            t.request_bytes.into(),
            t.response_bytes.into(),
            t.outstanding.map(u64::from).into(),
        ];
        let values = metrics(Group::Transactions).map(|m| cell(m, m.of_flow(f)));
        let reasons = [Cell::Text(reasons.join(", "))];
        grid.row(flow_head(f).into_iter().chain(head).chain(values).chain(reasons));
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// TCP information of each flow.
pub(super) fn tcp(record: &Record) -> Option<Grid> {
    let mut grid = Grid::new(
        &caption("TCP information of the sending side", record.flows.len()),
        flow_columns().into_iter().chain(metrics(Group::Tcp).map(column)).chain([
            figures("MSS", Count),
            Column::text("Congestion control"),
            figures("Limited by receiver", Ratio),
            figures("Limited by buffer", Ratio),
        ]),
    );
    for f in record.flows.iter().take(ROWS) {
        let Some(t) = &f.tcp else { continue };
        let values = metrics(Group::Tcp).map(|m| cell(m, m.of_flow(f)));
        grid.row(flow_head(f).into_iter().chain(values).chain([
            Some(u64::from(t.mss_bytes)).filter(|mss| *mss > 0).into(),
            Cell::code(&t.congestion_control),
            t.receive_window_limited_ratio.into(),
            t.send_buffer_limited_ratio.into(),
        ]));
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// Addresses of each flow, and methods of sending and receiving.
pub(super) fn endpoints(record: &Record) -> Grid {
    let mut grid = Grid::new(
        &caption(
            "Addresses of each flow, and how bytes were sent and received",
            record.flows.len(),
        ),
        flow_columns().into_iter().chain([
            Column::text("From"),
            Column::text("To"),
            figures("Bytes each", Count),
            Column::text("Sent by"),
            figures("Calls", Count),
            figures("Sleeps", Count),
            figures("Asleep", Seconds),
            figures("Datagrams a message", Number),
            figures("Buffer", Bytes).group("buffer"),
            Column::text("Received by"),
            figures("Calls", Count),
            figures("Datagrams a message", Number),
            figures("Buffer", Bytes).group("buffer"),
        ]),
    );
    for f in record.flows.iter().take(ROWS) {
        let (s, r) = (f.sender.as_ref(), f.receiver.as_ref());
        grid.row(flow_head(f).into_iter().chain([
            Cell::code(&f.source),
            Cell::code(&f.destination),
            f.payload_bytes.into(),
            Cell::code(s.map_or("", |s| &s.method)),
            s.and_then(|s| s.io_calls).into(),
            s.and_then(|s| s.sleeps).into(),
            s.and_then(|s| s.sleep_seconds).into(),
            s.and_then(|s| s.segments_per_message).into(),
            s.and_then(|s| s.buffer_bytes).into(),
            Cell::code(r.map_or("", |r| &r.method)),
            r.and_then(|r| r.io_calls).into(),
            r.and_then(|r| r.segments_per_message).into(),
            r.and_then(|r| r.buffer_bytes).into(),
        ]));
    }
    grid.without_empty_columns()
}

/// The loss ledger: where missing packets went.
pub(super) fn ledger(ledger: &LossLedger) -> Grid {
    let mut grid = Grid::new(
        "Where missing packets went",
        [
            Column::text("Stage"),
            Column::text("Side"),
            figures("Packets", Count),
            Column::text("Kind"),
            Column::text("Source"),
        ],
    );
    for row in &ledger.rows {
        grid.row([
            row.stage.as_str().into(),
            row.side.as_deref().unwrap_or("").into(),
            row.packets.into(),
            row.kind.as_str().into(),
            Cell::code(&row.source),
        ]);
    }
    let sum = |name: &str, packets: i64| {
        [name.into(), Cell::Absent, Cell::Figure(packets as f64), Cell::Absent, Cell::Absent]
    };
    grid.row(sum("not placed", ledger.remainder_packets));
    grid.row(sum("missing", ledger.missing_packets));
    grid.sums = 2;
    grid
}

/// Use of the nominal rate at four levels.
pub(super) fn link_usage(record: &Record) -> Option<Grid> {
    let usage = record.link_usage.as_ref()?;
    let mut grid = Grid::new(
        &format!("Use of the nominal rate, {}", usage.direction),
        [
            Column::text("Level"),
            figures("Of the nominal rate", Ratio),
            figures("Rate", BitsPerSecond),
        ],
    );
    for (level, ratio) in [
        ("payload", usage.payload_ratio),
        ("with transport and IP headers", usage.ip_ratio),
        ("with Ethernet header and FCS", usage.ethernet_ratio),
        ("on the wire, preamble and gap", usage.wire_ratio),
    ] {
        let rate = ratio * usage.nominal_bits_per_second as f64;
        grid.row([level.into(), ratio.into(), rate.into()]);
    }
    let from =
        if usage.source == "stated" { "as stated".into() } else { format!("of {}", usage.source) };
    let nominal = format!("nominal, {from}");
    grid.row([Cell::Text(nominal), Cell::Figure(1.0), usage.nominal_bits_per_second.into()]);
    (grid.sums, grid.in_order) = (1, true);
    Some(grid)
}

/// CPU of both hosts.
pub(super) fn cpu(record: &Record) -> Option<Grid> {
    let cpu = record.cpu.as_ref()?;
    let mut grid = Grid::new(
        "CPU while sending",
        [
            Column::text("Host"),
            figures("User", Ratio),
            figures("System", Ratio),
            figures("Interrupts", Ratio),
            figures("Stolen", Ratio),
            figures("Busiest core", Ratio),
            figures("Weir, in processors", Number),
        ],
    );
    let mut add = |side: &str, host: Option<&Host>, end: &CpuEnd| {
        let name = host.map_or(side.to_string(), |h| format!("{} ({side})", h.host));
        grid.row([
            Cell::Text(name),
            end.user_ratio.into(),
            end.system_ratio.into(),
            end.irq_ratio.into(),
            end.steal_ratio.into(),
            end.busiest_core_ratio.into(),
            (end.process_user_ratio + end.process_system_ratio).into(),
        ]);
    };
    if let Some(end) = &cpu.local {
        add("this side", record.local.as_ref(), end);
    }
    if let Some(end) = &cpu.remote {
        add("other side", record.remote.as_ref(), end);
    }
    for server in &record.servers {
        if let Some(end) = &server.cpu {
            add(&server.name, server.host.as_ref(), end);
        }
    }
    (!grid.rows.is_empty()).then(|| grid.without_empty_columns())
}

/// The laws of an emulator and their realised values.
pub(super) fn impairment(used: &ImpairmentUse) -> Grid {
    let mut grid = Grid::new(
        "The emulator: asked and realised",
        [
            Column::text("Flow"),
            Column::text("Direction"),
            Column::text("Asked"),
            figures("Received", Count),
            figures("Lost", Count),
            figures("Queue dropped", Count),
            figures("Unplanned", Count),
            figures("Duplicated", Count),
            figures("Modified", Count),
            figures("Reordered", Count),
            figures("Loss", Ratio).group("ratio"),
            figures("Delay, minimum", Seconds).group("delay"),
            figures("Delay, mean", Seconds).group("delay"),
            figures("Delay, maximum", Seconds).group("delay"),
            figures("Lateness, median", Seconds).group("late"),
            figures("Lateness, p99", Seconds).group("late"),
            figures("Lateness, maximum", Seconds).group("late"),
        ],
    );
    for f in &used.flows {
        let counter = |name: &str| Cell::from(f.counters.get(name).copied());
        let realised = |name: &str| Cell::from(f.realised.get(name).copied());
        let late = f.lateness.as_ref();
        grid.row([
            Cell::code(&f.name),
            Cell::Text(emulator_direction(f.direction).into()),
            Cell::code(&f.asked),
            counter("received_packets"),
            counter("lost_packets"),
            counter("queue_dropped_packets"),
            counter("unplanned_dropped_packets"),
            counter("duplicated_packets"),
            counter("modified_packets"),
            counter("reordered_packets"),
            realised("loss_ratio"),
            realised("delay_min_seconds"),
            realised("delay_mean_seconds"),
            realised("delay_max_seconds"),
            late.and_then(|l| l.p50_seconds).into(),
            late.and_then(|l| l.p99_seconds).into(),
            late.map(|l| l.max_seconds).into(),
        ]);
    }
    grid.without_empty_columns()
}

/// Packets that a flow of the emulator did not forward, or forwarded with an invalid checksum, ÷ those that it received.
fn lost_by_emulator(record: &Record, flow: &weir_model::record::ImpairedFlow) -> Option<f64> {
    let counter = |name: &str| flow.counters.get(name).copied().unwrap_or(0);
    let dropped = ["lost_packets", "queue_dropped_packets", "unplanned_dropped_packets"];
    let dropped: u64 = dropped.into_iter().map(counter).fold(0, u64::saturating_add);
    let of_flow = format!("emulator flow {}: ", flow.name);
    let rows = record.loss_ledger.iter().flat_map(|ledger| &ledger.rows);
    let damaged =
        rows.filter(|r| r.stage == stage::EMULATOR_DAMAGED && r.source.starts_with(&of_flow));
    let damaged = damaged.map(|row| row.packets).fold(0, u64::saturating_add);
    // Rows don't name the emulator's direction: with datagrams in both directions, a row may belong to either.
    let udp = |d| record.flows.iter().any(|f| f.transport.datagrams() && f.direction == d);
    if damaged > 0 && DIRECTIONS.into_iter().all(udp) {
        return None;
    }
    let received = counter("received_packets");
    (received > 0).then(|| dropped.saturating_add(damaged) as f64 / received as f64)
}

/// Realised and measured values, for directions in which a single flow of the emulator had all packets.
pub(super) fn realised_measured(record: &Record) -> Option<Grid> {
    let used = record.impairment.as_ref()?;
    let mut grid = Grid::new(
        "Asked, realised, measured",
        [
            Column::text("Direction"),
            Column::text("Figure"),
            Column::text("Asked"),
            figures("Realised", Number),
            figures("Measured", Number),
        ],
    );
    let with = |quantity, value: Option<f64>| match value.filter(|v| v.is_finite()) {
        Some(v) => Cell::With(quantity, v),
        None => Cell::Absent,
    };
    for direction in DIRECTIONS {
        let busy = |f: &&weir_model::record::ImpairedFlow| {
            used.direction_of_run(f.direction) == Some(direction)
                && f.counters.get("received_packets").copied().unwrap_or(0) > 0
        };
        let mut flows = used.flows.iter().filter(busy);
        let (Some(flow), None) = (flows.next(), flows.next()) else { continue };
        // Without flows of the test there was only control traffic.
        let Some(total) = record.direction(direction).and_then(|t| t.receiver.as_ref()) else {
            continue;
        };
        let mut delays = record
            .flows
            .iter()
            .filter(|f| f.direction == direction)
            .filter_map(|f| f.receiver.as_ref()?.one_way_delay.as_ref());
        // For several flows the mean would have to be weighted.
        let delay = match (delays.next(), delays.next()) {
            (Some(delay), None) => Some(delay.mean_seconds),
            _ => None,
        };
        let realised = |name: &str| flow.realised.get(name).copied();
        let counter = |name: &str| flow.counters.get(name).map(|n| *n as f64);
        let rows: [(&str, Quantity, Option<f64>, Option<f64>); 5] = [
            ("loss, all causes", Ratio, lost_by_emulator(record, flow), total.loss_ratio),
            (
                "damaged",
                Count,
                counter("modified_packets").filter(|n| *n > 0.0),
                total.corrupted_packets.filter(|n| *n > 0).map(|n| n as f64),
            ),
            ("mean delay", Seconds, realised("delay_mean_seconds"), delay),
            (
                "duplicates",
                Count,
                counter("duplicated_packets"),
                total.duplicate_packets.map(|n| n as f64),
            ),
            (
                "reordered",
                Count,
                counter("reordered_packets"),
                total.reordered_packets.map(|n| n as f64),
            ),
        ];
        for (what, quantity, did, measured) in rows {
            if did.is_some() || measured.is_some() {
                grid.row([
                    Cell::Text(direction.to_string()),
                    what.into(),
                    Cell::code(&flow.asked),
                    with(quantity, did),
                    with(quantity, measured),
                ]);
            }
        }
    }
    grid.in_order = true;
    (!grid.rows.is_empty()).then_some(grid)
}

/// The comparison of the emulator's packet trace with the receiver's log.
pub(super) fn triangulation(t: &Triangulation) -> Vec<(String, String)> {
    let count = |n: u64| Quantity::Count.format(n as f64);
    let mut facts = vec![
        ("Verdicts on which emulator and receiver agree".into(), count(t.matched_packets)),
        ("Verdicts on which they do not".into(), count(t.disagreeing_packets)),
        (
            "Verdicts as predicted from laws, seed and arrival".into(),
            count(t.predicted_dispositions),
        ),
        ("Other verdicts".into(), count(t.unpredicted_dispositions)),
    ];
    if let Some(r) = &t.residual {
        let show = |v| Quantity::Seconds.format(v);
        facts.push((
            "Residual delay".into(),
            format!(
                "median {}, 99th percentile {}, from {} to {} ({} packets)",
                show(r.p50_seconds),
                show(r.p99_seconds),
                show(r.min_seconds),
                show(r.max_seconds),
                count(r.count)
            ),
        ));
    }
    facts
}

/// Figures whose names end in their unit, as names and texts.
pub(super) fn named_figures(figures: &BTreeMap<String, f64>) -> Vec<(String, String)> {
    figures
        .iter()
        .map(|(name, value)| {
            let units = [
                ("_packets_per_second", PacketsPerSecond),
                ("_bits_per_second", BitsPerSecond),
                ("_seconds", Seconds),
                ("_bytes", Bytes),
                ("_ratio", Ratio),
            ];
            let found = units.iter().find_map(|(end, q)| Some((name.strip_suffix(end)?, *q)));
            let (stem, quantity) = found.unwrap_or((name, Number));
            (phrases::capital(&stem.replace('_', " ")), quantity.format(*value))
        })
        .collect()
}

/// Hardware, system and kernel settings of a run's hosts side by side; absent if nothing is known of any.
pub fn hosts(record: &Record) -> Option<Grid> {
    let mut sides = vec![("This side", record.local.as_ref())];
    match &record.servers[..] {
        [] => sides.push(("Other side", record.remote.as_ref())),
        servers => sides.extend(servers.iter().map(|s| (s.name.as_str(), s.host.as_ref()))),
    }
    side_by_side(&sides)
}

/// Facts of hosts, each in a column with this heading; absent if nothing is known of any.
pub(super) fn side_by_side(hosts: &[(&str, Option<&Host>)]) -> Option<Grid> {
    if hosts.iter().all(|(_, host)| host.is_none()) {
        return None;
    }
    let heads = hosts.iter().map(|(head, _)| Column::text(head));
    let mut grid = Grid::new("Hosts", [Column::text("")].into_iter().chain(heads));
    type Fact = fn(&Host) -> Option<String>;
    let rows: [(&str, Fact); 11] = [
        ("Host", |h| Some(h.host.clone())),
        ("Weir", |h| Some(h.version.clone())),
        ("System", |h| Some(format!("{} {}", h.os, h.kernel))),
        ("Processor", |h| {
            let is_known = h.cpu.cores > 0;
            is_known.then(|| format!("{}, {} usable", h.cpu.model, h.cpu.cores))
        }),
        ("Caches", |h| {
            let of = |(name, bytes): (&String, &u64)| {
                format!("{name} {}", Quantity::Bytes.format(*bytes as f64))
            };
            let list: Vec<String> = h.cpu.cache_bytes.iter().map(of).collect();
            (!list.is_empty()).then(|| list.join(", "))
        }),
        ("Governor", |h| h.cpu.governor.clone()),
        ("Memory", |h| h.memory_bytes.map(|bytes| Quantity::Bytes.format(bytes as f64))),
        ("Virtual machine", |h| h.virtual_machine.clone()),
        ("Clock source", |h| h.clocksource.clone()),
        ("Interfaces", |h| {
            let list: Vec<String> = h.interfaces.iter().map(interface).collect();
            (!list.is_empty()).then(|| list.join("; "))
        }),
        ("Kernel settings", |h| {
            let list: Vec<String> = h.sysctls.iter().map(|(k, v)| format!("{k} = {v}")).collect();
            (!list.is_empty()).then(|| list.join("; "))
        }),
    ];
    for (name, fact) in rows {
        let side = |host: Option<&Host>| {
            host.and_then(fact).filter(|t| !t.trim().is_empty()).map_or(Cell::Absent, Cell::Text)
        };
        let cells: Vec<Cell> = hosts.iter().map(|(_, host)| side(*host)).collect();
        if cells.iter().any(|cell| *cell != Cell::Absent) {
            grid.row([Cell::from(name)].into_iter().chain(cells));
        }
    }
    grid.in_order = true;
    Some(grid)
}

fn interface(i: &weir_model::record::Interface) -> String {
    let mut text = i.name.clone();
    if let Some(driver) = &i.driver {
        text += &format!(" ({driver})");
    }
    for part in [&i.card, &i.bus].into_iter().flatten() {
        text += &format!(", {part}");
    }
    if let Some(speed) = i.speed_bits_per_second {
        text += &format!(", {}", Quantity::BitsPerSecond.format(speed as f64));
    }
    if let Some(mtu) = i.mtu_bytes {
        text += &format!(", MTU {mtu}");
    }
    if let Some(qdisc) = &i.qdisc {
        text += &format!(", {qdisc}");
    }
    let on: Vec<&str> =
        i.offloads.iter().filter(|(_, on)| **on).map(|(name, _)| name.as_str()).collect();
    if !on.is_empty() {
        text += &format!(", offloads {}", on.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_model::record::{ImpairedFlow, Sender, Transactions, Transfers};

    use super::*;

    /// With the client on side B the emulator's first direction is the run's reverse, so directions are named by the interfaces.
    #[test]
    fn the_emulators_directions_are_named_by_its_interfaces() {
        let flow =
            |direction| ImpairedFlow { name: "voice".into(), direction, ..ImpairedFlow::default() };
        let used = ImpairmentUse {
            client_side: Some("b".into()),
            flows: DIRECTIONS.map(flow).into(),
            ..ImpairmentUse::default()
        };
        let grid = impairment(&used);
        let named: Vec<_> = grid.rows.iter().map(|row| row[1].clone()).collect();
        assert_eq!(named, [Cell::Text("A to B".into()), Cell::Text("B to A".into())]);
    }

    /// The datagrams of transfers over UDP have a mean size, which is not that of the law of volumes.
    #[test]
    fn each_law_has_the_mean_of_its_own_draws() {
        let sender = Sender { mean_payload_bytes: Some(900.0), ..Sender::default() };
        let transfers = Transfers {
            volume_law: "1K..9K".parse().ok(),
            mean_volume_bytes: Some(5000.0),
            ..Transfers::default()
        };
        let transactions = Transactions { transfers: Some(transfers), ..Transactions::default() };
        let (sender, transactions) = (Some(sender), Some(transactions));
        let flow = Flow { sender, transactions, ..Flow::default() };
        let of = |flow: Flow| {
            let grid = laws(&Record { flows: vec![flow], ..Record::default() }).unwrap();
            grid.rows[0].last().cloned()
        };
        assert_eq!(of(flow.clone()), Some(Cell::Figure(5000.0)));
        let payload_law = "100..1000".parse().ok();
        assert_eq!(of(Flow { payload_law, ..flow }), Some(Cell::Figure(900.0)));
    }
}
