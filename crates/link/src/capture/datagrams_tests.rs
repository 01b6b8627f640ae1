//! Tests on captures made by hand: link types, filters, and what is counted.

use super::*;
use crate::capture::{CaptureFormat, CaptureWriter};

/// An IPv4 packet of a protocol with this transport part.
fn ipv4(protocol: u8, fragment: u16, transport: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + transport.len() as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    packet.extend(transport);
    packet
}

fn udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let header = [ports.0, ports.1, len, 0].map(u16::to_be_bytes).concat();
    ipv4(17, 0, &[&header, payload].concat())
}

fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ethertype.to_be_bytes(), packet].concat()
}

/// A classic capture: time, original length, bytes.
fn capture(link_type: u32, frames: &[(u64, usize, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let writer = CaptureWriter::new(&mut bytes, "test", CaptureFormat::Pcap, &["x"]);
    let mut writer = writer.unwrap();
    for (time, len, frame) in frames {
        writer.write(0, *time, *len as u32, frame).unwrap();
    }
    drop(writer);
    bytes[20..24].copy_from_slice(&link_type.to_le_bytes());
    bytes
}

fn whole(time: u64, frame: Vec<u8>) -> (u64, usize, Vec<u8>) {
    (time, frame.len(), frame)
}

fn read(bytes: &[u8], filter: DatagramFilter) -> (Vec<(u64, Vec<u8>)>, DatagramCounts) {
    let mut reader = DatagramReader::new(bytes, "test", filter).unwrap();
    let mut datagrams = vec![];
    while let Some(datagram) = reader.next_datagram().unwrap() {
        datagrams.push((datagram.time_ns, datagram.payload.to_vec()));
    }
    (datagrams, reader.counts())
}

#[test]
fn datagrams_are_read_and_all_else_is_counted() {
    let tcp = [&[0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0][..]].concat();
    let bad = ethernet(0x0800, &udp((1, 2), b"short")[..24]);
    let bytes = capture(
        1,
        &[
            whole(10, ethernet(0x0800, &udp((1000, 5060), b"first"))),
            whole(20, ethernet(0x0806, &[0; 28])),
            whole(30, ethernet(0x0800, &ipv4(6, 0, &tcp))),
            whole(40, ethernet(0x0800, &ipv4(17, 0x2000, &[0; 16]))),
            whole(50, ethernet(0x0800, &ipv4(47, 0, &[0; 16]))),
            whole(60, bad),
            whole(70, ethernet(0x0800, &udp((5060, 1000), b""))),
        ],
    );
    let (datagrams, counts) = read(&bytes, DatagramFilter::default());
    assert_eq!(datagrams, [(10, b"first".to_vec()), (70, vec![])]);
    let expected = DatagramCounts {
        packets: 7,
        datagrams: 2,
        tcp: 1,
        fragments: 1,
        not_ip: 1,
        other_protocol: 1,
        invalid: 1,
        ..DatagramCounts::default()
    };
    assert_eq!(counts, expected);
}

#[test]
fn a_filter_takes_either_direction() {
    let frames = [(7, 5060), (5061, 8), (9, 10)];
    let frames = frames.map(|ports| whole(0, ethernet(0x0800, &udp(ports, b"x"))));
    let bytes = capture(1, &frames);
    let ports = DatagramFilter { ports: Some(5060..=5061), address: None };
    assert_eq!((read(&bytes, ports.clone()).1.datagrams, read(&bytes, ports).1.unmatched), (2, 1));
    let at = |address: &str| DatagramFilter { ports: None, address: address.parse().ok() };
    assert_eq!(read(&bytes, at("198.18.0.2")).1.datagrams, 3);
    assert_eq!(read(&bytes, at("198.18.0.3")).1.datagrams, 0);
}

#[test]
fn a_truncated_datagram_keeps_its_length() {
    let frame = ethernet(0x0800, &udp((1, 2), &[7; 100]));
    let bytes = capture(1, &[(0, frame.len(), frame[..62].to_vec())]);
    let (datagrams, counts) = read(&bytes, DatagramFilter::default());
    assert_eq!(counts.truncated, 1);
    assert_eq!(datagrams[0].1, [&[7; 20][..], &[0; 80]].concat());
}

#[test]
fn packets_of_other_links_are_read_or_refused() {
    let packet = udp((1, 2), b"data");
    let cooked = [&[0; 14][..], &[8, 0], &packet].concat();
    let cooked2 = [&[8, 0][..], &[0; 18], &packet].concat();
    for (link, frame) in
        [(101, packet.clone()), (228, packet.clone()), (113, cooked), (276, cooked2)]
    {
        let (datagrams, _) = read(&capture(link, &[whole(0, frame)]), DatagramFilter::default());
        assert_eq!(datagrams, [(0, b"data".to_vec())], "{link}");
    }
    let bytes = capture(105, &[whole(0, packet)]);
    let mut reader =
        DatagramReader::new(&bytes[..], "wifi.pcap", DatagramFilter::default()).unwrap();
    let error = reader.next_datagram().unwrap_err();
    let Error::Capture { capture, reason, .. } = &error else { panic!("{error}") };
    assert_eq!(capture, "wifi.pcap");
    assert!(reason.starts_with("packet 1: link type 105"), "{reason}");
}

#[test]
fn damage_is_reported_with_the_number_of_its_packet() {
    let frame = ethernet(0x0800, &udp((1, 2), b"data"));
    let bytes = capture(1, &[whole(0, frame.clone()), whole(1, frame)]);
    let mut reader =
        DatagramReader::new(&bytes[..bytes.len() - 1], "t", DatagramFilter::default()).unwrap();
    assert!(reader.next_datagram().unwrap().is_some());
    let error = reader.next_datagram().unwrap_err();
    assert!(
        matches!(&error, Error::Capture { reason, .. } if reason.starts_with("packet 2: ")),
        "{error}"
    );
}
