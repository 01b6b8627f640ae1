//! Open files that are passed over a control socket (`SCM_RIGHTS`).

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Sends bytes with an open file.
pub(super) fn send(mut stream: &TcpStream, bytes: &[u8], file: &File) -> std::io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    // There is room for one.
    ancillary.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    // The file went with the first byte.
    stream.write_all(&bytes[sent..])
}

/// Reads a stream, and takes the file that comes with a request. Further ones are closed.
pub(super) struct DescriptorReader<'a> {
    stream: &'a UnixStream,
    file: Option<File>,
}

impl<'a> DescriptorReader<'a> {
    pub(super) fn new(stream: &'a UnixStream) -> Self {
        DescriptorReader { stream, file: None }
    }

    /// The file that came with what was read since the last call.
    pub(super) fn take_file(&mut self) -> Option<File> {
        self.file.take()
    }
}

impl Read for DescriptorReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut to = [IoSliceMut::new(to)];
        let received = recvmsg(self.stream, &mut to, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                for file in files {
                    self.file.get_or_insert(File::from(file));
                }
            }
        }
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};
    use std::os::fd::OwnedFd;

    #[test]
    fn a_file_arrives_with_its_request_and_further_ones_are_closed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let sender = TcpStream::from(OwnedFd::from(ours));
        let mut first = tempfile::tempfile().unwrap();
        let second = tempfile::tempfile().unwrap();
        send(&sender, b"one\n", &first).unwrap();
        send(&sender, b"two\n", &second).unwrap();
        let mut reader = DescriptorReader::new(&theirs);
        let mut text = [0; 8];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"one\ntwo\n");
        reader.take_file().unwrap().write_all(b"here").unwrap();
        assert!(reader.take_file().is_none());
        let mut found = String::new();
        first.rewind().unwrap();
        first.read_to_string(&mut found).unwrap();
        assert_eq!(found, "here");
        assert_eq!(second.metadata().unwrap().len(), 0);
    }
}
