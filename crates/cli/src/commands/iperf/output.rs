//! What a client of `weir iperf` prints.

use std::time::{Duration, SystemTime};

use weir_model::plan::{Direction, FlowSpec, Shape};
use weir_model::record::{Flow, Interval, Record};
use weir_report::{Iperf2Options, Iperf2Text, Start, iperf2_banner};

use super::stamp;
use crate::app::note;
use crate::commands::tool::{self, ToolOutput};
use crate::engine::{Address, FlowAddresses};
use crate::time::since_epoch;

/// How a test is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IperfSettings {
    pub(super) options: Iperf2Options,
    pub(super) udp: bool,
    /// Whether there are rows of intervals.
    pub(super) has_rows: bool,
    /// Socket buffer of this end: of a new socket, and as requested, bytes.
    pub(super) buffer: Option<u64>,
    pub(super) requested: Option<u64>,
    /// Bytes of a write or of a datagram, if they are stated.
    pub(super) length: Option<u64>,
    /// Requests of a burst and seconds from one to the next, of a test of round trips.
    pub(super) bursts: Option<(u32, f64)>,
}

/// The text of a test.
#[derive(Debug)]
pub(crate) struct IperfText {
    settings: IperfSettings,
    /// What is known at the start.
    known: Record,
    text: Option<Iperf2Text>,
    started: Duration,
}

impl IperfText {
    pub(crate) fn new(settings: IperfSettings) -> Self {
        let known = Record::default();
        IperfText { settings, known, text: None, started: Duration::ZERO }
    }
}

impl ToolOutput for IperfText {
    fn connected(&mut self, host: &str, port: u16, _: Address) -> String {
        let s = &self.settings;
        if s.options.csv {
            return String::new();
        }
        let transport = if s.udp { "UDP" } else { "TCP" };
        let title = format!("Client connecting to {host}, {transport} port {port}");
        let length = s.length.unwrap_or(0);
        let details = match (s.bursts, s.options.bounce) {
            (Some((burst, seconds)), Some(bounce)) => {
                let quick_ack = if bounce.quick_ack { " & tcp_quickack" } else { "" };
                let hold = bounce.hold_us;
                let bursting = format!(
                    "Bursting: {length:4} Byte writes {burst} times every {seconds:.2} second(s)"
                );
                let bouncing = format!(
                    "Bounce-back test (size= {length} Byte) (server hold req={hold} usecs{quick_ack})"
                );
                [bursting].into_iter().filter(|_| seconds > 0.0).chain([bouncing]).collect()
            }
            _ if s.udp => vec![format!("Sending {length} byte datagrams")],
            _ => vec![],
        };
        iperf2_banner(&title, s.udp, &details, s.buffer, s.requested)
    }

    fn addresses(&mut self, addresses: &[FlowAddresses]) -> String {
        let flows: Vec<Flow> = addresses.iter().map(flow).collect();
        match &mut self.text {
            // The server has connected back.
            Some(text) => text.opened(flows),
            None => {
                self.known.flows = flows;
                String::new()
            }
        }
    }

    fn started(&mut self, start: &Start, specs: &[FlowSpec]) -> String {
        self.started = since_epoch(SystemTime::now());
        self.known.plan = start.plan.clone();
        // The plan of the command line has no load.
        let has = |shape| specs.iter().any(|spec| spec.connection.shape == shape);
        if has(Shape::Rr) && has(Shape::Stream) {
            let mut connections: Vec<_> = specs.iter().map(|s| s.connection.clone()).collect();
            connections.dedup();
            self.known.plan.connections = connections;
        }
        self.text = Iperf2Text::new(self.known.clone(), self.settings.options, 1).ok();
        self.text.as_mut().map(Iperf2Text::start).unwrap_or_default()
    }

    fn interval(&mut self, interval: &Interval) -> String {
        let (options, started) = (self.settings.options, self.started);
        let time = |end: f64| stamp(options, started, end);
        let text = self.text.as_mut().filter(|_| self.settings.has_rows);
        text.map(|text| text.interval(interval, &time)).unwrap_or_default()
    }

    fn failed(&mut self, error: &str, _: bool) {
        note(&format!("iperf: {error}"));
    }

    fn finish(&mut self, record: &Record) -> String {
        tool::warn(record);
        let (options, started) = (self.settings.options, self.started);
        let time = |end: f64| stamp(options, started, end);
        self.text.as_mut().map(|text| text.summary(record, &time)).unwrap_or_default()
    }
}

/// A flow with the addresses that are known at the start.
pub(crate) fn flow(known: &FlowAddresses) -> Flow {
    let (local, remote) = (known.local.to_string(), known.remote.to_string());
    let (source, destination) = match known.direction {
        Direction::Forward => (local, remote),
        Direction::Reverse => (remote, local),
    };
    Flow { id: known.flow, direction: known.direction, source, destination, ..Flow::default() }
}
