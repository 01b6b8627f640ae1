//! Figures of a running test for Prometheus, at `GET /metrics`: `weir test --prometheus`.
//!
//! Counters are sums of the reported intervals, omitted ones included. Gauges are those of the latest interval.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use weir_model::plan::FlowSpec;
use weir_model::record::{Interval, IntervalCount, IntervalFlow};

use crate::app::lock;
use crate::config::ApiError;
use crate::guard::right_host;
use crate::mesh::NativeHistogram;
use crate::serve::{self, Count, CountedConnection};
use crate::types::ServerLimits;

/// OpenMetrics text, version 1.0.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Maximum number of concurrent connections.
const CONNECTIONS: usize = 16;
/// Counted intervals of an end that are remembered: parts of an interval arrive a few intervals late at most.
const REMEMBERED: usize = 64;

/// Labels of a series: those of its flow.
pub(crate) type Labels = Vec<(String, String)>;
/// Reads a figure of one flow in one interval.
type Read<T> = fn(&IntervalFlow) -> Option<T>;

fn sent(flow: &IntervalFlow) -> Option<&IntervalCount> {
    flow.sender.as_ref()
}

fn received(flow: &IntervalFlow) -> Option<&IntervalCount> {
    flow.receiver.as_ref()
}

/// Counters: name, help, value.
const COUNTERS: &[(&str, &str, Read<u64>)] = &[
    ("weir_sent_bytes", "Payload sent", |f| Some(sent(f)?.bytes)),
    ("weir_received_bytes", "Payload received", |f| Some(received(f)?.bytes)),
    ("weir_sent_packets", "Datagrams or writes sent", |f| Some(sent(f)?.packets)),
    ("weir_received_packets", "Datagrams or reads received", |f| Some(received(f)?.packets)),
    ("weir_duplicate_packets", "Duplicates received", |f| received(f)?.duplicate_packets),
    ("weir_reordered_packets", "Packets out of order", |f| received(f)?.reordered_packets),
    ("weir_retransmits", "Segments retransmitted", |f| sent(f)?.retransmits),
    ("weir_transactions", "Transactions completed", |f| sent(f)?.transactions),
];

/// Gauges: name, help, value.
const GAUGES: &[(&str, &str, Read<f64>)] = &[
    ("weir_jitter_seconds", "Jitter (RFC 3550) at the end of the latest interval", |f| {
        received(f)?.jitter_seconds
    }),
    ("weir_one_way_delay_seconds", "Mean one-way delay of the latest interval", |f| {
        received(f)?.mean_delay_seconds
    }),
    ("weir_tcp_rtt_seconds", "Smoothed round trip at the end of the latest interval", |f| {
        sent(f)?.rtt_seconds
    }),
    ("weir_tcp_cwnd_bytes", "Congestion window at the end of the latest interval", |f| {
        Some(sent(f)?.cwnd_bytes? as f64)
    }),
];

/// Time that the figures of each end cover: name, help.
const COVERED: [(&str, &str); 2] = [
    ("weir_sent_reported_seconds", "Time that the sender's figures cover"),
    ("weir_received_reported_seconds", "Time that the receiver's figures cover"),
];

/// Known losses: name, help.
const LOST: (&str, &str) = ("weir_lost_packets", "Packets known to be lost");

/// The families of series.
#[derive(Debug)]
pub(crate) struct Figures {
    registry: Registry,
    counters: Vec<Family<Labels, Counter>>,
    gauges: Vec<Family<Labels, Gauge<f64, AtomicU64>>>,
    /// Known losses, which decrease when missing packets arrive after all.
    lost: Family<Labels, Gauge>,
    labels: Vec<(u32, Labels)>,
    /// Time that the figures of each end cover.
    covered: [Family<Labels, Counter<f64, AtomicU64>>; 2],
    /// Ends of the latest intervals counted of each flow's sender and receiver, ms.
    counted: HashMap<u32, [VecDeque<u64>; 2]>,
}

/// A value of a series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Real(f64),
    Histogram(NativeHistogram),
}

/// A series with its values by flow.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) help: &'a str,
    /// A sum since the start; otherwise the latest value.
    pub(crate) is_sum: bool,
    pub(crate) values: Vec<(&'a Labels, Number)>,
}

impl Figures {
    pub(crate) fn new() -> Figures {
        let mut registry = Registry::default();
        let counters = COUNTERS.iter().map(|(name, help, _)| {
            let family = Family::<Labels, Counter>::default();
            registry.register(*name, *help, family.clone());
            family
        });
        let counters = counters.collect();
        let gauges = GAUGES.iter().map(|(name, help, _)| {
            let family = Family::<Labels, Gauge<f64, AtomicU64>>::default();
            registry.register(*name, *help, family.clone());
            family
        });
        let gauges = gauges.collect();
        let covered = COVERED.map(|(name, help)| {
            let family = Family::<Labels, Counter<f64, AtomicU64>>::default();
            registry.register(name, help, family.clone());
            family
        });
        let lost = Family::<Labels, Gauge>::default();
        registry.register(LOST.0, LOST.1, lost.clone());
        Figures {
            registry,
            counters,
            gauges,
            lost,
            labels: vec![],
            covered,
            counted: HashMap::new(),
        }
    }

    /// The ends of a flow that were not counted yet in the interval that ends at `end_seconds`.
    fn fresh(&mut self, flow: &IntervalFlow, end_seconds: f64) -> IntervalFlow {
        let end_ms = (end_seconds * 1e3).round() as u64;
        let counted = self.counted.entry(flow.id).or_default();
        let mut fresh = IntervalFlow { id: flow.id, ..IntervalFlow::default() };
        let ends = [(&flow.sender, &mut fresh.sender), (&flow.receiver, &mut fresh.receiver)];
        for ((end, out), counted) in ends.into_iter().zip(counted) {
            if end.is_some() && !counted.contains(&end_ms) {
                if counted.len() == REMEMBERED {
                    counted.pop_front();
                }
                counted.push_back(end_ms);
                out.clone_from(end);
            }
        }
        fresh
    }

    /// The flows of the test, whose figures follow.
    pub(crate) fn set_flows(&mut self, specs: &[FlowSpec]) {
        let labels = |spec: &FlowSpec| {
            let connection = &spec.connection;
            let mut labels = vec![
                ("flow".into(), spec.id.to_string()),
                ("name".into(), spec.name.clone()),
                ("transport".into(), connection.transport.name().to_string()),
                ("direction".into(), connection.direction.to_string()),
            ];
            labels.extend(connection.host.clone().map(|host| ("host".into(), host)));
            (spec.id, labels)
        };
        self.labels = specs.iter().map(labels).collect();
    }

    /// Adds an interval, or the parts of it that arrived late.
    pub(crate) fn add(&mut self, interval: &Interval, is_late: bool) {
        let seconds = interval.end_seconds - interval.start_seconds;
        for flow in &interval.flows {
            let flow = &self.fresh(flow, interval.end_seconds);
            let Ok(at) = self.labels.binary_search_by_key(&flow.id, |(id, _)| *id) else {
                continue;
            };
            let labels = &self.labels[at].1;
            for (family, (_, _, value)) in self.counters.iter().zip(COUNTERS) {
                if let Some(value) = value(flow) {
                    family.get_or_create(labels).inc_by(value);
                }
            }
            for (family, (_, _, value)) in self.gauges.iter().zip(GAUGES) {
                if let Some(value) = value(flow) {
                    family.get_or_create(labels).set(value);
                }
            }
            for (family, end) in self.covered.iter().zip([&flow.sender, &flow.receiver]) {
                if end.is_some() && seconds > 0.0 {
                    family.get_or_create(labels).inc_by(seconds);
                }
            }
            if !is_late
                && let Some(receiver) = received(flow)
                && let Some(lost) = receiver.lost_packets
            {
                let earlier = receiver.earlier_lost_packets.unwrap_or(0);
                self.lost.get_or_create(labels).inc_by(earlier.saturating_add_unsigned(lost));
            }
        }
    }

    /// The series with the values that exist.
    pub(crate) fn series(&self) -> Vec<Series<'_>> {
        let series = |(name, help), is_sum, read: &dyn Fn(&Labels) -> Option<Number>| {
            let values = self.labels.iter().filter_map(|(_, l)| Some((l, read(l)?))).collect();
            Series { name, help, is_sum, values }
        };
        let mut all = vec![];
        for (family, (name, help, _)) in self.counters.iter().zip(COUNTERS) {
            let read = |l: &Labels| Some(Number::Integer(family.get(l)?.get().into()));
            all.push(series((name, help), true, &read));
        }
        for (family, (name, help)) in self.covered.iter().zip(COVERED) {
            all.push(series((name, help), true, &|l| Some(Number::Real(family.get(l)?.get()))));
        }
        for (family, (name, help, _)) in self.gauges.iter().zip(GAUGES) {
            all.push(series((name, help), false, &|l| Some(Number::Real(family.get(l)?.get()))));
        }
        let lost = |l: &Labels| Some(Number::Integer(self.lost.get(l)?.get().into()));
        all.push(series(LOST, false, &lost));
        all
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Makes an answer of what the client accepts (`Accept`): the media type and the body.
pub(crate) type Render = Arc<dyn Fn(&str) -> (&'static str, Vec<u8>) + Send + Sync>;
/// What a request is answered from: the figures, and accepted names in `Host`.
type Served = (Render, Arc<Vec<String>>);

/// A listener of `GET /metrics`, on a thread of its own. It closes when dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    /// Dropped with this; the thread then ends.
    _end: oneshot::Sender<()>,
}

impl Listener {
    /// Listens on `address`. `host_names`: names in `Host` that are accepted in addition to `localhost` and addresses.
    ///
    /// # Errors
    /// [`ApiError::Listen`].
    pub(crate) fn start(
        address: SocketAddr,
        host_names: Vec<String>,
        render: Render,
    ) -> Result<Listener, ApiError> {
        let failed = |source| ApiError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (end, ended) = oneshot::channel();
        let router = Router::new()
            .route("/metrics", get(metrics))
            .with_state((render, Arc::new(host_names)));
        let accept = move || {
            runtime.block_on(async move {
                // A failure can only be that of a closed runtime, which this is not.
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    _ = ended => {}
                    () = serve(listener, router) => {}
                }
            });
        };
        std::thread::Builder::new().name("exporter".into()).spawn(accept).map_err(failed)?;
        Ok(Listener { address: bound, _end: end })
    }

    /// The local address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A listener whose figures are updated by the test. It closes when dropped.
#[derive(Debug)]
pub struct Exporter {
    figures: Arc<Mutex<Figures>>,
    listener: Listener,
}

impl Exporter {
    /// Listens on `address` and serves on a thread of its own. `host_names`: names in `Host` that are accepted in addition
    /// to `localhost` and addresses.
    ///
    /// # Errors
    /// [`ApiError::Listen`].
    pub fn start(address: SocketAddr, host_names: Vec<String>) -> Result<Exporter, ApiError> {
        let figures = Arc::new(Mutex::new(Figures::new()));
        let own = figures.clone();
        let render = move |_: &str| (MEDIA_TYPE, lock(&own).text().into_bytes());
        let listener = Listener::start(address, host_names, Arc::new(render))?;
        Ok(Exporter { figures, listener })
    }

    /// The local address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The flows of the test, whose figures follow.
    pub fn flows(&self, specs: &[FlowSpec]) {
        lock(&self.figures).set_flows(specs);
    }

    /// Adds an interval.
    pub fn interval(&self, interval: &Interval) {
        lock(&self.figures).add(interval, false);
    }

    /// Adds the parts of an interval that arrived after it was reported. The losses in them are in the next interval's
    /// `earlier_lost_packets`.
    pub fn late(&self, interval: &Interval) {
        lock(&self.figures).add(interval, true);
    }
}

/// Serves with the limits of the API's listener.
async fn serve(listener: TcpListener, router: Router) {
    let limits = ServerLimits {
        connections: CONNECTIONS,
        connections_per_address: CONNECTIONS,
        ..ServerLimits::default()
    };
    let counts = Arc::new(Mutex::new(Count::default()));
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            // Probably out of file descriptors: wait before the next attempt.
            tokio::time::sleep(serve::RETRY).await;
            continue;
        };
        if let Some(counted) = CountedConnection::new(&counts, address.ip(), true, &limits) {
            tokio::spawn(serve::converse(stream, address, router.clone(), limits, counted));
        }
    }
}

async fn metrics(State((render, names)): State<Served>, headers: HeaderMap, uri: Uri) -> Response {
    if let Err(problem) = right_host(&headers, &uri, &names) {
        return problem.into_response();
    }
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let (media_type, body) = render(accepted.unwrap_or_default());
    ([(header::CONTENT_TYPE, media_type)], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use weir_model::plan::{Connection, Family as IpFamily, Plan};

    fn specs() -> Vec<FlowSpec> {
        let plan = Plan { connections: vec![Connection::default()], ..Plan::default() };
        plan.flows(IpFamily::Ipv4, 1500)
    }

    fn interval(end_seconds: f64, lost: u64, earlier: i64) -> Interval {
        let count = IntervalCount {
            bytes: 1000,
            packets: 10,
            lost_packets: Some(lost),
            earlier_lost_packets: Some(earlier),
            jitter_seconds: Some(0.25),
            ..IntervalCount::default()
        };
        let flow = IntervalFlow { id: 1, receiver: Some(count), sender: None };
        let start_seconds = end_seconds - 1.0;
        Interval { start_seconds, end_seconds, flows: vec![flow], ..Interval::default() }
    }

    fn asked(exporter: &Exporter, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(exporter.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn sums_and_latest_figures_are_served_by_flow() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap(), vec![]).unwrap();
        exporter.flows(&specs());
        exporter.interval(&interval(1.0, 5, 0));
        exporter.interval(&interval(3.0, 1, -4));
        // Its losses were in the interval above, and it is added once.
        exporter.late(&interval(2.0, 7, 0));
        exporter.late(&interval(2.0, 7, 0));
        let text = asked(
            &exporter,
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        );
        let labels = r#"flow="1",name="tcp-forward",transport="tcp",direction="forward""#;
        for line in [
            format!("weir_received_bytes_total{{{labels}}} 3000"),
            format!("weir_received_packets_total{{{labels}}} 30"),
            format!("weir_lost_packets{{{labels}}} 2"),
            format!("weir_received_reported_seconds_total{{{labels}}} 3.0"),
            format!("weir_jitter_seconds{{{labels}}} 0.25"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("weir_sent_bytes_total{"), "not measured: {text}");
        assert!(text.contains("application/openmetrics-text"), "{text}");
    }

    #[test]
    fn transactions_are_summed_where_there_are_any() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap(), vec![]).unwrap();
        exporter.flows(&specs());
        let text = || {
            let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            asked(&exporter, request)
        };
        for (end, transactions) in [(1.0, None), (2.0, Some(20)), (3.0, Some(22))] {
            let mut interval = interval(end, 0, 0);
            interval.flows[0].sender =
                Some(IntervalCount { transactions, ..IntervalCount::default() });
            exporter.interval(&interval);
            let is_served = text().contains("weir_transactions_total{");
            assert_eq!(is_served, transactions.is_some(), "{end}");
        }
        let line =
            text().lines().find(|l| l.starts_with("weir_transactions_total{")).map(str::to_owned);
        assert!(line.is_some_and(|line| line.ends_with(" 42")));
    }

    #[test]
    fn a_page_that_rebinds_its_name_reads_nothing() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap(), vec![]).unwrap();
        let of = |host: &str| {
            let request =
                format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            asked(&exporter, &request).lines().next().unwrap_or_default().to_owned()
        };
        assert!(of("evil.example").contains(" 421 "), "{}", of("evil.example"));
        assert!(of("127.0.0.1").contains(" 200 "));
    }
}
