//! Ethernet frames without IP: datagrams between two interfaces of one link, with an EtherType for experiments (RFC 9542).

use super::options::{Group, Options};
use super::udp::default_rate;
use super::{Description, Headers, IpOptions};
use crate::plan::{ConnectionFields, Family, MAX_UDP_PAYLOAD_V4};
use crate::units::{ByteSize, SendRate};

/// Bytes of the header behind Ethernet's: a protocol, two flow numbers and a length.
const HEADER_BYTES: u8 = 8;

/// Ethernet frames.
pub(super) struct Ethernet;

impl Description for Ethernet {
    fn label(&self) -> &'static str {
        "ethernet"
    }

    fn title(&self) -> &'static str {
        "Ethernet"
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn ordered(&self) -> bool {
        false
    }

    fn unit_of_payload(&self) -> &'static str {
        "frames"
    }

    fn frames(&self) -> bool {
        true
    }

    fn bypasses(&self) -> bool {
        true
    }

    /// It has no ports.
    fn shares_port(&self) -> bool {
        false
    }

    fn headers(&self) -> Option<Headers> {
        Some(Headers { bytes: HEADER_BYTES, timestamp_bytes: 0 })
    }

    /// The MTU of the two interfaces is the limit; it is known when a test starts.
    fn payload_bytes(&self, _: Option<Family>) -> (u64, u64) {
        (0, MAX_UDP_PAYLOAD_V4)
    }

    fn default_rate(&self, payload: Option<ByteSize>) -> SendRate {
        default_rate(payload)
    }

    fn default_payload(&self, _: Option<SendRate>, _: Family, path_mtu_bytes: u32) -> u64 {
        // Loopback's MTU of 65 536 would give frames that no link carries.
        u64::from(path_mtu_bytes.clamp(576, 9000)) - u64::from(HEADER_BYTES)
    }
}

/// Its option, which sockets of IP have as well.
const OPTIONS: &[&str] = &["priority"];

/// Options of Ethernet frames.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EthernetOptions {
    ip: IpOptions,
}

impl Options for EthernetOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.ip.take_only(OPTIONS, fields);
    }

    fn put(&self, fields: &mut ConnectionFields) {
        self.ip.put(fields);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.extend(OPTIONS);
    }

    fn ip(&self) -> Option<&IpOptions> {
        Some(&self.ip)
    }

    fn ip_mut(&mut self) -> Option<&mut IpOptions> {
        Some(&mut self.ip)
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelError;
    use crate::plan::{Family, Plan};

    fn plan(connection: &str) -> Result<Plan, ModelError> {
        let plan = Plan::parse(&format!(
            "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"ethernet\"\n{connection}"
        ))?;
        plan.check().map(|()| plan)
    }

    #[test]
    fn frames_have_datagrams_and_transactions_but_nothing_of_ip() {
        assert!(plan("priority = 3\npayload = \"0\"\nrate = \"10pps\"").is_ok());
        assert!(plan("shape = \"rr\"\nrequest = \"100\"\nresponse = \"100\"").is_ok());
        for (connection, field) in [
            ("tos = 8", "tos"),
            ("ttl = 3", "ttl"),
            ("client_port = 9", "client_port"),
            ("dont_fragment = true", "dont_fragment"),
            ("gso = \"on\"", "gso"),
            ("kernel_pacing = \"1M\"", "kernel_pacing"),
            ("payload = \"65508\"", "payload"),
            ("shape = \"crr\"", "shape"),
            ("host = \"unix:/run/weir\"", "transport"),
        ] {
            let found = match plan(connection) {
                Err(ModelError::Field { field, .. }) => field,
                Err(ModelError::Document(error)) => error.field.to_string(),
                other => panic!("{connection}: {other:?}"),
            };
            assert!(found.ends_with(field), "{connection}: {found}");
        }
    }

    #[test]
    fn the_default_payload_fills_a_frame() {
        let plan = plan("").unwrap();
        for (mtu, payload) in [(1500, 1492), (9000, 8992), (65_536, 8992)] {
            assert_eq!(plan.flows(Family::Ipv4, mtu)[0].payload_bytes(), payload);
        }
        assert_eq!(plan.connections[0].send_rate().to_string(), "1M");
    }
}
