//! Boundary values of each definition: the last on one side, the first on the other.

use weir_stats::{
    ClockEstimator, ClockFit, ClockReading, DelaySummary, Histogram, Jitter, LinkFamily, LinkShape,
    LinkTransport, Probe, RealtimeMap, SequenceConfig, SequenceExtender, SequenceTracker, Spacing,
    Time32Unwrapper,
};

const SECOND: u64 = 1_000_000_000;

fn tracker(change: impl FnOnce(&mut SequenceConfig)) -> SequenceTracker {
    let mut config = SequenceConfig::default();
    change(&mut config);
    SequenceTracker::new(config)
}

#[test]
fn one_packet_has_no_jitter() {
    let mut jitter = Jitter::new();
    jitter.on_packet(0, 5);
    assert_eq!(jitter.ns(), None);
    jitter.on_packet(1, 6);
    assert_eq!(jitter.ns(), Some(0.0));
}

#[test]
fn a_flow_is_complete_when_the_last_number_has_come() {
    let mut t = tracker(|_| {});
    t.on_packet(0, 0);
    t.on_packet(1, 0);
    assert!(!t.is_complete(3));
    t.on_packet(2, 0);
    assert!(t.is_complete(3));
}

#[test]
fn a_number_passed_right_after_a_mark_belongs_to_the_new_interval() {
    for marks_before_return in [0, 1] {
        let mut t = tracker(|_| {});
        for seq in 0..10 {
            t.on_packet(seq, 0);
        }
        t.mark_interval(0);
        t.on_packet(11, 1);
        for _ in 0..marks_before_return {
            t.mark_interval(1);
        }
        assert_eq!(t.open_interval_lost(), 1 - marks_before_return);
        t.on_packet(10, 2);
        t.mark_interval(2);
        assert_eq!(t.interval_lost().iter().sum::<u64>(), 0);
        assert_eq!(t.counts().lost, 0);
    }
    // A loss of the first interval does not hide a late arrival in the second.
    let mut t = tracker(|_| {});
    t.on_packet(1, 0);
    t.mark_interval(0);
    t.on_packet(3, 0);
    t.mark_interval(0);
    t.on_packet(2, 0);
    assert_eq!(t.interval_lost(), [1, 0]);
}

#[test]
fn new_lengths_overflow_when_full_but_known_ones_still_count() {
    let mut t = tracker(|c| c.max_run_lengths = 2);
    let mut seq = 0;
    for lost in [1, 2, 3, 1, 2, 4] {
        t.on_packet(seq, 0);
        seq += lost + 1;
    }
    t.on_packet(seq, 0);
    let runs = t.finish(None, 10 * SECOND).loss_periods;
    assert_eq!(runs.lengths.into_iter().collect::<Vec<_>>(), [(1, 2), (2, 2)]);
    assert_eq!((runs.overflow_periods, runs.overflow_packets), (2, 7));
}

#[test]
fn an_extent_without_its_gap_is_a_lower_bound() {
    let mut t = tracker(|c| c.max_gaps = 1);
    for seq in [1, 3, 4, 5] {
        t.on_packet(seq, 0);
    }
    // The gap of 0 was dropped in favour of that before 3: of the four packets that overtook it, three are
    // known.
    t.on_packet(0, 0);
    let extent = t.finish(None, 1).reorder_extent;
    assert_eq!((extent.bounds, extent.max), (1, 3));
    let mut t = tracker(|_| {});
    for seq in [1, 3, 4, 5, 0] {
        t.on_packet(seq, 0);
    }
    let extent = t.finish(None, 1).reorder_extent;
    assert_eq!((extent.bounds, extent.max), (0, 4));
}

#[test]
fn narrow_numbers_continue_from_the_highest() {
    let mut e = SequenceExtender::new(8);
    for n in 0..=300u64 {
        let extended = e.extend(n & 255, 0);
        assert_eq!(extended.sequence, n);
        e.accept(extended);
    }
    assert_eq!(e.extend(240, 0).sequence, 240, "61 back");
    assert_eq!(e.extend(380 & 255, 0).sequence, 380, "79 ahead of the highest");
    // A quarter of the space is flagged, one less is not.
    for (step, flagged) in [(62, false), (63, false), (64, true)] {
        let mut e = SequenceExtender::new(8);
        e.accept(e.extend(0, 0));
        assert_eq!(e.extend(step + 1, 0).ambiguous, flagged, "{step}");
    }
    for bits in [0, 64, 99] {
        assert_eq!(SequenceExtender::new(bits).extend(0, 0).sequence, 0);
    }
}

#[test]
fn an_unwrapper_takes_a_newer_offset() {
    let mut u = Time32Unwrapper::new(0);
    u.set_offset(1000 * SECOND as i64);
    assert_eq!(u.unwrap((1005 * SECOND) as u32, 5 * SECOND), 1005 * SECOND);
}

#[test]
fn a_delay_of_zero_is_not_negative() {
    let mut d = DelaySummary::new();
    [-1, 0, 1].into_iter().for_each(|v| d.record(v));
    assert_eq!(d.negative(), 1);
}

#[test]
fn quantiles_below_the_first_delays_are_in_order() {
    // 256 of 1000 and above set the origin; 64 lower ones follow.
    let mut d = DelaySummary::new();
    (0..256).for_each(|v| d.record(1000 + v));
    (0..64).for_each(|v| d.record(v));
    for (quantile, value) in [(0.1, 31), (0.2, 63), (0.203, 1000), (0.5, 1095)] {
        assert_eq!(d.quantile_ns(quantile), Some(value), "{quantile}");
    }
}

#[test]
fn merged_delays_keep_both_extremes() {
    let of = |from: i64| {
        let mut d = DelaySummary::new();
        (from..from + 300).for_each(|v| d.record(v));
        d
    };
    for (mut a, b) in [(of(1000), of(-50)), (of(-50), of(1000))] {
        a.merge(&b);
        assert_eq!(
            (a.min_ns(), a.max_ns(), a.count(), a.negative()),
            (Some(-50), Some(1299), 600, 50)
        );
        assert_eq!(a.mean_ns(), Some((1149.5 + 99.5) / 2.0));
    }
}

#[test]
fn half_range_is_half_the_distance_of_the_16th_and_84th_percentile() {
    let mut s = Spacing::new();
    let (mut intended, mut actual) = (0u64, 1_000_000u64);
    s.on_sent(intended, actual);
    // Errors of 0, 0, … and then 1000 in a quarter of the gaps: the 84th percentile is 1000, the 16th 0.
    for n in 0..400u64 {
        intended += 5000;
        actual += 5000 + if n % 4 == 0 { 1000 } else { 0 };
        s.on_sent(intended, actual);
    }
    assert_eq!(s.half_range_ns(), Some(500.0));
    // The same below: early in a quarter of the gaps.
    let mut s = Spacing::new();
    let (mut intended, mut actual) = (0u64, 1_000_000u64);
    s.on_sent(intended, actual);
    for n in 0..400u64 {
        intended += 5000;
        actual += 5000 - if n % 4 == 0 { 1000 } else { 0 };
        s.on_sent(intended, actual);
    }
    assert_eq!(s.half_range_ns(), Some(500.0));
}

#[test]
fn histograms_merge_wrap_and_rank_exactly() {
    let mut a = Histogram::new();
    let mut b = Histogram::new();
    a.record(5000);
    b.merge(&a);
    assert_eq!((b.max(), b.count()), (Some(5000), 1));
    let mut h = Histogram::new();
    for _ in 0..3 {
        h.record_n(5, 1 << 32);
    }
    assert_eq!(h.cells().next(), Some((5, 5, 3 << 32)));
    // 0.07 x 100 is a little above 7 in binary; the rank is 7.
    let mut h = Histogram::new();
    (1..=100).for_each(|v| h.record(v));
    assert_eq!(h.quantile(0.07), Some(7));
}

/// A probe at `at_ns` that takes `rtt_ns`, equally forth and back, to a clock ahead by `offset_ns`.
fn probe(at_ns: u64, rtt_ns: u64, offset_ns: u64) -> Probe {
    let there = at_ns + rtt_ns / 2 + offset_ns;
    Probe { t1_ns: at_ns, t2_ns: there, t3_ns: there, t4_ns: at_ns + rtt_ns }
}

fn fit(probes: &[Probe]) -> ClockFit {
    let mut e = ClockEstimator::new();
    for p in probes {
        assert_eq!(e.on_probe(*p), Ok(None));
    }
    e.fit().unwrap()
}

#[test]
fn a_probe_refers_to_the_middle_of_its_round_trip() {
    let f = fit(&[probe(1000, 500, 7)]);
    assert_eq!((f.reference_ns, f.offset_ns, f.min_rtt_ns), (1250, 7, 500));
    // Clocks run at different rates: a turnaround that seems slightly longer than the round trip is
    // accepted, a longer one refused.
    let held = |ns| Probe { t1_ns: 0, t2_ns: 0, t3_ns: ns, t4_ns: 1000 };
    assert!(ClockEstimator::new().on_probe(held(1900)).is_ok());
    assert!(ClockEstimator::new().on_probe(held(2100)).is_err());
}

#[test]
fn a_slope_within_the_error_of_the_probes_is_zero() {
    // Two probes 10 ms apart: 2 us of difference may be the path's. The offset is that of the shorter round
    // trip.
    let f = fit(&[probe(0, 1_000_000, 5000), probe(10_000_000, 900_000, 7000)]);
    assert_eq!((f.skew_ppm, f.offset_ns), (0.0, 7000));
    let f = fit(&[probe(0, 900_000, 5000), probe(10_000_000, 1_000_000, 7000)]);
    assert_eq!((f.skew_ppm, f.offset_ns), (0.0, 5000));
    // Exactly on a line, but steeper than any clock's drift.
    let steep: Vec<_> = (0..5u64).map(|n| probe(n * 10_000_000, 1_000_000, n * 10_000)).collect();
    assert_eq!(fit(&steep).skew_ppm, 0.0);
}

#[test]
fn the_error_between_two_probes_is_at_most_the_larger_one() {
    let f = fit(&[probe(0, 100_000, 0), probe(10 * SECOND, 100_000, 0)]);
    let (ends, middle) = (f.error_at(0).max(f.error_at(10 * SECOND)), f.error_at(5 * SECOND));
    assert!((50_000..=50_200).contains(&ends), "{ends}");
    assert!(middle <= ends, "{middle} in the middle, {ends} at the ends");
}

#[test]
fn remote_times_map_back_over_a_long_time() {
    let probes: Vec<_> = (0..=100u64).map(|n| probe(n * SECOND, 1000, n * 100_000)).collect();
    let f = fit(&probes);
    assert!((f.skew_ppm - 100.0).abs() < 0.1, "{}", f.skew_ppm);
    for ahead in [0, 1, 1000, 10_000] {
        let local = f.reference_ns + ahead * SECOND;
        let back = f.map_remote_to_local(local.wrapping_add_signed(f.offset_at(local)));
        assert!(back.abs_diff(local) <= 2, "{back} for {local}");
    }
}

#[test]
fn steps_are_kept_in_a_bounded_number() {
    let mut e = ClockEstimator::new();
    for n in 0..600u64 {
        e.on_probe(probe(n * 1_000_000, 1000, n % 2 * SECOND)).unwrap();
    }
    assert_eq!(e.steps().len(), 512);
}

fn reading(monotonic_ns: u64, bracket_ns: u64, realtime_ns: u64) -> ClockReading {
    ClockReading {
        monotonic_before_ns: monotonic_ns - bracket_ns / 2,
        realtime_ns,
        monotonic_after_ns: monotonic_ns - bracket_ns / 2 + bracket_ns,
    }
}

#[test]
fn a_realtime_reading_is_no_better_than_half_its_bracket() {
    assert_eq!(RealtimeMap::new(reading(10, 3, 0)).unwrap().error_ns(), 2);
    let backwards = ClockReading { monotonic_before_ns: 9, realtime_ns: 0, monotonic_after_ns: 1 };
    assert_eq!(ClockReading::narrowest(&[backwards]), None);
}

#[test]
fn realtime_is_followed_up_to_the_maximum_slew() {
    // 800 ppm in a second may be a change from -400 to +400: no step, but no lasting rate.
    let mut map = RealtimeMap::new(reading(SECOND, 0, 0)).unwrap();
    assert_eq!(map.refit(reading(2 * SECOND, 0, SECOND + 800_000)), Ok(None));
    assert_eq!(map.error_ns(), 800_000, "the distance from the expected time");
    let later = map.to_monotonic(2 * SECOND + 800_000);
    assert_eq!(3 * SECOND - later, 499_750, "500 ppm, and not 800");
    // A change beyond the maximum slew is a step, after which the old rate is invalid.
    let mut map = RealtimeMap::new(reading(SECOND, 0, 0)).unwrap();
    assert_eq!(map.refit(reading(2 * SECOND, 0, SECOND + 100_000)), Ok(None));
    let step = map.refit(reading(3 * SECOND, 0, 7 * SECOND)).unwrap().unwrap();
    assert_eq!((step.at_ns, step.by_ns), (3 * SECOND, 5 * SECOND as i64 - 200_000));
    assert_eq!(map.to_monotonic(8 * SECOND), 4 * SECOND);
}

#[test]
fn readings_close_in_time_do_not_change_the_rate() {
    let mut map = RealtimeMap::new(reading(SECOND, 1000, 0)).unwrap();
    assert_eq!(map.refit(reading(SECOND + 1_000_000, 1000, 1_000_400)), Ok(None));
    assert_eq!(map.to_monotonic(1_000_400 + SECOND), 2 * SECOND + 1_000_000);
}

#[test]
fn fragments_are_cut_at_multiples_of_eight() {
    let udp = |family, mtu_bytes, payload| {
        LinkShape { mtu_bytes, ..LinkShape::new(LinkTransport::datagrams(8), family) }
            .packet(payload)
            .frames
    };
    // 1480 bytes behind each IPv4 header: 2960 with the UDP header fill two.
    assert_eq!(udp(LinkFamily::Ipv4, 1500, 2952), 2);
    assert_eq!(udp(LinkFamily::Ipv4, 1500, 2953), 3);
    // If the MTU without the header is not a multiple of eight, its last bytes are unused.
    assert_eq!(udp(LinkFamily::Ipv4, 1503, 2955), 3);
    assert_eq!(udp(LinkFamily::Ipv6, 1507, 2906), 3);
    let tcp = |header_bytes| {
        LinkShape::new(LinkTransport::segments(header_bytes), LinkFamily::Ipv4).packet(100).ip
    };
    assert_eq!((tcp(20), tcp(32), tcp(60)), (140, 152, 180));
}
