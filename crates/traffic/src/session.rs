//! The interface for session protocols of other tools: workers, sockets opened with the options of the plan's
//! transport, flows on sockets that the protocol has connected or accepted, and this end's report.
//!
//! A protocol decides which end connects, when sending starts and when the session ends. An [`End`] moves the data of
//! its flows, counts it as in any test of Weir, and reports it.

mod exchange;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use weir_flow::{Drain, IntervalClock, Scheduling, Supply};
use weir_model::plan::{FlowSpec, Plan};
use weir_model::record::{Interval, Tcp};
use weir_model::report::EndReport;
use weir_model::warning::{Severity, Warning};
use weir_net::clock::Clock;
use weir_net::tcp::{TcpListener, TcpOptions, TcpStream};
use weir_net::udp::{IcmpFilter, Membership, UdpOptions, UdpSocket};
use weir_wire::hmac::HmacKey;

pub use crate::client::LOSS_THRESHOLD_NS;
use crate::client::{ClientConfig, connect};
use crate::engine::{Engine, Events, arrived_ns, asked, check_scheduling, lock};
use crate::flows::{Flow, SessionFacts, live_interval, tcp_record};
use crate::host::{self, CpuMeter};
use crate::{TrafficError, transport};

pub use crate::engine::FlowEvent;
pub use crate::framing::Framing;
pub use crate::key::random;
pub use crate::server::{Load, Share};
pub use crate::signals::{Signal, Signals};
pub use crate::transport::{DatagramSocket, IcmpHeader, IcmpMessages};
pub use exchange::{Exchange, FramedStream};
pub use weir_flow::Numbering;
pub use weir_wire::control::SenderTotal;

/// Connections of a flow's listener that are not yet accepted.
const FLOW_BACKLOG: u32 = 1024;

/// Configuration of the threads that move data.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Their processors; absent: all of this process.
    pub cpus: Option<Vec<usize>>,
    /// Scheduling of the threads that send datagrams.
    pub scheduling: Scheduling,
    /// How long these spin before a datagram is due.
    pub spin: Option<Duration>,
    /// The clock.
    pub clock: Clock,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig { cpus: None, scheduling: Scheduling::Auto, spin: None, clock: Clock::System }
    }
}

impl From<&ClientConfig> for WorkerConfig {
    fn from(config: &ClientConfig) -> Self {
        WorkerConfig {
            cpus: config.cpus.clone(),
            scheduling: config.scheduling,
            spin: config.spin,
            clock: config.clock.clone(),
        }
    }
}

/// The arrival of a datagram on a socket other than its flow's own.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// By the workers' clock, ns.
    pub at_ns: u64,
    /// The time is the kernel's, not that of reading.
    pub is_stamped: bool,
    /// It is the flow's first datagram of a receive call.
    pub is_first_of_call: bool,
}

/// Running workers; clones share them.
#[derive(Clone)]
pub struct Workers(Arc<Engine>);

impl Workers {
    /// Starts the workers.
    ///
    /// # Errors
    /// [`TrafficError::Unavailable`] for a scheduling that is not permitted; [`TrafficError::System`] if no thread
    /// can be started.
    pub fn start(config: &WorkerConfig) -> Result<Workers, TrafficError> {
        check_scheduling(config.scheduling)?;
        let asked = asked(config.scheduling, config.spin);
        Ok(Workers(Arc::new(Engine::start(config.cpus.as_deref(), asked, config.clock.clone())?)))
    }

    /// Time of the workers' clock, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.0.clock().monotonic_ns()
    }

    /// When a datagram that has just been read arrived. `kernel_realtime_ns`: the kernel's stamp; without one, or
    /// when the clock was stepped since, the time is that of reading.
    #[must_use]
    pub fn arrival(&self, kernel_realtime_ns: Option<u64>, is_first_of_call: bool) -> Arrival {
        let clock = self.0.clock();
        let arrived = kernel_realtime_ns.and_then(|stamp| arrived_ns(clock, stamp));
        let at_ns = arrived.unwrap_or_else(|| clock.monotonic_ns());
        Arrival { at_ns, is_stamped: arrived.is_some(), is_first_of_call }
    }
}

/// The addresses of `host` at the plan's port, in the resolver's order. The name is resolved on a thread of its own.
///
/// # Errors
/// [`TrafficError::Resolve`].
pub async fn resolve(host: &str, plan: &Plan) -> Result<Vec<SocketAddr>, TrafficError> {
    connect::resolve_elsewhere(host, plan).await
}

/// MTU of the path to a peer, as far as this host knows it, bytes.
#[must_use]
pub fn path_mtu_bytes(peer: IpAddr) -> u32 {
    host::path_mtu(peer)
}

fn not_a(spec: &FlowSpec, kind: &str) -> TrafficError {
    let name = spec.connection.transport.name();
    TrafficError::Unavailable {
        field: "transport",
        given: name.to_string(),
        reason: format!("not a {kind}"),
    }
}

/// Connects a stream with the options of a flow.
///
/// # Errors
/// [`TrafficError::Connect`] when no answer comes within `timeout`, or a refusal.
pub async fn connect_stream(
    plan: &Plan,
    spec: &FlowSpec,
    sends: bool,
    to: SocketAddr,
    timeout: Duration,
) -> Result<TcpStream, TrafficError> {
    let transport = transport::stream(spec).ok_or_else(|| not_a(spec, "stream"))?;
    let options = TcpOptions {
        bind: planned_bind(plan, spec, to),
        device: plan.device.clone(),
        nonblocking: true,
        ..transport.options(spec, sends)
    };
    let stream = connect::established(to, &options, timeout).await?;
    Ok(stream.into_std().map_err(|e| TrafficError::system("using a connection", e))?.into())
}

/// The address and port from which a flow connects, as far as the plan states them.
fn planned_bind(plan: &Plan, spec: &FlowSpec, to: SocketAddr) -> Option<SocketAddr> {
    let turn = u64::from(spec.id.saturating_sub(1));
    connect::bind_address(plan, to, turn, spec.connection.client_port().unwrap_or(0))
}

/// Listens for the streams of a flow at one address, with the options of the flow: a receive window is that of the listener.
/// With port 0 the system chooses.
///
/// # Errors
/// [`TrafficError::Net`], [`TrafficError::Unavailable`].
pub fn listen_flow(
    spec: &FlowSpec,
    sends: bool,
    at: SocketAddr,
) -> Result<TcpListener, TrafficError> {
    let transport = transport::stream(spec).ok_or_else(|| not_a(spec, "stream"))?;
    let options =
        TcpOptions { v6_only: at.is_ipv6(), nonblocking: true, ..transport.options(spec, sends) };
    Ok(TcpListener::open(at, &options, FLOW_BACKLOG)?)
}

/// Sets the options of a flow on an accepted connection.
///
/// # Errors
/// [`TrafficError::Net`], [`TrafficError::Unavailable`].
pub fn accepted_stream(
    spec: &FlowSpec,
    sends: bool,
    stream: &TcpStream,
) -> Result<(), TrafficError> {
    let transport = transport::stream(spec).ok_or_else(|| not_a(spec, "stream"))?;
    Ok(stream.set_options(&transport.options(spec, sends))?)
}

/// The speed of the interface towards a peer, bit/s, and where it is from.
#[must_use]
pub fn nominal(peer: IpAddr) -> Option<(u64, String)> {
    host::nominal(peer)
}

/// Listens for streams on `port` of the addresses `bind`; empty: all IPv4 and IPv6 addresses. With port 0 the system
/// chooses.
///
/// # Errors
/// [`TrafficError::Listen`].
pub fn listen_streams(
    bind: &[IpAddr],
    port: u16,
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), TrafficError> {
    crate::server::listen(bind, port)
}

/// Opens a datagram socket with the options of a flow, from `local` or as the plan states, to `peer`. `sends`: data
/// is sent on it. Several sockets of this user can be bound to one `local`: a datagram is delivered to the one
/// connected to its source.
///
/// # Errors
/// [`TrafficError::Net`].
pub fn open_datagrams(
    plan: &Plan,
    spec: &FlowSpec,
    sends: bool,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
) -> Result<UdpSocket, TrafficError> {
    let transport = transport::datagrams(spec).ok_or_else(|| not_a(spec, "datagram transport"))?;
    let planned = |peer: SocketAddr| {
        let port = spec.connection.client_port().unwrap_or(0);
        connect::bind_address(plan, peer, 0, port).unwrap_or(UdpOptions::connect(peer).bind)
    };
    let Some(bind) = local.or_else(|| peer.map(planned)) else {
        return Err(not_a(spec, "flow with an address"));
    };
    Ok(UdpSocket::open(&UdpOptions {
        connect: peer,
        device: plan.device.clone(),
        reuse_port: local.is_some(),
        v6_only: bind.is_ipv6(),
        ..transport.options(spec, bind, !sends || spec.connection.echo.is_some(), 1)
    })?)
}

/// The address of a group on a port; a link-local one is on the link of the membership's interface.
#[must_use]
pub fn group_address(group: &Membership, port: u16) -> SocketAddr {
    transport::at(group.group, port, group.interface)
}

/// Opens a socket that receives the datagrams to a multicast group, and joins it; the membership ends with the socket.
/// `from`: the only sender of which it receives. Several sockets of this user can receive one group and port: each that
/// accepts the sender has a copy of its datagrams. Interface 0 is the one that the routes choose.
///
/// # Errors
/// [`TrafficError::Net`], [`TrafficError::System`]: the port is in use, or there is no such interface or route.
pub fn open_group(
    plan: &Plan,
    spec: &FlowSpec,
    group: &Membership,
    port: u16,
    from: Option<SocketAddr>,
) -> Result<UdpSocket, TrafficError> {
    let transport = transport::datagrams(spec).ok_or_else(|| not_a(spec, "datagram transport"))?;
    let bind = group_address(group, port);
    let socket = UdpSocket::open(&UdpOptions {
        connect: from,
        device: plan.device.clone(),
        reuse_address: true,
        reuse_port: true,
        own_groups_only: true,
        v6_only: bind.is_ipv6(),
        ..transport.options(spec, bind, true, 1)
    })?;
    let joined = socket.join(group);
    joined.map_err(|e| TrafficError::system(format!("joining the group {}", group.group), e))?;
    Ok(socket)
}

/// Opens a raw socket for a flow whose data are messages of ICMP, from `local` or as the plan states, to or from `peer`.
/// `receives`: the messages that are received; `None`: this end sends. The ports of the addresses have no meaning.
///
/// # Errors
/// [`TrafficError::Unavailable`] without `CAP_NET_RAW`, [`TrafficError::Net`].
pub fn open_icmp_messages(
    plan: &Plan,
    spec: &FlowSpec,
    header: IcmpHeader,
    receives: Option<IcmpFilter>,
    local: Option<IpAddr>,
    peer: SocketAddr,
) -> Result<IcmpMessages, TrafficError> {
    let bind = local.map(|ip| SocketAddr::new(ip, 0));
    let bind = bind.or_else(|| connect::bind_address(plan, peer, 0, 0));
    let bind = bind.unwrap_or(UdpOptions::connect(peer).bind);
    IcmpMessages::open(plan, spec, header, receives, bind, peer)
}

/// TCP information of a connection that no flow has: its round trip and congestion window are the current ones.
/// `None` where the system has none.
#[must_use]
pub fn tcp_info(stream: &TcpStream) -> Option<Tcp> {
    let info = stream.info().ok()?;
    Some(Tcp {
        rtt_seconds: Some(f64::from(info.rtt_us) / 1e6),
        cwnd_bytes: Some(u64::from(info.cwnd_segments) * u64::from(info.send_mss_bytes)),
        ..tcp_record(&info, stream.congestion_control().ok())
    })
}

/// One end of a session: its flows from their start to their report.
pub struct End {
    engine: Arc<Engine>,
    facts: SessionFacts,
    flows: Vec<Flow>,
    events: Events,
    inbox: tokio::sync::Mutex<mpsc::UnboundedReceiver<FlowEvent>>,
    cpu: Mutex<CpuMeter>,
    /// Counters of this host before the session; absent if the report omits the host.
    before: Option<host::Before>,
    is_draining: AtomicBool,
    notes_before: usize,
    warnings: Mutex<Vec<Warning>>,
    /// The data of flows with the content of a file.
    supply: Option<Arc<Supply>>,
}

impl End {
    /// An end without flows. `any_size`: the far end does not announce the size of its datagrams.
    #[must_use]
    pub fn new(workers: &Workers, plan: &Plan, any_size: bool) -> End {
        let engine = workers.0.clone();
        let (events, inbox) = mpsc::unbounded_channel();
        End {
            facts: SessionFacts {
                session: 0,
                key: [0; 16],
                hmac: None,
                token_secret: [0; 16],
                seed: plan.seed.0,
                omit_ns: plan.omit.0,
                loss_threshold_ns: plan.loss_threshold.map_or(0, |t| t.0),
                feedback_ns: 0,
                any_size,
                is_unnumbered: true,
                flows: plan.connections.iter().map(|c| c.count as usize).sum(),
                expected: Arc::default(),
                prefix: Arc::default(),
                numbering: Default::default(),
            },
            flows: vec![],
            events,
            inbox: tokio::sync::Mutex::new(inbox),
            cpu: Mutex::new(CpuMeter::new(engine.clock())),
            before: None,
            is_draining: AtomicBool::new(false),
            notes_before: engine.notes().len(),
            warnings: Mutex::default(),
            supply: None,
            engine,
        }
    }

    /// Sets the session's key: the tags of Weir's data headers follow from it.
    #[must_use]
    pub fn with_key(mut self, key: [u8; 16]) -> End {
        self.facts.key = key;
        self
    }

    /// Sets the key of the HMACs in headers that have one.
    #[must_use]
    pub fn with_hmac(mut self, hmac: Option<HmacKey>) -> End {
        self.facts.hmac = hmac;
        self
    }

    /// Sets what the payload of each datagram that is added from now on begins with after its header, as far as it fits.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &[u8]) -> End {
        self.facts.prefix = prefix.into();
        self
    }

    /// Sets the numbers in the headers of the datagrams that are added from now on: those of a sender, or the first one of a
    /// receiver, whose header has numbers of up to 63 bits.
    #[must_use]
    pub fn with_numbering(mut self, numbering: Numbering) -> End {
        self.facts.numbering = numbering;
        self
    }

    /// Sets the data of datagrams and streams that are added from now on, where their content is that of a file.
    #[must_use]
    pub fn with_supply(mut self, supply: Option<Arc<Supply>>) -> End {
        self.supply = supply;
        self
    }

    /// Adds this host's facts to the report, and the changes of its counters towards `peer` from now on.
    #[must_use]
    pub fn with_host(mut self, peer: IpAddr, device: Option<&str>) -> End {
        self.before = Some(host::before(Some(peer), device));
        self
    }

    /// Adds a stream on its connection. `sends`: this end sends.
    ///
    /// # Errors
    /// [`TrafficError::Unavailable`] for a transport without streams.
    pub fn stream(
        &mut self,
        spec: &FlowSpec,
        sends: bool,
        connected: TcpStream,
    ) -> Result<(), TrafficError> {
        self.add_stream(spec, sends, connected, None)
    }

    /// Adds a stream that this end sends on its connection, each write of which begins with a header. It is sent with copies,
    /// and has no content of a file.
    ///
    /// # Errors
    /// [`TrafficError::Unavailable`] for a transport without streams.
    pub fn framed_stream(
        &mut self,
        spec: &FlowSpec,
        connected: TcpStream,
        framing: Box<dyn Framing>,
    ) -> Result<(), TrafficError> {
        self.add_stream(spec, true, connected, Some(framing))
    }

    fn add_stream(
        &mut self,
        spec: &FlowSpec,
        sends: bool,
        connected: TcpStream,
        framing: Option<Box<dyn Framing>>,
    ) -> Result<(), TrafficError> {
        let transport = transport::stream(spec).ok_or_else(|| not_a(spec, "stream"))?;
        connected
            .set_nonblocking(true)
            .map_err(|e| TrafficError::system("using a connection", e))?;
        let (socket, events) = (transport.socket(spec, connected), self.events.clone());
        let supply = self.supply.clone().filter(|_| framing.is_none());
        self.flows.push(Flow::stream(
            &self.engine,
            &self.facts,
            spec.clone(),
            sends,
            socket,
            events,
            supply,
            None,
            framing,
        ));
        Ok(())
    }

    /// Adds datagrams on a non-blocking socket. `sends`: this end sends. `signals`: the protocol's messages among
    /// them.
    pub fn datagrams(
        &mut self,
        spec: &FlowSpec,
        sends: bool,
        socket: impl DatagramSocket + 'static,
        signals: Option<Box<dyn Signals>>,
    ) {
        self.flows.push(Flow::datagrams(
            &self.engine,
            &self.facts,
            spec.clone(),
            sends,
            Arc::new(socket),
            signals,
            None,
            self.events.clone(),
            None,
            self.supply.clone(),
        ));
    }

    /// Starts the intervals, and each flow at their start or as long after it as its connection states.
    pub fn start(&self, intervals: IntervalClock) {
        lock(&self.cpu).start();
        for flow in &self.flows {
            flow.begin_intervals(intervals);
            let after = flow.spec.connection.start_after.0;
            flow.start(&self.engine, intervals.start_ns.saturating_add(after), intervals);
        }
    }

    /// Waits for the next event of a flow. The report states why a flow failed.
    pub async fn event(&self) -> FlowEvent {
        // This end holds a sender of its own, so that the channel is open.
        let Some(event) = self.inbox.lock().await.recv().await else {
            return std::future::pending().await;
        };
        if let FlowEvent::Failed(id, text) = &event {
            self.flow(*id).into_iter().for_each(|flow| flow.fail(text.clone()));
            let warning = Warning::new("flow-failed", Severity::Error, text.clone()).for_flow(*id);
            lock(&self.warnings).push(warning);
        }
        event
    }

    fn flow(&self, id: u32) -> Option<&Flow> {
        self.flows.iter().find(|flow| flow.spec.id == id)
    }

    /// The far sender of a flow has finished with these totals: its receiver ends when all of it has arrived, or when nothing
    /// has arrived for `quiet_ns`.
    pub fn expect(&self, total: &SenderTotal, quiet_ns: u64) {
        let drain = Drain::datagrams(self.engine.clock().monotonic_ns(), quiet_ns);
        let flow = self.flow(total.flow);
        flow.into_iter().for_each(|flow| flow.expect(&self.engine, total, drain));
    }

    /// The counts of an interval that has ended, for live output. Intervals are counted from 0.
    #[must_use]
    pub fn interval(&self, intervals: &IntervalClock, index: usize) -> Interval {
        live_interval(&self.flows, intervals, index, self.engine.clock().monotonic_ns())
    }

    /// The far sender has finished: each receiver ends when nothing has arrived for `quiet_ns`. Only the first call counts.
    pub fn drain(&self, quiet_ns: u64) {
        if self.is_draining.swap(true, Ordering::AcqRel) {
            return;
        }
        let drain = Drain::datagrams(self.engine.clock().monotonic_ns(), quiet_ns);
        self.flows.iter().for_each(|flow| flow.drain(&self.engine, drain));
    }

    /// Counts a datagram of a flow that arrived on a socket other than the flow's own, or the first bytes of a stream if the
    /// protocol has read them.
    pub fn deliver(&self, flow: u32, bytes: &[u8], arrival: Arrival) {
        self.flow(flow).into_iter().for_each(|flow| flow.deliver(bytes, arrival));
    }

    /// Counts data that the protocol has sent on a flow's socket itself: datagrams, or no packets and bytes of a stream.
    pub fn sent_by_protocol(&self, flow: u32, packets: u64, bytes: u64) {
        let flow = self.flow(flow).into_iter();
        flow.for_each(|flow| flow.sent_by_protocol(&self.engine, packets, bytes));
    }

    /// Sends one datagram of the protocol from a flow's socket.
    ///
    /// # Errors
    /// Those of `send`; a stream has no datagrams.
    pub fn send_message(&self, flow: u32, bytes: &[u8]) -> std::io::Result<usize> {
        self.flow(flow).ok_or(std::io::ErrorKind::NotFound)?.send_message(bytes)
    }

    /// Closes this end's direction of a flow's stream, before its report is made; the far end may wait for that.
    pub fn half_close(&self, flow: u32) {
        self.flow(flow).into_iter().for_each(Flow::half_close);
    }

    /// Bytes of this end's streams that the far end has not acknowledged; 0 where the system does not tell.
    #[must_use]
    pub fn unacknowledged_bytes(&self) -> u64 {
        self.flows.iter().filter(|flow| flow.sends()).map(Flow::unacknowledged_bytes).sum()
    }

    /// When the last data arrived at any receiver, by the workers' clock, ns; 0 before the first.
    #[must_use]
    pub fn last_arrival_ns(&self) -> u64 {
        self.flows.iter().map(Flow::last_arrival_ns).max().unwrap_or(0)
    }

    /// Stops all senders.
    pub fn stop(&self) {
        self.flows.iter().for_each(|flow| flow.stop(&self.engine));
    }

    /// Removes the flows from the workers and returns the report. Sockets close with the last owner of this end.
    #[must_use]
    pub fn finish(&self) -> EndReport {
        let report = self.report();
        self.flows.iter().for_each(|flow| flow.remove(&self.engine));
        report
    }

    /// Ends the counts and returns the report. Messages among datagrams are still handled, until this end is dropped or
    /// [`End::finish`] is called.
    #[must_use]
    pub fn report(&self) -> EndReport {
        // Before the reports are made, which takes processor time too.
        let cpu = lock(&self.cpu).report();
        let now = self.engine.clock().monotonic_ns();
        let mut warnings = std::mem::take(&mut *lock(&self.warnings));
        warnings.extend(self.engine.notes().into_iter().skip(self.notes_before));
        EndReport {
            host: self.before.as_ref().and_then(host::after),
            cpu,
            warnings,
            flows: self.flows.iter().map(|flow| flow.finish(now)).collect(),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.flows.iter().for_each(|flow| flow.remove(&self.engine));
    }
}
