//! The transmitter.

use std::time::Duration;

use weir_flow::IntervalClock;
use weir_model::plan::Plan;
use weir_model::record::{Record, Status};
use weir_net::udp::SendFault;
use weir_traffic::session::{self, End, FlowEvent, WorkerConfig, Workers};
use weir_traffic::{Failure, Stop, StopReason, TrafficError};

use super::{Ended, Settings, codec, record, text};
use crate::ending::stopped;
use crate::{Event, Test, family};

/// Limit for a connection to be established.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait for the reason when a flow ended before it sent everything.
const REASON: Duration = Duration::from_millis(100);
/// Attempts to send a marker while the socket's queue is full, and the pause between them.
const MARKER_TRIES: (u32, Duration) = (1000, Duration::from_millis(1));
/// The one flow.
pub(super) const FLOW: u32 = 1;

/// A test that transmits.
pub(super) struct Sender(pub(super) Settings);

impl Test for Sender {
    fn plan(&self) -> &Plan {
        &self.0.plan
    }

    fn run(
        self: Box<Self>,
        workers: &WorkerConfig,
        stop: &Stop,
        observe: &mut dyn FnMut(Event),
    ) -> Result<Record, Failure> {
        crate::runtime()?.block_on(transmit(&self.0, workers, stop, observe))
    }
}

async fn transmit(
    settings: &Settings,
    workers: &WorkerConfig,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    observe(Event::Line(text::settings(settings)));
    let mut say = |what: &str| observe(Event::Line(format!("{}: {what}", text::tag(true))));
    let plan = &settings.plan;
    let workers = Workers::start(workers)?;
    let opened = async {
        let host = settings.host.as_deref().unwrap_or_default();
        let mut failure = None;
        for peer in session::resolve(host, plan).await? {
            let spec = plan.flows(family(peer), u32::MAX).swap_remove(0);
            let mut end = End::new(&workers, plan, false).with_host(peer.ip(), None);
            let opened = if settings.udp {
                session::open_datagrams(plan, &spec, true, None, Some(peer)).and_then(|socket| {
                    super::set_debug(settings, &socket)?;
                    end.datagrams(&spec, true, socket, None);
                    Ok(())
                })
            } else {
                let connecting =
                    session::connect_stream(plan, &spec, true, peer, CONNECT_TIMEOUT).await;
                connecting.and_then(|stream| {
                    super::set_debug(settings, &stream)?;
                    end.stream(&spec, true, stream)
                })
            };
            match opened {
                Ok(()) => return Ok((end, spec, peer)),
                Err(e) => failure = Some(e),
            }
        }
        let reason = "no address".into();
        Err(failure.unwrap_or(TrafficError::Resolve { host: host.into(), reason }))
    };
    say("socket");
    let (end, spec, peer) = tokio::select! {
        opened = opened => opened?,
        reason = stop.asked(1) => return Err(stopped(reason).into()),
    };
    if settings.udp {
        send_marker(&end).await;
    } else {
        say("connect");
    }
    let intervals =
        IntervalClock { start_ns: workers.now_ns(), interval_ns: plan.interval.0, omit_ns: 0 };
    end.start(intervals);
    let (ended, error) = send(settings, &end, stop).await;
    if settings.udp {
        for _ in 0..codec::END_MARKERS {
            send_marker(&end).await;
        }
    }
    let record = record(plan.clone(), spec, peer, end.finish(), intervals, ended);
    text::figures(settings, &record).into_iter().for_each(|line| observe(Event::Line(line)));
    match error {
        None => Ok(record),
        Some(error) => Err(Failure { error, partial: Some(Box::new(record)) }),
    }
}

/// Waits until everything is sent, a flow fails, or the user stops it.
async fn send(settings: &Settings, end: &End, stop: &Stop) -> (Ended, Option<TrafficError>) {
    let mut interrupted: Option<StopReason> = None;
    let failed = |text: String| {
        let error = TrafficError::Flow {
            code: "flow",
            flow: FLOW,
            name: super::PROTOCOL.name.into(),
            reason: text.clone(),
        };
        (Ended::new(Status::Partial, text), Some(error))
    };
    loop {
        tokio::select! {
            event = end.event() => match event {
                FlowEvent::Failed(_, text) => return failed(text),
                FlowEvent::SenderDone(total) => {
                    if let Some(reason) = interrupted {
                        let ended = Ended::new(Status::Interrupted, reason.text());
                        return (ended, Some(stopped(reason)));
                    }
                    if total.packets < settings.buffers
                        && let Ok(FlowEvent::Failed(_, text)) =
                            tokio::time::timeout(REASON, end.event()).await
                    {
                        return failed(text);
                    }
                    return (Ended::new(Status::Complete, "all buffers were sent"), None);
                }
                _ => {}
            },
            reason = stop.asked(1), if interrupted.is_none() => {
                interrupted = Some(reason);
                end.stop();
            }
        }
    }
}

/// Sends one marker after the data, retrying while the socket's queue is full. A receiver that is gone is not an
/// error, as in ttcp.
async fn send_marker(end: &End) {
    let (tries, pause) = MARKER_TRIES;
    for _ in 0..tries {
        match end.send_message(FLOW, &codec::MARKER) {
            Err(e) => match SendFault::of(&e) {
                SendFault::WouldBlock | SendFault::NoBuffers => tokio::time::sleep(pause).await,
                // It reports an earlier datagram, and this one was not sent.
                SendFault::Refused => {}
                _ => return,
            },
            Ok(_) => return,
        }
    }
}
