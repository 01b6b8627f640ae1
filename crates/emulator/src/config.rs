//! What an emulator is started from.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use weir_model::impairment::{Impairment, Laws};
use weir_model::plan::Direction;

/// Which link is wanted on both interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LinkMode {
    /// The packet socket when any delay or rate counts from the time of arrival, else the fastest there is.
    #[default]
    Auto,
    /// TPACKET_V2.
    Packet,
    /// AF_XDP in the driver, zero-copy where the card takes it.
    Xdp,
    /// AF_XDP in the network stack.
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

/// How the threads of the two directions are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// SCHED_FIFO where it is allowed, while packets are delayed and the load leaves the processors to others.
    #[default]
    Auto,
    /// As any other thread.
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

/// What an emulator is started from.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// Interface A, and interface B.
    pub interfaces: [String; 2],
    /// Which link.
    pub link: LinkMode,
    /// Flows and laws; the seed is in it.
    pub impairment: Impairment,
    /// Where to write each packet's verdict (`weir.packets/1`).
    pub packet_trace: Option<PathBuf>,
    /// The files of the packet trace if they are open already: a process that drops capabilities may be unable to open them later.
    pub packet_trace_files: Option<Arc<PacketTraceFiles>>,
    /// Most bytes that the packet trace and the configurations beside it may have; what is beyond is counted as dropped. `None`: as
    /// many as the disk takes.
    pub packet_trace_max_bytes: Option<u64>,
    /// A note of the settings that this emulator changes: its watchdog removes it when they are restored.
    pub restoration: Option<PathBuf>,
    /// How the threads are scheduled.
    pub scheduling: Scheduling,
    /// Takes interfaces that would be refused, where that can work.
    pub force: bool,
    /// Frames each receive ring is to hold; `None`: the link's default.
    pub ring_frames: Option<u32>,
    /// Gives up, for the calling thread and its own, the capabilities that only setting up needs; `keep_for_setting_up` comes before.
    pub few_capabilities: bool,
    /// The lab namespace that it runs in, `LAB/NODE`, by the environment; the control socket reports it.
    pub lab: Option<String>,
}

impl EmulatorConfig {
    /// A configuration with the defaults.
    #[must_use]
    pub fn new(a: &str, b: &str, impairment: Impairment) -> Self {
        EmulatorConfig {
            interfaces: [a.to_owned(), b.to_owned()],
            link: LinkMode::Auto,
            impairment,
            packet_trace: None,
            packet_trace_files: None,
            packet_trace_max_bytes: None,
            restoration: None,
            scheduling: Scheduling::Auto,
            force: false,
            ring_frames: None,
            few_capabilities: false,
            lab: None,
        }
    }
}

/// Every set of laws of a direction, the aggregates' included.
fn all_laws(config: &Impairment, direction: Direction) -> impl Iterator<Item = Laws> + '_ {
    let flows = config.flows.iter().map(move |flow| flow.laws(direction));
    let aggregates = config.aggregates.iter().map(move |aggregate| match direction {
        Direction::Forward => aggregate.a_to_b.clone(),
        Direction::Reverse => aggregate.b_to_a.clone(),
    });
    flows.chain(aggregates).chain([config.other.laws(direction)])
}

/// Whether anything counts from the time of arrival: a delay or a rate, either way.
pub(crate) fn is_timed(config: &Impairment) -> bool {
    [Direction::Forward, Direction::Reverse].into_iter().any(|direction| {
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
