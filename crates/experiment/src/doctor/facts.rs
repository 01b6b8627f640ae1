//! What was read of this host: plain data, so that judgements can be tested with facts made for the purpose.

use weir_net::capability::{Capabilities, UserNamespaces};
use weir_net::host::Host;
use weir_net::interface::{Interface, Offload, Qdisc};

use super::ruleset::Ruleset;

/// Something asked of the system.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Fact<T> {
    /// Not asked: nothing is said about it.
    #[default]
    NotAsked,
    /// The answer, and where it was read.
    Read {
        /// File, call or command.
        from: String,
        /// The answer.
        value: T,
    },
    /// No answer could be had.
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
    pub fn unreadable(from: impl Into<String>, why: impl ToString) -> Self {
        Fact::Unreadable { from: from.into(), why: why.to_string() }
    }

    /// The answer of a call that may fail.
    pub fn of<E: std::fmt::Display>(from: impl Into<String>, result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Fact::read(from, value),
            Err(error) => Fact::unreadable(from, error),
        }
    }

    /// The answer of a question that has one or none.
    pub fn present(from: impl Into<String>, value: Option<T>) -> Self {
        match value {
            Some(value) => Fact::read(from, value),
            None => Fact::unreadable(from, "this system does not tell"),
        }
    }

    /// The answer, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Fact::Read { value, .. } => Some(value),
            _ => None,
        }
    }
}

/// How late sleeps ended, ns, of 1000 sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// The latest.
    pub max_ns: i64,
}

/// CPU use over a short while before anything was measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuSample {
    /// How long, s.
    pub seconds: f64,
    /// Each core and the share of the time that it was busy, 0 to 1, stolen time included.
    pub busy_ratio: Vec<(u32, f64)>,
    /// Share of all cores' time that the hypervisor took.
    pub steal_ratio: f64,
    /// Processes other than this one that used CPU time, the greediest first.
    pub consumers: Vec<BusyProcess>,
}

/// A process that uses the CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BusyProcess {
    /// Process id.
    pub pid: u32,
    /// Its name, as the kernel has it (15 bytes).
    pub name: String,
    /// CPU time used as a share of the time that passed: above 1 with several threads.
    pub cpu_ratio: f64,
}

/// Whether a port can be bound here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortUse {
    /// Nobody has it.
    Free,
    /// Somebody listens on it.
    Used,
}

/// Programs found running that steer the realtime clock, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClockDaemons(pub Vec<String>);

/// One interface with what belongs to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InterfaceFacts {
    /// The interface, with its counters.
    pub interface: Interface,
    /// Its features.
    pub offloads: Fact<Vec<Offload>>,
    /// Its queueing disciplines.
    pub qdiscs: Vec<Qdisc>,
    /// Speed, bit/s, where it knows one.
    pub speed_bits_per_second: Option<u64>,
    /// The user asked about this one.
    pub asked_for: bool,
}

/// The facts of a host, in one network namespace.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Who and what it is.
    pub host: Fact<Host>,
    /// What this process may do.
    pub capabilities: Fact<Capabilities>,
    /// Whether real-time scheduling was granted when tried.
    pub fifo: Fact<()>,
    /// A network namespace was made and let go: whether that needed a user namespace.
    pub namespaces: Fact<bool>,
    /// What the settings say about user namespaces.
    pub user_namespaces: Fact<UserNamespaces>,
    /// CPUs this process may run on.
    pub allowed_cpus: Fact<usize>,
    /// CPU time that the control group allows, in cores; infinite without a limit.
    pub cpu_quota: Fact<f64>,
    /// Frequency limits of the first core: least and most, Hz.
    pub frequency: Fact<(u64, u64)>,
    /// CPU use just now.
    pub cpu: Fact<CpuSample>,
    /// Clocksources this kernel could use.
    pub clocksources: Fact<Vec<String>>,
    /// Cost of one reading of the monotonic clock, ns.
    pub clock_read_ns: Fact<u64>,
    /// Resolution of the monotonic clock and so of timers, ns.
    pub timer_resolution_ns: Fact<u64>,
    /// Timer slack this process started with, ns.
    pub timer_slack_ns: Fact<u64>,
    /// How late sleeps ended with a slack of 1 ns.
    pub lateness: Fact<Lateness>,
    /// Who steers the realtime clock.
    pub steering: Fact<ClockDaemons>,
    /// Whether the kernel stamped a datagram on its way in, when tried over loopback.
    pub receive_stamps: Fact<bool>,
    /// Most receive buffer an ordinary process may ask for, bytes.
    pub rmem_max: Fact<u64>,
    /// Most send buffer an ordinary process may ask for, bytes.
    pub wmem_max: Fact<u64>,
    /// Packets that wait per CPU for receive processing.
    pub netdev_max_backlog: Fact<u64>,
    /// Open descriptors allowed: now, and at most without privilege.
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
    /// Interfaces that are up, loopback included; with one asked for, that and loopback.
    pub interfaces: Fact<Vec<InterfaceFacts>>,
    /// Packets dropped before they reached a protocol because a CPU's backlog was full, and times that processing ran
    /// out of budget; since boot, all namespaces.
    pub softnet: Fact<(u64, u64)>,
    /// Datagrams dropped because a socket's buffer was full, since the namespace was made.
    pub receive_buffer_errors: Fact<u64>,
    /// Rules of nftables, which on current systems include those of iptables.
    pub ruleset: Fact<Ruleset>,
    /// Tables of the older iptables that are loaded.
    pub iptables: Fact<Vec<String>>,
    /// Connections tracked, and the most that can be.
    pub conntrack: Fact<(u64, u64)>,
    /// Most segments of a send by UDP_SEGMENT; 1: there is none.
    pub gso_segments: Fact<u16>,
    /// Whether UDP_GRO could be switched on.
    pub udp_gro: Fact<()>,
    /// Protocols this kernel has, by their names in `/proc/net/protocols`.
    pub protocols: Fact<Vec<String>>,
    /// Whether MPTCP sockets are allowed.
    pub mptcp: Fact<bool>,
}
