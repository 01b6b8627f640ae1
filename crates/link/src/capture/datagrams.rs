//! The UDP datagrams of a capture.

use std::io::Read;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use weir_wire::packet::{Network, Packet, Transport};

use super::{CaptureReader, LINK_TYPE_ETHERNET, MAX_CAPTURED_BYTES};
use crate::error::{Error, Result};

/// Raw IP: `LINKTYPE_RAW`, and the number that some systems write instead.
const LINK_TYPES_RAW: [u16; 2] = [101, 12];
/// Raw IPv4 and IPv6.
const LINK_TYPES_IP: [u16; 2] = [228, 229];
/// Linux "cooked" captures of all interfaces, `LINKTYPE_LINUX_SLL` and `_SLL2`: EtherType, and length of the header.
const LINK_TYPE_COOKED: u16 = 113;
const LINK_TYPE_COOKED2: u16 = 276;
const ACCEPTED_LINKS: &str =
    "Ethernet (1), raw IP (101, 228, 229) and Linux cooked captures (113, 276)";

/// Which datagrams of a capture are wanted: those that match all that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatagramFilter {
    /// The source or the destination port is one of these.
    pub ports: Option<RangeInclusive<u16>>,
    /// The source or the destination address is this.
    pub address: Option<IpAddr>,
}

impl DatagramFilter {
    pub(super) fn is_set(&self) -> bool {
        *self != DatagramFilter::default()
    }

    pub(super) fn matches(&self, addresses: (IpAddr, IpAddr), ports: (u16, u16)) -> bool {
        let is_port =
            |range: &RangeInclusive<u16>| range.contains(&ports.0) || range.contains(&ports.1);
        let is_address = |address: IpAddr| address == addresses.0 || address == addresses.1;
        self.ports.as_ref().is_none_or(is_port) && self.address.is_none_or(is_address)
    }
}

/// What became of a capture's packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Packets of the capture.
    pub packets: u64,
    /// Wanted datagrams.
    pub datagrams: u64,
    /// Wanted datagrams that the capture truncated; what is missing is read as zeros.
    pub truncated: u64,
    /// Datagrams that the filter does not want.
    pub unmatched: u64,
    /// TCP segments.
    pub tcp: u64,
    /// Fragments of IP datagrams.
    pub fragments: u64,
    /// Packets that are not of IP, such as ARP.
    pub not_ip: u64,
    /// Packets of other protocols of IP.
    pub other_protocol: u64,
    /// Packets with an invalid header.
    pub invalid: u64,
}

/// A datagram of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedDatagram<'a> {
    /// Time of capture, ns since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Its payload as it was on the wire.
    pub payload: &'a [u8],
}

/// Reads the UDP datagrams of a capture one by one, and counts all other packets.
#[derive(Debug)]
pub struct DatagramReader<R> {
    reader: CaptureReader<R>,
    name: String,
    filter: DatagramFilter,
    counts: DatagramCounts,
    /// The packet, from its IP header on, in its original length.
    packet: Vec<u8>,
}

/// Where the payload of a wanted datagram is in its packet, or what else the packet is.
enum Found {
    Datagram(std::ops::Range<usize>),
    Other(fn(&mut DatagramCounts) -> &mut u64),
}

impl<R: Read> DatagramReader<R> {
    /// Reads the capture's header. `name` appears in error messages.
    ///
    /// # Errors
    /// As [`CaptureReader::new`].
    pub fn new(input: R, name: impl Into<String>, filter: DatagramFilter) -> Result<Self> {
        let name = name.into();
        let reader = CaptureReader::new(input, name.clone())?;
        Ok(Self { reader, name, filter, counts: DatagramCounts::default(), packet: Vec::new() })
    }

    /// What became of the packets so far.
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// The next wanted datagram; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Capture`] with the packet's number at the first invalid bytes, and for a link type that is not read.
    pub fn next_datagram(&mut self) -> Result<Option<CapturedDatagram<'_>>> {
        loop {
            let number = self.counts.packets + 1;
            let frame = match self.reader.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(None),
                Err(Error::Capture { capture, at, reason }) => {
                    let reason = format!("packet {number}: {reason}");
                    return Err(Error::Capture { capture, at, reason });
                }
                Err(other) => return Err(other),
            };
            let Some(header) = network_offset(frame.link_type, frame.data) else {
                let reason = format!(
                    "packet {number}: link type {} is not read, only {ACCEPTED_LINKS}",
                    frame.link_type
                );
                return Err(Error::Capture {
                    capture: self.name.clone(),
                    at: self.reader.at,
                    reason,
                });
            };
            self.counts.packets = number;
            // In its original length, so that a packet that the capture truncated has that of its headers.
            let len = (frame.original_len as usize).clamp(frame.data.len(), MAX_CAPTURED_BYTES);
            let (time_ns, captured) = (frame.time_ns, frame.data.len());
            self.packet.clear();
            self.packet.extend_from_slice(frame.data);
            self.packet.resize(len, 0);
            match found(&self.packet, header, &self.filter) {
                Found::Other(count) => *count(&mut self.counts) += 1,
                Found::Datagram(range) => {
                    self.counts.datagrams += 1;
                    self.counts.truncated += u64::from(range.end > captured);
                    return Ok(Some(CapturedDatagram { time_ns, payload: &self.packet[range] }));
                }
            }
        }
    }
}

/// How a link's frames lead to their packets.
#[derive(Clone, Copy)]
enum Start {
    Ethernet,
    /// The IP packet starts here.
    Ip(usize),
    /// Another protocol than IP.
    NotIp,
    /// The frame is too short.
    Invalid,
}

/// `None`: the link type is not read.
fn network_offset(link_type: u16, frame: &[u8]) -> Option<Start> {
    let cooked = |at: usize, len: usize| match frame.get(at..at + 2) {
        Some(&[0x08, 0x00] | &[0x86, 0xdd]) if frame.len() >= len => Start::Ip(len),
        Some(_) if frame.len() >= len => Start::NotIp,
        _ => Start::Invalid,
    };
    match link_type {
        LINK_TYPE_ETHERNET => Some(Start::Ethernet),
        LINK_TYPE_COOKED => Some(cooked(14, 16)),
        LINK_TYPE_COOKED2 => Some(cooked(0, 20)),
        raw if LINK_TYPES_RAW.contains(&raw) || LINK_TYPES_IP.contains(&raw) => Some(Start::Ip(0)),
        _ => None,
    }
}

fn found(bytes: &[u8], start: Start, filter: &DatagramFilter) -> Found {
    let packet = match start {
        Start::Ethernet => Packet::from_ethernet(bytes),
        Start::Ip(at) => Packet::from_ip(&bytes[at..]),
        Start::NotIp => return Found::Other(|counts| &mut counts.not_ip),
        Start::Invalid => return Found::Other(|counts| &mut counts.invalid),
    };
    let Ok(packet) = packet else { return Found::Other(|counts| &mut counts.invalid) };
    if matches!(packet.network, Network::Arp(_) | Network::Other(..)) {
        return Found::Other(|counts| &mut counts.not_ip);
    }
    if packet.fragment().is_some() {
        return Found::Other(|counts| &mut counts.fragments);
    }
    match (&packet.transport, packet.addresses(), packet.ports()) {
        (Transport::Tcp(_), ..) => Found::Other(|counts| &mut counts.tcp),
        (Transport::Udp(udp), Some(addresses), Some(ports)) => {
            if !filter.matches(addresses, ports) {
                return Found::Other(|counts| &mut counts.unmatched);
            }
            let payload = udp.payload();
            // A part of `bytes`, by its address.
            let from = (payload.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
            Found::Datagram(from..from + payload.len())
        }
        _ => Found::Other(|counts| &mut counts.other_protocol),
    }
}

/// Fuzz body: each packet is counted once, and no datagram is longer than a packet may be.
pub(crate) fn fuzz(data: &[u8]) {
    let Ok(mut reader) = DatagramReader::new(data, "fuzz", DatagramFilter::default()) else {
        return;
    };
    let mut datagrams = 0;
    while let Ok(Some(datagram)) = reader.next_datagram() {
        assert!(datagram.payload.len() <= MAX_CAPTURED_BYTES);
        datagrams += 1;
    }
    let c = reader.counts();
    assert_eq!(datagrams, c.datagrams);
    let others = c.unmatched + c.tcp + c.fragments + c.not_ip + c.other_protocol + c.invalid;
    assert_eq!(c.packets, c.datagrams + others);
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;
