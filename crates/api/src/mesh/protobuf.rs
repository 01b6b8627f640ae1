//! The Protocol Buffers format of Prometheus: `io.prometheus.client.MetricFamily`, each preceded by its length.
//!
//! It is the only format in which Prometheus reads native histograms. A few messages are written and none is read, so that the
//! encoding of fields is all that is needed.

use super::histogram::{NativeHistogram, SCHEMA};
use super::{Family, Kind};
use crate::exporter::Number;

/// Part of `Accept` of clients that read it.
pub(super) const ACCEPTED: &str = "application/vnd.google.protobuf";
pub(super) const MEDIA_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

/// A message that is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn uint(&mut self, field: u64, value: u64) {
        self.varint((field << 3) | VARINT);
        self.varint(value);
    }

    /// `sint32` and `sint64`.
    fn sint(&mut self, field: u64, value: i64) {
        self.uint(field, ((value << 1) ^ (value >> 63)) as u64);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.varint((field << 3) | FIXED64);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint((field << 3) | BYTES);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}

pub(super) fn encode(families: &[Family]) -> Vec<u8> {
    let mut out = Message::default();
    for family in families.iter().filter(|family| !family.series.is_empty()) {
        let mut message = Message::default();
        write_family(&mut message, family);
        out.varint(message.0.len() as u64);
        out.0.append(&mut message.0);
    }
    out.0
}

fn write_family(out: &mut Message, family: &Family) {
    out.bytes(1, family.name.as_bytes());
    out.bytes(2, family.help.as_bytes());
    out.uint(
        3,
        match family.kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
            Kind::Histogram => 4,
        },
    );
    for (labels, value) in &family.series {
        out.message(4, |metric| {
            for (name, value) in labels {
                metric.message(1, |label| {
                    label.bytes(1, name.as_bytes());
                    label.bytes(2, value.as_bytes());
                });
            }
            let number = match value {
                Number::Histogram(histogram) => {
                    metric.message(7, |out| write_histogram(out, histogram));
                    return;
                }
                Number::Integer(number) => *number as f64,
                Number::Real(number) => *number,
            };
            let field = if family.kind == Kind::Counter { 3 } else { 2 };
            metric.message(field, |out| out.double(1, number));
        });
    }
}

fn write_histogram(out: &mut Message, histogram: &NativeHistogram) {
    out.uint(1, histogram.count);
    out.double(2, histogram.sum);
    out.sint(5, SCHEMA.into());
    out.double(6, 0.0);
    out.uint(7, 0);
    let spans = histogram.spans();
    for span in &spans {
        out.message(12, |message| {
            message.sint(1, span.offset.into());
            message.uint(2, span.counts.len() as u64);
        });
    }
    // A histogram without buckets needs a span, which marks it as native.
    if spans.is_empty() {
        out.message(12, |message| {
            message.sint(1, 0);
            message.uint(2, 0);
        });
    }
    let mut before = 0;
    for count in spans.iter().flat_map(|span| &span.counts) {
        let count = *count as i64;
        out.sint(13, count - before);
        before = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_protocol_buffers_state() {
        let mut message = Message::default();
        message.uint(1, 150);
        message.sint(2, -2);
        message.double(3, 1.0);
        message.message(4, |inner| inner.bytes(1, b"ab"));
        let expected = [
            &[0x08, 0x96, 0x01][..],
            &[0x10, 0x03],
            &[0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
            &[0x22, 0x04, 0x0a, 0x02, b'a', b'b'],
        ];
        assert_eq!(message.0, expected.concat());
    }
}
