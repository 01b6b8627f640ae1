//! Unix stream sockets: a byte stream between two processes of one host.

use super::options::{Group, Options};
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

/// The options of a byte stream that a Unix socket has: the kernel can't discard unread data there.
const OPTIONS: &[&str] = &["zero_copy", "align"];

/// Options of a Unix stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnixOptions {
    stream: StreamOptions,
}

impl Options for UnixOptions {
    fn take(&mut self, fields: &mut ConnectionFields) {
        self.stream.take_only(OPTIONS, fields);
    }

    fn put(&self, fields: &mut ConnectionFields) {
        self.stream.put(fields);
    }

    fn names(&self, out: &mut Vec<&'static str>) {
        out.extend(OPTIONS);
    }

    fn stream(&self) -> Option<&StreamOptions> {
        Some(&self.stream)
    }
}
