//! The memory of AF_XDP frames (UMEM), with separate chunks for receiving and sending.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::{self, Mapping};

/// Chunks of one size, registered with the kernel through one socket.
///
/// The holder of a chunk's address may access it: a chunk that is in no ring and not with the kernel
/// belongs to the half that holds its address. The two halves never exchange addresses.
#[derive(Debug)]
pub(super) struct Umem {
    map: Mapping,
    chunk_bytes: u32,
}

impl Umem {
    pub(super) fn new(chunk_bytes: u32, chunks: u32) -> io::Result<Self> {
        let map = Mapping::new(None, chunk_bytes as usize * chunks as usize, 0)?;
        Ok(Umem { map, chunk_bytes })
    }

    pub(super) fn register(&self, fd: &OwnedFd) -> io::Result<()> {
        // Without the newer fields: older kernels refuse a longer structure.
        let request = libc::xdp_umem_reg_v1 {
            addr: self.map.at(0, 0).addr() as u64,
            len: self.map.len() as u64,
            chunk_size: self.chunk_bytes,
            headroom: 0,
        };
        let _ = fd.as_raw_fd();
        sys::set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
    }

    /// Address of the chunk that contains this address.
    #[inline]
    pub(super) fn chunk_of(&self, address: u64) -> u64 {
        // The size of chunks is a power of two.
        address & !(u64::from(self.chunk_bytes) - 1)
    }

    pub(super) fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// The bytes at an address.
    ///
    /// # Safety
    /// The chunk must belong to the caller (see [`Umem`]) as long as the slice lives, and no other slice of
    /// it may be alive.
    #[inline]
    pub(super) unsafe fn bytes(&self, address: u64, len: usize) -> &[u8] {
        let at = self.map.at(address as usize, len);
        // SAFETY: within the mapping, which lives as long as `self`; that there are no writers is the caller's promise.
        unsafe { std::slice::from_raw_parts(at, len) }
    }

    /// Copies bytes to an address.
    ///
    /// # Safety
    /// The chunk must belong to the caller, and no slice of it may be alive.
    #[inline]
    pub(super) unsafe fn write(&self, address: u64, from: &[u8]) {
        let to = self.map.at(address as usize, from.len());
        // SAFETY: within the mapping; that there are no other readers or writers is the caller's promise; `from` is not part of
        // the mapping, of which no slices are alive.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
}
