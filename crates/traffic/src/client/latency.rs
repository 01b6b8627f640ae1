//! Round trips measured alongside a test: idle before it, loaded during it. The same probes relate the clocks.
//!
//! A separate thread sends probes from its own socket. Kernel receive stamps at both ends exclude the time that a
//! probe waits in a busy host's socket.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use weir_flow::budget::StatedRate;
use weir_model::plan::Plan;
use weir_model::record::{ClockRelation, Latency};
use weir_net::clock::{Clock, set_timer_slack};
use weir_net::poll::{Events, Interest, Poller};
use weir_net::udp::{RecvBatch, RecvMode, UdpOptions, UdpSocket};
use weir_stats::{ClockEstimator, ClockReading, ClockStep, DelaySummary, Probe, RealtimeMap};
use weir_wire::control::ClockState;
use weir_wire::datagram::{ControlDatagram, DatagramKey, DatagramKind, LEN};

use super::connect::bind_address;
use super::setup::say_hello;
use crate::channel::Meter;
use crate::engine::lock;
use crate::flows::SessionFacts;

/// Interval of probes before the test.
const IDLE_NS: u64 = 4_000_000;
/// Interval of probes during the test, unless that is too much of a low stated rate.
const LOADED_NS: u64 = 100_000_000;
/// Answered probes that make the idle figure.
pub(super) const IDLE_PROBES: u64 = 24;
/// UDP and IP headers, for the count of control bytes.
const HEADERS: usize = 28;

const IDLE: u8 = 0;
const LOADED: u8 = 1;
/// No flow sends: probes still relate the clocks, and count in neither figure.
const WAITING: u8 = 2;
const ENDED: u8 = 3;

#[derive(Default)]
struct State {
    estimator: Option<ClockEstimator>,
    idle: DelaySummary,
    loaded: DelaySummary,
    sent: u64,
    answered: u64,
    steps: Vec<ClockStep>,
}

/// Running probes.
pub(super) struct Probes {
    state: Arc<Mutex<State>>,
    phase: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

impl Probes {
    /// Starts probing; `None` if the hello is not answered within `patience_ns` (UDP is blocked) or no socket is
    /// available.
    pub(super) fn start(
        plan: &Plan,
        stated: StatedRate,
        facts: SessionFacts,
        server: SocketAddr,
        clock: Clock,
        meter: Meter,
        patience_ns: u64,
    ) -> Option<Probes> {
        let key = DatagramKey::for_session(&facts.key);
        let any = UdpOptions::connect(server).bind;
        let options = UdpOptions {
            connect: Some(server),
            timestamps: true,
            nonblocking: true,
            device: plan.device.clone(),
            ..UdpOptions::bind(bind_address(plan, server, 0, 0).unwrap_or(any))
        };
        let socket = UdpSocket::open(&options).ok()?;
        let hello = |flow| ControlDatagram {
            kind: DatagramKind::Hello,
            flow,
            session: facts.session,
            sequence: 0,
            t1_ns: 0,
            t2_ns: 0,
            t3_ns: 0,
        };
        if say_hello(&[&socket], &[0], &key, hello, &clock, patience_ns).ok()?.is_some() {
            return None;
        }
        let state = Arc::new(Mutex::new(State {
            estimator: Some(ClockEstimator::new()),
            ..State::default()
        }));
        let phase = Arc::new(AtomicU8::new(IDLE));
        let loaded_ns = stated.probe_ns(2 * (LEN + HEADERS), LOADED_NS);
        let thread = {
            let (state, phase) = (state.clone(), phase.clone());
            std::thread::Builder::new()
                .name("weir-probes".into())
                .spawn(move || {
                    let _ = set_timer_slack(1);
                    probe(&socket, &facts, &key, &clock, &meter, &state, &phase, loaded_ns);
                })
                .ok()?
        };
        Some(Probes { state, phase, thread: Some(thread) })
    }

    /// How many probes have been answered.
    pub(super) fn answered(&self) -> u64 {
        lock(&self.state).answered
    }

    /// Sets whether flows send from now on and load the path; completes the idle figure.
    pub(super) fn set_loaded(&self, is_loaded: bool) {
        self.phase.store(if is_loaded { LOADED } else { WAITING }, Ordering::Relaxed);
    }

    /// The clocks' relation as now known, with a bound that holds from now until `until_ns`.
    pub(super) fn clock_state(&self, now_ns: u64, until_ns: u64) -> Option<ClockState> {
        let fit = lock(&self.state).estimator.as_ref()?.fit()?;
        Some(ClockState {
            offset_ns: fit.offset_at(now_ns),
            skew_ppb: (fit.skew_ppm * 1000.0).round() as i64,
            reference_ns: now_ns,
            error_ns: fit.error_at(now_ns).max(fit.error_at(until_ns)),
        })
    }

    /// The relation for the record.
    pub(super) fn clock_relation(
        &self,
        start_ns: u64,
        worst_error_ns: u64,
    ) -> Option<ClockRelation> {
        let fit = lock(&self.state).estimator.as_ref()?.fit()?;
        Some(ClockRelation {
            method: "ntp".into(),
            source: Some("probes".into()),
            offset_seconds: fit.offset_at(start_ns) as f64 / 1e9,
            skew_ratio: fit.skew_ppm / 1e6,
            error_seconds: fit.error_at(start_ns).max(worst_error_ns) as f64 / 1e9,
            samples: fit.samples as u64,
            min_round_trip_seconds: Some(fit.min_rtt_ns as f64 / 1e9),
        })
    }

    /// Stops probing and returns the figures and any steps of the peer's clock.
    pub(super) fn finish(mut self) -> (Latency, Vec<ClockStep>) {
        self.end();
        let state = lock(&self.state);
        let loaded = weir_flow::delay_record(&state.loaded, None);
        let latency = Latency {
            method: "udp".into(),
            idle: weir_flow::delay_record(&state.idle, None),
            responsiveness_per_minute: loaded
                .as_ref()
                .filter(|l| l.mean_seconds > 0.0)
                .map(|l| 60.0 / l.mean_seconds),
            loaded,
            sent: state.sent,
            lost: state.sent.saturating_sub(state.answered),
        };
        (latency, state.steps.clone())
    }

    fn end(&mut self) {
        self.phase.store(ENDED, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.end();
    }
}

#[allow(clippy::too_many_arguments)]
fn probe(
    socket: &UdpSocket,
    facts: &SessionFacts,
    key: &DatagramKey,
    clock: &Clock,
    meter: &Meter,
    state: &Mutex<State>,
    phase: &AtomicU8,
    loaded_ns: u64,
) {
    let Ok(poller) = Poller::new() else { return };
    if poller.add(socket, 1, Interest::READ).is_err() {
        return;
    }
    let mut events = Events::new(4);
    let mut batch = RecvBatch::new(16, 256);
    let mut next = clock.monotonic_ns();
    let mut sequence = 0u64;
    let mut map: Option<RealtimeMap> = None;
    let mut refit = 0;
    // Unanswered probes: sequence, send time, phase. Bounded: older ones stay unanswered.
    let mut pending: std::collections::VecDeque<(u64, u64, u8)> = std::collections::VecDeque::new();
    let mut ending: Option<u64> = None;
    loop {
        let now = clock.monotonic_ns();
        let current = phase.load(Ordering::Relaxed);
        if current == ENDED {
            // Answers in flight count if they arrive within 100 ms.
            let end = *ending.get_or_insert(now + 100_000_000);
            if now >= end || pending.is_empty() {
                return;
            }
        }
        if now >= refit {
            refit = now + 1_000_000_000;
            let b = clock.bracket();
            let r = ClockReading {
                monotonic_before_ns: b.before_ns,
                realtime_ns: b.realtime_ns,
                monotonic_after_ns: b.after_ns,
            };
            match &mut map {
                Some(m) => drop(m.refit(r)),
                None => map = RealtimeMap::new(r).ok(),
            }
        }
        if now >= next && current != ENDED {
            sequence += 1;
            // Spread by a few percent, so that probes don't beat with a periodic load.
            let distance = if current == IDLE { IDLE_NS } else { loaded_ns };
            next = now + distance + (sequence * 7919 % 100) * distance / 1000;
            let t1_ns = clock.monotonic_ns();
            let d = ControlDatagram {
                kind: DatagramKind::Probe,
                flow: 0,
                session: facts.session,
                sequence,
                t1_ns,
                t2_ns: 0,
                t3_ns: 0,
            };
            if socket.send(&d.encode(key)).is_ok() {
                meter.add(LEN + HEADERS);
                lock(state).sent += 1;
                pending.push_back((sequence, t1_ns, current));
                if pending.len() > 1024 {
                    pending.pop_front();
                }
            }
        }
        let wait = if current == ENDED {
            5_000_000
        } else {
            next.saturating_sub(clock.monotonic_ns()).min(50_000_000)
        };
        let _ = poller.wait(&mut events, Some(wait));
        while batch.recv(socket, RecvMode::DontWait).is_ok() {
            let now = clock.monotonic_ns();
            for message in batch.messages() {
                let Ok(reply) = ControlDatagram::decode(message.data, key) else { continue };
                if reply.kind != DatagramKind::ProbeReply {
                    continue;
                }
                let Some(at) =
                    pending.iter().position(|p| p.0 == reply.sequence && p.1 == reply.t1_ns)
                else {
                    continue;
                };
                let Some((_, t1, sent_in)) = pending.remove(at) else { continue };
                let t4 = match (message.kernel_realtime_ns, &map) {
                    (Some(stamp), Some(map)) => {
                        map.to_monotonic(clock.kernel_stamp_ns(stamp)).clamp(t1, now)
                    }
                    _ => now,
                };
                meter.add(LEN + HEADERS);
                let turnaround = reply.t3_ns.saturating_sub(reply.t2_ns);
                let mut state = lock(state);
                state.answered += 1;
                // A turnaround longer than the round trip: the peer's stamps straddle a step of its clock.
                if let Some(round_trip) = (t4 - t1).checked_sub(turnaround) {
                    match sent_in {
                        IDLE => state.idle.record(round_trip as i64),
                        LOADED => state.loaded.record(round_trip as i64),
                        _ => {}
                    }
                }
                let probe = Probe { t1_ns: t1, t2_ns: reply.t2_ns, t3_ns: reply.t3_ns, t4_ns: t4 };
                // A probe that contradicts itself (a hostile or broken peer) says nothing about the clocks.
                if let Some(Ok(Some(step))) = state.estimator.as_mut().map(|e| e.on_probe(probe)) {
                    state.steps.push(step);
                }
            }
        }
    }
}
