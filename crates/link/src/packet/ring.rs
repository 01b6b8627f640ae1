//! The receive ring of TPACKET_V2, shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::segment::VnetHeader;
use crate::sys::{self, Mapping};

/// Bytes before a frame in its slot: the kernel's header, the socket address, the virtio-net header.
const OVERHEAD_BYTES: u32 = (libc::TPACKET2_HDRLEN + 16 + VnetHeader::LEN + 16) as u32;
/// Size of a block, which is contiguous memory for the kernel.
const BLOCK_BYTES: u32 = 1 << 18;

/// The ring and the current slot.
///
/// Each slot starts with `struct tpacket2_hdr`, whose status word passes ownership: the kernel writes a
/// frame and sets `TP_STATUS_USER`; this process reads it and sets `TP_STATUS_KERNEL`. The kernel fills the
/// slots in order.
#[derive(Debug)]
pub(super) struct Ring {
    map: Mapping,
    frame_bytes: u32,
    per_block: u32,
    blocks: u32,
    block: u32,
    slot: u32,
}

/// A frame in the ring.
pub(super) struct Entry<'a> {
    pub(super) status: u32,
    /// Length of the received frame, which `data` may truncate.
    pub(super) len: u32,
    pub(super) realtime_ns: u64,
    pub(super) vlan_tci: u16,
    pub(super) vlan_tpid: u16,
    pub(super) vnet: VnetHeader,
    pub(super) data: &'a [u8],
}

impl Entry<'_> {
    pub(super) fn has(&self, status: u32) -> bool {
        self.status & status != 0
    }
}

impl Ring {
    /// A ring of at least `frames` slots for frames of up to `longest` bytes.
    pub(super) fn new(fd: &OwnedFd, frames: u32, longest: u32) -> io::Result<Self> {
        // An odd number of cache lines: slots at a stride of a power of two would compete for the same
        // cache sets.
        let frame_bytes = ((OVERHEAD_BYTES + longest).div_ceil(64) | 1) * 64;
        let per_block = BLOCK_BYTES / frame_bytes;
        let blocks = frames.clamp(64, 1 << 20).div_ceil(per_block);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES,
            tp_block_nr: blocks,
            tp_frame_size: frame_bytes,
            tp_frame_nr: blocks * per_block,
        };
        sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let map = Mapping::new(Some(fd.as_raw_fd()), BLOCK_BYTES as usize * blocks as usize, 0)?;
        Ok(Ring { map, frame_bytes, per_block, blocks, block: 0, slot: 0 })
    }

    pub(super) fn frames(&self) -> u32 {
        self.blocks * self.per_block
    }

    #[inline]
    fn offset(&self) -> usize {
        self.block as usize * BLOCK_BYTES as usize + self.slot as usize * self.frame_bytes as usize
    }

    #[inline]
    fn status(&self) -> &AtomicU32 {
        let header = self.map.at(self.offset(), self.frame_bytes as usize).cast::<u32>();
        // SAFETY: the status is the first word of the header; slots are aligned to 64 bytes in a
        // page-aligned mapping that lives as long as `self`. Kernel and process access the word only
        // atomically.
        unsafe { AtomicU32::from_ptr(header) }
    }

    /// The frame in the current slot, if the kernel has written one.
    #[inline]
    pub(super) fn peek(&self) -> Option<Entry<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let size = self.frame_bytes as usize;
        let base = self.map.at(self.offset(), size);
        // SAFETY: the slot belongs to this process while its status is USER (acquired above): the kernel
        // does not write to it until `release`, which needs `&mut self` and so ends the borrows made here.
        // It starts with a tpacket2_hdr, which is plain integers, and is aligned.
        let (header, slot) = unsafe {
            (
                *base.cast::<libc::tpacket2_hdr>(),
                std::slice::from_raw_parts(base.cast_const(), size),
            )
        };
        let at = usize::from(header.tp_mac);
        // The kernel keeps these within the slot. Otherwise the frame has no bytes and is counted as
        // unusable.
        let data =
            slot.get(at..).and_then(|rest| rest.get(..header.tp_snaplen as usize)).unwrap_or(&[]);
        let vnet = at
            .checked_sub(VnetHeader::LEN)
            .and_then(|start| slot.get(start..)?.first_chunk())
            .map_or_else(VnetHeader::default, VnetHeader::read);
        Some(Entry {
            status,
            len: header.tp_len,
            realtime_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            vlan_tci: header.tp_vlan_tci,
            vlan_tpid: header.tp_vlan_tpid,
            vnet,
            data,
        })
    }

    /// Returns the current slot to the kernel and moves to the next one.
    #[inline]
    pub(super) fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.slot += 1;
        if self.slot == self.per_block {
            self.slot = 0;
            self.block = (self.block + 1) % self.blocks;
        }
    }
}
