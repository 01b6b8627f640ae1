//! Cores, load, frequency, virtualisation.

use super::{Fact, Facts, Finding, Group, Severity, judge};

const GROUP: Group = Group::Cpu;
/// Load of a core above which it counts as busy.
const BUSY_RATIO: f64 = 0.5;
/// Steal ratio from which times in microseconds are affected.
const STEAL_RATIO: f64 = 0.01;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = cores(facts);
    found.extend(quota(facts));
    found.extend(load(facts));
    found.extend(frequency(facts));
    found.extend(virtualisation(facts));
    found
}

fn cores(facts: &Facts) -> Vec<Finding> {
    let Some(host) = facts.host.value() else {
        return judge(&facts.host, GROUP, "host", "the host's own description", |_, _| Vec::new());
    };
    let model = host.cpu_model.as_deref().unwrap_or("model not told");
    let usable = facts.allowed_cpus.value().copied().unwrap_or(host.cpu_cores as usize);
    let evidence = format!("{} cores online, {usable} for this process ({model})", host.cpu_cores);
    let finding = |severity, title: &str, effect: &str| {
        Finding::new(GROUP, severity, "cores", title, &evidence, effect)
    };
    let one = match usable {
        0 | 1 => finding(
            Severity::Warning,
            "one core",
            "sender, receiver and kernel share one core: delays include the scheduling of the tool, and two ends on this host share one rate",
        ),
        2 | 3 => finding(
            Severity::Info,
            "few cores",
            "with both ends on this host, sender and receiver occupy all cores; Weir does not spin under real-time priority",
        ),
        _ => finding(
            Severity::Ok,
            "enough cores",
            "sender, receiver and the rest of the system have cores of their own",
        ),
    };
    let restricted = usable < host.cpu_cores as usize;
    let more = Finding::new(
        GROUP,
        Severity::Info,
        "affinity",
        "this process may not use all cores",
        evidence.clone(),
        "the maximum rates are those of the permitted cores",
    );
    let more = more.change(format!("taskset -c 0-{} weir …", host.cpu_cores.saturating_sub(1)));
    std::iter::once(one).chain(restricted.then_some(more)).collect()
}

fn quota(facts: &Facts) -> Vec<Finding> {
    judge(&facts.cpu_quota, GROUP, "cpu-quota", "CPU limit of the control group", |&cores, from| {
        if cores.is_infinite() {
            return Vec::new();
        }
        vec![Finding::new(
            GROUP,
            Severity::Warning,
            "cpu-quota",
            "CPU time is limited by the control group",
            format!("{from}: {cores:.2} cores"),
            "when the quota is used up, every thread stops for up to 100 ms: rates are limited, and delays include the pauses",
        )
        .change(format!("echo max > {from}"))]
    })
}

fn load(facts: &Facts) -> Vec<Finding> {
    judge(&facts.cpu, GROUP, "busy-cores", "CPU use", |sample, from| {
        let busy: Vec<_> = sample.busy_ratio.iter().filter(|c| c.1 >= BUSY_RATIO).collect();
        let consumers: Vec<_> = sample
            .consumers
            .iter()
            .take(3)
            .map(|c| format!("{} (pid {}) {:.0} %", c.name, c.pid, c.cpu_ratio * 100.0))
            .collect();
        let cores: Vec<_> = sample
            .busy_ratio
            .iter()
            .map(|(core, ratio)| format!("core {core} {:.0} %", ratio * 100.0))
            .collect();
        let evidence = format!(
            "{from}: {}{}",
            cores.join(", "),
            if consumers.is_empty() {
                String::new()
            } else {
                format!("; {}", consumers.join(", "))
            }
        );
        let mut found = vec![if busy.is_empty() {
            Finding::new(
                GROUP,
                Severity::Ok,
                "busy-cores",
                "cores are idle",
                evidence,
                "no other program uses the CPU now",
            )
        } else {
            let title = if busy.len() == sample.busy_ratio.len() && busy.len() > 1 {
                "all cores are busy".to_owned()
            } else {
                let names: Vec<_> = busy.iter().map(|c| c.0.to_string()).collect();
                format!("busy: core {}", names.join(", "))
            };
            let mut effect =
                "maximum rates are lower, and single packets are sent and read milliseconds late"
                    .to_owned();
            // No command is suggested: what to do about another user's process is their decision.
            let most: Vec<_> = sample
                .consumers
                .iter()
                .filter(|c| c.cpu_ratio >= BUSY_RATIO / 4.0)
                .map(|c| format!("{} (pid {})", c.name, c.pid))
                .collect();
            if !most.is_empty() {
                let who = most.join(", ");
                effect += &format!("; stop {who} while measuring, or run it elsewhere");
            }
            Finding::new(GROUP, Severity::Warning, "busy-cores", title, evidence, effect)
        }];
        if sample.steal_ratio > STEAL_RATIO {
            found.push(Finding::new(
                GROUP,
                Severity::Warning,
                "steal",
                "the hypervisor takes CPU time",
                format!("{from}: {:.1} % stolen", sample.steal_ratio * 100.0),
                "the machine pauses for milliseconds at a time; delays and spacing include these pauses, indistinguishable from the path's",
            ));
        }
        found
    })
}

fn frequency(facts: &Facts) -> Vec<Finding> {
    let governor = facts.host.value().and_then(|h| h.governor.as_deref());
    let virtual_machine = facts.host.value().is_some_and(|h| h.virtualisation.is_some());
    match (governor, &facts.frequency) {
        (Some(name), range) => {
            let range = match range.value() {
                Some((least, most)) => {
                    format!(", {:.1} to {:.1} GHz", *least as f64 / 1e9, *most as f64 / 1e9)
                }
                None => String::new(),
            };
            let evidence = format!("scaling_governor: {name}{range}");
            let fixed = name == "performance"
                || facts.frequency.value().is_some_and(|(least, most)| least == most);
            vec![if fixed {
                Finding::new(
                    GROUP,
                    Severity::Ok,
                    "governor",
                    "frequency is held high",
                    evidence,
                    "cost per packet is steady",
                )
            } else {
                Finding::new(
                    GROUP,
                    Severity::Warning,
                    "governor",
                    format!("governor {name} lowers the frequency"),
                    evidence,
                    "at low packet rates cores run and wake slowly: delays grow by tens of microseconds, and the first seconds differ from later ones",
                )
                .change("cpupower frequency-set -g performance")
            }]
        }
        (None, Fact::NotAsked) => Vec::new(),
        (None, Fact::Read { from, value: (least, most) }) => vec![
            Finding::new(
                GROUP,
                Severity::Info,
                "governor",
                "cores have different governors",
                format!("{from}: {:.1} to {:.1} GHz", *least as f64 / 1e9, *most as f64 / 1e9),
                "cost per packet depends on the core",
            )
            .change("cpupower frequency-set -g performance"),
        ],
        (None, Fact::Unreadable { from, why }) => vec![Finding::new(
            GROUP,
            Severity::Info,
            "governor",
            "the CPU frequency is not visible",
            format!("{from}: {why}"),
            if virtual_machine {
                "the hypervisor controls it; weir calibrate shows how steady it is"
            } else {
                "either fixed or not controlled by the kernel"
            },
        )],
    }
}

fn virtualisation(facts: &Facts) -> Vec<Finding> {
    let Some(kind) = facts.host.value().and_then(|h| h.virtualisation.as_deref()) else {
        return Vec::new();
    };
    vec![Finding::new(
        GROUP,
        Severity::Info,
        "virtualisation",
        "not on bare metal",
        format!("virtual: {kind}"),
        "measurements include pauses of the hypervisor: compare with weir calibrate before trusting microseconds",
    )]
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::{BusyProcess, CpuSample};
    use super::*;
    use weir_net::host::Host;

    fn one(facts: &Facts, id: &str) -> Finding {
        check(facts).into_iter().find(|f| f.id == id).unwrap()
    }

    fn host(cores: u32, governor: Option<&str>) -> Fact<Host> {
        let host =
            Host { cpu_cores: cores, governor: governor.map(str::to_owned), ..Host::default() };
        Fact::read("uname", host)
    }

    #[test]
    fn cores_and_affinity() {
        let with = |cores, allowed| Facts {
            host: host(cores, None),
            allowed_cpus: Fact::read("a", allowed),
            ..Facts::default()
        };
        assert_eq!(one(&with(1, 1), "cores").severity, Severity::Warning);
        assert_eq!(one(&with(2, 2), "cores").severity, Severity::Info);
        assert_eq!(one(&with(8, 8), "cores").severity, Severity::Ok);
        assert!(check(&with(8, 8)).iter().all(|f| f.id != "affinity"));
        assert_eq!(one(&with(8, 1), "cores").severity, Severity::Warning);
        assert!(one(&with(8, 1), "affinity").change.unwrap().contains("0-7"));
    }

    #[test]
    fn busy_cores_name_who_is_busy() {
        let sample = |ratios: &[f64], steal_ratio| {
            let busy_ratio = ratios.iter().enumerate().map(|(i, r)| (i as u32, *r)).collect();
            let consumers = vec![BusyProcess { pid: 77, name: "cc1".into(), cpu_ratio: 0.9 }];
            let cpu = Fact::read(
                "/proc/stat",
                CpuSample { seconds: 0.3, busy_ratio, steal_ratio, consumers },
            );
            Facts { cpu, ..Facts::default() }
        };
        let busy = one(&sample(&[0.1, 0.95], 0.0), "busy-cores");
        assert_eq!((busy.severity, busy.title.as_str()), (Severity::Warning, "busy: core 1"));
        assert!(busy.evidence.contains("cc1 (pid 77) 90 %"));
        assert!(
            busy.effect.ends_with("stop cc1 (pid 77) while measuring, or run it elsewhere"),
            "{busy:?}"
        );
        // No command for another user's process.
        assert_eq!(busy.change, None);
        assert_eq!(one(&sample(&[0.9, 0.9], 0.0), "busy-cores").title, "all cores are busy");
        assert_eq!(one(&sample(&[0.1, 0.2], 0.0), "busy-cores").severity, Severity::Ok);
        assert!(check(&sample(&[0.1], 0.01)).iter().all(|f| f.id != "steal"));
        assert_eq!(one(&sample(&[0.1], 0.05), "steal").severity, Severity::Warning);
    }

    #[test]
    fn quota_is_reported_only_when_there_is_one() {
        let with = |cores| Facts {
            cpu_quota: Fact::read("/sys/fs/cgroup/x/cpu.max", cores),
            ..Facts::default()
        };
        assert_eq!(check(&with(f64::INFINITY)), []);
        let found = one(&with(0.5), "cpu-quota");
        assert_eq!(found.change.as_deref(), Some("echo max > /sys/fs/cgroup/x/cpu.max"));
        assert!(found.evidence.contains("0.50 cores"));
    }

    #[test]
    fn governors() {
        let with = |name, frequency| Facts { host: host(4, name), frequency, ..Facts::default() };
        let scaling = Fact::read("cpufreq", (800_000_000, 3_600_000_000));
        assert_eq!(
            one(&with(Some("performance"), scaling.clone()), "governor").severity,
            Severity::Ok
        );
        let save = one(&with(Some("powersave"), scaling), "governor");
        assert_eq!(save.severity, Severity::Warning);
        assert!(
            save.change.unwrap().contains("performance")
                && save.evidence.contains("0.8 to 3.6 GHz")
        );
        let fixed = Fact::read("cpufreq", (2_000_000_000, 2_000_000_000));
        assert_eq!(one(&with(Some("schedutil"), fixed), "governor").severity, Severity::Ok);
        assert_eq!(
            one(&with(None, Fact::unreadable("cpufreq", "none")), "governor").severity,
            Severity::Info
        );
    }
}
