//! A data file of flent as a record: each measured series is a flow of its name.
//!
//! Rows are flent's own values at its common times, which it interpolates between the times of the tool's lines. Sums and means
//! that flent computes of other series are left out, since the record has its own.

use serde_json::Value;
use weir_model::plan::{Connection, Direction, TransportName};
use weir_model::record::{
    Delay, Flow, Host, IntervalCount, IntervalFlow, Receiver, Record, Sender, Tcp,
};
use weir_model::units::Span;
use weir_model::warning::{Severity, Warning};

use super::{RATE_UNIT, TIME_UNIT, VERSION};
use crate::ReadError;
use crate::json::{Node, bounded};
use crate::reading::{MAX_FLOWS, Reading, per_second};
use crate::rows::{MAX_ROWS, row};
use crate::text::{bytes as whole_bytes, shortened};

/// Maximum number of values of all series.
const MAX_VALUES: usize = 500_000;

/// Whether a file, decompressed, looks like a data file.
pub(crate) fn recognises(bytes: &[u8]) -> bool {
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    is_object && has(b"\"x_values\"") && has(b"\"metadata\"")
}

/// The result of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Reading<'_>>, ReadError> {
    bounded(bytes)?;
    let document: Value = serde_json::from_slice(bytes).map_err(|e| ReadError {
        line: Some(e.line()),
        ..ReadError::new(e.to_string(), "JSON as flent writes it")
    })?;
    let root = Node::root(&document);
    let version = root.count("version")?.unwrap_or(0);
    if version != VERSION {
        let given = version.to_string();
        let accepted = "4, as flent writes since 1.1; flent itself converts older files";
        return Err(ReadError::at_field("version", given, accepted));
    }
    let Some(meta) = root.get("metadata") else { return Ok(vec![]) };
    let times = times(&root)?;
    let step = step(&meta, &times)?;
    let mut record = Record::default();
    let mut left_out = vec![];
    let mut series = vec![];
    for (name, values) in
        root.get("results").and_then(|r| r.value.as_object()).into_iter().flatten()
    {
        let values = Node { value: values, path: format!("results.{}", shortened(name, 80)) };
        let values = numbers(&values, times.len())?;
        match Series::of(name, values, &root, &meta)? {
            Kind::Measured(one) if series.len() < MAX_FLOWS => series.push(one),
            Kind::Measured(_) => {
                return Err(ReadError::at_field(
                    "results",
                    "length",
                    format!("at most {MAX_FLOWS} series"),
                ));
            }
            Kind::Computed => {}
            Kind::Other => left_out.push(shortened(name, 60)),
        }
    }
    if series.len().saturating_mul(times.len()) > MAX_VALUES {
        return Err(ReadError::at_field(
            "results",
            "length",
            format!("at most {MAX_VALUES} values"),
        ));
    }
    let far = meta.text("HOST")?.map(|host| shortened(host, 255));
    for (n, one) in series.iter().enumerate() {
        let id = n as u32 + 1;
        let flow = one.flow(id, far.as_deref(), step)?;
        record.plan.connections.push(Connection {
            name: flow.name.clone(),
            transport: flow.transport.into(),
            direction: flow.direction,
            ..Connection::default()
        });
        record.flows.push(flow);
    }
    if record.flows.is_empty() {
        return Err(ReadError::at_field("results", "no series", "a series in Mbits/s or ms"));
    }
    for (n, start) in times.iter().enumerate() {
        let end = times.get(n + 1).copied().unwrap_or(start + step);
        let counts = series.iter().enumerate().filter_map(|(at, one)| {
            Some(one.count((*one.values.get(n)?)?, end - start, at as u32 + 1))
        });
        let counts: Vec<IntervalFlow> = counts.collect();
        if !counts.is_empty() {
            record.intervals.push(row((*start, end), false, counts, &record.flows));
        }
    }
    if !left_out.is_empty() {
        let text = format!(
            "series without a counterpart in a record are left out: {}",
            shortened(&left_out.join(", "), 500)
        );
        record.warnings.push(Warning::new("series-left-out", Severity::Info, text));
    }
    if series.iter().any(|one| one.is_time && !one.is_single) {
        let text = format!(
            "round trips other than ping's are means over {step} s: their minimum and maximum are those of the means"
        );
        record.warnings.push(Warning::new("means-of-intervals", Severity::Info, text));
    }
    about(&meta, &mut record, far, step)?;
    let version = meta.text("FLENT_VERSION")?.map(str::to_owned);
    Ok(vec![Reading { record, version, started_ms: started_ms(&meta)?, text: bytes }])
}

/// The common times: ascending seconds.
fn times(root: &Node<'_>) -> Result<Vec<f64>, ReadError> {
    let nodes = root.items("x_values")?;
    if nodes.len() > MAX_ROWS {
        return Err(ReadError::at_field("x_values", "length", format!("at most {MAX_ROWS}")));
    }
    let mut out: Vec<f64> = vec![];
    for node in nodes {
        let accepted = "ascending seconds, 0 to 10 years";
        let time = node.value.as_f64().filter(|t| (0.0..3.2e8).contains(t));
        let time = time.filter(|t| out.last().is_none_or(|last| last < t));
        let error = || ReadError::at_field(node.path.clone(), node.value.to_string(), accepted);
        out.push(time.ok_or_else(error)?);
    }
    Ok(out)
}

/// Time from one value to the next.
fn step(meta: &Node<'_>, times: &[f64]) -> Result<f64, ReadError> {
    let stated = meta.seconds("STEP_SIZE")?.filter(|step| *step > 0.0);
    let first = times.first().zip(times.get(1)).map(|(a, b)| b - a);
    Ok(stated.or(first).unwrap_or(1.0))
}

/// A series: numbers or nothing.
fn numbers(node: &Node<'_>, most: usize) -> Result<Vec<Option<f64>>, ReadError> {
    let error = |given: &Value, accepted: &str| {
        ReadError::at_field(node.path.clone(), given.to_string(), accepted)
    };
    let items = node.value.as_array().ok_or_else(|| error(node.value, "an array"))?;
    let one = |item: &Value| match item {
        Value::Null => Ok(None),
        _ => {
            item.as_f64().filter(|v| v.is_finite()).map(Some).ok_or_else(|| error(item, "numbers"))
        }
    };
    items.iter().take(most).map(one).collect()
}

fn started_ms(meta: &Node<'_>) -> Result<Option<u64>, ReadError> {
    for name in ["T0", "TIME"] {
        let time = meta.text(name)?.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        if let Some(ms) = time.and_then(|time| u64::try_from(time.as_millisecond()).ok()) {
            return Ok(Some(ms));
        }
    }
    Ok(None)
}

/// Title, hosts and the like.
fn about(
    meta: &Node<'_>,
    record: &mut Record,
    far: Option<String>,
    step: f64,
) -> Result<(), ReadError> {
    let text = |name| Ok::<_, ReadError>(meta.text(name)?.map(|t| shortened(t, 255)));
    let name = text("NAME")?.unwrap_or_default();
    let title = text("TITLE")?.filter(|title| !title.trim().is_empty());
    record.plan.title = Some(match title {
        Some(title) => format!("{name}: {title}"),
        None => name,
    })
    .filter(|title| !title.is_empty());
    record.plan.host = far;
    record.plan.interval = Span((step * 1e9) as u64);
    record.plan.latency = false;
    record.end_reason = "completed".into();
    if let Some(host) = text("LOCAL_HOST")? {
        let mut local = Host {
            host,
            os: text("KERNEL_NAME")?.unwrap_or_default(),
            kernel: text("KERNEL_RELEASE")?.unwrap_or_default(),
            ..Host::default()
        };
        let settings = meta.get("SYSCTLS");
        let settings = settings.as_ref().and_then(|s| s.value.as_object());
        for (name, value) in settings.into_iter().flatten().take(200) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            local.sysctls.insert(shortened(name, 100), shortened(&value, 200));
        }
        record.local = Some(local);
    }
    Ok(())
}

/// What a series is.
enum Kind<'a> {
    /// Measured by a tool: a flow.
    Measured(Series<'a>),
    /// Computed of others, or without a value.
    Computed,
    /// Of a quantity that a record does not have.
    Other,
}

/// A measured series.
struct Series<'a> {
    name: &'a str,
    values: Vec<Option<f64>>,
    /// Values as the tool printed them.
    raw: Vec<f64>,
    meta: Option<Node<'a>>,
    transport: TransportName,
    direction: Direction,
    /// Round trips, not rates.
    is_time: bool,
    /// Each value is of one packet.
    is_single: bool,
}

impl<'a> Series<'a> {
    fn of(
        name: &'a str,
        values: Vec<Option<f64>>,
        root: &Node<'a>,
        meta: &Node<'a>,
    ) -> Result<Kind<'a>, ReadError> {
        let own = meta.get("SERIES_META").and_then(|all| {
            let value = all.value.get(name)?;
            Some(Node { value, path: format!("metadata.SERIES_META.{}", shortened(name, 80)) })
        });
        let raw = root.get("raw_values").and_then(|all| all.value.get(name));
        let raw: Vec<f64> = raw
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|item| item.get("val")?.as_f64().filter(|v| v.is_finite()))
            .collect();
        let text = |key| own.as_ref().map_or(Ok(None), |own| own.text(key));
        let runner = text("RUNNER")?.unwrap_or_default();
        // A computed series has values, but none of a tool.
        if raw.is_empty() || values.iter().all(Option::is_none) {
            return Ok(Kind::Computed);
        }
        let lower = name.to_lowercase();
        let is_time = match text("UNITS")? {
            Some(RATE_UNIT) => false,
            Some(TIME_UNIT) => lower.starts_with("ping"),
            _ => lower.starts_with("ping (ms)"),
        };
        if !is_time && text("UNITS")? != Some(RATE_UNIT) {
            return Ok(Kind::Other);
        }
        let transport = match (is_time, lower.contains("udp"), lower.contains("tcp")) {
            (_, true, _) => TransportName::Udp,
            (true, _, false) => TransportName::Icmp,
            _ => TransportName::Tcp,
        };
        let direction = match lower.contains("download") {
            true => Direction::Reverse,
            false => Direction::Forward,
        };
        Ok(Kind::Measured(Series {
            name,
            values,
            raw,
            meta: own,
            transport,
            direction,
            is_time,
            is_single: runner == "PingRunner",
        }))
    }

    /// A value in a row of this length.
    fn count(&self, value: f64, seconds: f64, id: u32) -> IntervalFlow {
        if self.is_time {
            let count =
                IntervalCount { rtt_seconds: Some(value.max(0.0) / 1000.0), ..Default::default() };
            return IntervalFlow { id, sender: Some(count), receiver: None };
        }
        let bits = value.max(0.0) * 1e6;
        let count = IntervalCount {
            bytes: whole_bytes(bits * seconds, 0.125).unwrap_or(0),
            bits_per_second: Some(bits),
            ..IntervalCount::default()
        };
        match self.direction {
            Direction::Forward => IntervalFlow { id, sender: Some(count), receiver: None },
            Direction::Reverse => IntervalFlow { id, sender: None, receiver: Some(count) },
        }
    }

    fn flow(&self, id: u32, far: Option<&str>, step: f64) -> Result<Flow, ReadError> {
        let mut flow = Flow {
            id,
            name: shortened(self.name, 80),
            transport: self.transport,
            direction: self.direction,
            ..Flow::default()
        };
        let far = far.unwrap_or_default().to_owned();
        match self.direction {
            Direction::Forward => flow.destination = far,
            Direction::Reverse => flow.source = far,
        }
        if self.is_time {
            flow.round_trip = round_trip(&self.raw, self.is_single);
            return Ok(flow);
        }
        let empty = Value::Null;
        let meta = self.meta.clone().unwrap_or(Node { value: &empty, path: String::new() });
        let present = self.values.iter().flatten();
        let summed: f64 = present.clone().map(|v| v.max(0.0) * step * 1e6).sum();
        let elapsed = meta.seconds("ELAPSED_TIME")?.filter(|s| *s > 0.0);
        let seconds = elapsed.unwrap_or(step * present.count() as f64);
        let (sent, received) = (meta.count("BYTES_SENT")?, meta.count("BYTES_RECVD")?);
        // Without the tool's totals, that of the series at the end that measured it.
        let own = whole_bytes(summed, 0.125).filter(|_| sent.is_none() && received.is_none());
        let forward = self.direction == Direction::Forward;
        let sent = sent.or(own.filter(|_| forward));
        let received = received.or(own.filter(|_| !forward));
        let first = self.values.iter().position(Option::is_some).unwrap_or(0) as f64 * step;
        let rate = |bytes| per_second(bytes, seconds).map(|rate| 8.0 * rate);
        let (start_seconds, end_seconds) = (Some(first), Some(first + seconds));
        flow.sender = sent.map(|bytes| Sender {
            bytes,
            seconds,
            start_seconds,
            end_seconds,
            bits_per_second: rate(bytes),
            ..Sender::default()
        });
        flow.receiver = received.map(|bytes| Receiver {
            bytes,
            seconds,
            start_seconds,
            end_seconds,
            bits_per_second: rate(bytes),
            ..Receiver::default()
        });
        flow.tcp = tcp(&meta)?.filter(|_| !self.transport.datagrams());
        Ok(flow)
    }
}

/// What netperf knows of the sender. flent writes some numbers as text.
fn tcp(meta: &Node<'_>) -> Result<Option<Tcp>, ReadError> {
    let Some(retransmits) = meta.get("TCP_RETRANSMIT") else { return Ok(None) };
    let as_text = retransmits.value.as_str().and_then(|text| text.parse::<u64>().ok());
    let Some(retransmits) = as_text.or(retransmits.value.as_u64()) else { return Ok(None) };
    let mss = meta.get("TCP_MSS").and_then(|mss| mss.value.as_u64());
    Ok(Some(Tcp {
        retransmits,
        mss_bytes: mss.and_then(|mss| u32::try_from(mss).ok()).unwrap_or(0),
        congestion_control: meta
            .text("CONG_CONTROL")?
            .map(|t| shortened(t, 40))
            .unwrap_or_default(),
        ..Tcp::default()
    }))
}

/// The distribution of values in ms. A percentile needs ten values beyond it, and values that are of single packets.
fn round_trip(values: &[f64], is_single: bool) -> Option<Delay> {
    let mut sorted: Vec<f64> = values.iter().map(|ms| ms / 1000.0).filter(|s| *s >= 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let count = sorted.len();
    let at = |q: f64| {
        let is_known = is_single && count as f64 * (1.0 - q) >= 10.0;
        let rank = ((count as f64 * q).ceil() as usize).clamp(1, count);
        is_known.then(|| sorted[rank - 1])
    };
    Some(Delay {
        count: count as u64,
        min_seconds: min,
        mean_seconds: sorted.iter().sum::<f64>() / count as f64,
        p50_seconds: at(0.5),
        p90_seconds: at(0.9),
        p99_seconds: at(0.99),
        max_seconds: max,
        ..Delay::default()
    })
}
