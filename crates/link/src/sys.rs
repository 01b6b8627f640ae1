//! System calls that both the packet socket and AF_XDP use.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use crate::error::{Error, Result};

/// Memory mapped from the kernel or anonymously; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is memory of the process, valid on every thread; its users argue which part they may
// access.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method gives out a reference to the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` at `offset`, or anonymous memory without one.
    pub(crate) fn new(fd: Option<RawFd>, len: usize, offset: libc::off_t) -> io::Result<Self> {
        let flags = match fd {
            Some(_) => libc::MAP_SHARED | libc::MAP_POPULATE,
            None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                fd.unwrap_or(-1),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(base.cast()) {
            Some(base) => Ok(Mapping { base, len }),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Address of the byte at `offset`. Panics unless `size` bytes from there are within the mapping.
    #[inline]
    pub(crate) fn at(&self, offset: usize, size: usize) -> *mut u8 {
        assert!(offset <= self.len && size <= self.len - offset, "beyond the mapping");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.as_ptr().add(offset) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; every holder of an address into it held the mapping too.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes integers only.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to the bytes of `value`, which is plain data without padding.
pub(crate) fn set_option<T: Copy>(
    fd: &OwnedFd,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` is readable for its size, which is given.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option of plain integers, for which any bytes are valid. Bytes that the kernel does not
/// fill in stay as in `value`.
pub(crate) fn get_option<T: Copy>(
    fd: &OwnedFd,
    level: i32,
    name: i32,
    mut value: T,
) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes, which is given.
    let rc = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
    };
    if rc == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Binds to an address of one of the kernel's socket address structures.
pub(crate) fn bind<T: Copy>(fd: &OwnedFd, address: &T) -> io::Result<()> {
    // SAFETY: `address` is readable for its size, which is given.
    let rc = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads and clears a socket's pending error (`SO_ERROR`), if there is one.
pub(crate) fn pending_error(fd: &OwnedFd) -> Option<i32> {
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, 0_i32).ok().filter(|&error| error != 0)
}

/// Sets a socket's receive or send buffer to `bytes`, above the system's limit where permitted.
pub(crate) fn set_buffer(fd: &OwnedFd, forced: i32, limited: i32, bytes: i32) {
    if set_option(fd, libc::SOL_SOCKET, forced, &bytes).is_err() {
        // A smaller buffer is acceptable: drops are counted.
        let _ = set_option(fd, libc::SOL_SOCKET, limited, &bytes);
    }
}

/// An interface by name and index, to detect its removal.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) index: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

const ETHTOOL_GLINK: u32 = 10;

impl Device {
    /// Whether it has a carrier now, as reported by its driver; `true` if that is unknown.
    ///
    /// Queried through `fd` as in [`Device::check`].
    pub(crate) fn has_carrier(&self, fd: BorrowedFd<'_>) -> bool {
        // SAFETY: ifreq is integers and a union of such and pointers, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = self.index as i32;
        // Look up the name by index first: the interface may have been renamed. SAFETY: SIOCGIFNAME reads
        // the index from and writes the name to `request`, which lives through the call.
        if unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) } < 0 {
            return true;
        }
        let mut value = EthtoolValue { command: ETHTOOL_GLINK, data: 1 };
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL with GLINK reads and writes `value`, to which `request` points; both live through the call.
        let rc = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        rc < 0 || value.data != 0
    }

    /// Returns an error if the interface was removed. Called when a socket reports that it is down.
    ///
    /// Queried through `fd`, a socket in the interface's own namespace: the calling thread may be in
    /// another one.
    pub(crate) fn check(&self, fd: BorrowedFd<'_>) -> Result<()> {
        // SAFETY: ifreq is integers and a union of such and pointers, for which zero is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = self.index as i32;
        // SAFETY: SIOCGIFNAME reads the index from and writes the name to `request`, which lives through the call.
        let rc = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) };
        if rc < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENODEV) {
            return Err(Error::Gone(self.name.clone()));
        }
        Ok(())
    }
}
