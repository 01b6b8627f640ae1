//! Bytes to values and back: the data header, control datagrams, connection prefaces, frames,
//! the packet log, packet views and checksums.
//!
//! Nothing here reads a clock, opens a socket or starts a thread: bytes, keys and times are arguments.
//! Every parser treats outside bytes as hostile: it never panics and never allocates from an unchecked
//! length. The bodies in [`fuzz`] check that.
//!
//! The modules, in the order in which a test uses them:
//!
//! * [`preface`]: the first bytes of a TCP connection to the server's port;
//! * [`frame`]: length-prefixed messages on the control connection;
//! * [`datagram`]: fixed 64-byte UDP control datagrams (hello, feedback, clock probes);
//! * [`header`]: the header of measured datagrams, native or another tool's;
//! * [`hmac`]: the keyed checksum of headers that have one;
//! * [`ethernet`]: the header of frames that carry datagrams without IP;
//! * [`packets`]: the binary packet log `weir.packets/1`;
//! * [`udp_frame`]: whole frames with a datagram of UDP, for senders without a socket;
//! * [`too_big`] and [`fragment`]: the ICMP message about a packet that is longer than an MTU, and its fragments;
//! * [`packet`], [`checksum`] and [`remap`]: Ethernet, IP and transport views over a frame, Internet checksums, and
//!   other addresses in a frame.
//!
//! ```
//! use weir_model::plan::HeaderFormat;
//! use weir_wire::header::{Header, HeaderFields, TagKey};
//!
//! let key = TagKey::for_flow(&[7; 16], 1);
//! let header = Header::new(HeaderFormat::Native, 160);
//! let mut payload = [0u8; 160];
//! let fields = HeaderFields { sequence: 42, send_time_ns: 1_000, flow: 1, ..HeaderFields::default() };
//! header.encode(&key, &fields, &mut payload);
//! assert_eq!(header.decode(&key, &payload)?.sequence, 42);
//! # Ok::<(), weir_wire::header::DecodeError>(())
//! ```

pub mod bpf;
pub mod checksum;
pub mod control;
pub mod crc32;
pub mod datagram;
pub mod ditg_log;
pub mod echo;
pub mod ethernet;
pub mod fragment;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod header;
pub mod hmac;
pub mod packet;
pub mod packets;
pub mod preface;
pub mod remap;
mod sip;
pub mod too_big;
pub mod transfer;
pub mod udp_frame;
