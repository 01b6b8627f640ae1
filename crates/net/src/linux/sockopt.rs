//! Socket options that the socket crate does not know, by number.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A type the kernel may read or write as plain bytes.
///
/// # Safety
/// Every bit pattern must be a value of the type, and it must have no padding the kernel would read as data.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers, no padding in an array of them.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: bytes.
unsafe impl<const N: usize> Plain for [u8; N] {}

pub(crate) fn set<T: Plain>(fd: BorrowedFd<'_>, level: i32, name: i32, value: T) -> io::Result<()> {
    set_bytes(fd, level, name, (&raw const value).cast(), size_of::<T>())
}

pub(crate) fn set_slice(fd: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    set_bytes(fd, level, name, value.as_ptr(), value.len())
}

fn set_bytes(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: *const u8,
    len: usize,
) -> io::Result<()> {
    // SAFETY: both callers pass a pointer to `len` readable bytes that live until this call returns.
    let rc = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, value.cast(), len as libc::socklen_t)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option into `value`; returns how many of its bytes the kernel wrote, which may be fewer on an older
/// kernel.
pub(crate) fn get_into<T: Plain>(
    fd: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: &mut T,
) -> io::Result<usize> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is exclusively borrowed and `len` says its size; any bytes are a value of `T` (trait `Plain`).
    let rc = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut *value).cast(), &raw mut len)
    };
    if rc == 0 { Ok((len as usize).min(size_of::<T>())) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn get_i32(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value = 0;
    get_into(fd, level, name, &mut value)?;
    Ok(value)
}

/// Repeats a call that a signal cut short before it did anything.
#[inline]
pub(crate) fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        let rc = call();
        if rc >= 0 {
            return Ok(rc as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
