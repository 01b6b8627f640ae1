//! One test at the server, from its data socket to its results.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_model::plan::{Direction, FlowSpec, Plan, Shape};
use weir_model::record::{Record, Status};
use weir_model::report::EndReport;
use weir_traffic::session::{self, End, Exchange, FlowEvent, Load, Share, Workers};

use super::codec::{self, Cpu, Length, Protocol, Request, Results, flag};
use super::control::Control;
use super::cpu::Meter;
use super::data::{self, DataSocket, EmptyEnds};
use super::server::Shared;
use crate::sessions::{self, Ended};

/// The one flow of a test.
const FLOW: u32 = 1;
/// Time beyond its stated length after which a test without an end is over, as at netserver.
const PAD: Duration = Duration::from_secs(4);
/// The same where a connection ends the test: its client may still have data in its socket.
const GRACE: Duration = Duration::from_secs(60);
/// Silence, beyond the stated length, after which a test with a connection for each transaction is over.
const QUIET: Duration = Duration::from_secs(1);
/// Silence after the datagram that ends a test. Data reordered behind it still counts.
const QUIET_NS: u64 = 100_000_000;
/// Most time to wait for acknowledgements of what was sent, and time without one after which no more is awaited: a client that
/// has ended its test reads no more.
const DELIVERY: Duration = Duration::from_secs(3);
const NO_DELIVERY: Duration = Duration::from_millis(50);
/// How often the limits of a test are checked.
const TICK: Duration = Duration::from_millis(100);
/// Pause between two looks for what the system does not announce.
const LOOK: Duration = Duration::from_millis(1);
/// Most connections of one test at the same time.
const MAX_CONNECTIONS: u64 = 64;
/// Empty datagrams that end a test, of which some may be lost.
const END_DATAGRAMS: usize = 3;

/// A test whose data socket is open.
pub(super) struct Test {
    pub(super) request: Request,
    pub(super) spec: FlowSpec,
    pub(super) socket: DataSocket,
    plan: Plan,
    at: SocketAddr,
    peer: SocketAddr,
    end: End,
    _flows: Share,
}

/// A test that has ended.
pub(super) struct Done {
    pub(super) ended: Ended,
    request: Request,
    spec: FlowSpec,
    plan: Plan,
    report: EndReport,
    intervals: IntervalClock,
    cpu: Option<Cpu>,
    seconds: f64,
    buffers: [u32; 2],
}

/// Why a test ended.
enum Over {
    /// By the client, or by what the request states.
    Complete(&'static str),
    /// No message ended it: the time until the last arrival counts.
    TimedOut,
    Failed(Ended),
}

impl Test {
    /// Opens the data socket at an address.
    ///
    /// # Errors
    /// [`codec::Refused`] with the system's error number.
    pub(super) fn open(
        request: Request,
        plan: Plan,
        at: SocketAddr,
        peer: SocketAddr,
        flows: Share,
        workers: &Workers,
    ) -> Result<Test, codec::Refused> {
        let host = peer.ip().to_canonical();
        let plan = Plan { host: Some(host.to_string()), ..plan };
        let flow =
            plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip())).swap_remove(0);
        let socket = data::open(&request, &plan, &flow, at, host)?;
        let at = SocketAddr::new(at.ip(), socket.port());
        // What the client sends is `reverse` here, also its requests.
        let mut spec = flow;
        if spec.connection.shape.has_transactions() {
            spec.connection.direction = Direction::Reverse;
        }
        let end = End::new(workers, &plan, true).with_host(peer.ip(), None);
        Ok(Test { request, spec, socket, plan, at, peer, end, _flows: flows })
    }

    /// Runs the test until the client ends it, is gone, or a limit is reached.
    pub(super) async fn run(self, control: &mut Control, shared: &Shared) -> Done {
        let Test { request, spec, socket, plan, at, peer, mut end, _flows } = self;
        let buffers = socket.buffers();
        let meter = Meter::start(request.flags & flag::MEASURE_CPU != 0);
        let mut running = Running {
            request: &request,
            spec: &spec,
            peer,
            listener: None,
            connections: Arc::default(),
            accepted: 0,
            start_ns: 0,
        };
        let attached = tokio::select! {
            attached = tokio::time::timeout(
                running.wait_for_data(shared),
                running.attach(&mut end, socket, at),
            ) => attached.map_err(|_| ()),
            gone = control.message() => Ok(Err(out_of_turn(gone.is_ok()))),
            reason = shared.stop.asked(1) => {
                Ok(Err(Ended::new(Status::Interrupted, reason.text())))
            }
        };
        let intervals = sessions::intervals(shared.workers.now_ns(), 0);
        running.start_ns = intervals.start_ns;
        let over = match attached {
            Ok(Ok(())) => {
                end.start(intervals);
                running.until_over(&end, control, shared).await
            }
            Ok(Err(ended)) => Over::Failed(ended),
            // No datagram has arrived.
            Err(()) if request.protocol == Protocol::Udp => Over::TimedOut,
            Err(()) => Over::Failed(Ended::new(Status::Partial, "no data connection")),
        };
        let mut over_ns = shared.workers.now_ns();
        let cpu = meter.report();
        let ended = match over {
            Over::Complete(reason) => Ended::new(Status::Complete, reason),
            Over::TimedOut => {
                over_ns = end.last_arrival_ns().max(intervals.start_ns);
                Ended::new(Status::Complete, "the time of the test was over")
            }
            Over::Failed(ended) => ended,
        };
        let seconds = over_ns.saturating_sub(intervals.start_ns) as f64 / 1e9;
        let report = end.finish();
        Done { ended, request, spec, plan, report, intervals, cpu, seconds, buffers }
    }
}

/// What a client's message, or the end of its connection, means during a test.
fn out_of_turn(is_message: bool) -> Ended {
    let reason = match is_message {
        true => "the client sent another request during the test",
        false => "the client closed the control connection",
    };
    Ended::new(Status::Partial, reason)
}

/// A running test.
struct Running<'a> {
    request: &'a Request,
    spec: &'a FlowSpec,
    peer: SocketAddr,
    /// Where each transaction has a connection.
    listener: Option<tokio::net::TcpListener>,
    /// Its open connections.
    connections: Arc<Load>,
    accepted: u64,
    start_ns: u64,
}

impl Running<'_> {
    /// The stated length of the test, if it is a time.
    fn length(&self) -> Option<Duration> {
        match self.request.length {
            Length::Seconds(0) | Length::Units(_) => None,
            Length::Seconds(seconds) => Some(Duration::from_secs(seconds.into())),
        }
    }

    /// How long to wait for data to begin.
    fn wait_for_data(&self, shared: &Shared) -> Duration {
        let silence = Duration::from_secs(shared.limits.silence_seconds);
        self.length().map_or(silence, |length| length + PAD)
    }

    /// Waits for the data connection, or the first datagram, and makes it the flow's.
    async fn attach(
        &mut self,
        end: &mut End,
        socket: DataSocket,
        at: SocketAddr,
    ) -> Result<(), Ended> {
        let failed = |error: &dyn std::fmt::Display| Ended::new(Status::Partial, error.to_string());
        let (spec, client) = (self.spec, self.peer.ip().to_canonical());
        let sends = self.request.direction == codec::Direction::Send;
        let is_stream = spec.connection.shape == Shape::Stream;
        let attached = match socket {
            DataSocket::Listener(listener) => {
                let listener = tokio::net::TcpListener::from_std(listener.into());
                let listener = listener.map_err(|error| failed(&error))?;
                if spec.connection.shape.connects() {
                    self.listener = Some(listener);
                    end.transactions(spec, false, Exchange::Accept(at, self.peer))
                } else {
                    let (stream, _) =
                        data::accept(&listener, client).await.map_err(|error| failed(&error))?;
                    session::accepted_stream(spec, sends, &stream)
                        .map_err(|error| failed(&error))?;
                    match is_stream {
                        true => end.stream(spec, sends, stream),
                        false => end.transactions(spec, false, Exchange::Stream(stream)),
                    }
                }
            }
            DataSocket::Datagrams(socket) if sends => {
                end.datagrams(spec, true, socket, None);
                Ok(())
            }
            DataSocket::Datagrams(socket) => {
                let connected = data::connected(socket, client).await;
                let socket = connected.map_err(|error| failed(&error))?;
                if is_stream {
                    end.datagrams(spec, false, socket, Some(Box::new(EmptyEnds)));
                    Ok(())
                } else {
                    let on = Exchange::Datagrams(socket, Box::new(EmptyEnds));
                    end.transactions(spec, false, on)
                }
            }
        };
        attached.map_err(|error| failed(&error))
    }

    async fn until_over(&mut self, end: &End, control: &mut Control, shared: &Shared) -> Over {
        let client = self.peer.ip().to_canonical();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let next = async {
                match &self.listener {
                    Some(listener) => data::accept(listener, client).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                event = end.event() => if let Some(over) = self.event(event, end).await {
                    return over;
                },
                accepted = next => if let Ok((stream, _)) = accepted {
                    let share =
                        Share::take(&self.connections, |l| &l.flows, 1, MAX_CONNECTIONS);
                    let patience = Duration::from_secs(shared.limits.silence_seconds);
                    if let Some(share) = share
                        && end.accept(self.spec, stream, share, patience).is_ok()
                    {
                        self.accepted += 1;
                    }
                },
                gone = control.message() => return Over::Failed(out_of_turn(gone.is_ok())),
                _ = ticks.tick() => if let Some(over) = self.over(end, shared) {
                    return over;
                },
                reason = shared.stop.asked(1) => {
                    end.stop();
                    return Over::Failed(Ended::new(Status::Interrupted, reason.text()));
                }
            }
        }
    }

    /// Takes an event of the flow.
    async fn event(&self, event: FlowEvent, end: &End) -> Option<Over> {
        let is_stream = self.spec.connection.shape == Shape::Stream;
        match event {
            FlowEvent::SenderDone(_) if self.request.protocol == Protocol::Udp => {
                for _ in 0..END_DATAGRAMS {
                    let _ = end.send_message(FLOW, &[]);
                }
                Some(Over::Complete("everything was sent"))
            }
            FlowEvent::SenderDone(_) => {
                let _ = tokio::time::timeout(DELIVERY, deliver(end)).await;
                Some(Over::Complete("everything was sent"))
            }
            FlowEvent::ReceiverDone(id) => {
                // The client waits for it, and its clock runs.
                end.half_close(id);
                Some(Over::Complete("the client finished"))
            }
            FlowEvent::SenderEnded(_) if is_stream => {
                end.drain(QUIET_NS);
                None
            }
            FlowEvent::SenderEnded(_) => Some(Over::Complete("the client finished")),
            FlowEvent::Failed(_, text) => Some(Over::Failed(Ended::new(Status::Partial, text))),
            FlowEvent::Ready(_) => None,
        }
    }

    /// Whether a limit is reached.
    fn over(&self, end: &End, shared: &Shared) -> Option<Over> {
        let now_ns = shared.workers.now_ns();
        let age = |since_ns: u64| Duration::from_nanos(now_ns.saturating_sub(since_ns));
        let (past, silent) = (age(self.start_ns), age(end.last_arrival_ns().max(self.start_ns)));
        let sends = self.request.direction == codec::Direction::Send;
        let has_no_end =
            self.listener.is_some() || self.request.protocol == Protocol::Udp && !sends;
        if let Some(length) = self.length() {
            if sends && past >= length {
                // A sender that waits for room does not see that its time is over.
                end.stop();
            }
            if has_no_end && past >= length + PAD {
                return Some(Over::TimedOut);
            }
            if self.listener.is_some() && past >= length && silent >= QUIET {
                return Some(Over::TimedOut);
            }
            if past >= length + GRACE {
                let reason = "the client did not end the test";
                return Some(Over::Failed(Ended::new(Status::Partial, reason)));
            }
        }
        if let Length::Units(units) = self.request.length
            && self.listener.is_some()
            && self.accepted >= u64::from(units)
            && self.connections.flows.load(std::sync::atomic::Ordering::Acquire) == 0
        {
            return Some(Over::Complete("all transactions are done"));
        }
        let partial = |reason: String| Some(Over::Failed(Ended::new(Status::Partial, reason)));
        if past >= Duration::from_secs(shared.limits.session_seconds) {
            return partial("the session reached the limit of its time".into());
        }
        let most = shared.limits.silence_seconds;
        if !sends && silent >= Duration::from_secs(most) {
            return partial(format!("nothing arrived for {most} s"));
        }
        None
    }
}

/// Waits until what was sent is acknowledged, so that retransmissions are counted.
async fn deliver(end: &End) {
    let (mut left, mut since) = (u64::MAX, Instant::now());
    loop {
        match end.unacknowledged_bytes() {
            0 => return,
            now if now < left => (left, since) = (now, Instant::now()),
            _ if since.elapsed() > NO_DELIVERY => return,
            _ => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The results of a test for its client.
pub(super) fn results(done: &Done) -> Results {
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let flow = done.report.flows.first();
    let sender = flow.and_then(|flow| flow.sender.as_ref());
    let receiver = flow.and_then(|flow| flow.receiver.as_ref());
    let tcp = flow.and_then(|flow| flow.tcp.as_ref());
    let connection = &done.spec.connection;
    let calls = |packets: u64, io_calls: Option<u64>| match done.request.protocol {
        // A call for each datagram, by which the client counts them.
        Protocol::Udp => packets,
        Protocol::Tcp => io_calls.unwrap_or(packets),
    };
    let [send_buffer, receive_buffer] = done.buffers;
    let bytes_or = |bytes: Option<u64>, before: u32| bytes.map_or(before, count);
    let mut results = Results {
        seconds: done.seconds as f32,
        cpu: done.cpu,
        retransmits: tcp.map(|tcp| count(tcp.retransmits)),
        congestion: tcp.map(|tcp| tcp.congestion_control.clone()).filter(|name| !name.is_empty()),
        receive_buffer: Some(bytes_or(receiver.and_then(|r| r.buffer_bytes), receive_buffer)),
        send_buffer: Some(bytes_or(sender.and_then(|s| s.buffer_bytes), send_buffer)),
        ..Results::default()
    };
    if let Some(sender) = sender {
        results.sent_bytes = sender.bytes;
        results.send_calls = count(calls(sender.packets, sender.io_calls));
        results.seconds = sender.seconds as f32;
    }
    if let Some(receiver) = receiver {
        results.received_bytes = receiver.bytes;
        results.receive_calls = count(calls(receiver.packets, receiver.io_calls));
        if connection.shape.has_transactions() {
            results.transactions = count(receiver.packets);
        }
        if connection.shape.has_data() {
            // Each request was answered.
            results.sent_bytes = receiver.packets.saturating_mul(connection.response_bytes());
            results.send_calls = count(receiver.packets);
        }
    }
    results
}

impl Done {
    /// This end's report, and the record. `control_bytes`: messages of the test.
    pub(super) fn into_record(self, peer: SocketAddr, control_bytes: u64) -> (EndReport, Record) {
        let ends = (self.report.clone(), None);
        let name = super::PROTOCOL.name;
        let record = sessions::record(
            name,
            self.plan,
            vec![self.spec],
            peer,
            ends,
            self.intervals,
            self.ended,
        );
        (self.report, Record { control_bytes: Some(control_bytes), ..record })
    }
}
