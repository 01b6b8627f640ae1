//! Captures: classic pcap and pcapng, read and written as streams, times in nanoseconds.
//!
//! No crate is used: only headers and packets matter here, the bytes are hostile, and a stream of any
//! length must be read in bounded memory.

mod datagrams;
mod frames;
mod read;
mod write;

pub(crate) use datagrams::fuzz as fuzz_datagrams;
pub use datagrams::{CapturedDatagram, DatagramCounts, DatagramFilter, DatagramReader};
pub(crate) use frames::fuzz as fuzz_frames;
pub use frames::{FrameCounts, FrameReader, WholeFrame};
pub(crate) use read::fuzz;
pub use read::{CaptureReader, CapturedFrame};
pub use write::{CaptureInterface, CaptureWriter, FrameNotes};

/// Longest frame of a capture, bytes: the limit other tools set (`MAXIMUM_SNAPLEN`).
pub const MAX_CAPTURED_BYTES: usize = 262_144;

/// Link type of Ethernet (`LINKTYPE_ETHERNET`).
pub const LINK_TYPE_ETHERNET: u16 = 1;

/// A capture's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureFormat {
    /// Classic pcap: one kind of link, one interface.
    Pcap,
    /// pcapng: interfaces with names, comments, several sections.
    PcapNg,
}

/// Magic of classic pcap, times in µs.
const PCAP_MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Magic of classic pcap, times in ns.
const PCAP_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// pcapng's section header block: the same in either byte order.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Of any block.
const OPTION_COMMENT: u16 = 1;
/// Of an enhanced packet: its two lowest bits are 1 for a received frame, 2 for a sent one.
const OPTION_FLAGS: u16 = 2;
/// Of an interface, as the following.
const OPTION_NAME: u16 = 2;
const OPTION_DESCRIPTION: u16 = 3;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;

#[cfg(test)]
mod tests;
