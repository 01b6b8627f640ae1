//! The slot of the policer: packets beyond a rate and a burst are dropped or marked; markers of two and three colours.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rate::{DEFAULT_OVERHEAD_BYTES, Framing, check_burst, check_overhead, check_rate};
use super::slot::Slot;
use super::value::word_serde;
use crate::ModelError;
use crate::law::Words;
use crate::law::refuse;
use crate::units::{BitRate, ByteSize, Dscp};

/// What a policer finds of a packet (RFC 2697, RFC 2698).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colour {
    /// Within the rate and its burst.
    Green,
    /// Within the excess burst, or within the peak rate alone.
    Yellow,
    /// Beyond all of them.
    Red,
}

/// What a policer does with packets of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoliceAction {
    /// They are forwarded unchanged.
    Pass,
    /// They are dropped.
    Drop,
    /// They are forwarded with this DSCP; other packets than IP unchanged.
    Dscp(Dscp),
}

const ACTION_FORM: &str = "pass, drop or dscp NAME, such as dscp af12";

impl FromStr for PoliceAction {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut words = text.split_whitespace();
        let action = match (words.next(), words.next(), words.next()) {
            (Some("pass"), None, None) => Some(PoliceAction::Pass),
            (Some("drop"), None, None) => Some(PoliceAction::Drop),
            (Some("dscp"), Some(name), None) => name.parse().ok().map(PoliceAction::Dscp),
            _ => None,
        };
        let refused =
            || ModelError::Value { what: "action", given: text.into(), accepted: ACTION_FORM };
        action.ok_or_else(refused)
    }
}

impl fmt::Display for PoliceAction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            PoliceAction::Pass => f.write_str("pass"),
            PoliceAction::Drop => f.write_str("drop"),
            PoliceAction::Dscp(dscp) => write!(f, "dscp {dscp}"),
        }
    }
}

word_serde!(PoliceAction, "pass, drop or dscp NAME, such as dscp af12", ["dscp af12", "drop"]);

/// A policer: a token bucket that holds a burst and is filled at a rate. A packet takes tokens for its bytes and is green; without
/// enough of them it takes none and is red, or yellow with a second bucket. Red packets are dropped unless stated otherwise.
/// Nothing is delayed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Police>)]
pub struct Police {
    /// Rate in bit/s at which the bucket is filled, framing overhead included: the committed information rate (CIR).
    #[schemars(title = "Rate")]
    pub bits: BitRate,
    /// Size of the bucket, 1 byte to 1G: the committed burst size (CBS). Longer packets, with their framing bytes, are never green.
    #[schemars(title = "Burst", example = "32K")]
    pub burst: ByteSize,
    /// Size of a second bucket for yellow packets, 1 byte to 1G, filled by what the first has no room for: the excess burst size (EBS)
    /// of a single rate three color marker (RFC 2697). Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Excess burst", example = "64K")]
    pub excess_burst: Option<ByteSize>,
    /// Rate in bit/s at which a second bucket is filled, at least `bits`: the peak information rate (PIR) of a two rate three color
    /// marker (RFC 2698). Packets beyond it are red, those within it that exceed the first bucket yellow. Together with `peak_burst`. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Peak rate", example = "20M")]
    pub peak_bits: Option<BitRate>,
    /// Size of that bucket, 1 byte to 1G: the peak burst size (PBS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Peak burst", example = "64K")]
    pub peak_burst: Option<ByteSize>,
    /// What happens to green packets. Absent: they pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub green: Option<PoliceAction>,
    /// What happens to yellow packets. Absent: they pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yellow: Option<PoliceAction>,
    /// What happens to red packets. Absent: they are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red: Option<PoliceAction>,
    /// `true`: packets with the DSCP of `yellow` or `red` arrive in that colour, and don't get a better one (the color-aware mode of RFC
    /// 2697 and RFC 2698). Otherwise all arrive green.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub colour_aware: bool,
    /// `true`: ECN-capable packets that would be dropped are marked Congestion Experienced instead (RFC 3168).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Mark instead of drop (ECN)", example = true)]
    pub ecn: bool,
    /// Framing bytes of each packet in addition to its network layer, 0 to 1000. Absent: 18, Ethernet header
    /// and check sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 38)]
    pub overhead_bytes: Option<u32>,
}

impl Police {
    /// The bytes of packets that are counted.
    #[must_use]
    pub fn framing(&self) -> Framing {
        Framing::of_overhead(self.overhead_bytes.unwrap_or(DEFAULT_OVERHEAD_BYTES))
    }

    /// What happens to packets of a colour.
    #[must_use]
    pub fn action(&self, colour: Colour) -> PoliceAction {
        match colour {
            Colour::Green => self.green.unwrap_or(PoliceAction::Pass),
            Colour::Yellow => self.yellow.unwrap_or(PoliceAction::Pass),
            Colour::Red => self.red.unwrap_or(PoliceAction::Drop),
        }
    }

    /// The colour in which a packet with this DSCP arrives; `None`: it has no DSCP.
    #[must_use]
    pub fn arrives_in(&self, dscp: Option<Dscp>) -> Colour {
        let is_of = |colour| {
            let own = dscp.map(PoliceAction::Dscp);
            self.colour_aware && own == Some(self.action(colour))
        };
        if is_of(Colour::Red) {
            Colour::Red
        } else if is_of(Colour::Yellow) {
            Colour::Yellow
        } else {
            Colour::Green
        }
    }

    /// Whether it reads or writes header fields, for which packets must be parsed.
    #[must_use]
    pub fn reads_packets(&self) -> bool {
        let sets = |action: &Option<PoliceAction>| matches!(action, Some(PoliceAction::Dscp(_)));
        self.ecn
            || self.colour_aware
            || [&self.green, &self.yellow, &self.red].into_iter().any(sets)
    }
}

fn action(words: &mut Words) -> Result<PoliceAction, ModelError> {
    match words.took("dscp") {
        true => Ok(PoliceAction::Dscp(words.value()?)),
        false => words.value(),
    }
}

impl Slot for Police {
    const TERM: &'static str = "police";
    const OTHER_NAMES: &'static [&'static str] = &["policer", "policing", "cir"];
    const IS_SHARED: bool = true;

    fn form() -> &'static str {
        "police R burst B [excess B|peak R peak-burst B] [green ACTION] [yellow ACTION] [red ACTION] [colour-aware] [ecn] [overhead N], such as police 10M burst 32K or police 10M burst 32K red dscp af12 (bits per second and bytes; ACTION is pass, drop or dscp NAME)"
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        let bits = words.value()?;
        if !words.took("burst") {
            return Err(words.bad());
        }
        let burst = words.value()?;
        let excess_burst = if words.took("excess") { Some(words.value()?) } else { None };
        let peak_bits = if words.took("peak") { Some(words.value()?) } else { None };
        let peak_burst = if words.took("peak-burst") { Some(words.value()?) } else { None };
        let green = if words.took("green") { Some(action(words)?) } else { None };
        let yellow = if words.took("yellow") { Some(action(words)?) } else { None };
        let red = if words.took("red") { Some(action(words)?) } else { None };
        let colour_aware = words.took("colour-aware");
        let ecn = words.took("ecn");
        let overhead_bytes = if words.took("overhead") { Some(words.value()?) } else { None };
        Ok(Police {
            bits,
            burst,
            excess_burst,
            peak_bits,
            peak_burst,
            green,
            yellow,
            red,
            colour_aware,
            ecn,
            overhead_bytes,
        })
    }

    fn text(&self) -> String {
        let mut text = format!("police {} burst {}", self.bits, self.burst);
        if let Some(burst) = self.excess_burst {
            text += &format!(" excess {burst}");
        }
        if let Some(peak) = self.peak_bits {
            text += &format!(" peak {peak}");
        }
        if let Some(burst) = self.peak_burst {
            text += &format!(" peak-burst {burst}");
        }
        for (colour, action) in [("green", self.green), ("yellow", self.yellow), ("red", self.red)]
        {
            text += &action.map(|action| format!(" {colour} {action}")).unwrap_or_default();
        }
        if self.colour_aware {
            text += " colour-aware";
        }
        if self.ecn {
            text += " ecn";
        }
        if let Some(overhead) = self.overhead_bytes {
            text += &format!(" overhead {overhead}");
        }
        text
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_rate(at, "bits", self.bits)?;
        check_burst(at, "burst", self.burst)?;
        if let Some(burst) = self.excess_burst {
            check_burst(at, "excess_burst", burst)?;
        }
        match (self.peak_bits, self.peak_burst) {
            (None, None) => {}
            (Some(peak), Some(burst)) => {
                check_rate(at, "peak_bits", peak)?;
                check_burst(at, "peak_burst", burst)?;
                if peak < self.bits {
                    return refuse(at, "peak_bits", peak, "at least the committed rate");
                }
                if self.excess_burst.is_some() {
                    return refuse(
                        at,
                        "peak_bits",
                        peak,
                        "no peak rate together with an excess burst",
                    );
                }
            }
            (Some(peak), None) => {
                return refuse(at, "peak_bits", peak, "a peak rate together with a peak burst");
            }
            (None, Some(burst)) => {
                return refuse(at, "peak_burst", burst, "a peak burst together with a peak rate");
            }
        }
        let has_yellow = self.excess_burst.is_some() || self.peak_bits.is_some();
        if let Some(action) = self.yellow.filter(|_| !has_yellow) {
            return refuse(at, "yellow", action, "yellow only with an excess burst or a peak rate");
        }
        let sets = |action| matches!(action, Some(PoliceAction::Dscp(_)));
        if self.colour_aware && !(has_yellow && (sets(self.yellow) || sets(self.red))) {
            let accepted = "an excess burst or a peak rate, and a DSCP for yellow or red";
            return refuse(at, "colour_aware", true, accepted);
        }
        check_overhead(at, self.overhead_bytes.unwrap_or(DEFAULT_OVERHEAD_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::Laws;

    #[test]
    fn forms_are_read_and_written() {
        for (given, printed) in [
            ("police 10M burst 32K", "police 10M burst 32K"),
            ("police 10Mbit burst 1500 ecn overhead 14", "police 10M burst 1500 ecn overhead 14"),
            ("rate 9M police 10M burst 4K loss 1%", "loss 1%, police 10M burst 4K, rate 9M"),
            ("police 1M burst 4K red dscp AF12", "police 1M burst 4K red dscp af12"),
            (
                "police 1M burst 4K excess 8K yellow dscp 12 red drop",
                "police 1M burst 4K excess 8K yellow dscp af12 red drop",
            ),
            (
                "police 1M burst 4K peak 2M peak-burst 8K green dscp af11 yellow dscp af12 red dscp af13 colour-aware ecn",
                "police 1M burst 4K peak 2M peak-burst 8K green dscp af11 yellow dscp af12 red dscp af13 colour-aware ecn",
            ),
        ] {
            let laws: Laws = given.parse().unwrap_or_else(|error| panic!("{given}: {error}"));
            assert_eq!(laws.to_string(), printed);
            assert_eq!(printed.parse::<Laws>().unwrap(), laws, "{printed}");
            let json = serde_json::to_string(&laws).unwrap();
            assert_eq!(serde_json::from_str::<Laws>(&json).unwrap(), laws, "{json}");
        }
    }

    #[test]
    fn colours_have_their_actions() {
        let of = |text: &str| text.parse::<Laws>().unwrap().police.unwrap();
        let plain = of("police 1M burst 4K");
        assert_eq!(plain.action(Colour::Red), PoliceAction::Drop);
        assert_eq!(plain.action(Colour::Yellow), PoliceAction::Pass);
        assert!(!plain.reads_packets());
        let aware = of("police 1M burst 4K excess 8K yellow dscp af12 red dscp af13 colour-aware");
        let arrives = |dscp: &str| aware.arrives_in(dscp.parse().ok());
        assert_eq!(arrives("af12"), Colour::Yellow);
        assert_eq!(arrives("af13"), Colour::Red);
        assert_eq!((arrives("ef"), aware.arrives_in(None)), (Colour::Green, Colour::Green));
        let blind = of("police 1M burst 4K excess 8K yellow dscp af12");
        assert_eq!(blind.arrives_in("af12".parse().ok()), Colour::Green);
        assert!(aware.reads_packets() && blind.reads_packets());
    }

    #[test]
    fn parameters_are_checked() {
        for (given, refused) in [
            ("police 0 burst 1K", "impairment.police.bits"),
            ("police 2T burst 1K", "impairment.police.bits"),
            ("police 1M burst 0", "impairment.police.burst"),
            ("police 1M burst 2G", "impairment.police.burst"),
            ("police 1M burst 1K overhead 1001", "impairment.police.overhead_bytes"),
            ("police 1M burst 1K excess 0", "impairment.police.excess_burst"),
            ("police 1M burst 1K peak 2M", "impairment.police.peak_bits"),
            ("police 1M burst 1K peak 900k peak-burst 1K", "impairment.police.peak_bits"),
            ("police 1M burst 1K excess 1K peak 2M peak-burst 1K", "impairment.police.peak_bits"),
            ("police 1M burst 1K peak-burst 1K", "impairment.police.peak_burst"),
            ("police 1M burst 1K peak 2M peak-burst 2G", "impairment.police.peak_burst"),
            ("police 1M burst 1K yellow pass", "impairment.police.yellow"),
            ("police 1M burst 1K red dscp af12 colour-aware", "impairment.police.colour_aware"),
            ("police 1M burst 1K excess 1K colour-aware", "impairment.police.colour_aware"),
        ] {
            let Err(ModelError::Field { field, .. }) = given.parse::<Laws>() else {
                panic!("{given}")
            };
            assert_eq!(field, refused, "{given}");
        }
        for given in [
            "police 1M",
            "police burst 1K",
            "police 1M burst",
            "police 1M 1K",
            "police 1M burst 1K red",
            "police 1M burst 1K red dscp 64",
            "police 1M burst 1K red mark",
        ] {
            assert!(matches!(given.parse::<Laws>(), Err(ModelError::Value { .. })), "{given}");
        }
    }
}
