//! Datagrams that a client sends: the first and the last one, and the server's report.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use weir_flow::Supply;
use weir_model::plan::{FlowSpec, HeaderFormat};
use weir_model::record::Receiver;
use weir_model::report::{EndReport, FlowReport};
use weir_net::thread::lock;
use weir_traffic::TrafficError;
use weir_traffic::session::{DatagramSocket, End, Signal, Signals};

use super::codec::{HEADER_BYTES, NUMBER_BYTES, Report, Width};
use crate::ending::Over;

/// Pause between two requests for the data or the report of a server.
pub(super) const AGAIN: Duration = Duration::from_millis(20);
/// How long a server is asked to send datagrams, and to report those that it received.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// The report of the server among what arrives at a sender of datagrams.
struct Reported(Arc<Mutex<Option<Report>>>);

impl Signals for Reported {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        if let Some(report) = Report::parse(bytes) {
            lock(&self.0).get_or_insert(report);
        }
        Signal::Message
    }
}

/// A flow of datagrams that this end sends.
pub(super) struct Sender {
    pub(super) spec: FlowSpec,
    /// The datagram that announces the end; without its number and time until then.
    last: Mutex<Vec<u8>>,
    is_announced: AtomicBool,
    /// The datagrams of isochronous frames.
    supply: Option<Arc<Supply>>,
    /// The server sends a report of them.
    wants_report: bool,
    report: Arc<Mutex<Option<Report>>>,
}

impl Sender {
    /// `last`: a datagram of the flow, without number and time.
    pub(super) fn new(spec: &FlowSpec, last: Vec<u8>, wants_report: bool) -> Self {
        Sender {
            spec: spec.clone(),
            last: Mutex::new(last),
            is_announced: AtomicBool::new(false),
            supply: None,
            wants_report,
            report: Arc::default(),
        }
    }

    /// The same of a flow with recorded datagrams.
    pub(super) fn with_supply(self, supply: Option<Arc<Supply>>) -> Self {
        Sender { supply, ..self }
    }

    /// Gives a datagram what the recorded one of this sequence has after the header.
    fn follow(&self, datagram: &mut Vec<u8>, sequence: u64) {
        let from = NUMBER_BYTES + HEADER_BYTES;
        let recorded = self.supply.as_ref().and_then(|supply| supply.recorded(sequence));
        if let Some(rest) = recorded.and_then(|recorded| recorded.get(from..)) {
            datagram.resize(from, 0);
            datagram.extend_from_slice(rest);
        }
    }

    /// Recognizes the report among what arrives at the flow's socket.
    pub(super) fn signals(&self) -> Box<dyn Signals> {
        Box::new(Reported(self.report.clone()))
    }

    fn width(&self) -> Width {
        let is_wide = self.spec.connection.header == HeaderFormat::Iperf2;
        if is_wide { Width::Wide } else { Width::Narrow }
    }

    /// Sends the first datagram.
    pub(super) fn begin(&self, end: &End) {
        let mut first = lock(&self.last);
        self.follow(&mut first, 0);
        number(&mut first, self.width(), 1);
        self.send(end, &first);
    }

    fn send(&self, end: &End, datagram: &[u8]) {
        if end.send_message(self.spec.id, datagram).is_ok() {
            end.sent_by_protocol(self.spec.id, 1, datagram.len() as u64);
        }
    }

    /// Sends the datagram that announces the end, after `packets` of data. It is data as well: the server counts it.
    pub(super) fn announce(&self, end: &End, packets: u64) {
        let mut last = lock(&self.last);
        self.follow(&mut last, packets);
        let packets = i64::try_from(packets).unwrap_or(i64::MAX);
        number(&mut last, self.width(), packets.saturating_add(1));
        self.width().negate(&mut last);
        self.send(end, &last);
        self.is_announced.store(true, Ordering::Relaxed);
    }

    /// Sends it again: it may have been lost, or the report.
    fn repeat(&self, end: &End) {
        if self.is_announced.load(Ordering::Relaxed) {
            let _ = end.send_message(self.spec.id, &lock(&self.last));
        }
    }

    fn is_awaited(&self) -> bool {
        self.wants_report && lock(&self.report).is_none()
    }
}

/// Writes the number of a datagram, and the time by this host's realtime clock.
pub(super) fn number(datagram: &mut [u8], width: Width, number: i64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let words = [number as u32, now.as_secs() as u32, now.subsec_micros(), (number >> 32) as u32];
    let words = if width == Width::Wide { &words[..] } else { &words[..3] };
    for (bytes, word) in datagram.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
}

/// Asks for the reports of the server until they have arrived. Without a single one, it is not there.
pub(super) async fn reported(end: &End, senders: &[Sender], peer: SocketAddr) -> Over {
    let asked = Instant::now();
    while senders.iter().any(Sender::is_awaited) && asked.elapsed() < PATIENCE {
        tokio::time::sleep(AGAIN).await;
        let awaited = senders.iter().filter(|sender| sender.is_awaited());
        awaited.for_each(|sender| sender.repeat(end));
    }
    if senders.is_empty() || !senders.iter().all(Sender::is_awaited) {
        return Over::Complete;
    }
    Over::Failed(TrafficError::Lost {
        address: peer.into(),
        during: "the end of the test",
        reason: format!("no report from UDP port {}", peer.port()),
    })
}

/// The reports of the server as the report of the far end.
pub(super) fn far(senders: &[Sender]) -> Option<EndReport> {
    let flow = |sender: &Sender| {
        let report = (*lock(&sender.report))?;
        Some(FlowReport {
            id: sender.spec.id,
            receiver: Some(receiver(&report)),
            ..FlowReport::default()
        })
    };
    let flows: Vec<FlowReport> = senders.iter().filter_map(flow).collect();
    (!flows.is_empty()).then(|| EndReport { flows, ..EndReport::default() })
}

fn receiver(report: &Report) -> Receiver {
    let seconds = report.time_us as f64 / 1e6;
    let per_second = |amount: u64| (seconds > 0.0).then(|| amount as f64 / seconds);
    let packets = report.datagrams.saturating_sub(report.lost);
    Receiver {
        bytes: report.bytes,
        packets,
        seconds,
        bits_per_second: per_second(report.bytes.saturating_mul(8)),
        packets_per_second: per_second(packets),
        lost_packets: Some(report.lost),
        loss_ratio: (report.datagrams > 0).then(|| report.lost as f64 / report.datagrams as f64),
        reordered_packets: Some(report.out_of_order),
        jitter_seconds: Some(report.jitter_us as f64 / 1e6),
        ..Receiver::default()
    }
}
