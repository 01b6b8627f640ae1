//! Limits that a peer, a file or a broken reader can reach.
#![allow(clippy::unwrap_used)]

use std::hash::Hasher;
use std::io::{self, ErrorKind, Read};

use siphasher::sip::SipHasher24;
use weir_wire::checksum::Sum;
use weir_wire::control::{ClockIdentity, ClockState, Hello};
use weir_wire::datagram::{DatagramKey, claimed_session};
use weir_wire::packet::Ipv4;
use weir_wire::packets::{
    MAX_METADATA_LEN, PacketLogReader, PacketLogWriter, PacketsError, RECORD_LEN, Record,
    RecordKind,
};

#[test]
fn a_clock_is_shared_only_in_one_time_namespace() {
    let identity = |boot_id: &str, time_namespace: &str| ClockIdentity {
        boot_id: boot_id.into(),
        time_namespace: time_namespace.into(),
    };
    assert!(identity("b", "n").is_same_clock(&identity("b", "n")));
    assert!(!identity("b", "n").is_same_clock(&identity("b", "m")));
    assert!(!identity("b", "n").is_same_clock(&identity("c", "n")));
    assert!(!identity("", "n").is_same_clock(&identity("", "n")));
}

#[test]
fn the_common_version_is_the_smaller_maximum() {
    let hello =
        |protocol_min, protocol_max| Hello { protocol_min, protocol_max, ..Hello::default() };
    for (a, b, common) in [
        ((1, 3), (1, 5), Some(3)),
        ((1, 3), (3, 5), Some(3)),
        ((1, 3), (4, 5), None),
        ((2, 2), (1, 1), None),
    ] {
        let (a, b) = (hello(a.0, a.1), hello(b.0, b.1));
        assert_eq!((a.common_protocol(&b), b.common_protocol(&a)), (common, common));
    }
}

#[test]
fn an_offset_sent_by_a_peer_saturates() {
    let mut c = ClockState { offset_ns: i64::MAX, skew_ppb: i64::MAX, ..ClockState::default() };
    assert_eq!(c.offset_at_client(1_000_000_000), i64::MAX);
    (c.offset_ns, c.skew_ppb) = (i64::MIN, i64::MIN);
    assert_eq!(c.offset_at_client(1_000_000_000), i64::MIN);
}

#[test]
fn both_halves_of_a_sessions_key_are_derived_as_documented() {
    let session: [u8; 16] = core::array::from_fn(|i| i as u8 * 3);
    let half = |n: u32| {
        let mut hasher = SipHasher24::new_with_key(&session);
        hasher.write(b"weir.udp");
        hasher.write(&n.to_le_bytes());
        hasher.finish().to_le_bytes()
    };
    let bytes = [half(0), half(1)].concat();
    assert_ne!(half(0), half(1));
    let expected = DatagramKey::from_bytes(&bytes.try_into().unwrap());
    assert!(DatagramKey::for_session(&session) == expected);
}

#[test]
fn data_of_a_control_datagrams_size_has_no_session() {
    assert_eq!(claimed_session(&[0; 64]), None);
}

#[test]
fn a_sum_is_folded_until_nothing_carries() {
    // ffff + ffff + 0001: the carry of the second fold makes a third.
    let sum = Sum::new().add_bytes(&[0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0]);
    assert_eq!((sum.folded(), sum.checksum()), (1, 0xfffe));
}

#[test]
fn all_four_ecn_values_are_read() {
    let mut bytes = [0u8; 20];
    (bytes[0], bytes[3]) = (0x45, 20);
    for ecn in 0..4 {
        bytes[1] = 46 << 2 | ecn;
        let packet = Ipv4::new(&bytes).unwrap();
        assert_eq!((packet.dscp(), packet.ecn()), (46, ecn));
    }
}

#[test]
fn metadata_of_the_maximum_length_is_written_and_read() {
    let text = "x".repeat(MAX_METADATA_LEN);
    let log = PacketLogWriter::new(vec![], &text).unwrap().finish().unwrap();
    assert_eq!(PacketLogReader::new(&log[..]).unwrap().metadata(), text);
    let longer = format!("{text}x");
    assert!(matches!(PacketLogWriter::new(vec![], &longer), Err(PacketsError::MetadataLen(_))));
}

/// Returns its pieces one by one; an empty piece looks like the end but is not.
struct Pieces(Vec<io::Result<Vec<u8>>>);

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Ok(0);
        }
        let mut piece = self.0.remove(0)?;
        let n = piece.len().min(out.len());
        out[..n].copy_from_slice(&piece[..n]);
        if n < piece.len() {
            self.0.insert(0, Ok(piece.split_off(n)));
        }
        Ok(n)
    }
}

fn log(records: u64) -> Vec<u8> {
    let mut writer = PacketLogWriter::new(vec![], "{}").unwrap();
    for sequence in 0..records {
        let record = Record {
            sequence,
            time1_ns: None,
            time2_ns: Some(1),
            flow: 1,
            size_bytes: 2,
            copy: 0,
            kind: RecordKind::ARRIVED,
            direction: 0,
            flags: 0,
        };
        writer.write(&record).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn an_interrupted_read_is_retried() {
    let bytes = log(1);
    let interrupted = || Err(ErrorKind::Interrupted.into());
    let pieces =
        vec![interrupted(), Ok(bytes[..30].to_vec()), interrupted(), Ok(bytes[30..].to_vec())];
    let mut reader = PacketLogReader::new(Pieces(pieces)).unwrap();
    assert_eq!(reader.read().unwrap().unwrap().sequence, 0);
    assert_eq!(reader.read().unwrap(), None);
}

#[test]
fn after_a_torn_record_there_are_no_more() {
    let bytes = log(3);
    let tear = bytes.len() - RECORD_LEN - 7;
    let pieces = vec![Ok(bytes[..tear].to_vec()), Ok(vec![]), Ok(bytes[tear..].to_vec())];
    let mut reader = PacketLogReader::new(Pieces(pieces)).unwrap();
    assert!(reader.read().unwrap().is_some());
    assert!(matches!(reader.read(), Err(PacketsError::TruncatedRecord { records: 1 })));
    // Bytes after the torn record are misaligned and must not be read as a record.
    assert_eq!(reader.read().unwrap(), None);
}

#[test]
fn a_reader_that_reports_too_many_bytes_is_harmless() {
    struct Boaster;
    impl Read for Boaster {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            Ok(out.len() + 1000)
        }
    }
    assert!(matches!(PacketLogReader::new(Boaster), Err(PacketsError::Magic)));
}
