//! How many bytes a session's control traffic may take, so that measuring does not disturb what is measured.

use weir_model::plan::{FlowSpec, Plan};
use weir_model::units::RateLimit;

/// Part of the measured rate that control messages may take.
const MEASURED_RATIO: f64 = 0.01;
/// A slow session may take this much instead, bit/s.
const FLOOR_BITS_PER_SECOND: f64 = 8000.0;
/// All control traffic together takes at most this part of the stated rate.
const STATED_RATIO: f64 = 0.1;
/// Of that, what latency probes may take; messages have the rest.
const PROBE_PART: f64 = 0.25;
/// Credit for one message can always be saved up, however low the rate.
const ONE_MESSAGE_BYTES: f64 = 512.0;

/// The rate that a plan states, bit/s of payload: the sum of its flows' rates (`-b`) where each has one, or the nominal
/// rate (`--nominal`), whichever is lower. `None` where neither is stated.
pub fn stated_bits_per_second(plan: &Plan, specs: &[FlowSpec]) -> Option<f64> {
    let rate = |spec: &FlowSpec| match spec.rate.limit {
        RateLimit::Unlimited => None,
        RateLimit::Bits(bits) => Some(bits.0 as f64),
        RateLimit::Packets(packets) => Some(8.0 * packets * spec.payload_bytes.max(1) as f64),
    };
    let asked = specs.iter().map(rate).sum::<Option<f64>>().filter(|_| !specs.is_empty());
    let nominal = plan.nominal.map(|nominal| nominal.0 as f64);
    asked.into_iter().chain(nominal).reduce(f64::min)
}

/// The distance of latency probes that take `bytes` each, answer included: `usual_ns`, or more where they would take
/// more than their part of the stated rate.
pub fn probe_distance_ns(stated_bits_per_second: Option<f64>, bytes: usize, usual_ns: u64) -> u64 {
    let Some(stated) = stated_bits_per_second.filter(|stated| *stated > 0.0) else {
        return usual_ns;
    };
    let seconds = 8.0 * bytes as f64 / (PROBE_PART * STATED_RATIO * stated);
    usual_ns.max((seconds * 1e9) as u64)
}

/// Credit for the messages of one session's control connection while its test runs. It grows with each interval by what
/// the interval's measured rate allows, and every byte of the connection is charged to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ControlBudget {
    stated_bits_per_second: Option<f64>,
    credit_bytes: f64,
}

impl ControlBudget {
    /// A budget without credit.
    pub fn new(stated_bits_per_second: Option<f64>) -> Self {
        ControlBudget { stated_bits_per_second, credit_bytes: 0.0 }
    }

    /// Bytes that messages may take in an interval of `seconds` in which `measured_bytes` of payload were counted: the
    /// larger of 1 % of the measured rate and 8 kbit/s, within the messages' part of 10 % of the stated rate.
    pub fn allowed_bytes(&self, seconds: f64, measured_bytes: u64) -> f64 {
        let floor = FLOOR_BITS_PER_SECOND * seconds / 8.0;
        let allowed = floor.max(MEASURED_RATIO * measured_bytes as f64);
        let stated = self.stated_bits_per_second;
        stated.map_or(allowed, |stated| {
            allowed.min((1.0 - PROBE_PART) * STATED_RATIO * stated * seconds / 8.0)
        })
    }

    /// Adds credit for an interval of `seconds`. What is saved is bounded by what one second allows, or by `bytes`.
    pub fn earn(&mut self, bytes: f64, seconds: f64) {
        let second = bytes / if seconds > 0.0 { seconds } else { 1.0 };
        let most = bytes.max(second).max(ONE_MESSAGE_BYTES).max(self.credit_bytes);
        self.credit_bytes = (self.credit_bytes + bytes).min(most);
    }

    /// Charges bytes. Messages that a test can't do without may make debts, of a second's floor at most, so that a burst
    /// of them does not withhold live figures for long.
    pub fn spend(&mut self, bytes: f64) {
        self.credit_bytes = (self.credit_bytes - bytes).max(-FLOOR_BITS_PER_SECOND / 8.0);
    }

    /// Whether a message of `bytes` is within the credit.
    pub fn allows(&self, bytes: f64) -> bool {
        bytes <= self.credit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::{Connection, Family, Transport};

    fn stated(rates: &[&str], nominal: Option<&str>) -> Option<f64> {
        let connection = |rate: &&str| Connection {
            transport: Transport::Udp,
            rate: (!rate.is_empty()).then(|| rate.parse().unwrap()),
            payload: Some("172".parse().unwrap()),
            ..Connection::default()
        };
        let plan = Plan {
            connections: rates.iter().map(connection).collect(),
            nominal: nominal.map(|n| n.parse().unwrap()),
            ..Plan::default()
        };
        stated_bits_per_second(&plan, &plan.flows(Family::Ipv4, 1500))
    }

    #[test]
    fn the_stated_rate_is_the_sum_of_the_flows_or_the_nominal_rate() {
        assert_eq!(stated(&["50pps"], None), Some(68_800.0));
        assert_eq!(stated(&["50pps", "1M"], None), Some(1_068_800.0));
        assert_eq!(stated(&["50pps", "0"], None), None, "one flow is unlimited");
        assert_eq!(stated(&["0"], Some("24k")), Some(24_000.0));
        assert_eq!(stated(&["1M"], Some("24k")), Some(24_000.0));
        assert_eq!(stated(&["1M"], Some("1G")), Some(1e6));
    }

    #[test]
    fn control_traffic_stays_within_one_per_cent_or_8_kbit_and_a_tenth_of_the_stated_rate() {
        for stated in [None, Some(1e3), Some(24e3), Some(68.8e3), Some(1e6), Some(1e9)] {
            for measured in [0.0, 10e3, 68.8e3, 1e6, 10e9] {
                let budget = ControlBudget::new(stated);
                let messages = 8.0 * budget.allowed_bytes(0.25, (measured / 32.0) as u64) / 0.25;
                let distance = probe_distance_ns(stated, 184, 100_000_000);
                let probes = 8.0 * 184.0 * 1e9 / distance as f64;
                assert!(messages <= f64::max(measured / 100.0, 8000.0) + 1e-6);
                if let Some(stated) = stated {
                    let all = messages + probes;
                    assert!(all <= 0.1 * stated * (1.0 + 1e-6), "{all} of {stated}");
                }
            }
        }
        let rate = |stated, measured_bytes| {
            8.0 * ControlBudget::new(stated).allowed_bytes(1.0, measured_bytes)
        };
        assert_eq!((rate(None, 0), rate(None, 1_250_000)), (8000.0, 100_000.0));
        assert_eq!(probe_distance_ns(Some(1e6), 184, 100_000_000), 100_000_000);
        assert_eq!(probe_distance_ns(None, 184, 100_000_000), 100_000_000);
    }

    #[test]
    fn what_is_sent_is_what_was_earned() {
        for stated in [None, Some(2e3), Some(68.8e3)] {
            let mut budget = ControlBudget::new(stated);
            let (seconds, size) = (0.25, 120.0);
            let (mut earned, mut spent) = (0.0, 0.0);
            for _ in 0..4000 {
                let allowed = budget.allowed_bytes(seconds, 2150);
                earned += allowed;
                budget.earn(allowed, seconds);
                if budget.allows(size) {
                    budget.spend(size);
                    spent += size;
                }
            }
            assert!(
                spent <= earned && spent >= 0.9 * f64::min(earned, 4000.0 * size),
                "{spent} of {earned}"
            );
        }
    }

    #[test]
    fn messages_that_cannot_be_withheld_make_small_debts() {
        let mut budget = ControlBudget::new(None);
        budget.spend(1e9);
        let mut intervals = 0;
        while !budget.allows(120.0) {
            budget.earn(budget.allowed_bytes(1.0, 0), 1.0);
            intervals += 1;
        }
        assert_eq!(intervals, 2);
    }
}
