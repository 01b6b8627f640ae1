//! The tests of the demo: both transports, both families, both directions, paced and unlimited.

use weir_model::ModelError;
use weir_model::plan::Plan;

/// The claim of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expectation {
    /// Every byte that was sent is received.
    EveryByte,
    /// Every packet is received, and the rate is the requested one.
    EveryPacketAt {
        /// Packets per second.
        packets_per_second: f64,
    },
    /// The loss ledger accounts for every missing packet.
    EveryLossPlaced,
}

/// One test.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// In words.
    pub name: &'static str,
    /// The request as text.
    pub asked: String,
    /// Over IPv6.
    pub ipv6: bool,
    /// What is run.
    pub plan: Plan,
    /// What must hold.
    pub expectation: Expectation,
}

/// The cases, each sending for `seconds`. None states a nominal rate: a virtual link has none.
///
/// # Errors
/// None: the plans are constant except for `seconds`.
pub(crate) fn cases(seconds: f64) -> Result<Vec<Case>, ModelError> {
    let case = |name, asked: &str, ipv6, connection: &str, expectation| {
        let fields: Vec<String> = connection
            .split(", ")
            .filter(|field| !field.is_empty())
            .chain([format!("duration = '{seconds}s'").as_str()])
            .map(|field| format!("{field}\n"))
            .collect();
        let table = format!("[[connection]]\n{}", fields.concat());
        let back = match connection.contains("rate = '400M'") {
            true => format!("{table}direction = 'reverse'\n"),
            false => String::new(),
        };
        let plan = Plan::parse(&format!(
            "schema = 'weir.plan/1'\ninterval = '500ms'\nseed = 1\n{table}{back}"
        ))?;
        Ok(Case { name, asked: asked.into(), ipv6, plan, expectation })
    };
    let paced = |packets_per_second| Expectation::EveryPacketAt { packets_per_second };
    [
        case(
            "UDP noise floor",
            "1000 pkt/s",
            false,
            "transport = 'udp', payload = 160, rate = '1000pps'",
            paced(1000.0),
        ),
        case(
            "UDP IPv4",
            "500 Mbit/s",
            false,
            "transport = 'udp', payload = 1472, rate = '500M'",
            paced(500e6 / 8.0 / 1472.0),
        ),
        case(
            "UDP IPv4, reverse",
            "200 Mbit/s",
            false,
            "transport = 'udp', payload = 1472, rate = '200M', direction = 'reverse'",
            paced(200e6 / 8.0 / 1472.0),
        ),
        case(
            "UDP IPv6",
            "20000 pkt/s",
            true,
            "transport = 'udp', payload = 160, rate = '20000pps'",
            paced(20_000.0),
        ),
        case(
            "UDP IPv6, reverse",
            "997 pkt/s",
            true,
            "transport = 'udp', payload = 1452, rate = '997pps', direction = 'reverse'",
            paced(997.0),
        ),
        case(
            "UDP, coalesced",
            "unlimited",
            false,
            "transport = 'udp', payload = 1472, rate = 0",
            Expectation::EveryLossPlaced,
        ),
        case(
            "UDP, per-packet",
            "unlimited",
            false,
            "transport = 'udp', payload = 1472, rate = 0, gso = 'off', gro = 'off'",
            Expectation::EveryLossPlaced,
        ),
        case("TCP IPv4", "unlimited", false, "transport = 'tcp'", Expectation::EveryByte),
        case(
            "TCP IPv4, reverse",
            "unlimited",
            false,
            "transport = 'tcp', direction = 'reverse'",
            Expectation::EveryByte,
        ),
        case(
            "TCP IPv6, 4 streams",
            "unlimited",
            true,
            "transport = 'tcp', count = 4",
            Expectation::EveryByte,
        ),
        case(
            "TCP IPv6, both directions",
            "400 Mbit/s each",
            true,
            "transport = 'tcp', rate = '400M'",
            Expectation::EveryByte,
        ),
    ]
    .into_iter()
    .collect()
}
