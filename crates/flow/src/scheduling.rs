//! Chooses the scheduling class of a sending thread, and how long it may spin, from the demand of its flows.
//!
//! A thread under SCHED_FIFO wakes on time under any load, because it preempts every normal thread of its processor.
//! That is why it is only for flows whose cost has a bound well below one processor.

use std::ops::AddAssign;

/// Processor time to send one datagram of up to [`PART_BYTES`], s: system call, transmit path, and on a virtual link
/// the receive path to the socket as well.
const MESSAGE_SECONDS: f64 = 4e-6;
/// Processor time of one sleep and its wake-up, s. It is that of a virtual machine, where each sleep sets a timer of
/// the host: measured beside two busy loops, 20 000 a second could not be kept.
const WAKE_SECONDS: f64 = 20e-6;
/// Processor time of each further segment of a super-packet, s.
const SEGMENT_SECONDS: f64 = 0.5e-6;
/// A larger datagram is sent in fragments, each of which costs as much as a datagram.
const PART_BYTES: usize = 1472;
/// Fraction of one processor that a thread under SCHED_FIFO may need for waking and sending. With both ends on one
/// host and a sending thread for each processor at either end, half of the machine is left for others.
const MAX_NEEDED: f64 = 0.25;
/// Fraction of one processor that such a thread may use, spinning included, if there are enough processors.
const MAX_BUSY: f64 = 0.5;
/// The same on fewer than [`CPUS_ENOUGH`] processors, so that the receiver need not wait.
const MAX_BUSY_FEW: f64 = 0.25;
const CPUS_ENOUGH: usize = 3;
/// Maximum time that such a thread wakes ahead unless requested, ns: later wake-ups are not caused by timers.
const MAX_AHEAD_NS: u64 = 500_000;

/// The scheduling that the user requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// SCHED_FIFO for threads whose flows are all paced at a bounded cost, where the system grants it.
    #[default]
    Auto,
    /// Never SCHED_FIFO.
    Normal,
    /// As [`Scheduling::Auto`], but it is an error if the system refuses.
    Fifo,
}

impl std::fmt::Display for Scheduling {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Scheduling::Auto => "auto",
            Scheduling::Normal => "normal",
            Scheduling::Fifo => "fifo",
        })
    }
}

impl std::str::FromStr for Scheduling {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Scheduling::Auto),
            "normal" => Ok(Scheduling::Normal),
            "fifo" => Ok(Scheduling::Fifo),
            _ => Err("expected auto, normal or fifo"),
        }
    }
}

/// The user's request for sending threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Their class.
    pub scheduling: Scheduling,
    /// How long they spin before each deadline, ns; absent: as long as their wake-ups require ([`WakeupLatency`]).
    pub spin_ns: Option<u64>,
}

impl From<Scheduling> for Asked {
    fn from(scheduling: Scheduling) -> Self {
        Asked { scheduling, spin_ns: None }
    }
}

/// The class of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// The system's normal scheduling (SCHED_OTHER).
    #[default]
    Normal,
    /// Real-time scheduling without time slices (SCHED_FIFO).
    Fifo,
}

impl Class {
    /// Its name in the record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Normal => "normal",
            Class::Fifo => "fifo",
        }
    }
}

/// The demand of flows on the thread that sends them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Demand {
    /// Processors needed for sending; infinite for a flow without a rate.
    pub processors: f64,
    /// Deadlines per second.
    pub wakeups_per_second: f64,
}

impl Demand {
    /// Demand of a flow without a rate: unlimited.
    pub const UNLIMITED: Demand =
        Demand { processors: f64::INFINITY, wakeups_per_second: f64::INFINITY };

    /// Demand of a flow of `packets_per_second` in groups of `burst`, of which `segments` are sent as one message.
    pub fn paced(packets_per_second: f64, burst: u32, payload: usize, segments: usize) -> Demand {
        let segments = segments.max(1) as f64;
        let packet = if segments > 1.0 {
            (MESSAGE_SECONDS + (segments - 1.0) * SEGMENT_SECONDS) / segments
        } else {
            MESSAGE_SECONDS * payload.div_ceil(PART_BYTES).max(1) as f64
        };
        Demand {
            processors: packets_per_second * packet,
            wakeups_per_second: packets_per_second / f64::from(burst.max(1)),
        }
    }
}

impl AddAssign for Demand {
    fn add_assign(&mut self, other: Demand) {
        self.processors += other.processors;
        self.wakeups_per_second += other.wakeups_per_second;
    }
}

/// How a thread waits for its deadlines: its class, and the bounds of its spinning before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waking {
    /// Its class.
    pub class: Class,
    /// Minimum time to spin, ns.
    pub min_spin_ns: u64,
    /// Maximum time to spin, ns; not below `min_spin_ns`.
    pub max_spin_ns: u64,
}

impl Waking {
    /// Normal scheduling, spinning `spin_ns`.
    pub fn normal(spin_ns: u64) -> Waking {
        Waking { class: Class::Normal, min_spin_ns: spin_ns, max_spin_ns: spin_ns }
    }
}

/// How a thread with this demand waits on a host of `cpus` processors. Unless requested otherwise, it spins `spin_ns`
/// under normal scheduling; under SCHED_FIFO up to [`MAX_AHEAD_NS`] if its wake-ups are late, but never longer than
/// its fraction of the processor allows.
pub fn waking(asked: impl Into<Asked>, demand: Demand, cpus: usize, spin_ns: u64) -> Waking {
    let Asked { scheduling, spin_ns: asked_ns } = asked.into();
    let min_ns = asked_ns.unwrap_or(spin_ns);
    // Without flows there is nothing to be on time for.
    let needed = demand.processors + demand.wakeups_per_second * WAKE_SECONDS;
    if scheduling == Scheduling::Normal || !(needed > 0.0 && needed <= MAX_NEEDED) {
        return Waking::normal(min_ns);
    }
    // Spinning makes gaps even (1 to 2 us of deviation instead of 6 to 25), and a little of it starves no other
    // thread.
    let most = if cpus < CPUS_ENOUGH { MAX_BUSY_FEW } else { MAX_BUSY };
    let affordable_ns = ((most - needed) / demand.wakeups_per_second * 1e9).round() as u64;
    Waking {
        class: Class::Fifo,
        min_spin_ns: min_ns.min(affordable_ns),
        max_spin_ns: asked_ns.unwrap_or(MAX_AHEAD_NS.max(spin_ns)).min(affordable_ns),
    }
}

/// How long before a deadline a thread wakes, learned from its lateness so far: about one wake-up in a hundred is
/// later than that. On a host with exact timers it stays at the minimum; on a virtual machine whose wake-ups are 100
/// us late for an hour it grows with them.
///
/// A stochastic approximation of the 99th percentile (Robbins and Monro 1951): a wake-up beyond the margin widens it by
/// 99 steps, one within narrows it by one.
#[derive(Debug, Clone, Copy)]
pub struct WakeupLatency {
    waking: Waking,
    spin_ns: u64,
}

/// Narrowing per wake-up, ns.
const STEP_NS: u64 = 250;
/// Wake-ups within the margin for each one beyond it.
const WITHIN: u64 = 99;

impl WakeupLatency {
    /// For a thread that waits as `waking` states. It starts with the maximum spin time: while it learned, its first
    /// packets would be late.
    pub fn new(waking: Waking) -> Self {
        WakeupLatency { waking, spin_ns: waking.max_spin_ns }
    }

    /// Its class and bounds.
    pub fn waking(&self) -> Waking {
        self.waking
    }

    /// How long before a deadline it wakes to spin, ns.
    pub fn spin_ns(&self) -> u64 {
        self.spin_ns
    }

    /// Waits as `waking` states from now on; what was learned stays, within its bounds.
    pub fn limit(&mut self, waking: Waking) {
        self.waking = waking;
        self.spin_ns = self.spin_ns.clamp(waking.min_spin_ns, waking.max_spin_ns);
    }

    /// Records a wake-up `late_ns` after the planned end of the sleep.
    pub fn woke(&mut self, late_ns: u64) {
        let wanted = if late_ns > self.spin_ns {
            self.spin_ns.saturating_add(WITHIN * STEP_NS)
        } else {
            self.spin_ns.saturating_sub(STEP_NS)
        };
        self.spin_ns = wanted.clamp(self.waking.min_spin_ns, self.waking.max_spin_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPIN: u64 = 60_000;

    fn auto(demand: Demand, cpus: usize) -> Waking {
        waking(Scheduling::Auto, demand, cpus, SPIN)
    }

    #[test]
    fn a_bounded_paced_flow_gets_fifo() {
        for pps in [1.0, 997.0, 1000.0] {
            let demand = Demand::paced(pps, 1, 160, 1);
            let waking = auto(demand, 2);
            assert_eq!((waking.class, waking.min_spin_ns), (Class::Fifo, SPIN), "{pps}");
            assert_eq!(super::waking(Scheduling::Fifo, demand, 2, SPIN), waking);
            assert_eq!(super::waking(Scheduling::Normal, demand, 2, SPIN), Waking::normal(SPIN));
        }
    }

    #[test]
    fn an_unlimited_or_costly_flow_rules_out_fifo() {
        let slow = Demand::paced(1000.0, 1, 160, 1);
        for more in [
            Demand::UNLIMITED,
            // Measured: with sleeps of 20 us it would need a processor of its own. It spins, and others may preempt
            // it.
            Demand::paced(50_000.0, 1, 160, 1),
            // 45 fragments each.
            Demand::paced(2000.0, 1, 65_507, 1),
        ] {
            for asked in [Scheduling::Auto, Scheduling::Fifo] {
                let mut sum = slow;
                sum += more;
                assert_eq!(waking(asked, sum, 8, SPIN), Waking::normal(SPIN), "{more:?}");
            }
        }
    }

    #[test]
    fn a_thread_without_flows_is_normal() {
        assert_eq!(auto(Demand::default(), 8), Waking::normal(SPIN));
    }

    #[test]
    fn super_packets_cost_less() {
        let alone = Demand::paced(200_000.0, 1, 160, 1);
        let coalesced = Demand::paced(200_000.0, 64, 160, 64);
        assert!(coalesced.processors < alone.processors / 4.0);
        assert_eq!(auto(alone, 2).class, Class::Normal);
        assert_eq!(auto(coalesced, 2).class, Class::Fifo);
    }

    #[test]
    fn spinning_shrinks_with_more_wake_ups_and_fewer_processors() {
        // 5000 wake-ups of 24 us are 12 %: the rest of 25 % and of 50 %, per wake-up.
        let demand = Demand::paced(5000.0, 1, 160, 1);
        assert_eq!(
            [1, 2, 3, 64].map(|cpus| auto(demand, cpus).min_spin_ns / 100),
            [260, 260, 600, 600]
        );
        assert_eq!([2, 3].map(|cpus| auto(demand, cpus).max_spin_ns / 100), [260, 760]);
        // 10 000 are 24 %.
        let demand = Demand::paced(10_000.0, 1, 160, 1);
        assert_eq!([2, 3].map(|cpus| auto(demand, cpus).max_spin_ns / 100), [10, 260]);
        // With few wake-ups it would be seconds.
        assert_eq!(auto(Demand::paced(1.0, 1, 160, 1), 2).max_spin_ns, MAX_AHEAD_NS);
    }

    #[test]
    fn it_spins_as_requested_within_its_fraction() {
        let of = |scheduling, pps, asked_us: u64| {
            let asked = Asked { scheduling, spin_ns: Some(1000 * asked_us) };
            waking(asked, Demand::paced(pps, 1, 160, 1), 2, SPIN)
        };
        let auto = |pps, us| of(Scheduling::Auto, pps, us);
        let fifo = |ns| Waking { class: Class::Fifo, min_spin_ns: ns, max_spin_ns: ns };
        assert_eq!(auto(1000.0, 200), fifo(200_000));
        assert_eq!(auto(1000.0, 0), fifo(0));
        // 1000 wake-ups of 24 us are 2.4 %: what is left of 25 %.
        assert_eq!(auto(1000.0, 900), fifo(226_000));
        // Others may preempt it: there is no limit.
        assert_eq!(of(Scheduling::Normal, 1000.0, 900), Waking::normal(900_000));
        assert_eq!(auto(50_000.0, 0), Waking::normal(0));
    }

    /// The margin, ns, after wake-ups of which one in `n` is `late_ns` late and the others 30 us.
    fn learnt(n: u64, late_ns: u64) -> u64 {
        let mut latency = WakeupLatency::new(auto(Demand::paced(1000.0, 1, 160, 1), 2));
        assert_eq!(latency.spin_ns(), 226_000, "as long as it may at first");
        (1..=20_000).for_each(|i| latency.woke(if i % n == 0 { late_ns } else { 30_000 }));
        latency.spin_ns()
    }

    #[test]
    fn it_wakes_ahead_by_the_lateness_of_its_wake_ups() {
        assert_eq!(learnt(1, 30_000), SPIN, "not below the minimum");
        assert_eq!(learnt(500, 150_000) / 50_000, 1, "rarer than one in a hundred");
        assert!(learnt(20, 150_000) >= 150_000);
        assert_eq!(learnt(20, 900_000), 226_000, "limited by its fraction");
        let mut fixed = WakeupLatency::new(Waking::normal(SPIN));
        (0..100).for_each(|_| fixed.woke(10_000_000));
        assert_eq!(fixed.spin_ns(), SPIN);
    }

    proptest! {
        #[test]
        fn one_wake_up_in_a_hundred_comes_later(seed in any::<u64>(), mean_us in 20.0f64..60.0) {
            let mut latency = WakeupLatency::new(auto(Demand::paced(100.0, 1, 160, 1), 4));
            let mut state = seed;
            let mut later = 0u32;
            for i in 0..120_000 {
                // SplitMix64, and exponential lateness.
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                let uniform = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
                let late = (-(1.0 - uniform).ln() * mean_us * 1000.0) as u64;
                later += u32::from(i >= 20_000 && late > latency.spin_ns());
                latency.woke(late);
            }
            prop_assert!((900..1100).contains(&later), "{later}");
        }

        #[test]
        fn under_fifo_it_never_uses_more_than_its_fraction(
            flows in prop::collection::vec((1.0f64..1e6, 1u32..64, 1usize..65_507, 1usize..64), 1..20), cpus in 1usize..65,
            spin_ns in prop::option::of(0u64..10_000_000),
        ) {
            let mut sum = Demand::default();
            for (pps, burst, payload, segments) in flows {
                sum += Demand::paced(pps, burst, payload, segments);
            }
            let chosen = waking(Asked { scheduling: Scheduling::Auto, spin_ns }, sum, cpus, SPIN);
            if chosen.class == Class::Fifo {
                let busy = sum.processors + sum.wakeups_per_second * (WAKE_SECONDS + chosen.max_spin_ns as f64 / 1e9);
                let most = if cpus < CPUS_ENOUGH { MAX_BUSY_FEW } else { MAX_BUSY };
                // Spinning is set to the nanosecond: half of one per wake-up may be too much.
                let rounding = sum.wakeups_per_second * 0.5e-9 + 1e-9;
                prop_assert!(busy <= most + rounding, "{busy}");
            } else {
                prop_assert!(sum.processors + sum.wakeups_per_second * WAKE_SECONDS > MAX_NEEDED);
            }
            prop_assert!(chosen.min_spin_ns <= chosen.max_spin_ns);
            prop_assert!(chosen.max_spin_ns <= spin_ns.unwrap_or(MAX_AHEAD_NS));
        }
    }

    #[test]
    fn what_was_learned_stays_within_new_bounds() {
        let bounds =
            |min_spin_ns, max_spin_ns| Waking { class: Class::Fifo, min_spin_ns, max_spin_ns };
        let mut latency = WakeupLatency::new(bounds(60_000, 200_000));
        (0..200).for_each(|_| latency.woke(0));
        assert_eq!(latency.spin_ns(), 150_000);
        for (to, spin_ns) in
            [((0, 180_000), 150_000), ((0, 5000), 5000), ((60_000, 200_000), 60_000)]
        {
            latency.limit(bounds(to.0, to.1));
            assert_eq!((latency.spin_ns(), latency.waking()), (spin_ns, bounds(to.0, to.1)));
        }
    }
}
