//! The background load of a link: other traffic, which takes a part of its rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::{Draws, Geometric, open_unit_interval};

use super::rate::Framing;
use crate::ModelError;
use crate::law::{Words, refuse};
use crate::units::BitRate;

/// Bytes of a packet of other traffic, its IP header included.
const PACKET_BYTES: i64 = 1500;
/// Maximum mean number of packets of a burst.
const MAX_RUN: f64 = 100.0;
/// Packets of other traffic that one packet finds before it at most, but for the last burst: so that no packet takes long.
const MAX_PACKETS: f64 = 4000.0;

/// Other traffic on a link: packets of 1500 bytes, which take time of the link and room in its queue, but are not sent. They come in
/// bursts that start at random (a Poisson process).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Background>)]
pub struct Background {
    /// Percentage of the rate that it takes on average, above 0 to 99.
    #[schemars(example = 30)]
    pub percentage: f64,
    /// Mean number of packets of a burst, 1 to 100. They come together; their number is geometric. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Mean burst length", example = 8)]
    pub mean_run: Option<f64>,
}

impl Background {
    /// Reads what follows its name.
    pub(super) fn read(words: &mut Words) -> Result<Self, ModelError> {
        let percentage = words.percent()?;
        let mean_run = if words.took("run") { Some(words.value()?) } else { None };
        Ok(Self { percentage, mean_run })
    }

    pub(super) fn text(&self) -> String {
        let run = self.mean_run.map(|run| format!(" run {run}")).unwrap_or_default();
        format!("background {}%{run}", self.percentage)
    }

    /// Checks it; `at` is its path in the document.
    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        if !(self.percentage > 0.0 && self.percentage <= 99.0) {
            return refuse(at, "percentage", self.percentage, "above 0 to 99 percent");
        }
        match self.mean_run.filter(|run| !(1.0..=MAX_RUN).contains(run)) {
            Some(run) => refuse(at, "mean_run", run, "1 to 100"),
            None => Ok(()),
        }
    }

    /// The bursts on a link of this rate and framing, before the first.
    #[must_use]
    pub fn start(&self, rate: BitRate, framing: Framing) -> RunningBackground {
        let run = self.mean_run.unwrap_or(1.0);
        let framed = framing.bytes(PACKET_BYTES);
        let burst_ns = run * f64::from(framed) * 8e9 / rate.0 as f64;
        RunningBackground {
            framed,
            run,
            more: (run > 1.0).then(|| Geometric::new(1.0 / run)),
            mean_ns: burst_ns / (self.percentage / 100.0),
            number: 0,
            next: None,
        }
    }
}

/// A burst of other traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundBurst {
    /// When it comes, ns.
    pub at_ns: u64,
    /// Number of packets.
    pub packets: u64,
}

/// The bursts of a link. Burst n has the draws of event n: draw 0 is the time before it, draw 1 its length.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningBackground {
    /// Bytes of a packet on the link.
    framed: u32,
    /// Mean number of packets of a burst.
    run: f64,
    /// The number of packets after the first of a burst.
    more: Option<Geometric>,
    /// Mean time between the starts of two bursts.
    mean_ns: f64,
    /// Number of the next burst.
    number: u64,
    /// When that comes, with a fraction of a nanosecond; absent before the first packet of the link.
    next: Option<(u64, f64)>,
}

impl RunningBackground {
    /// Bytes of each packet on the link.
    #[must_use]
    pub fn framed(&self) -> u32 {
        self.framed
    }

    /// The next burst that comes by `now_ns`, which never decreases; `draws` are any of the link's slot. The first call starts the
    /// process.
    pub fn next_burst(&mut self, now_ns: u64, draws: &Draws) -> Option<BackgroundBurst> {
        let (at_ns, part) = *self
            .next
            .get_or_insert_with(|| after((now_ns, 0.0), self.mean_ns, draws, self.number));
        if at_ns > now_ns {
            return None;
        }
        let most_ns = MAX_PACKETS / self.run * self.mean_ns;
        let (at_ns, part) = match (now_ns - at_ns) as f64 > most_ns {
            // The link forgets what was long ago.
            true => (now_ns.saturating_sub(most_ns as u64), 0.0),
            false => (at_ns, part),
        };
        let mut own = draws.of_event(self.number);
        own.bits();
        let packets = 1 + self.more.map_or(0, |more| more.next(&mut own));
        self.number += 1;
        self.next = Some(after((at_ns, part), self.mean_ns, draws, self.number));
        Some(BackgroundBurst { at_ns, packets })
    }

    /// The bursts of this law after those of another one: no draw is used twice, and the same law goes on where it was.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        self.number = before.number;
        if self.mean_ns == before.mean_ns && self.run == before.run {
            self.next = before.next;
        }
        self
    }
}

/// The time of burst `number`, which follows one at `at`.
fn after(at: (u64, f64), mean_ns: f64, draws: &Draws, number: u64) -> (u64, f64) {
    let gap = -mean_ns * libm::log(open_unit_interval(draws.of_event(number).bits())) + at.1;
    let whole = gap as u64;
    (at.0.saturating_add(whole), gap - whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::Laws;
    use weir_laws::{Direction, DrawPosition, Philox, slot};

    fn bursts(text: &str, until_ns: u64, step_ns: u64) -> Vec<BackgroundBurst> {
        let rate = text.parse::<Laws>().unwrap().rate.unwrap();
        let mut running = rate.background.as_ref().unwrap().start(rate.bits.mean(), rate.framing());
        let position = DrawPosition {
            flow: 1,
            direction: Direction::Forward,
            slot: slot::BACKGROUND,
            packet: 0,
        };
        let philox = Philox::new(3);
        let draws = position.draws(&philox);
        let mut out = vec![];
        for step in 0..until_ns / step_ns {
            while let Some(burst) = running.next_burst(step * step_ns, &draws) {
                out.push(burst);
            }
        }
        out
    }

    #[test]
    fn the_load_is_the_stated_one() {
        for (text, run) in
            [("rate 12M background 30%", 1.0), ("rate 12M background 60% run 8", 8.0)]
        {
            let load = if run == 1.0 { 0.3 } else { 0.6 };
            // 1518 bytes each, 1000 s.
            let all = bursts(text, 1_000_000_000_000, 1_000_000);
            let packets: u64 = all.iter().map(|burst| burst.packets).sum();
            let expected: f64 = load * 12e6 * 1000.0 / (1518.0 * 8.0);
            // A compound Poisson process: the variance is the mean times E[N²]/E[N], 2·run − 1 of a geometric number.
            let bound = 6.2 * (expected * (2.0 * run - 1.0)).sqrt();
            assert!((packets as f64 - expected).abs() < bound, "{packets} {expected} ± {bound}");
            let n = all.len() as f64;
            assert!((n - expected / run).abs() < 6.2 * (expected / run).sqrt(), "{n}");
            assert!(all.is_sorted_by_key(|burst| burst.at_ns));
            // Exponential intervals: a fraction e⁻¹ of them is above the mean.
            let mean = 1e12 / n;
            let long =
                all.windows(2).filter(|two| (two[1].at_ns - two[0].at_ns) as f64 > mean).count();
            let fraction = long as f64 / n;
            assert!((fraction - (-1f64).exp()).abs() < 6.2 * (0.2325 / n).sqrt(), "{fraction}");
        }
    }

    #[test]
    fn bursts_do_not_depend_on_the_packets() {
        let until_9s = |step_ns| {
            let all = bursts("rate 12M background 30% run 3", 10_000_000_000, step_ns);
            all.into_iter().filter(|burst| burst.at_ns < 9_000_000_000).collect::<Vec<_>>()
        };
        assert_eq!(until_9s(1_000), until_9s(100_000_000));
        assert!(until_9s(1_000).len() > 500);
    }

    #[test]
    fn a_long_silence_costs_little() {
        let all = bursts("rate 100G background 99% run 10", 3_600_000_000_000, 1_800_000_000_000);
        let packets: u64 = all.iter().map(|burst| burst.packets).sum();
        // The second packet finds the bursts of a window, on average 4000 packets in 400 of them.
        assert!((2500..5500).contains(&packets), "{packets}");
    }
}
