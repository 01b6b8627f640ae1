//! The slot of the MTU limit: what happens to packets that are too long for a link.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slot::Slot;
use crate::ModelError;
use crate::law::{Words, is_default, refuse};

/// The smallest limit: the minimum MTU of IPv4 (RFC 791).
const MIN_BYTES: u32 = 68;
const MAX_BYTES: u32 = 65_535;

const TREATMENTS: [TooLong; 3] = [TooLong::Drop, TooLong::Icmp, TooLong::Fragment];

/// What happens to packets that are longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TooLong {
    /// They are dropped silently: a black hole for path MTU discovery by ICMP.
    #[default]
    Drop,
    /// They are dropped, and an ICMP message reports the limit to the sender: fragmentation needed (RFC 1191) or packet too big (RFC 8201).
    Icmp,
    /// IPv4 packets without the don't-fragment bit are fragmented. Others are dropped and reported by ICMP.
    Fragment,
}

impl TooLong {
    const fn name(self) -> &'static str {
        match self {
            TooLong::Drop => "drop",
            TooLong::Icmp => "icmp",
            TooLong::Fragment => "fragment",
        }
    }
}

/// The maximum transmission unit (MTU) of the path. Only IP packets have a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Mtu>)]
pub struct Mtu {
    /// Maximum length of an IP packet in bytes, its header included, 68 to 65535.
    #[schemars(title = "MTU", example = 1400)]
    pub bytes: u32,
    /// What happens to longer packets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub too_long: TooLong,
}

impl Slot for Mtu {
    const TERM: &'static str = "mtu";
    const OTHER_NAMES: &'static [&'static str] = &["pmtu", "mss"];

    fn is_stateless(&self) -> bool {
        true
    }

    fn form() -> &'static str {
        "mtu N [drop|icmp|fragment], such as mtu 1400 icmp (bytes of an IP packet)"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let bytes = words.value()?;
        let too_long = words.took_one(&TREATMENTS, TooLong::name).unwrap_or_default();
        Ok(Mtu { bytes, too_long })
    }

    fn text(&self) -> String {
        format!("mtu {} {}", self.bytes, self.too_long.name())
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        match self.bytes {
            MIN_BYTES..=MAX_BYTES => Ok(()),
            _ => refuse(at, "bytes", self.bytes, "68 to 65535"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ModelError;
    use crate::impairment::Laws;

    #[test]
    fn forms_are_read_and_written() {
        for (given, printed) in [
            ("mtu 1400", "mtu 1400 drop"),
            ("mtu 1400 icmp", "mtu 1400 icmp"),
            ("delay 4ms mtu 68 fragment", "mtu 68 fragment, delay 4ms"),
        ] {
            let laws: Laws = given.parse().unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(laws.to_string(), printed);
            assert_eq!(printed.parse::<Laws>().unwrap(), laws, "{printed}");
        }
    }

    #[test]
    fn the_limit_is_checked() {
        for given in ["mtu 67", "mtu 65536 icmp"] {
            let Err(ModelError::Field { field, .. }) = given.parse::<Laws>() else {
                panic!("{given}")
            };
            assert_eq!(field, "impairment.mtu.bytes", "{given}");
        }
        for given in ["mtu", "mtu 1500B", "mtu 1500 reject", "mtu icmp"] {
            assert!(matches!(given.parse::<Laws>(), Err(ModelError::Value { .. })), "{given}");
        }
    }
}
