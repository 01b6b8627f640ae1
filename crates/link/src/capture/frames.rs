//! The frames of a capture, to be sent as they are.

use std::io::Read;

use weir_wire::packet::Packet;

use super::{CaptureReader, DatagramFilter, LINK_TYPE_ETHERNET, MAX_CAPTURED_BYTES};
use crate::error::{Error, Result};

/// Header of Ethernet, bytes.
const MIN_FRAME_BYTES: usize = 14;

/// What became of a capture's frames so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames of the capture.
    pub frames: u64,
    /// Wanted frames.
    pub wanted: u64,
    /// Wanted frames that the capture truncated; what is missing is read as zeros.
    pub truncated: u64,
    /// Frames that the filter does not want.
    pub unmatched: u64,
    /// Frames longer than the limit.
    pub too_long: u64,
    /// Frames shorter than the header of Ethernet.
    pub invalid: u64,
}

/// A frame of a capture in its original length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeFrame<'a> {
    /// Time of capture, ns since 1970-01-01 UTC.
    pub time_ns: u64,
    /// From the destination address on, without check sequence.
    pub bytes: &'a [u8],
    /// Whether the capture has all of them; what it truncated is zero.
    pub is_whole: bool,
}

/// Reads the frames of a capture of Ethernet one by one.
#[derive(Debug)]
pub struct FrameReader<R> {
    reader: CaptureReader<R>,
    name: String,
    filter: DatagramFilter,
    most: usize,
    counts: FrameCounts,
    frame: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    /// Reads the capture's header. `name` appears in error messages; frames longer than `most` bytes, and a VLAN tag, are
    /// left out.
    ///
    /// # Errors
    /// As [`CaptureReader::new`].
    pub fn new(
        input: R,
        name: impl Into<String>,
        filter: DatagramFilter,
        most: usize,
    ) -> Result<Self> {
        let name = name.into();
        let reader = CaptureReader::new(input, name.clone())?;
        let most = most.min(MAX_CAPTURED_BYTES);
        Ok(Self { reader, name, filter, most, counts: FrameCounts::default(), frame: Vec::new() })
    }

    /// What became of the frames so far.
    pub fn counts(&self) -> FrameCounts {
        self.counts
    }

    /// The next wanted frame; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Capture`] with the frame's number at the first invalid bytes, and for another link type than Ethernet.
    pub fn next_frame(&mut self) -> Result<Option<WholeFrame<'_>>> {
        loop {
            let number = self.counts.frames + 1;
            let frame = match self.reader.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(None),
                Err(Error::Capture { capture, at, reason }) => {
                    let reason = format!("frame {number}: {reason}");
                    return Err(Error::Capture { capture, at, reason });
                }
                Err(other) => return Err(other),
            };
            if frame.link_type != LINK_TYPE_ETHERNET {
                let reason = format!(
                    "frame {number}: link type {} can't be sent as frames, only Ethernet (1)",
                    frame.link_type
                );
                return Err(Error::Capture {
                    capture: self.name.clone(),
                    at: self.reader.at,
                    reason,
                });
            }
            self.counts.frames = number;
            let captured = frame.data.len();
            let len = (frame.original_len as usize).max(captured);
            // A tag does not count towards the MTU.
            let tag = if frame.data.get(12..14) == Some(&[0x81, 0]) { 4 } else { 0 };
            if len > self.most + tag {
                self.counts.too_long += 1;
                continue;
            }
            if len < MIN_FRAME_BYTES {
                self.counts.invalid += 1;
                continue;
            }
            let time_ns = frame.time_ns;
            self.frame.clear();
            self.frame.extend_from_slice(frame.data);
            self.frame.resize(len, 0);
            if self.filter.is_set() && !is_wanted(&self.frame, &self.filter) {
                self.counts.unmatched += 1;
                continue;
            }
            self.counts.wanted += 1;
            self.counts.truncated += u64::from(len > captured);
            let is_whole = len == captured;
            return Ok(Some(WholeFrame { time_ns, bytes: &self.frame, is_whole }));
        }
    }
}

/// Whether a packet has the addresses and ports; one without ports has none of those that a filter wants.
fn is_wanted(frame: &[u8], filter: &DatagramFilter) -> bool {
    let Ok(packet) = Packet::from_ethernet(frame) else { return false };
    let Some(addresses) = packet.addresses() else { return false };
    match packet.ports() {
        Some(ports) => filter.matches(addresses, ports),
        None => filter.ports.is_none() && filter.matches(addresses, (0, 0)),
    }
}

/// Fuzz body: each frame is counted once, and none is longer than the limit.
pub(crate) fn fuzz(data: &[u8]) {
    const MOST: usize = 1514;
    let Ok(mut reader) = FrameReader::new(data, "fuzz", DatagramFilter::default(), MOST) else {
        return;
    };
    let mut wanted = 0;
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!((MIN_FRAME_BYTES..=MOST + 4).contains(&frame.bytes.len()));
        wanted += 1;
    }
    let c = reader.counts();
    assert_eq!(wanted, c.wanted);
    assert_eq!(c.frames, c.wanted + c.unmatched + c.too_long + c.invalid);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{CaptureFormat, CaptureWriter};

    /// Frames with their original lengths, 10 ns apart.
    fn capture(frames: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer =
            CaptureWriter::new(&mut bytes, "test", CaptureFormat::Pcap, &["x"]).unwrap();
        for (n, (len, frame)) in frames.iter().enumerate() {
            writer.write(0, 10 * n as u64, *len as u32, frame).unwrap();
        }
        drop(writer);
        bytes
    }

    fn udp(port: u16) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(port.to_be_bytes());
        frame.extend([0, 9, 0, 8, 0, 0]);
        frame
    }

    #[test]
    fn frames_are_read_in_their_original_length_and_the_rest_is_counted() {
        let (one, long) = (udp(5), [1; 1515]);
        let bytes = capture(&[
            (42, &one),
            (60, &one[..30]),
            (1515, &long),
            (13, &long[..13]),
            (1514, &long[..1514]),
        ]);
        let mut reader =
            FrameReader::new(&bytes[..], "x", DatagramFilter::default(), 1514).unwrap();
        let mut read = vec![];
        while let Some(frame) = reader.next_frame().unwrap() {
            read.push((frame.time_ns, frame.bytes.to_vec()));
        }
        let padded = [&one[..30], &[0; 30]].concat();
        assert_eq!(read, [(0, one), (10, padded), (40, long[..1514].to_vec())]);
        let counts = FrameCounts {
            frames: 5,
            wanted: 3,
            truncated: 1,
            too_long: 1,
            invalid: 1,
            ..FrameCounts::default()
        };
        assert_eq!(reader.counts(), counts);
    }

    #[test]
    fn a_filter_wants_packets_with_these_ports_only() {
        let mut arp = udp(5);
        arp[12..14].copy_from_slice(&[8, 6]);
        let bytes = capture(&[(42, &udp(5)), (42, &udp(6)), (42, &arp)]);
        let filter = DatagramFilter { ports: Some(6..=7), ..DatagramFilter::default() };
        let mut reader = FrameReader::new(&bytes[..], "x", filter, 1514).unwrap();
        assert_eq!(reader.next_frame().unwrap().map(|frame| frame.time_ns), Some(10));
        assert_eq!(reader.next_frame().unwrap(), None);
        assert_eq!(reader.counts().unmatched, 2);
    }

    #[test]
    fn another_link_type_is_refused_by_its_number() {
        let mut bytes = capture(&[(42, &udp(5))]);
        bytes[20..24].copy_from_slice(&101_u32.to_le_bytes());
        let mut reader =
            FrameReader::new(&bytes[..], "x", DatagramFilter::default(), 1514).unwrap();
        assert!(matches!(reader.next_frame(), Err(Error::Capture { .. })));
    }
}
