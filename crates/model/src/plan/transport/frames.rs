//! Whole frames of a capture, sent on an interface of this host. There is no far end that Weir knows.

use super::options::Options;
use super::{Description, Headers};
use crate::names::HostKind;
use crate::plan::{ConnectionFields, Family};
use crate::units::{ByteSize, SendRate};

/// The header of Ethernet, bytes.
pub(crate) const MIN_BYTES: u64 = 14;
/// As the largest UDP datagram over IPv4, bytes.
const MAX_BYTES: u64 = 65_507;

/// Frames of a capture.
pub(super) struct Frames;

impl Description for Frames {
    fn label(&self) -> &'static str {
        "frames"
    }

    fn title(&self) -> &'static str {
        "Frames"
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn unit_of_payload(&self) -> &'static str {
        "frames"
    }

    fn ordered(&self) -> bool {
        false
    }

    fn connected(&self) -> bool {
        false
    }

    fn shares_port(&self) -> bool {
        false
    }

    fn host_kind(&self) -> HostKind {
        HostKind::Interface
    }

    fn has_server(&self) -> bool {
        false
    }

    fn replays_frames(&self) -> bool {
        true
    }

    fn headers(&self) -> Option<Headers> {
        None
    }

    fn payload_bytes(&self, _: Option<Family>) -> (u64, u64) {
        (MIN_BYTES, MAX_BYTES)
    }

    fn default_rate(&self, _: Option<ByteSize>) -> SendRate {
        SendRate::UNLIMITED
    }

    /// That of Ethernet; the capture states the size of each frame.
    fn default_payload(&self, _: Option<SendRate>, _: Family, _: u32) -> u64 {
        1514
    }
}

/// It has no options of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FramesOptions;

impl Options for FramesOptions {
    fn take(&mut self, _: &mut ConnectionFields) {}
    fn put(&self, _: &mut ConnectionFields) {}
    fn names(&self, _: &mut Vec<&'static str>) {}
}

#[cfg(test)]
mod tests {
    use crate::ModelError;
    use crate::plan::Plan;

    /// The field that a plan of one connection is refused for.
    fn refused(connection: &str) -> Option<String> {
        let text = format!(
            "schema = \"weir.plan/1\"\nhost = \"interface:eth0\"\n[[connection]]\n\
             transport = \"frames\"\ncontent = \"file\"\n{connection}"
        );
        match Plan::parse(&text).and_then(|plan| plan.check()) {
            Ok(()) => None,
            Err(ModelError::Field { field, .. }) => Some(field),
            Err(ModelError::Document(error)) => Some(error.field.to_string()),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_frames_lack_is_refused_by_its_field() {
        assert_eq!(refused("header = \"none\""), None);
        for (connection, field) in [
            ("", "header"),
            ("header = \"none\"\ndirection = \"reverse\"", "direction"),
            ("header = \"none\"\nshape = \"rr\"", "shape"),
            ("header = \"none\"\nttl = 3", "ttl"),
            ("header = \"none\"\npayload = \"13\"", "payload"),
            ("header = \"none\"\nhost = \"h\"", "transport"),
            ("header = \"none\"\n[[connection]]\ntransport = \"unix\"", "transport"),
        ] {
            let found = refused(connection).unwrap_or_default();
            assert!(found.ends_with(field), "{connection}: {found}");
        }
    }
}
