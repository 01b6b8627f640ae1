//! The engines: how the datagrams of a flow get from the program to the network and back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Connection, Direction, HeaderFormat, Shape, Switch, TransportName};
use crate::ModelError;
use crate::content::Content;

/// How datagrams are sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Sockets of the operating system.
    #[default]
    Sockets,
    /// XDP programs in the kernel, below the socket layer.
    Xdp,
}

/// Payloads of engine `xdp`, bytes: the whole data header must fit, and the frame into one page of memory.
const XDP_PAYLOAD: std::ops::RangeInclusive<u64> = 32..=3400;

impl std::fmt::Display for EngineName {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(match self {
            EngineName::Sockets => "sockets",
            EngineName::Xdp => "xdp",
        })
    }
}

impl std::str::FromStr for EngineName {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text {
            "sockets" => Ok(EngineName::Sockets),
            "xdp" => Ok(EngineName::Xdp),
            _ => Err(ModelError::Value {
                what: "engine",
                given: text.into(),
                accepted: "sockets or xdp",
            }),
        }
    }
}

impl EngineName {
    /// The smallest and largest payload that it carries, bytes; `None`: all that the transport does.
    #[must_use]
    pub fn payload_bytes(self) -> Option<(u64, u64)> {
        (self == EngineName::Xdp).then(|| (*XDP_PAYLOAD.start(), *XDP_PAYLOAD.end()))
    }
}

impl Connection {
    /// The first field that its engine does not support: field, given value, accepted values.
    pub(super) fn refused_by_engine(&self) -> Option<(&'static str, String, String)> {
        if self.engine == EngineName::Sockets {
            return None;
        }
        let with = |value: &dyn std::fmt::Display| format!("{value} with engine {}", self.engine);
        if !self.transport.bypasses() {
            let names = TransportName::ALL.iter().filter(|name| name.bypasses());
            let names = crate::one_of(names.map(|name| name.label()));
            let given = format!("{} with transport {}", self.engine, self.transport.name());
            return Some(("engine", given, format!("sockets; xdp with transport {names}")));
        }
        if self.direction != Direction::Forward {
            return Some(("direction", with(&self.direction), "forward".into()));
        }
        if self.shape != Shape::Stream {
            return Some(("shape", with(&self.shape), Shape::Stream.to_string()));
        }
        if self.header != HeaderFormat::default() {
            return Some(("header", with(&self.header), HeaderFormat::default().to_string()));
        }
        if let Some(payload) = &self.payload {
            let moments = payload.moments();
            let is_in_range = XDP_PAYLOAD.contains(&moments.min_bytes)
                && XDP_PAYLOAD.contains(&moments.max_bytes);
            if !payload.is_constant() || !is_in_range {
                let (least, most) = (XDP_PAYLOAD.start(), XDP_PAYLOAD.end());
                return Some((
                    "payload",
                    with(payload),
                    format!("one size of {least} to {most} bytes"),
                ));
            }
        }
        // All frames are copies of one.
        if self.content == Content::File {
            return Some(("content", with(&self.content), "content that needs no file".into()));
        }
        if self.verify {
            return Some((
                "verify",
                with(&true),
                "false: the program reads the data header only".into(),
            ));
        }
        if self.voice.is_some() {
            return Some(("voice", with(&"a codec"), "absent".into()));
        }
        if let Some(window) = self.window {
            return Some(("window", with(&window), "absent: there is no socket buffer".into()));
        }
        let udp = self.transport.udp_options();
        for (field, switch) in udp.iter().flat_map(|udp| [("gso", udp.gso), ("gro", udp.gro)]) {
            if switch == Switch::On {
                return Some((field, with(&"on"), "auto or off: each datagram is a frame".into()));
            }
        }
        let ip = self.transport.ip()?;
        if let Some(rate) = ip.kernel_pacing {
            return Some((
                "kernel_pacing",
                with(&rate),
                "absent: there is no queueing discipline".into(),
            ));
        }
        let priority = ip.priority?;
        Some(("priority", with(&priority), "absent: there is no queueing discipline".into()))
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;

    /// The field for which a connection is refused.
    fn refused(fields: &str) -> Option<String> {
        let text =
            format!("schema = \"weir.plan/1\"\n[[connection]]\nengine = \"xdp\"\n{fields}\n");
        let crate::ModelError::Document(error) = Plan::parse(&text).err()? else {
            panic!("{text}")
        };
        error.field.rsplit('.').next().map(Into::into)
    }

    #[test]
    fn what_xdp_does_not_support_is_refused_by_its_field() {
        let udp = "transport = \"udp\"";
        for accepted in
            ["", "payload = 32", "payload = 1472\nrate = 0", "rate = \"1000pps\"", "tos = 184"]
        {
            assert_eq!(refused(&format!("{udp}\n{accepted}")), None, "{accepted}");
        }
        for accepted in ["", "payload = 1492\nrate = 0", "rate = \"1000pps\""] {
            assert_eq!(
                refused(&format!("transport = \"ethernet\"\n{accepted}")),
                None,
                "{accepted}"
            );
        }
        for (fields, field) in [
            ("transport = \"tcp\"", "engine"),
            ("transport = \"udp-lite\"", "engine"),
            ("transport = \"udp\"\ndirection = \"reverse\"", "direction"),
            ("transport = \"udp\"\nshape = \"rr\"", "shape"),
            ("transport = \"udp\"\nheader = \"none\"", "header"),
            ("transport = \"udp\"\npayload = 31", "payload"),
            ("transport = \"udp\"\npayload = 3401", "payload"),
            ("transport = \"udp\"\npayload = \"100..200\"", "payload"),
            ("transport = \"udp\"\nverify = true", "verify"),
            ("transport = \"udp\"\nwindow = \"1M\"", "window"),
            ("transport = \"udp\"\ngso = \"on\"", "gso"),
            ("transport = \"udp\"\nkernel_pacing = \"1M\"", "kernel_pacing"),
            ("transport = \"udp\"\npriority = 3", "priority"),
            ("transport = \"ethernet\"\npriority = 3", "priority"),
            ("transport = \"ethernet\"\npayload = 31", "payload"),
            ("transport = \"ethernet\"\nshape = \"rr\"", "shape"),
            ("transport = \"ethernet\"\ndirection = \"bidirectional\"", "direction"),
        ] {
            assert_eq!(refused(fields).as_deref(), Some(field), "{fields}");
        }
    }
}
