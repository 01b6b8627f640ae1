//! The shape of a connection's traffic: a stream of data, or transactions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::transport::{Refusal, icmp};
use super::{Connection, Direction, HeaderFormat, Switch, TransportName};
use crate::ModelError;
use crate::units::{ByteSize, RateLimit};

/// Default size of a request and of a response over a stream, bytes.
const STREAM_BYTES: u64 = 1;
/// The same of datagrams, which then have whole numbers.
const DATAGRAM_BYTES: u64 = 8;
/// Bytes of the number of a datagram, at most.
const NUMBER_BYTES: u64 = 8;
/// The same at least, where several requests may be in flight.
const MIN_NUMBER_BYTES: u64 = 4;
/// Maximum number of requests in flight of one connection.
const MAX_OUTSTANDING: u32 = 1024;

/// The shape of a connection's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One end sends data.
    #[default]
    Stream,
    /// Request and response: the client sends requests, and the server answers each.
    Rr,
    /// Connect, request and response: each transaction has a connection of its own.
    Crr,
    /// Connect and close: a transaction is a connection without request and response.
    Cc,
    /// Transfers: each transaction is a connection that carries a volume of data drawn from a law.
    Transfers,
}

impl Shape {
    /// All shapes.
    pub const ALL: &[Shape] = &[Shape::Stream, Shape::Rr, Shape::Crr, Shape::Cc, Shape::Transfers];

    /// Its name in documents and on the command line.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Shape::Stream => "stream",
            Shape::Rr => "rr",
            Shape::Crr => "crr",
            Shape::Cc => "cc",
            Shape::Transfers => "transfers",
        }
    }

    /// Whether it consists of transactions.
    #[must_use]
    pub fn has_transactions(self) -> bool {
        self != Shape::Stream
    }

    /// Whether each transaction has a connection of its own.
    #[must_use]
    pub fn connects(self) -> bool {
        matches!(self, Shape::Crr | Shape::Cc | Shape::Transfers)
    }

    /// Whether its transactions have a request and a response.
    #[must_use]
    pub fn has_data(self) -> bool {
        matches!(self, Shape::Rr | Shape::Crr)
    }

    /// Whether each transaction carries a volume of its own.
    #[must_use]
    pub fn has_volumes(self) -> bool {
        self == Shape::Transfers
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.label())
    }
}

impl std::str::FromStr for Shape {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let found = Self::ALL.iter().find(|shape| shape.label() == text);
        found.copied().ok_or_else(|| ModelError::Value {
            what: "shape",
            given: text.into(),
            accepted: "stream, rr, crr, cc or transfers",
        })
    }
}

impl Connection {
    /// What it is, for the name of its flows: `tcp-forward`, `udp-rr`.
    pub(super) fn kind(&self) -> String {
        let name = self.transport.name();
        match (self.shape.has_transactions(), self.direction) {
            (true, Direction::Forward) => format!("{name}-{}", self.shape),
            (true, Direction::Reverse) => format!("{name}-{}-{}", self.shape, self.direction),
            (false, direction) => format!("{name}-{direction}"),
        }
    }

    /// Bytes of a request.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.size_of(self.request)
    }

    /// Bytes of a response.
    #[must_use]
    pub fn response_bytes(&self) -> u64 {
        self.size_of(self.response.or(self.request.filter(|_| self.transport.echoes())))
    }

    fn size_of(&self, stated: Option<ByteSize>) -> u64 {
        let datagrams = self.transport.datagrams();
        let default = match datagrams {
            true if self.transport.echoes() => icmp::DEFAULT_BYTES,
            true => DATAGRAM_BYTES,
            false => STREAM_BYTES,
        };
        match self.shape.has_data() {
            true => stated.map_or(default, |size| size.0),
            false => 0,
        }
    }

    /// Maximum number of requests in flight, where no rate is stated.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding.unwrap_or(1)
    }

    /// Bytes of the number by which a response names its request: as many as both hold, 8 at most. 0 for streams, whose
    /// responses are in order.
    #[must_use]
    pub fn number_bytes(&self) -> usize {
        match self.shape.has_data() && self.transport.datagrams() {
            true => self.request_bytes().min(self.response_bytes()).min(NUMBER_BYTES) as usize,
            false => 0,
        }
    }

    /// Whether small writes leave immediately: a request or an echo that waits for others to fill a segment would measure the
    /// wait.
    #[must_use]
    pub fn no_delay(&self) -> bool {
        let is_stated = self.transport.tcp_options().is_some_and(|o| o.no_delay);
        self.shape.has_transactions() || self.echo.is_some() || is_stated
    }

    /// Whether a request waits for the response to an earlier one: no rate is stated.
    fn is_closed_loop(&self) -> bool {
        self.send_rate().limit == RateLimit::Unlimited
    }

    /// The first field that is invalid with this shape: field, given value, accepted values.
    pub(super) fn refused_by_shape(&self, most_payload: u64) -> Option<Refusal> {
        let shape = self.shape;
        let given = |value: &dyn std::fmt::Display| format!("{value} with shape {shape}");
        let sizes = [("request", self.request), ("response", self.response)];
        if !shape.has_data()
            && let Some((field, Some(size))) = sizes.into_iter().find(|(_, size)| size.is_some())
        {
            return Some((field, given(&size), "with shape rr or crr".into()));
        }
        if let Some(refusal) = self.refused_by_transfers() {
            return Some(refusal);
        }
        if let Some(size) = self.response.filter(|_| self.transport.echoes()) {
            let given = format!("{size} with transport {}", self.transport.name());
            return Some((
                "response",
                given,
                "absent: a reply returns the bytes of its request".into(),
            ));
        }
        if !shape.has_transactions() {
            let outstanding = self.outstanding.map(|n| given(&n));
            return outstanding
                .map(|given| ("outstanding", given, "with shape rr, crr, cc or transfers".into()));
        }
        let transport = self.transport.name();
        let fits = |name: &&TransportName| {
            let has_sockets = !name.datagrams() || shape.has_volumes() && name.shares_port();
            name.transactions() && (!shape.connects() || has_sockets)
        };
        if !fits(&&transport) {
            let names = TransportName::ALL.iter().filter(fits).map(|name| name.label());
            let accepted = format!("transport {}", crate::one_of(names));
            return Some(("shape", format!("{shape} with transport {transport}"), accepted));
        }
        if self.direction != Direction::Forward && !shape.has_volumes() {
            return Some((
                "direction",
                given(&self.direction),
                "forward: the client sends the requests".into(),
            ));
        }
        if let Some(payload) = self.payload.as_ref().filter(|_| !self.transfers_datagrams()) {
            let accepted = match self.transport.echoes() {
                true => format!(
                    "one size of all requests, {} to {most_payload} bytes (`request`)",
                    icmp::MIN_BYTES
                ),
                false if shape.has_volumes() => "`volume` is the size of a transfer".into(),
                false => "`request` and `response` are the sizes of transactions".into(),
            };
            return Some(("payload", given(payload), accepted));
        }
        if self.header != HeaderFormat::default() {
            return Some((
                "header",
                given(&self.header),
                "absent: transactions have no data header".into(),
            ));
        }
        let without = [
            ("verify", self.verify),
            ("zero_copy", self.transport.stream().is_some_and(|s| s.zero_copy)),
            ("discard", self.transport.stream().is_some_and(|s| s.discard)),
            ("to_file", self.transport.stream().is_some_and(|s| s.to_file)),
            ("no_half_close", self.transport.stream().is_some_and(|s| s.no_half_close)),
            ("gso", self.transport.udp_options().is_some_and(|udp| udp.gso == Switch::On)),
            ("gro", self.transport.udp_options().is_some_and(|udp| udp.gro == Switch::On)),
        ];
        if let Some((field, _)) = without.into_iter().find(|(_, is_set)| *is_set) {
            let value = if matches!(field, "gso" | "gro") { "on" } else { "true" };
            return Some((field, given(&value), "only with shape stream".into()));
        }
        if let Some(align) = self.transport.stream().and_then(|s| s.align) {
            return Some(("align", given(&align), "only with shape stream".into()));
        }
        if shape.connects()
            && let Some(port) = self.client_port()
            && self.transport.ip().is_some_and(|ip| ip.client_port_last.is_none())
        {
            let accepted = "a range of ports, or absent: each connection has a port of its own";
            return Some(("client_port", given(&port), accepted.into()));
        }
        if let Some(rate) = self.rate.filter(|r| matches!(r.limit, RateLimit::Bits(_))) {
            let accepted = match shape.has_volumes() {
                true => "starts per second (50pps), or 0: each user starts one after the other",
                false => {
                    "requests per second (1000pps), or 0: the next request waits for a response"
                }
            };
            return Some(("rate", given(&rate), accepted.into()));
        }
        if let Some(bytes) = self.bytes {
            return Some(("bytes", given(&bytes), "`packets` or `duration`".into()));
        }
        if let Some(outstanding) = self.outstanding {
            if !(1..=MAX_OUTSTANDING).contains(&outstanding) {
                let accepted = format!("1 to {MAX_OUTSTANDING}");
                return Some(("outstanding", outstanding.to_string(), accepted));
            }
            if !self.is_closed_loop() {
                let given = format!("{outstanding} with a rate");
                let accepted = "one of `outstanding` and `rate`: at a rate, requests do not wait for responses";
                return Some(("outstanding", given, accepted.into()));
            }
        }
        let is_single = self.outstanding() == 1 && self.is_closed_loop();
        let least = match self.transport.datagrams() && !is_single {
            _ if self.transport.echoes() => icmp::MIN_BYTES,
            true => MIN_NUMBER_BYTES,
            false => 1,
        };
        let bad = |(field, size): &(_, Option<ByteSize>)| {
            let size = size.filter(|size| !(least..=most_payload).contains(&size.0))?;
            let numbers = match least {
                1 => "",
                icmp::MIN_BYTES => ", for a number and a tag",
                _ => ", for a number in each of several datagrams in flight",
            };
            Some((*field, size.to_string(), format!("{least} to {most_payload} bytes{numbers}")))
        };
        sizes.iter().find_map(bad)
    }
}
