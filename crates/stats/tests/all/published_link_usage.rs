//! The published table of link usage, recomputed: a check of the source and our factors, not of a
//! measurement.

use weir_stats::{LinkFamily, LinkShape, LinkTransport};

const TABLE: &str = include_str!("../data/ip-traffic-throughput.csv");

#[test]
fn the_published_percentages_follow_from_the_factors() {
    let (mut rows, mut equal) = (0, 0);
    for line in TABLE.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let nominal = if fields[0] == "100BASE-TX" { 100.0 } else { 1000.0 };
        let family = if fields[1] == "ipv4" { LinkFamily::Ipv4 } else { LinkFamily::Ipv6 };
        let (transport, header) = match fields[3] {
            "udp" => (LinkTransport::datagrams(8), 8),
            _ => (LinkTransport::segments(20), 20),
        };
        let payload = 1500 - header - if fields[1] == "ipv4" { 20 } else { 40 };
        let bytes = LinkShape::new(transport, family).packet(payload);
        assert_eq!((bytes.ethernet, bytes.frames), (1518, 1), "{line}");
        // The source truncated the factor to three decimals.
        let factor = (bytes.ethernet as f64 / payload as f64 * 1000.0).floor() / 1000.0;
        let rate: f64 = fields[5].parse().unwrap();
        let printed: f64 = fields[6].parse().unwrap();
        let usage = (rate * factor / nominal * 1000.0).round() / 10.0;
        rows += 1;
        equal += u32::from((usage - printed).abs() < 1e-9);
        assert!((usage - printed).abs() < 0.1 + 1e-9, "{line}: {usage}");
    }
    assert_eq!((rows, equal), (32, 31));
}
