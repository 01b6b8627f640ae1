//! The figures of a test in netperf's terms, and their mean over repetitions.

use weir_model::plan::{Direction, Shape};
use weir_model::record::Record;
use weir_stats::Sample;

use super::{NetperfOptions, NetperfUnit};

/// Processor time of a host, percent of all its processors.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NetperfHostCpu {
    /// Not idle.
    pub busy: f64,
    /// In programs.
    pub user: f64,
    /// In the system.
    pub system: f64,
    /// Waiting for devices.
    pub iowait: f64,
    /// In interrupts.
    pub irq: f64,
    /// In deferred interrupts.
    pub softirq: f64,
    /// Number of processors.
    pub processors: u32,
    /// The busiest processor.
    pub peak_id: u32,
    /// Its time that was not idle.
    pub peak: f64,
}

/// One end of a test. Of each pair, the first concerns sending and the second receiving.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NetperfEnd {
    /// Socket buffers that the user requested, bytes.
    pub requested_buffers: [Option<u64>; 2],
    /// Socket buffers before the test.
    pub buffers: [Option<u64>; 2],
    /// Socket buffers after the test.
    pub final_buffers: [Option<u64>; 2],
    /// Bytes of each call.
    pub sizes: [Option<u64>; 2],
    /// Calls.
    pub calls: [Option<u64>; 2],
    /// Bytes.
    pub bytes: [Option<u64>; 2],
    /// Processor time, if the user asked for it.
    pub cpu: Option<NetperfHostCpu>,
    /// Retransmitted segments.
    pub retransmits: Option<u64>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// TOS byte.
    pub tos: Option<u32>,
    /// `SO_PRIORITY`.
    pub priority: Option<u32>,
    /// Whether small segments are not delayed.
    pub no_delay: bool,
    /// Whether small segments are held back.
    pub cork: bool,
}

impl NetperfEnd {
    pub(super) fn total_bytes(&self) -> Option<u64> {
        let [sent, received] = self.bytes;
        (sent.is_some() || received.is_some()).then(|| sent.unwrap_or(0) + received.unwrap_or(0))
    }
}

/// Response times, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Latency {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
    pub(super) deviation: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
}

/// The figures of one test.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NetperfFigures {
    /// The end that ran the command.
    pub local: NetperfEnd,
    /// The server's end.
    pub remote: NetperfEnd,
    pub(super) seconds: f64,
    pub(super) is_datagrams: bool,
    /// Bytes of a request and of a response.
    pub(super) exchanged: [Option<u64>; 2],
    pub(super) transactions: Option<u64>,
    pub(super) latency: Option<Latency>,
    pub(super) mss: Option<u32>,
    /// This end's address of the data, and the server's.
    pub(super) addresses: [Option<std::net::SocketAddr>; 2],
}

impl NetperfFigures {
    /// Those of a record. `local` and `remote` have what a record does not: the remote end as the server stated it, of the local
    /// end its buffers before the test and its processor time.
    #[must_use]
    pub fn of(record: &Record, mut local: NetperfEnd, remote: NetperfEnd) -> Option<Self> {
        let connection = record.plan.connections.first()?;
        let flow = record.flows.first()?;
        let transactions = flow.transactions.as_ref();
        let sends = flow.direction == Direction::Forward;
        let (sender, receiver) = (flow.sender.as_ref(), flow.receiver.as_ref());
        let seconds = match (transactions, connection.shape) {
            (Some(transactions), _) => transactions.seconds,
            (None, Shape::Stream) if sends => sender?.seconds,
            (None, _) => receiver?.seconds,
        };
        let completed = transactions.map(|t| t.completed);
        let exchanged = [
            transactions.and_then(|t| t.request_bytes),
            transactions.and_then(|t| t.response_bytes),
        ];
        match (completed, sends) {
            (Some(completed), _) => {
                let sent = sender.map(|sender| sender.packets);
                local.calls = [sent, Some(completed)];
                local.bytes = [
                    sender.map(|sender| sender.bytes),
                    exchanged[1].map(|bytes| bytes * completed),
                ];
                local.sizes = exchanged;
            }
            (None, true) => {
                let sender = sender?;
                local.calls = [Some(sender.packets), Some(0)];
                local.bytes = [Some(sender.bytes), Some(0)];
                local.sizes[0] = Some(flow.payload_bytes);
                local.final_buffers[0] = sender.buffer_bytes;
            }
            (None, false) => {
                let receiver = receiver?;
                local.calls = [Some(0), Some(receiver.packets)];
                local.bytes = [Some(0), Some(receiver.bytes)];
                local.final_buffers[1] = receiver.buffer_bytes;
            }
        }
        for (last, first) in local.final_buffers.iter_mut().zip(local.buffers) {
            *last = last.or(first);
        }
        let tcp = flow.tcp.as_ref();
        let own = tcp.filter(|_| sends);
        local.retransmits = own.map(|tcp| tcp.retransmits);
        local.congestion =
            own.map(|tcp| tcp.congestion_control.clone()).filter(|name| !name.is_empty());
        local.tos = connection.tos().map(Into::into);
        local.no_delay = connection.no_delay() || local.no_delay;
        let us = |seconds: f64| 1e6 * seconds;
        let latency = transactions.and_then(|t| {
            let delay = t.response_time.as_ref()?;
            Some(Latency {
                min: us(delay.min_seconds),
                max: us(delay.max_seconds),
                mean: us(delay.mean_seconds),
                deviation: t.response_time_deviation_seconds.map(us),
                p50: delay.p50_seconds.map(us),
                p90: delay.p90_seconds.map(us),
                p99: delay.p99_seconds.map(us),
            })
        });
        let address = |text: &str| text.parse().ok();
        let (source, destination) = (address(&flow.source), address(&flow.destination));
        Some(NetperfFigures {
            local,
            remote,
            seconds,
            is_datagrams: connection.transport.datagrams(),
            exchanged,
            transactions: completed,
            latency,
            mss: tcp.map(|tcp| tcp.mss_bytes).filter(|mss| *mss > 0),
            addresses: if sends { [source, destination] } else { [destination, source] },
        })
    }

    /// The result in a unit.
    pub(super) fn throughput(&self, unit: NetperfUnit) -> f64 {
        let units = match self.transactions {
            Some(completed) if unit.counts_transactions() => Some(completed),
            Some(_) => self.local.total_bytes(),
            // What has arrived.
            None if self.local.bytes[1].is_some_and(|bytes| bytes > 0) => self.local.bytes[1],
            None => self.remote.bytes[1],
        };
        unit.rate(units.unwrap_or(0) as f64, self.seconds)
    }

    /// Microseconds of processor time per KB, or per transaction, at an end.
    pub(super) fn service_demand(&self, end: &NetperfEnd, unit: NetperfUnit) -> Option<f64> {
        let cpu = end.cpu?;
        let units = match self.transactions {
            Some(completed) if unit.counts_transactions() => completed as f64,
            _ => self.local.total_bytes()? as f64 / 1024.0,
        };
        let per_second = units / self.seconds;
        let demand = cpu.busy * 10_000.0 / per_second * f64::from(cpu.processors);
        demand.is_finite().then_some(demand)
    }
}

/// What repeated tests are to reach, `-i` and `-I`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetperfConfidence {
    /// Confidence level: 95 or 99.
    pub level_percent: u32,
    /// Width of the confidence interval, percent of the mean.
    pub width_percent: f64,
    /// Minimum and maximum number of tests.
    pub runs: [u32; 2],
    /// Processor time does not count.
    pub result_only: bool,
}

/// One end of a test's figures.
type OfEnd = fn(&NetperfFigures) -> &NetperfEnd;

/// One or several tests with the same options.
#[derive(Debug, Clone, PartialEq)]
pub struct NetperfSummary {
    /// Those of the last test.
    pub(super) last: NetperfFigures,
    pub(super) runs: usize,
    pub(super) seconds: f64,
    pub(super) throughput: f64,
    /// Processor time of the two ends, percent.
    pub(super) cpu: [Option<f64>; 2],
    /// Microseconds per KB, or per transaction.
    pub(super) service_demand: [Option<f64>; 2],
    /// Widths of the confidence intervals of the result and of the two processor times, percent of their means.
    pub(super) widths_percent: [Option<f64>; 3],
}

impl NetperfSummary {
    /// Of these tests; absent without any.
    #[must_use]
    pub fn of(options: &NetperfOptions, runs: &[NetperfFigures]) -> Option<Self> {
        let unit = options.unit();
        let level = options.confidence.map_or(0.99, |c| f64::from(c.level_percent) / 100.0);
        let sample = |value: &dyn Fn(&NetperfFigures) -> Option<f64>| {
            let values: Option<Vec<f64>> = runs.iter().map(value).collect();
            Sample::of(&values?)
        };
        let busy = |end: OfEnd| sample(&move |run| Some(end(run).cpu.as_ref()?.busy));
        let demand =
            |end: OfEnd| Some(sample(&move |run| run.service_demand(end(run), unit))?.mean);
        let width = |sample: Option<Sample>| {
            let sample = sample?;
            let half = sample.half_width(level)?;
            (sample.mean > 0.0).then(|| 200.0 * half / sample.mean)
        };
        let [local, remote]: [OfEnd; 2] = [|run| &run.local, |run| &run.remote];
        let throughput = sample(&|run| Some(run.throughput(unit)))?;
        let cpu = [busy(local), busy(remote)];
        Some(NetperfSummary {
            last: runs.last()?.clone(),
            runs: runs.len(),
            seconds: sample(&|run| Some(run.seconds))?.mean,
            throughput: throughput.mean,
            cpu: cpu.map(|sample| Some(sample?.mean)),
            service_demand: [demand(local), demand(remote)],
            widths_percent: [width(Some(throughput)), width(cpu[0]), width(cpu[1])],
        })
    }

    /// Whether the confidence is reached, or none was asked for. Processor time that was not measured does not count.
    #[must_use]
    pub fn is_confident(&self, options: &NetperfOptions) -> bool {
        let Some(wanted) = &options.confidence else { return true };
        let [result, local, remote] = self.widths_percent;
        let is_narrow = |width: f64| width <= wanted.width_percent;
        let is_met = |width: Option<f64>, measured: bool| !measured || width.is_some_and(is_narrow);
        result.is_some_and(is_narrow)
            && (wanted.result_only
                || is_met(local, self.cpu[0].is_some()) && is_met(remote, self.cpu[1].is_some()))
    }
}
