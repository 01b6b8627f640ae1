//! What the server sends back of what it receives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::transport::Refusal;
use super::{Connection, Direction, HeaderFormat, TransportName};
use crate::ModelError;
use crate::units::ByteSize;

/// Minimum bytes of a datagram that comes back: its whole data header, whose number and tag identify it.
const MIN_BYTES: u64 = 32;
/// Maximum of the same.
const MAX_BYTES: u64 = 65_535;

/// What the server sends back of each datagram, or of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Echo {
    /// All bytes.
    Whole,
    /// The first bytes of each datagram, at most this many.
    First(u32),
}

impl Echo {
    /// The most bytes that come back of a datagram; `None`: all.
    #[must_use]
    pub fn most_bytes(self) -> Option<usize> {
        match self {
            Echo::Whole => None,
            Echo::First(bytes) => Some(bytes as usize),
        }
    }
}

impl std::str::FromStr for Echo {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        if text == "whole" {
            return Ok(Echo::Whole);
        }
        let bytes = text.parse::<ByteSize>().ok();
        let bytes = bytes.filter(|bytes| (MIN_BYTES..=MAX_BYTES).contains(&bytes.0));
        bytes.map(|bytes| Echo::First(bytes.0 as u32)).ok_or_else(|| ModelError::Value {
            what: "echo",
            given: text.into(),
            accepted: "whole, or the number of first bytes of each datagram, 32 to 65535",
        })
    }
}

impl std::fmt::Display for Echo {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Echo::Whole => f.pad("whole"),
            Echo::First(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl Serialize for Echo {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Echo {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(crate::document::refused)
    }
}

impl JsonSchema for Echo {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Echo".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "whole, or the number of first bytes of each datagram, 32 to 65 535",
            "examples": ["whole", "64"],
        })
    }
}

impl Connection {
    /// The first field that is invalid with an echo: field, given value, accepted values.
    pub(super) fn refused_by_echo(&self) -> Option<Refusal> {
        let echo = self.echo?;
        let given = |value: &dyn std::fmt::Display| format!("{value} with echo {echo}");
        let name = self.transport.name();
        if !name.transactions() || name.echoes() {
            let fits = |name: &&TransportName| name.transactions() && !name.echoes();
            let names = TransportName::ALL.iter().filter(fits).map(|name| name.label());
            let accepted = format!("transport {}", crate::one_of(names));
            return Some(("echo", format!("{echo} with transport {name}"), accepted));
        }
        if self.shape.has_transactions() {
            let accepted = "stream: transactions have responses of their own";
            return Some(("shape", given(&self.shape), accepted.into()));
        }
        if self.direction != Direction::Forward {
            let accepted = "forward: the server sends back what the client sends";
            return Some(("direction", given(&self.direction), accepted.into()));
        }
        if !name.datagrams() {
            if let Echo::First(_) = echo {
                let accepted = "whole: a stream has no datagrams to truncate";
                return Some(("echo", format!("{echo} with transport {name}"), accepted.into()));
            }
            if self.transport.stream().is_some_and(|stream| stream.discard) {
                let accepted = "false: the server reads what it sends back";
                return Some(("discard", given(&"true"), accepted.into()));
            }
            return None;
        }
        if !self.header.echoed() {
            let echoed = HeaderFormat::ALL.iter().filter(|format| format.echoed());
            let accepted = crate::one_of(echoed.map(|format| format.label()));
            return Some(("header", given(&self.header), accepted));
        }
        let payload = self.payload.as_ref();
        if let Some(payload) = payload.filter(|size| size.moments().min_bytes < MIN_BYTES) {
            let accepted = format!("from {MIN_BYTES} bytes: the whole data header comes back");
            return Some(("payload", given(payload), accepted));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_are_whole_or_a_number_of_bytes() {
        for text in ["whole", "32", "65535"] {
            assert_eq!(text.parse::<Echo>().unwrap().to_string(), text);
        }
        assert_eq!("1K".parse::<Echo>().unwrap(), Echo::First(1024));
        for text in ["", "0", "31", "64K", "-1", "half"] {
            assert!(text.parse::<Echo>().is_err(), "{text}");
        }
    }
}
