//! A session at the server: its flows, from their announcements to the record.

mod record;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_model::plan::{FlowSpec, Plan};
use weir_model::record::Status;
use weir_model::units::ByteSize;
use weir_net::tcp::TcpStream;
use weir_traffic::ServerEvent;
use weir_traffic::session::{self, End, FlowEvent, Share};

use super::codec::{FRAME_BYTES, FlowRequest, IDENTITY_BYTES, Message, Metadata, Reply};
use super::control::{Control, ControlError};
use super::icmp;
use super::server::{Shared, reason};
use super::settings::{self, Refused};
use crate::ports::{self, Arrived, Lease, Read, Rules, Waiting};
use crate::sessions::{self, Ended};

/// Most flows of a session.
const MAX_FLOWS: usize = 1024;
/// Silence after which a flow whose sender has finished is over. ITGRecv waits a second.
const QUIET: Duration = Duration::from_millis(250);
/// Most time for a stream to end after its sender has finished.
const DELIVERY: Duration = Duration::from_secs(10);
/// How often the limits of a session are checked.
const TICK: Duration = Duration::from_millis(50);
/// Bytes per read of a stream.
const READ: ByteSize = ByteSize(64 << 10);

/// How the data of a flow begins: with its number.
const RULES: Rules = Rules {
    identity_bytes: [IDENTITY_BYTES, FRAME_BYTES - IDENTITY_BYTES],
    number: weir_wire::header::ditg::flow,
    begins: |_| true,
    start_ns: |(_, arrival)| arrival.at_ns,
    deliver,
};

/// Delivers a datagram that arrived on another socket than that of its flow, and sends it back if the flow is an echo.
fn deliver(end: &End, id: u32, echoes: bool, (datagram, arrival): &Read) {
    end.deliver(id, datagram, *arrival);
    if echoes {
        let _ = end.send_message(id, datagram);
    }
}

/// How far a flow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// All of it has arrived, and its sender has not said that it has finished.
    Complete,
    /// Its sender has finished.
    Closing(Instant),
    Closed,
}

/// Where the data of a flow arrives.
enum Inlet {
    Port(#[allow(dead_code, reason = "dropping it closes the port")] Lease),
    Icmp(icmp::Receiver),
}

/// A flow of a session.
struct Flow {
    request: FlowRequest,
    plan: Plan,
    spec: FlowSpec,
    /// Its data, once some has arrived.
    end: Option<Arc<End>>,
    /// Bytes of the first message of a stream, as it states.
    message_bytes: Option<u64>,
    phase: Phase,
    /// The port of its data, as the client knows it.
    port: u16,
    inlet: Inlet,
    _share: Share,
}

/// A session.
pub(super) struct Session<'a> {
    peer: SocketAddr,
    /// The address at which the client has reached this host.
    local: SocketAddr,
    shared: &'a Shared,
    number: u64,
    started: Instant,
    /// When the last message arrived.
    active: Instant,
    /// When the first data arrived, by the workers' clock, ns; 0 before.
    start_ns: Arc<AtomicU64>,
    /// When this end last looked for the first data of flows of ICMP, by the workers' clock, ns.
    looked_ns: u64,
    flows: Vec<Flow>,
    arriving: (UnboundedSender<Arrived>, UnboundedReceiver<Arrived>),
    events: (UnboundedSender<FlowEvent>, UnboundedReceiver<FlowEvent>),
    /// Tasks that wait for the events of flows.
    watching: JoinSet<()>,
}

impl<'a> Session<'a> {
    pub(super) fn new(peer: SocketAddr, local: SocketAddr, shared: &'a Shared) -> Session<'a> {
        Session {
            peer,
            local,
            shared,
            number: shared.session(),
            started: Instant::now(),
            active: Instant::now(),
            start_ns: Arc::default(),
            looked_ns: shared.workers.now_ns(),
            flows: vec![],
            arriving: mpsc::unbounded_channel(),
            events: mpsc::unbounded_channel(),
            watching: JoinSet::new(),
        }
    }

    /// Serves the client until it closes the session, is gone, or a limit is reached.
    pub(super) async fn run(mut self, control: &mut Control) {
        let ended = self.until_over(control).await;
        if !self.flows.is_empty() {
            self.report(ended, control.bytes());
        }
    }

    async fn until_over(&mut self, control: &mut Control) -> Ended {
        let gone = |error: ControlError| Ended::new(Status::Partial, reason(&error));
        let mut ticks = tokio::time::interval(TICK);
        let mut is_ending = false;
        loop {
            let sent = tokio::select! {
                message = control.message(), if !is_ending => match message {
                    Ok(Message::Close) => {
                        is_ending = true;
                        Ok(())
                    }
                    Ok(message) => self.take(message, control).await,
                    Err(error) => {
                        if matches!(error, ControlError::Unknown(_)) {
                            self.shared.refused(self.peer, reason(&error));
                        }
                        return gone(error);
                    }
                },
                Some(arrived) = self.arriving.1.recv() => {
                    self.arrived(arrived);
                    Ok(())
                }
                Some(event) = self.events.1.recv() => self.event(event, control).await,
                _ = ticks.tick() => match self.over() {
                    Some(ended) => return ended,
                    None => {
                        self.begin_icmp();
                        self.close_silent(control).await
                    }
                },
                reason = self.shared.stop.asked(1) => {
                    return Ended::new(Status::Interrupted, reason.text());
                }
            };
            if let Err(error) = sent {
                return gone(error);
            }
            let is_closing = |flow: &Flow| matches!(flow.phase, Phase::Closing(_));
            if is_ending && !self.flows.iter().any(is_closing) {
                let _ = control.send(&Reply::Closed.to_bytes()).await;
                return self.closed();
            }
        }
    }

    /// How a session ends that its client closes.
    fn closed(&self) -> Ended {
        let is_closed = |flow: &Flow| flow.phase == Phase::Closed;
        match self.flows.iter().all(is_closed) {
            true => Ended::new(Status::Complete, "the client finished"),
            false => Ended::new(Status::Partial, "the client closed the session before its flows"),
        }
    }

    async fn take(&mut self, message: Message, control: &mut Control) -> Result<(), ControlError> {
        self.active = Instant::now();
        match message {
            Message::Flow(request) => {
                let reply = match self.announced(request) {
                    Ok(port) => Reply::Accepted { flow: request.flow, port },
                    Err(refused) => {
                        let (reply, reason) = match refused {
                            Refused::Icmp(reason) => (Reply::NoIcmp(request.flow), reason),
                            Refused::Other(reason) => (Reply::NoPort(request.flow), reason),
                        };
                        self.shared.refused(self.peer, reason);
                        reply
                    }
                };
                control.send(&reply.to_bytes()).await
            }
            Message::CloseFlow(number) => {
                let at = self.flows.iter().position(|flow| flow.request.flow == number);
                match at {
                    Some(at) => self.close(at, control).await,
                    // As ITGRecv.
                    None => Ok(()),
                }
            }
            // The result is stored here: a client does not choose files of this host.
            Message::Log => control.send(&Reply::Logged.to_bytes()).await,
            Message::Connect => control.send(&Reply::Connected.to_bytes()).await,
            Message::Close => Ok(()),
        }
    }

    /// Opens the port of an announced flow.
    fn announced(&mut self, request: FlowRequest) -> Result<u16, Refused> {
        let other = |reason: String| Err(Refused::Other(reason));
        let plan = settings::plan(&request)?;
        if let Some(flow) = self.flows.iter().find(|flow| flow.request.flow == request.flow) {
            return match flow.request == request {
                true => Ok(flow.port),
                false => other(format!("a second flow {}", request.flow)),
            };
        }
        let most = self.shared.limits.flows;
        if self.flows.len() >= MAX_FLOWS {
            return other(format!("{MAX_FLOWS} flows in a session"));
        }
        let Some(share) = Share::take(&self.shared.load, |l| &l.flows, 1, most) else {
            return other(format!("{most} flows are open"));
        };
        let host = self.peer.ip().to_canonical().to_string();
        let mut plan = Plan { host: Some(host), ..plan };
        let id = self.flows.len() as u32 + 1;
        // A datagram of any size is one of the flow: its header is known, and no more.
        let bytes = match plan.connections[0].transport.datagrams() {
            true => ByteSize(plan.connections[0].header.min_payload_bytes()),
            false => READ,
        };
        plan.connections[0].payload = Some(bytes.into());
        let spec = plan.flows(crate::family(self.peer), u32::MAX).swap_remove(0);
        let spec = FlowSpec { id, ..spec };
        let (inlet, port) = match spec.connection.transport.echoes() {
            true => {
                let at = self.addresses(&request);
                let open = &self.shared.icmp;
                let receiver = icmp::receiver(&plan, &spec, &request, &at, self.peer, open)?;
                // ITGSend states it, and sends nothing there.
                let port = if request.port > 0 { request.port } else { settings::DATA_PORT };
                (Inlet::Icmp(receiver), port)
            }
            false => {
                let lease = self.lease(&request, &plan, &spec)?;
                let port = lease.port();
                (Inlet::Port(lease), port)
            }
        };
        let (end, message_bytes, phase) = (None, None, Phase::Open);
        let flow =
            Flow { request, plan, spec, end, message_bytes, phase, port, inlet, _share: share };
        self.flows.push(flow);
        if self.flows.len() == 1 {
            let (session, peer) = (self.number, self.peer.into());
            self.shared.report(ServerEvent::SessionOpened { session, peer, flows: 1 });
        }
        Ok(port)
    }

    /// Opens the port of a flow.
    fn lease(&self, request: &FlowRequest, plan: &Plan, spec: &FlowSpec) -> Result<Lease, Refused> {
        let waiting = || Waiting {
            client: self.peer.ip().to_canonical(),
            number: (request.metadata != Metadata::Nothing).then_some(request.flow),
            rules: RULES,
            signals: None,
            interval_ns: sessions::INTERVAL_NS,
            plan: plan.clone(),
            spec: spec.clone(),
            start_ns: self.start_ns.clone(),
            arrived: self.arriving.0.clone(),
        };
        let mut opened = Err(Refused::Other("no address".into()));
        for address in self.addresses(request) {
            let at = SocketAddr::new(address, request.port);
            let lease = self.shared.ports.open(at, waiting());
            opened = lease.map_err(|error| Refused::Other(error.to_string()));
            if opened.is_ok() {
                break;
            }
        }
        opened
    }

    /// Begins the flows of ICMP of which something has arrived since the last look: the socket has stored it.
    fn begin_icmp(&mut self) {
        let now_ns = self.shared.workers.now_ns();
        let looked_ns = std::mem::replace(&mut self.looked_ns, now_ns);
        let mut begun = vec![];
        for flow in &mut self.flows {
            let Inlet::Icmp(receiver) = &mut flow.inlet else { continue };
            let Some(socket) = receiver.waiting.take_if(|socket| socket.has_arrived()) else {
                continue;
            };
            let plan = sessions::counted(&flow.plan);
            let mut end = End::new(&self.shared.workers, &plan, true);
            if flow.spec.id == ports::FIRST {
                end = end.with_host(self.peer.ip().to_canonical(), None);
            }
            end.datagrams(&flow.spec, false, socket, None);
            end.start(ports::intervals(&self.start_ns, looked_ns, sessions::INTERVAL_NS));
            begun.push((flow.spec.id, Arc::new(end)));
        }
        for (id, end) in begun {
            self.begun(id, end, false);
        }
    }

    /// Where the data of a flow may arrive: at the address that the client states, if it is one of this server's, or where
    /// it has reached this host. These differ behind an address translator.
    fn addresses(&self, request: &FlowRequest) -> Vec<IpAddr> {
        let reached = self.local.ip().to_canonical();
        let (stated, bound) = (request.address.to_canonical(), &self.shared.bound);
        let is_own = !stated.is_unspecified()
            && stated.is_ipv4() == reached.is_ipv4()
            && (bound.is_empty() || bound.contains(&stated));
        let stated = Some(stated).filter(|stated| is_own && *stated != reached);
        stated.into_iter().chain([reached]).collect()
    }

    /// Takes the first data of a flow.
    fn arrived(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Datagrams(id, end) => self.begun(id, end, false),
            Arrived::Stream(id, stream, begun) => {
                let Some(flow) = self.flows.iter_mut().find(|flow| flow.spec.id == id) else {
                    return;
                };
                flow.message_bytes = record::stated_bytes(flow.request.metadata, &begun);
                let now_ns = self.shared.workers.now_ns();
                match stream_end(self.shared, flow, self.peer, stream) {
                    Ok(end) => {
                        end.start(ports::intervals(&self.start_ns, now_ns, sessions::INTERVAL_NS));
                        self.begun(id, Arc::new(end), true);
                    }
                    Err(reason) => self.failed(id, reason),
                }
            }
            Arrived::Failed(id, reason) => self.failed(id, reason),
        }
    }

    fn failed(&self, id: u32, reason: String) {
        let _ = self.events.0.send(FlowEvent::Failed(id, reason));
    }

    /// The data of a flow has begun.
    fn begun(&mut self, id: u32, end: Arc<End>, is_stream: bool) {
        let events = self.events.0.clone();
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.spec.id == id) else { return };
        if let (Phase::Closing(_), false) = (flow.phase, is_stream) {
            end.drain(QUIET.as_nanos() as u64);
        }
        flow.end = Some(end.clone());
        self.watching.spawn(async move { while events.send(end.event().await).is_ok() {} });
    }

    /// Takes an event of a flow.
    async fn event(&mut self, event: FlowEvent, control: &mut Control) -> Result<(), ControlError> {
        let id = match event {
            FlowEvent::ReceiverDone(id) | FlowEvent::Failed(id, _) => id,
            _ => return Ok(()),
        };
        let Some(flow) = self.flows.iter_mut().find(|flow| flow.spec.id == id) else {
            return Ok(());
        };
        match flow.phase {
            Phase::Open => flow.phase = Phase::Complete,
            Phase::Closing(_) => return close_now(flow, control).await,
            Phase::Complete | Phase::Closed => {}
        }
        Ok(())
    }

    /// The sender of a flow has finished.
    async fn close(&mut self, at: usize, control: &mut Control) -> Result<(), ControlError> {
        let flow = &mut self.flows[at];
        match flow.phase {
            Phase::Complete | Phase::Closed => return close_now(flow, control).await,
            Phase::Closing(_) => return Ok(()),
            Phase::Open => flow.phase = Phase::Closing(Instant::now()),
        }
        if let Some(end) = flow.end.as_ref().filter(|_| flow.spec.connection.transport.datagrams())
        {
            end.drain(QUIET.as_nanos() as u64);
        }
        Ok(())
    }

    /// Closes flows whose data does not arrive, or does not end.
    async fn close_silent(&mut self, control: &mut Control) -> Result<(), ControlError> {
        for flow in &mut self.flows {
            let Phase::Closing(since) = flow.phase else { continue };
            let is_datagrams = flow.spec.connection.transport.datagrams();
            let most = match (&flow.end, is_datagrams) {
                (None, true) => QUIET,
                (None, false) => QUIET * 2,
                (Some(_), false) => DELIVERY,
                (Some(_), true) => continue,
            };
            if since.elapsed() >= most {
                close_now(flow, control).await?;
            }
        }
        Ok(())
    }

    /// Whether a limit is reached.
    fn over(&self) -> Option<Ended> {
        let limits = &self.shared.limits;
        let partial = |reason: String| Some(Ended::new(Status::Partial, reason));
        if self.started.elapsed() >= Duration::from_secs(limits.session_seconds) {
            return partial("the session reached the limit of its time".into());
        }
        let last_ns =
            self.flows.iter().filter_map(|flow| Some(flow.end.as_ref()?.last_arrival_ns()));
        let silent = match last_ns.max().filter(|ns| *ns > 0) {
            Some(ns) => Duration::from_nanos(self.shared.workers.now_ns().saturating_sub(ns)),
            None => self.active.elapsed(),
        };
        let silent = silent.min(self.active.elapsed());
        let most = limits.silence_seconds;
        if silent >= Duration::from_secs(most) {
            return partial(format!("nothing arrived for {most} s"));
        }
        None
    }
}

/// Closes a flow: the port needs it no more.
async fn close_now(flow: &mut Flow, control: &mut Control) -> Result<(), ControlError> {
    flow.phase = Phase::Closed;
    control.send(&Reply::FlowClosed(flow.request.flow).to_bytes()).await
}

/// This end of a stream.
fn stream_end(
    shared: &Shared,
    flow: &Flow,
    peer: SocketAddr,
    stream: TcpStream,
) -> Result<End, String> {
    let failed = |error: weir_traffic::TrafficError| error.to_string();
    let _ = stream.set_options(&crate::serving::watched());
    session::accepted_stream(&flow.spec, false, &stream).map_err(failed)?;
    let mut end = End::new(&shared.workers, &flow.plan, true);
    if flow.spec.id == ports::FIRST {
        end = end.with_host(peer.ip().to_canonical(), None);
    }
    end.stream(&flow.spec, false, stream).map_err(failed)?;
    Ok(end)
}
