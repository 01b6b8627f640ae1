//! Figures of a watch for Prometheus, at `GET /metrics`, and for an OpenTelemetry collector: `weir fleet watch --prometheus` and
//! `--otlp`.
//!
//! Round trips are a native histogram, which Prometheus reads in the Protocol Buffers format. A client that accepts text only gets
//! the same as a classic histogram, with a bucket for each power of two.

mod histogram;
mod protobuf;
mod text;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use weir_model::watch::{AgentState, BurstLine, PairFigures};

use crate::app::lock;
use crate::config::ApiError;
use crate::exporter::{Labels, Listener, Number, Series};
use crate::otlp::{Exports, OtlpReport, OtlpUrl, request};
pub(crate) use histogram::{NativeHistogram, SCHEMA};

/// The kind of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The series of one name.
#[derive(Debug, Clone)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    series: Vec<(Labels, Number)>,
}

/// What is known of a pair.
#[derive(Debug, Clone, Default)]
struct PairState {
    sent: u64,
    received: u64,
    lost: u64,
    /// Counts of the far agent, where it has stated them.
    arrived: Option<u64>,
    round_trips: NativeHistogram,
    /// The latest second.
    latest: PairFigures,
    at_unix_seconds: f64,
}

#[derive(Debug, Default)]
struct State {
    mesh: String,
    agents: BTreeMap<String, bool>,
    pairs: BTreeMap<(String, String), PairState>,
    /// Rate and time of the latest burst of each direction.
    bursts: BTreeMap<(String, String, String), (f64, f64)>,
}

/// The figures of a watch, with a listener and an export where these were started. Both end when this is dropped.
#[derive(Debug)]
pub struct MeshMetrics {
    state: Arc<Mutex<State>>,
    listener: Option<Listener>,
    exports: Option<Exports>,
}

impl MeshMetrics {
    /// Without figures.
    #[must_use]
    pub fn new(mesh: &str) -> MeshMetrics {
        let state = Arc::new(Mutex::new(State { mesh: mesh.to_owned(), ..State::default() }));
        MeshMetrics { state, listener: None, exports: None }
    }

    /// Listens on `address` and serves on a thread of its own. `host_names`: names in `Host` that are accepted in addition to
    /// `localhost` and addresses. Returns the local address.
    ///
    /// # Errors
    /// [`ApiError::Listen`].
    pub fn serve(
        &mut self,
        address: SocketAddr,
        host_names: Vec<String>,
    ) -> Result<SocketAddr, ApiError> {
        let own = self.state.clone();
        let render = move |accepted: &str| {
            let families = lock(&own).families();
            match accepted.contains(protobuf::ACCEPTED) {
                true => (protobuf::MEDIA_TYPE, protobuf::encode(&families)),
                false => (text::MEDIA_TYPE, text::encode(&families).into_bytes()),
            }
        };
        let listener = Listener::start(address, host_names, Arc::new(render))?;
        let bound = listener.address();
        self.listener = Some(listener);
        Ok(bound)
    }

    /// Sends the figures to a collector, on a thread of its own. `attributes` describe the resource, in addition to the service's
    /// name.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn push(&mut self, url: OtlpUrl, attributes: Vec<(String, String)>) -> std::io::Result<()> {
        let own = self.state.clone();
        let body = move |times| {
            let families = lock(&own).families();
            let series: Vec<Series<'_>> = families.iter().map(Family::series).collect();
            request(&series, &attributes, times)
        };
        self.exports = Some(Exports::start(url, body)?);
        Ok(())
    }

    /// Exports the figures so far.
    pub fn export(&self) {
        self.exports.iter().for_each(Exports::wake);
    }

    /// Exports the last figures and waits for that, until `gives_up`; `None` without an export.
    #[must_use]
    pub fn finish(self, gives_up: &dyn Fn() -> bool) -> Option<OtlpReport> {
        self.exports.map(|exports| exports.finish(gives_up))
    }

    /// The state of an agent.
    pub fn agent(&self, agent: &str, state: AgentState) {
        lock(&self.state).agents.insert(agent.into(), state == AgentState::Connected);
    }

    /// Adds a second of a pair. `cells`: its round trips, ns, with their counts.
    pub fn second(
        &self,
        (from, to): (&str, &str),
        at_unix_seconds: f64,
        figures: &PairFigures,
        cells: impl Iterator<Item = (u64, u64)>,
    ) {
        let mut state = lock(&self.state);
        let pair = state.pairs.entry((from.into(), to.into())).or_default();
        pair.sent += figures.sent_packets;
        pair.received += figures.received_packets;
        pair.lost += figures.lost_packets;
        if let Some(arrived) = figures.arrived_packets {
            *pair.arrived.get_or_insert(0) += arrived;
        }
        for (ns, count) in cells {
            pair.round_trips.record(ns as f64 / 1e9, count);
        }
        let trips = figures.round_trip.as_ref();
        pair.round_trips.sum += trips.map_or(0.0, |delay| delay.mean_seconds * delay.count as f64);
        pair.latest = figures.clone();
        pair.at_unix_seconds = at_unix_seconds;
    }

    /// The result of a burst.
    pub fn burst(&self, burst: &BurstLine) {
        if let Some(rate) = burst.bits_per_second {
            let names = (burst.from.clone(), burst.to.clone(), burst.transport.clone());
            lock(&self.state).bursts.insert(names, (rate, burst.at_unix_seconds));
        }
    }
}

impl Family {
    /// The same for a collector, where the kind says what is a sum, and not the name.
    fn series(&self) -> Series<'_> {
        Series {
            name: self.name.strip_suffix("_total").unwrap_or(self.name),
            help: self.help,
            is_sum: self.kind == Kind::Counter,
            values: self.series.iter().map(|(labels, value)| (labels, value.clone())).collect(),
        }
    }
}

/// Labels, by their names.
fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
    labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

impl State {
    /// A family of the pairs that have a value.
    fn of_pairs(
        &self,
        (name, help, kind): (&'static str, &'static str, Kind),
        value: impl Fn(&PairState) -> Option<Number>,
    ) -> Family {
        let series = self.pairs.iter().filter_map(|((from, to), pair)| {
            let labels = labels([("mesh", &self.mesh), ("from", from), ("to", to)]);
            Some((labels, value(pair)?))
        });
        Family { name, help, kind, series: series.collect() }
    }

    fn families(&self) -> Vec<Family> {
        use Kind::{Counter, Gauge, Histogram};
        let number = |value: Option<f64>| value.map(Number::Real);
        let count = |value: Option<u64>| value.map(|count| Number::Real(count as f64));
        let agents = self.agents.iter().map(|(agent, is_here)| {
            let labels = labels([("mesh", &self.mesh), ("agent", agent)]);
            (labels, Number::Real(f64::from(u8::from(*is_here))))
        });
        let burst = |read: fn(&(f64, f64)) -> f64| {
            let series = self.bursts.iter().map(|((from, to, transport), burst)| {
                let labels = labels([
                    ("mesh", &self.mesh),
                    ("from", from),
                    ("to", to),
                    ("transport", transport),
                ]);
                (labels, Number::Real(read(burst)))
            });
            series.collect::<Vec<_>>()
        };
        vec![
            Family {
                name: "weir_mesh_agent_connected",
                help: "1: the agent can be measured, 0: it is gone or can't be measured",
                kind: Gauge,
                series: agents.collect(),
            },
            self.of_pairs(("weir_mesh_sent_packets_total", "Probes sent", Counter), |pair| {
                count(Some(pair.sent))
            }),
            self.of_pairs(
                ("weir_mesh_received_packets_total", "Probes that came back", Counter),
                |pair| count(Some(pair.received)),
            ),
            self.of_pairs(
                ("weir_mesh_lost_packets_total", "Probes that did not come back", Counter),
                |pair| count(Some(pair.lost)),
            ),
            self.of_pairs(
                (
                    "weir_mesh_arrived_packets_total",
                    "Probes that arrived at the far agent, by its own count",
                    Counter,
                ),
                |pair| count(pair.arrived),
            ),
            self.of_pairs(("weir_mesh_round_trip_seconds", "Round trips", Histogram), |pair| {
                Some(Number::Histogram(pair.round_trips.clone()))
            }),
            self.of_pairs(
                (
                    "weir_mesh_forward_delay_seconds",
                    "Mean one-way delay from one agent to the other in the latest second",
                    Gauge,
                ),
                |pair| number(pair.latest.forward_delay_seconds),
            ),
            self.of_pairs(
                (
                    "weir_mesh_return_delay_seconds",
                    "Mean delay of the way back in the latest second",
                    Gauge,
                ),
                |pair| number(pair.latest.return_delay_seconds),
            ),
            self.of_pairs(
                (
                    "weir_mesh_one_way_error_seconds",
                    "Bound of the error of one-way delays in the latest second",
                    Gauge,
                ),
                |pair| number(pair.latest.one_way_error_seconds),
            ),
            self.of_pairs(
                (
                    "weir_mesh_latest_timestamp_seconds",
                    "Start of the latest second, since 1970",
                    Gauge,
                ),
                |pair| number(Some(pair.at_unix_seconds)),
            ),
            Family {
                name: "weir_mesh_burst_bits_per_second",
                help: "Payload rate of the latest throughput burst",
                kind: Gauge,
                series: burst(|(rate, _)| *rate),
            },
            Family {
                name: "weir_mesh_burst_timestamp_seconds",
                help: "Time of the latest throughput burst, since 1970",
                kind: Gauge,
                series: burst(|(_, at)| *at),
            },
        ]
    }
}

#[cfg(test)]
mod tests;
