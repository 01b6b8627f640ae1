//! What every link offers, whatever it is made of: frames in, frames out, by batch.

use std::fmt;
#[cfg(unix)]
use std::os::fd::BorrowedFd;

use crate::error::Result;
use crate::slabs::{Handle, Slabs};

/// A frame that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Where its bytes are: a whole Ethernet frame without check sequence, VLAN tags in place, checksums complete.
    pub handle: Handle,
    /// Its length, bytes.
    pub len: u32,
    /// When it came in, ns of the monotonic clock (of a capture: ns since 1970-01-01 UTC). Taken by the kernel, or when
    /// the batch was read: [`Description::stamps`] tells. Never later than the moment of reading.
    pub ingress_ns: u64,
}

/// What came in, since the link was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveStatistics {
    /// Frames handed on (segments of a super-packet each count).
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames the kernel dropped since the ring was full: unplanned.
    pub kernel_drops: u64,
    /// Frames the kernel dropped since they were longer than the link takes, super-packets mostly: unplanned. Only
    /// AF_XDP that copies tells them apart.
    pub oversized: u64,
    /// Frames dropped since the slabs' cap was reached: unplanned.
    pub slab_drops: u64,
    /// Frames dropped because they could not be read completely, or were super-packets that could not be segmented: unplanned.
    pub unusable: u64,
    /// Super-packets (frames coalesced by segmentation or receive offload) that were segmented.
    pub super_packets: u64,
    /// Frames they were segmented into, also in `frames`.
    pub segments: u64,
    /// Checksums that the sender had left to hardware and that were completed.
    pub checksums_completed: u64,
    /// VLAN tags that were put back.
    pub vlan_tags_restored: u64,
    /// Steps of the realtime clock that were noticed; stamps next to one are good to some ms only.
    pub clock_steps: u64,
}

impl ReceiveStatistics {
    /// All losses here that no law caused.
    #[must_use]
    pub fn unplanned_drops(&self) -> u64 {
        self.kernel_drops + self.oversized + self.slab_drops + self.unusable
    }
}

/// What went out, since the link was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmitStatistics {
    /// Frames the kernel took.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames refused for good (longer than the MTU allows, not a frame, interface down): unplanned.
    pub refused: u64,
    /// Frames that were taken and then dropped by the driver or the interface behind it: unplanned. Frames dropped
    /// further on are beyond what can be seen here.
    pub dropped: u64,
    /// Times a batch was cut short since there was no room: the caller tried again.
    pub times_full: u64,
}

impl TransmitStatistics {
    /// All losses here that no law caused.
    #[must_use]
    pub fn unplanned_drops(&self) -> u64 {
        self.refused + self.dropped
    }
}

/// The receiving half of a link. One thread owns it.
pub trait Receive: Send {
    /// Takes what has come in, `most` ring entries at most, into `slabs`, and appends it to `out`; returns how many
    /// entries it took. Fewer than `most`: no more was there. Never waits. A super-packet is one entry and may append
    /// many frames; one that is unusable, or for which there is no memory, appends none, and is counted.
    ///
    /// # Errors
    /// [`crate::Error::Gone`] once the interface was removed. An interface that is down is no error: nothing comes in.
    fn recv(&mut self, slabs: &mut Slabs, most: usize, out: &mut Vec<Received>) -> Result<usize>;

    /// Becomes readable when something has come in.
    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_>;

    /// What came in. Reads the kernel's drop counters: some system calls, not for every batch.
    ///
    /// # Errors
    /// The kernel's refusal to tell.
    fn statistics(&mut self) -> Result<ReceiveStatistics>;
}

/// The sending half of a link. One thread owns it.
pub trait Transmit: Send {
    /// Hands frames to the interface in order and returns how many, from the front, were dealt with; the frames stay
    /// in `slabs`, to be released by the caller (one frame may be sent twice). Fewer than given: there was no room;
    /// call again soon with the rest, without waiting for input. [`Transmit::refused`] names those that were dealt with
    /// by being refused for good.
    ///
    /// # Errors
    /// [`crate::Error::Gone`] once the interface was removed.
    fn send(&mut self, slabs: &Slabs, frames: &[Handle]) -> Result<usize>;

    /// Positions, in the frames given to the last [`Transmit::send`], of those that were refused for good.
    fn refused(&self) -> &[u32];

    /// Becomes writable when there is room. A device behind may still be full: wait a millisecond at most.
    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_>;

    /// Ends sending, before [`Transmit::statistics`] is read for the last time: what the interface has not taken by now
    /// will not be seen to leave, and counts as dropped.
    fn finish(&mut self) {}

    /// What went out.
    fn statistics(&self) -> TransmitStatistics;
}

/// What a link is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// A packet socket with a memory-mapped receive ring (TPACKET_V2).
    Packet,
    /// AF_XDP, the card reading and writing user memory by itself.
    XdpZeroCopy,
    /// AF_XDP behind an XDP program in the driver; the kernel copies.
    XdpNative,
    /// AF_XDP behind an XDP program in the network stack; the kernel copies.
    XdpGeneric,
    /// Frames in memory.
    Memory,
}

impl Mode {
    /// The mode's name as commands and records spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Packet => "tpacket-v2",
            Mode::XdpZeroCopy => "xdp-zero-copy",
            Mode::XdpNative => "xdp-native",
            Mode::XdpGeneric => "xdp-generic",
            Mode::Memory => "memory",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who wrote down when a frame came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampSource {
    /// The kernel, on receiving it.
    Kernel,
    /// This process, on reading the batch: late by the wake-up, some tens of µs.
    Reading,
    /// The caller that put it in.
    Given,
}

/// What was opened, for people and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The interface, or the name given.
    pub interface: String,
    /// What the link is made of.
    pub mode: Mode,
    /// Why that, when it was chosen among several.
    pub reason: Option<String>,
    /// Where ingress times come from.
    pub stamps: StampSource,
    /// Receive queues read.
    pub queues: u32,
    /// Frames each queue's receive ring holds: what a stall of this process may pile up without loss.
    pub ring_frames: u32,
    /// Longest frame that passes, bytes.
    pub max_frame_bytes: u32,
    /// What could not be had, one sentence each.
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

/// A link: two halves that may go to two threads, and what it is.
pub struct Link {
    /// Frames in.
    pub receiver: Box<dyn Receive>,
    /// Frames out.
    pub transmitter: Box<dyn Transmit>,
    /// What it is made of.
    pub description: Description,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("description", &self.description).finish_non_exhaustive()
    }
}
