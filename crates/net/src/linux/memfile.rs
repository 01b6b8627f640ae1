//! Bytes in an anonymous file, to be sent without copying them through this process.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// An anonymous file in memory (`memfd_create(2)`), for [`crate::tcp::TcpStream::send_file`].
#[derive(Debug)]
pub struct MemFile {
    file: File,
    len: u64,
}

impl AsFd for MemFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl MemFile {
    /// A file that holds a copy of `bytes`.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        // SAFETY: the name is a NUL-terminated literal.
        let fd = unsafe { libc::memfd_create(c"weir-payload".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.write_all(bytes)?;
        Ok(MemFile { file, len: bytes.len() as u64 })
    }

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
