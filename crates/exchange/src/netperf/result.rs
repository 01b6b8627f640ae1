//! A test while its lines are read, and the record that they make.

use std::collections::BTreeMap;

use weir_model::plan::{Connection, Direction, Shape, TransportName};
use weir_model::record::{
    Delay, Flow, IntervalCount, IntervalFlow, Receiver, Record, Sender, Tcp, Transactions,
};
use weir_model::units::ByteSize;
use weir_model::warning::{Severity, Warning};

use super::keys;
use super::lines::{Interim, Line, Unit};
use crate::ReadError;
use crate::reading::{Reading, numbered, per_second};
use crate::rows::row;
use crate::text::{bytes, number, seconds, shortened, whole};

/// What a banner names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Banner {
    /// A stream, with its direction.
    Stream(TransportName, Direction),
    /// Transactions on one connection, or on one each.
    Transactions(TransportName, Shape),
    /// Omni: the fields say what it was, except the shape of its table.
    Omni,
}

/// A test.
#[derive(Debug, Default)]
pub(super) struct Test {
    banner: Option<Banner>,
    host: Option<String>,
    burst: u64,
    pub(super) unit: Option<Unit>,
    /// Values by keyword.
    keys: BTreeMap<String, String>,
    /// Rows of a table.
    table: Vec<Vec<f64>>,
    pub(super) rows: Vec<Interim>,
    /// Keywords of the interim result that is being read: value, unit, length.
    interim: (Option<f64>, Option<Unit>, Option<f64>),
    /// The values of CSV were read.
    has_columns: bool,
}

impl Test {
    /// Whether a line begins another test.
    pub(super) fn is_ended_by(&self, line: &Line<'_>) -> bool {
        let has_result = !self.keys.is_empty() || !self.table.is_empty();
        match line {
            Line::Banner { .. } => self.banner.is_some() || has_result,
            Line::Header(_) => has_result,
            Line::Key { name, .. } => self.keys.contains_key(*name),
            Line::Interim(_) => has_result,
            Line::Unit(_) | Line::Row(_) | Line::Other => false,
        }
    }

    /// Whether the values of CSV were read.
    pub(super) fn is_complete(&self) -> bool {
        self.has_columns
    }

    pub(super) fn banner(
        &mut self,
        line: usize,
        test: &str,
        host: Option<&str>,
        burst: u64,
    ) -> Result<(), ReadError> {
        let name = test.to_uppercase();
        let has = |part: &str| name.contains(part);
        let transport = if has("UDP") { TransportName::Udp } else { TransportName::Tcp };
        let is_known = has("UDP") || has("TCP");
        self.banner = Some(match () {
            () if has("OMNI") => Banner::Omni,
            () if is_known && has("MAERTS") => Banner::Stream(transport, Direction::Reverse),
            () if is_known && (has("STREAM") || has("SENDFILE")) => {
                Banner::Stream(transport, Direction::Forward)
            }
            () if is_known && has("CONNECT/REQUEST/RESPONSE") => {
                Banner::Transactions(transport, Shape::Crr)
            }
            () if is_known && has("REQUEST/RESPONSE") => Banner::Transactions(transport, Shape::Rr),
            () => {
                let accepted = "a test of TCP or UDP: STREAM, MAERTS, SENDFILE, RR, CRR or omni";
                return Err(ReadError::at_line(line, test, accepted));
            }
        });
        self.host = host.map(|host| shortened(host, 255));
        self.burst = burst;
        Ok(())
    }

    /// A keyword; `None` if the value of an interim result is invalid.
    pub(super) fn key(&mut self, name: &str, value: &str) -> Option<()> {
        let Some((name, _)) = name.split_once('[').filter(|_| name.starts_with("NETPERF_")) else {
            self.keys.insert(shortened(name, 60), value.to_owned());
            return Some(());
        };
        match name {
            "NETPERF_INTERIM_RESULT" => self.interim = (Some(number(value)?), None, None),
            "NETPERF_UNITS" => self.interim.1 = Some(Unit::of(value)?),
            "NETPERF_INTERVAL" => self.interim.2 = Some(seconds(value)?),
            "NETPERF_ENDING" => {
                let ending = number(value).filter(|at| *at < 2.5e11)?;
                if let (Some(value), Some(unit), Some(seconds)) = std::mem::take(&mut self.interim)
                    && self.rows.len() < crate::rows::MAX_ROWS
                {
                    self.rows.push(Interim { value, unit, seconds, ending });
                }
            }
            _ => {}
        }
        Some(())
    }

    /// A line of CSV values; `None` if their number is not that of the headings.
    pub(super) fn columns(&mut self, headings: &[String], values: &[String]) -> Option<()> {
        if headings.len() != values.len() {
            return None;
        }
        for (heading, value) in headings.iter().zip(values) {
            if let Some(key) = keys::of_heading(heading) {
                self.keys.insert(key.into(), value.clone());
            }
        }
        self.has_columns = true;
        Some(())
    }

    /// A row of a table. What `-v 2` adds below is not needed.
    pub(super) fn row(&mut self, values: &[f64]) {
        let most = match self.banner {
            Some(Banner::Stream(transport, _)) if transport.datagrams() => 2,
            _ => 1,
        };
        if self.banner.is_some() && self.table.len() < most && values.len() < 100 {
            self.table.push(values.to_vec());
        }
    }

    /// The result; absent if there are no lines of one.
    pub(super) fn reading<'a>(mut self, text: &'a [u8]) -> Result<Option<Reading<'a>>, ReadError> {
        if !self.table.is_empty() {
            self.table_to_keys()?;
        }
        if self.keys.is_empty() {
            return match self.banner {
                Some(_) => Err(ReadError::new("test without a result", "a table, CSV or keywords")),
                None => Ok(None),
            };
        }
        let (transport, is_transport_known) = self.transport()?;
        let seconds = self.seconds("ELAPSED_TIME")?.unwrap_or(0.0);
        let unit = match self.keys.get("THROUGHPUT_UNITS") {
            Some(word) => Unit::of(word).ok_or_else(|| {
                self.error("THROUGHPUT_UNITS", "10^6bits/s, KBytes/s, Trans/s and the like")
            })?,
            None => self.unit.unwrap_or(Unit::Rate(1e6)),
        };
        let mut flow = match (unit, self.banner) {
            (Unit::Transactions, _) | (_, Some(Banner::Transactions(..))) => {
                self.transactions(transport, seconds)?
            }
            (Unit::Rate(factor), _) => self.stream(transport, seconds, factor)?,
        };
        let far = self.keys.get("DEST_ADDR").cloned().or(self.host.clone()).unwrap_or_default();
        let far = shortened(&far, 255);
        match flow.direction {
            Direction::Forward => flow.destination.clone_from(&far),
            Direction::Reverse => flow.source.clone_from(&far),
        }
        let mut record = Record { flows: vec![flow], ..Record::default() };
        numbered(&mut record.flows);
        record.plan.host = Some(far).filter(|far| !far.is_empty());
        record.plan.latency = false;
        record.plan.connections = vec![connection(&record.flows[0])];
        record.end_reason = "completed".into();
        if let Some(command) = self.keys.get("COMMAND_LINE") {
            record.command =
                command.split_whitespace().take(500).map(|w| shortened(w, 500)).collect();
        }
        if !is_transport_known {
            let text = "the output does not name the transport: the flow is listed as TCP, netperf's default";
            record.warnings.push(Warning::new("transport-unknown", Severity::Info, text));
        }
        let mut start = 0.0;
        for interim in &self.rows {
            let end = start + interim.seconds;
            let counts = vec![count(interim, record.flows[0].direction)];
            record.intervals.push(row((start, end), false, counts, &record.flows));
            start = end;
        }
        let started = self.rows.first().map(|first| first.ending - first.seconds);
        let started_ms = started.filter(|at| *at > 0.0).map(|at| (at * 1000.0).round() as u64);
        Ok(Some(Reading { record, version: None, started_ms, text }))
    }

    fn error(&self, key: &str, accepted: &str) -> ReadError {
        ReadError::at_field(key, self.keys.get(key).cloned().unwrap_or_default(), accepted)
    }

    /// A number; absent also if it is negative, by which netperf says that it does not know.
    fn number(&self, key: &str) -> Result<Option<f64>, ReadError> {
        let Some(value) = self.keys.get(key).filter(|value| !value.is_empty()) else {
            return Ok(None);
        };
        if value.starts_with('-') {
            return Ok(None);
        }
        number(value).map(Some).ok_or_else(|| self.error(key, "a number"))
    }

    fn count(&self, key: &str) -> Result<Option<u64>, ReadError> {
        match self.keys.get(key).and_then(|value| whole(value)) {
            Some(count) => Ok(Some(count)),
            None => Ok(self.number(key)?.and_then(|n| bytes(n, 1.0))),
        }
    }

    fn seconds(&self, key: &str) -> Result<Option<f64>, ReadError> {
        match self.number(key)? {
            Some(s) if s >= 3.2e8 => Err(self.error(key, "a number of seconds")),
            seconds => Ok(seconds),
        }
    }

    /// The values of a table under the keywords of omni output.
    fn table_to_keys(&mut self) -> Result<(), ReadError> {
        let too_short = || ReadError::new("row of the table", "the columns that netperf prints");
        let mut put = |key: &str, value: Option<&f64>| {
            value.map(|value| self.keys.insert(key.into(), value.to_string())).ok_or_else(too_short)
        };
        let first = self.table.first().cloned().unwrap_or_default();
        match self.banner {
            Some(Banner::Stream(transport, _)) if transport.datagrams() => {
                put("LOCAL_SEND_SIZE", first.get(1))?;
                put("ELAPSED_TIME", first.get(2))?;
                put("LOCAL_SEND_CALLS", first.get(3))?;
                let sent = first.get(1).zip(first.get(3)).map(|(size, packets)| size * packets);
                put("LOCAL_BYTES_SENT", sent.as_ref())?;
                let second = self.table.get(1).cloned().unwrap_or_default();
                put("REMOTE_RECV_CALLS", second.get(2))?;
                put("THROUGHPUT", second.get(3))?;
                let arrived = first.get(1).zip(second.get(2)).map(|(size, packets)| size * packets);
                put("REMOTE_BYTES_RECVD", arrived.as_ref())?;
            }
            Some(Banner::Stream(_, direction)) => {
                let size = match direction {
                    Direction::Forward => "LOCAL_SEND_SIZE",
                    Direction::Reverse => "REMOTE_SEND_SIZE",
                };
                put(size, first.get(2))?;
                put("ELAPSED_TIME", first.get(3))?;
                put("THROUGHPUT", first.get(4))?;
            }
            _ => {
                put("REQUEST_SIZE", first.get(2))?;
                put("RESPONSE_SIZE", first.get(3))?;
                put("ELAPSED_TIME", first.get(4))?;
                put("THROUGHPUT", first.get(5))?;
                self.keys.entry("BURST_SIZE".into()).or_insert_with(|| self.burst.to_string());
            }
        }
        Ok(())
    }

    /// The transport, and whether the output names it.
    fn transport(&self) -> Result<(TransportName, bool), ReadError> {
        match (self.keys.get("PROTOCOL").map(String::as_str), self.banner) {
            (Some("TCP"), _) => Ok((TransportName::Tcp, true)),
            (Some("UDP"), _) => Ok((TransportName::Udp, true)),
            (Some(_), _) => Err(self.error("PROTOCOL", "TCP or UDP")),
            (None, Some(Banner::Stream(transport, _) | Banner::Transactions(transport, _))) => {
                Ok((transport, true))
            }
            (None, _) => Ok((TransportName::Tcp, false)),
        }
    }

    fn direction(&self) -> Result<Direction, ReadError> {
        match (self.keys.get("DIRECTION").map(String::as_str), self.banner) {
            (Some("Send"), _) => Ok(Direction::Forward),
            (Some("Receive" | "Recv"), _) => Ok(Direction::Reverse),
            (Some(_), _) => Err(self.error("DIRECTION", "Send or Receive, for a stream")),
            (None, Some(Banner::Stream(_, direction))) => Ok(direction),
            (None, _) => Ok(Direction::Forward),
        }
    }

    /// A stream. Bytes that the output does not state are computed from rate and time.
    fn stream(
        &self,
        transport: TransportName,
        seconds: f64,
        factor: f64,
    ) -> Result<Flow, ReadError> {
        let direction = self.direction()?;
        let (here, there) = match direction {
            Direction::Forward => ("LOCAL", "REMOTE"),
            Direction::Reverse => ("REMOTE", "LOCAL"),
        };
        let sent = self.count(&format!("{here}_BYTES_SENT"))?;
        let received = self.count(&format!("{there}_BYTES_RECVD"))?;
        let size = self.count(&format!("{here}_SEND_SIZE"))?.unwrap_or(0);
        let rate = self.number("THROUGHPUT")?.map(|rate| rate * factor);
        let of_rate = rate.and_then(|rate| bytes(rate * seconds, 0.125));
        let datagrams = transport.datagrams();
        let packets = |bytes: u64| if datagrams { bytes.checked_div(size) } else { None };
        let (start_seconds, end_seconds) = (Some(0.0), Some(seconds));
        let mut flow = Flow { transport, direction, payload_bytes: size, ..Flow::default() };
        flow.sender = sent.map(|bytes| Sender {
            bytes,
            packets: packets(bytes).unwrap_or(0),
            seconds,
            start_seconds,
            end_seconds,
            bits_per_second: per_second(bytes, seconds).map(|rate| 8.0 * rate),
            packets_per_second: packets(bytes).and_then(|n| per_second(n, seconds)),
            ..Sender::default()
        });
        let lost = match (sent.and_then(packets), received.and_then(packets)) {
            (Some(sent), Some(arrived)) => Some(sent.saturating_sub(arrived)),
            _ => None,
        };
        flow.receiver = received.or(of_rate).map(|bytes| Receiver {
            bytes,
            packets: packets(bytes).unwrap_or(0),
            seconds,
            start_seconds,
            end_seconds,
            bits_per_second: rate.or(per_second(bytes, seconds).map(|rate| 8.0 * rate)),
            packets_per_second: packets(bytes).and_then(|n| per_second(n, seconds)),
            lost_packets: lost,
            loss_ratio: lost
                .zip(sent.and_then(packets))
                .filter(|(_, sent)| *sent > 0)
                .map(|(lost, sent)| lost as f64 / sent as f64),
            ..Receiver::default()
        });
        if flow.receiver.is_none() && flow.sender.is_none() {
            return Err(self.error("THROUGHPUT", "a throughput or a number of bytes"));
        }
        let retransmits = self.count(&format!("{here}_TRANSPORT_RETRANS"))?;
        let mss = self.count("TRANSPORT_MSS")?;
        let congestion = self.keys.get(&format!("{here}_CONG_CONTROL"));
        flow.tcp = retransmits.filter(|_| !datagrams).map(|retransmits| Tcp {
            retransmits,
            mss_bytes: mss.and_then(|mss| u32::try_from(mss).ok()).unwrap_or(0),
            congestion_control: congestion.map(|name| shortened(name, 40)).unwrap_or_default(),
            ..Tcp::default()
        });
        Ok(flow)
    }

    fn transactions(&self, transport: TransportName, seconds: f64) -> Result<Flow, ReadError> {
        let rate = self.number("TRANSACTION_RATE")?.or(self.number("THROUGHPUT")?);
        let rate =
            rate.ok_or_else(|| self.error("THROUGHPUT", "a number of transactions per second"))?;
        let completed = bytes(rate * seconds, 1.0).unwrap_or(0);
        let shape = match self.banner {
            Some(Banner::Transactions(_, shape)) => shape,
            _ => Shape::Rr,
        };
        let request = self.count("REQUEST_SIZE")?;
        let time = |key| Ok::<_, ReadError>(self.number(key)?.map(|us| us / 1e6));
        let ends = time("MIN_LATENCY")?.zip(time("MAX_LATENCY")?).zip(time("MEAN_LATENCY")?);
        let enough = |samples: u64, value: Option<f64>| value.filter(|_| completed >= samples);
        let (p50, p90, p99) = (time("P50_LATENCY")?, time("P90_LATENCY")?, time("P99_LATENCY")?);
        let response_time = ends.map(|((min, max), mean)| Delay {
            count: completed,
            min_seconds: min,
            mean_seconds: mean,
            p50_seconds: enough(20, p50),
            p90_seconds: enough(100, p90),
            p99_seconds: enough(1000, p99),
            max_seconds: max,
            ..Delay::default()
        });
        let burst = self.count("BURST_SIZE")?;
        let outstanding = burst.and_then(|burst| u32::try_from(burst.saturating_add(1)).ok());
        let requested = request.map(|bytes| bytes.saturating_mul(completed));
        Ok(Flow {
            transport,
            direction: Direction::Forward,
            payload_bytes: request.unwrap_or(0),
            sender: requested.map(|bytes| Sender {
                bytes,
                packets: completed,
                seconds,
                start_seconds: Some(0.0),
                end_seconds: Some(seconds),
                bits_per_second: per_second(bytes, seconds).map(|rate| 8.0 * rate),
                packets_per_second: Some(rate),
                ..Sender::default()
            }),
            transactions: Some(Transactions {
                shape,
                request_bytes: request,
                response_bytes: self.count("RESPONSE_SIZE")?,
                outstanding,
                completed,
                seconds,
                transactions_per_second: Some(rate),
                response_time,
                response_time_deviation_seconds: time("STDDEV_LATENCY")?,
                ..Transactions::default()
            }),
            ..Flow::default()
        })
    }
}

fn connection(flow: &Flow) -> Connection {
    let base = Connection { transport: flow.transport.into(), ..Connection::default() };
    let size = |bytes: Option<u64>| bytes.filter(|n| (1..1 << 30).contains(n)).map(ByteSize);
    match &flow.transactions {
        None => Connection {
            direction: flow.direction,
            payload: size(Some(flow.payload_bytes)).map(Into::into),
            ..base
        },
        Some(transactions) => Connection {
            shape: transactions.shape,
            request: size(transactions.request_bytes),
            response: size(transactions.response_bytes),
            outstanding: transactions.outstanding,
            ..base
        },
    }
}

/// A row of an interim result, which is of the end that printed it.
fn count(interim: &Interim, direction: Direction) -> IntervalFlow {
    let mut count = IntervalCount::default();
    match interim.unit {
        Unit::Rate(factor) => {
            let bits = interim.value * factor;
            count.bytes = bytes(bits * interim.seconds, 0.125).unwrap_or(0);
            count.bits_per_second = Some(bits).filter(|bits| bits.is_finite());
        }
        Unit::Transactions => {
            count.transactions = bytes(interim.value * interim.seconds, 1.0);
            count.transactions_per_second = Some(interim.value);
        }
    }
    match direction {
        Direction::Forward => IntervalFlow { id: 1, sender: Some(count), receiver: None },
        Direction::Reverse => IntervalFlow { id: 1, sender: None, receiver: Some(count) },
    }
}
