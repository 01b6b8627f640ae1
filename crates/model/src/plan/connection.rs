//! One connection of a plan.

use schemars::JsonSchema;

use super::fields::{Connection, ConnectionFields};
use super::transport::{Transport, TransportName};
use super::voice::DEFAULT_JITTER_BUFFER;
use crate::units::{ByteSize, RateLimit, SendRate, Span};

/// Time of sending of a connection that nothing limits.
const DEFAULT_DURATION: Span = Span::from_seconds(10);

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

impl Default for Connection {
    fn default() -> Self {
        ConnectionFields::default().into()
    }
}

impl Connection {
    /// Maximum payload in bytes, if the plan states one.
    #[must_use]
    pub(crate) fn max_payload(&self) -> Option<u64> {
        self.payload.as_ref().map(|size| size.moments().max_bytes)
    }

    /// The rate: from the law of intervals if that states one, else the plan's, else the default.
    #[must_use]
    pub fn send_rate(&self) -> SendRate {
        if let Some(packets) = self.intervals().packets_per_second() {
            return SendRate { limit: RateLimit::Packets(packets), burst: 1 };
        }
        if self.shape.has_transactions() {
            let default = match self.transport.echoes() {
                true => self.transport.default_rate(None),
                false => SendRate::UNLIMITED,
            };
            return self.rate.unwrap_or(default);
        }
        let payload = self.max_payload().map(ByteSize);
        let default = || self.voice_rate().unwrap_or_else(|| self.transport.default_rate(payload));
        self.rate.unwrap_or_else(default)
    }

    /// Depth of the jitter buffer of a voice connection.
    #[must_use]
    pub fn jitter_buffer(&self) -> Option<Span> {
        self.voice.map(|_| self.jitter_buffer.unwrap_or(DEFAULT_JITTER_BUFFER))
    }

    /// The client's port, if the plan states one and the transport has ports.
    #[must_use]
    pub fn client_port(&self) -> Option<u16> {
        self.transport.ip().and_then(|ip| ip.client_port)
    }

    /// The client's first and last port, if the plan states both.
    #[must_use]
    pub fn client_ports(&self) -> Option<(u16, u16)> {
        let ip = self.transport.ip()?;
        ip.client_port.zip(ip.client_port_last)
    }

    /// The TOS or traffic-class byte of its packets, if the plan states it or its ECN bits.
    #[must_use]
    pub fn tos(&self) -> Option<u8> {
        let tos = self.transport.ip()?.tos;
        match self.transport.udp_options().map_or(0, |udp| udp.ecn.bits()) {
            0 => tos,
            bits => Some(tos.unwrap_or(0) | bits),
        }
    }

    /// Whether its datagrams are ECN-capable: their receiver counts the codepoints that arrive.
    #[must_use]
    pub fn counts_ecn(&self) -> bool {
        let is_counted = self.transport.datagrams() && !self.shape.has_transactions();
        is_counted && self.tos().is_some_and(|tos| tos & 3 != 0)
    }

    /// The connection without its name and its server: of several alike to one group, each server receives the same stream.
    #[must_use]
    pub fn without_server(&self) -> Connection {
        Connection { name: String::new(), host: None, port: None, ..self.clone() }
    }

    /// The time after which it stops sending; `None` where a volume or a command stops it.
    #[must_use]
    pub fn time_limit(&self) -> Option<Span> {
        match self.duration {
            None if self.bytes.is_some() || self.packets.is_some() => None,
            None => Some(DEFAULT_DURATION),
            stated => stated.filter(|span| span.0 > 0),
        }
    }

    /// Sets options of the IP layer; no effect if the transport has none.
    #[must_use]
    pub fn with_ip(mut self, change: impl FnOnce(&mut super::IpOptions)) -> Self {
        if let Some(ip) = self.transport.ip_mut() {
            change(ip);
        }
        self
    }

    /// The first option that belongs to other transports: field, given value, accepted values.
    pub(super) fn misplaced_option(&self) -> Option<(String, String, String)> {
        let given = self.misplaced.fields()?;
        let fields = serde_json::to_value(given).ok()?;
        let at_default = serde_json::to_value(ConnectionFields::default()).ok()?;
        // Programs made from the schema state its defaults, whatever the transport.
        let is_default = |field: &str| {
            let with = TransportName::with_option(field);
            let Some(name) = with.first() else { return false };
            let written = Transport::written(*name, given.clone());
            serde_json::to_value(written)
                .is_ok_and(|again| again.get(field) == at_default.get(field))
        };
        let own = self.transport.label();
        let differs = |field: &str, value| at_default.get(field) != Some(value);
        fields
            .as_object()?
            .iter()
            .find(|(field, value)| differs(field, value) && !is_default(field))
            .map(|(field, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), Into::into);
                let with = TransportName::with_option(field);
                let names = crate::phrases::one_of(with.iter().map(|name| name.label()));
                let given = format!("{value} with transport {own}");
                (field.clone(), given, format!("transport {names}"))
            })
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;

    #[test]
    fn a_default_of_the_schema_is_accepted_whatever_the_transport() {
        let is_accepted = |transport: &str, option: &str| {
            let text = format!(
                "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"{transport}\"\n{option}\n"
            );
            Plan::parse(&text).and_then(|plan| plan.check()).is_ok()
        };
        for (transport, default, other) in [
            ("udp", "delayed_ack = \"auto\"", "delayed_ack = \"on\""),
            ("udp", "no_delay = false", "no_delay = true"),
            ("udp", "zero_copy = false", "zero_copy = true"),
            ("tcp", "gso = \"auto\"", "gso = \"off\""),
            ("tcp", "dont_fragment = false", "dont_fragment = true"),
            ("unix", "source_specific = false", "source_specific = true"),
        ] {
            assert!(is_accepted(transport, default), "{transport}: {default}");
            assert!(!is_accepted(transport, other), "{transport}: {other}");
        }
    }
}
