//! Fuzz bodies: each takes any bytes and checks what must hold of them.

/// Captures of either format.
pub fn fuzz_capture(data: &[u8]) {
    crate::capture::fuzz(data);
}

/// Cutting of super-packets: the first ten bytes are the kernel's description, the rest the frame.
pub fn fuzz_segment(data: &[u8]) {
    crate::segment::fuzz(data);
}

/// Completion of partial checksums: what was completed is right.
pub fn fuzz_checksum(data: &[u8]) {
    let mut frame = data.to_vec();
    if crate::checksum::complete_if_partial(&mut frame) {
        if let Ok(packet) = weir_wire::packet::Packet::from_ethernet(&frame) {
            assert_ne!(packet.transport_checksum_ok(), Some(false));
        }
    } else {
        assert_eq!(frame, data);
    }
}
