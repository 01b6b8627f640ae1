//! Outages: times in which the link is down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::LossRule;
use crate::ModelError;
use crate::impairment::time::{Timing, TimingLaw};
use crate::law::{Deciding, Law, PacketFacts, refuse};

/// Maximum number of changes that one packet finds. The mean length of a cycle is at least 1 ms, so that a second of silence has
/// no more.
const MAX_CHANGES: usize = 2000;

/// The link is up and down in turn, for times drawn from two laws; all packets are lost while it is down. With constant times: a
/// flapping link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// The law of the time up, from the first packet or the end of the outage before. The means of `interval` and `duration` add up
    /// to at least 1 ms.
    #[schemars(example = "exponential(mean=30s)")]
    pub interval: Timing,
    /// The law of the length of an outage.
    #[schemars(example = "200ms")]
    pub duration: Timing,
}

impl Outage {
    /// Mean times up and down, ns.
    fn means(&self) -> (f64, f64) {
        (self.interval.moments().mean, self.duration.moments().mean)
    }
}

impl Law for Outage {
    type Running = Phases;

    fn check(&self, at: &str) -> Result<(), ModelError> {
        self.interval.check(&format!("{at}.interval"))?;
        self.duration.check(&format!("{at}.duration"))?;
        let (up, down) = self.means();
        if up + down < 1e6 {
            return refuse(at, "interval", &self.interval, "at least 1 ms on average together with duration");
        }
        Ok(())
    }

    fn start(&self) -> Phases {
        let laws = [self.interval.start(), self.duration.start()];
        Phases { laws, entered: 0, until_ns: 0 }
    }
}

/// Times of the link: phase n, from 0, is up where n is even, and has the draws of event n in place of a packet. Therefore the
/// times do not depend on the packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    /// Of the time up, and of the time down.
    laws: [TimingLaw; 2],
    /// Number of phases entered so far.
    entered: u64,
    /// End of the current phase, ns since the first packet.
    until_ns: u64,
}

impl Phases {
    /// Moves on to the phase of a time.
    fn advance(&mut self, now_ns: u64, draws: &Draws) {
        for _ in 0..MAX_CHANGES {
            if now_ns < self.until_ns {
                return;
            }
            let law = &mut self.laws[(self.entered % 2) as usize];
            let length = law.next(&mut draws.of_event(self.entered));
            self.until_ns = self.until_ns.saturating_add(length);
            self.entered += 1;
        }
        // After a long silence the phases resume here, so that no packet takes long.
        self.until_ns = self.until_ns.max(now_ns);
    }
}

impl Deciding for Phases {
    type Outcome = bool;

    #[inline]
    fn decide(&mut self, packet: &PacketFacts, draws: &mut Draws) -> bool {
        if packet.elapsed_ns >= self.until_ns {
            self.advance(packet.elapsed_ns, draws);
        }
        self.entered.is_multiple_of(2)
    }
}

impl LossRule for Outage {
    /// The fraction of time in outages, which is that of packets at equal intervals.
    fn mean(&self) -> Option<f64> {
        let (up, down) = self.means();
        Some(down / (up + down))
    }

    fn tables(&self) -> usize {
        self.interval.tables() + self.duration.tables()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{burst_lengths, losses_every, refused};
    use crate::impairment::Laws;

    #[test]
    fn a_flapping_link_is_exact() {
        let lost = losses_every("loss outage(interval=40ms, duration=10ms)", 1, 1_000_000, 200);
        let down = |packet: usize| packet % 50 >= 40;
        assert!(lost.iter().enumerate().all(|(packet, lost)| *lost == down(packet)));
    }

    #[test]
    fn the_fraction_of_time_is_that_of_the_laws() {
        let text = "loss outage(interval=exponential(mean=90ms), duration=exponential(mean=10ms))";
        let mean = text.parse::<Laws>().unwrap().loss.unwrap().mean().unwrap();
        assert!((mean - 0.1).abs() < 1e-6, "{mean}");
        // 2 000 000 packets of 0.1 ms: 200 s, N = 2000 cycles. Of an alternating process of exponential times the variance of the
        // fraction is 2·(up·down)²/((up + down)³·T): 6.2 standard deviations.
        let lost = losses_every(text, 3, 100_000, 2_000_000);
        let fraction = lost.iter().filter(|lost| **lost).count() as f64 / 2e6;
        let (up, down, all): (f64, f64, f64) = (0.09, 0.01, 200.0);
        let deviation = (2.0 * (up * down).powi(2) / ((up + down).powi(3) * all)).sqrt();
        assert!((fraction - 0.1).abs() < 6.2 * deviation, "{fraction} ± {deviation}");
        let lengths = burst_lengths(&lost);
        let n = lengths.len() as f64;
        assert!((n - 2000.0).abs() < 6.2 * 45.0, "{n}");
    }

    #[test]
    fn times_do_not_depend_on_the_packets() {
        let text = "loss outage(interval=10ms..90ms, duration=exponential(mean=20ms))";
        let many = losses_every(text, 9, 1_000_000, 5000);
        let few = losses_every(text, 9, 10_000_000, 500);
        assert!(few.iter().enumerate().all(|(packet, lost)| *lost == many[10 * packet]));
        assert!(few.iter().any(|lost| *lost));
    }

    #[test]
    fn a_long_silence_costs_little() {
        // 3·10⁸ changes pass; only a bounded number is made.
        let lost = losses_every("loss outage(interval=1ms, duration=0s)", 9, u64::MAX / 4, 4);
        assert_eq!(lost.len(), 4);
    }

    #[test]
    fn parameters_are_checked() {
        let of = |text: &str| refused(&format!("loss outage({text})"));
        assert_eq!(of("interval=1us, duration=1us"), "loss.outage.interval");
        assert_eq!(of("interval=1s, duration=9..2"), "loss.outage.duration");
        assert_eq!(of("interval=1s, duration=3"), "loss.outage.duration");
        assert_eq!(of("interval=1s, duration=normal(mean=2h, deviation=1s)"), "loss.outage.duration");
    }
}
