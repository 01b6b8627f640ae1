//! Completes checksums that a sender on this host left to hardware (checksum offload). Virtual interfaces
//! have no such hardware, and a frame that leaves by another link must have a complete checksum.
//!
//! A partial checksum is the folded sum of the pseudo header (zero for SCTP). A packet socket reports where
//! it is (`struct virtio_net_hdr`). AF_XDP does not, so it is recognised by its value. A complete checksum
//! that happens to have that value (one in 65536) is computed again with the same result.

use weir_wire::checksum::Sum;
use weir_wire::packet::{Ethernet, Ipv4, Ipv6, ethertype, protocol};

const SCTP: u8 = 132;
const TCP_CHECKSUM_AT: usize = 16;
const UDP_CHECKSUM_AT: usize = 6;
const SCTP_CHECKSUM_AT: usize = 8;

/// Completes the checksum that covers the frame from `start` to its end and is at `start + offset`. Returns
/// `false` if the frame is too short.
pub(crate) fn complete_at(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = frame.get_mut(start..) else { return false };
    if offset == SCTP_CHECKSUM_AT {
        // No other protocol with partial checksums has its checksum at this offset.
        let Some(field) = covered.get_mut(SCTP_CHECKSUM_AT..SCTP_CHECKSUM_AT + 4) else {
            return false;
        };
        field.fill(0);
        let sum = crc32c(covered).to_le_bytes();
        covered[SCTP_CHECKSUM_AT..SCTP_CHECKSUM_AT + 4].copy_from_slice(&sum);
        return true;
    }
    if covered.len() < offset.saturating_add(2) {
        return false;
    }
    // The field contains the pseudo header's sum, so it is included. Like the kernel, write all ones
    // instead of zero for any protocol.
    let sum = Sum::new().add_bytes(covered).udp_checksum();
    covered[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Completes the checksum of TCP, UDP or SCTP if its value is that of a partial one; returns whether it
/// was.
#[inline]
pub(crate) fn complete_if_partial(frame: &mut [u8]) -> bool {
    let Some((start, end, offset)) = partial(frame) else { return false };
    complete_at(&mut frame[..end], start, offset)
}

/// Start and end of the transport in a frame, and the partial checksum's offset in it; `None` if it is not
/// partial.
fn partial(frame: &[u8]) -> Option<(usize, usize, usize)> {
    let at = Ethernet::new(frame).ok()?;
    let network = at.header_len();
    let bytes = at.payload();
    let (number, header, payload, pseudo) = match at.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4::new(bytes).ok()?;
            if ip.fragment().is_some() {
                return None;
            }
            let number = ip.protocol();
            let len = ip.payload().len() as u16;
            let pseudo = Sum::new().add_pseudo_v4(ip.source(), ip.destination(), number, len);
            (number, ip.header_len(), ip.payload(), pseudo)
        }
        ethertype::IPV6 => {
            let ip = Ipv6::new(bytes).ok()?;
            if ip.fragment().is_some() {
                return None;
            }
            let number = ip.protocol();
            let len = ip.payload().len() as u32;
            let pseudo = Sum::new().add_pseudo_v6(ip.source(), ip.final_destination(), number, len);
            (number, ip.header_len(), ip.payload(), pseudo)
        }
        _ => return None,
    };
    let offset = match number {
        protocol::TCP => TCP_CHECKSUM_AT,
        // A partial checksum covers the whole payload; a datagram with another length is not from this
        // host.
        protocol::UDP if payload.get(4..6)? == (payload.len() as u16).to_be_bytes() => {
            UDP_CHECKSUM_AT
        }
        SCTP => SCTP_CHECKSUM_AT,
        _ => return None,
    };
    let is_partial = if number == SCTP {
        payload.get(offset..offset + 4)? == [0; 4]
    } else {
        u16::from_be_bytes(payload.get(offset..offset + 2)?.try_into().ok()?) == pseudo.folded()
    };
    let start = network + header;
    is_partial.then_some((start, start + payload.len(), offset))
}

/// CRC-32C (Castagnoli, RFC 9260 appendix A), byte by byte, as partial SCTP checksums are rare.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut value = i as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
                bit += 1;
            }
            table[i] = value;
            i += 1;
        }
        table
    };
    !bytes
        .iter()
        .fold(u32::MAX, |sum, &byte| sum >> 8 ^ TABLE[((sum ^ u32::from(byte)) & 0xff) as usize])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use weir_wire::packet::Packet;

    /// An Ethernet frame with IPv4 or IPv6, a transport header of protocol `number` with a partial
    /// checksum, and payload.
    pub(crate) fn partial_frame(v6: bool, number: u8, tags: &[[u8; 4]], payload: &[u8]) -> Vec<u8> {
        let mut transport = match number {
            protocol::TCP => {
                let mut tcp = vec![0; 32];
                tcp[..4].copy_from_slice(&[0x10, 1, 0x20, 2]);
                tcp[4..8].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
                // Data offset 8 (timestamps), CWR, PSH, ACK, FIN.
                tcp[12..14].copy_from_slice(&[0x80, 0x99]);
                tcp[20..24].copy_from_slice(&[1, 1, 8, 10]);
                tcp
            }
            protocol::UDP => {
                let mut udp = vec![0x10, 1, 0x20, 2];
                udp.extend((8 + payload.len() as u16).to_be_bytes());
                udp.extend([0, 0]);
                udp
            }
            _ => vec![0; 12],
        };
        transport.extend(payload);
        let len = transport.len();
        let mut frame: Vec<u8> = [[2; 6], [4; 6]].concat();
        frame.extend(tags.concat());
        let sum = if v6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([number, 64]);
            let (a, b) = ([0xfd; 16], [0xfe; 16]);
            frame.extend([a, b].concat());
            Sum::new().add_pseudo_v6(a.into(), b.into(), number, len as u32).folded()
        } else {
            let mut ip = vec![0x45, 0];
            ip.extend((len as u16 + 20).to_be_bytes());
            ip.extend([0xff, 0xfe, 0x40, 0, 64, number, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
            let check = Sum::new().add_bytes(&ip).checksum().to_be_bytes();
            ip[10..12].copy_from_slice(&check);
            frame.extend([8, 0]);
            frame.extend(ip);
            let (a, b) = ([198, 18, 0, 1], [198, 18, 0, 2]);
            Sum::new().add_pseudo_v4(a.into(), b.into(), number, len as u16).folded()
        };
        match number {
            protocol::TCP => transport[16..18].copy_from_slice(&sum.to_be_bytes()),
            protocol::UDP => transport[6..8].copy_from_slice(&sum.to_be_bytes()),
            _ => {}
        }
        frame.extend(transport);
        frame
    }

    #[test]
    fn a_partial_checksum_is_completed_once() {
        for v6 in [false, true] {
            for number in [protocol::TCP, protocol::UDP] {
                for tags in [&[][..], &[[0x81, 0, 0, 7]], &[[0x88, 0xa8, 0, 9], [0x81, 0, 0, 7]]] {
                    let mut frame = partial_frame(v6, number, tags, b"some bytes, oddly many.");
                    // An Ethernet frame may be padded.
                    frame.extend([0xaa; 3]);
                    let before =
                        Packet::from_ethernet(&frame).expect("packet").transport_checksum_ok();
                    assert_eq!(before, Some(false));
                    assert!(complete_if_partial(&mut frame));
                    let after =
                        Packet::from_ethernet(&frame).expect("packet").transport_checksum_ok();
                    assert_eq!(after, Some(true));
                    let complete = frame.clone();
                    assert!(!complete_if_partial(&mut frame));
                    assert_eq!(frame, complete);
                }
            }
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong() {
        let mut frame = partial_frame(false, protocol::UDP, &[], b"payload");
        complete_if_partial(&mut frame);
        *frame.last_mut().expect("a byte") ^= 1;
        let before = frame.clone();
        assert!(!complete_if_partial(&mut frame));
        assert_eq!(frame, before);
    }

    #[test]
    fn a_complete_checksum_with_the_partial_value_does_not_change() {
        // If the transport with the pseudo header's sum in place sums to all ones, the checksum is both
        // partial and complete.
        let mut frame = partial_frame(false, protocol::UDP, &[], &[0, 0]);
        let at = frame.len() - 2;
        let start = 14 + 20;
        // With a checksum field of zero, the transport must sum to the complement of twice the pseudo sum.
        let field = u16::from_be_bytes([frame[start + 6], frame[start + 7]]);
        let rest = Sum::new().add_bytes(&frame[start..]).add_u16(field);
        let fill = (!rest.folded()).to_be_bytes();
        frame[at..].copy_from_slice(&fill);
        let before = frame.clone();
        assert_eq!(
            Packet::from_ethernet(&frame).expect("packet").transport_checksum_ok(),
            Some(true)
        );
        assert!(complete_if_partial(&mut frame));
        assert_eq!(frame, before);
    }

    #[test]
    fn fragments_are_left_alone() {
        let mut frame = partial_frame(false, protocol::UDP, &[], b"payload");
        frame[14 + 6] = 0x20;
        let before = frame.clone();
        assert!(!complete_if_partial(&mut frame));
        assert_eq!(frame, before);
    }

    #[test]
    fn sctp_gets_its_crc() {
        // RFC 3720 B.4: 32 bytes of zeros.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        let mut frame = partial_frame(true, SCTP, &[], &[1, 2, 3, 4]);
        assert!(complete_if_partial(&mut frame));
        let at = 14 + 40;
        let mut zeroed = frame[at..].to_vec();
        zeroed[8..12].fill(0);
        assert_eq!(frame[at + 8..at + 12], crc32c(&zeroed).to_le_bytes());
    }

    #[test]
    fn a_reported_offset_is_used_exactly() {
        let mut frame = partial_frame(true, protocol::TCP, &[], b"xyz");
        assert!(complete_at(&mut frame, 54, 16));
        assert_eq!(
            Packet::from_ethernet(&frame).expect("packet").transport_checksum_ok(),
            Some(true)
        );
        let len = frame.len();
        for (start, offset) in [(len + 1, 0), (len - 1, 0), (0, len), (0, usize::MAX), (len - 4, 8)]
        {
            assert!(!complete_at(&mut frame, start, offset));
        }
    }
}
