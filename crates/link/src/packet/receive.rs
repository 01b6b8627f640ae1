//! Copies frames from the ring into slabs and completes them (tags, checksums).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use weir_net::clock::Clock;

use super::ring::Ring;
use crate::bpf::Attachment;
use crate::checksum::complete_at;
use crate::error::{Error, Result};
use crate::link::{Receive, ReceiveStatistics, Received};
use crate::segment::{Segmentation, VnetHeader};
use crate::slabs::Slabs;
use crate::stamps::StampMap;
use crate::sys::{self, Device};

const MACS: usize = 12;
const TAG: usize = 4;
/// The longest super-packet (`GSO_MAX_SIZE` of BIG TCP) with its headers.
const LONGEST_SUPER_PACKET: usize = (512 << 10) + 256;

pub(super) struct PacketReceiver {
    fd: OwnedFd,
    ring: Ring,
    device: Device,
    stamps: StampMap,
    statistics: ReceiveStatistics,
    /// Buffer for a frame longer than its slot in the ring.
    long: Vec<u8>,
    /// Keeps the frames from this host's own stack.
    _guard: Option<Attachment>,
}

/// A frame's metadata.
struct Facts {
    ingress_ns: u64,
    /// The stripped VLAN tag, as it was in the frame.
    tag: Option<[u8; TAG]>,
    vnet: VnetHeader,
}

impl PacketReceiver {
    pub(super) fn new(
        fd: OwnedFd,
        ring: Ring,
        device: Device,
        clock: Clock,
        guard: Option<Attachment>,
    ) -> Result<Self> {
        Ok(PacketReceiver {
            fd,
            ring,
            device,
            stamps: StampMap::new(clock)?,
            statistics: ReceiveStatistics::default(),
            long: Vec::new(),
            _guard: guard,
        })
    }

    /// Reads a frame that the ring has truncated; returns its length including the header.
    fn read_long(&mut self) -> Option<usize> {
        self.long.resize(VnetHeader::LEN + LONGEST_SUPER_PACKET, 0);
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: `long` is writable for its length, which is given.
        let n = unsafe {
            libc::recv(self.fd.as_raw_fd(), self.long.as_mut_ptr().cast(), self.long.len(), flags)
        };
        usize::try_from(n).ok().filter(|n| (VnetHeader::LEN..=self.long.len()).contains(n))
    }
}

impl Receive for PacketReceiver {
    fn recv(&mut self, slabs: &mut Slabs, most: usize, out: &mut Vec<Received>) -> Result<usize> {
        let mut started = false;
        let mut taken = 0;
        while taken < most {
            let Some(entry) = self.ring.peek() else {
                if started {
                    self.stamps.drained();
                } else if let Some(error) = sys::pending_error(&self.fd) {
                    // The interface is down. When it is up again, the kernel resumes the socket.
                    self.device.check(self.fd.as_fd())?;
                    if error != libc::ENETDOWN {
                        let source = io::Error::from_raw_os_error(error);
                        return Err(Error::system("receive on", self.device.name.clone(), source));
                    }
                }
                break;
            };
            if !started {
                started = true;
                self.stamps.begin();
            }
            taken += 1;
            let tag = entry.has(libc::TP_STATUS_VLAN_VALID).then(|| {
                let has_type = entry.has(libc::TP_STATUS_VLAN_TPID_VALID);
                let kind = if has_type { entry.vlan_tpid } else { 0x8100 }.to_be_bytes();
                let control = entry.vlan_tci.to_be_bytes();
                [kind[0], kind[1], control[0], control[1]]
            });
            let facts = Facts {
                ingress_ns: self.stamps.monotonic_of(entry.realtime_ns),
                tag,
                vnet: entry.vnet,
            };
            let whole = entry.data.len() == entry.len as usize;
            if whole && !facts.vnet.is_super_packet() {
                store(entry.data, &facts, slabs, &mut self.statistics, out);
            } else if whole {
                store_segments(entry.data, &facts, slabs, &mut self.statistics, out);
            } else if entry.has(libc::TP_STATUS_COPY) {
                match self.read_long() {
                    Some(len) => {
                        let frame = &self.long[VnetHeader::LEN..len];
                        // Read the header from the copy: a short slot may not have had room for it.
                        let head = self.long.first_chunk().map(VnetHeader::read);
                        let facts = Facts { vnet: head.unwrap_or(facts.vnet), ..facts };
                        if facts.vnet.is_super_packet() {
                            store_segments(frame, &facts, slabs, &mut self.statistics, out);
                        } else {
                            store(frame, &facts, slabs, &mut self.statistics, out);
                        }
                    }
                    None => self.statistics.unusable += 1,
                }
            } else {
                self.statistics.unusable += 1;
            }
            self.ring.release();
        }
        Ok(taken)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn statistics(&mut self) -> Result<ReceiveStatistics> {
        // Reading the counters resets them.
        let none = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let read = sys::get_option(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, none)
            .map_err(|e| Error::system("read drops of", self.device.name.clone(), e))?;
        self.statistics.kernel_drops += u64::from(read.tp_drops);
        self.statistics.clock_steps = self.stamps.steps();
        Ok(self.statistics)
    }
}

/// Stores a frame as on a cable: with its tag restored and its checksum completed.
#[inline]
fn store(
    frame: &[u8],
    facts: &Facts,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    let shift = if facts.tag.is_some() { TAG } else { 0 };
    if frame.len() < MACS {
        statistics.unusable += 1;
        return;
    }
    let Some((handle, to)) = slabs.allocate(frame.len() + shift) else {
        statistics.slab_drops += 1;
        return;
    };
    match facts.tag {
        None => to.copy_from_slice(frame),
        Some(tag) => {
            insert_tag(tag, frame, to);
            statistics.vlan_tags_restored += 1;
        }
    }
    if facts.vnet.flags & VnetHeader::NEEDS_CHECKSUM != 0 {
        let start = usize::from(facts.vnet.csum_start) + shift;
        if complete_at(to, start, facts.vnet.csum_offset.into()) {
            statistics.checksums_completed += 1;
        }
    }
    push(handle, to.len(), facts, statistics, out);
}

/// Stores the segments of a super-packet.
fn store_segments(
    frame: &[u8],
    facts: &Facts,
    slabs: &mut Slabs,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    let Some(segmentation) = Segmentation::plan(frame, &facts.vnet) else {
        statistics.unusable += 1;
        return;
    };
    statistics.super_packets += 1;
    let shift = if facts.tag.is_some() { TAG } else { 0 };
    for segment in 0..segmentation.segments() {
        let len = segmentation.len(segment);
        let Some((handle, to)) = slabs.allocate(len + shift) else {
            statistics.slab_drops += 1;
            continue;
        };
        segmentation.write(frame, segment, &mut to[shift..]);
        if let Some(tag) = facts.tag {
            to.copy_within(TAG..TAG + MACS, 0);
            to[MACS..MACS + TAG].copy_from_slice(&tag);
            statistics.vlan_tags_restored += 1;
        }
        statistics.segments += 1;
        push(handle, len + shift, facts, statistics, out);
    }
}

fn insert_tag(tag: [u8; TAG], frame: &[u8], to: &mut [u8]) {
    to[..MACS].copy_from_slice(&frame[..MACS]);
    to[MACS..MACS + TAG].copy_from_slice(&tag);
    to[MACS + TAG..].copy_from_slice(&frame[MACS..]);
}

#[inline]
fn push(
    handle: crate::slabs::Handle,
    len: usize,
    facts: &Facts,
    statistics: &mut ReceiveStatistics,
    out: &mut Vec<Received>,
) {
    statistics.frames += 1;
    out.push(Received { handle, len: len as u32, ingress_ns: facts.ingress_ns });
}
