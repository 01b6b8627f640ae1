//! Fuzz bodies: functions that take any bytes and check invariants.

/// Reads captures of either format.
pub fn fuzz_capture(data: &[u8]) {
    crate::capture::fuzz(data);
}

/// Reads the datagrams and the frames of captures of either format.
pub fn fuzz_capture_datagrams(data: &[u8]) {
    crate::capture::fuzz_datagrams(data);
    crate::capture::fuzz_frames(data);
}

/// Segments super-packets: the first ten bytes are the virtio-net header, the rest the frame.
pub fn fuzz_segment(data: &[u8]) {
    crate::segment::fuzz(data);
}

/// Completes partial checksums, and checks that the result is correct.
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
