//! Tests of both formats: handmade bytes, written captures read again, truncated and damaged copies.

use super::*;
use crate::error::Error;
use proptest::prelude::*;

/// Time, original length, interface, bytes.
type Frame = (u64, u32, u32, Vec<u8>);

fn read_all(bytes: &[u8]) -> Result<Vec<Frame>, Error> {
    let mut reader = CaptureReader::new(bytes, "test")?;
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        frames.push((frame.time_ns, frame.original_len, frame.interface, frame.data.to_vec()));
    }
    Ok(frames)
}

fn block(kind: u32, body: &[u8], big: bool) -> Vec<u8> {
    let word = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let total = word(body.len() as u32 + 12);
    [&word(kind)[..], &total, body, &total].concat()
}

/// A section with one Ethernet interface (options as given) and one packet.
fn section(big: bool, options: &[u8], units: u64, packet_kind: u32) -> Vec<u8> {
    let w32 = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let w16 = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let mut header = w32(BYTE_ORDER_MAGIC).to_vec();
    header.extend([w16(1), w16(0)].concat());
    header.extend([0xff; 8]);
    // An option to be skipped: opt_comment "hey", end.
    header.extend([&w16(1)[..], &w16(3), b"hey\0", &[0; 4]].concat());
    let mut bytes = block(SECTION_HEADER, &header, big);
    // The snapshot length is below the packet's: not every tool keeps to it.
    let idb = [&w16(1)[..], &w16(0), &w32(4), options].concat();
    bytes.extend(block(INTERFACE_DESCRIPTION, &idb, big));
    // A block of an unknown type.
    bytes.extend(block(0x0bad_0bad, &[9; 8], big));
    let number = if packet_kind == PACKET { [w16(0), w16(7)].concat() } else { w32(0).to_vec() };
    let body = [
        &number[..],
        &w32((units >> 32) as u32),
        &w32(units as u32),
        &w32(5),
        &w32(60),
        b"frame\0\0\0",
        // A comment after the packet.
        &w16(1),
        &w16(2),
        b"ok\0\0",
        &[0; 4],
    ]
    .concat();
    bytes.extend(block(packet_kind, &body, big));
    bytes
}

#[test]
fn classic_pcap_in_each_byte_order_and_resolution() {
    for (magic, ns) in [(PCAP_MICROSECONDS, 5_000), (PCAP_NANOSECONDS, 5)] {
        for big in [false, true] {
            let word = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
            let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
            let mut bytes = [word(magic), version, word(0), word(0), word(65535), word(1)].concat();
            bytes.extend([word(1_700_000_000), word(5), word(3), word(60)].concat());
            bytes.extend(b"abc");
            let frames = read_all(&bytes).expect("a capture");
            assert_eq!(frames, [(1_700_000_000_000_000_000 + ns, 60, 0, b"abc".to_vec())]);
        }
    }
}

#[test]
fn pcapng_in_each_byte_order_with_options_and_unknown_blocks() {
    for big in [false, true] {
        for kind in [ENHANCED_PACKET, PACKET] {
            let w16 = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
            let resolution =
                |n: u8| [&w16(OPTION_TIME_RESOLUTION)[..], &w16(1), &[n, 0, 0, 0]].concat();
            let offset = |s: i64| {
                let s = if big { s.to_be_bytes() } else { s.to_le_bytes() };
                [&w16(OPTION_TIME_OFFSET)[..], &w16(8), &s].concat()
            };
            for (options, units, ns) in [
                (vec![], 7_000_001, 7_000_001_000),
                (resolution(9), 7, 7),
                (resolution(12), 7_999, 7),
                (resolution(0), 3, 3_000_000_000),
                (resolution(0x80 | 10), 1024 * 5 + 512, 5_500_000_000),
                ([resolution(9), offset(-2)].concat(), 5_000_000_000, 3_000_000_000),
            ] {
                let frames = read_all(&section(big, &options, units, kind)).expect("a capture");
                assert_eq!(frames, [(ns, 60, 0, b"frame".to_vec())]);
            }
        }
    }
}

#[test]
fn a_new_section_may_have_the_other_byte_order() {
    let bytes =
        [section(false, &[], 1, ENHANCED_PACKET), section(true, &[], 2, ENHANCED_PACKET)].concat();
    let times: Vec<u64> = read_all(&bytes).expect("a capture").iter().map(|f| f.0).collect();
    assert_eq!(times, [1000, 2000]);
}

#[test]
fn errors_contain_the_reason_and_the_offset() {
    let message = |bytes: &[u8]| read_all(bytes).expect_err("nonsense").to_string();
    assert!(message(b"GIF89a..").contains("neither pcap nor pcapng"));
    assert!(message(b"").contains("ends within a header"));
    let good = section(false, &[], 1, ENHANCED_PACKET);
    let start = good.len() - (12 + 20 + 8 + 12);
    // The packet block's total length.
    for (value, reason) in [(13_u32, "cannot be 13"), (8, "cannot be 8"), (1 << 20, "ends within")]
    {
        let mut bad = good.clone();
        bad[start + 4..start + 8].copy_from_slice(&value.to_le_bytes());
        let message = message(&bad);
        assert!(message.contains(reason) && message.starts_with("test, byte "), "{message}");
    }
    for (at, value, reason) in [
        (8, 3_u32, "interface 3 was not described"),
        (12, u32::MAX, "out of range"),
        // In µs: the year 2378, which fits 64 bits of ns but leaves no room for delays.
        (12, 3_000_000, "out of range"),
        (20, 97, "beyond its block"),
        (20, u32::MAX, "beyond its block"),
    ] {
        let mut bad = good.clone();
        bad[start + at..start + at + 4].copy_from_slice(&value.to_le_bytes());
        assert!(message(&bad).contains(reason), "{}", message(&bad));
    }
    let mut simple = good[..start].to_vec();
    simple.extend(block(SIMPLE_PACKET, &[0; 8], false));
    assert!(message(&simple).contains("no time"));
    let mut long =
        CaptureWriter::new(Vec::new(), "w", CaptureFormat::Pcap, &["a"]).map(|_| ()).map(|()| {
            let mut bytes = PCAP_NANOSECONDS.to_le_bytes().to_vec();
            bytes.extend([2, 0, 4, 0]);
            bytes.extend([0; 16]);
            bytes.extend([0; 8]);
            bytes.extend(u32::MAX.to_le_bytes());
            bytes.extend([0; 4]);
            bytes
        });
    let long = long.as_mut().expect("writer");
    assert!(message(long).contains("4294967295 bytes"));
}

#[test]
fn the_writer_refuses_frames_beyond_the_format() {
    let new = |format, names: &[&str]| CaptureWriter::new(Vec::new(), "w", format, names);
    assert!(new(CaptureFormat::Pcap, &["a", "b"]).is_err());
    assert!(new(CaptureFormat::PcapNg, &[]).is_err());
    let mut writer = new(CaptureFormat::Pcap, &["a"]).expect("writer");
    assert!(writer.write(1, 0, 1, b"x").is_err());
    assert!(writer.write(0, (1 << 32) * 1_000_000_000, 1, b"x").is_err());
    assert!(writer.write(0, 0, 1, &vec![0; MAX_CAPTURED_BYTES + 1]).is_err());
    assert!(writer.write(0, 0, 1, &vec![0; MAX_CAPTURED_BYTES]).is_ok());
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        ng: bool,
        frames in prop::collection::vec((0..1_u64 << 61, 0_u32..2, prop::collection::vec(any::<u8>(), 0..300)), 0..20),
    ) {
        let (format, names) = if ng { (CaptureFormat::PcapNg, &["left", "B"][..]) } else { (CaptureFormat::Pcap, &["left"][..]) };
        let mut bytes = Vec::new();
        let mut writer = CaptureWriter::new(&mut bytes, "w", format, names).expect("writer");
        let mut expected = Vec::new();
        for (time_ns, interface, data) in frames {
            let interface = if ng { interface } else { 0 };
            writer.write(interface, time_ns, data.len() as u32 + 4, &data).expect("write");
            expected.push((time_ns, data.len() as u32 + 4, interface, data));
        }
        drop(writer);
        prop_assert_eq!(CaptureReader::new(&bytes[..], "r").expect("reader").format(), format);
        prop_assert_eq!(read_all(&bytes).expect("a capture"), expected);
        // A truncated copy never panics.
        for cut in 0..bytes.len() {
            let _ = read_all(&bytes[..cut]);
        }
    }
}

#[test]
fn notes_are_options_of_their_blocks_and_frames_are_read_as_before() {
    let interface =
        CaptureInterface { name: "A before", description: "eth0, A to B", snap_bytes: 3 };
    let mut writer =
        CaptureWriter::describing(Vec::new(), "x", CaptureFormat::PcapNg, &[interface]).unwrap();
    let header = std::mem::take(writer.output_mut());
    let notes = FrameNotes { is_received: Some(false), comment: "voice" };
    writer.write_noted(0, 5, 60, b"abc", &notes).unwrap();
    // Cut between characters.
    let long = format!("{}\u{e9}x", "a".repeat(1023));
    writer.write_noted(0, 6, 3, b"abc", &FrameNotes { comment: &long, ..notes }).unwrap();
    writer.write(0, 7, 3, b"abc").unwrap();
    let blocks = std::mem::take(writer.output_mut());
    let has = |bytes: &[u8], wanted: &[u8]| bytes.windows(wanted.len()).any(|at| at == wanted);
    // Snapshot length; code, length, value, padding.
    assert!(has(&header, &[1, 0, 0, 0, 3, 0, 0, 0, 2, 0, 8, 0]));
    assert!(has(&header, b"\x03\0\x0c\0eth0, A to B\x09\0\x01\0\x09"));
    assert!(has(&blocks, b"abc\0\x01\0\x05\0voice\0\0\0\x02\0\x04\0\x02\0\0\0\0\0\0\0"));
    assert!(has(&blocks, &[b"\x01\0\xff\x03", &b"a".repeat(1023)[..], b"\0\x02\0\x04\0"].concat()));
    let frame = |time_ns, len| (time_ns, len, 0, b"abc".to_vec());
    let read = read_all(&[header, blocks].concat()).unwrap();
    assert_eq!(read, [frame(5, 60), frame(6, 3), frame(7, 3)]);
    let long = "x".repeat(1025);
    let interface = CaptureInterface { description: &long, ..interface };
    let refused = CaptureWriter::describing(Vec::new(), "x", CaptureFormat::PcapNg, &[interface]);
    assert!(matches!(refused, Err(Error::Refused { .. })));
}
