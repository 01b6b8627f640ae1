//! Transfers: connections that each carry a volume drawn from a law. They start by a law, whatever became of earlier ones
//! (open loop), or each user starts one after the other (closed loop).

use std::sync::LazyLock;

use super::transport::Refusal;
use super::{Connection, Spacing};
use crate::units::RateLimit;

/// Maximum volume of a transfer, bytes.
pub(super) const MAX_VOLUME: u64 = 1 << 40;
/// Maximum number of transfers of a flow at the same time.
pub const MAX_CONCURRENT: u32 = 65_536;

/// Starts of many independent users (a Poisson process).
static POISSON: LazyLock<Spacing> = LazyLock::new(|| {
    // A constant text; a test reads it.
    "exponential".parse().unwrap_or_default()
});

impl Connection {
    /// The law of the intervals between packets, requests or starts of transfers.
    #[must_use]
    pub fn intervals(&self) -> &Spacing {
        let is_limited = |rate: &super::SendRate| rate.limit != RateLimit::Unlimited;
        match &self.starts {
            Some(starts) if self.shape.has_volumes() => starts,
            None if self.shape.has_volumes() && self.rate.as_ref().is_some_and(is_limited) => {
                &POISSON
            }
            _ => &self.spacing,
        }
    }

    /// The first field that is invalid for transfers, or for another shape that has none: field, given value, accepted values.
    pub(super) fn refused_by_transfers(&self) -> Option<Refusal> {
        let shape = self.shape;
        let text = |law: &Option<Spacing>| law.as_ref().map(ToString::to_string);
        let own = [
            ("volume", self.volume.as_ref().map(ToString::to_string)),
            ("starts", text(&self.starts)),
            ("pause", text(&self.pause)),
            ("max_concurrent", self.max_concurrent.map(|n| n.to_string())),
        ];
        if !shape.has_volumes() {
            let given = own.into_iter().find_map(|(field, value)| Some((field, value?)));
            return given.map(|(field, value)| {
                (field, format!("{value} with shape {shape}"), "with shape transfers".into())
            });
        }
        if self.volume.is_none() {
            let accepted =
                "bytes, or a law of sizes, such as 100K or exponential(mean=100K, max=1G)";
            return Some(("volume", "missing with shape transfers".into(), accepted.into()));
        }
        if self.spacing != Spacing::default() {
            let accepted = "absent: `starts` is the law of the starts of transfers";
            return Some((
                "spacing",
                format!("{} with shape {shape}", self.spacing),
                accepted.into(),
            ));
        }
        if let Some(pause) = &self.pause {
            if self.starts.is_some() || self.send_rate().limit != RateLimit::Unlimited {
                let accepted = "absent with `rate` or `starts`: these say when transfers start";
                return Some(("pause", pause.to_string(), accepted.into()));
            }
            if pause.moments().mean_ns.is_none() {
                let accepted = "a law with its mean, such as 1s or exponential(mean=30s)";
                return Some(("pause", pause.to_string(), accepted.into()));
            }
        }
        let most = self.max_concurrent?;
        if !(1..=MAX_CONCURRENT).contains(&most) {
            return Some(("max_concurrent", most.to_string(), format!("1 to {MAX_CONCURRENT}")));
        }
        (self.send_rate().limit == RateLimit::Unlimited).then(|| {
            let accepted =
                "with `rate` or `starts`; without them `outstanding` is the number of users";
            ("max_concurrent", most.to_string(), accepted.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, Spacing};

    fn refused(fields: &str) -> Option<String> {
        let text = format!("schema = \"weir.plan/1\"\nhost = \"h\"\n[[connection]]\n{fields}\n");
        Plan::parse(&text).err().map(|e| e.to_string())
    }

    #[test]
    fn starts_at_a_rate_are_a_poisson_process() {
        let law = |fields: &str| {
            let text = format!(
                "schema = \"weir.plan/1\"\nhost = \"h\"\n[[connection]]\nshape = \"transfers\"\nvolume = \"1K\"\n{fields}\n"
            );
            let plan = Plan::parse(&text).unwrap();
            let connection = &plan.connections[0];
            (connection.intervals().clone(), connection.send_rate())
        };
        let exponential: Spacing = "exponential".parse().unwrap();
        assert!(!exponential.is_constant());
        assert_eq!(law("rate = \"50pps\"").0, exponential);
        assert!(law("rate = \"50pps\"\nstarts = \"constant\"").0.is_constant());
        // A law with a mean is the rate.
        assert_eq!(law("starts = \"exponential(mean=20ms)\"").1, "50pps".parse().unwrap());
        assert_eq!(law("").1, super::super::SendRate::UNLIMITED);
    }

    #[test]
    fn fields_that_contradict_each_other_are_refused_by_name() {
        let transfers = |fields: &str| refused(&format!("shape = \"transfers\"\n{fields}"));
        for good in [
            "volume = \"pareto(shape=1.2, scale=10K, max=1T)\"\nrate = \"100pps\"\nmax_concurrent = 5",
            "volume = \"1T\"\nstarts = \"1ms..3ms\"\ndirection = \"reverse\"",
            "volume = \"1K\"\npause = \"exponential(mean=1s)\"\noutstanding = 20",
        ] {
            assert_eq!(transfers(good), None, "{good}");
        }
        for (bad, field) in [
            ("", "volume"),
            ("volume = 0", "volume"),
            ("volume = \"2T\"", "volume"),
            // Would end at the largest datagram.
            ("volume = \"exponential(mean=100K)\"", "volume"),
            ("volume = \"mixture(pareto(shape=1.2, scale=10K):1, 1K:1)\"", "volume"),
            ("volume = 1\nspacing = \"exponential(mean=1s)\"", "spacing"),
            ("volume = 1\npause = \"exponential\"", "pause"),
            ("volume = 1\npause = \"1s\"\nrate = \"10pps\"", "pause"),
            ("volume = 1\npause = \"1s\"\nrate = \"10pps\"\nrate_schedule = \"5s:20pps\"", "pause"),
            ("volume = 1\nstarts = \"exponential\"", "starts"),
            ("volume = 1\nstarts = \"1s\"\nrate = \"10pps\"", "rate"),
            ("volume = 1\nrate = \"10M\"", "rate"),
            ("volume = 1\nmax_concurrent = 4", "max_concurrent"),
            ("volume = 1\nrate = \"10pps\"\nmax_concurrent = 0", "max_concurrent"),
            ("volume = 1\npayload = 100", "payload"),
            ("volume = 1\nbytes = 100", "bytes"),
            ("volume = 1\ntransport = \"udp\"", "shape"),
        ] {
            let error = transfers(bad).unwrap_or_else(|| panic!("accepted: {bad}"));
            assert!(error.contains(&format!("].{field}")), "{bad}: {error}");
        }
        assert!(refused("volume = 1").unwrap().contains("].volume"));
    }
}
