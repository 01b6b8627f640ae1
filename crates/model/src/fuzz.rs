//! Fuzz bodies: functions that take hostile bytes and check invariants.
#![doc(hidden)]

/// A plan is refused, or is the same after printing and parsing again.
pub fn fuzz_plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(plan) = crate::plan::Plan::parse(text)
        && let Ok(printed) = plan.to_toml()
    {
        assert_eq!(crate::plan::Plan::parse(&printed).as_ref(), Ok(&plan));
    }
}

/// A scenario is refused, or has steps with one action each.
pub fn fuzz_scenario(data: &[u8]) {
    use crate::experiment::{Scenario, Variables};
    let Ok(text) = std::str::from_utf8(data) else { return };
    for quick in [false, true] {
        if let Ok(read) = Scenario::parse(text, quick, &Variables::new(), &Default::default()) {
            assert!(!read.steps.is_empty() && read.steps.iter().all(|s| s.action().is_some()));
        }
    }
}

/// Expectations, metrics and axes are refused or valid; metrics are the same after printing and parsing again.
pub fn fuzz_expectation(data: &[u8]) {
    use crate::experiment::{Metric, Rule, ranges};
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(rule) = text.parse::<Rule>() {
        assert!(rule.bound.is_finite());
        let name = rule.metric.to_string();
        assert_eq!(name.parse::<Metric>().as_ref(), Ok(&rule.metric), "{name}");
    }
    if let Ok(values) = ranges("fuzz", text) {
        assert!(!values.is_empty() && values.len() <= 10_000);
    }
}

/// An impairment is refused, or is the same after printing and parsing again.
pub fn fuzz_impairment(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(read) = crate::impairment::Impairment::parse(text)
        && let Ok(printed) = read.to_toml()
    {
        assert_eq!(crate::impairment::Impairment::parse(&printed).as_ref(), Ok(&read));
    }
}

/// Laws in one line are refused, or are the same after printing and parsing again.
pub fn fuzz_laws(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(laws) = text.parse::<crate::impairment::Laws>() {
        let printed = laws.to_string();
        let again = printed.parse::<crate::impairment::Laws>();
        assert_eq!(again.as_ref(), Ok(&laws), "{printed}");
    }
}

/// A series is refused, or each of its lines is a change of both directions or of one.
pub fn fuzz_series(data: &[u8]) {
    use crate::impairment::{Impairment, MAX_TIMELINE_CHANGES, Timeline};
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(timeline) = Timeline::from_csv(text) {
        let changes = &timeline.changes;
        assert!(changes.len() <= MAX_TIMELINE_CHANGES && changes.len() < text.lines().count());
        assert!(changes.iter().all(|change| change.a_to_b.is_some() || change.b_to_a.is_some()));
        assert_eq!(Timeline::parse(&timeline.to_lines()).as_ref(), Ok(&timeline));
        let config = Impairment { timeline: Some(timeline), ..Impairment::default() };
        assert_eq!(config.check(), Ok(()));
    }
}

/// A file of mahimahi is refused, or its opportunities are in order, one for each line, and the same after printing and reading again.
pub fn fuzz_delivery_trace(data: &[u8]) {
    use crate::impairment::{DeliveryTrace, LinkRate};
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(trace) = DeliveryTrace::from_lines(text) {
        let times: Vec<_> = (0..=2 * text.lines().count() as u64).map(|n| trace.at_ns(n)).collect();
        assert!(times.is_sorted() && times[0] <= Some(trace.duration_ns()));
        assert_eq!(
            trace.at_ns(trace.first_after(trace.duration_ns() - 1)),
            Some(trace.duration_ns())
        );
        assert_eq!(trace.to_string().parse(), Ok(LinkRate::Trace(trace)));
    }
}

/// netem's words are refused, or become laws that are the same after printing and parsing again.
pub fn fuzz_netem(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(netem) = text.parse::<crate::impairment::Netem>() {
        let printed = netem.laws.to_string();
        let again = printed.parse::<crate::impairment::Laws>();
        assert_eq!(again.as_ref(), Ok(&netem.laws), "{printed}");
    }
}

/// A record is refused, or has the same JSON after printing and parsing again.
pub fn fuzz_record(data: &[u8]) {
    if let Ok(record) = crate::document::parse_json::<crate::record::Record>(data)
        && let Ok(once) = serde_json::to_string(&record)
    {
        let again: Result<crate::record::Record, _> = crate::document::parse_json(once.as_bytes());
        assert_eq!(again.ok().and_then(|r| serde_json::to_string(&r).ok()).as_ref(), Some(&once));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutate(sample: &[u8], body: fn(&[u8])) {
        weir_laws::mutation::replay(&[sample], 3000, body);
    }

    #[test]
    fn plans() {
        mutate(
            b"schema = \"weir.plan/1\"\nseed = \"0x7\"\nomit = \"2s\"\n[[connection]]\nname = \"voice\"\ntransport = \"udp\"\nrate = \"50000pps/4\"\npayload = 160\ncatch_up = \"burst:3\"\n[[connection]]\nbytes = \"1M\"\nrate = \"1M\"\npayload = \"uniform(min=64, max=1K)\"\nspacing = \"exponential\"\n[[connection]]\npayload = \"mixture(normal(mean=300, deviation=50, max=1K):3, table(9:1):2)\"\nspacing = \"on_off(on=1s, off=pareto(shape=3, scale=1ms), interval=20ms)\"\n",
            fuzz_plan,
        );
    }

    #[test]
    fn impairments() {
        mutate(
            b"schema = \"weir.impair/1\"\nseed = \"0x7\"\n[[flow]]\nname = \"v\"\nfilter = { source = \"10.0.0.0/8\", destination_port = \"1-9,20\", dscp = \"ef\", vlan = 3, length = 64 }\na_to_b = { loss = { gilbert_elliott = { loss_percentage = 2, mean_run = 4 } }, duplicate = { percentage = 1 }, rate = { bits = \"1M\", queue = \"9packets\" } }\nb_to_a = { delay = { uniform = { min = 0, max = \"5ms\" }, order = \"max\" }, content = { percentage = 1, region = \"l4\" }, order = [\"delay\"] }\n[[aggregate]]\nflows = [\"v\"]\n[[flow]]\nname = \"w\"\nfilter = { tcp_flags = \"syn/syn,ack\", icmp = \"3/4,8\", icmpv6 = \"not 133-137\", ecn = \"ce\", fragment = \"!later\", vlan_priority = 5, inner_vlan = \"1-9\", mpls_label = 16, source_mac = \"02:00:00:00:00:00/16\", destination_mac = \"01:00:00:00:00:00/01:00:00:00:00:00\", bytes = \"not 40/f0 at l4+12\", connection_share = \"30%-100%\", packet_share = \"not 5.5%\" }\nboth = \"delay 4ms, loss 1%\"\n[other]\na_to_b = \"rate 1M\"\nb_to_a = { order = [\"loss\"] }\n",
            fuzz_impairment,
        );
        mutate(
            b"schema = \"weir.impair/1\"\n[[flow]]\nname = \"v\"\na_to_b = { trigger = { start = \"match(vlan=3, source_port=1-9,20)\", stop = \"after 9K\", rearm = true, repeat = 3 } }\n[timeline]\nloop = \"9s\"\nspeed = 0.5\n[[timeline.change]]\nat = \"1s\"\nflow = \"v\"\nboth = \"loss 1%, trigger command\"\n[[timeline.change]]\nat = \"2500ms\"\nprofile = \"dsl\"\nb_to_a = \"none\"\n",
            fuzz_impairment,
        );
    }

    #[test]
    fn series() {
        mutate(
            b"# x\ntime,rate,a_to_b.delay,b_to_a.loss\n0,10M,20ms,1%\n0.5,\"2M queue 9packets\",,\n1500ms,1M,5ms +-1ms,2% 25%\n",
            fuzz_series,
        );
    }

    #[test]
    fn delivery_traces() {
        mutate(b"0\n1\n1\n4\n4\n4\n12\n", fuzz_delivery_trace);
    }

    #[test]
    fn laws() {
        for seed in [
            "rate trace(0 1x2 4) once queue 9packets codel, loss 1%",
            "rate trace(1,5x3) background 5% overhead 0, delay 5ms",
            "loss 1% run 4, duplicate 0.1%, rate 10M queue 250ms overhead 38, delay 40ms \u{b1}5ms normal allow, corrupt 1% repair flip 3 at l4, order delay rate",
            "loss ge 1% to-good 2% bad 50% good 0.1%, delay 5ms..10ms max, rate 1G queue 9packets",
            "loss every 9, delay 40ms +- 5ms exponential most 1s, corrupt 5% checksum",
            "loss 1% 25% ecn, delay 40ms 5ms 25% distribution paretonormal, corrupt 5% bleach-ecn 9%",
            "loss outage(interval=exponential(mean=9ms), duration=1ms..2ms), delay mixture(gamma(shape=2, scale=1ms):1, 5ms:2) max",
            "loss gap(poisson(mean=9)), delay histogram(1ms..2ms:3, 2ms..9ms:1) smooth half-life 5ms",
            "loss list(packets=3 7-9, every=20), delay quantiles(1ms, 2ms, 9ms) correlation 5%",
            "loss schedule(down=1s..2s 3s..4s, every=9s), delay sine(min=1ms, max=2ms, cycle=1s)",
            "loss 9%, trigger match(dscp=ef, vlan=1-5,9) stop after 20packets rearm repeat 9",
            "delay 4ms, trigger after 64K stop command rearm",
            "loss conditional(1, 30, 50), delay values(1ms, 2ms, 3ms)",
            "loss random_burst(start_percentage=1, min=2, max=3), delay ramp(from=1ms, to=2ms, duration=1s)",
            "loss pattern(lost=00101, at_end=stop), delay student(degrees=3, location=5ms, scale=1ms)",
            "duplicate 5% 25% copies 3 after exponential(mean=5ms), reorder every 3 by 2packets ahead within 9ms, batch 9 within 5ms",
            "duplicate every 2 after 5ms, reorder 5% 50% by 9ms, batch slots(interval=uniform(min=1ms, max=9ms), bytes=9K)",
            "corrupt 5% repair set 2e/fc at l3+1:9, loss 1%",
            "corrupt 5% random 3 at l2:9, duplicate 1%",
            "corrupt 5% ber 1e-3, corrupt 5% swap 2",
            "loss ber 1e-6, delay step(from=1ms, to=2ms, at=1s)",
        ] {
            mutate(seed.as_bytes(), fuzz_laws);
        }
    }

    #[test]
    fn words_of_netem() {
        for seed in [
            "delay 40ms 5ms 25% distribution pareto loss gemodel 1% 10% 70% 0.1% ecn corrupt 1% limit 9",
            "tc qdisc add dev eth0 root netem delay 1.5s 3 reorder 25% rate 100kbps 6 seed 7",
            "slot distribution normal 10ms 1ms packets 4 bytes 10k duplicate 1% 5% loss state 1 2 3 4 5 delay 4 gap 5",
        ] {
            mutate(seed.as_bytes(), fuzz_netem);
        }
    }

    #[test]
    fn scenarios() {
        mutate(
            b"schema = \"weir.scenario/1\"\nname = \"s\"\n[variables]\nn = 3\n[quick]\nn = 1\n[lab]\nmiddle = true\n[emulator.m]\nboth = \"delay 5ms\"\n[[step]]\ntest = { args = \"-u\", runs = \"{n}\" }\nexpect = [\"loss <= 1 %\"]\n[[step]]\nsweep = { over = [\"size=1..9:2\"], impair = { both = \"loss 1%\" }, test = {} }\n[[step]]\nrepeat = { times = 2, step = [{ wait = { time = 1 } }] }\n[[step]]\nsearch = { high = \"1M\", trial = \"{n}\", test = {} }\n",
            fuzz_scenario,
        );
    }

    #[test]
    fn expectations() {
        for seed in [
            "p99.9 one_way_delay of voice <= 30 ms where size=1, x=2",
            "throughput >= 9.5e1 Mbit/s",
            "1M..1G*10,7",
            "0.1..9ms:0.2",
        ] {
            mutate(seed.as_bytes(), fuzz_expectation);
        }
    }

    #[test]
    fn records() {
        let record = crate::record::Record { seed: crate::units::Seed(7), ..Default::default() };
        mutate(&serde_json::to_vec(&record).unwrap(), fuzz_record);
    }
}
