//! Unix stream sockets: a byte stream between two processes of one host.

use super::options::Options;
use super::tcp::{WRITE_BYTES, default_write};
use super::{Description, Headers, StreamOptions};
use crate::plan::{ConnectionFields, Family};
use crate::units::{ByteSize, SendRate};

/// A Unix stream socket.
pub(super) struct Unix;

impl Description for Unix {
    fn label(&self) -> &'static str {
        "unix"
    }

    fn title(&self) -> &'static str {
        "Unix stream"
    }

    fn datagrams(&self) -> bool {
        false
    }

    fn ordered(&self) -> bool {
        true
    }

    fn headers(&self) -> Option<Headers> {
        None
    }

    fn payload_bytes(&self, _: Option<Family>) -> (u64, u64) {
        WRITE_BYTES
    }

    fn default_rate(&self, _: Option<ByteSize>) -> SendRate {
        SendRate::UNLIMITED
    }

    fn default_payload(&self, rate: Option<SendRate>, _: Family, _: u32) -> u64 {
        default_write(rate)
    }
}

/// Options of a Unix stream: the kernel sends without a copy, but discards nothing unread.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnixOptions {
    stream: StreamOptions,
}

impl Options for UnixOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.stream.zero_copy = fields.zero_copy.take().unwrap_or_default();
    }

    fn put(&self, fields: &mut ConnectionFields) {
        fields.zero_copy = self.stream.zero_copy.then_some(true);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.push("zero_copy");
    }

    fn stream(&self) -> Option<&StreamOptions> {
        Some(&self.stream)
    }
}
