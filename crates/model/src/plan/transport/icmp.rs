//! ICMP and ICMPv6 echo (RFC 792, RFC 4443 section 4): requests that the system of any host answers.

use super::options::{Group, Options};
use super::{Description, Headers};
use crate::plan::{
    ConnectionFields, Family, IpOptions, MAX_UDP_PAYLOAD_V4, MAX_UDP_PAYLOAD_V6, UdpOptions,
};
use crate::units::{ByteSize, RateLimit, SendRate};

/// Payload of a request unless one is stated, bytes: that of ping.
pub(crate) const DEFAULT_BYTES: u64 = 56;
/// The same at least, bytes: a number and a tag, by which a reply is matched with its request.
pub(crate) const MIN_BYTES: u64 = 16;

/// ICMP echo.
pub(super) struct Icmp;

impl Description for Icmp {
    fn label(&self) -> &'static str {
        "icmp"
    }

    fn title(&self) -> &'static str {
        "ICMP"
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn ordered(&self) -> bool {
        false
    }

    fn unit_of_payload(&self) -> &'static str {
        "echo requests"
    }

    fn shares_port(&self) -> bool {
        false
    }

    fn echoes(&self) -> bool {
        true
    }

    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: 8, timestamp_bytes: 0 })
    }

    fn pacing_needs_fq(&self) -> bool {
        true
    }

    /// The header has the size of UDP's, so the limits are the same.
    fn payload_bytes(&self, family: Option<Family>) -> (u64, u64) {
        match family {
            Some(Family::Ipv6) => (MIN_BYTES, MAX_UDP_PAYLOAD_V6),
            _ => (MIN_BYTES, MAX_UDP_PAYLOAD_V4),
        }
    }

    /// As ping: one a second.
    fn default_rate(&self, _: Option<ByteSize>) -> SendRate {
        SendRate { limit: RateLimit::Packets(1.0), burst: 1 }
    }

    fn default_payload(&self, _: Option<SendRate>, _: Family, _: u32) -> u64 {
        DEFAULT_BYTES
    }
}

/// The options that it shares with UDP; it has no ports.
const OPTIONS: &[&str] = &["dont_fragment", "tos", "flow_label", "ttl", "priority"];

/// Options of ICMP echo.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IcmpOptions {
    udp: UdpOptions,
}

impl Options for IcmpOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.udp.take_only(OPTIONS, fields);
    }

    fn put(&self, fields: &mut ConnectionFields) {
        self.udp.put(fields);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.extend(OPTIONS);
    }

    fn ip(&self) -> Option<&IpOptions> {
        Some(&self.udp.ip)
    }

    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        Some(&mut self.udp.ip)
    }

    fn udp(&self) -> Option<&UdpOptions> {
        Some(&self.udp)
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelError;
    use crate::plan::Plan;

    /// The field that a plan of one connection is refused for.
    fn refused(connection: &str) -> Option<String> {
        let text =
            format!("schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"icmp\"\n{connection}");
        let parsed = Plan::parse(&text).and_then(|plan| plan.check());
        match parsed {
            Ok(()) => None,
            Err(ModelError::Field { field, .. }) => Some(field),
            Err(ModelError::Document(error)) => Some(error.field.to_string()),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_echo_lacks_is_refused_by_its_field() {
        assert_eq!(
            refused("shape = \"rr\"\nrequest = \"16\"\nttl = 3\ndont_fragment = true"),
            None
        );
        for (connection, field) in [
            ("", "shape"),
            ("shape = \"crr\"", "shape"),
            ("shape = \"rr\"\ndirection = \"reverse\"", "direction"),
            ("shape = \"rr\"\nresponse = \"100\"", "response"),
            ("shape = \"rr\"\nrequest = \"15\"", "request"),
            ("shape = \"rr\"\npayload = \"100\"", "payload"),
            ("shape = \"rr\"\nrequest = \"15\"\nrate = \"0\"", "request"),
            ("shape = \"rr\"\nclient_port = 9", "client_port"),
            ("shape = \"rr\"\nmss = 1000", "mss"),
            ("shape = \"rr\"\n[[connection]]\ntransport = \"udp\"", "connection"),
        ] {
            let found = refused(connection).unwrap_or_default();
            assert!(found.ends_with(field), "{connection}: {found}");
        }
    }

    #[test]
    fn the_default_is_that_of_ping() {
        let text = "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"icmp\"\nshape = \"rr\"";
        let connection = &Plan::parse(text).unwrap().connections[0];
        assert_eq!(connection.send_rate().to_string(), "1pps");
        assert_eq!((connection.request_bytes(), connection.response_bytes()), (56, 56));
        assert_eq!(connection.number_bytes(), 8);
    }
}
