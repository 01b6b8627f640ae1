//! Frames on the path, and the checks of a receiving host's stack. A damaged frame is dropped where a
//! kernel would drop it, so that content laws change the receiver's figures as they would on a real
//! network.

use std::net::Ipv4Addr;

use weir_wire::checksum::Sum;
use weir_wire::packet::{Ethernet, Ipv4, Udp, ethertype, protocol};

/// Maximum UDP payload, bytes. The path has no MTU, so that nothing is fragmented.
pub(crate) const MAX_PAYLOAD: u64 = 65_507;

/// A host on one side of the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    mac: [u8; 6],
    pub(crate) address: Ipv4Addr,
}

/// The side that runs the test.
pub(crate) const A: Host = Host { mac: [2, 0, 0, 0, 0, 0xa], address: Ipv4Addr::new(10, 0, 0, 1) };
/// The side of the server.
pub(crate) const B: Host = Host { mac: [2, 0, 0, 0, 0, 0xb], address: Ipv4Addr::new(10, 0, 0, 2) };

/// Writes a UDP datagram from one host to the other into `out`, checksums included.
pub(crate) fn write(out: &mut Vec<u8>, from: Host, to: Host, ports: (u16, u16), payload: &[u8]) {
    out.clear();
    out.extend(to.mac);
    out.extend(from.mac);
    out.extend(ethertype::IPV4.to_be_bytes());
    // The payload is at most MAX_PAYLOAD, so that both lengths fit.
    let udp_length = (8 + payload.len()) as u16;
    out.extend([0x45, 0]);
    out.extend((20 + udp_length).to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, protocol::UDP, 0, 0]);
    out.extend(from.address.octets());
    out.extend(to.address.octets());
    let header_sum = Sum::new().add_bytes(&out[14..34]).checksum();
    out[24..26].copy_from_slice(&header_sum.to_be_bytes());
    out.extend(ports.0.to_be_bytes());
    out.extend(ports.1.to_be_bytes());
    out.extend(udp_length.to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    let sum = Sum::new()
        .add_pseudo_v4(from.address, to.address, protocol::UDP, udp_length)
        .add_bytes(&out[34..])
        .udp_checksum();
    out[40..42].copy_from_slice(&sum.to_be_bytes());
}

/// Source port, destination port and payload of a frame that `host` delivers to a socket; `None` if it
/// drops the frame.
pub(crate) fn accept(host: Host, frame: &[u8]) -> Option<((u16, u16), &[u8])> {
    let ethernet = Ethernet::new(frame).ok()?;
    if ethernet.destination() != host.mac || ethernet.ethertype() != ethertype::IPV4 {
        return None;
    }
    let ip = Ipv4::new(ethernet.payload()).ok()?;
    let is_whole = ip.fragment().is_none();
    if !ip.header_checksum_ok()
        || ip.destination() != host.address
        || ip.protocol() != protocol::UDP
        || !is_whole
    {
        return None;
    }
    let udp = Udp::new(ip.payload()).ok()?;
    // A checksum of 0 means that the sender computed none (RFC 768).
    if udp.checksum() != 0 {
        let sum = Sum::new()
            .add_pseudo_v4(ip.source(), ip.destination(), protocol::UDP, udp.length_field())
            .add_bytes(udp.bytes());
        if sum.folded() != 0xffff {
            return None;
        }
    }
    Some(((udp.source_port(), udp.destination_port()), udp.payload()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_frame_is_accepted_and_a_damaged_one_dropped() {
        let mut frame = vec![];
        for payload in [&b""[..], b"a", b"hello, weir"] {
            write(&mut frame, A, B, (5000, 9347), payload);
            // Ethernet, IPv4, UDP.
            assert_eq!(frame.len(), 14 + 20 + 8 + payload.len());
            assert_eq!(accept(B, &frame), Some(((5000, 9347), payload)));
            assert_eq!(accept(A, &frame), None);
        }
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The source's hardware address is not checked.
            let is_dropped = accept(B, &damaged).is_none();
            assert_eq!(is_dropped, !(48..96).contains(&bit), "bit {bit}");
        }
        assert_eq!(accept(B, &[]), None);
    }
}
