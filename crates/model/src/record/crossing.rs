//! Whether datagrams crossed the path individually or as super-packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Flow;

/// How datagrams crossed the path, as seen at the receiver's socket. Coalesced and per-packet rates are not
/// comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// All datagrams reached the socket individually.
    PerPacket,
    /// Super-packets of several datagrams reached the socket (GSO, GRO); some datagrams may have arrived
    /// individually.
    Coalesced,
    /// Several flows or runs of which some are per-packet and some coalesced. A single flow is never mixed.
    Mixed,
}

impl Crossing {
    /// The value for several flows; absent if no UDP datagram arrived.
    #[must_use]
    pub fn of<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> Option<Crossing> {
        let udp = flows.into_iter().filter(|f| f.transport.datagrams());
        Crossing::all(udp.map(|f| f.receiver.as_ref()?.crossing))
    }

    /// Combines several values; absent if there are none.
    #[must_use]
    pub fn all(each: impl IntoIterator<Item = Option<Crossing>>) -> Option<Crossing> {
        let known = each.into_iter().flatten();
        known.reduce(|all, one| if all == one { all } else { Crossing::Mixed })
    }

    /// Its name in text, tables and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Crossing::PerPacket => "per-packet",
            Crossing::Coalesced => "coalesced",
            Crossing::Mixed => "mixed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TransportName;
    use crate::record::Receiver;

    fn flow(transport: TransportName, crossing: Option<Crossing>) -> Flow {
        let receiver = Some(Receiver { crossing, ..Receiver::default() });
        Flow { transport, receiver, ..Flow::default() }
    }

    #[test]
    fn flows_that_differ_are_mixed() {
        let (one, many) = (Some(Crossing::PerPacket), Some(Crossing::Coalesced));
        let udp = |crossing| flow(TransportName::Udp, crossing);
        assert_eq!(Crossing::of(&[udp(one), udp(one), udp(None)]), one);
        assert_eq!(Crossing::of(&[udp(many), flow(TransportName::Tcp, None)]), many);
        assert_eq!(Crossing::of(&[udp(one), udp(many), udp(one)]), Some(Crossing::Mixed));
        assert_eq!(Crossing::of(&[flow(TransportName::Tcp, one), udp(None)]), None);
    }

    #[test]
    fn word_equals_json_value() {
        for crossing in [Crossing::PerPacket, Crossing::Coalesced, Crossing::Mixed] {
            assert_eq!(serde_json::to_value(crossing).unwrap(), crossing.word());
        }
    }
}
