//! A link without an interface: a test inserts arriving frames and removes sent ones.

use std::collections::VecDeque;
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(unix)]
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};

use weir_net::thread::lock;

use crate::error::Result;
use crate::link::{
    Description, Link, Mode, Receive, ReceiveStatistics, Received, StampSource, Transmit,
    TransmitStatistics,
};
use crate::segment::VnetHeader;
use crate::slabs::{Handle, Slabs};
use crate::store::{Facts, store_any, store_whole};

/// A frame on its way in.
#[derive(Debug)]
struct Arriving {
    ingress_ns: u64,
    frame: Vec<u8>,
    /// Payload of each segment, if it is a super-packet, bytes.
    segment_bytes: Option<u16>,
}

#[derive(Debug, Default)]
struct Shared {
    inward: VecDeque<Arriving>,
    outward: VecDeque<Vec<u8>>,
    /// Maximum number of frames in `outward`.
    room: usize,
    kernel_drops: u64,
}

/// The outside of a [`link`], in place of a cable.
#[derive(Debug, Clone)]
pub struct Outside {
    shared: Arc<Mutex<Shared>>,
    #[cfg(unix)]
    bell: Arc<UnixDatagram>,
}

/// Makes a link called `name` whose sending side has room for `room` frames, and its outside.
///
/// # Errors
/// A socket pair can't be made.
pub fn link(name: &str, room: usize) -> Result<(Link, Outside)> {
    let shared = Arc::new(Mutex::new(Shared { room, ..Shared::default() }));
    #[cfg(unix)]
    let (ours, theirs) = {
        let failed =
            |source| crate::error::Error::system("make a pair of sockets for", name, source);
        let (ours, theirs) = UnixDatagram::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        theirs.set_nonblocking(true).map_err(failed)?;
        (Arc::new(ours), Arc::new(theirs))
    };
    let outside = Outside {
        shared: shared.clone(),
        #[cfg(unix)]
        bell: theirs,
    };
    let receiver = MemoryReceiver {
        shared: shared.clone(),
        statistics: ReceiveStatistics::default(),
        keeps_trains: false,
        #[cfg(unix)]
        bell: ours.clone(),
    };
    let transmitter = MemoryTransmitter {
        shared,
        statistics: TransmitStatistics::default(),
        #[cfg(unix)]
        bell: ours,
    };
    let description = Description {
        interface: name.to_owned(),
        mode: Mode::Memory,
        reason: None,
        stamps: StampSource::Given,
        queues: 1,
        ring_frames: u32::MAX,
        max_frame_bytes: Slabs::MAX_FRAME_BYTES as u32,
        notes: Vec::new(),
    };
    let link =
        Link { receiver: Box::new(receiver), transmitter: Box::new(transmitter), description };
    Ok((link, outside))
}

impl Outside {
    /// Lets a frame arrive at `ingress_ns`.
    pub fn put(&self, ingress_ns: u64, frame: &[u8]) {
        self.arrive(Arriving { ingress_ns, frame: frame.to_vec(), segment_bytes: None });
    }

    /// Lets a super-packet of TCP or UDP arrive, each of whose segments has this many bytes of payload, the last one the rest.
    pub fn put_super_packet(&self, ingress_ns: u64, frame: &[u8], segment_bytes: u16) {
        let segment_bytes = Some(segment_bytes);
        self.arrive(Arriving { ingress_ns, frame: frame.to_vec(), segment_bytes });
    }

    fn arrive(&self, arriving: Arriving) {
        let mut shared = lock(&self.shared);
        shared.inward.push_back(arriving);
        #[cfg(unix)]
        if shared.inward.len() == 1 {
            // If the socket is full, it is readable already.
            let _ = self.bell.send(&[0]);
        }
    }

    /// Acts as a kernel that dropped `frames` frames because the ring was full.
    pub fn drop_in_kernel(&self, frames: u64) {
        lock(&self.shared).kernel_drops += frames;
    }

    /// Removes and returns the oldest frame that was sent.
    #[must_use]
    pub fn take(&self) -> Option<Vec<u8>> {
        lock(&self.shared).outward.pop_front()
    }

    /// Sets the sending side's room, frames.
    pub fn set_room(&self, room: usize) {
        lock(&self.shared).room = room;
    }
}

struct MemoryReceiver {
    shared: Arc<Mutex<Shared>>,
    statistics: ReceiveStatistics,
    keeps_trains: bool,
    #[cfg(unix)]
    bell: Arc<UnixDatagram>,
}

impl Receive for MemoryReceiver {
    fn keep_trains(&mut self) {
        self.keeps_trains = true;
    }

    fn recv(&mut self, slabs: &mut Slabs, most: usize, out: &mut Vec<Received>) -> Result<usize> {
        let mut taken = 0;
        let shared = self.shared.clone();
        let mut shared = lock(&shared);
        for _ in 0..most {
            let Some(arriving) = shared.inward.pop_front() else { break };
            taken += 1;
            let Arriving { ingress_ns, frame, segment_bytes } = arriving;
            let vnet = segment_bytes.map(|bytes| VnetHeader::of_super_packet(&frame, bytes));
            let facts = Facts { ingress_ns, tag: None, vnet: vnet.unwrap_or_default() };
            let store = if self.keeps_trains { store_whole } else { store_any };
            store(&frame, &facts, slabs, &mut self.statistics, out);
        }
        #[cfg(unix)]
        if shared.inward.is_empty() {
            while self.bell.recv(&mut [0]).is_ok() {}
        }
        Ok(taken)
    }

    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn statistics(&mut self) -> Result<ReceiveStatistics> {
        self.statistics.kernel_drops = lock(&self.shared).kernel_drops;
        Ok(self.statistics)
    }
}

struct MemoryTransmitter {
    shared: Arc<Mutex<Shared>>,
    statistics: TransmitStatistics,
    #[cfg(unix)]
    bell: Arc<UnixDatagram>,
}

impl Transmit for MemoryTransmitter {
    fn send(&mut self, slabs: &Slabs, frames: &[Handle]) -> Result<usize> {
        let mut shared = lock(&self.shared);
        let taken = frames.len().min(shared.room.saturating_sub(shared.outward.len()));
        for &frame in &frames[..taken] {
            self.statistics.frames += 1;
            shared.outward.push_back(slabs.frame(frame, &mut Vec::new()).to_vec());
        }
        self.statistics.times_full += u64::from(taken < frames.len());
        Ok(taken)
    }

    fn refused(&self) -> &[u32] {
        &[]
    }

    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn statistics(&self) -> TransmitStatistics {
        self.statistics
    }
}
