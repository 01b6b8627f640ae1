//! Packets longer than the MTU limit of their flow: dropped, reported to their sender, or fragmented.

use weir_model::impairment::TooLong;

use super::*;

/// Interval of ICMP messages in the long run, and how many may follow each other without one: Linux's limits for all hosts together
/// (`icmp_msgs_per_sec`, `icmp_msgs_burst`).
const MESSAGE_NS: u64 = 1_000_000;
const MESSAGES_AT_ONCE: u64 = 50;

/// Limits ICMP messages (RFC 1812, section 4.3.2.8; RFC 4443, section 2.4 f) by a token bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageLimit {
    full_at_ns: u64,
}

impl MessageLimit {
    /// Whether a message may be sent at `t`; counts it, if so.
    fn permits(&mut self, t: u64) -> bool {
        let full_at_ns = self.full_at_ns.max(t).saturating_add(MESSAGE_NS);
        let permits = full_at_ns - t <= MESSAGES_AT_ONCE * MESSAGE_NS;
        if permits {
            self.full_at_ns = full_at_ns;
        }
        permits
    }
}

impl Flow {
    /// What the flow's MTU limit does with a packet; no IP packet if it is short enough.
    pub(super) fn too_long(&self, meta: &Meta) -> TooLongPacket {
        let mtu = self.laws.mtu.as_ref().filter(|mtu| meta.ip_bytes > mtu.bytes);
        mtu.map_or(TooLongPacket::default(), |_| meta.too_long)
    }
}

impl Engine {
    /// Passes a packet that was too long when it arrived through the MTU limit of its flow at time `t`.
    pub(super) fn too_long(
        &mut self,
        mut packet: Packet,
        t: u64,
        dispositions: &mut Vec<Disposition>,
    ) {
        let too_long = std::mem::take(&mut packet.too_long);
        let flow = &mut self.flows[packet.flow as usize];
        let Some(mtu) = flow.laws.mtu.clone() else { return self.run(packet, t, dispositions) };
        if mtu.too_long == TooLong::Fragment
            && let Some((link, header)) = too_long.headers()
        {
            // A limit is 8 bytes or more above the longest header.
            let unit = (mtu.bytes.saturating_sub(header) & !7).max(8);
            let data = packet.length.saturating_sub(link + header);
            let fragments = data.div_ceil(unit);
            if (1..=Fragment::MAX).contains(&fragments) {
                flow.counters.added_fragments += u64::from(fragments) - 1;
                for number in 0..fragments {
                    let is_last = number + 1 == fragments;
                    let bytes = if is_last { data - number * unit } else { unit };
                    let length = link + header + bytes;
                    let (from, to) = (packet.from.min(length), packet.to.min(length));
                    let fragment = Fragment::new(number, is_last);
                    if !is_last {
                        dispositions.push(disposition(&packet, t, Verdict::Copied));
                    }
                    self.run(Packet { length, from, to, fragment, ..packet }, t, dispositions);
                }
                return;
            }
        }
        flow.counters.lost_packets += 1;
        flow.counters.too_long_packets += 1;
        let is_reported =
            mtu.too_long != TooLong::Drop && too_long.is_answered() && self.messages.permits(t);
        flow.counters.too_big_messages += u64::from(is_reported);
        dispositions.push(Disposition {
            edit: if is_reported { mtu.bytes } else { 0 },
            ..disposition(&packet, t, Verdict::Lost)
        });
    }
}
