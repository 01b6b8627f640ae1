//! A copy of the datagrams that one sender sends to a group, as they arrive at an interface: also after this host has left
//! the group, when its system no longer delivers them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::ethernet::{PACKET_IGNORE_OUTGOING, bind, packet_socket};
use super::options::set_buffer;
use super::sockopt;
use super::udp::UdpSocket;

/// Bytes of each packet that are copied: headers, and the header of the data.
pub const WATCHED_BYTES: usize = 256;

/// Receive buffer requested: 20 ms of 200 000 packets/s, as the kernel counts them.
const RECEIVE_BUFFER: usize = 8 << 20;

/// The operations of classic BPF that the filter uses (linux/bpf_common.h).
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF: u16 = 0x28;
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF_BEHIND: u16 = 0x48;
const HEADER_LENGTH: u16 = 0xb1;
const IS_EQUAL: u16 = 0x15;
const HAS_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Opens a non-blocking socket that receives a copy of the datagrams from `source` to `group` on an interface. Its messages
/// begin with the header of IP ([`watched_payload`]). Needs CAP_NET_RAW.
pub fn watch_group(interface: u32, source: SocketAddr, group: SocketAddr) -> io::Result<UdpSocket> {
    let fd = packet_socket(libc::SOCK_DGRAM)?;
    attach(fd.as_fd(), &filter(source, group)?)?;
    let stamps = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    sockopt::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, stamps)?;
    // Packets that this host sends are seen when they arrive.
    let _ = sockopt::set(fd.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    let bytes = RECEIVE_BUFFER;
    set_buffer(fd.as_fd(), libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)?;
    // The card may filter by the hardware addresses of joined groups (RFC 1112, RFC 2464). struct packet_mreq.
    let mut mreq = [0u8; 16];
    mreq[..4].copy_from_slice(&interface.to_ne_bytes());
    mreq[4..6].copy_from_slice(&(libc::PACKET_MR_MULTICAST as u16).to_ne_bytes());
    mreq[6..8].copy_from_slice(&6u16.to_ne_bytes());
    mreq[8..14].copy_from_slice(&match group.ip() {
        IpAddr::V4(v4) => {
            let [_, b, c, d] = v4.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(v6) => {
            let o = v6.octets();
            [0x33, 0x33, o[12], o[13], o[14], o[15]]
        }
    });
    // The loopback interface has no such addresses.
    let _ = sockopt::set(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, mreq);
    let ethertype = if group.is_ipv4() { libc::ETH_P_IP } else { libc::ETH_P_IPV6 };
    bind(fd.as_fd(), interface, ethertype as u16)?;
    Ok(fd.into())
}

/// The payload in a message of [`watch_group`]; `None` if it is too short.
pub fn watched_payload(message: &[u8]) -> Option<&[u8]> {
    let header = match message.first()? >> 4 {
        4 => usize::from(message[0] & 0xf) * 4,
        _ => 40,
    };
    message.get(header + 8..)
}

/// Accepts unfragmented datagrams from one address and port to another.
fn filter(source: SocketAddr, group: SocketAddr) -> io::Result<Vec<libc::sock_filter>> {
    let step = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let ports = [source.port(), group.port()].map(u32::from);
    let mut out = vec![];
    // Loads a part of the packet and goes on only if it has this value.
    let mut expect = |code: u16, at: u32, value: u32| {
        out.push(step(code, at));
        out.push(step(IS_EQUAL, value));
    };
    match (source.ip(), group.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            expect(LOAD_BYTE, 9, libc::IPPROTO_UDP as u32);
            expect(LOAD_WORD, 12, from.into());
            expect(LOAD_WORD, 16, to.into());
            out.push(step(LOAD_HALF, 6));
            out.push(step(HAS_BITS, 0x1fff));
            out.push(step(HEADER_LENGTH, 0));
            for (at, port) in (0u32..).step_by(2).zip(ports) {
                out.push(step(LOAD_HALF_BEHIND, at));
                out.push(step(IS_EQUAL, port));
            }
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            expect(LOAD_BYTE, 6, libc::IPPROTO_UDP as u32);
            let bytes = [from.octets(), to.octets()].concat();
            for (at, word) in (8u32..).step_by(4).zip(bytes.as_chunks::<4>().0) {
                expect(LOAD_WORD, at, u32::from_be_bytes(*word));
            }
            for (at, port) in (40u32..).step_by(2).zip(ports) {
                expect(LOAD_HALF, at, port);
            }
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    }
    out.push(step(RETURN, WATCHED_BYTES as u32));
    out.push(step(RETURN, 0));
    let last = out.len() - 1;
    for (at, step) in out.iter_mut().enumerate() {
        // To the last step, which drops the packet.
        let drop = (last - at).saturating_sub(1) as u8;
        match step.code {
            IS_EQUAL => step.jf = drop,
            HAS_BITS => step.jt = drop,
            _ => {}
        }
    }
    Ok(out)
}

fn attach(fd: BorrowedFd<'_>, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: `program` and the filter that it points to are readable through the call, which copies them.
    let rc = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            len,
        )
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_behind_the_headers() {
        let mut v4 = vec![0x46; 24 + 8];
        v4.extend([1, 2]);
        assert_eq!(watched_payload(&v4), Some(&[1, 2][..]));
        let mut v6 = vec![0x60; 48];
        v6.push(3);
        assert_eq!(watched_payload(&v6), Some(&[3][..]));
        for short in [&[][..], &[0x4f], &[0x60; 40]] {
            assert_eq!(watched_payload(short), None);
        }
    }
}
