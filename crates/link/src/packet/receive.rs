//! Copies frames from the ring into slabs and completes them (tags, checksums).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use weir_net::clock::Clock;

use super::ring::Ring;
use crate::bpf::Attachment;
use crate::error::{Error, Result};
use crate::link::{Receive, ReceiveStatistics, Received};
use crate::segment::{Segmentation, VnetHeader};
use crate::slabs::Slabs;
use crate::stamps::StampMap;
use crate::store::{Facts, store_any, store_train};
use crate::sys::{self, Device};

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
    /// Whether super-packets are kept whole.
    keeps_trains: bool,
    /// Keeps the frames from this host's own stack.
    _guard: Option<Arc<Attachment>>,
}

impl PacketReceiver {
    pub(super) fn new(
        fd: OwnedFd,
        ring: Ring,
        device: Device,
        clock: Clock,
        guard: Option<Arc<Attachment>>,
    ) -> Result<Self> {
        Ok(PacketReceiver {
            fd,
            ring,
            device,
            stamps: StampMap::new(clock)?,
            statistics: ReceiveStatistics::default(),
            long: Vec::new(),
            keeps_trains: false,
            _guard: guard,
        })
    }

    /// Reads a frame that the ring has truncated into `to`; returns its header and length.
    fn read_long(fd: &OwnedFd, to: &mut [u8]) -> Option<(VnetHeader, usize)> {
        let mut head = [0; VnetHeader::LEN];
        let mut vectors = [
            libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() },
            libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() },
        ];
        // SAFETY: msghdr is integers and raw pointers, for which zero (null) is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = vectors.len() as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the two vectors are writable for their lengths and live through the call.
        let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) };
        let len = usize::try_from(n).ok()?.checked_sub(head.len())?;
        (len <= to.len()).then(|| (VnetHeader::read(&head), len))
    }

    /// Reads and stores a frame that the ring has truncated, of `len` bytes.
    fn store_long(
        &mut self,
        len: usize,
        mut facts: Facts,
        slabs: &mut Slabs,
        out: &mut Vec<Received>,
    ) {
        if self.keeps_trains
            && facts.tag.is_none()
            && slabs.trains().has_room(len)
            && let Some((slot, to)) = slabs.allocate(len)
        {
            let read = Self::read_long(&self.fd, to).filter(|(_, read)| *read == len);
            let segmentation = read.and_then(|(vnet, _)| {
                // The copy's header: a short slot may not have had room for it.
                facts.vnet = vnet;
                Segmentation::plan(to, &vnet).filter(|plan| plan.is_train(to))
            });
            let Some(segmentation) = segmentation else {
                self.long.clear();
                self.long.extend_from_slice(slabs.bytes(slot));
                slabs.release(slot);
                return match read {
                    Some(_) => store_any(&self.long, &facts, slabs, &mut self.statistics, out),
                    None => self.statistics.unusable += 1,
                };
            };
            let ingress_ns = facts.ingress_ns;
            return store_train(slot, segmentation, ingress_ns, slabs, &mut self.statistics, out);
        }
        self.long.resize(LONGEST_SUPER_PACKET, 0);
        match Self::read_long(&self.fd, &mut self.long) {
            Some((vnet, len)) => {
                facts.vnet = vnet;
                store_any(&self.long[..len], &facts, slabs, &mut self.statistics, out);
            }
            None => self.statistics.unusable += 1,
        }
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
            let len = entry.len as usize;
            if entry.data.len() == len {
                store_any(entry.data, &facts, slabs, &mut self.statistics, out);
            } else if entry.has(libc::TP_STATUS_COPY) {
                self.store_long(len, facts, slabs, out);
            } else {
                self.statistics.unusable += 1;
            }
            self.ring.release();
        }
        Ok(taken)
    }

    fn keep_trains(&mut self) {
        self.keeps_trains = true;
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
