//! Changes of a connection's rate while it sends: steps and ramps at stated times.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ModelError;
use crate::units::{BitRate, RateLimit, SendRate, Span};

/// Pieces of equal rate that a ramp is made of.
const RAMP_PIECES: u64 = 100;
/// Maximum number of changes in a schedule, the pieces of ramps included.
const MAX_CHANGES: u64 = 1000;
const FORM: &str = "changes in order of time, separated by commas: 5s:20M is a step after 5 s, 5s-10s:20M a ramp of 100 steps (up to 1000 steps in all); 5s:2x is twice the connection's rate, 0.001x to 1000x";

/// Accepted factors of a connection's rate.
const FACTORS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
/// Maximum rate, packets per second, as in [`SendRate`].
const MAX_PACKETS: f64 = 1e9;

/// The rate after a change.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    Rate(SendRate),
    /// This many times the connection's rate.
    Factor(f64),
}

impl Target {
    fn of(self, initial: SendRate) -> SendRate {
        let factor = match self {
            Target::Rate(rate) => return rate,
            Target::Factor(factor) => factor,
        };
        let limit = match initial.limit {
            RateLimit::Unlimited => RateLimit::Unlimited,
            RateLimit::Bits(bits) => {
                RateLimit::Bits(BitRate(((bits.0 as f64 * factor).round() as u64).max(1)))
            }
            RateLimit::Packets(packets) => RateLimit::Packets((packets * factor).min(MAX_PACKETS)),
        };
        SendRate { limit, ..initial }
    }
}

impl FromStr for Target {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        match text.trim().strip_suffix('x') {
            None => Ok(Target::Rate(text.parse().map_err(drop)?)),
            Some(factor) => {
                let factor = factor.parse().ok().filter(|factor| FACTORS.contains(factor));
                Ok(Target::Factor(factor.ok_or(())?))
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Target::Rate(rate) => rate.fmt(f),
            Target::Factor(factor) => write!(f, "{factor}x"),
        }
    }
}

/// One change of the rate. Times count from the start of the connection.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change {
    at: Span,
    /// End of a ramp; absent: a step.
    until: Option<Span>,
    target: Target,
}

/// Changes of the rate in the order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct RateSchedule(Vec<Change>);

impl RateSchedule {
    /// Every rate after `initial`, with the time since the start from which it applies, ns. The pieces of a ramp have the
    /// rates of their middles, so that its mean is that of the line.
    pub fn rates(&self, initial: SendRate) -> impl Iterator<Item = (u64, SendRate)> + '_ {
        let mut before = initial;
        self.0.iter().flat_map(move |change| {
            let rate = change.target.of(initial);
            let from = std::mem::replace(&mut before, rate);
            let ramp = change.until.map_or(0, |until| until.0 - change.at.0);
            let pieces = if ramp == 0 { 0 } else { RAMP_PIECES };
            let piece = move |n: u64| {
                let at = change.at.0
                    + (u128::from(ramp) * u128::from(n) / u128::from(RAMP_PIECES)) as u64;
                (at, between(from, rate, (n as f64 + 0.5) / RAMP_PIECES as f64))
            };
            let end = (change.until.unwrap_or(change.at).0, rate);
            (0..pieces).map(piece).chain([end])
        })
    }

    /// The rates that it reaches after `initial`: those of its steps and at the ends of its ramps.
    pub fn reached(&self, initial: SendRate) -> impl Iterator<Item = SendRate> + '_ {
        self.0.iter().map(move |change| change.target.of(initial))
    }

    /// Why it does not fit a connection with this rate: given value and accepted values.
    pub(super) fn refused(&self, initial: SendRate) -> Option<(String, String)> {
        let mut before = initial;
        for change in &self.0 {
            let is_ramp = change.until.is_some();
            let rate = change.target.of(initial);
            let alike =
                std::mem::discriminant(&before.limit) == std::mem::discriminant(&rate.limit);
            let accepted = match (before.limit, rate.limit) {
                (RateLimit::Unlimited, _) => "a connection with a rate",
                (_, RateLimit::Unlimited) => "rates above 0",
                _ if is_ramp && !alike => "a ramp between rates in one unit: bit/s or packets/s",
                _ => {
                    before = rate;
                    continue;
                }
            };
            return Some((format!("{change} after {before}"), accepted.into()));
        }
        None
    }
}

/// The rate at a fraction of the line from one to another, in the unit of both.
fn between(from: SendRate, to: SendRate, fraction: f64) -> SendRate {
    let mix = |a: f64, b: f64| a + (b - a) * fraction;
    let limit = match (from.limit, to.limit) {
        (RateLimit::Bits(a), RateLimit::Bits(b)) => {
            RateLimit::Bits(BitRate((mix(a.0 as f64, b.0 as f64).round() as u64).max(1)))
        }
        (RateLimit::Packets(a), RateLimit::Packets(b)) => RateLimit::Packets(mix(a, b)),
        (_, limit) => limit,
    };
    SendRate { limit, burst: to.burst }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.until {
            None => write!(f, "{}:{}", self.at, self.target),
            Some(until) => write!(f, "{}-{until}:{}", self.at, self.target),
        }
    }
}

impl fmt::Display for RateSchedule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, change) in self.0.iter().enumerate() {
            write!(f, "{}{change}", if i > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

fn change(text: &str) -> Option<Change> {
    let (time, rate) = text.trim().split_once(':')?;
    let (at, until) = match time.split_once('-') {
        None => (time.parse().ok()?, None),
        Some((at, until)) => (at.parse().ok()?, Some(until.parse().ok()?)),
    };
    Some(Change { at, until, target: rate.parse().ok()? })
}

impl FromStr for RateSchedule {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad =
            || ModelError::Value { what: "rate schedule", given: text.into(), accepted: FORM };
        let mut changes: Vec<Change> = vec![];
        let mut steps = 0;
        for part in text.split(',') {
            let next = change(part).ok_or_else(bad)?;
            let earliest = changes.last().map_or(0, |last| last.until.unwrap_or(last.at).0);
            let is_in_order =
                next.at.0 >= earliest && next.until.is_none_or(|until| until.0 > next.at.0);
            steps += if next.until.is_some() { RAMP_PIECES } else { 1 };
            if !is_in_order || steps > MAX_CHANGES {
                return Err(bad());
            }
            changes.push(next);
        }
        Ok(RateSchedule(changes))
    }
}

impl Serialize for RateSchedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RateSchedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(crate::document::refused)
    }
}

impl JsonSchema for RateSchedule {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RateSchedule".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": FORM,
            "examples": ["5s:20M", "0s-10s:100M,20s:1M"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(text: &str, initial: f64) -> Vec<(u64, f64)> {
        let initial = SendRate { limit: RateLimit::Packets(initial), burst: 1 };
        let schedule: RateSchedule = text.parse().unwrap();
        let rate = |(at, rate): (u64, SendRate)| (at, rate.packets_per_second(1.0).unwrap());
        schedule.rates(initial).map(rate).collect()
    }

    #[test]
    fn forms() {
        for text in [
            "5s:20Mbps",
            "5s-10s:500pps",
            "0s:1Mbps,5s-10s:500pps,10s:2Mbps",
            "5s-6s:2.5x,9s:0.001x",
        ] {
            let schedule: RateSchedule = text.parse().unwrap();
            assert_eq!(schedule.to_string().parse::<RateSchedule>().unwrap(), schedule, "{text}");
        }
        let many = ["0s-1s:1M"; 11].join(",");
        for bad in [
            "",
            "5s",
            "5s:",
            "5s:x",
            "5s:0x",
            "5s:-1x",
            "5s:1001x",
            "5s:NaNx",
            "5s:infx",
            ":1M",
            "5s:1M,4s:1M",
            "5s-5s:1M",
            "5s-9s:1M,8s:2M",
            &many,
        ] {
            assert!(bad.parse::<RateSchedule>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_ramp_is_the_line_in_a_hundred_pieces() {
        let rates = packets("1s:100pps,2s-4s:300pps", 50.0);
        assert_eq!(rates[0], (1_000_000_000, 100.0));
        assert_eq!(rates.len(), 102);
        assert_eq!(rates[1], (2_000_000_000, 101.0));
        assert_eq!(rates[2], (2_020_000_000, 103.0));
        assert_eq!(rates[101], (4_000_000_000, 300.0));
        let sum: f64 = rates[1..101].iter().map(|(_, rate)| rate * 0.02).sum();
        assert!((sum - 400.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn factors_are_of_the_connections_rate() {
        let of = |text: &str, initial: &str| {
            let schedule: RateSchedule = text.parse().unwrap();
            let initial: SendRate = initial.parse().unwrap();
            schedule.reached(initial).map(|rate| rate.to_string()).collect::<Vec<_>>()
        };
        // Not of the rate before.
        assert_eq!(of("1s:2x,2s:3x,3s:1x", "100pps/4"), ["200pps/4", "300pps/4", "100pps/4"]);
        assert_eq!(
            of("1s:0.5x,2s:7M", "3M"),
            ["1500Kbps", "7Mbps"].map(|r| r.parse::<SendRate>().unwrap().to_string())
        );
        assert_eq!(of("1s:1000x", "10Mpps"), ["1000000000pps"]);
        let ramp = packets("0s-1s:3x", 100.0);
        assert_eq!((ramp[0].1, ramp[100].1), (101.0, 300.0));
    }

    #[test]
    fn what_a_connection_cannot_follow_is_refused() {
        let refused = |text: &str, initial: &str| {
            text.parse::<RateSchedule>().unwrap().refused(initial.parse().unwrap()).is_some()
        };
        assert!(!refused("1s:5M,2s-3s:9M", "1M"));
        assert!(!refused("1s:500pps,2s-3s:900pps", "1M"));
        assert!(!refused("1s-2s:2x,3s-4s:5M", "1M"));
        assert!(refused("1s-2s:2x,3s-4s:5M", "1pps"));
        assert!(refused("1s:5M", "0"));
        assert!(refused("1s:2x", "0"));
        assert!(refused("1s:0", "1M"));
        assert!(refused("1s-2s:500pps", "1M"));
    }
}
