//! Raw netlink: one request, its answers, read without trusting their lengths (`netlink(7)`, `rtnetlink(7)`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::sockopt::retry;

const HEADER: usize = 16;
/// Maximum number of bytes read of one answer: enough for a million routes, and a bound on a faulty kernel.
const MAX_BYTES: usize = 256 << 20;
/// Maximum number of attempts at a dump. One is repeated if what it lists changed meanwhile (`NLM_F_DUMP_INTR`): it may
/// lack entries or have them twice.
const MAX_DUMPS: usize = 10;

/// One netlink message: type, flags and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
}

/// Walks the messages in a buffer; ends at the first that does not fit.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

/// Walks the attributes in a message: type (without its flags) and payload.
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The text of a NUL-terminated attribute, 255 bytes at most.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len()).min(255);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let all = self.0;
        let len = usize::try_from(u32_at(all, 0)?).ok()?;
        let message = Message {
            kind: u16_at(all, 4)?,
            flags: u16_at(all, 6)?,
            sequence: u32_at(all, 8)?,
            payload: all.get(HEADER..len)?,
        };
        self.0 = &all[len.checked_next_multiple_of(4)?.min(all.len())..];
        Some(message)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let all = self.0;
        let len = usize::from(u16_at(all, 0)?);
        // The two top bits say "nested" and "network byte order".
        let kind = u16_at(all, 2)? & 0x3fff;
        let payload = all.get(4..len)?;
        self.0 = &all[len.next_multiple_of(4).min(all.len())..];
        Some((kind, payload))
    }
}

/// Appends an attribute, padded.
pub(crate) fn push_attribute(body: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    // Callers pass addresses and numbers: far below the limit of 16 bits.
    let len = u16::try_from(payload.len() + 4).unwrap_or(u16::MAX);
    body.extend(len.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(payload);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// A netlink socket in the calling thread's network namespace.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    /// For one message of an answer.
    buffer: Vec<u8>,
}

/// Bytes of the longest message that the kernel sends.
const MESSAGE: usize = 65_536;

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::of(libc::NETLINK_ROUTE)
    }

    /// A socket of generic netlink.
    pub(crate) fn generic() -> io::Result<Self> {
        Netlink::of(libc::NETLINK_GENERIC)
    }

    fn of(protocol: i32) -> io::Result<Self> {
        // SAFETY: takes integers only.
        let fd = unsafe {
            libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Netlink { socket, sequence: 0, buffer: vec![0; MESSAGE] })
    }

    /// Requests everything of a kind and returns what `each`, called with each message of the answer, made of it.
    ///
    /// # Errors
    /// `Interrupted` if what is listed changed during every attempt.
    pub(crate) fn dump<T: Default>(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(&mut T, u16, &[u8]),
    ) -> io::Result<T> {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        for _ in 0..MAX_DUMPS {
            let mut found = T::default();
            if self.request(kind, flags, body, |kind, payload| each(&mut found, kind, payload))? {
                return Ok(found);
            }
        }
        let reason = "the list changed each time it was read";
        Err(io::Error::new(io::ErrorKind::Interrupted, reason))
    }

    /// Sends one request; `each` is called with each message of the answer.
    pub(crate) fn get(
        &mut self,
        kind: u16,
        body: &[u8],
        each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.request(kind, (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16, body, each).map(drop)
    }

    /// As [`Netlink::get`] for an answer of one message, at half the cost.
    pub(crate) fn get_one(
        &mut self,
        kind: u16,
        body: &[u8],
        each: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        self.request(kind, libc::NLM_F_REQUEST as u16, body, each).map(drop)
    }

    /// Returns whether the answer is consistent.
    fn request(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(u16, &[u8]),
    ) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = Vec::with_capacity(HEADER + body.len());
        let len = u32::try_from(HEADER + body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        request.extend(len.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend([0; 4]);
        request.extend(body);
        let fd = self.socket.as_raw_fd();
        // SAFETY: `request` is readable for its length. An unbound, unconnected netlink socket sends to the kernel.
        retry(|| unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) })?;
        let buffer = &mut self.buffer;
        let mut total = 0_usize;
        let mut is_consistent = true;
        loop {
            // SAFETY: `buffer` is writable for its length.
            let n =
                retry(|| unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) })?;
            total = total.saturating_add(n);
            if n == 0 || total > MAX_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            for message in
                Messages(&buffer[..n.min(MESSAGE)]).filter(|m| m.sequence == self.sequence)
            {
                is_consistent &= i32::from(message.flags) & libc::NLM_F_DUMP_INTR == 0;
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return Ok(is_consistent),
                    libc::NLMSG_ERROR => {
                        let code =
                            u32_at(message.payload, 0).ok_or(io::ErrorKind::InvalidData)? as i32;
                        return match code {
                            0 => Ok(is_consistent),
                            code => Err(io::Error::from_raw_os_error(code.wrapping_neg())),
                        };
                    }
                    _ => each(message.kind, message.payload),
                }
                // Without an acknowledgement and a list, the answer has one message.
                if i32::from(flags) & (libc::NLM_F_ACK | libc::NLM_F_DUMP) == 0 {
                    return Ok(is_consistent);
                }
            }
        }
    }
}

/// Fuzz body: both walks end and stay inside their buffers.
pub fn fuzz_netlink(data: &[u8]) {
    let mut total = 0;
    for message in Messages(data) {
        total += HEADER + message.payload.len();
        let within: usize = Attributes(message.payload).map(|(_, payload)| 4 + payload.len()).sum();
        assert!(within <= message.payload.len());
    }
    assert!(total <= data.len());
    super::rtnetlink::fuzz_payload(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::raw::message_pair;
    use std::os::unix::net::UnixDatagram;

    /// Dumps from a kernel whose answers are interrupted `interruptions` times; each answer has its number.
    fn dumped(interruptions: usize) -> io::Result<Vec<u8>> {
        // SAFETY: both descriptors are new and have no other owner.
        let [ours, kernel] = message_pair().unwrap().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let mut netlink = Netlink { socket: ours, sequence: 0, buffer: vec![0; MESSAGE] };
        let kernel = UnixDatagram::from(kernel);
        let answering = std::thread::spawn(move || {
            let mut request = [0; 64];
            for number in 0..MAX_DUMPS {
                if kernel.recv(&mut request).unwrap() == 0 {
                    return;
                }
                let interrupted = if number < interruptions { libc::NLM_F_DUMP_INTR } else { 0 };
                for (kind, flags) in [(libc::RTM_NEWLINK, 0), (3, interrupted)] {
                    let mut answer = 20_u32.to_ne_bytes().to_vec();
                    answer.extend(kind.to_ne_bytes());
                    answer.extend((flags as u16).to_ne_bytes());
                    answer.extend(&request[8..12]);
                    answer.extend([0, 0, 0, 0, number as u8, 0, 0, 0]);
                    kernel.send(&answer).unwrap();
                }
            }
        });
        let found = netlink.dump(libc::RTM_GETLINK, &[0; 16], |found: &mut Vec<u8>, _, payload| {
            found.push(payload[0]);
        });
        drop(netlink);
        answering.join().unwrap();
        found
    }

    #[test]
    fn an_interrupted_dump_is_repeated() {
        assert_eq!(dumped(0).unwrap(), [0]);
        assert_eq!(dumped(2).unwrap(), [2]);
        let error = dumped(MAX_DUMPS).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
