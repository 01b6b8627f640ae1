//! Unix datagram sockets: messages between two processes of one host. The sender waits while the receiver's
//! queue is full, so no message is lost.

use super::options::Options;
use super::{Description, Headers};
use crate::plan::{ConnectionFields, Family, MAX_UDP_PAYLOAD_V4};
use crate::units::{ByteSize, SendRate};

/// A Unix datagram socket.
pub(super) struct UnixDatagram;

impl Description for UnixDatagram {
    fn label(&self) -> &'static str {
        "unix-datagram"
    }

    fn title(&self) -> &'static str {
        "Unix datagram"
    }

    fn datagrams(&self) -> bool {
        true
    }

    fn ordered(&self) -> bool {
        true
    }

    fn backpressure(&self) -> bool {
        true
    }

    /// It has no port.
    fn shares_port(&self) -> bool {
        false
    }

    fn headers(&self) -> Option<Headers> {
        None
    }

    fn payload_bytes(&self, _: Option<Family>) -> (u64, u64) {
        (0, MAX_UDP_PAYLOAD_V4)
    }

    fn default_rate(&self, _: Option<ByteSize>) -> SendRate {
        SendRate::UNLIMITED
    }

    /// As UDP over Ethernet, so that the two can be compared.
    fn default_payload(&self, _: Option<SendRate>, _: Family, _: u32) -> u64 {
        1472
    }
}

/// It has no options of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnixDatagramOptions;

impl Options for UnixDatagramOptions {
    fn take(&mut self, _: &mut ConnectionFields) {}
    fn put(&self, _: &mut ConnectionFields) {}
    fn names(&self, _: &mut Vec<&'static str>) {}
}
