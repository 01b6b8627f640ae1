//! One connection of a plan, and its two forms: typed, and a document's flat table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fields::ConnectionFields;
use super::transport::{Misplaced, Transport, TransportName};
use super::{CatchUp, Direction, HeaderFormat, Size, Spacing};
use crate::content::Content;
use crate::units::{ByteSize, RateLimit, SendRate, Span};

/// One connection of a plan (or several alike, by `count`). Every field has the default of `weir test`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "ConnectionFields", into = "ConnectionFields")]
pub struct Connection {
    /// Name, unique in the plan; flows of a `count` above 1 get `-1`, `-2`, … behind it.
    pub name: String,
    /// Transport, with the options that it has.
    pub transport: Transport,
    /// Which side sends.
    pub direction: Direction,
    /// How many flows like this one, 1 to 100 000.
    pub count: u32,
    /// Payload bytes of a datagram (0 to 65 507, or 65 527 over IPv6), or bytes of a write to a stream (1 to 16 M): a size, or a law of sizes. Absent: the largest datagram without fragmentation; for a stream 512K, or less when it is paced.
    pub payload: Option<Size>,
    /// Format of the data header that begins each datagram.
    pub header: HeaderFormat,
    /// Rate of this connection: payload bit/s or packets/s; `0` is unlimited. Absent: unlimited for TCP, 1M for UDP, 1000pps for empty datagrams.
    pub rate: Option<SendRate>,
    /// Law of the intervals between packets; their mean is that of the rate unless the law states it. Absent: equal intervals.
    pub spacing: Spacing,
    /// Length of sending; `0` until stopped. At most one of `duration`, `bytes` and `packets`; with none of them 10 s.
    pub duration: Option<Span>,
    /// Stop after this many payload bytes.
    pub bytes: Option<ByteSize>,
    /// Stop after this many datagrams or writes.
    pub packets: Option<u64>,
    /// Start this long after the test's start.
    pub start_after: Span,
    /// `false`: waits for a start command over the control socket.
    pub autostart: bool,
    /// Content of the payload.
    pub content: Content,
    /// The receiver verifies the seeded payload: bit errors and truncation are counted.
    pub verify: bool,
    /// What a paced sender does about late slots.
    pub catch_up: CatchUp,
    /// Socket buffer of both ends ("window"), bytes. Absent: TCP's autotuning; for UDP sized by Weir.
    pub window: Option<ByteSize>,
    /// Options in a document that the transport does not have.
    pub misplaced: Misplaced,
}

impl Default for Connection {
    fn default() -> Self {
        ConnectionFields::default().into()
    }
}

impl From<ConnectionFields> for Connection {
    fn from(mut fields: ConnectionFields) -> Self {
        let rest = ConnectionFields::default();
        Connection {
            transport: Transport::take(&mut fields),
            name: std::mem::replace(&mut fields.name, rest.name),
            direction: std::mem::replace(&mut fields.direction, rest.direction),
            count: std::mem::replace(&mut fields.count, rest.count),
            payload: std::mem::replace(&mut fields.payload, rest.payload),
            header: std::mem::replace(&mut fields.header, rest.header),
            rate: std::mem::replace(&mut fields.rate, rest.rate),
            spacing: std::mem::replace(&mut fields.spacing, rest.spacing),
            duration: std::mem::replace(&mut fields.duration, rest.duration),
            bytes: std::mem::replace(&mut fields.bytes, rest.bytes),
            packets: std::mem::replace(&mut fields.packets, rest.packets),
            start_after: std::mem::replace(&mut fields.start_after, rest.start_after),
            autostart: std::mem::replace(&mut fields.autostart, rest.autostart),
            content: std::mem::replace(&mut fields.content, rest.content),
            verify: std::mem::replace(&mut fields.verify, rest.verify),
            catch_up: std::mem::replace(&mut fields.catch_up, rest.catch_up),
            window: std::mem::replace(&mut fields.window, rest.window),
            misplaced: Misplaced::of(fields),
        }
    }
}

impl From<Connection> for ConnectionFields {
    fn from(c: Connection) -> Self {
        let mut fields = ConnectionFields {
            name: c.name,
            direction: c.direction,
            count: c.count,
            payload: c.payload,
            header: c.header,
            rate: c.rate,
            spacing: c.spacing,
            duration: c.duration,
            bytes: c.bytes,
            packets: c.packets,
            start_after: c.start_after,
            autostart: c.autostart,
            content: c.content,
            verify: c.verify,
            catch_up: c.catch_up,
            window: c.window,
            ..c.misplaced.fields().cloned().unwrap_or_default()
        };
        c.transport.put(&mut fields);
        fields
    }
}

/// The schema of the flat table, with `x-transports` at each option that only some transports have.
impl JsonSchema for Connection {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Connection".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = ConnectionFields::json_schema(generator);
        let description = "One connection of a plan (or several alike, by `count`). Every field has the default of `weir test`. A field with `x-transports` belongs to these transports only.";
        schema.insert("description".into(), description.into());
        let properties = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut);
        for (field, property) in properties.into_iter().flatten() {
            let transports = TransportName::with_option(field);
            if let Some(property) = property.as_object_mut().filter(|_| !transports.is_empty()) {
                let names = transports.iter().map(|name| name.label().into()).collect();
                property.insert("x-transports".into(), serde_json::Value::Array(names));
            }
        }
        schema
    }
}

impl Connection {
    /// Largest payload that the plan names, bytes.
    #[must_use]
    pub fn max_payload(&self) -> Option<u64> {
        self.payload.as_ref().map(|size| size.moments().max_bytes)
    }

    /// The rate: that of the intervals where their law states it, the default where the plan names none.
    #[must_use]
    pub fn send_rate(&self) -> SendRate {
        if let Some(packets) = self.spacing.packets_per_second() {
            return SendRate { limit: RateLimit::Packets(packets), burst: 1 };
        }
        let payload = self.max_payload().map(ByteSize);
        self.rate.unwrap_or_else(|| self.transport.default_rate(payload))
    }

    /// Port of the client, where the transport has ports and the plan names one.
    #[must_use]
    pub fn client_port(&self) -> Option<u16> {
        self.transport.ip().and_then(|ip| ip.client_port)
    }

    /// Sets options of the IP layer; without effect where the transport has none.
    #[must_use]
    pub fn with_ip(mut self, change: impl FnOnce(&mut super::IpOptions)) -> Self {
        if let Some(ip) = self.transport.ip_mut() {
            change(ip);
        }
        self
    }

    /// The first option that belongs to other transports: its field, the value given, and what is accepted.
    pub(super) fn misplaced_option(&self) -> Option<(String, String, String)> {
        let fields = serde_json::to_value(self.misplaced.fields()?).ok()?;
        let at_default = serde_json::to_value(ConnectionFields::default()).ok()?;
        let own = self.transport.label();
        fields.as_object()?.iter().find(|(field, value)| at_default.get(field) != Some(value)).map(
            |(field, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), Into::into);
                let with = TransportName::with_option(field);
                let names = crate::phrases::one_of(with.iter().map(|name| name.label()));
                let accepted =
                    format!("`{field}` belongs to transport {names}; this connection is {own}");
                (field.clone(), format!("{value} with transport {own}"), accepted)
            },
        )
    }
}
