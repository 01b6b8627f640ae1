//! Values of conditions on the link layer.

use std::fmt;
use std::str::FromStr;

use crate::ModelError;
use crate::impairment::value::{MAX_PARTS, whole, word_serde};

/// The bits of a MAC address.
const ALL: u64 = (1 << 48) - 1;

/// A MAC address with a mask of the bits that must be equal; the other bits are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MacPrefix {
    /// The address, its first byte highest, of 48 bits.
    pub address: u64,
    /// The bits that must be equal.
    pub mask: u64,
}

impl MacPrefix {
    /// First and last address; `None` if the mask is not a number of leading bits.
    fn range(&self) -> Option<(u64, u64)> {
        let free = !self.mask & ALL;
        (free & free.wrapping_add(1) == 0).then_some((self.address, self.address | free))
    }
}

/// MAC addresses with masks, any of which matches: `02:00:00:00:00:01`, `02:00:00:00:00:00/16`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacAddresses(pub Vec<MacPrefix>);

impl MacAddresses {
    /// First and last address of each; `None` if a mask is not a number of leading bits.
    #[must_use]
    pub fn ranges(&self) -> Option<Vec<(u64, u64)>> {
        self.0.iter().map(MacPrefix::range).collect()
    }
}

const MAC_FORM: &str = "MAC addresses, optionally with a number of leading bits or a mask, such as 02:00:00:00:00:01, 02:00:00:00:00:00/16 or 01:00:00:00:00:00/01:00:00:00:00:00 (at most 64)";

fn address(text: &str) -> Option<u64> {
    let mut value = 0;
    let mut parts = text.split([':', '-']);
    for _ in 0..6 {
        let part = parts.next().filter(|part| part.len() == 2 && !part.starts_with('+'))?;
        value = value << 8 | u64::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(value)
}

fn prefix(text: &str) -> Option<MacPrefix> {
    let (text, mask) = match text.trim().split_once('/') {
        Some((text, mask)) if mask.contains([':', '-']) => (text, address(mask)?),
        Some((text, bits)) => {
            let bits = whole(bits).filter(|bits| *bits <= 48)?;
            (text, ALL & !(ALL >> bits))
        }
        None => (text.trim(), ALL),
    };
    Some(MacPrefix { address: address(text)? & mask, mask })
}

impl FromStr for MacAddresses {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let all: Option<Vec<_>> = text.split(',').take(MAX_PARTS + 1).map(prefix).collect();
        all.filter(|all| all.len() <= MAX_PARTS).map(MacAddresses).ok_or_else(|| {
            ModelError::Value { what: "MAC address", given: text.into(), accepted: MAC_FORM }
        })
    }
}

fn write_address(f: &mut fmt::Formatter, value: u64) -> fmt::Result {
    let [_, _, bytes @ ..] = value.to_be_bytes();
    for (n, byte) in bytes.iter().enumerate() {
        write!(f, "{}{byte:02x}", if n == 0 { "" } else { ":" })?;
    }
    Ok(())
}

impl fmt::Display for MacAddresses {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (n, one) in self.0.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { "," })?;
            write_address(f, one.address)?;
            if one.mask == ALL {
                continue;
            }
            f.write_str("/")?;
            match one.range() {
                Some(_) => write!(f, "{}", one.mask.count_ones())?,
                None => write_address(f, one.mask)?,
            }
        }
        Ok(())
    }
}

word_serde!(
    MacAddresses,
    MAC_FORM,
    ["02:00:00:00:00:01", "02:00:00:00:00:00/16", "01:00:00:00:00:00/01:00:00:00:00:00"]
);
