//! Clocks, timers, wake-ups, timestamps.

use super::{Facts, Finding, Group, Severity, judge};

const GROUP: Group = Group::Time;
/// Clock sources that are read without a trap.
const FAST: [&str; 6] = [
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "xen",
    "riscv_clocksource",
];

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = clocksource(facts);
    found.extend(clock_cost(facts));
    found.extend(timers(facts));
    found.extend(waking(facts));
    found.extend(stamps(facts));
    found.extend(steering(facts));
    found
}

fn clocksource(facts: &Facts) -> Vec<Finding> {
    let Some(host) = facts.host.value() else { return Vec::new() };
    let Some(name) = host.clocksource.as_deref() else {
        return Vec::new();
    };
    let others = facts.clocksources.value().map(|all| all.join(" ")).unwrap_or_default();
    let evidence = format!("current_clocksource: {name}; available: {others}");
    if FAST.contains(&name) {
        let effect = "reading the time costs tens of nanoseconds";
        return vec![Finding::new(
            GROUP,
            Severity::Ok,
            "clocksource",
            format!("clocksource {name}"),
            evidence,
            effect,
        )];
    }
    let better =
        facts.clocksources.value().and_then(|all| all.iter().find(|c| FAST.contains(&c.as_str())));
    let finding = Finding::new(
        GROUP,
        Severity::Warning,
        "clocksource",
        format!("clocksource {name} is slow"),
        evidence,
        "each reading of the time traps into a device and takes a microsecond or more: packet rates fall and stamps are imprecise",
    );
    vec![match better {
        Some(better) => finding.change(format!(
            "echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource"
        )),
        None => finding,
    }]
}

fn clock_cost(facts: &Facts) -> Vec<Finding> {
    judge(&facts.clock_read_ns, GROUP, "clock-read", "cost of reading the clock", |&ns, from| {
        let evidence = format!("{from}: {ns} ns each");
        vec![if ns <= 300 {
            Finding::new(
                GROUP,
                Severity::Ok,
                "clock-read",
                "reading the clock is fast",
                evidence,
                "a stamp for each packet is affordable",
            )
        } else {
            let effect = "a stamp by the program costs a good part of a packet's time; rates with a stamp per packet are lower";
            Finding::new(
                GROUP,
                Severity::Warning,
                "clock-read",
                "reading the clock is slow",
                evidence,
                effect,
            )
        }]
    })
}

fn timers(facts: &Facts) -> Vec<Finding> {
    let mut found = judge(
        &facts.timer_resolution_ns,
        GROUP,
        "timer-resolution",
        "resolution of timers",
        |&ns, from| {
            let evidence = format!("{from}: {ns} ns");
            vec![if ns <= 1000 {
                Finding::new(
                    GROUP,
                    Severity::Ok,
                    "timer-resolution",
                    "high-resolution timers",
                    evidence,
                    "high-resolution timers",
                )
            } else {
                let effect = "sleeps end at ticks only: packets of a paced sender leave in groups (highres=off on the kernel's command line?)";
                Finding::new(
                    GROUP,
                    Severity::Warning,
                    "timer-resolution",
                    "no high-resolution timers",
                    evidence,
                    effect,
                )
            }]
        },
    );
    found.extend(judge(&facts.timer_slack_ns, GROUP, "timer-slack", "timer slack", |&ns, from| {
        let evidence = format!("{from}: {ns} ns");
        let effect = if ns <= 50_000 {
            "sleeps may end this much later; Weir's own pacing sets 1 ns for itself"
        } else {
            "other programs measured beside Weir wake this much later; Weir's own pacing sets 1 ns for itself"
        };
        vec![Finding::new(GROUP, Severity::Info, "timer-slack", format!("timer slack {} µs", ns / 1000), evidence, effect)]
    }));
    found
}

fn waking(facts: &Facts) -> Vec<Finding> {
    judge(&facts.lateness, GROUP, "wake-up", "lateness of waking", |late, from| {
        let us = |ns: i64| ns as f64 / 1000.0;
        let evidence = format!(
            "{from}: late by {:.1} µs (median), {:.1} µs (99 %), {:.1} µs (worst)",
            us(late.p50_ns),
            us(late.p99_ns),
            us(late.max_ns)
        );
        vec![if late.p99_ns > 1_000_000 {
            let effect = "one packet in a hundred leaves more than 1 ms late; slots are missed at high packet rates";
            Finding::new(GROUP, Severity::Warning, "wake-up", "waking is late", evidence, effect)
                .change("chrt -f 50 weir test …")
        } else if late.p50_ns > 100_000 {
            let effect =
                "paced senders must spin longer than Weir does: spacing errors are this large";
            Finding::new(GROUP, Severity::Warning, "wake-up", "waking takes long", evidence, effect)
        } else {
            let effect = "the lateness of sleeping; pacing sleeps until 60 µs before the time and spins the rest";
            Finding::new(GROUP, Severity::Ok, "wake-up", "waking is prompt", evidence, effect)
        }]
    })
}

fn stamps(facts: &Facts) -> Vec<Finding> {
    judge(
        &facts.receive_stamps,
        GROUP,
        "receive-stamps",
        "the kernel's receive stamps",
        |&given, from| {
            vec![if given {
                let effect = "delay and jitter use the time at which the kernel received a packet, not at which it was read";
                Finding::new(
                    GROUP,
                    Severity::Ok,
                    "receive-stamps",
                    "the kernel stamps what it receives",
                    format!("{from}: stamped"),
                    effect,
                )
            } else {
                let effect = "delay and jitter include the time until the program reads: tens of microseconds, milliseconds on a busy machine";
                Finding::new(
                    GROUP,
                    Severity::Warning,
                    "receive-stamps",
                    "no receive stamps",
                    format!("{from}: none in 100 datagrams"),
                    effect,
                )
            }]
        },
    )
}

fn steering(facts: &Facts) -> Vec<Finding> {
    judge(
        &facts.steering,
        GROUP,
        "clock-steering",
        "programs that adjust the clock",
        |found, from| {
            let (title, evidence, effect) = if found.0.is_empty() {
                (
                    "no program found that adjusts the realtime clock",
                    format!("{from}: none of chronyd, ntpd, timesyncd, ptp4l"),
                    "the clock drifts freely (or is adjusted from outside this process namespace); Weir relates the two ends' clocks by its own probes",
                )
            } else {
                (
                    "the realtime clock is adjusted",
                    format!("{from}: {}", found.0.join(", ")),
                    "it may be slewed during a test (compensated) or stepped (a warning in the result); PTP on both ends gives the most exact delays",
                )
            };
            vec![Finding::new(GROUP, Severity::Info, "clock-steering", title, evidence, effect)]
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::{ClockDaemons, Fact, Lateness};
    use super::*;
    use weir_net::host::Host;

    fn only(facts: Facts) -> Finding {
        let mut found = check(&facts);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn slow_clocksource_is_changed_to_a_fast_one() {
        let with = |current: &str, all: &[&str]| {
            let host = Host { clocksource: Some(current.into()), ..Host::default() };
            let all = all.iter().map(|c| (*c).to_owned()).collect();
            only(Facts {
                host: Fact::read("h", host),
                clocksources: Fact::read("c", all),
                ..Facts::default()
            })
        };
        assert_eq!(with("tsc", &["tsc", "hpet"]).severity, Severity::Ok);
        let slow = with("hpet", &["tsc", "hpet"]);
        assert_eq!(slow.severity, Severity::Warning);
        assert!(slow.change.unwrap().starts_with("echo tsc > "));
        assert_eq!(with("acpi_pm", &["acpi_pm"]).change, None);
    }

    #[test]
    fn thresholds_of_clock_timer_and_waking() {
        let cost =
            |ns| only(Facts { clock_read_ns: Fact::read("r", ns), ..Facts::default() }).severity;
        assert_eq!((cost(300), cost(301)), (Severity::Ok, Severity::Warning));
        let timer = |ns| {
            only(Facts { timer_resolution_ns: Fact::read("r", ns), ..Facts::default() }).severity
        };
        assert_eq!((timer(1), timer(4_000_000)), (Severity::Ok, Severity::Warning));
        let wake = |p50_ns, p99_ns| {
            let late = Lateness { p50_ns, p99_ns, max_ns: p99_ns };
            only(Facts { lateness: Fact::read("s", late), ..Facts::default() })
        };
        assert_eq!(wake(7_000, 40_000).severity, Severity::Ok);
        assert_eq!(wake(7_000, 1_000_001).severity, Severity::Warning);
        assert_eq!(wake(100_001, 200_000).severity, Severity::Warning);
        assert!(wake(7_000, 40_000).evidence.contains("7.0 µs (median), 40.0 µs (99 %)"));
    }

    #[test]
    fn stamps_and_steering() {
        let stamps = |given| {
            only(Facts { receive_stamps: Fact::read("l", given), ..Facts::default() }).severity
        };
        assert_eq!((stamps(true), stamps(false)), (Severity::Ok, Severity::Warning));
        let who = |names: &[&str]| {
            let names = names.iter().map(|n| (*n).to_owned()).collect();
            only(Facts { steering: Fact::read("comm", ClockDaemons(names)), ..Facts::default() })
                .evidence
        };
        assert!(who(&["chronyd"]).ends_with("chronyd") && who(&[]).contains("none of"));
    }
}
