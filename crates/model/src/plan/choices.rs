//! Choices of a connection: IP version, direction, ports, offloads, late slots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;

/// The IP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IP version 4.
    Ipv4,
    /// IP version 6.
    Ipv6,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        })
    }
}

/// Direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The side that runs `weir test` sends.
    #[default]
    Forward,
    /// The server sends.
    Reverse,
}

impl Direction {
    /// Its name in plans and records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
        }
    }

    /// The other direction.
    #[must_use]
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Which ports carry data (design: one port by default).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum DataPorts {
    /// Dedicated if an option needs it (receive window, MSS) or for more than 1000 UDP flows, else shared.
    #[default]
    Auto,
    /// All data on one port; flows are distinguished by the 5-tuple.
    Shared,
    /// A separate listener or socket for the session, with its options set before the handshake. It uses the
    /// server's range of data ports if there is one.
    Dedicated,
    /// As dedicated, but refused by a server without a range of data ports, for paths with a firewall that
    /// admits no other ports.
    Range,
}

/// Whether an offload or option is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// On for unpaced datagrams if the kernel has it.
    #[default]
    Auto,
    /// Always on; an error if the kernel lacks it.
    On,
    /// Never.
    Off,
}

/// The ECN codepoint of sent datagrams (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    Off,
    /// ECN-capable, ECT(0).
    Ect0,
    /// ECN-capable, ECT(1): low latency, low loss (RFC 9331).
    Ect1,
}

impl Ecn {
    /// The two bits of the TOS byte.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Ecn::Off => 0,
            Ecn::Ect0 => 2,
            Ecn::Ect1 => 1,
        }
    }
}

impl std::fmt::Display for Ecn {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(match self {
            Ecn::Off => "off",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
        })
    }
}

impl std::str::FromStr for Ecn {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        match text {
            "off" => Ok(Ecn::Off),
            "on" | "ect0" => Ok(Ecn::Ect0),
            "ect1" => Ok(Ecn::Ect1),
            _ => Err(ModelError::Value {
                what: "ECN codepoint",
                given: text.into(),
                accepted: "off, on (ect0), ect0 or ect1",
            }),
        }
    }
}

/// How a paced sender treats slots that it could not serve in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CatchUp {
    /// Late slots are skipped and counted as missed.
    None,
    /// Late slots are sent at the nominal rate plus this percentage.
    Spread(f64),
    /// At most n late slots are sent back to back.
    Burst(u32),
}

impl Default for CatchUp {
    fn default() -> Self {
        CatchUp::Spread(5.0)
    }
}

impl std::str::FromStr for CatchUp {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let parsed = if text == "none" {
            Some(CatchUp::None)
        } else if let Some(p) = text.strip_prefix("spread:") {
            p.trim_end_matches('%')
                .parse::<f64>()
                .ok()
                .filter(|p| *p > 0.0 && *p <= 1000.0)
                .map(CatchUp::Spread)
        } else if let Some(n) = text.strip_prefix("burst:") {
            n.parse().ok().filter(|n| *n >= 1).map(CatchUp::Burst)
        } else {
            None
        };
        parsed.ok_or(ModelError::Value {
            what: "catch-up",
            given: text.into(),
            accepted: "none, spread:P% or burst:N",
        })
    }
}

impl std::fmt::Display for CatchUp {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            CatchUp::None => f.write_str("none"),
            CatchUp::Spread(p) => write!(f, "spread:{p}%"),
            CatchUp::Burst(n) => write!(f, "burst:{n}"),
        }
    }
}

impl Serialize for CatchUp {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CatchUp {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(crate::document::refused)
    }
}

impl JsonSchema for CatchUp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CatchUp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "none, spread:P% or burst:N",
            "examples": ["spread:5%", "none", "burst:8"],
        })
    }
}
