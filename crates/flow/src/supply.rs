//! Data that a sender has read from a file: bytes in order, or recorded packets with their sizes and intervals.

/// Data to send in place of generated content. The sending flow repeats it until a limit of the plan.
#[derive(Clone, PartialEq)]
pub struct Supply {
    bytes: Vec<u8>,
    /// `None`: the bytes have no packets.
    packets: Option<Vec<RecordedPacket>>,
    /// Whether the packets' intervals are followed; otherwise the plan's are.
    is_timed: bool,
}

/// A packet of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecordedPacket {
    /// Of its payload.
    offset: u64,
    len: u32,
    /// Time to the next packet.
    gap_ns: u64,
}

impl std::fmt::Debug for Supply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supply")
            .field("bytes", &self.bytes.len())
            .field("packets", &self.packets())
            .field("is_timed", &self.is_timed)
            .finish()
    }
}

/// Mean, standard deviation and bounds of the sizes or intervals of a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

impl Summary {
    fn of(values: impl Iterator<Item = u64> + Clone) -> Option<Summary> {
        let mut count = 0_u64;
        let (mut min, mut max, mut sum) = (u64::MAX, 0, 0.0);
        for value in values.clone() {
            count += 1;
            (min, max) = (min.min(value), max.max(value));
            sum += value as f64;
        }
        let mean = (count > 0).then(|| sum / count as f64)?;
        let squares: f64 = values.map(|value| (value as f64 - mean).powi(2)).sum();
        let deviation = (squares / count as f64).sqrt();
        // Rounding must not move the mean out of the bounds.
        Some(Summary { min, max, mean: mean.clamp(min as f64, max as f64), deviation })
    }
}

impl Supply {
    /// The bytes of a file, in order; `None` if there are none.
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>) -> Option<Supply> {
        (!bytes.is_empty()).then_some(Supply { bytes, packets: None, is_timed: false })
    }

    /// Number of recorded packets; `None` without packets.
    #[must_use]
    pub fn packets(&self) -> Option<u64> {
        self.packets.as_ref().map(|packets| packets.len() as u64)
    }

    /// Length of its data, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The sizes of its packets, bytes.
    #[must_use]
    pub fn sizes(&self) -> Option<Summary> {
        Summary::of(self.packets.as_ref()?.iter().map(|packet| packet.len.into()))
    }

    /// The intervals of its packets, ns, that between two rounds included; `None` if they are not followed.
    #[must_use]
    pub fn gaps(&self) -> Option<Summary> {
        let packets = self.packets.as_ref().filter(|_| self.is_timed)?;
        Summary::of(packets.iter().map(|packet| packet.gap_ns))
    }

    #[inline]
    fn packet(&self, sequence: u64) -> Option<&RecordedPacket> {
        let packets = self.packets.as_ref()?;
        packets.get((sequence % packets.len() as u64) as usize)
    }

    /// The payload of recorded packet `sequence`; `None` without packets.
    #[inline]
    #[must_use]
    pub fn recorded(&self, sequence: u64) -> Option<&[u8]> {
        let packet = self.packet(sequence)?;
        let from = packet.offset as usize;
        self.bytes.get(from..from + packet.len as usize)
    }

    /// Bytes of packet `sequence`.
    #[inline]
    pub(crate) fn size(&self, sequence: u64) -> Option<usize> {
        self.packet(sequence).map(|packet| packet.len as usize)
    }

    /// Time from packet `sequence` to the next one, ns.
    #[inline]
    pub(crate) fn gap_ns(&self, sequence: u64) -> Option<u64> {
        self.packet(sequence).filter(|_| self.is_timed).map(|packet| packet.gap_ns)
    }

    /// Writes the payload of datagram `sequence` to `slot`, of which the first `header` bytes are the header's: the header
    /// replaces the first bytes of a recorded packet, and precedes those of a file.
    #[inline]
    pub(crate) fn fill(&self, sequence: u64, header: usize, slot: &mut [u8]) {
        if let Some(data) = self.recorded(sequence) {
            let len = data.len().min(slot.len());
            slot[..len].copy_from_slice(&data[..len]);
            return;
        }
        let Some(mut slot) = slot.get_mut(header..) else { return };
        let mut position = sequence.wrapping_mul(slot.len() as u64);
        while !slot.is_empty() {
            let part = self.at(position, slot.len());
            let (now, rest) = slot.split_at_mut(part.len());
            now.copy_from_slice(part);
            position = position.wrapping_add(part.len() as u64);
            slot = rest;
        }
    }

    /// 1 to `most` bytes at a position of the repeated data; none if `most` is 0.
    #[inline]
    #[must_use]
    pub fn at(&self, position: u64, most: usize) -> &[u8] {
        let from = (position % self.bytes.len() as u64) as usize;
        &self.bytes[from..from + most.min(self.bytes.len() - from)]
    }
}

/// Collects the packets of a recording.
#[derive(Debug, Default)]
pub struct Recording {
    bytes: Vec<u8>,
    packets: Vec<(RecordedPacket, u64)>,
    steps_back: u64,
}

impl Recording {
    /// Adds a packet with its time of capture, ns, and its payload, lengthened with zeros to `min` bytes.
    pub fn push(&mut self, time_ns: u64, payload: &[u8], min: usize) {
        let time_ns = match self.packets.last() {
            Some((_, before)) if *before > time_ns => {
                self.steps_back += 1;
                *before
            }
            _ => time_ns,
        };
        let offset = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.bytes.resize(offset + payload.len().max(min), 0);
        let len = (self.bytes.len() - offset) as u32;
        self.packets.push((RecordedPacket { offset: offset as u64, len, gap_ns: 0 }, time_ns));
    }

    /// Number of packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets.len() as u64
    }

    /// Payload bytes so far, those added to short packets included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Packets with a time before the one in front of them; they take its time.
    #[must_use]
    pub fn steps_back(&self) -> u64 {
        self.steps_back
    }

    /// Time from the first packet to the last, ns.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        match (self.packets.first(), self.packets.last()) {
            (Some((_, first)), Some((_, last))) => last - first,
            _ => 0,
        }
    }

    /// The recording at `speed` times its own; `None`: at the plan's rate. The next round follows the last packet after a
    /// mean interval. `None` if it is empty.
    #[must_use]
    pub fn at_speed(self, speed: Option<f64>) -> Option<Supply> {
        let duration_ns = self.duration_ns();
        let times: Vec<u64> = self.packets.iter().map(|(_, time)| *time).collect();
        let mut packets: Vec<RecordedPacket> = self.packets.into_iter().map(|p| p.0).collect();
        let count = packets.len() as u64;
        // A single packet, or packets of one moment, have no intervals to follow.
        let speed = speed.filter(|speed| duration_ns > 0 && *speed > 0.0);
        if let Some(speed) = speed {
            let first = *times.first()?;
            // From the start, so that roundings do not add up.
            let scaled = |time: u64| ((time - first) as f64 / speed).round() as u64;
            for (packet, pair) in packets.iter_mut().zip(times.windows(2)) {
                packet.gap_ns = scaled(pair[1]) - scaled(pair[0]);
            }
            packets.last_mut()?.gap_ns = (duration_ns as f64 / speed / (count - 1) as f64) as u64;
        }
        (count > 0).then_some(Supply {
            bytes: self.bytes,
            packets: Some(packets),
            is_timed: speed.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(packets: &[(u64, &[u8])], min: usize) -> Recording {
        let mut recording = Recording::default();
        packets.iter().for_each(|(time, payload)| recording.push(*time, payload, min));
        recording
    }

    #[test]
    fn packets_keep_their_sizes_and_intervals() {
        let recording = recorded(&[(1000, b"a"), (1400, b"bcd"), (3000, b"ef")], 2);
        assert_eq!((recording.packets(), recording.bytes()), (3, 7));
        let supply = recording.at_speed(Some(2.0)).unwrap();
        let sizes: Vec<_> = (0..4).map(|n| supply.size(n).unwrap()).collect();
        assert_eq!(sizes, [2, 3, 2, 2]);
        let gaps: Vec<_> = (0..4).map(|n| supply.gap_ns(n).unwrap()).collect();
        assert_eq!(gaps, [200, 800, 500, 200], "half of each, then the mean");
        let mut slot = [9; 4];
        supply.fill(4, 0, &mut slot);
        assert_eq!(&slot, b"bcd\x09");
        supply.fill(0, 0, &mut slot);
        assert_eq!(&slot[..2], b"a\0", "lengthened to the minimum");
    }

    #[test]
    fn times_that_step_back_become_that_of_the_packet_before() {
        let recording = recorded(&[(5000, b"a"), (4000, b"b"), (6000, b"c")], 0);
        assert_eq!((recording.steps_back(), recording.duration_ns()), (1, 1000));
        let supply = recording.at_speed(Some(1.0)).unwrap();
        assert_eq!((supply.gap_ns(0), supply.gap_ns(1)), (Some(0), Some(1000)));
    }

    #[test]
    fn without_intervals_those_of_the_plan_apply() {
        assert_eq!(recorded(&[(1, b"a"), (2, b"b")], 0).at_speed(None).unwrap().gap_ns(0), None);
        let at_once = recorded(&[(7, b"a"), (7, b"b")], 0).at_speed(Some(1.0)).unwrap();
        assert_eq!((at_once.gap_ns(0), at_once.gaps()), (None, None));
        assert_eq!(Recording::default().at_speed(None), None);
    }

    #[test]
    fn a_file_follows_the_headers_and_repeats() {
        let supply = Supply::of_bytes(b"abcde".to_vec()).unwrap();
        let mut slot = [0; 5];
        supply.fill(1, 2, &mut slot);
        assert_eq!(&slot, b"\0\0dea");
        assert_eq!(supply.at(8, 10), b"de");
        assert_eq!(Supply::of_bytes(vec![]), None);
    }
}
