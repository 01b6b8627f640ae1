//! The tests of the demo: both transports, both families, both directions, paced and unlimited.

/// What a case claims.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expectation {
    /// Every byte that was sent is received.
    EveryByte,
    /// Every packet is received, and the rate is the asked one.
    EveryPacketAt {
        /// Packets per second.
        packets_per_second: f64,
    },
    /// Whatever is missing is placed by the loss ledger.
    EveryLossPlaced,
}

/// One test.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// In words.
    pub name: &'static str,
    /// What is asked, in words.
    pub asked: String,
    /// Over IPv6.
    pub ipv6: bool,
    /// Flags of `weir test`.
    pub arguments: Vec<String>,
    /// What must hold.
    pub expectation: Expectation,
}

/// The cases, each sending for `seconds`. Link usage is given against a stated 1 Gbit/s, since a virtual link has no rate
/// of its own.
pub fn cases(seconds: f64) -> Vec<Case> {
    let case = |name, asked: &str, ipv6, flags: &str, expectation| Case {
        name,
        asked: asked.into(),
        ipv6,
        arguments: flags
            .split_whitespace()
            .map(String::from)
            .chain(["-t".into(), format!("{seconds}s"), "-i".into(), "0.5".into()])
            .collect(),
        expectation,
    };
    let paced = |packets_per_second| Expectation::EveryPacketAt { packets_per_second };
    vec![
        case("UDP noise floor", "1000 pkt/s", false, "-u -l 160 -b 1000pps", paced(1000.0)),
        case(
            "UDP IPv4",
            "500 Mbit/s",
            false,
            "-u -l 1472 -b 500M --nominal 1G",
            paced(500e6 / 8.0 / 1472.0),
        ),
        case(
            "UDP IPv4, reverse",
            "200 Mbit/s",
            false,
            "-u -l 1472 -b 200M -R --nominal 1G",
            paced(200e6 / 8.0 / 1472.0),
        ),
        case(
            "UDP IPv6",
            "20000 pkt/s",
            true,
            "-u -l 160 -b 20000pps --nominal 1G",
            paced(20_000.0),
        ),
        case(
            "UDP IPv6, reverse",
            "997 pkt/s",
            true,
            "-u -l 1452 -b 997pps -R --nominal 1G",
            paced(997.0),
        ),
        case("UDP, coalesced", "unlimited", false, "-u -l 1472 -b 0", Expectation::EveryLossPlaced),
        case(
            "UDP, per-packet",
            "unlimited",
            false,
            "-u -l 1472 -b 0 --gso off --gro off",
            Expectation::EveryLossPlaced,
        ),
        case("TCP IPv4", "unlimited", false, "", Expectation::EveryByte),
        case("TCP IPv4, reverse", "unlimited", false, "-R", Expectation::EveryByte),
        case("TCP IPv6, 4 streams", "unlimited", true, "-P 4", Expectation::EveryByte),
        case(
            "TCP IPv6, both ways",
            "400 Mbit/s each",
            true,
            "--bidir -b 400M --nominal 1G",
            Expectation::EveryByte,
        ),
    ]
}
