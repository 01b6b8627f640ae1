//! A change of content, applied by the owner of the bytes.

use weir_laws::{DrawPosition, Draws, Geometric, Philox, choose};
use weir_model::impairment::{Change, Checksum, MAX_CHANGES};
use weir_wire::checksum::update16;
use weir_wire::packet::{Ipv6, ethertype, protocol};

use crate::key::{FragmentPlace, Key};

/// A change of the ECN field of an IP packet (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EcnChange {
    /// Congestion Experienced.
    Mark,
    /// Not ECN-capable.
    Bleach,
}

/// A change of a frame, how to treat its checksums, and changes of its ECN field and its DSCP.
#[derive(Clone, Debug)]
pub struct Edit {
    pub(crate) ecn: Option<EcnChange>,
    pub(crate) dscp: Option<u8>,
    pub(crate) philox: Philox,
    pub(crate) position: DrawPosition,
    pub(crate) copy: u8,
    pub(crate) change: Option<Change>,
    pub(crate) checksum: Checksum,
    /// The range of bytes that may be changed.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// The checksums of a frame: their offsets and coverage, in bytes.
struct Sums {
    /// IPv4 header: its start and its end.
    header: Option<(usize, usize)>,
    /// Transport: start, end of coverage, offset of the checksum.
    transport: Option<(usize, usize, usize)>,
    /// Addresses in the pseudo header: start and end of each.
    pseudo: Option<[(usize, usize); 2]>,
    is_udp: bool,
}

impl Sums {
    fn of(frame: &[u8]) -> Self {
        let (key, layers) = Key::of_frame(frame);
        let (l3, l4, end) = (layers.l3 as usize, layers.l4 as usize, layers.end as usize);
        let v4 = key.is_ip() && key.ethertype == ethertype::IPV4;
        let header = v4.then_some((l3, l4));
        let mut is_udp = false;
        let number = key.protocol as u8;
        let checksum_at = match number {
            // Only the first fragment has the checksum.
            _ if !key.is_ip() || key.fragment == FragmentPlace::Later => None,
            protocol::TCP => Some(16),
            protocol::UDP | protocol::UDP_LITE => {
                is_udp = true;
                Some(6)
            }
            protocol::ICMP | protocol::ICMPV6 => Some(2),
            _ => None,
        };
        let transport = checksum_at.map(|at| l4 + at).filter(|at| at + 2 <= end).map(|at| {
            let mut covered = end;
            if number == protocol::UDP_LITE {
                // RFC 3828 §3.1: 0 covers the whole packet.
                let stated = usize::from(u16::from_be_bytes([frame[l4 + 4], frame[l4 + 5]]));
                if stated != 0 {
                    covered = end.min(l4 + stated);
                }
            }
            (l4, covered, at)
        });
        let pseudo = (key.is_ip() && number != protocol::ICMP).then(|| {
            if v4 {
                return [(l3 + 12, l3 + 16), (l3 + 16, l3 + 20)];
            }
            let to = l3 + Ipv6::new(&frame[l3..]).map_or(24, |ip| ip.final_destination_at());
            [(l3 + 8, l3 + 24), (to, to + 16)]
        });
        Self { header, transport, pseudo, is_udp }
    }
}

/// The 16-bit word that contains byte `at`, in a sum from `start` to `end`. An odd last byte is padded with
/// zero.
fn word(frame: &[u8], start: usize, end: usize, at: usize) -> u16 {
    let first = at - (at - start) % 2;
    let second = if first + 1 < end { frame[first + 1] } else { 0 };
    u16::from_be_bytes([frame[first], second])
}

fn update(frame: &mut [u8], at: usize, old: u16, new: u16, zero_is_none: bool) {
    let sum = u16::from_be_bytes([frame[at], frame[at + 1]]);
    if zero_is_none && sum == 0 {
        return;
    }
    let fresh = match update16(sum, old, new) {
        0 if zero_is_none => 0xffff,
        fresh => fresh,
    };
    frame[at..at + 2].copy_from_slice(&fresh.to_be_bytes());
}

/// Sets the bits of a mask in the traffic class of an IP packet, with the checksum of its IPv4 header, and returns whether one changed.
fn set_traffic_class(frame: &mut [u8], value: u8, mask: u8) -> bool {
    let (key, layers) = Key::of_frame(frame);
    let l3 = layers.l3 as usize;
    let before = key.dscp << 2 | key.ecn;
    let after = before & !mask | value & mask;
    if !key.is_ip() || before == after {
        return false;
    }
    if key.ethertype == ethertype::IPV4 {
        let old = word(frame, l3, l3 + 20, l3);
        frame[l3 + 1] = after;
        let new = word(frame, l3, l3 + 20, l3);
        update(frame, l3 + 10, old, new, false);
    } else {
        // The traffic class is in bits 4 to 11 of the header.
        frame[l3] = frame[l3] & 0xf0 | after >> 4;
        frame[l3 + 1] = frame[l3 + 1] & 0x0f | after << 4;
    }
    true
}

impl EcnChange {
    /// Changes the field, and returns whether it did.
    fn apply(self, frame: &mut [u8]) -> bool {
        let value = match self {
            EcnChange::Mark => 3,
            EcnChange::Bleach => 0,
        };
        set_traffic_class(frame, value, 3)
    }
}

impl Edit {
    /// Whether the checksums are updated, so that no receiver notices the change.
    #[must_use]
    pub fn repairs_checksums(&self) -> bool {
        self.checksum == Checksum::Repair || self.change.is_none()
    }

    /// Changes the frame, and returns whether the content law changed it; `true` for a mark or a DSCP alone. The same edit changes the same
    /// frame in the same way at any time.
    ///
    /// Nothing changes if the checksum is to be damaged and the frame has none, if everything to change
    /// with `repair` lies in the checksum itself, or if the new bytes are the old ones.
    ///
    /// `repair` updates the checksums of the IPv4 header and of TCP, UDP, UDP-Lite, ICMP and ICMPv6
    /// incrementally (RFC 1624), so that a wrong one stays wrong. A later fragment has no checksum to
    /// repair.
    #[must_use = "a frame that was not changed is not to be counted as changed"]
    pub fn apply(&self, frame: &mut [u8]) -> bool {
        if let Some(dscp) = self.dscp {
            set_traffic_class(frame, dscp << 2, 0xfc);
        }
        let is_new = self.ecn.is_some_and(|change| change.apply(frame));
        let Some(change) = &self.change else {
            return is_new || self.ecn != Some(EcnChange::Bleach);
        };
        let is_bleached = is_new && self.ecn == Some(EcnChange::Bleach);
        self.change_bytes(change, frame) || is_bleached
    }

    /// Makes the change, and returns whether any byte is another one.
    fn change_bytes(&self, change: &Change, frame: &mut [u8]) -> bool {
        let mut draws = self.position.draws_of_copy(&self.philox, self.copy);
        // The first draw decided that the packet is selected.
        draws.bits();
        let sums = Sums::of(frame);
        let (from, to) = (self.from as usize, (self.to as usize).min(frame.len()));
        let bytes = u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let bits = bytes.saturating_mul(8);
        let mut places = [0; MAX_CHANGES as usize];
        let count = |n: u32| n.min(MAX_CHANGES) as usize;
        let mut changed = false;
        match change {
            Change::Flip(n) if self.checksum == Checksum::Checksum => {
                return damage_checksum(frame, &sums, &mut draws, &mut places[..count(*n)]);
            }
            Change::Flip(n) => {
                for bit in choose(&mut draws, bits, &mut places[..count(*n)]) {
                    let at = from + (bit / 8) as usize;
                    changed |= self.flip(frame, at, 1 << (bit % 8), &sums);
                }
            }
            Change::Random(n) => {
                for at in choose(&mut draws, bytes, &mut places[..count(*n)]) {
                    // 1 to 255, so that the byte changes.
                    let mask = 1 + ((u128::from(draws.bits()) * 255) >> 64) as u8;
                    changed |= self.flip(frame, from + *at as usize, mask, &sums);
                }
            }
            Change::Swap(n) => {
                let pairs = bytes.saturating_sub(1);
                for at in choose(&mut draws, pairs, &mut places[..count(*n)]) {
                    let at = from + *at as usize;
                    let mask = frame[at] ^ frame[at + 1];
                    changed |= self.flip(frame, at, mask, &sums);
                    changed |= self.flip(frame, at + 1, mask, &sums);
                }
            }
            Change::Set(pattern) => {
                for (at, (value, mask)) in (from..to).zip(pattern.bytes()) {
                    changed |= self.flip(frame, at, (frame[at] ^ value) & mask, &sums);
                }
            }
            Change::BitErrors(ratio) => {
                let errors = Geometric::new(*ratio);
                let mut bit = errors.next(&mut draws);
                while bit < u64::from(bits) {
                    let at = from + (bit / 8) as usize;
                    changed |= self.flip(frame, at, 1 << (bit % 8), &sums);
                    bit = (bit + 1).saturating_add(errors.next(&mut draws));
                }
            }
        }
        changed
    }

    /// Changes the bits of a mask in a byte; `false` if there are none, or if the byte is in a checksum that is to be repaired.
    fn flip(&self, frame: &mut [u8], at: usize, mask: u8, sums: &Sums) -> bool {
        if mask == 0 {
            return false;
        }
        let repair = self.checksum == Checksum::Repair;
        let in_transport = sums.transport.filter(|(start, end, _)| (*start..*end).contains(&at));
        let in_header = sums.header.filter(|(start, end)| (*start..*end).contains(&at));
        if repair {
            // Repairing would undo a change of the checksum itself.
            let own = in_transport.is_some_and(|(_, _, sum)| at == sum || at == sum + 1)
                || in_header.is_some_and(|(start, _)| at == start + 10 || at == start + 11);
            if own {
                return false;
            }
        }
        let old_transport = in_transport.map(|(start, end, _)| word(frame, start, end, at));
        let old_header = in_header.map(|(start, end)| word(frame, start, end, at));
        let in_pseudo =
            sums.pseudo.into_iter().flatten().find(|(start, end)| (*start..*end).contains(&at));
        let old_pseudo = in_pseudo.map(|(start, end)| word(frame, start, end, at));
        frame[at] ^= mask;
        if !repair {
            return true;
        }
        if let (Some((start, end)), Some(old)) = (in_header, old_header) {
            let new = word(frame, start, end, at);
            update(frame, start + 10, old, new, false);
        }
        if let (Some((start, end, sum)), Some(old)) = (in_transport, old_transport) {
            let new = word(frame, start, end, at);
            update(frame, sum, old, new, sums.is_udp);
        }
        if let (Some((start, end)), Some(old), Some((_, _, sum))) =
            (in_pseudo, old_pseudo, sums.transport)
        {
            let new = word(frame, start, end, at);
            update(frame, sum, old, new, sums.is_udp);
        }
        true
    }
}

/// Flips bits of a frame's checksum, and returns whether it has one.
fn damage_checksum(frame: &mut [u8], sums: &Sums, draws: &mut Draws, flips: &mut [u32]) -> bool {
    let at = match (&sums.transport, &sums.header) {
        (Some((_, _, at)), _) => *at,
        (None, Some((start, _))) => start + 10,
        (None, None) => return false,
    };
    let before = [frame[at], frame[at + 1]];
    let count = flips.len().min(16);
    if count == 0 {
        return false;
    }
    for bit in choose(draws, 16, &mut flips[..count]) {
        frame[at + (bit / 8) as usize] ^= 1 << (bit % 8);
    }
    // A UDP checksum of 0 means "none", and 0 equals 0xffff in one's complement: receivers would
    // notice neither.
    let sum = u16::from_be_bytes([frame[at], frame[at + 1]]);
    if (sums.is_udp && sum == 0) || sum == !u16::from_be_bytes(before) {
        let before = u16::from_be_bytes(before);
        let other = if before == 1 { 3 } else { before ^ 1 };
        frame[at..at + 2].copy_from_slice(&other.to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests;
