//! The intervals of a file of iperf3.

use weir_model::plan::{Direction, TransportName};
use weir_model::record::{Flow, Interval, IntervalCount, IntervalFlow};

use crate::ReadError;
use crate::json::Node;
use crate::reading::per_second;
use crate::rows::{MAX_ROWS, row};

/// The rows: this end's figures of each stream. After an omitted start, iperf3 counts time from 0 again.
pub(super) fn rows(
    root: &Node<'_>,
    sockets: &[u64],
    flows: &[Flow],
    transport: TransportName,
) -> Result<Vec<Interval>, ReadError> {
    let nodes = root.items("intervals")?;
    if nodes.len() > MAX_ROWS {
        return Err(ReadError::at_field("intervals", "length", format!("at most {MAX_ROWS}")));
    }
    let mut omitted_until = 0.0f64;
    let mut out = vec![];
    for node in nodes {
        let Some(sum) = node.get("sum").or_else(|| node.items("streams").ok()?.into_iter().next())
        else {
            continue;
        };
        let omitted = sum.flag("omitted")?.unwrap_or(false);
        let shift = if omitted { 0.0 } else { omitted_until };
        // The first start after an omitted part may be some microseconds below 0.
        let time = |name| Ok::<_, ReadError>(sum.number(name)?.unwrap_or(0.0).clamp(0.0, 3.2e8));
        let start = time("start")? + shift;
        let end = (time("end")? + shift).max(start);
        if omitted {
            omitted_until = omitted_until.max(end);
        }
        let mut counts = vec![];
        for stream in node.items("streams")? {
            let socket = stream.count("socket")?.unwrap_or(0);
            let Some(at) = sockets.iter().position(|known| *known == socket) else { continue };
            let count = count(&stream, transport, flows[at].direction)?;
            let mut of_flow = IntervalFlow { id: flows[at].id, ..IntervalFlow::default() };
            match flows[at].direction {
                Direction::Forward => of_flow.sender = Some(count),
                Direction::Reverse => of_flow.receiver = Some(count),
            }
            counts.push(of_flow);
        }
        out.push(row((start, end), omitted, counts, flows));
    }
    Ok(out)
}

/// One stream in a row.
fn count(
    stream: &Node<'_>,
    transport: TransportName,
    direction: Direction,
) -> Result<IntervalCount, ReadError> {
    let mut out = IntervalCount {
        bytes: stream.count("bytes")?.unwrap_or(0),
        bits_per_second: stream.number("bits_per_second")?,
        ..IntervalCount::default()
    };
    if !transport.datagrams() {
        let rtt = stream.count("rtt")?.filter(|us| *us > 0);
        out.retransmits = stream.count("retransmits")?;
        out.cwnd_bytes = stream.count("snd_cwnd")?.filter(|bytes| *bytes > 0);
        out.rtt_seconds = rtt.map(|us| us as f64 / 1e6);
        return Ok(out);
    }
    out.packets = stream.count("packets")?.unwrap_or(0);
    if direction == Direction::Reverse {
        // A negative number takes back losses of earlier rows: those packets were late.
        let lost = stream.number("lost_packets")?.unwrap_or(0.0);
        out.packets = (out.packets as f64 - lost).max(0.0) as u64;
        out.lost_packets = stream.count("lost_packets")?;
        let jitter = stream.number("jitter_ms")?.filter(|ms| *ms >= 0.0);
        out.jitter_seconds = jitter.map(|ms| ms / 1000.0);
    }
    let seconds = stream.seconds("seconds")?.unwrap_or(0.0);
    out.packets_per_second = per_second(out.packets, seconds);
    Ok(out)
}
