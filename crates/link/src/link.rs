//! The interface of all links: receiving and sending frames by batch.

use std::fmt;
#[cfg(unix)]
use std::os::fd::BorrowedFd;

use crate::error::Result;
use crate::slabs::{Handle, Slabs};

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Handle of its bytes: a whole Ethernet frame without check sequence, with VLAN tags and complete
    /// checksums.
    pub handle: Handle,
    /// Its length, bytes.
    pub len: u32,
    /// Time of arrival, ns of the monotonic clock (of a capture: ns since 1970-01-01 UTC). Its source is
    /// [`Description::stamps`]. Never later than the time of reading.
    pub ingress_ns: u64,
}

/// Receive statistics since the link was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveStatistics {
    /// Frames received; each segment of a super-packet counts.
    pub frames: u64,
    /// Frames that the kernel dropped because the ring was full: unplanned.
    pub kernel_drops: u64,
    /// Frames that the kernel dropped because they were too long for the link, usually super-packets:
    /// unplanned. Only AF_XDP in copy mode distinguishes them from `kernel_drops`.
    pub oversized: u64,
    /// Frames dropped because the slabs' cap was reached: unplanned.
    pub slab_drops: u64,
    /// Frames dropped because they could not be read completely, or were super-packets that could not be segmented: unplanned.
    pub unusable: u64,
    /// Super-packets (frames coalesced by segmentation or receive offload).
    pub super_packets: u64,
    /// Frames of which they consisted, also in `frames`.
    pub segments: u64,
    /// Super-packets that were kept whole, also in `super_packets`.
    pub trains: u64,
    /// Checksums that the sender had left to hardware and that were completed.
    pub checksums_completed: u64,
    /// VLAN tags that were put back.
    pub vlan_tags_restored: u64,
    /// Detected steps of the realtime clock; stamps close to a step are accurate to some ms only.
    pub clock_steps: u64,
}

impl ReceiveStatistics {
    /// Number of frames dropped here, which no law caused.
    #[must_use]
    pub fn unplanned_drops(&self) -> u64 {
        self.kernel_drops + self.oversized + self.slab_drops + self.unusable
    }
}

/// Transmit statistics since the link was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmitStatistics {
    /// Frames that the kernel accepted; each segment of a super-packet counts.
    pub frames: u64,
    /// Super-packets among what the kernel accepted.
    pub super_packets: u64,
    /// Frames refused permanently (longer than the MTU allows, not a frame, interface down): unplanned.
    pub refused: u64,
    /// Frames that the kernel accepted and the driver or interface then dropped: unplanned. Later drops are
    /// not visible here.
    pub dropped: u64,
    /// Number of batches that were sent only partially because there was no room.
    pub times_full: u64,
}

impl TransmitStatistics {
    /// Number of frames dropped here, which no law caused.
    #[must_use]
    pub fn unplanned_drops(&self) -> u64 {
        self.refused + self.dropped
    }
}

/// The receiving half of a link. One thread owns it.
pub trait Receive: Send {
    /// Receives up to `most` ring entries into `slabs`, appends their frames to `out` and returns the
    /// number of entries. A number below `most` means that the ring was emptied. Never waits. A
    /// super-packet is one entry and may append many frames. An unusable frame, or one for which there is
    /// no memory, is counted and not appended.
    ///
    /// # Errors
    /// [`crate::Error::Gone`] once the interface was removed. An interface that is down is not an error:
    /// nothing arrives.
    fn recv(&mut self, slabs: &mut Slabs, most: usize, out: &mut Vec<Received>) -> Result<usize>;

    /// Keeps super-packets whole from now on, as far as [`Slabs::keep_trains`] permits: their segments are received as frames
    /// whose bytes are in the super-packet. Only for links that know such frames; the others ignore it.
    fn keep_trains(&mut self) {}

    /// A descriptor that becomes readable when frames have arrived.
    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_>;

    /// The statistics. Reads the kernel's drop counters with some system calls, so not for every batch.
    ///
    /// # Errors
    /// The kernel's counters can't be read.
    fn statistics(&mut self) -> Result<ReceiveStatistics>;
}

/// The sending half of a link. One thread owns it.
pub trait Transmit: Send {
    /// Sends frames in order and returns how many, from the first on, were processed. The frames stay in
    /// `slabs` until the caller releases them (a frame may be sent twice). If fewer than given were
    /// processed, there was no room: call again soon with the rest, without waiting for input.
    /// [`Transmit::refused`] returns those of the processed frames that were refused permanently.
    ///
    /// # Errors
    /// [`crate::Error::Gone`] once the interface was removed.
    fn send(&mut self, slabs: &Slabs, frames: &[Handle]) -> Result<usize>;

    /// Positions of permanently refused frames in the frames of the last [`Transmit::send`].
    fn refused(&self) -> &[u32];

    /// A descriptor that becomes writable when there is room. The device behind it may still be full: wait
    /// at most a millisecond.
    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_>;

    /// Ends sending, before [`Transmit::statistics`] is read for the last time. Frames that the interface
    /// has not accepted by now count as dropped.
    fn finish(&mut self) {}

    /// The statistics.
    fn statistics(&self) -> TransmitStatistics;
}

/// Implementation of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A packet socket with a memory-mapped receive ring (TPACKET_V2).
    Packet,
    /// AF_XDP; the card reads and writes user memory directly.
    XdpZeroCopy,
    /// AF_XDP with an XDP program in the driver; the kernel copies.
    XdpNative,
    /// AF_XDP with an XDP program in the network stack; the kernel copies.
    XdpGeneric,
    /// A TAP device, of which this process is the wire.
    Tap,
    /// Frames in memory.
    Memory,
}

impl Mode {
    /// The mode's name in commands and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Packet => "tpacket-v2",
            Mode::XdpZeroCopy => "xdp-zero-copy",
            Mode::XdpNative => "xdp-native",
            Mode::XdpGeneric => "xdp-generic",
            Mode::Tap => "tap",
            Mode::Memory => "memory",
        }
    }

    /// Whether its halves know super-packets that are kept whole ([`Receive::keep_trains`]).
    #[must_use]
    pub const fn knows_trains(self) -> bool {
        matches!(self, Mode::Packet | Mode::Tap | Mode::Memory)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Source of a frame's time of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampSource {
    /// The kernel, when it received the frame.
    Kernel,
    /// This process, when it read the batch: late by the wake-up latency, some tens of µs.
    Reading,
    /// The caller that inserted the frame.
    Given,
}

/// Description of an open link, for people and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The interface, or a memory link's name.
    pub interface: String,
    /// Its implementation.
    pub mode: Mode,
    /// Why it was chosen, if it was chosen among several.
    pub reason: Option<String>,
    /// Source of ingress times.
    pub stamps: StampSource,
    /// Receive queues read.
    pub queues: u32,
    /// Size of each queue's receive ring, frames: the number that may arrive without loss while this
    /// process is stalled.
    pub ring_frames: u32,
    /// Maximum length of a frame, bytes.
    pub max_frame_bytes: u32,
    /// Limitations, such as unavailable features, one sentence each.
    pub notes: Vec<String>,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.interface, self.mode)?;
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        for note in &self.notes {
            write!(f, "; {note}")?;
        }
        Ok(())
    }
}

/// A link: two halves, which may be used by different threads, and its description.
pub struct Link {
    /// The receiving half.
    pub receiver: Box<dyn Receive>,
    /// The sending half.
    pub transmitter: Box<dyn Transmit>,
    /// Its description.
    pub description: Description,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("description", &self.description).finish_non_exhaustive()
    }
}
