//! Packet sockets that carry the datagrams of a flow in Ethernet frames, without IP. Linux alone has them, and they need
//! CAP_NET_RAW.
//!
//! A frame starts with a header of [`HEADER_BYTES`]: the first [`FLOW_BYTES`] identify the flow, from Ethernet's addresses
//! on; the last two are the length of the payload, big-endian. What is in between is the caller's. The kernel hands a
//! socket the frames of its own flow alone, and of these only the ones that are as long as they state.

pub use crate::sys::ethernet::{EthernetSocket, try_ethernet};

/// Bytes in front of the payload.
pub const HEADER_BYTES: usize = 22;
/// Bytes that identify the flow.
pub const FLOW_BYTES: usize = HEADER_BYTES - 2;

/// The frames that a socket receives: those that have `bytes` where `mask` has bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameMatch {
    /// The first bytes of a frame.
    pub bytes: [u8; FLOW_BYTES],
    /// Which bits of them count.
    pub mask: [u8; FLOW_BYTES],
}

impl FrameMatch {
    /// Frames that start with all of these bytes.
    #[must_use]
    pub fn exactly(bytes: [u8; FLOW_BYTES]) -> FrameMatch {
        FrameMatch { bytes, mask: [0xff; FLOW_BYTES] }
    }
}

/// Options of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthernetOptions {
    /// Index of the interface.
    pub interface: u32,
    /// Its name, for errors.
    pub name: String,
    /// EtherType of the frames.
    pub ethertype: u16,
    /// The frames to receive.
    pub receive: FrameMatch,
    /// The first bytes of sent frames. `None`: the peer is not known yet ([`EthernetSocket::set_peer`]).
    pub send: Option<[u8; FLOW_BYTES]>,
    /// Requested bytes of send buffer, beyond `wmem_max` if the process may.
    pub send_buffer: Option<usize>,
    /// Requested bytes of receive buffer, beyond `rmem_max` if the process may.
    pub receive_buffer: Option<usize>,
    /// Priority of sent frames in the queueing discipline (`SO_PRIORITY`), 0–15; above 6 with `CAP_NET_ADMIN`.
    pub priority: Option<u8>,
    /// Requests the kernel's receive stamps (`SO_TIMESTAMPING`).
    pub timestamps: bool,
}
