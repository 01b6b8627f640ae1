//! The fraction of the nominal rate that the receivers got, counted at four levels.

use weir_model::plan::{Direction, Family};
use weir_model::record::{Flow, LinkUsage, Receiver, Record};
use weir_model::units::Seed;
use weir_stats::{LinkFamily, LinkShape, LinkTransport};

use super::totals::{Counted, representatives, union_seconds};
use crate::sizes::Sizes;

/// Use of a nominal rate by the receivers of the busier direction.
pub(super) fn link_usage(record: &Record, nominal: u64, source: String) -> Option<LinkUsage> {
    let interface = record.local.as_ref().and_then(|h| h.interfaces.first());
    let mtu = interface.and_then(|i| i.mtu_bytes).unwrap_or(1500);
    // A stream with several receivers crosses the link once.
    let shared = record.plan.shared_streams();
    let packets = |f: &Flow| f.receiver.as_ref().map(|r| r.packets);
    let rates = |direction| {
        let mut sums = [0.0; 4];
        let mut times = vec![];
        let flows = record.flows.iter().filter(|f| f.direction == direction);
        for (f, [_, receives]) in representatives(flows, &shared, |f| f.id, |_| None, packets) {
            let Some(r) = f.receiver.as_ref().filter(|_| receives) else { continue };
            times.push(Counted::receiver(r));
            for (sum, bits) in sums.iter_mut().zip(level_bits(f, r, mtu, record.seed)) {
                *sum += bits;
            }
        }
        let seconds = union_seconds(&times);
        sums.map(|bits| if seconds > 0.0 { bits / seconds } else { 0.0 })
    };
    let (forward, reverse) = (rates(Direction::Forward), rates(Direction::Reverse));
    let (direction, [payload, ip, ethernet, wire]) = if reverse[0] > forward[0] {
        (Direction::Reverse, reverse)
    } else {
        (Direction::Forward, forward)
    };
    (nominal > 0 && payload > 0.0).then(|| LinkUsage {
        nominal_bits_per_second: nominal,
        source,
        payload_ratio: payload / nominal as f64,
        ip_ratio: ip / nominal as f64,
        ethernet_ratio: ethernet / nominal as f64,
        wire_ratio: wire / nominal as f64,
        direction,
    })
}

/// Number of packets whose sizes represent those of a flow.
const SAMPLE: u64 = 4096;

/// Bits of a flow as received: payload, IP, Ethernet, wire.
fn level_bits(f: &Flow, r: &Receiver, mtu: u32, seed: Seed) -> [f64; 4] {
    let carrier = f.carried_by.unwrap_or(f.transport);
    let family = match f.family {
        _ if carrier.frames() => LinkFamily::NoIp,
        Some(Family::Ipv6) => LinkFamily::Ipv6,
        _ => LinkFamily::Ipv4,
    };
    let Some(headers) = carrier.headers() else { return [0.0; 4] };
    let tcp = f.tcp.as_ref();
    let (transport, packet) = if carrier.segments() {
        let has_timestamps = tcp.and_then(|t| t.timestamps).unwrap_or(true);
        let options = if has_timestamps { headers.timestamp_bytes } else { 0 };
        let segment = tcp.map_or(1448, |t| u64::from(t.mss_bytes)).max(1);
        (LinkTransport::segments(headers.bytes + options), segment)
    } else {
        (LinkTransport::datagrams(headers.bytes), f.payload_bytes)
    };
    let shape = LinkShape { mtu_bytes: mtu, ..LinkShape::new(transport, family) };
    if let Some(law) = f.payload_law.as_ref().filter(|_| !carrier.segments()) {
        // The payload is exact. Headers, padding and fragments are those of the flow's first packets, by the mean.
        let sizes = Sizes::new(law, seed, &f.name, f.direction);
        let count = r.packets.clamp(1, SAMPLE);
        let mut added = [0; 4];
        for one in (0..count).map(|n| shape.packet(sizes.at(n) as u64)) {
            for (sum, bytes) in added.iter_mut().zip([0, one.ip, one.ethernet, one.wire]) {
                *sum += bytes.saturating_sub(one.payload);
            }
        }
        let packets = r.packets as f64 / count as f64;
        return added.map(|bytes| 8.0 * (r.bytes as f64 + bytes as f64 * packets));
    }
    let one = shape.packet(packet);
    let packets = match carrier.segments() {
        true => r.bytes as f64 / packet as f64,
        false => r.packets as f64,
    };
    [one.payload, one.ip, one.ethernet, one.wire].map(|bytes| 8.0 * bytes as f64 * packets)
}
