//! The ends of a session's flows together. Streams have one end; each flow of datagrams that arrives has its own.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use weir_flow::IntervalClock;
use weir_model::report::EndReport;
use weir_traffic::session::{End, FlowEvent};

/// The ends of a session.
pub(super) struct Ends {
    all: Vec<Arc<End>>,
    events: (UnboundedSender<FlowEvent>, UnboundedReceiver<FlowEvent>),
    /// Tasks that wait for the events of ends.
    watching: JoinSet<()>,
}

impl Ends {
    pub(super) fn new() -> Ends {
        Ends { all: vec![], events: mpsc::unbounded_channel(), watching: JoinSet::new() }
    }

    pub(super) fn add(&mut self, end: Arc<End>) {
        let (events, own) = (self.events.0.clone(), end.clone());
        self.watching.spawn(async move { while events.send(own.event().await).is_ok() {} });
        self.all.push(end);
    }

    /// The next event of any flow.
    pub(super) async fn event(&mut self) -> FlowEvent {
        // This end holds a sender of its own, so that the channel is open.
        match self.events.1.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    pub(super) fn first(&self) -> Option<&Arc<End>> {
        self.all.first()
    }

    pub(super) fn stop(&self) {
        self.all.iter().for_each(|end| end.stop());
    }

    pub(super) fn drain(&self, quiet_ns: u64) {
        self.all.iter().for_each(|end| end.drain(quiet_ns));
    }

    pub(super) fn last_arrival_ns(&self) -> u64 {
        self.all.iter().map(|end| end.last_arrival_ns()).max().unwrap_or(0)
    }

    pub(super) fn unacknowledged_bytes(&self) -> u64 {
        self.all.iter().map(|end| end.unacknowledged_bytes()).sum()
    }

    /// Bytes that all receivers got in an interval; datagrams; lost ones, if all know them.
    pub(super) fn received(
        &self,
        intervals: &IntervalClock,
        index: usize,
    ) -> (u64, u64, Option<u64>) {
        let flows = self.all.iter().flat_map(|end| end.interval(intervals, index).flows);
        let counts = flows.filter_map(|flow| flow.receiver);
        counts.fold((0, 0, Some(0)), |(bytes, packets, lost), count| {
            let lost: Option<u64> = lost.zip(count.lost_packets).map(|(a, b)| a + b);
            (bytes.saturating_add(count.bytes), packets + count.packets, lost)
        })
    }

    /// Removes the flows from the workers and returns their reports as one. Sockets close with this.
    pub(super) fn finish(mut self) -> EndReport {
        let mut report = EndReport::default();
        for end in &self.all {
            let mut own = end.finish();
            report.host = report.host.or(own.host);
            report.cpu = report.cpu.or(own.cpu);
            report.warnings.append(&mut own.warnings);
            report.flows.append(&mut own.flows);
        }
        self.watching.abort_all();
        self.all.clear();
        report
    }
}
