//! The charts of a run, and the overlaid charts of several runs.

use std::collections::BTreeMap;

use weir_model::metric::{are_echo, are_transfers};
use weir_model::plan::Direction;
use weir_model::record::{Flow, Interval, IntervalCount, IntervalEnds, IntervalFlow, Record};

use super::colours;
use crate::hdr::{self, Cell};
use crate::plot::{
    Axis, COLOURS, Figure, Labels, Mark, Point, Quantity, ReferenceLine, Series, Shade, Spread,
};

/// Maximum number of flows with their own lines; more are shown by range and median.
const LINES: usize = 16;
/// Maximum number of flows with their own distributions; more are added up.
const DISTRIBUTIONS: usize = 4;
/// Bins of a histogram.
const BINS: usize = 48;
/// A reference line is drawn if the measured value is at least this fraction of it.
const NEAR: f64 = 0.25;
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// Selects the value to draw from the counts of an interval.
type Pick = fn(&IntervalCount) -> Option<f64>;

/// Which end of a flow.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Sender,
    Receiver,
}

impl End {
    fn of_flow(self, flow: &IntervalFlow) -> Option<&IntervalCount> {
        match self {
            End::Sender => flow.sender.as_ref(),
            End::Receiver => flow.receiver.as_ref(),
        }
    }

    fn of_total(self, ends: &IntervalEnds) -> Option<&IntervalCount> {
        match self {
            End::Sender => ends.sender.as_ref(),
            End::Receiver => ends.receiver.as_ref(),
        }
    }
}

/// Lost packets of an interval, as a fraction of the expected ones.
fn loss(count: &IntervalCount) -> Option<f64> {
    let lost = count.lost_packets?;
    let awaited = count.packets.saturating_add(lost);
    (awaited > 0).then(|| lost as f64 / awaited as f64)
}

/// Every chart that has data, in the order of the page.
pub fn figures_of_run(record: &Record) -> Vec<Figure> {
    let mut figures = over_time(record);
    figures.extend(tcp_over_time(record));
    for times in TIMES {
        figures.extend(distributions(&[(String::new(), record)], times));
    }
    figures.extend(loss_periods(record));
    figures.retain(|f| !f.is_empty());
    colours::bind(&mut figures);
    figures
}

/// The overlaid charts of several runs; `runs` are their names and records.
pub fn figures_of_runs(runs: &[(String, &Record)]) -> Vec<Figure> {
    let mut figures = vec![rates_of_runs(runs)];
    let kinds: [(&str, &str, &str, Axis, Pick); 4] = [
        (
            "throughput",
            "Throughput received",
            "Payload received in each interval, all flows of a direction.",
            rate_axis(),
            |c| c.bits_per_second,
        ),
        (
            "loss",
            "Packet loss",
            "Lost of those awaited in each interval, all flows of a direction.",
            loss_axis(),
            loss,
        ),
        (
            "jitter",
            "Jitter",
            "Interarrival jitter at the end of each interval; of several flows the median.",
            jitter_axis(),
            |c| c.jitter_seconds,
        ),
        (
            "delay",
            "One-way delay",
            "Mean one-way delay of each interval; of several flows the median.",
            delay_axis(),
            |c| c.mean_delay_seconds,
        ),
    ];
    for (id, title, caption, axis, pick) in kinds {
        let mut figure = Figure::over_time(id, title, axis).caption(caption);
        for (n, (name, record)) in runs.iter().enumerate() {
            for direction in DIRECTIONS {
                let points = match id {
                    "throughput" | "loss" => total_points(record, direction, End::Receiver, pick),
                    _ => median_points(record, direction, pick),
                };
                if points.iter().any(|p| p.y.is_finite()) {
                    let mut series =
                        Series::new(format!("{name} {direction}"), Mark::Step).points(points);
                    series.colour = Some(colour(n, direction));
                    figure.series.push(series);
                }
            }
        }
        // A single line still needs its name.
        if figure.series.len() == 1 {
            figure.labels = Labels::Legend;
        }
        figures.push(figure);
    }
    for times in TIMES {
        figures.extend(distributions(runs, times));
    }
    figures.retain(|f| !f.is_empty());
    colours::bind(&mut figures);
    figures
}

/// A run has one colour; its reverse direction is dashed.
fn colour(run: usize, direction: Direction) -> usize {
    match direction {
        Direction::Forward => run % COLOURS,
        Direction::Reverse => run % COLOURS + COLOURS,
    }
}

fn rate_axis() -> Axis {
    Axis::new("", "bits_per_second", Quantity::BitsPerSecond)
}
fn loss_axis() -> Axis {
    Axis::new("of packets", "loss_ratio", Quantity::Ratio)
}
fn jitter_axis() -> Axis {
    Axis::new("", "jitter_seconds", Quantity::Seconds)
}
fn delay_axis() -> Axis {
    Axis::new("", "mean_delay_seconds", Quantity::Seconds).tight()
}

/// The received rates of the runs, side by side.
fn rates_of_runs(runs: &[(String, &Record)]) -> Figure {
    let names = runs.iter().map(|(name, _)| name.clone());
    let mut figure = Figure::grouped_bars("rates", "Payload rate received", names, rate_axis())
        .caption("Payload received by all flows of a direction over the whole run.");
    for direction in DIRECTIONS {
        let points = runs.iter().enumerate().filter_map(|(n, (_, record))| {
            let rate = record.direction(direction)?.receiver.as_ref()?.bits_per_second?;
            let host_limited =
                record.warnings.iter().any(|w| w.severity != weir_model::warning::Severity::Info);
            Some(Point::at(n as f64, rate).host_limited(host_limited))
        });
        let series = Series::new(direction.to_string(), Mark::Bars).points(points);
        if !series.is_empty() {
            figure.series.push(series);
        }
    }
    if figure.series.iter().flat_map(|s| &s.points).any(|p| p.host_limited) {
        figure.caption.push_str(" A ring marks a run with warnings.");
    }
    figure
}

/// A name that fits a legend.
fn flow_name(flow: &Flow) -> String {
    let name: String = flow.name.chars().take(24).collect();
    if name.is_empty() { format!("flow {}", flow.id) } else { format!("{} {name}", flow.id) }
}

fn span(interval: &Interval, y: Option<f64>) -> Point {
    Point::over(interval.start_seconds, interval.end_seconds, y.unwrap_or(f64::NAN))
}

fn total_points(record: &Record, direction: Direction, end: End, pick: Pick) -> Vec<Point> {
    let of = |i: &Interval| {
        let ends = match direction {
            Direction::Forward => i.total.forward.as_ref(),
            Direction::Reverse => i.total.reverse.as_ref(),
        }?;
        pick(end.of_total(ends)?)
    };
    record.intervals.iter().map(|i| span(i, of(i))).collect()
}

/// Each flow's figures over time.
fn flow_points(record: &Record, end: End, pick: Pick) -> BTreeMap<u32, Vec<Point>> {
    let mut out: BTreeMap<u32, Vec<Point>> = BTreeMap::new();
    for interval in &record.intervals {
        for flow in &interval.flows {
            let value = end.of_flow(flow).and_then(pick);
            out.entry(flow.id).or_default().push(span(interval, value));
        }
    }
    out
}

/// The median over the flows of a direction with the range from the smallest to the largest.
fn median_points(record: &Record, direction: Direction, pick: Pick) -> Vec<Point> {
    range_points(record, direction, End::Receiver, pick)
        .into_iter()
        .map(|p| Point { low: None, high: None, ..p })
        .collect()
}

fn range_points(record: &Record, direction: Direction, end: End, pick: Pick) -> Vec<Point> {
    let members: std::collections::BTreeSet<u32> =
        record.flows.iter().filter(|f| f.direction == direction).map(|f| f.id).collect();
    let point = |i: &Interval| {
        let flows = i.flows.iter().filter(|f| members.contains(&f.id));
        let mut values: Vec<f64> =
            flows.filter_map(|f| pick(end.of_flow(f)?)).filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        match (values.first(), values.last()) {
            (Some(low), Some(high)) => {
                // The lower of two middle values, so that it is a measured one.
                span(i, Some(values[(values.len() - 1) / 2])).between(*low, *high)
            }
            _ => span(i, None),
        }
    };
    record.intervals.iter().map(point).collect()
}

/// Periods that the totals leave out.
fn omitted(record: &Record) -> Vec<Shade> {
    let mut out: Vec<Shade> = vec![];
    for i in record.intervals.iter().filter(|i| i.omitted) {
        match out.last_mut().filter(|s| (s.x_end - i.start_seconds).abs() < 1e-6) {
            Some(shade) => shade.x_end = i.end_seconds,
            None => out.push(Shade { x: i.start_seconds, x_end: i.end_seconds }),
        }
    }
    out
}

/// A figure over intervals: each flow, or the range of many; with sums if `sum`.
fn intervals(
    record: &Record,
    (id, title, caption): (&str, &str, &str),
    axis: Axis,
    (end, pick): (End, Pick),
    sum: bool,
) -> Figure {
    let mut figure = Figure::over_time(id, title, axis).caption(caption);
    figure.shades = omitted(record);
    if !figure.shades.is_empty() {
        figure.caption.push_str(" Shaded: left out of the totals.");
    }
    let two_ways = DIRECTIONS.iter().all(|d| record.flows.iter().any(|f| f.direction == *d));
    let mut sums = vec![];
    for direction in DIRECTIONS {
        let members = record.flows.iter().filter(|f| f.direction == direction).count();
        if sum && members > 1 {
            let points = total_points(record, direction, end, pick);
            if points.iter().any(|p| p.y.is_finite()) {
                let name = if two_ways { format!("sum {direction}") } else { "sum".into() };
                let mut series = Series::new(name, Mark::Step).points(points);
                series.heavy = true;
                sums.push(series);
            }
        }
    }
    if record.flows.len() <= LINES {
        let mut points = flow_points(record, end, pick);
        for flow in &record.flows {
            let points = points.remove(&flow.id).unwrap_or_default();
            if points.iter().any(|p| p.y.is_finite()) {
                let series = Series::new(flow_name(flow), Mark::Step).points(points);
                figure.series.push(series);
            }
        }
    } else {
        for direction in DIRECTIONS {
            let points = range_points(record, direction, end, pick);
            if points.iter().any(|p| p.y.is_finite()) {
                let name = if two_ways { format!("median {direction}") } else { "median".into() };
                let mut series = Series::new(name, Mark::Step).points(points);
                series.spread = Spread::Band;
                figure.series.push(series);
            }
        }
        if figure.series.iter().any(|s| !s.is_empty()) {
            figure
                .caption
                .push_str(" Of the flows: median, and the range from the smallest to the largest.");
        }
    }
    // Sums come last, so that they are drawn on top.
    figure.series.extend(sums);
    figure
}

fn over_time(record: &Record) -> Vec<Figure> {
    let mut out = vec![];
    let received = record
        .intervals
        .iter()
        .flat_map(|i| &i.flows)
        .any(|f| f.receiver.as_ref().is_some_and(|r| r.bits_per_second.is_some()));
    let end = if received { End::Receiver } else { End::Sender };
    let words = match end {
        End::Receiver => {
            ("throughput", "Throughput received", "Payload received in each interval.")
        }
        End::Sender => (
            "throughput",
            "Throughput sent",
            "Payload sent in each interval: what arrived is not known.",
        ),
    };
    let mut throughput = intervals(record, words, rate_axis(), (end, |c| c.bits_per_second), true);
    if let Some(usage) = &record.link_usage {
        let nominal = usage.nominal_bits_per_second as f64;
        let most =
            throughput.series.iter().flat_map(|s| &s.points).map(|p| p.y).fold(0.0, f64::max);
        if most >= NEAR * nominal {
            throughput = throughput.reference("nominal rate", ReferenceLine::Horizontal(nominal));
        }
    }
    let (words, axis) = match are_echo(&record.flows) {
        true => (
            ("replies", "Replies", "Echo replies in each interval."),
            Axis::new("Replies", "replies_per_second", Quantity::PacketsPerSecond),
        ),
        false if are_transfers(&record.flows) => (
            ("transfers", "Transfers", "Transfers completed in each interval."),
            Axis::new("Transfers", "transfers_per_second", Quantity::TransfersPerSecond),
        ),
        false => (
            ("transactions", "Transactions", "Transactions completed in each interval."),
            Axis::new("Transactions", "transactions_per_second", Quantity::TransactionsPerSecond),
        ),
    };
    let transactions =
        intervals(record, words, axis, (End::Sender, |c| c.transactions_per_second), true);
    if !transactions.is_empty() {
        out.push(transactions);
    }
    out.push(throughput);
    if record.flows.iter().any(|f| f.transport.datagrams()) {
        out.push(packets(record));
    }
    out.push(intervals(
        record,
        ("loss", "Packet loss", "Lost of those awaited in each interval; a packet is lost in the interval in which a later one passed it."),
        loss_axis(),
        (End::Receiver, loss),
        true,
    ));
    out.push(intervals(
        record,
        ("jitter", "Jitter", "Interarrival jitter (RFC 3550) at the end of each interval."),
        jitter_axis(),
        (End::Receiver, |c| c.jitter_seconds),
        false,
    ));
    let mut delay = intervals(
        record,
        (
            "delay",
            "One-way delay, mean",
            "Mean one-way delay (RFC 7679) of the packets of each interval.",
        ),
        delay_axis(),
        (End::Receiver, |c| c.mean_delay_seconds),
        false,
    );
    error_band(record, &mut delay);
    out.push(delay);
    out
}

/// Adds the error bound of the clocks as a band around the delay, for one or two flows.
fn error_band(record: &Record, figure: &mut Figure) {
    if figure.series.len() > 2 || record.flows.len() > 2 {
        return;
    }
    let errors: Vec<f64> = record
        .flows
        .iter()
        .filter_map(|f| f.receiver.as_ref()?.one_way_delay.as_ref()?.error_seconds)
        .filter(|e| e.is_finite() && *e > 0.0)
        .collect();
    let Some(error) = errors.iter().copied().reduce(f64::max) else { return };
    for series in &mut figure.series {
        series.spread = Spread::Band;
        for p in &mut series.points {
            (p.low, p.high) = (Some(p.y - error), Some(p.y + error));
        }
    }
    figure.caption.push_str(" The band is the bound of the error of relating both clocks.");
}

/// Packets sent and received, all flows of a direction.
fn packets(record: &Record) -> Figure {
    let axis = Axis::new("", "packets_per_second", Quantity::PacketsPerSecond);
    let mut figure = Figure::over_time("packet-rate", "Packet rate", axis)
        .caption("Packets sent and received in each interval, all flows of a direction.");
    figure.shades = omitted(record);
    let two_ways = DIRECTIONS.iter().all(|d| record.flows.iter().any(|f| f.direction == *d));
    for direction in DIRECTIONS {
        // A stream has no packets: its counts are of reads.
        if record.flows.iter().any(|f| f.direction == direction && !f.transport.datagrams()) {
            continue;
        }
        for (end, word) in [(End::Sender, "sent"), (End::Receiver, "received")] {
            let points = total_points(record, direction, end, |c| c.packets_per_second);
            if points.iter().any(|p| p.y.is_finite()) {
                let name = if two_ways { format!("{word} {direction}") } else { word.into() };
                figure.series.push(Series::new(name, Mark::Step).points(points));
            }
        }
    }
    figure
}

fn tcp_over_time(record: &Record) -> Vec<Figure> {
    if !record.flows.iter().any(|f| !f.transport.datagrams()) {
        return vec![];
    }
    let mut out = vec![];
    type Sample = fn(&weir_model::record::TcpSample) -> f64;
    let kinds: [(&str, &str, &str, Axis, Sample, Pick); 2] = [
        (
            "tcp-rtt",
            "TCP round trip",
            "Smoothed round trip of the sender's kernel: samples, or the last value of each interval.",
            Axis::new("", "rtt_seconds", Quantity::Seconds).tight(),
            |s| s.rtt_seconds,
            |c| c.rtt_seconds,
        ),
        (
            "tcp-cwnd",
            "TCP congestion window",
            "Congestion window of the sender's kernel: samples, or the last value of each interval.",
            Axis::new("", "cwnd_bytes", Quantity::Bytes),
            |s| s.cwnd_bytes as f64,
            |c| c.cwnd_bytes.map(|b| b as f64),
        ),
    ];
    for (id, title, caption, axis, sample, pick) in kinds {
        let sampled = record.flows.iter().any(|f| f.tcp_samples.len() > 1);
        if sampled && record.flows.len() <= LINES {
            let mut figure = Figure::over_time(id, title, axis).caption(caption);
            for flow in record.flows.iter().filter(|f| !f.tcp_samples.is_empty()) {
                let points = flow.tcp_samples.iter().map(|s| Point::at(s.at_seconds, sample(s)));
                figure.series.push(Series::new(flow_name(flow), Mark::Line).points(points));
            }
            out.push(figure);
        } else {
            out.push(intervals(record, (id, title, caption), axis, (End::Sender, pick), false));
        }
    }
    out.push(intervals(
        record,
        ("tcp-retransmits", "TCP retransmissions", "Segments retransmitted in each interval."),
        Axis::new("segments", "retransmits", Quantity::Count),
        (End::Sender, |c| c.retransmits.map(|n| n as f64)),
        true,
    ));
    out
}

/// Loss periods by their length, over all flows.
fn loss_periods(record: &Record) -> Option<Figure> {
    let mut periods: BTreeMap<(u64, String), u64> = BTreeMap::new();
    for lengths in record.flows.iter().filter_map(|f| f.receiver.as_ref()?.loss_periods.as_ref()) {
        for (length, n) in lengths.iter().filter(|(_, n)| **n > 0) {
            // A key that is not a number holds all further lengths: sort it last.
            let key = (length.parse().unwrap_or(u64::MAX), length.clone());
            let sum = periods.entry(key).or_default();
            *sum = sum.saturating_add(*n);
        }
    }
    if periods.is_empty() {
        return None;
    }
    let axis = Axis::new("loss periods", "loss_periods", Quantity::Count);
    let names = periods.keys().map(|(_, length)| length.clone());
    let mut figure = Figure::grouped_bars("loss-periods", "Loss periods", names, axis)
        .caption("Loss periods (RFC 3357) by length, all flows; “more” gathers further lengths.");
    figure.x.label = "Consecutive packets lost".into();
    figure.x.key = "length_packets".into();
    let points = periods.values().enumerate().map(|(i, n)| Point::at(i as f64, *n as f64));
    Some(figure.with(Series::new("all flows", Mark::Bars).points(points)))
}

/// One distribution with its name.
struct Distribution {
    name: String,
    colour: Option<usize>,
    cells: Vec<Cell>,
}

/// Times whose distributions are drawn together.
struct Times {
    /// Start of the figures' ids.
    id: &'static str,
    title: &'static str,
    key: &'static str,
    /// What each of them is a time of.
    of: &'static str,
    /// Their metrics and names; runs are compared by the first one.
    metrics: &'static [(&'static str, &'static str)],
}

const RESPONSE_TIME: &str = "response-time";

/// Response times of echo requests.
const ROUND_TRIP: Times = Times {
    id: "round-trip",
    title: "Round trip",
    key: "round_trip_seconds",
    of: "echo requests",
    metrics: &[
        ("response_time", "actual send time"),
        ("response_time_from_scheduled", "scheduled time"),
    ],
};

/// Completion times of transfers.
const COMPLETION_TIME: Times = Times {
    id: "completion-time",
    title: "Completion time",
    key: "completion_time_seconds",
    of: "transfers",
    metrics: &[
        ("response_time", "actual start"),
        ("response_time_from_scheduled", "scheduled start"),
    ],
};

const TIMES: &[Times] = &[
    Times {
        id: "delay",
        title: "One-way delay",
        key: "one_way_delay_seconds",
        of: "packets",
        metrics: &[
            ("one_way_delay", "actual send time"),
            ("one_way_delay_from_intended", "intended send time"),
        ],
    },
    Times {
        id: RESPONSE_TIME,
        title: "Response time",
        key: "response_time_seconds",
        of: "transactions",
        metrics: &[
            ("response_time", "actual send time"),
            ("response_time_from_scheduled", "scheduled time"),
        ],
    },
    Times {
        id: "page-load-time",
        title: "Page load time",
        key: "page_load_time_seconds",
        of: "pages",
        metrics: &[("page_load_time", "load time")],
    },
    Times {
        id: "setup-time",
        title: "Connection set-up time",
        key: "setup_time_seconds",
        of: "connections",
        metrics: &[("setup_time", "set-up")],
    },
];

/// Histogram, CDF and tail of some times.
fn distributions(runs: &[(String, &Record)], times: &Times) -> Vec<Figure> {
    let flows = || runs.iter().flat_map(|(_, record)| &record.flows);
    let Times { id, title, key, of, metrics } = match times.id {
        RESPONSE_TIME if are_echo(flows()) => &ROUND_TRIP,
        RESPONSE_TIME if are_transfers(flows()) => &COMPLETION_TIME,
        _ => times,
    };
    let mut all = vec![];
    for (n, (name, record)) in runs.iter().enumerate() {
        for (metric, words) in *metrics {
            if runs.len() > 1 && *metric != metrics[0].0 {
                continue;
            }
            let of_metric = || record.histograms.iter().filter(|h| h.metric == *metric);
            let read = || of_metric().filter_map(|h| Some((h.flow, hdr::cells(h)?)));
            let many = runs.len() > 1 || of_metric().count() > DISTRIBUTIONS;
            if many {
                let cells = hdr::merge(&read().map(|(_, c)| c).collect::<Vec<_>>());
                let name =
                    if runs.len() > 1 { name.clone() } else { format!("all flows, {words}") };
                let colour = (runs.len() > 1).then(|| colour(n, Direction::Forward));
                all.push(Distribution { name, colour, cells });
            } else {
                for (flow, cells) in read() {
                    let of = flow
                        .and_then(|id| record.flows.iter().find(|f| f.id == id))
                        .filter(|_| record.flows.len() > 1)
                        .map(|f| format!("{}, ", flow_name(f)))
                        .unwrap_or_default();
                    all.push(Distribution { name: format!("{of}{words}"), colour: None, cells });
                }
            }
        }
    }
    all.retain(|d| !d.cells.is_empty());
    let (Some(low), Some(high)) = (
        all.iter().flat_map(|d| &d.cells).map(|c| c.low.max(1)).min(),
        all.iter().flat_map(|d| &d.cells).map(|c| c.high.max(1)).max(),
    ) else {
        return vec![];
    };
    let log = high / low > 20;
    let axis = || {
        let axis = Axis::new(title, key, Quantity::Seconds);
        if log { axis.log() } else { axis }
    };
    let figure = |kind: &str, what: &str| (format!("{id}-{kind}"), format!("{title}, {what}"));
    let (name, heading) = figure("histogram", "distribution");
    let mut histogram = Figure::histogram(&name, &heading, axis()).caption(format!(
        "Fraction of {of} in each of {BINS} bins of equal {}.",
        if log { "ratio" } else { "width" }
    ));
    let noun = if *id == "delay" { "delay" } else { "time" };
    let (name, heading) = figure("cdf", "cumulative");
    let mut cdf = Figure::cdf(&name, &heading, axis())
        .caption(format!("Fraction of {of} with at most this {noun}."));
    let (name, heading) = figure("tail", "tail");
    let mut ccdf = Figure::ccdf(&name, &heading, axis())
        .caption(format!("Fraction of {of} with a longer {noun}: the slow ones."));
    let edges = edges(low, high, log);
    for d in &all {
        let total: f64 = d.cells.iter().map(|c| c.count as f64).sum();
        let mark = if all.len() == 1 { Mark::Bars } else { Mark::Step };
        let series = |mark, points: Vec<Point>| {
            let mut series = Series::new(d.name.clone(), mark).points(points);
            series.colour = d.colour;
            series
        };
        histogram.series.push(series(mark, binned(&d.cells, &edges, total)));
        let (rising, falling) = cumulative(&d.cells, total);
        cdf.series.push(series(Mark::Step, rising));
        ccdf.series.push(series(Mark::Step, falling));
    }
    vec![histogram, cdf, ccdf]
}

/// The edges of equal bins (or of equal ratios) from `low` to `high`, in ns.
fn edges(low: u64, high: u64, log: bool) -> Vec<f64> {
    let (low, high) = (low as f64, high as f64);
    // A single value still gets a bin.
    let (low, high) = if high > low { (low, high * (1.0 + 1e-9)) } else { (low * 0.9, high * 1.1) };
    (0..=BINS)
        .map(|i| {
            let share = i as f64 / BINS as f64;
            if log { low * (high / low).powf(share) } else { low + (high - low) * share }
        })
        .collect()
}

fn binned(cells: &[Cell], edges: &[f64], total: f64) -> Vec<Point> {
    let mut bins = vec![0.0; edges.len().saturating_sub(1)];
    for cell in cells {
        // A cell is far narrower than a bin, so its middle decides.
        let middle = (cell.low as f64 / 2.0 + cell.high as f64 / 2.0).max(1.0);
        let at = edges.partition_point(|e| *e <= middle).saturating_sub(1).min(bins.len() - 1);
        bins[at] += cell.count as f64 / total;
    }
    bins.iter()
        .zip(edges.windows(2))
        .map(|(y, e)| Point::over(e[0] / 1e9, e[1] / 1e9, *y))
        .collect()
}

/// Fractions at or below, and above, each cell's upper end.
fn cumulative(cells: &[Cell], total: f64) -> (Vec<Point>, Vec<Point>) {
    let (mut rising, mut falling, mut below) = (vec![], vec![], 0.0);
    for (i, cell) in cells.iter().enumerate() {
        below += cell.count as f64;
        let x = cell.high as f64 / 1e9;
        let end = cells.get(i + 1).map_or(x, |next| next.high as f64 / 1e9);
        rising.push(Point::over(x, end, below / total));
        // At the last cell the rest is zero except for rounding: omit it.
        if i + 1 < cells.len() {
            falling.push(Point::over(x, end, 1.0 - below / total));
        }
    }
    (rising, falling)
}
