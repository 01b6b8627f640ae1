//! A stated path MTU: what a connection sends so that no packet is longer.

use super::check::title_of;
use super::transport::{Refusal, Transport};
use super::{Connection, Family, Plan};
use crate::ModelError;

/// Minimum: the smallest TCP segment that Linux sends, with the headers of IPv6 and TCP.
const MIN_BYTES: u32 = 88 + 60;
/// Maximum: the largest MSS that a socket accepts, with the headers of IPv4 and TCP.
const MAX_BYTES: u32 = 32_767 + 40;
/// The largest MSS that a socket accepts.
const MAX_MSS: u32 = 32_767;

/// Bytes of the header of IP.
fn ip_header(family: Family) -> u32 {
    match family {
        Family::Ipv4 => 20,
        Family::Ipv6 => 40,
    }
}

impl Transport {
    /// The path MTU that the plan states, bytes.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        self.ip().and_then(|ip| ip.mtu)
    }
}

impl Plan {
    /// Checks the sizes of a plan that runs over `family`, which it does not state itself.
    ///
    /// # Errors
    /// [`ModelError::Field`] for the first payload that does not fit the stated path MTU.
    pub fn check_mtu(&self, family: Family) -> Result<(), ModelError> {
        for (i, connection) in self.connections.iter().enumerate() {
            if let Some((field, given, accepted)) = connection.refused_by_mtu(family) {
                return Err(ModelError::Field {
                    field: format!("connection[{i}].{field}"),
                    given,
                    accepted,
                });
            }
        }
        Ok(())
    }
}

impl Connection {
    /// Maximum payload of a datagram that fits the stated MTU over `family`.
    pub(super) fn unfragmented_bytes(&self, family: Family) -> Option<u64> {
        let mtu = self.transport.mtu().filter(|_| self.transport.datagrams())?;
        let headers = u32::from(self.transport.name().headers()?.bytes) + ip_header(family);
        Some(u64::from(mtu.saturating_sub(headers)))
    }

    /// Replaces the MTU by the MSS that follows from it over `family`: the packet without the headers of IP and TCP. TCP's options
    /// are a part of it (RFC 6691).
    pub(super) fn fit_segments(&mut self, family: Family) {
        let Some(mtu) = self.transport.mtu() else { return };
        if let Some(options) = self.transport.tcp_options_mut() {
            options.mss = Some(mtu.saturating_sub(ip_header(family) + 20).min(MAX_MSS));
        }
        if let Some(ip) = self.transport.ip_mut() {
            ip.mtu = None;
        }
    }

    /// The first field that contradicts the stated MTU over `family`: field, given value, accepted values.
    pub(super) fn refused_by_mtu(&self, family: Family) -> Option<Refusal> {
        let mtu = self.transport.mtu()?;
        if !(MIN_BYTES..=MAX_BYTES).contains(&mtu) {
            return Some(("mtu", mtu.to_string(), format!("{MIN_BYTES} to {MAX_BYTES}")));
        }
        if let Some(mss) = self.transport.tcp_options().and_then(|tcp| tcp.mss) {
            let given = format!("{mss} with mtu {mtu}");
            return Some(("mss", given, "one of `mss` and `mtu`, which states the MSS".into()));
        }
        let most = self.unfragmented_bytes(family)?;
        let voice = self.voice_payload().filter(|_| self.payload.is_none());
        let sizes = match self.shape.has_data() {
            true => {
                [("request", Some(self.request_bytes())), ("response", Some(self.response_bytes()))]
            }
            false => [("payload", self.max_payload()), ("voice", voice)],
        };
        let (field, bytes) =
            sizes.into_iter().find(|(_, bytes)| bytes.is_some_and(|b| b > most))?;
        let given = format!("{} with mtu {mtu}", bytes?);
        let family = title_of(family);
        Some((field, given, format!("up to {most} bytes, which {family} carries in one packet")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(connection: &str) -> Result<Plan, ModelError> {
        Plan::parse(&format!("schema = \"weir.plan/1\"\n[[connection]]\n{connection}"))
    }

    #[test]
    fn packets_of_the_mtu_have_these_payloads() {
        let mss = |family| {
            let spec = plan("mtu = 1000").unwrap().flows(family, 1500).remove(0);
            spec.connection.transport.tcp_options().and_then(|tcp| tcp.mss)
        };
        assert_eq!((mss(Family::Ipv4), mss(Family::Ipv6)), (Some(960), Some(940)));
        let payload = |transport: &str, family| {
            let text = format!("transport = \"{transport}\"\nmtu = 1000");
            plan(&text).unwrap().flows(family, 1500)[0].payload_bytes()
        };
        assert_eq!(payload("udp", Family::Ipv4), 972);
        assert_eq!(payload("udp", Family::Ipv6), 952);
        assert_eq!(payload("udp-lite", Family::Ipv4), 972);
        // The largest MSS that a socket takes.
        let largest = plan("mtu = 32807").unwrap().flows(Family::Ipv4, 1500).remove(0);
        assert_eq!(largest.connection.transport.tcp_options().unwrap().mss, Some(32_767));
    }

    #[test]
    fn contradictions_are_refused_by_their_field() {
        let refused = |connection: &str| match plan(connection).and_then(|plan| plan.check()) {
            Ok(()) => String::new(),
            Err(ModelError::Document(error)) => error.field.replace("connection[0].", ""),
            Err(other) => panic!("{other:?}"),
        };
        for (connection, field) in [
            ("mtu = 148", ""),
            ("mtu = 147", "mtu"),
            ("mtu = 32808", "mtu"),
            ("mtu = 1000\nmss = 900", "mss"),
            ("transport = \"mptcp\"\nmtu = 1000", ""),
            ("transport = \"udp\"\nmtu = 1000\npayload = \"972\"", ""),
            ("transport = \"udp\"\nmtu = 1000\npayload = \"973\"", "payload"),
            ("transport = \"udp\"\nmtu = 1000\npayload = \"100..973\"", "payload"),
            ("transport = \"udp\"\nmtu = 148\nvoice = \"g711\"", "voice"),
            ("transport = \"udp\"\nshape = \"rr\"\nmtu = 1000\nrequest = \"973\"", "request"),
            ("transport = \"udp\"\nshape = \"rr\"\nmtu = 1000\nresponse = \"1K\"", "response"),
            ("transport = \"ethernet\"\nmtu = 1000", "mtu"),
            ("transport = \"icmp\"\nshape = \"rr\"\nmtu = 1000", "mtu"),
            ("transport = \"unix\"\nmtu = 1000", "mtu"),
        ] {
            assert_eq!(refused(connection), field, "{connection}");
        }
        // Which family a name resolves to is known when it is resolved.
        let plan = plan("transport = \"udp\"\nmtu = 1000\npayload = \"960\"").unwrap();
        assert!(plan.check_mtu(Family::Ipv4).is_ok());
        let refusal = crate::Refusal::from(&plan.check_mtu(Family::Ipv6).unwrap_err());
        assert_eq!(refusal.field.as_deref(), Some("connection[0].payload"));
    }
}
