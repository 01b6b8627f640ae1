//! What iperf3 prints as JSON (`-J`) and as events (`--json-stream`), of either end, from version 3.1 on.
//!
//! A file states one end's intervals and, of a client's test that was completed, both ends' totals. iperf3 writes some names
//! twice in an object (the last one counts), and -1 for what it does not know.

mod rows;

use serde_json::{Map, Value};
use weir_model::plan::{Connection, Direction, Plan, TransportName};
use weir_model::record::{Flow, Host, Receiver, Record, SERVED, Sender, Status, Tcp};
use weir_model::units::{BitRate, ByteSize, RateLimit, SendRate, Span};
use weir_model::warning::{Severity, Warning};

use crate::json::{Node, bounded};
use crate::reading::{self, Reading, numbered, per_second};
use crate::text::shortened;
use crate::{NoForm, ReadError};
use rows::rows;

/// Maximum number of streams of a test; iperf3 has 128 in each direction.
const MAX_STREAMS: usize = 1000;
/// How much of a file is looked at to recognise it, bytes.
const HEAD: usize = 64 << 10;

fn head(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)])
}

/// Whether a file looks like the output of `-J`.
pub(crate) fn recognises_json(bytes: &[u8]) -> bool {
    let head = head(bytes);
    head.trim_start().starts_with('{')
        && head.contains("\"start\"")
        && head.contains("\"connected\"")
        && !recognises_stream(bytes)
}

/// Whether a file looks like the output of `--json-stream`.
pub(crate) fn recognises_stream(bytes: &[u8]) -> bool {
    let head = head(bytes);
    let first = head.trim_start().lines().next().unwrap_or_default();
    first.starts_with('{') && first.contains("\"event\"") && first.contains("\"data\"")
}

/// The record as `-J` prints it, on a line.
pub(crate) fn write_json(record: &Record) -> Result<Vec<u8>, NoForm> {
    Ok(format!("{}\n", weir_report::iperf3_json(record)?).into_bytes())
}

/// The record as `--json-stream` prints it.
pub(crate) fn write_stream(record: &Record) -> Result<Vec<u8>, NoForm> {
    Ok(weir_report::iperf3_json_lines(record)?.into_bytes())
}

/// The results of a file: objects or events, one after the other.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Reading<'_>>, ReadError> {
    bounded(bytes)?;
    let mut out = vec![];
    // Events since the last start, and where that was.
    let mut events: Option<(usize, Map<String, Value>)> = None;
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut from = 0;
    while let Some(value) = values.next() {
        let value = value.map_err(|e| ReadError {
            line: Some(e.line()),
            ..ReadError::new(e.to_string(), "JSON as iperf3 prints it")
        })?;
        let to = values.byte_offset();
        let Some(event) = value.get("event").and_then(Value::as_str) else {
            out.push(result(&value, &bytes[from..to])?);
            from = to;
            reading::bounded(&out)?;
            continue;
        };
        let data = value.get("data").cloned().unwrap_or_default();
        if event == "start"
            && let Some((start, whole)) = events.take()
        {
            out.push(result(&Value::Object(whole), &bytes[start..from])?);
            reading::bounded(&out)?;
        }
        let (_, whole) = events.get_or_insert_with(|| (from, Map::new()));
        match event {
            "interval" => {
                let rows = whole.entry("intervals").or_insert_with(|| Value::Array(vec![]));
                if let Value::Array(rows) = rows {
                    rows.push(data);
                }
            }
            "start" | "end" | "error" => drop(whole.insert(event.into(), data)),
            _ => {}
        }
        from = to;
    }
    if let Some((start, whole)) = events {
        out.push(result(&Value::Object(whole), &bytes[start..from])?);
    }
    Ok(out)
}

/// What the parts of a result share.
struct Test<'a> {
    start: Node<'a>,
    end: Node<'a>,
    transport: TransportName,
    /// The server printed it: the far end's figures are those that it can't know.
    is_server: bool,
    /// The far end's totals are there.
    has_far_end: bool,
    block_bytes: u64,
}

/// One result.
fn result<'a>(document: &Value, text: &'a [u8]) -> Result<Reading<'a>, ReadError> {
    let root = Node::root(document);
    let empty = Value::Object(Map::new());
    let start = root.get("start").ok_or_else(|| {
        ReadError::at_field("start", "nothing", "the object that iperf3 prints of each test")
    })?;
    let end = root.get("end").unwrap_or(Node { value: &empty, path: "end".into() });
    let set_up = start.get("test_start").unwrap_or(Node { value: &empty, path: "start".into() });
    let error = root.text("error")?.map(|text| shortened(text, 300));
    let protocol = set_up.text("protocol")?.unwrap_or_default();
    if protocol.is_empty()
        && let Some(error) = error
    {
        return Err(ReadError::at_field("error", format!("{error:?}"), "a test that started"));
    }
    let transport = match protocol {
        "TCP" => TransportName::Tcp,
        "UDP" => TransportName::Udp,
        _ => {
            let field = "start.test_start.protocol";
            return Err(ReadError::at_field(field, format!("{protocol:?}"), "TCP or UDP"));
        }
    };
    let is_server = start.get("accepted_connection").is_some();
    let test = Test {
        transport,
        is_server,
        has_far_end: !is_server && error.is_none(),
        block_bytes: set_up.count("blksize")?.unwrap_or(0),
        start,
        end,
    };
    let mut record = Record { plan: test.plan(&set_up)?, ..Record::default() };
    record.plan.title = root.text("title")?.map(|title| shortened(title, 1000));
    if is_server {
        record.labels.insert(SERVED.into(), "iperf3".into());
    }
    let sockets = test.flows(&mut record)?;
    if record.flows.is_empty() {
        let given = error.unwrap_or_else(|| "no stream".into());
        return Err(ReadError::at_field("end.streams", given, "figures of a stream"));
    }
    record.intervals = rows(&root, &sockets, &record.flows, transport)?;
    let omitted = record.intervals.iter().filter(|row| row.omitted);
    record.omitted_seconds = omitted.map(|row| row.end_seconds).max_by(f64::total_cmp);
    record.local = test.start.text("system_info")?.and_then(host);
    match &error {
        None => record.end_reason = "completed".into(),
        Some(error) => {
            let is_stop = error.contains("interrupt") || error.contains("terminated");
            record.status = if is_stop { Status::Interrupted } else { Status::Partial };
            record.end_reason.clone_from(error);
        }
    }
    if !test.has_far_end {
        let who = if is_server { "a server's output" } else { "the output of an incomplete test" };
        let text = format!("{who}: the figures are those of the end that printed it alone");
        record.warnings.push(Warning::new("one-sided", Severity::Info, text));
    }
    let version = test.start.text("version")?;
    Ok(Reading {
        record,
        version: version.map(|v| v.trim_start_matches("iperf ").to_owned()),
        started_ms: started_ms(&test.start)?,
        text,
    })
}

fn started_ms(start: &Node<'_>) -> Result<Option<u64>, ReadError> {
    let Some(time) = start.get("timestamp") else { return Ok(None) };
    let seconds = time.count("timesecs")?.map(|s| s.saturating_mul(1000));
    Ok(time.count("timemillisecs")?.or(seconds).filter(|ms| *ms < 253_402_300_800_000))
}

/// The host in `system_info`, which is the output of `uname`: system, name, release.
fn host(info: &str) -> Option<Host> {
    let mut words = info.split_whitespace().map(|word| shortened(word, 100));
    let (os, host, kernel) = (words.next()?, words.next()?, words.next()?);
    Some(Host { host, os, kernel, ..Host::default() })
}

impl Test<'_> {
    /// What the client asked for, as far as the file states it.
    fn plan(&self, set_up: &Node<'_>) -> Result<Plan, ReadError> {
        let far = self.start.get("connecting_to");
        let far = far.or_else(|| self.start.get("accepted_connection"));
        let host = far.as_ref().map(|far| far.text("host")).transpose()?.flatten();
        let port = far.as_ref().map(|far| far.count("port")).transpose()?.flatten();
        let reverse = set_up.flag("reverse")?.unwrap_or(false);
        let both = set_up.flag("bidir")?.unwrap_or(false);
        let count = set_up.count("num_streams")?.unwrap_or(1).clamp(1, MAX_STREAMS as u64) as u32;
        let span = |seconds: u64| Span::from_seconds(seconds.min(320_000_000));
        let positive = |n: Option<u64>| n.filter(|n| (1..1 << 62).contains(n));
        let bytes = positive(set_up.count("bytes")?).map(ByteSize);
        let packets = positive(set_up.count("blocks")?);
        let is_amount = bytes.is_some() || packets.is_some();
        let duration = positive(set_up.count("duration")?).filter(|_| !is_amount).map(span);
        let rate = set_up.count("target_bitrate")?.or(self.start.count("target_bitrate")?);
        let limit = match positive(rate) {
            Some(bits) => RateLimit::Bits(BitRate(bits)),
            None => RateLimit::Unlimited,
        };
        let tos = set_up.count("tos")?.and_then(|tos| u8::try_from(tos).ok()).filter(|t| *t > 0);
        let window = positive(self.start.count("sock_bufsize")?).map(ByteSize);
        let one = |direction| {
            let base = Connection { transport: self.transport.into(), ..Connection::default() };
            Connection {
                direction,
                count,
                payload: positive(Some(self.block_bytes))
                    .filter(|bytes| *bytes < 1 << 40)
                    .map(|bytes| ByteSize(bytes).into()),
                rate: Some(SendRate { limit, burst: 1 }),
                duration,
                bytes,
                packets,
                window,
                ..base
            }
            .with_ip(|ip| ip.tos = tos)
        };
        // The client's `reverse` is what its server sends.
        let directions = match (both, reverse != self.is_server) {
            (true, _) => vec![Direction::Forward, Direction::Reverse],
            (false, true) => vec![Direction::Reverse],
            (false, false) => vec![Direction::Forward],
        };
        let interval = set_up.seconds("interval")?.filter(|s| *s > 0.0);
        let default = Plan::default();
        Ok(Plan {
            host: host.map(|host| shortened(host, 255)),
            port: port.and_then(|port| u16::try_from(port).ok()).filter(|_| !self.is_server),
            omit: span(set_up.count("omit")?.unwrap_or(0)),
            interval: interval.map_or(default.interval, |s| Span((s * 1e9) as u64)),
            latency: false,
            connections: directions.into_iter().map(one).collect(),
            ..default
        })
    }

    /// Adds the streams in the order of `end`, else of `start.connected`; returns their sockets.
    fn flows(&self, record: &mut Record) -> Result<Vec<u64>, ReadError> {
        let mut sockets = vec![];
        let streams = self.end.items("streams")?;
        let most = format!("at most {MAX_STREAMS} streams");
        if streams.len() > MAX_STREAMS {
            return Err(ReadError::at_field("end.streams", "length", most));
        }
        if self.start.items("connected")?.len() > MAX_STREAMS {
            return Err(ReadError::at_field("start.connected", "length", most));
        }
        for stream in &streams {
            let parts = ["udp", "sender", "receiver"].map(|name| stream.get(name));
            let Some(any) = parts.iter().flatten().next() else { continue };
            sockets.push(any.count("socket")?.unwrap_or(0));
            let sends = any.flag("sender")?.unwrap_or_else(|| self.sends_by_plan(record));
            let direction = if sends { Direction::Forward } else { Direction::Reverse };
            let mut flow = Flow {
                transport: self.transport,
                direction,
                payload_bytes: self.block_bytes,
                ..Flow::default()
            };
            let [udp, sender, receiver] = parts;
            if let Some(udp) = udp {
                self.datagrams(&udp, sends, &streams, &mut flow)?;
            }
            // Each end's own figures; the far end's only where this end has them.
            if let Some(node) = sender.filter(|_| sends || self.has_far_end) {
                flow.sender = Some(self.sender(&node)?);
                flow.tcp = self.tcp(&node)?;
            }
            if let Some(node) = receiver.filter(|_| !sends || self.has_far_end) {
                flow.receiver = Some(self.receiver(&node)?);
            }
            record.flows.push(flow);
        }
        for (flow, socket) in record.flows.iter_mut().zip(&sockets) {
            self.address(*socket, flow)?;
        }
        numbered(&mut record.flows);
        let is_family = |flow: &Flow| flow.source.starts_with('[');
        // Before 3.14, the parameters do not say that both ends send.
        let has = |direction| record.flows.iter().any(|flow| flow.direction == direction);
        if let [one] = &record.plan.connections[..]
            && has(Direction::Forward)
            && has(Direction::Reverse)
        {
            let both = [Direction::Forward, Direction::Reverse];
            let directed = both.map(|direction| Connection { direction, ..one.clone() });
            record.plan.connections = directed.into();
        }
        let family = record.flows.first().filter(|flow| !flow.source.is_empty()).map(is_family);
        let family = family.map(|is_v6| match is_v6 {
            true => weir_model::plan::Family::Ipv6,
            false => weir_model::plan::Family::Ipv4,
        });
        record.flows.iter_mut().for_each(|flow| flow.family = family);
        Ok(sockets)
    }

    /// Who sends, where a stream does not say so (before 3.7).
    fn sends_by_plan(&self, record: &Record) -> bool {
        let first = record.plan.connections.first();
        first.is_some_and(|connection| connection.direction == Direction::Forward)
    }

    /// The ends of a stream of datagrams, which iperf3 states in one object. The datagrams of a direction with one stream that
    /// arrived are in the direction's sum.
    fn datagrams(
        &self,
        udp: &Node<'_>,
        sends: bool,
        streams: &[Node<'_>],
        flow: &mut Flow,
    ) -> Result<(), ReadError> {
        let seconds = udp.seconds("seconds")?.unwrap_or(0.0);
        let packets = udp.count("packets")?.unwrap_or(0);
        let bytes = udp.count("bytes")?.unwrap_or(0);
        let lost = udp.count("lost_packets")?;
        if sends || self.has_far_end {
            flow.sender = Some(Sender {
                bytes,
                packets,
                seconds,
                start_seconds: Some(0.0),
                end_seconds: Some(seconds),
                bits_per_second: per_second(bytes, seconds).map(|rate| 8.0 * rate),
                packets_per_second: per_second(packets, seconds),
                ..Sender::default()
            });
        }
        if sends && !self.has_far_end {
            return Ok(());
        }
        let is_like = |node: &Node<'_>| {
            let other = node.get("udp").and_then(|udp| udp.flag("sender").ok().flatten());
            other.is_none_or(|other| other == sends)
        };
        let sum = match streams.iter().filter(|node| is_like(node)).count() {
            1 => self.received_sum(sends),
            _ => None,
        };
        let arrived = packets.saturating_sub(lost.unwrap_or(0));
        let (mut received, mut received_bytes) =
            (arrived, arrived.saturating_mul(self.block_bytes));
        let mut received_seconds = seconds;
        if let Some(sum) = sum {
            received_bytes = sum.count("bytes")?.unwrap_or(received_bytes);
            received_seconds = sum.seconds("seconds")?.unwrap_or(seconds);
            received = received_bytes.checked_div(self.block_bytes).unwrap_or(arrived);
        }
        let jitter = udp.number("jitter_ms")?.filter(|ms| *ms >= 0.0);
        flow.receiver = Some(Receiver {
            bytes: received_bytes,
            packets: received,
            seconds: received_seconds,
            start_seconds: Some(0.0),
            end_seconds: Some(received_seconds),
            bits_per_second: per_second(received_bytes, received_seconds).map(|rate| 8.0 * rate),
            packets_per_second: per_second(received, received_seconds),
            lost_packets: lost,
            loss_ratio: lost.filter(|_| packets > 0).map(|lost| lost as f64 / packets as f64),
            reordered_packets: udp.count("out_of_order")?,
            jitter_seconds: jitter.map(|ms| ms / 1000.0),
            ..Receiver::default()
        });
        Ok(())
    }

    /// The sum of what arrived in a direction. That of the server's sending has a name of its own where both send.
    fn received_sum(&self, sends: bool) -> Option<Node<'_>> {
        let of_server =
            self.end.get("sum_received_bidir_reverse").filter(|_| sends == self.is_server);
        of_server.or_else(|| self.end.get("sum_received"))
    }

    fn sender(&self, node: &Node<'_>) -> Result<Sender, ReadError> {
        let bytes = node.count("bytes")?.unwrap_or(0);
        let seconds = node.seconds("seconds")?.unwrap_or(0.0);
        Ok(Sender {
            bytes,
            seconds,
            start_seconds: Some(0.0),
            end_seconds: Some(seconds),
            bits_per_second: per_second(bytes, seconds).map(|rate| 8.0 * rate),
            ..Sender::default()
        })
    }

    fn receiver(&self, node: &Node<'_>) -> Result<Receiver, ReadError> {
        let bytes = node.count("bytes")?.unwrap_or(0);
        // `end` is the receiver's own time: `seconds` is the sender's.
        let seconds = node.seconds("end")?.or(node.seconds("seconds")?).unwrap_or(0.0);
        Ok(Receiver {
            bytes,
            seconds,
            start_seconds: Some(0.0),
            end_seconds: Some(seconds),
            bits_per_second: per_second(bytes, seconds).map(|rate| 8.0 * rate),
            ..Receiver::default()
        })
    }

    /// TCP information; absent where the sender's system has none.
    fn tcp(&self, node: &Node<'_>) -> Result<Option<Tcp>, ReadError> {
        let Some(retransmits) = node.count("retransmits")? else { return Ok(None) };
        let seconds = |name| Ok::<_, ReadError>(node.count(name)?.filter(|us| *us > 0));
        let time = |us: Option<u64>| us.map(|us| us as f64 / 1e6);
        let mss = self.start.count("tcp_mss")?.filter(|mss| *mss > 0);
        let mss = mss.or(self.start.count("tcp_mss_default")?).unwrap_or(0);
        Ok(Some(Tcp {
            retransmits,
            mss_bytes: u32::try_from(mss).unwrap_or(0),
            rtt_seconds: time(seconds("mean_rtt")?),
            min_rtt_seconds: time(seconds("min_rtt")?),
            max_rtt_seconds: time(seconds("max_rtt")?),
            max_cwnd_bytes: seconds("max_snd_cwnd")?,
            congestion_control: self
                .end
                .text("sender_tcp_congestion")?
                .map(|name| shortened(name, 40))
                .unwrap_or_default(),
            ..Tcp::default()
        }))
    }

    /// The addresses of a stream.
    fn address(&self, socket: u64, flow: &mut Flow) -> Result<(), ReadError> {
        for node in self.start.items("connected")? {
            if node.count("socket")? != Some(socket) {
                continue;
            }
            let end = |host: &str, port: &str| -> Result<String, ReadError> {
                let host = shortened(node.text(host)?.unwrap_or_default(), 255);
                let port = node.count(port)?.unwrap_or(0);
                Ok(if host.contains(':') {
                    format!("[{host}]:{port}")
                } else {
                    format!("{host}:{port}")
                })
            };
            let local = end("local_host", "local_port")?;
            let remote = end("remote_host", "remote_port")?;
            (flow.source, flow.destination) = match flow.direction {
                Direction::Forward => (local, remote),
                Direction::Reverse => (remote, local),
            };
            return Ok(());
        }
        Ok(())
    }
}
