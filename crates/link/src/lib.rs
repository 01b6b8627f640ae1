//! Packet links: input and output of the emulator's frames. Nothing here decides on a frame's disposition.
//!
//! [`Slabs`] store frames, which are identified by a [`Handle`]. A [`Link`] has two halves, [`Receive`] and
//! [`Transmit`], one thread each. It is a packet socket with a ring (TPACKET_V2), AF_XDP, the wire behind a TAP device, or
//! memory for tests ([`memory`]). Captures ([`capture`]) are read and written as streams of frames with times. libpcap compiles filter
//! expressions ([`pcap`]).
//!
//! A received frame is as on a cable: VLAN tags in place, checksums complete, no longer than the sender's
//! MTU. Every frame that a link drops is counted.
//!
//! ```
//! use weir_link::{Slabs, memory};
//!
//! # fn main() -> weir_link::Result<()> {
//! let mut slabs = Slabs::new(64 << 20);
//! let (mut a, cable_a) = memory::link("A", 1024)?;
//! let (mut b, cable_b) = memory::link("B", 1024)?;
//! cable_a.put(1_000, &[0xff; 60]);
//! let mut received = Vec::new();
//! a.receiver.recv(&mut slabs, 64, &mut received)?;
//! for frame in received {
//!     assert_eq!(b.transmitter.send(&slabs, &[frame.handle])?, 1);
//!     slabs.release(frame.handle);
//! }
//! assert_eq!(cable_b.take(), Some(vec![0xff; 60]));
//! # Ok(())
//! # }
//! ```

#[cfg(target_os = "linux")]
mod bpf;
pub mod capture;
mod checksum;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod link;
#[cfg(target_os = "linux")]
pub mod live;
#[cfg(target_os = "linux")]
pub mod local;
pub mod memory;
#[cfg(target_os = "linux")]
mod open;
mod options;
#[cfg(target_os = "linux")]
mod packet;
pub mod pcap;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "for super-packets of rings"))]
mod segment;
#[cfg(target_os = "linux")]
mod settings;
mod slabs;
#[cfg(target_os = "linux")]
mod stamps;
mod store;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod tap;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "for super-packets of rings"))]
mod train;
#[cfg(target_os = "linux")]
mod xdp;

pub use error::{Error, Result};
pub use link::{
    Description, Link, Mode, Receive, ReceiveStatistics, Received, StampSource, Transmit,
    TransmitStatistics,
};
#[cfg(target_os = "linux")]
pub use open::{open, open_several};
pub use options::{LinkChoice, LinkOptions};
#[cfg(target_os = "linux")]
pub use settings::{DisabledOffloads, UNWANTED, disable_offloads};
pub use slabs::{Handle, SlabUsage, Slabs};
#[cfg(target_os = "linux")]
pub use tap::open_tap;
