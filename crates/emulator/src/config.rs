//! Configuration of an emulator.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use weir_model::impairment::{Impairment, Laws, Prefix};
use weir_model::plan::Direction;

use crate::lateness::LATE_NS;
use crate::recording::Recording;

/// The type of link for both interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LinkMode {
    /// The packet socket if any delay or rate depends on the arrival time, else the fastest available.
    #[default]
    Auto,
    /// TPACKET_V2.
    Packet,
    /// AF_XDP in the driver, zero-copy if supported.
    Xdp,
    /// AF_XDP in the network stack (generic mode).
    XdpGeneric,
}

impl LinkMode {
    /// All of them.
    pub const ALL: [LinkMode; 4] =
        [LinkMode::Auto, LinkMode::Packet, LinkMode::Xdp, LinkMode::XdpGeneric];

    /// Its name on the command line and in jobs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LinkMode::Auto => "auto",
            LinkMode::Packet => "packet",
            LinkMode::Xdp => "xdp",
            LinkMode::XdpGeneric => "xdp-generic",
        }
    }
}

/// Scheduling of the threads of the two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// SCHED_FIFO if permitted, while packets are delayed and the load leaves CPU time to others.
    #[default]
    Auto,
    /// Normal scheduling.
    Normal,
}

/// The files of a packet trace, empty and open for writing.
#[derive(Debug)]
pub struct PacketTraceFiles {
    /// The records.
    pub packet_trace: File,
    /// Later configurations, `FILE.configurations`.
    pub configurations: File,
}

/// This host's own traffic as the path to impair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The interface by which the traffic leaves and arrives.
    pub interface: String,
    /// The other hosts' addresses.
    pub prefixes: Vec<Prefix>,
}

/// The configuration of an emulator.
#[derive(Debug)]
pub struct EmulatorConfig {
    /// Interface A, and interface B. `tap:NAME` is a TAP device, of which the emulator is the wire.
    pub interfaces: [String; 2],
    /// Impair this host's own traffic instead of two interfaces. A is then this host, B the interface; `interfaces` names
    /// them in the report.
    pub local: Option<Local>,
    /// Which link.
    pub link: LinkMode,
    /// Flows and laws; the seed is in it.
    pub impairment: Impairment,
    /// Where to write each packet's verdict (`weir.packets/1`).
    pub packet_trace: Option<PathBuf>,
    /// The files of the packet trace if already open: a process that drops capabilities may be unable to open them
    /// later.
    pub packet_trace_files: Option<Arc<PacketTraceFiles>>,
    /// Maximum size of the packet trace with its configurations, bytes; further records are counted as dropped.
    /// `None`: limited by the disk.
    pub packet_trace_max_bytes: Option<u64>,
    /// Captures and logs of all packets that start with the emulator, with their open files.
    pub recordings: Vec<(Recording, File)>,
    /// A note on disk of the settings that this emulator changes; its watchdog removes it when they are restored.
    pub restoration: Option<PathBuf>,
    /// Threads of each direction, 1 to 16. The interfaces divide what arrives among them by a hash of addresses and ports.
    pub threads: u8,
    /// How the threads are scheduled.
    pub scheduling: Scheduling,
    /// Lateness from which a packet counts as late in a verdict, ns: [`late_limit_ns`](crate::late_limit_ns) of this host.
    pub late_limit_ns: u64,
    /// Accept interfaces that would be refused, if they can work.
    pub force: bool,
    /// Frames of each receive ring; `None`: the link's default.
    pub ring_frames: Option<u32>,
    /// Drop the capabilities that only the setup needs, for the calling thread and its children; requires
    /// `keep_for_setting_up` before.
    pub few_capabilities: bool,
    /// The lab namespace that it runs in, `LAB/NODE`, from the environment; the control socket reports it.
    pub lab: Option<String>,
}

impl EmulatorConfig {
    /// A configuration with the defaults.
    #[must_use]
    pub fn new(a: &str, b: &str, impairment: Impairment) -> Self {
        EmulatorConfig {
            interfaces: [a.to_owned(), b.to_owned()],
            local: None,
            link: LinkMode::Auto,
            impairment,
            packet_trace: None,
            packet_trace_files: None,
            packet_trace_max_bytes: None,
            recordings: Vec::new(),
            restoration: None,
            threads: 1,
            scheduling: Scheduling::Auto,
            late_limit_ns: LATE_NS,
            force: false,
            ring_frames: None,
            few_capabilities: false,
            lab: None,
        }
    }
}

/// All laws of a direction, including those of aggregates.
fn all_laws(config: &Impairment, direction: Direction) -> impl Iterator<Item = Laws> + '_ {
    let flows = config.flows.iter().map(move |flow| flow.laws(direction));
    let aggregates = config.aggregates.iter().map(move |aggregate| match direction {
        Direction::Forward => aggregate.a_to_b.clone(),
        Direction::Reverse => aggregate.b_to_a.clone(),
    });
    flows.chain(aggregates).chain([config.other.laws(direction)])
}

/// Whether any delay or rate, in either direction, depends on the arrival time.
pub(crate) fn is_timed(config: &Impairment) -> bool {
    let is_timed_later =
        config.timeline.iter().flat_map(|timeline| &timeline.changes).any(|change| {
            let mut laws = change.a_to_b.iter().chain(&change.b_to_a);
            change.profile.is_some() || laws.any(|laws| laws.delay.is_some() || laws.rate.is_some())
        });
    is_timed_later
        || [Direction::Forward, Direction::Reverse].into_iter().any(|direction| {
            all_laws(config, direction).any(|laws| laws.delay.is_some() || laws.rate.is_some())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_and_rate_are_timed_wherever_they_are() {
        let both = |text: &str| Impairment::of_both(text.parse().unwrap());
        assert!(is_timed(&both("delay 1ms")) && is_timed(&both("rate 1M")));
        assert!(!is_timed(&both("loss 1%, duplicate 1%, corrupt 1%")));
        assert!(is_timed(&Impairment::of_profile("3g-good").unwrap()));
        let mut reverse = Impairment::default();
        reverse.other.b_to_a = "delay 1ms".parse().unwrap();
        assert!(is_timed(&reverse));
        let later = Impairment::parse(
            "schema = \"weir.impair/1\"\n[timeline]\nchange = [{ at = \"1s\", both = \"rate 1M\" }]",
        );
        assert!(is_timed(&later.unwrap()));
        let aggregate = r#"
            schema = "weir.impair/1"
            [[flow]]
            name = "x"
            [[aggregate]]
            flows = ["x"]
            a_to_b = { rate = { bits = "1M" } }
        "#;
        assert!(is_timed(&Impairment::parse(aggregate).unwrap()));
    }
}
