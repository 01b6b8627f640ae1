//! The host's part of a record: facts, and counters and processor time before and after a run.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use weir_model::plan::{Connection, Family, FlowSpec};
use weir_model::record::{CoreUse, CpuEnd, CpuFacts, Host, Interface, QdiscUse};
use weir_net::clock::{Clock, ProcessCpu, process_cpu};
use weir_net::counters::{CpuTimes, CpuUsage, cpu_times, protocol_counters, softnet};
use weir_net::interface::{self as net_interface, Qdisc};
use weir_net::udp::{UdpOptions, UdpSocket};

/// The counters of a host before a run.
pub(crate) struct Before {
    interfaces: Vec<String>,
    counters: BTreeMap<String, BTreeMap<String, u64>>,
    qdiscs: Vec<Qdisc>,
    protocol: Option<weir_net::counters::ProtocolCounters>,
    softnet_dropped: Option<u64>,
}

/// Protocol counters that bear on a test: kernel group and name, and ours.
const PROTOCOL: [(&str, &str, &str); 10] = [
    ("Udp", "RcvbufErrors", "udp_receive_buffer_errors"),
    ("Udp6", "RcvbufErrors", "udp6_receive_buffer_errors"),
    ("Udp", "MemErrors", "udp_memory_errors"),
    ("Udp6", "MemErrors", "udp6_memory_errors"),
    ("Udp", "InCsumErrors", "udp_checksum_errors"),
    ("Udp6", "InCsumErrors", "udp6_checksum_errors"),
    ("Udp", "SndbufErrors", "udp_send_buffer_errors"),
    ("Tcp", "RetransSegs", "tcp_retransmitted_segments"),
    ("Ip", "ReasmFails", "ip_reassembly_failures"),
    ("Ip", "InDiscards", "ip_input_discards"),
];

/// Number of local ports from which the system chooses, if it states them.
pub(crate) fn local_ports() -> Option<u64> {
    let range = weir_net::host::sysctl("net.ipv4.ip_local_port_range")?;
    let mut ends = range.split_whitespace().map_while(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()?, ends.next()?);
    last.checked_sub(first).map(|between| between + 1)
}

fn softnet_dropped() -> Option<u64> {
    softnet().ok().map(|cpus| cpus.iter().map(|c| u64::from(c.dropped)).sum())
}

fn counters(name: &str) -> BTreeMap<String, u64> {
    let Ok(i) = net_interface::interface(name) else { return BTreeMap::new() };
    let c = i.counters;
    let refused = (i.kind.as_deref() == Some("veth")).then(|| refused_xdp_frames(name)).flatten();
    let refused = refused.map(|frames| ("xdp_xmit_errors".to_string(), frames));
    [
        ("rx_packets", c.rx_packets),
        ("tx_packets", c.tx_packets),
        ("rx_bytes", c.rx_bytes),
        ("tx_bytes", c.tx_bytes),
        ("rx_errors", c.rx_errors),
        ("tx_errors", c.tx_errors),
        ("rx_dropped", c.rx_dropped),
        ("tx_dropped", c.tx_dropped),
        ("rx_crc_errors", c.rx_crc_errors),
        ("rx_missed_errors", c.rx_missed_errors),
        ("rx_fifo_errors", c.rx_fifo_errors),
        ("tx_carrier_errors", c.tx_carrier_errors),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_string(), v))
    .chain(refused)
    .collect()
}

/// Frames of XDP that the queues of a veth had no room for, by the statistics of its driver.
fn refused_xdp_frames(name: &str) -> Option<u64> {
    let statistics = net_interface::driver_statistics(name).ok()?;
    let of_queues = statistics.iter().filter(|(name, _)| name.ends_with("_xdp_xmit_errors"));
    of_queues.map(|(_, frames)| *frames).reduce(u64::saturating_add)
}

/// The disciplines that all packets of an interface traverse. They also count the drops of their children.
fn outermost_qdiscs(name: &str) -> Vec<Qdisc> {
    let Ok(index) = net_interface::interface(name).map(|i| i.index) else { return vec![] };
    let mut found = net_interface::qdiscs().unwrap_or_default();
    found.retain(|q| q.interface_index == index && (q.is_root() || q.is_filters()));
    found
}

/// Counts of each discipline since `before`; one that was added or removed meanwhile is left out.
fn qdisc_use(before: &[Qdisc], after: &[Qdisc]) -> Vec<QdiscUse> {
    let identity = |q: &Qdisc| (q.interface_index, q.kind.clone(), q.handle, q.parent);
    let pairs = after.iter().filter_map(|now| {
        before.iter().find(|then| identity(then) == identity(now)).map(|then| (then, now))
    });
    pairs
        .map(|(then, now)| QdiscUse {
            kind: now.kind.clone(),
            hook: if now.is_filters() { "filter" } else { "egress" }.into(),
            sent_packets: now.sent_packets.saturating_sub(then.sent_packets),
            // The kernel's 32-bit count wraps.
            dropped_packets: now.drops.wrapping_sub(then.drops).into(),
        })
        .collect()
}

/// Reads a host's counters before a run towards `peer` (`None`: on this host), on `device` instead of the route's
/// interface if given.
pub(crate) fn before(peer: Option<IpAddr>, device: Option<&str>) -> Before {
    let interfaces: Vec<String> = match device {
        Some(name) => vec![name.into()],
        None => {
            let egress = peer.and_then(|peer| net_interface::egress_interface(peer).ok());
            egress.map(|e| e.interface).into_iter().collect()
        }
    };
    Before {
        qdiscs: interfaces.iter().flat_map(|n| outermost_qdiscs(n)).collect(),
        counters: interfaces.iter().map(|n| (n.clone(), counters(n))).collect(),
        interfaces,
        protocol: protocol_counters().ok(),
        softnet_dropped: softnet_dropped(),
    }
}

/// MTU towards a peer; Ethernet's if it is unknown.
pub(crate) fn path_mtu(peer: IpAddr) -> u32 {
    net_interface::egress_interface(peer).map_or(1500, |e| e.mtu_bytes)
}

/// The smallest packet limit towards a peer known to this host: the interface's, the route's, or one reported earlier
/// by a router on the path.
pub(crate) fn min_path_mtu(peer: SocketAddr) -> u32 {
    let options = UdpOptions { dont_fragment: Some(true), ..UdpOptions::connect(peer) };
    let known = UdpSocket::open(&options).ok().and_then(|s| s.path_mtu().ok()).filter(|m| *m > 0);
    known.map_or(u32::MAX, |mtu| mtu).min(path_mtu(peer.ip()))
}

/// Checks that the kernel has a congestion control or can load it; the error states why not, and which ones it has.
pub(crate) fn congestion_control(name: &str) -> Result<(), String> {
    weir_net::tcp::try_congestion_control(name).map_err(|e| {
        let known = weir_net::tcp::available_congestion_controls().unwrap_or_default();
        format!("{e}; this host has: {}", known.join(", "))
    })
}

/// A datagram that must not be fragmented and is too large for the path.
pub(crate) struct Oversized {
    pub(crate) payload_bytes: u64,
    pub(crate) most: u64,
    pub(crate) path_mtu_bytes: u32,
}

/// The congestion control that a connection requests.
pub(crate) fn congestion_of(connection: &Connection) -> Option<&str> {
    connection.transport.tcp_options()?.congestion.as_deref()
}

/// The first flow whose datagrams must not be fragmented and are too large for packets of `path_mtu_bytes`.
pub(crate) fn oversized<'a>(
    mut specs: impl Iterator<Item = &'a FlowSpec>,
    family: Family,
    path_mtu_bytes: u32,
) -> Option<Oversized> {
    let headers = if family == Family::Ipv4 { 20 + 8 } else { 40 + 8 };
    let most = u64::from(path_mtu_bytes).saturating_sub(headers);
    let too_large = specs.find(|s| {
        let udp = s.connection.transport.udp_options();
        udp.is_some_and(|o| o.dont_fragment) && s.max_payload() > most
    })?;
    Some(Oversized { payload_bytes: too_large.max_payload(), most, path_mtu_bytes })
}

/// Speed of the interface towards a peer, and its name; `None` for a virtual interface or an unknown speed.
pub(crate) fn nominal(peer: IpAddr) -> Option<(u64, String)> {
    nominal_of(&net_interface::egress_interface(peer).ok()?.interface)
}

/// Speed of an interface, bit/s, and its name; `None` if it has none that is enforced.
pub(crate) fn nominal_of(name: &str) -> Option<(u64, String)> {
    let interface = net_interface::interface(name).ok()?;
    // The speed that a virtual interface states is not enforced.
    if interface.kind.is_some() || interface.loopback {
        return None;
    }
    let speed = net_interface::speed_bits_per_second(name).ok()??;
    Some((speed, interface.name))
}

/// The host's part of the record.
pub(crate) fn after(before: &Before) -> Option<Host> {
    let facts = weir_net::host::host().ok()?;
    let interfaces = before
        .interfaces
        .iter()
        .map(|name| {
            let i = net_interface::interface(name).ok();
            let hardware = i.as_ref().map(net_interface::hardware).unwrap_or_default();
            Interface {
                name: name.clone(),
                driver: net_interface::driver(name).ok().map(|d| d.name),
                card: hardware.card,
                bus: hardware.bus,
                speed_bits_per_second: net_interface::speed_bits_per_second(name).ok().flatten(),
                mtu_bytes: i.as_ref().map(|i| i.mtu_bytes),
                offloads: net_interface::offloads(name)
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|o| affects_measurement(&o.name))
                    .map(|o| (o.name, o.active))
                    .collect(),
                qdisc: i.and_then(|i| i.qdisc),
                counters_before: before.counters.get(name).cloned().unwrap_or_default(),
                counters_after: counters(name),
                qdiscs: qdisc_use(&before.qdiscs, &outermost_qdiscs(name)),
            }
        })
        .collect();
    let mut changes = BTreeMap::new();
    if let (Some(then), Ok(now)) = (&before.protocol, protocol_counters()) {
        let since = now.since(then);
        for (group, name, ours) in PROTOCOL {
            if let Some(v) =
                since.get(group, name).and_then(|v| u64::try_from(v).ok()).filter(|v| *v > 0)
            {
                changes.insert(ours.to_string(), v);
            }
        }
    }
    if let (Some(then), Some(now)) = (before.softnet_dropped, softnet_dropped())
        && now > then
    {
        changes.insert("softnet_dropped".into(), now - then);
    }
    Some(Host {
        host: facts.hostname,
        version: env!("CARGO_PKG_VERSION").into(),
        os: facts.os,
        kernel: facts.kernel,
        cpu: CpuFacts {
            model: facts.cpu_model.unwrap_or_default(),
            cores: facts.cpu_cores,
            governor: facts.governor,
            cache_bytes: facts.cache_bytes.into_iter().collect(),
        },
        memory_bytes: facts.memory_bytes,
        virtual_machine: facts.virtualisation,
        clocksource: facts.clocksource,
        sysctls: facts.sysctls.into_iter().collect(),
        interfaces,
        counters: changes,
    })
}

/// Whether an offload changes the meaning of a measurement.
fn affects_measurement(name: &str) -> bool {
    [
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-udp-segmentation",
        "tx-generic-segmentation",
        "rx-gro",
        "rx-gro-list",
        "rx-udp-gro-forwarding",
        "rx-lro",
        "rx-checksum",
        "tx-checksum-ip-generic",
    ]
    .contains(&name)
}

/// Processor time of the host and of this process up to a moment.
#[derive(Debug, Clone)]
struct CpuReading {
    host: Option<CpuUsage>,
    process: ProcessCpu,
    at_ns: u64,
}

impl CpuReading {
    fn now(clock: &Clock) -> CpuReading {
        CpuReading { host: cpu_times().ok(), process: process_cpu(), at_ns: clock.monotonic_ns() }
    }

    fn seconds_since(&self, then: &CpuReading) -> f64 {
        self.at_ns.saturating_sub(then.at_ns) as f64 / 1e9
    }

    /// This process's time since `then`, in processors: user, system.
    fn process_since(&self, then: &CpuReading) -> [f64; 2] {
        let wall = self.at_ns.saturating_sub(then.at_ns).max(1) as f64;
        [
            (self.process.user_ns, then.process.user_ns),
            (self.process.system_ns, then.process.system_ns),
        ]
        .map(|(now, then)| now.saturating_sub(then) as f64 / wall)
    }

    /// Excludes the time between two readings from what is measured since this one.
    fn skip(&mut self, from: &CpuReading, to: &CpuReading) {
        let more = |own: &mut u64, from: u64, to: u64| *own += to.saturating_sub(from);
        more(&mut self.at_ns, from.at_ns, to.at_ns);
        more(&mut self.process.user_ns, from.process.user_ns, to.process.user_ns);
        more(&mut self.process.system_ns, from.process.system_ns, to.process.system_ns);
        let (Some(own), Some(from), Some(to)) = (&mut self.host, &from.host, &to.host) else {
            self.host = None;
            return;
        };
        own.total = without(&own.total, &from.total, &to.total);
        own.cores.retain_mut(|(id, core)| {
            let of = |usage: &CpuUsage| usage.cores.iter().find(|c| c.0 == *id).map(|c| c.1);
            let Some((from, to)) = of(from).zip(of(to)) else { return false };
            *core = without(core, &from, &to);
            true
        });
    }

    fn since(&self, before: &CpuReading) -> Option<CpuEnd> {
        let (then, now) = (before.host.as_ref()?, self.host.as_ref()?);
        let total = now.total.total_ns().saturating_sub(then.total.total_ns()).max(1) as f64;
        let ratio =
            |f: fn(&CpuTimes) -> u64| f(&now.total).saturating_sub(f(&then.total)) as f64 / total;
        let core = |(id, now): &(u32, CpuTimes)| {
            let (_, then) = then.cores.iter().find(|(i, _)| i == id)?;
            let total = now.total_ns().checked_sub(then.total_ns()).filter(|total| *total > 0)?;
            let ratio =
                |f: fn(&CpuTimes) -> u64| f(now).saturating_sub(f(then)) as f64 / total as f64;
            Some(CoreUse {
                core: *id,
                user_ratio: ratio(USER),
                system_ratio: ratio(SYSTEM),
                irq_ratio: ratio(IRQ),
                steal_ratio: ratio(STEAL),
            })
        };
        let busiest = now
            .cores
            .iter()
            .filter_map(|(id, core)| {
                let (_, before) = then.cores.iter().find(|(i, _)| i == id)?;
                let total = core.total_ns().checked_sub(before.total_ns()).filter(|t| *t > 0)?;
                Some(core.busy_ns().saturating_sub(before.busy_ns()) as f64 / total as f64)
            })
            .max_by(f64::total_cmp);
        let [process_user_ratio, process_system_ratio] = self.process_since(before);
        Some(CpuEnd {
            seconds: self.seconds_since(before),
            user_ratio: ratio(USER),
            system_ratio: ratio(SYSTEM),
            irq_ratio: ratio(IRQ),
            steal_ratio: ratio(STEAL),
            process_user_ratio,
            process_system_ratio,
            busiest_core_ratio: busiest,
            cores: now.cores.iter().filter_map(core).collect(),
            ..CpuEnd::default()
        })
    }
}

/// Time of user mode.
const USER: fn(&CpuTimes) -> u64 = |c| c.user_ns + c.nice_ns;
/// Time of kernel mode.
const SYSTEM: fn(&CpuTimes) -> u64 = |c| c.system_ns;
/// Time of interrupts.
const IRQ: fn(&CpuTimes) -> u64 = |c| c.irq_ns + c.softirq_ns;
/// Time that the hypervisor took.
const STEAL: fn(&CpuTimes) -> u64 = |c| c.steal_ns;

/// `begin`, advanced by the time between two readings.
fn without(begin: &CpuTimes, from: &CpuTimes, to: &CpuTimes) -> CpuTimes {
    let later = |f: fn(&CpuTimes) -> u64| f(begin) + f(to).saturating_sub(f(from));
    CpuTimes {
        user_ns: later(|c| c.user_ns),
        nice_ns: later(|c| c.nice_ns),
        system_ns: later(|c| c.system_ns),
        idle_ns: later(|c| c.idle_ns),
        iowait_ns: later(|c| c.iowait_ns),
        irq_ns: later(|c| c.irq_ns),
        softirq_ns: later(|c| c.softirq_ns),
        steal_ns: later(|c| c.steal_ns),
    }
}

/// Shortest wait whose processor time is meaningful.
const MIN_WAITING_SECONDS: f64 = 0.1;

/// Measures processor time while a test sends, and separately while it waits for stragglers. An idle wait, for
/// stragglers or for a flow to be started by command, would hide that a processor was the limit.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    clock: Clock,
    begin: CpuReading,
    sent: Option<CpuReading>,
}

impl CpuMeter {
    /// A meter of a test that has not started.
    pub(crate) fn new(clock: &Clock) -> CpuMeter {
        CpuMeter { clock: clock.clone(), begin: CpuReading::now(clock), sent: None }
    }

    /// Starts the measurement at time zero of the test.
    pub(crate) fn start(&mut self) {
        self.begin = CpuReading::now(&self.clock);
        if self.sent.is_some() {
            self.sent = Some(self.begin.clone());
        }
    }

    /// Sets whether any flow is sending now. Time without a sending flow does not count.
    pub(crate) fn set_sending(&mut self, is_sending: bool) {
        match (is_sending, self.sent.take()) {
            (false, None) => self.sent = Some(CpuReading::now(&self.clock)),
            (true, Some(since)) => self.begin.skip(&since, &CpuReading::now(&self.clock)),
            (_, unchanged) => self.sent = unchanged,
        }
    }

    /// Processor time while flows were sending; absent if none was.
    pub(crate) fn report(&self) -> Option<CpuEnd> {
        let now = CpuReading::now(&self.clock);
        let Some(sent) = &self.sent else { return now.since(&self.begin) };
        if sent.at_ns <= self.begin.at_ns {
            return None;
        }
        let waiting = now.seconds_since(sent);
        let process = now.process_since(sent).iter().sum();
        Some(CpuEnd {
            waiting_seconds: Some(waiting),
            waiting_process_ratio: (waiting >= MIN_WAITING_SECONDS).then_some(process),
            ..sent.since(&self.begin)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_measured_only_while_a_flow_sends() {
        let injected = weir_net::clock::InjectedClock::new();
        let mut ns = 0;
        let mut pass = |seconds: i64| {
            ns += seconds * 1_000_000_000;
            injected.set_monotonic_offset_ns(ns);
        };
        let mut meter = CpuMeter::new(&injected.clock());
        meter.set_sending(false);
        pass(100);
        meter.start();
        assert!(meter.report().is_none(), "no flow has sent");
        for _ in 0..2 {
            pass(1000);
            meter.set_sending(true);
            meter.set_sending(true);
            pass(10);
            meter.set_sending(false);
        }
        pass(1000);
        meter.set_sending(false);
        let measured = meter.report().unwrap();
        // The real time of this test is added.
        assert!((20.0..100.0).contains(&measured.seconds), "{measured:?}");
        assert!(measured.waiting_seconds.is_some_and(|s| (1000.0..1100.0).contains(&s)));
    }

    #[test]
    fn skipped_time_is_not_counted() {
        let times = |busy, idle| CpuTimes { user_ns: busy, idle_ns: idle, ..CpuTimes::default() };
        let reading = |at_ns, busy, idle| CpuReading {
            host: Some(CpuUsage { total: times(busy, idle), cores: vec![(0, times(busy, idle))] }),
            process: ProcessCpu { user_ns: busy, system_ns: 0 },
            at_ns,
        };
        // Busy for 2 s of 4, then idle for 100 s, then busy for 2 s of 4 again.
        const S: u64 = 1_000_000_000;
        let mut begin = reading(0, 0, 0);
        begin.skip(&reading(4 * S, 2 * S, 2 * S), &reading(104 * S, 2 * S, 102 * S));
        let found = reading(108 * S, 4 * S, 104 * S).since(&begin).unwrap();
        assert_eq!((found.seconds, found.user_ratio), (8.0, 0.5));
        assert_eq!((found.process_user_ratio, found.busiest_core_ratio), (0.5, Some(0.5)));
    }

    #[test]
    fn an_interface_that_cannot_be_read_has_no_mtu() {
        let host = after(&before(None, Some("absent0"))).unwrap();
        let [interface] = &host.interfaces[..] else { panic!("{:?}", host.interfaces) };
        assert_eq!((interface.name.as_str(), interface.mtu_bytes), ("absent0", None));
    }

    #[test]
    fn the_use_of_a_discipline_is_what_changed() {
        let qdisc = |kind: &str, handle, parent, sent, drops| Qdisc {
            kind: kind.into(),
            handle,
            parent,
            sent_packets: sent,
            drops,
            ..Qdisc::default()
        };
        let then = [
            qdisc("tbf", 0x10000, Qdisc::ROOT, 5, u32::MAX - 1),
            qdisc("clsact", 0xffff_0000, Qdisc::FILTERS, 0, 3),
            qdisc("fq", 0x20000, Qdisc::ROOT, 1, 1),
        ];
        let now = [
            qdisc("tbf", 0x10000, Qdisc::ROOT, 9, 4),
            qdisc("clsact", 0xffff_0000, Qdisc::FILTERS, 0, 4),
            qdisc("fq", 0x30000, Qdisc::ROOT, 50, 50),
        ];
        let used = qdisc_use(&then, &now);
        let figures: Vec<_> =
            used.iter().map(|q| (q.hook.as_str(), q.sent_packets, q.dropped_packets)).collect();
        assert_eq!(figures, [("egress", 4, 6), ("filter", 0, 1)]);
    }
}
