//! Bytes to be sent as if they were in a file.

use std::io;

/// Bytes in memory, for [`crate::tcp::TcpStream::send_file`].
#[derive(Debug)]
pub struct MemFile(Vec<u8>);

impl MemFile {
    /// Holds a copy of `bytes`.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        Ok(MemFile(bytes.to_vec()))
    }

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most `len` bytes from `offset` on.
    pub(crate) fn part(&self, offset: u64, len: usize) -> &[u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        &self.0[start..start.saturating_add(len).min(self.0.len())]
    }
}
