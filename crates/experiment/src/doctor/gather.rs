//! Gathers the facts: from files of the kernel, its interfaces, and by trying.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use weir_net::capability::{capabilities, try_namespace, user_namespaces};
use weir_net::clock::{Clock, monotonic_resolution_ns, set_timer_slack};
use weir_net::counters::{CpuUsage, cpu_times, protocol_counters, softnet};
use weir_net::host::{host, sysctl};
use weir_net::interface::{interfaces, offloads, qdiscs, speed_bits_per_second};
use weir_net::tcp::{TcpListener, TcpOptions};
use weir_net::thread::{allowed_cpus, try_fifo};
use weir_net::udp::{RecvBatch, RecvMode, UdpOptions, UdpSocket, gso_max_segments};
use weir_stats::DelaySummary;

use super::checks::PORT;
use super::facts::{
    BusyProcess, ClockDaemons, CpuSample, Fact, Facts, InterfaceFacts, Lateness, PortUse,
};
use super::ruleset::Ruleset;
use super::text;
use crate::Error;

/// What to gather.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only this interface, and loopback; else all that are up.
    pub interface: Option<String>,
    /// How long to watch CPU use, ms.
    pub cpu_sample_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { interface: None, cpu_sample_ms: 300 }
    }
}

/// Programs that adjust the realtime clock; the kernel truncates names to 15 bytes.
const STEERING: [&str; 6] = ["chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd"];

/// Gathers the facts of this host and of the calling thread's network namespace.
///
/// # Errors
/// [`Error::NoInterface`] when the named interface does not exist.
pub fn gather(options: &Options) -> Result<Facts, Error> {
    let interfaces = interface_facts(options)?;
    // First, before the probes below use CPU time.
    let cpu = cpu_sample(options.cpu_sample_ms);
    Ok(Facts {
        interfaces,
        host: Fact::of("uname, /proc, /sys", host()),
        capabilities: Fact::of("/proc/thread-self/status", capabilities()),
        fifo: on_thread("sched_setscheduler(SCHED_FIFO)", || try_fifo(1)),
        namespaces: Fact::of("a network namespace created and removed", try_namespace()),
        user_namespaces: Fact::read("/proc/sys/user, /proc/sys/kernel", user_namespaces()),
        allowed_cpus: Fact::of("sched_getaffinity", allowed_cpus().map(|cpus| cpus.len())),
        cpu_quota: cpu_quota(),
        frequency: frequency(),
        cpu,
        clocksources: file(CLOCKSOURCES, |t| {
            Some(t.split_ascii_whitespace().map(str::to_owned).collect())
        }),
        clock_read_ns: Fact::read("1000 readings of CLOCK_MONOTONIC", clock_read_ns()),
        timer_resolution_ns: Fact::read("clock_getres(CLOCK_MONOTONIC)", monotonic_resolution_ns()),
        timer_slack_ns: file("/proc/self/timerslack_ns", |t| t.trim().parse().ok()),
        lateness: on_thread("1000 sleeps of 200 µs, timer slack 1 ns", lateness),
        steering: Fact::read("/proc/*/comm", steering()),
        receive_stamps: Fact::of("SO_TIMESTAMPING over loopback", receive_stamps()),
        rmem_max: setting("net.core.rmem_max"),
        wmem_max: setting("net.core.wmem_max"),
        netdev_max_backlog: setting("net.core.netdev_max_backlog"),
        descriptors: file("/proc/self/limits", text::descriptor_limits),
        ephemeral_ports: Fact::present(
            "net.ipv4.ip_local_port_range",
            sysctl("net.ipv4.ip_local_port_range").as_deref().and_then(text::port_range),
        ),
        udp_port: udp_port(),
        tcp_port: tcp_port(),
        ipv4: open_udp(Ipv4Addr::LOCALHOST.into()),
        ipv6: open_udp(Ipv6Addr::LOCALHOST.into()),
        softnet: Fact::of(
            "/proc/net/softnet_stat",
            softnet().map(|cpus| {
                cpus.iter().fold((0, 0), |sum, cpu| {
                    (sum.0 + u64::from(cpu.dropped), sum.1 + u64::from(cpu.time_squeeze))
                })
            }),
        ),
        receive_buffer_errors: Fact::of("/proc/net/snmp, /proc/net/snmp6", receive_errors()),
        ruleset: ruleset(),
        iptables: file("/proc/thread-self/net/ip_tables_names", |t| {
            Some(t.lines().map(str::to_owned).collect())
        }),
        conntrack: conntrack(),
        gso_segments: Fact::read("UDP_SEGMENT over loopback", gso_max_segments()),
        udp_gro: Fact::of("setsockopt(UDP_GRO)", try_gro()),
        protocols: file("/proc/thread-self/net/protocols", |t| Some(text::protocols(t))),
        mptcp: match sysctl("net.mptcp.enabled") {
            Some(value) => Fact::read("net.mptcp.enabled", value == "1"),
            None => Fact::NotAsked,
        },
    })
}

const CLOCKSOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// A file, read and parsed.
fn file<T>(path: &str, understand: impl FnOnce(&str) -> Option<T>) -> Fact<T> {
    match fs::read_to_string(path) {
        Ok(text) => match understand(&text) {
            Some(value) => Fact::read(path, value),
            None => Fact::unreadable(path, "not understood"),
        },
        Err(error) => Fact::unreadable(path, error),
    }
}

fn setting(name: &str) -> Fact<u64> {
    Fact::present(name, sysctl(name).and_then(|value| value.parse().ok()))
}

/// Runs `ask` on a thread of its own, whose settings end with it.
fn on_thread<T: Send, E: std::fmt::Display + Send>(
    from: &str,
    ask: impl FnOnce() -> Result<T, E> + Send,
) -> Fact<T> {
    match std::thread::scope(|scope| scope.spawn(ask).join()) {
        Ok(result) => Fact::of(from, result),
        Err(_) => Fact::unreadable(from, "the attempt failed"),
    }
}

fn cpu_quota() -> Fact<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return Fact::NotAsked;
    };
    let path = format!("/sys/fs/cgroup{}/cpu.max", group.trim_end_matches('/'));
    // The root control group has no such file, and no limit.
    if fs::metadata(&path).is_err() { Fact::NotAsked } else { file(&path, text::cpu_quota) }
}

fn frequency() -> Fact<(u64, u64)> {
    let directory = "/sys/devices/system/cpu/cpu0/cpufreq";
    let hertz = |name: &str| -> Option<u64> {
        let kilohertz: u64 =
            fs::read_to_string(format!("{directory}/{name}")).ok()?.trim().parse().ok()?;
        kilohertz.checked_mul(1000)
    };
    match (hertz("scaling_min_freq"), hertz("scaling_max_freq")) {
        (Some(least), Some(most)) => Fact::read(directory, (least, most)),
        _ => Fact::unreadable(directory, "no frequency control is visible"),
    }
}

/// Other processes, with their name and CPU time in ticks.
fn processes() -> Vec<(u32, String, u64)> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != own)
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (name, ticks) = text::process_times(&stat)?;
            Some((pid, name, ticks))
        })
        .collect()
}

/// Ticks per second of the times in `/proc`: the same on every Linux platform (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU use of the machine over the next `milliseconds`, this process sleeping.
pub(crate) fn cpu_sample(milliseconds: u64) -> Fact<CpuSample> {
    let from = format!("/proc/stat and /proc/*/stat over {milliseconds} ms");
    let clock = Clock::System;
    let (start_ns, before) = (clock.monotonic_ns(), processes());
    let first = match cpu_times() {
        Ok(usage) => usage,
        Err(error) => return Fact::unreadable(from, error),
    };
    std::thread::sleep(Duration::from_millis(milliseconds.max(20)));
    let second = match cpu_times() {
        Ok(usage) => usage,
        Err(error) => return Fact::unreadable(from, error),
    };
    let seconds = (clock.monotonic_ns() - start_ns) as f64 / 1e9;
    let (busy_ratio, steal_ratio) = shares(&first, &second);
    let mut consumers: Vec<BusyProcess> = processes()
        .into_iter()
        .filter_map(|(pid, name, ticks)| {
            let earlier = before.iter().find(|p| p.0 == pid && p.1 == name)?.2;
            let cpu_ratio = ticks.saturating_sub(earlier) as f64 / TICKS_PER_SECOND / seconds;
            (cpu_ratio > 0.0).then_some(BusyProcess { pid, name, cpu_ratio })
        })
        .collect();
    consumers.sort_by(|a, b| b.cpu_ratio.total_cmp(&a.cpu_ratio));
    consumers.truncate(5);
    Fact::read(from, CpuSample { seconds, busy_ratio, steal_ratio, consumers })
}

/// Busy fraction of each core, and stolen fraction of all, between two readings.
fn shares(first: &CpuUsage, second: &CpuUsage) -> (Vec<(u32, f64)>, f64) {
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let busy = second.cores.iter().filter_map(|(core, now)| {
        let then = first.cores.iter().find(|(c, _)| c == core)?.1;
        let busy = now.busy_ns().saturating_sub(then.busy_ns());
        Some((*core, share(busy, now.total_ns().saturating_sub(then.total_ns()))))
    });
    let stolen = second.total.steal_ns.saturating_sub(first.total.steal_ns);
    let whole = second.total.total_ns().saturating_sub(first.total.total_ns());
    (busy.collect(), share(stolen, whole))
}

/// Cost of one reading: the median of 20 times 50 readings.
fn clock_read_ns() -> u64 {
    let clock = Clock::System;
    let mut costs: Vec<u64> = (0..20)
        .map(|_| {
            let start = clock.monotonic_ns();
            let end = (0..50).fold(start, |_, _| clock.monotonic_ns());
            (end - start) / 50
        })
        .collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}

/// Lateness of 1000 sleeps; few enough for a second at most on a busy machine.
fn lateness() -> Result<Lateness, Error> {
    set_timer_slack(1)?;
    let clock = Clock::System;
    let mut late = DelaySummary::new();
    for _ in 0..1000 {
        let due = clock.monotonic_ns() + 200_000;
        clock.sleep_until(due);
        late.record(clock.monotonic_ns().wrapping_sub(due) as i64);
    }
    // A thousand samples are enough for the 99th percentile.
    let of = |quantile| late.quantile_ns(quantile).unwrap_or(0);
    Ok(Lateness { p50_ns: of(0.5), p99_ns: of(0.99), max_ns: late.max_ns().unwrap_or(0) })
}

fn steering() -> ClockDaemons {
    let mut names: Vec<String> = processes()
        .into_iter()
        .map(|(_, name, _)| name)
        .filter(|name| STEERING.contains(&name.as_str()))
        .collect();
    names.sort();
    names.dedup();
    ClockDaemons(names)
}

/// Whether a datagram over loopback has the kernel's stamp. The kernel may need a moment to start stamping.
fn receive_stamps() -> Result<bool, Error> {
    let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let receiver = UdpSocket::open(&UdpOptions { timestamps: true, ..UdpOptions::bind(any) })?;
    let to = receiver
        .local_addr()
        .map_err(|e| weir_net::Error::system("read address of", "a socket", e))?;
    let sender = UdpSocket::open(&UdpOptions::connect(to))?;
    let mut batch = RecvBatch::new(1, 64);
    for _ in 0..100 {
        // A lost datagram is a failed attempt.
        let _ = sender.send(b"stamp");
        std::thread::sleep(Duration::from_millis(2));
        if batch.recv(&receiver, RecvMode::DontWait).is_ok()
            && batch.messages().any(|m| m.kernel_realtime_ns.is_some())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open_udp(address: std::net::IpAddr) -> Fact<()> {
    let at = SocketAddr::new(address, 0);
    Fact::of(
        format!("a UDP socket opened on {address}"),
        UdpSocket::open(&UdpOptions::bind(at)).map(drop),
    )
}

fn try_gro() -> std::io::Result<()> {
    let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    UdpSocket::open(&UdpOptions::bind(any)).map_err(std::io::Error::other)?.set_gro(true)
}

fn port_use(from: &str, result: Result<(), weir_net::Error>) -> Fact<PortUse> {
    match result {
        Ok(()) => Fact::read(from, PortUse::Free),
        Err(error) if in_use(&error) => Fact::read(from, PortUse::Used),
        Err(error) => Fact::unreadable(from, error),
    }
}

fn in_use(error: &weir_net::Error) -> bool {
    matches!(error, weir_net::Error::System { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse)
}

fn udp_port() -> Fact<PortUse> {
    let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
    port_use("bind of UDP 0.0.0.0:9347", UdpSocket::open(&UdpOptions::bind(at)).map(drop))
}

fn tcp_port() -> Fact<PortUse> {
    let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
    port_use(
        "listening on TCP 0.0.0.0:9347",
        TcpListener::open(at, &TcpOptions::default(), 1).map(drop),
    )
}

fn receive_errors() -> Result<u64, weir_net::Error> {
    let counters = protocol_counters()?;
    let of = |group| counters.get(group, "RcvbufErrors").and_then(|n| u64::try_from(n).ok());
    Ok(of("Udp").unwrap_or(0) + of("Udp6").unwrap_or(0))
}

fn conntrack() -> Fact<(u64, u64)> {
    let from = "net.netfilter.nf_conntrack_count, nf_conntrack_max";
    let value = |name| sysctl(name).and_then(|v| v.parse().ok());
    match (value("net.netfilter.nf_conntrack_count"), value("net.netfilter.nf_conntrack_max")) {
        (Some(count), Some(most)) => Fact::read(from, (count, most)),
        // Not loaded: no connections are tracked.
        _ => Fact::NotAsked,
    }
}

fn ruleset() -> Fact<Ruleset> {
    let from = "nft -j list ruleset";
    // Off the path of an ordinary user on some systems.
    let programs = ["nft", "/usr/sbin/nft", "/sbin/nft"];
    let mut why = String::from("nft is not installed");
    for program in programs {
        match Command::new(program).args(["-j", "list", "ruleset"]).output() {
            Ok(out) if out.status.success() => {
                return Fact::of(from, Ruleset::parse(&out.stdout, PORT));
            }
            Ok(out) => {
                let first = String::from_utf8_lossy(&out.stderr);
                why = first.lines().next().unwrap_or("it failed").to_owned();
                break;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                why = error.to_string();
                break;
            }
        }
    }
    Fact::unreadable(from, why)
}

fn interface_facts(options: &Options) -> Result<Fact<Vec<InterfaceFacts>>, Error> {
    let from = "rtnetlink, ethtool";
    let all = match interfaces() {
        Ok(all) => all,
        Err(error) => return Ok(Fact::unreadable(from, error)),
    };
    if let Some(name) = &options.interface
        && !all.iter().any(|i| i.name == *name)
    {
        let known: Vec<_> = all.into_iter().map(|i| i.name).collect();
        return Err(Error::NoInterface { name: name.clone(), known: known.join(", ") });
    }
    // Without a list of features there is nothing to check.
    let disciplines = qdiscs().unwrap_or_default();
    let wanted = all.into_iter().filter(|i| match &options.interface {
        Some(name) => i.loopback || i.name == *name,
        None => i.loopback || i.up,
    });
    let facts = wanted.map(|interface| InterfaceFacts {
        offloads: Fact::of(format!("ethtool -k {}", interface.name), offloads(&interface.name)),
        qdiscs: disciplines
            .iter()
            .filter(|q| q.interface_index == interface.index)
            .cloned()
            .collect(),
        speed_bits_per_second: speed_bits_per_second(&interface.name).ok().flatten(),
        asked_for: options.interface.as_ref() == Some(&interface.name),
        interface,
    });
    Ok(Fact::read(from, facts.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_net::counters::CpuTimes;

    #[test]
    fn shares_are_of_the_time_between() {
        let times = |user_ns, idle_ns, steal_ns| CpuTimes {
            user_ns,
            idle_ns,
            steal_ns,
            ..CpuTimes::default()
        };
        let first = CpuUsage {
            total: times(100, 100, 0),
            cores: vec![(0, times(50, 50, 0)), (3, times(50, 50, 0))],
        };
        let second = CpuUsage {
            total: times(150, 240, 10),
            cores: vec![(0, times(90, 60, 0)), (3, times(60, 180, 10))],
        };
        let (busy, steal) = shares(&first, &second);
        assert_eq!(busy, [(0, 0.8), (3, 20.0 / 150.0)]);
        assert_eq!(steal, 0.05);
        assert_eq!(shares(&first, &first), (vec![(0, 0.0), (3, 0.0)], 0.0));
    }
}
