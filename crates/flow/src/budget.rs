//! The budget of a session's control traffic, so that it does not disturb the measurement.

use weir_model::plan::{Direction, FlowSpec, Plan};
use weir_model::units::{RateLimit, SendRate};

/// Fraction of the measured rate that control messages may use.
const MEASURED_RATIO: f64 = 0.01;
/// Rate that a slow session may use instead, bit/s.
const FLOOR_BITS_PER_SECOND: f64 = 8000.0;
/// Maximum fraction of the stated rate for all control traffic together.
const STATED_RATIO: f64 = 0.1;
/// Fraction of that for each of these: latency probes, feedback, keepalives with clock relations. The control
/// connection, which carries the latter, gets what probes and feedback leave.
const QUARTER: f64 = 0.25;
/// Credit that can always be saved up, for one message at any rate.
const ONE_MESSAGE_BYTES: f64 = 512.0;

/// A keepalive and its reply, framed and encrypted.
const KEEPALIVE_BYTES: f64 = 232.0;
/// A clock relation, framed and encrypted.
const CLOCK_BYTES: f64 = 164.0;
/// A feedback datagram with its UDP and IPv4 headers.
pub const FEEDBACK_BYTES: usize = 92;
/// Intervals of keepalives, clock relations and feedback, except at a low rate.
const KEEPALIVE_NS: u64 = 2_000_000_000;
const CLOCK_NS: u64 = 1_000_000_000;
const FEEDBACK_NS: u64 = 500_000_000;
/// Maximum interval of keepalives and clock relations.
const MAX_UPKEEP_NS: u64 = 5_000_000_000;
/// Maximum interval of feedback.
const MAX_FEEDBACK_NS: u64 = 3_000_000_000;
/// Above this rate per datagram flow of the server, feedback is never less frequent: it limits how much is sent to a
/// receiver that has ended.
const MAX_UNPROVED_BITS_PER_SECOND: f64 = 1e6;

/// The rate that a plan states, from which both ends derive how often control traffic is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatedRate {
    /// Sum of the flows' rates (`-b`), bit/s of payload; absent if a flow has none.
    asked: Option<f64>,
    /// The lower of that and the nominal rate (`--nominal`), unless the plan states the rate of control traffic: the rate of which that
    /// is the maximum fraction.
    stated: Option<f64>,
    /// Datagram flows that the server sends: each requires feedback.
    feedback_flows: usize,
}

impl StatedRate {
    /// The rate stated by `plan`, whose flows are `specs`; of a schedule of rates the highest.
    pub fn of(plan: &Plan, specs: &[FlowSpec]) -> StatedRate {
        let bits = |rate: SendRate, spec: &FlowSpec| match rate.limit {
            RateLimit::Unlimited => None,
            RateLimit::Bits(bits) => Some(bits.0 as f64),
            RateLimit::Packets(packets) => Some(8.0 * packets * spec.payload_bytes().max(1) as f64),
        };
        let rate = |spec: &FlowSpec| {
            let schedule = spec.connection.rate_schedule.as_ref();
            let scheduled = schedule.into_iter().flat_map(|schedule| schedule.reached(spec.rate));
            let scheduled = scheduled.filter_map(|rate| bits(rate, spec));
            Some(scheduled.fold(bits(spec.rate, spec)?, f64::max))
        };
        let asked = specs.iter().map(rate).sum::<Option<f64>>().filter(|_| !specs.is_empty());
        let nominal = plan.nominal.map(|nominal| nominal.0 as f64);
        let control = plan.control_rate.map(|rate| rate.0 as f64 / STATED_RATIO);
        let has_feedback = |spec: &&FlowSpec| {
            let c = &spec.connection;
            c.transport.datagrams() && c.direction == Direction::Reverse
        };
        StatedRate {
            asked,
            stated: control.or(asked.into_iter().chain(nominal).reduce(f64::min)),
            feedback_flows: specs.iter().filter(has_feedback).count(),
        }
    }

    /// `usual_ns`, or longer if `bytes` at that interval would exceed a quarter of the control traffic's fraction.
    fn period_ns(&self, bytes: f64, usual_ns: u64) -> u64 {
        let Some(stated) = self.stated.filter(|stated| *stated > 0.0) else {
            return usual_ns;
        };
        let seconds = 8.0 * bytes / (QUARTER * STATED_RATIO * stated);
        usual_ns.max((seconds * 1e9) as u64)
    }

    /// The interval of latency probes of `bytes` each, answer included; at least `usual_ns`.
    pub fn probe_ns(&self, bytes: usize, usual_ns: u64) -> u64 {
        self.period_ns(bytes as f64, usual_ns)
    }

    /// `usual_ns`, longer by the factor that the rate requires of keepalives and clock relations together; 5 s at
    /// most.
    fn upkeep_ns(&self, usual_ns: u64) -> u64 {
        let clocks = KEEPALIVE_NS as f64 / CLOCK_NS as f64;
        let both = self.period_ns(KEEPALIVE_BYTES + clocks * CLOCK_BYTES, KEEPALIVE_NS);
        let factor = both as f64 / KEEPALIVE_NS as f64;
        ((usual_ns as f64 * factor) as u64).min(MAX_UPKEEP_NS)
    }

    /// The interval of keepalives: 2 s to 5 s.
    pub fn keepalive_ns(&self) -> u64 {
        self.upkeep_ns(KEEPALIVE_NS)
    }

    /// How much longer than usual the interval of keepalives is, and with it each end's timeout.
    pub fn more_silence_ns(&self) -> u64 {
        self.keepalive_ns() - KEEPALIVE_NS
    }

    /// The interval of clock relations: 1 s to 5 s; in the test's first second the fraction `of` it.
    pub fn clock_ns(&self, of: f64) -> u64 {
        self.upkeep_ns((CLOCK_NS as f64 * of) as u64)
    }

    /// The interval of a receiver's feedback: 500 ms to 3 s.
    pub fn feedback_ns(&self) -> u64 {
        let most = MAX_UNPROVED_BITS_PER_SECOND * self.feedback_flows.max(1) as f64;
        if self.asked.is_none_or(|asked| asked > most) {
            return FEEDBACK_NS;
        }
        let bytes = (self.feedback_flows * FEEDBACK_BYTES) as f64;
        self.period_ns(bytes, FEEDBACK_NS).min(MAX_FEEDBACK_NS)
    }

    /// Maximum rate of the control connection, bit/s.
    fn messages(&self) -> Option<f64> {
        let others = if self.feedback_flows > 0 { 2.0 } else { 1.0 };
        self.stated.map(|stated| (1.0 - others * QUARTER) * STATED_RATIO * stated)
    }
}

/// Credit for the messages of one session's control connection while its test runs. It grows with each interval by what
/// the interval's measured rate allows, and every byte of the connection is charged to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ControlBudget {
    /// The limit by the stated rate, bit/s.
    most: Option<f64>,
    credit_bytes: f64,
}

impl ControlBudget {
    /// A budget without credit.
    pub fn new(stated: &StatedRate) -> Self {
        ControlBudget { most: stated.messages(), credit_bytes: 0.0 }
    }

    /// Bytes allowed for messages in an interval of `seconds` in which `measured_bytes` of payload were counted: the
    /// larger of 1 % of the measured rate and 8 kbit/s, within the messages' part of 10 % of the stated rate.
    pub fn allowed_bytes(&self, seconds: f64, measured_bytes: u64) -> f64 {
        let floor = FLOOR_BITS_PER_SECOND * seconds / 8.0;
        let allowed = floor.max(MEASURED_RATIO * measured_bytes as f64);
        self.most.map_or(allowed, |most| allowed.min(most * seconds / 8.0))
    }

    /// Adds credit for an interval of `seconds`. Saved credit is limited to that of one second, or to `bytes`.
    pub fn earn(&mut self, bytes: f64, seconds: f64) {
        let second = bytes / if seconds > 0.0 { seconds } else { 1.0 };
        let most = bytes.max(second).max(ONE_MESSAGE_BYTES).max(self.credit_bytes);
        self.credit_bytes = (self.credit_bytes + bytes).min(most);
    }

    /// Charges bytes. Messages that a test requires may go into debt, by one second's floor at most, so that a burst
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
    use weir_model::plan::Transport;
    use weir_model::plan::{Connection, Family};

    fn stated(direction: Direction, rates: &[&str], nominal: Option<&str>) -> StatedRate {
        let connection = |rate: &&str| Connection {
            transport: Transport::udp(),
            direction,
            rate: (!rate.is_empty()).then(|| rate.parse().unwrap()),
            payload: Some("172".parse().unwrap()),
            ..Connection::default()
        };
        let plan = Plan {
            connections: rates.iter().map(connection).collect(),
            nominal: nominal.map(|n| n.parse().unwrap()),
            ..Plan::default()
        };
        StatedRate::of(&plan, &plan.flows(Family::Ipv4, 1500))
    }

    fn of(rate: Option<f64>) -> StatedRate {
        StatedRate { asked: rate, stated: rate, feedback_flows: 0 }
    }

    #[test]
    fn the_stated_rate_is_the_sum_of_the_flows_or_the_nominal_rate() {
        let stated = |rates: &[&str], nominal| stated(Direction::Forward, rates, nominal).stated;
        assert_eq!(stated(&["50pps"], None), Some(68_800.0));
        assert_eq!(stated(&["50pps", "1M"], None), Some(1_068_800.0));
        assert_eq!(stated(&["50pps", "0"], None), None, "one flow is unlimited");
        assert_eq!(stated(&["0"], Some("24k")), Some(24_000.0));
        assert_eq!(stated(&["1M"], Some("24k")), Some(24_000.0));
        assert_eq!(stated(&["1M"], Some("1G")), Some(1e6));
    }

    #[test]
    fn a_plan_may_state_the_rate_of_control_traffic() {
        let connection = Connection {
            transport: Transport::udp(),
            rate: Some("10pps".parse().unwrap()),
            payload: Some("64".parse().unwrap()),
            ..Connection::default()
        };
        let plan = |control_rate| Plan {
            connections: vec![connection.clone()],
            control_rate,
            ..Plan::default()
        };
        let budget = |plan: Plan| {
            let rate = StatedRate::of(&plan, &plan.flows(Family::Ipv4, 1500));
            8.0 * ControlBudget::new(&rate).allowed_bytes(1.0, 640)
        };
        assert!((budget(plan(None)) - 384.0).abs() < 1e-6);
        assert!((budget(plan(Some("8k".parse().unwrap()))) - 6000.0).abs() < 1e-6);
    }

    /// Bit/s of probes and feedback, and of keepalives and clock relations.
    fn periodic(rate: &StatedRate) -> (f64, f64) {
        let bits_per_second = |bytes: f64, ns: u64| 8e9 * bytes / ns as f64;
        let feedback = (rate.feedback_flows * FEEDBACK_BYTES) as f64;
        let datagrams = bits_per_second(184.0, rate.probe_ns(184, 100_000_000))
            + bits_per_second(feedback, rate.feedback_ns());
        let upkeep = bits_per_second(KEEPALIVE_BYTES, rate.keepalive_ns())
            + bits_per_second(CLOCK_BYTES, rate.clock_ns(1.0));
        (datagrams, upkeep)
    }

    #[test]
    fn all_control_traffic_stays_within_a_tenth_of_the_stated_rate() {
        for (direction, rates, nominal) in [
            (Direction::Forward, &["8.5k"][..], None),
            (Direction::Forward, &["16k"], None),
            (Direction::Forward, &["0"], Some("9k")),
            (Direction::Reverse, &["13k"], None),
            (Direction::Reverse, &["1M"], Some("13k")),
            (Direction::Reverse, &["10k"; 50], None),
            (Direction::Reverse, &["10k"; 200], None),
            (Direction::Reverse, &["50k"; 200], None),
            (Direction::Reverse, &["64k"], None),
            (Direction::Forward, &["10M"], None),
        ] {
            let rate = stated(direction, rates, nominal);
            let (datagrams, upkeep) = periodic(&rate);
            let budget = ControlBudget::new(&rate);
            // At the stated rate, live figures use what the connection has left.
            let stated = rate.stated.unwrap();
            let messages = 8.0 * budget.allowed_bytes(1.0, (stated / 8.0) as u64);
            let all = datagrams + messages.max(upkeep);
            assert!(all <= 0.1 * stated * (1.0 + 1e-6), "{all} of {stated}: {rates:?}");
        }
    }

    #[test]
    fn periods_are_the_usual_ones_unless_the_rate_is_low() {
        let periods = |r: &StatedRate| (r.keepalive_ns(), r.clock_ns(1.0), r.feedback_ns());
        let usual = (KEEPALIVE_NS, CLOCK_NS, FEEDBACK_NS);
        let reverse = |rate, nominal| stated(Direction::Reverse, &[rate], nominal);
        assert_eq!(periods(&reverse("0", None)), usual);
        assert_eq!(periods(&reverse("100k", None)), usual);
        assert_eq!(periods(&reverse("1k", None)), (MAX_UPKEEP_NS, MAX_UPKEEP_NS, MAX_FEEDBACK_NS));
        // A sender that a nominal rate does not slow down is stopped as soon as any other.
        assert_eq!(reverse("2M", Some("1k")).feedback_ns(), FEEDBACK_NS);
        assert_eq!(reverse("0", Some("1k")).feedback_ns(), FEEDBACK_NS);
    }

    #[test]
    fn periodic_messages_are_no_longer_than_the_budget_assumes() {
        use weir_wire::control::{ClientMessage, ClockState, ServerMessage, encode};
        // The overhead of framing and encryption.
        const MORE: usize = 12 + 28;
        // A year of uptime.
        let ns = 31_536_000_000_000_000;
        let probe = encode(&ClientMessage::Probe { t1_ns: ns, reference: false }).len();
        let reply = ServerMessage::ProbeReply { t1_ns: ns, t2_ns: ns, t3_ns: ns, reference: None };
        assert!((probe + encode(&reply).len() + 2 * MORE) as f64 <= KEEPALIVE_BYTES);
        let clock = ClockState {
            offset_ns: -(ns as i64),
            skew_ppb: -100_000,
            reference_ns: ns,
            error_ns: 10_000_000,
        };
        let clock = encode(&ClientMessage::Clock(clock)).len();
        assert!((clock + MORE) as f64 <= CLOCK_BYTES);
    }

    #[test]
    fn messages_stay_within_one_per_cent_or_8_kbit() {
        for stated in [None, Some(24e3), Some(1e6), Some(1e9)] {
            for measured in [0.0, 10e3, 68.8e3, 1e6, 10e9] {
                let budget = ControlBudget::new(&of(stated));
                let messages = 8.0 * budget.allowed_bytes(0.25, (measured / 32.0) as u64) / 0.25;
                assert!(messages <= f64::max(measured / 100.0, 8000.0) + 1e-6);
            }
        }
        let budget = ControlBudget::new(&of(None));
        let rate = |measured_bytes| 8.0 * budget.allowed_bytes(1.0, measured_bytes);
        assert_eq!((rate(0), rate(1_250_000)), (8000.0, 100_000.0));
    }

    #[test]
    fn messages_spend_what_was_earned() {
        for stated in [None, Some(2e3), Some(68.8e3)] {
            let mut budget = ControlBudget::new(&of(stated));
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
        let mut budget = ControlBudget::new(&of(None));
        budget.spend(1e9);
        let mut intervals = 0;
        while !budget.allows(120.0) {
            budget.earn(budget.allowed_bytes(1.0, 0), 1.0);
            intervals += 1;
        }
        assert_eq!(intervals, 2);
    }
}
