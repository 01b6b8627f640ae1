//! Bodies of the fuzz targets: parsers of untrusted input must answer, never panic.

use super::entry::Entry;
use super::netlink::{parse_answer, parse_link};

/// A registry entry: an accepted one must survive writing and reading.
pub fn fuzz_entry(data: &[u8]) {
    if let Ok(entry) = Entry::parse(data, None) {
        let bytes = entry.to_bytes().unwrap_or_default();
        assert_eq!(Entry::parse(&bytes, Some(&entry.name)).ok(), Some(entry));
    }
}

/// A datagram from the routing socket.
pub fn fuzz_route_answer(data: &[u8]) {
    for sequence in [0, 1] {
        if let Ok(Some(body)) = parse_answer(data, sequence) {
            assert!(body.len() <= data.len());
            let _ = parse_link(body);
        }
    }
    let _ = parse_link(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_laws::mutation::replay;

    const ENTRY: &[u8] = br#"{"schema":"weir.lab/1","name":"x","boot_id":"b","holder":{"pid":7,"start_time":9},"user_descriptor":3,"nodes":[{"name":"a","net_descriptor":4,"inode":5,"host":{"name":"a","ipv4":"198.18.0.1","ipv6":"2001:2::1","interface":"eth0"}},{"name":"b","net_descriptor":5,"inode":6,"host":{"name":"b","ipv4":"198.18.0.2","ipv6":"2001:2::2","interface":"eth0"}},{"name":"m","net_descriptor":6,"inode":7}]}"#;

    #[test]
    fn entries_mutated() {
        assert!(Entry::parse(ENTRY, None).is_ok());
        replay(&[ENTRY], 5000, fuzz_entry);
    }

    #[test]
    fn entries_that_lie_are_refused() {
        let text = std::str::from_utf8(ENTRY).unwrap();
        let other = "other".parse().unwrap();
        assert!(Entry::parse(ENTRY, Some(&other)).is_err());
        for (from, to) in [
            ("weir.lab/1", "weir.lab/2"),
            ("\"name\":\"x\"", "\"name\":\"../x\""),
            ("\"pid\":7", "\"pid\":0"),
            ("\"pid\":7", "\"pid\":4294967295"),
            ("\"pid\":7", "\"pid\":-1"),
            ("\"name\":\"m\"", "\"name\":\"\\u001b[2J\""),
            ("\"name\":\"b\",\"net", "\"name\":\"c\",\"net"),
            ("\"boot_id\"", "\"extra\":1,\"boot_id\""),
            ("\"inode\":7}", "\"inode\":7},{\"name\":\"switch\",\"net_descriptor\":7,\"inode\":8}"),
            ("\"inode\":7}", "\"inode\":7},{\"name\":\"m\",\"net_descriptor\":7,\"inode\":8}"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(Entry::parse(changed.as_bytes(), None).is_err(), "{to}");
        }
        assert!(Entry::parse(&vec![b' '; 65 * 1024], None).is_err());
    }

    #[test]
    fn route_answers_mutated() {
        // RTM_NEWLINK, sequence 1: index 2, MTU 1500, operstate up.
        let mut answer = vec![0_u8; 48];
        answer[0] = 48;
        answer[4] = 16;
        answer[8] = 1;
        answer[20] = 2;
        answer[32..40].copy_from_slice(&[8, 0, 4, 0, 0xdc, 5, 0, 0]);
        answer[40..48].copy_from_slice(&[5, 0, 16, 0, 6, 0, 0, 0]);
        if cfg!(target_endian = "little") {
            let body = parse_answer(&answer, 1).unwrap().unwrap();
            let link = parse_link(body).unwrap();
            assert_eq!((link.index, link.mtu_bytes, link.is_up), (2, Some(1500), true));
        }
        // Lengths of zero must not stall.
        replay(&[answer, vec![0; 64]], 5000, fuzz_route_answer);
    }
}
