//! What ITGDec of D-ITG 2.8 prints of a log: a block for each flow.
//!
//! The text names neither transport nor direction nor which end wrote the log. Flows are taken as UDP, D-ITG's default, from
//! the host that printed them. A log of the sender has no times of arrival, and ITGDec then prints 0 for all delays.

use weir_model::plan::{Connection, TransportName};
use weir_model::record::{Delay, DelayVariation, Flow, Receiver, Record, Sender};
use weir_model::warning::{Severity, Warning};

use crate::ReadError;
use crate::reading::{MAX_FLOWS, Reading, numbered, per_second};
use crate::text::{number, seconds, shortened, whole};

/// Whether a file looks like ITGDec's output.
pub(crate) fn recognises(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(64 << 10)]);
    head.contains("ITGDec version")
        || (head.contains("Flow number: ") && head.contains("Bytes received "))
}

/// The result of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Reading<'_>>, ReadError> {
    // The progress indicator in front may have any bytes.
    let text = String::from_utf8_lossy(bytes);
    let mut version = None;
    let mut blocks: Vec<Block> = vec![];
    let mut is_total = false;
    for (n, line) in text.lines().enumerate() {
        if let Some(at) = line.find("ITGDec version ") {
            let rest = line[at..].split_whitespace().nth(2).unwrap_or_default();
            version = Some(shortened(rest, 40));
        } else if line.starts_with("Flow number: ") {
            if blocks.len() == MAX_FLOWS {
                return Err(ReadError::at_line(n + 1, line, format!("at most {MAX_FLOWS} flows")));
            }
            is_total = false;
            blocks.push(Block::default());
        } else if line.contains("TOTAL RESULTS") {
            is_total = true;
        } else if let Some(block) = blocks.last_mut().filter(|_| !is_total) {
            block.line(line, n + 1)?;
        }
    }
    let mut record = Record::default();
    for block in blocks {
        record.flows.push(block.flow()?);
    }
    if record.flows.is_empty() {
        return Ok(vec![]);
    }
    numbered(&mut record.flows);
    let host = record.flows[0].destination.rsplit_once(':').map(|(host, _)| host.to_owned());
    record.plan.host = host.filter(|host| !host.is_empty());
    record.plan.latency = false;
    record.plan.connections = record.flows.iter().map(connection).collect();
    record.end_reason = "completed".into();
    record.warnings.push(Warning::new(
        "transport-unknown",
        Severity::Info,
        "ITGDec does not name the transport: the flows are listed as UDP, which is D-ITG's default",
    ));
    if record.flows.iter().all(|flow| flow.receiver.is_none()) {
        let text = "a log of the sender: what arrived, was lost and delayed is unknown";
        record.warnings.push(Warning::new("one-sided", Severity::Info, text));
    }
    Ok(vec![Reading { record, version, started_ms: None, text: bytes }])
}

fn connection(flow: &Flow) -> Connection {
    Connection {
        name: flow.name.clone(),
        transport: flow.transport.into(),
        ..Connection::default()
    }
}

/// The lines of a flow.
#[derive(Debug, Default)]
struct Block {
    from: String,
    to: String,
    seconds: Option<f64>,
    packets: Option<u64>,
    bytes: Option<u64>,
    lost: Option<u64>,
    /// Minimum, maximum and mean delay, the mean difference of consecutive delays, and the standard deviation of delays;
    /// negative where clocks differ.
    delays: [Option<f64>; 5],
}

impl Block {
    fn line(&mut self, line: &str, n: usize) -> Result<(), ReadError> {
        if let Some(address) = line.strip_prefix("From ") {
            self.from = shortened(address.trim(), 260);
        } else if let Some(address) = line.strip_prefix("To ") {
            self.to = shortened(address.trim(), 260);
        }
        let Some((name, value)) = line.split_once('=') else { return Ok(()) };
        let word = value.split_whitespace().next().unwrap_or_default();
        let fail = || ReadError::at_line(n, line, "a number behind `=`, as ITGDec prints it");
        let delay = || {
            let digits = word.strip_prefix('-').unwrap_or(word);
            let sign = if digits == word { 1.0 } else { -1.0 };
            number(digits)
                .map(|value| sign * value)
                .filter(|value| value.abs() < 1e6)
                .ok_or_else(fail)
        };
        match name.trim() {
            "Total time" => self.seconds = Some(seconds(word).ok_or_else(fail)?),
            "Total packets" => self.packets = Some(whole(word).ok_or_else(fail)?),
            "Bytes received" => self.bytes = Some(whole(word).ok_or_else(fail)?),
            "Packets dropped" => self.lost = Some(whole(word).ok_or_else(fail)?),
            "Minimum delay" => self.delays[0] = Some(delay()?),
            "Maximum delay" => self.delays[1] = Some(delay()?),
            "Average delay" => self.delays[2] = Some(delay()?),
            "Average jitter" => self.delays[3] = Some(delay()?),
            "Delay standard deviation" => self.delays[4] = Some(delay()?),
            _ => {}
        }
        Ok(())
    }

    fn flow(self) -> Result<Flow, ReadError> {
        let missing = |field: &str| ReadError::at_field(field, "nothing", "a line of each flow");
        let seconds = self.seconds.ok_or_else(|| missing("Total time"))?;
        let packets = self.packets.ok_or_else(|| missing("Total packets"))?;
        let bytes = self.bytes.ok_or_else(|| missing("Bytes received"))?;
        let mut flow = Flow {
            transport: TransportName::Udp,
            source: self.from,
            destination: self.to,
            // The mean: sizes may vary.
            payload_bytes: bytes.checked_div(packets).unwrap_or(0),
            ..Flow::default()
        };
        let rates = |amount: u64| per_second(amount, seconds);
        let is_senders = self.delays.iter().all(|delay| delay.is_none_or(|d| d == 0.0));
        if is_senders {
            flow.sender = Some(Sender {
                bytes,
                packets,
                seconds,
                start_seconds: Some(0.0),
                end_seconds: Some(seconds),
                bits_per_second: rates(bytes).map(|rate| 8.0 * rate),
                packets_per_second: rates(packets),
                ..Sender::default()
            });
            return Ok(flow);
        }
        let [min, max, mean, difference, standard_deviation] = self.delays;
        let one_way_delay = min.zip(max).zip(mean).map(|((min, max), mean)| Delay {
            count: packets,
            min_seconds: min,
            mean_seconds: mean,
            standard_deviation_seconds: standard_deviation,
            max_seconds: max,
            ..Delay::default()
        });
        let sent = self.lost.map(|lost| packets.saturating_add(lost)).filter(|sent| *sent > 0);
        flow.receiver = Some(Receiver {
            bytes,
            packets,
            seconds,
            start_seconds: Some(0.0),
            end_seconds: Some(seconds),
            bits_per_second: rates(bytes).map(|rate| 8.0 * rate),
            packets_per_second: rates(packets),
            lost_packets: self.lost,
            loss_ratio: self.lost.zip(sent).map(|(lost, sent)| lost as f64 / sent as f64),
            one_way_delay,
            delay_variation: difference.map(|mean| DelayVariation {
                ipdv_mean_seconds: Some(mean),
                ..DelayVariation::default()
            }),
            ..Receiver::default()
        });
        Ok(flow)
    }
}
