//! A record in the form of iperf3's JSON (`iperf3 -J`, `--json-stream`), for programs that read that.
//!
//! Fields, names and units are those of iperf3 3.21. What a record does not have is absent, where iperf3 would have it. There is
//! no field for what iperf3 does not know: the record itself has it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weir_model::plan::Direction;

use weir_model::record::{Flow, Interval, IntervalCount, Receiver, Record, Sender};
use weir_model::units::RateLimit;

use super::{Form, NoIperf3Form, Role, addresses, received_seconds, socket};

/// An object of the fields that are present.
fn object(fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

fn some(value: impl Into<Value>) -> Option<Value> {
    Some(value.into())
}

/// The record as one object, as `iperf3 -J` prints it.
///
/// # Errors
/// [`NoIperf3Form`].
pub fn iperf3_json(record: &Record) -> Result<Value, NoIperf3Form> {
    let form = Form::of(record)?;
    let intervals: Vec<Value> = record.intervals.iter().map(|i| form.interval(i)).collect();
    let mut out = json!({ "start": form.start(), "intervals": intervals, "end": form.end() });
    if let Some(title) = &record.plan.title {
        out["title"] = title.clone().into();
    }
    Ok(out)
}

/// The record as one object a line, as `iperf3 --json-stream` prints it.
///
/// # Errors
/// [`NoIperf3Form`].
pub fn iperf3_json_lines(record: &Record) -> Result<String, NoIperf3Form> {
    let mut out = iperf3_start(record)?;
    for interval in &record.intervals {
        out += &iperf3_interval(record, interval)?;
    }
    Ok(out + &iperf3_end(record)?)
}

fn event(name: &str, data: Value) -> String {
    format!("{}\n", json!({ "event": name, "data": data }))
}

/// The first line of `--json-stream`; of the record, only what is known at the start is needed.
///
/// # Errors
/// [`NoIperf3Form`].
pub fn iperf3_start(record: &Record) -> Result<String, NoIperf3Form> {
    Ok(event("start", Form::of(record)?.start()))
}

/// The line of an interval; of the record, only what is known at the start is needed.
///
/// # Errors
/// [`NoIperf3Form`].
pub fn iperf3_interval(record: &Record, interval: &Interval) -> Result<String, NoIperf3Form> {
    Ok(event("interval", Form::of(record)?.interval(interval)))
}

/// The last line.
///
/// # Errors
/// [`NoIperf3Form`].
pub fn iperf3_end(record: &Record) -> Result<String, NoIperf3Form> {
    Ok(event("end", Form::of(record)?.end()))
}

impl<'a> Form<'a> {
    fn start(&self) -> Value {
        let record = self.record;
        let at = record.started_at.parse::<Timestamp>().ok();
        let host = record.local.as_ref().map(|host| format!("{} {}", host.host, host.kernel));
        let rate = self.connection.send_rate();
        let bits = match rate.limit {
            RateLimit::Unlimited => 0,
            RateLimit::Bits(bits) => bits.0,
            RateLimit::Packets(pps) => {
                let payload = record.flows.first().map_or(0, |flow| flow.payload_bytes);
                (pps * 8.0 * payload as f64) as u64
            }
        };
        let is_amount = self.connection.bytes.is_some() || self.connection.packets.is_some();
        let duration = if is_amount {
            0
        } else {
            self.connection.time_limit().map_or(0, |limit| limit.0.div_ceil(1_000_000_000))
        };
        let mss = record.flows.iter().find_map(|flow| Some(flow.tcp.as_ref()?.mss_bytes));
        object([
            ("connected", some(record.flows.iter().map(connected).collect::<Vec<_>>())),
            ("version", some(format!("weir {}", record.version))),
            ("system_info", some(host.unwrap_or_default())),
            (
                "timestamp",
                at.map(|at| {
                    json!({
                        "time": at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
                        "timesecs": at.as_second(),
                        "timemillisecs": at.as_millisecond(),
                    })
                }),
            ),
            (
                match self.role {
                    Role::Client => "connecting_to",
                    Role::Server => "accepted_connection",
                },
                self.far_end(),
            ),
            // Of the run: iperf3's names a session.
            ("cookie", some(record.id.as_str())),
            ("tcp_mss_default", mss.map(Value::from)),
            ("target_bitrate", some(bits)),
            (
                "fq_rate",
                some(
                    self.connection
                        .transport
                        .ip()
                        .and_then(|ip| ip.kernel_pacing)
                        .map_or(0, |r| r.0),
                ),
            ),
            ("sock_bufsize", some(self.connection.window.map_or(0, |window| window.0))),
            (
                "test_start",
                some(json!({
                    "protocol": if self.datagrams { "UDP" } else { "TCP" },
                    "num_streams": self.connection.count,
                    "blksize": record.flows.first().map_or(0, |flow| flow.payload_bytes),
                    "omit": record.plan.omit.0 / 1_000_000_000,
                    "duration": duration,
                    "bytes": self.connection.bytes.map_or(0, |bytes| bytes.0),
                    "blocks": self.connection.packets.unwrap_or(0),
                    "reverse": u8::from(self.is_reverse()),
                    "tos": self.connection.tos().unwrap_or(0),
                    "target_bitrate": bits,
                    "bidir": u8::from(self.is_bidirectional()),
                    "interval": record.plan.interval.seconds(),
                })),
            ),
        ])
    }

    /// Host and port of the far end: of the server, or of the client's first stream.
    fn far_end(&self) -> Option<Value> {
        let host = self.record.plan.host.as_ref()?;
        let port = match self.role {
            Role::Client => self.record.plan.server_port(),
            Role::Server => addresses(self.record.flows.first()?)[1].1,
        };
        Some(json!({ "host": host, "port": port }))
    }

    fn interval(&self, interval: &Interval) -> Value {
        let streams = interval.flows.iter().filter_map(|counts| {
            let flow = self.record.flows.iter().find(|flow| flow.id == counts.id)?;
            let sends = flow.direction == Direction::Forward;
            // The client's own figures, as iperf3's; the far end's where these are missing.
            let count = match sends {
                true => counts.sender.as_ref().or(counts.receiver.as_ref()),
                false => counts.receiver.as_ref().or(counts.sender.as_ref()),
            }?;
            let socket = ("socket", some(socket(flow.id)));
            Some(object([socket].into_iter().chain(self.counted(interval, count, sends))))
        });
        let sum = |direction: Direction| {
            let sends = direction == Direction::Forward;
            let ends = match sends {
                true => interval.total.forward.as_ref(),
                false => interval.total.reverse.as_ref(),
            }?;
            let (own, other) = match sends {
                true => (ends.sender.as_ref(), ends.receiver.as_ref()),
                false => (ends.receiver.as_ref(), ends.sender.as_ref()),
            };
            Some(object(self.counted(interval, own.or(other)?, sends)))
        };
        let first =
            if self.has(Direction::Forward) { Direction::Forward } else { Direction::Reverse };
        let both = self.is_bidirectional();
        object([
            ("streams", some(streams.collect::<Vec<_>>())),
            ("sum", sum(first)),
            ("sum_bidir_reverse", both.then(|| sum(Direction::Reverse)).flatten()),
        ])
    }

    /// The fields of a row.
    fn counted(
        &self,
        interval: &Interval,
        count: &IntervalCount,
        sends: bool,
    ) -> Vec<(&'static str, Option<Value>)> {
        let microseconds = |seconds: f64| (seconds * 1e6).round() as u64;
        let mut out = vec![
            ("start", some(interval.start_seconds)),
            ("end", some(interval.end_seconds)),
            ("seconds", some(interval.end_seconds - interval.start_seconds)),
            ("bytes", some(count.bytes)),
            ("bits_per_second", some(count.bits_per_second.unwrap_or(0.0))),
        ];
        if self.datagrams {
            let lost = count.lost_packets;
            let packets = count.packets + lost.unwrap_or(0);
            out.push(("packets", some(packets)));
            if !sends {
                out.extend([
                    ("jitter_ms", count.jitter_seconds.map(|s| (1000.0 * s).into())),
                    ("lost_packets", lost.map(Value::from)),
                    ("lost_percent", lost.map(|lost| percent(lost, packets).into())),
                ]);
            }
        } else if sends {
            out.extend([
                ("retransmits", count.retransmits.map(Value::from)),
                ("snd_cwnd", count.cwnd_bytes.map(Value::from)),
                ("rtt", count.rtt_seconds.map(|s| microseconds(s).into())),
            ]);
        }
        out.extend([("omitted", some(interval.omitted)), ("sender", some(sends))]);
        out
    }

    fn end(&self) -> Value {
        let record = self.record;
        let streams: Vec<Value> = record.flows.iter().map(|flow| self.stream(flow)).collect();
        let first =
            if self.has(Direction::Forward) { Direction::Forward } else { Direction::Reverse };
        let mut fields = vec![("streams", some(streams))];
        let (sent, received) = (self.sum_sent(first), self.sum_received(first));
        if self.datagrams {
            fields.push(("sum", received.clone().or(sent.clone())));
        }
        fields.extend([("sum_sent", sent), ("sum_received", received)]);
        if self.is_bidirectional() {
            let reverse = Direction::Reverse;
            let (sent, received) = (self.sum_sent(reverse), self.sum_received(reverse));
            fields.extend([
                ("sum_sent_bidir_reverse", sent),
                ("sum_received_bidir_reverse", received),
            ]);
        }
        let cpu = record.cpu.as_ref();
        let of = |end: Option<&weir_model::record::CpuEnd>| {
            // 0 where it was not measured, since iperf3's readers require a number.
            end.map_or([0.0; 3], |cpu| {
                let (user, system) = (cpu.process_user_ratio, cpu.process_system_ratio);
                [user + system, user, system].map(|ratio| 100.0 * ratio)
            })
        };
        let host = of(cpu.and_then(|cpu| cpu.local.as_ref()));
        let remote = of(cpu.and_then(|cpu| cpu.remote.as_ref()));
        fields.push((
            "cpu_utilization_percent",
            some(json!({
                "host_total": host[0],
                "host_user": host[1],
                "host_system": host[2],
                "remote_total": remote[0],
                "remote_user": remote[1],
                "remote_system": remote[2],
            })),
        ));
        let congestion = record.flows.iter().find_map(|flow| flow.tcp.as_ref());
        let congestion = congestion.map(|tcp| tcp.congestion_control.as_str());
        fields
            .push(("sender_tcp_congestion", congestion.filter(|c| !c.is_empty()).map(Value::from)));
        object(fields)
    }

    fn stream(&self, flow: &Flow) -> Value {
        let sends = flow.direction == Direction::Forward;
        if self.datagrams {
            let (sender, receiver) = (flow.sender.as_ref(), flow.receiver.as_ref());
            let seconds = sender.map(|s| s.seconds).or(receiver.map(|r| r.seconds)).unwrap_or(0.0);
            let bytes = sender.map(|s| s.bytes).or(receiver.map(|r| r.bytes)).unwrap_or(0);
            let sent = sender.map(|s| s.packets);
            let bits = sender.map(|s| s.bits_per_second).or(receiver.map(|r| r.bits_per_second));
            let own = [
                ("socket", some(socket(flow.id))),
                ("start", some(0)),
                ("end", some(seconds)),
                ("seconds", some(seconds)),
                ("bytes", some(bytes)),
                ("bits_per_second", bits.flatten().map(Value::from)),
            ];
            let more = datagrams(sent, receiver.into_iter(), sends);
            return json!({ "udp": object(own.into_iter().chain(more)) });
        }
        let sender = flow.sender.as_ref().map(|sender| {
            let tcp = flow.tcp.as_ref();
            let microseconds = |s: f64| Value::from((s * 1e6).round() as u64);
            object(
                span(socket(flow.id), sender.seconds, sender.bytes, sender.bits_per_second)
                    .into_iter()
                    .chain([
                        ("retransmits", tcp.map(|tcp| tcp.retransmits.into())),
                        ("max_snd_cwnd", tcp.and_then(|tcp| tcp.max_cwnd_bytes).map(Value::from)),
                        ("max_rtt", tcp.and_then(|tcp| tcp.max_rtt_seconds).map(microseconds)),
                        ("min_rtt", tcp.and_then(|tcp| tcp.min_rtt_seconds).map(microseconds)),
                        ("mean_rtt", tcp.and_then(|tcp| tcp.rtt_seconds).map(microseconds)),
                        ("sender", some(sends)),
                    ]),
            )
        });
        let receiver = flow.receiver.as_ref().map(|r| {
            let seconds = received_seconds(flow).unwrap_or(r.seconds);
            let bits = (seconds > 0.0).then(|| 8.0 * r.bytes as f64 / seconds);
            let own = span(socket(flow.id), seconds, r.bytes, bits);
            object(own.into_iter().chain([("sender", some(sends))]))
        });
        object([("sender", sender), ("receiver", receiver)])
    }

    fn flows(&self, direction: Direction) -> impl Iterator<Item = &'a Flow> + Clone + use<'a> {
        self.record.flows.iter().filter(move |flow| flow.direction == direction)
    }

    fn sum_sent(&self, direction: Direction) -> Option<Value> {
        let flows = self.flows(direction);
        let senders: Vec<&Sender> = flows.clone().filter_map(|flow| flow.sender.as_ref()).collect();
        let seconds = senders.iter().map(|s| s.seconds).max_by(f64::total_cmp)?;
        let bytes = senders.iter().map(|s| s.bytes).sum();
        let sends = direction == Direction::Forward;
        let own = total(seconds, bytes);
        if self.datagrams {
            let packets: u64 = senders.iter().map(|s| s.packets).sum();
            let more = [("packets", some(packets)), ("sender", some(true))];
            return Some(object(own.into_iter().chain(more)));
        }
        let mut retransmits =
            flows.filter_map(|flow| Some(flow.tcp.as_ref()?.retransmits)).peekable();
        let known = retransmits.peek().is_some();
        let retransmits = known.then(|| retransmits.sum::<u64>().into());
        Some(object(own.into_iter().chain([("retransmits", retransmits), ("sender", some(sends))])))
    }

    fn sum_received(&self, direction: Direction) -> Option<Value> {
        let flows = self.flows(direction);
        let receivers: Vec<&Receiver> =
            flows.clone().filter_map(|flow| flow.receiver.as_ref()).collect();
        let seconds = flows.clone().filter_map(received_seconds).max_by(f64::total_cmp)?;
        let own = total(seconds, receivers.iter().map(|r| r.bytes).sum());
        let sends = direction == Direction::Forward;
        if !self.datagrams {
            return Some(object(own.into_iter().chain([("sender", some(sends))])));
        }
        let sent: Option<u64> = flows.map(|flow| flow.sender.as_ref().map(|s| s.packets)).sum();
        let more = datagrams(sent, receivers.into_iter(), false);
        Some(object(own.into_iter().chain(more)))
    }
}

pub(super) fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * part as f64 / of as f64 }
}

fn span(
    id: u32,
    seconds: f64,
    bytes: u64,
    bits_per_second: Option<f64>,
) -> [(&'static str, Option<Value>); 6] {
    [
        ("socket", some(id)),
        ("start", some(0)),
        ("end", some(seconds)),
        ("seconds", some(seconds)),
        ("bytes", some(bytes)),
        ("bits_per_second", some(bits_per_second.unwrap_or(0.0))),
    ]
}

fn total(seconds: f64, bytes: u64) -> [(&'static str, Option<Value>); 5] {
    let rate = if seconds > 0.0 { 8.0 * bytes as f64 / seconds } else { 0.0 };
    [
        ("start", some(0)),
        ("end", some(seconds)),
        ("seconds", some(seconds)),
        ("bytes", some(bytes)),
        ("bits_per_second", some(rate)),
    ]
}

/// Losses and jitter of received datagrams; the jitter of several is their mean, as in iperf3.
fn datagrams<'a>(
    sent: Option<u64>,
    receivers: impl Iterator<Item = &'a Receiver> + Clone,
    sends: bool,
) -> [(&'static str, Option<Value>); 6] {
    let lost: Option<u64> = receivers.clone().map(|r| r.lost_packets).sum();
    let arrived: u64 = receivers.clone().map(|r| r.packets).sum();
    let packets = sent.unwrap_or(arrived + lost.unwrap_or(0));
    let jitters: Vec<f64> = receivers.clone().filter_map(|r| r.jitter_seconds).collect();
    let jitter = (!jitters.is_empty()).then(|| jitters.iter().sum::<f64>() / jitters.len() as f64);
    let reordered: Option<u64> = receivers.map(|r| r.reordered_packets).sum();
    [
        ("jitter_ms", jitter.map(|seconds| (1000.0 * seconds).into())),
        ("lost_packets", lost.map(Value::from)),
        ("packets", some(packets)),
        ("lost_percent", lost.map(|lost| percent(lost, packets).into())),
        ("out_of_order", reordered.map(Value::from)),
        ("sender", some(sends)),
    ]
}

/// The addresses of a flow, of this end first.
fn connected(flow: &Flow) -> Value {
    let [(local_host, local_port), (remote_host, remote_port)] = addresses(flow);
    json!({
        "socket": socket(flow.id),
        "local_host": local_host,
        "local_port": local_port,
        "remote_host": remote_host,
        "remote_port": remote_port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::{Connection, Plan};
    use weir_model::record::IntervalFlow;

    fn record(text: &str) -> Record {
        let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\nhost = \"h\"\n{text}")).unwrap();
        let flow = |(index, connection): (usize, &Connection)| Flow {
            id: index as u32 + 1,
            transport: connection.transport.name(),
            direction: connection.direction,
            source: "192.0.2.1:5000".into(),
            destination: "[2001:db8::1]:5201".into(),
            payload_bytes: 1000,
            sender: Some(Sender { bytes: 10_000, packets: 10, seconds: 2.0, ..Sender::default() }),
            receiver: Some(Receiver {
                bytes: 9000,
                packets: 9,
                seconds: 2.0,
                lost_packets: Some(1),
                jitter_seconds: Some(0.001),
                ..Receiver::default()
            }),
            ..Flow::default()
        };
        let count = |bytes| Some(IntervalCount { bytes, packets: 5, ..IntervalCount::default() });
        Record {
            id: "id".into(),
            started_at: "2026-11-21T20:30:09.125Z".into(),
            flows: plan.connections.iter().enumerate().map(flow).collect(),
            intervals: vec![Interval {
                end_seconds: 1.0,
                flows: vec![IntervalFlow { id: 1, sender: count(5000), receiver: count(4000) }],
                ..Interval::default()
            }],
            plan,
            ..Record::default()
        }
    }

    #[test]
    fn a_stream_has_the_fields_that_iperf3_has() {
        let json = iperf3_json(&record("[[connection]]\nduration = \"2s\"")).unwrap();
        assert_eq!(json["start"]["timestamp"]["time"], "Sat, 21 Nov 2026 20:30:09 GMT");
        assert_eq!(json["start"]["timestamp"]["timemillisecs"], 1_795_293_009_125_u64);
        let connected = &json["start"]["connected"][0];
        assert_eq!(
            (&connected["local_port"], &connected["remote_host"]),
            (&json!(5000), &json!("2001:db8::1"))
        );
        let test = &json["start"]["test_start"];
        assert_eq!(
            (&test["protocol"], &test["duration"], &test["reverse"]),
            (&json!("TCP"), &json!(2), &json!(0))
        );
        assert_eq!(json["intervals"][0]["streams"][0]["bytes"], 5000);
        assert_eq!(json["end"]["sum_sent"]["bits_per_second"], 40_000.0);
        assert_eq!(json["end"]["streams"][0]["receiver"]["bytes"], 9000);
        // Not measured: absent, except where readers require it.
        assert!(json["end"]["sum_sent"].get("retransmits").is_none());
        assert_eq!(json["end"]["cpu_utilization_percent"]["remote_total"], 0.0);
    }

    #[test]
    fn datagrams_have_their_losses() {
        let udp = "[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"\nrate = \"100pps\"\npackets = 10";
        let json = iperf3_json(&record(udp)).unwrap();
        let sum = &json["end"]["sum"];
        assert_eq!(
            (&sum["lost_packets"], &sum["packets"], &sum["lost_percent"]),
            (&json!(1), &json!(10), &json!(10.0))
        );
        assert_eq!(sum["jitter_ms"], 1.0);
        assert_eq!(json["start"]["test_start"]["reverse"], 1);
        assert_eq!(json["start"]["target_bitrate"], 800_000);
        assert_eq!(json["start"]["test_start"]["blocks"], 10);
        // This end receives: its figures.
        assert_eq!(json["intervals"][0]["streams"][0]["bytes"], 4000);
    }

    #[test]
    fn both_directions_have_sums() {
        let json = iperf3_json(&record("[[connection]]\n[[connection]]\ndirection = \"reverse\""))
            .unwrap();
        assert_eq!(json["start"]["test_start"]["bidir"], 1);
        assert_eq!(json["end"]["sum_sent_bidir_reverse"]["bytes"], 10_000);
        let lines = iperf3_json_lines(&record("[[connection]]")).unwrap();
        let events: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["start", "interval", "end"]);
    }

    #[test]
    fn what_iperf3_can_not_say_is_refused() {
        for text in [
            "[[connection]]\nshape = \"rr\"",
            "[[connection]]\n[[connection]]\ntransport = \"udp\"",
            "[[connection]]\ntransport = \"ethernet\"",
        ] {
            assert_eq!(iperf3_json(&record(text)), Err(NoIperf3Form::Flows), "{text}");
        }
        assert!(iperf3_json(&Record::default()).is_err());
    }
}
