//! What a test of `weir netperf` prints while it runs. The results follow the last test.

use std::time::{Duration, SystemTime};

use weir_model::plan::FlowSpec;
use weir_model::record::{Interval, IntervalCount, Record};
use weir_report::{NetperfExchange, NetperfInterim, NetperfOptions, Start};

use crate::app::note;
use crate::commands::tool::{self, ToolOutput};
use crate::engine::Address;
use crate::time::since_epoch;

/// How a test is printed.
#[derive(Debug, Clone)]
pub(crate) struct NetperfSettings {
    pub(super) options: NetperfOptions,
    /// The address of this end, if the user stated one.
    pub(super) local: Option<String>,
    /// Whether it is the first of several, which has a heading.
    pub(super) is_first: bool,
    /// Whether results are printed while the test runs.
    pub(super) has_interim: bool,
}

/// The text of a test.
#[derive(Debug)]
pub(crate) struct NetperfText {
    settings: NetperfSettings,
    interim: Option<NetperfInterim>,
    /// Bytes of a request and its response.
    exchanged: u64,
    started: Duration,
}

impl NetperfText {
    pub(crate) fn new(settings: NetperfSettings) -> Self {
        let interim = settings.has_interim.then(|| NetperfInterim::new(&settings.options));
        NetperfText { settings, interim, exchanged: 0, started: Duration::ZERO }
    }
}

impl ToolOutput for NetperfText {
    fn connected(&mut self, host: &str, _: u16, remote: Address) -> String {
        let settings = &self.settings;
        let remote = remote.ip().filter(|_| settings.is_first);
        remote.map_or_else(String::new, |remote| {
            settings.options.banner(host, remote.ip().to_canonical(), settings.local.as_deref())
        })
    }

    fn started(&mut self, _: &Start, specs: &[FlowSpec]) -> String {
        self.started = since_epoch(SystemTime::now());
        let connection = specs.first().map(|spec| &spec.connection);
        self.exchanged = connection.map_or(0, |c| c.request_bytes() + c.response_bytes());
        String::new()
    }

    fn interval(&mut self, interval: &Interval) -> String {
        let (Some(interim), Some(counts)) = (&mut self.interim, interval.flows.first()) else {
            return String::new();
        };
        let count = |count: &Option<IntervalCount>, of: fn(&IntervalCount) -> Option<u64>| {
            count.as_ref().and_then(of)
        };
        let ends = [&counts.sender, &counts.receiver];
        let transactions = || ends.iter().find_map(|end| count(end, |c| c.transactions));
        let units = match self.settings.options.kind.exchange() {
            NetperfExchange::Send => count(ends[0], |c| Some(c.bytes)),
            NetperfExchange::Receive => count(ends[1], |c| Some(c.bytes)),
            _ if interim.counts_transactions() => transactions(),
            _ => transactions().map(|transactions| transactions * self.exchanged),
        };
        let at = self.started + Duration::from_secs_f64(interval.end_seconds.max(0.0));
        let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        interim.interval(units.unwrap_or(0), interval.end_seconds, at_ms)
    }

    fn failed(&mut self, error: &str, _: bool) {
        note(&format!("netperf: {error}"));
    }

    fn finish(&mut self, record: &Record) -> String {
        tool::warn(record);
        String::new()
    }
}
