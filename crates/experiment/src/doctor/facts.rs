//! The facts of a host: plain data, so that checks can be tested with made-up facts.

use weir_net::capability::{Capabilities, UserNamespaces};
use weir_net::host::Host;
use weir_net::interface::{Interface, Offload, Qdisc};

use super::ruleset::Ruleset;

/// A fact about the system.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Fact<T> {
    /// Not gathered: no finding.
    #[default]
    NotAsked,
    /// The value and its source.
    Read {
        /// File, call or command.
        from: String,
        /// The answer.
        value: T,
    },
    /// It could not be read.
    Unreadable {
        /// File, call or command.
        from: String,
        /// Why.
        why: String,
    },
}

impl<T> Fact<T> {
    /// An answer.
    pub fn read(from: impl Into<String>, value: T) -> Self {
        Fact::Read { from: from.into(), value }
    }

    /// No answer.
    pub(crate) fn unreadable(from: impl Into<String>, why: impl ToString) -> Self {
        Fact::Unreadable { from: from.into(), why: why.to_string() }
    }

    /// The result of a call that may fail.
    pub(crate) fn of<E: std::fmt::Display>(from: impl Into<String>, result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Fact::read(from, value),
            Err(error) => Fact::unreadable(from, error),
        }
    }

    /// An optional result.
    pub(crate) fn present(from: impl Into<String>, value: Option<T>) -> Self {
        match value {
            Some(value) => Fact::read(from, value),
            None => Fact::unreadable(from, "not reported by this system"),
        }
    }

    /// The value, if it was read.
    pub fn value(&self) -> Option<&T> {
        match self {
            Fact::Read { value, .. } => Some(value),
            _ => None,
        }
    }
}

/// Lateness of 1000 sleeps, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// The latest.
    pub max_ns: i64,
}

/// CPU use before the measurements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuSample {
    /// How long, s.
    pub seconds: f64,
    /// Busy fraction of each core, 0 to 1, stolen time included.
    pub busy_ratio: Vec<(u32, f64)>,
    /// Fraction of all CPU time that the hypervisor took.
    pub steal_ratio: f64,
    /// Other processes that used CPU time, the largest first.
    pub consumers: Vec<BusyProcess>,
}

/// A process that uses CPU time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BusyProcess {
    /// Process id.
    pub pid: u32,
    /// Its name in the kernel (15 bytes).
    pub name: String,
    /// CPU time per elapsed time: above 1 with several threads.
    pub cpu_ratio: f64,
}

/// Whether a port can be bound here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortUse {
    /// It is free.
    Free,
    /// Another program listens on it.
    Used,
}

/// Running programs that adjust the realtime clock, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockDaemons(pub Vec<String>);

/// An interface with its addresses and settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InterfaceFacts {
    /// The interface, with its counters.
    pub interface: Interface,
    /// Its features.
    pub offloads: Fact<Vec<Offload>>,
    /// Its queueing disciplines.
    pub qdiscs: Vec<Qdisc>,
    /// Speed, bit/s, if known.
    pub speed_bits_per_second: Option<u64>,
    /// The user named this one.
    pub asked_for: bool,
}

/// The facts of a host, in one network namespace.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Name, kernel, distribution and hardware.
    pub host: Fact<Host>,
    /// Capabilities of this process.
    pub capabilities: Fact<Capabilities>,
    /// Whether real-time scheduling was granted.
    pub fifo: Fact<()>,
    /// Whether a network namespace could be created, and whether that needed a user namespace.
    pub namespaces: Fact<bool>,
    /// Settings of user namespaces.
    pub user_namespaces: Fact<UserNamespaces>,
    /// CPUs this process may run on.
    pub allowed_cpus: Fact<usize>,
    /// CPU time that the control group allows, in cores; infinite without a limit.
    pub cpu_quota: Fact<f64>,
    /// Frequency limits of the first core: minimum and maximum, Hz.
    pub frequency: Fact<(u64, u64)>,
    /// Current CPU use.
    pub cpu: Fact<CpuSample>,
    /// Clock sources of this kernel.
    pub clocksources: Fact<Vec<String>>,
    /// Cost of one reading of the monotonic clock, ns.
    pub clock_read_ns: Fact<u64>,
    /// Resolution of the monotonic clock and of timers, ns.
    pub timer_resolution_ns: Fact<u64>,
    /// Timer slack of this process at its start, ns.
    pub timer_slack_ns: Fact<u64>,
    /// Lateness of sleeps with a slack of 1 ns.
    pub lateness: Fact<Lateness>,
    /// Programs that adjust the realtime clock.
    pub steering: Fact<ClockDaemons>,
    /// Whether the kernel stamped an incoming datagram over loopback.
    pub receive_stamps: Fact<bool>,
    /// Maximum receive buffer without privilege, bytes.
    pub rmem_max: Fact<u64>,
    /// Maximum send buffer without privilege, bytes.
    pub wmem_max: Fact<u64>,
    /// Maximum length of a CPU's backlog, packets.
    pub netdev_max_backlog: Fact<u64>,
    /// Limits of file descriptors: soft and hard.
    pub descriptors: Fact<(u64, u64)>,
    /// First and last ephemeral port.
    pub ephemeral_ports: Fact<(u16, u16)>,
    /// UDP 9347.
    pub udp_port: Fact<PortUse>,
    /// TCP 9347.
    pub tcp_port: Fact<PortUse>,
    /// Whether a UDP socket could be opened on 127.0.0.1.
    pub ipv4: Fact<()>,
    /// Whether a UDP socket could be opened on ::1.
    pub ipv6: Fact<()>,
    /// Interfaces that are up, loopback included; if the user named one, that and loopback.
    pub interfaces: Fact<Vec<InterfaceFacts>>,
    /// Packets dropped because a CPU's backlog was full, and how many times packet processing ran out of budget;
    /// since boot, all namespaces.
    pub softnet: Fact<(u64, u64)>,
    /// Datagrams dropped because a socket's buffer was full, since the namespace was created.
    pub receive_buffer_errors: Fact<u64>,
    /// Rules of nftables, which include those of iptables-nft.
    pub ruleset: Fact<Ruleset>,
    /// Loaded tables of the older iptables.
    pub iptables: Fact<Vec<String>>,
    /// Tracked connections and their maximum.
    pub conntrack: Fact<(u64, u64)>,
    /// Maximum number of segments of a UDP_SEGMENT send; 1: not supported.
    pub gso_segments: Fact<u16>,
    /// Whether UDP_GRO could be enabled.
    pub udp_gro: Fact<()>,
    /// Protocols of this kernel, by their names in `/proc/net/protocols`.
    pub protocols: Fact<Vec<String>>,
    /// Whether MPTCP sockets are allowed.
    pub mptcp: Fact<bool>,
}
