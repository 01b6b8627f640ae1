//! The task of one control connection: hello, session, test, report. The session ends with it.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weir_flow::IntervalClock;
use weir_flow::budget::{ControlBudget, StatedRate};
use weir_model::plan::{DataPorts, Direction, Family, FlowSpec};
use weir_model::record::CpuEnd;
use weir_model::report::EndReport;
use weir_net::reference::ReferenceReader;
use weir_net::tcp::TcpListener;
use weir_wire::control::{
    ClientMessage, HELLO_LIMIT, MAX_PART, Open, Opened, SERVER_LIMIT, SenderTotal, ServerMessage,
};
use weir_wire::ethernet::mac_text;
use weir_wire::frame::FrameError;

use super::files::MAX_FILES;
use super::groups::{self, Groups, JoinRequest};
use super::live::Live;
use super::session::{Session, Share, on_port};
use super::{ServerEvent, Shared, SharedFile};
use crate::channel::{self, ChannelError, DAMAGED, Meter, Reader, Writer};
use crate::engine::{Events, FlowEvent, lock};
use crate::flows::{Flow, SessionFacts};
use crate::host::CpuMeter;
use crate::report_timeout::{TimedOut, Waiting};
use crate::transport::xdp::{self, ReceiveEnd};
use crate::transport::{self, AwaitedFrames, LinkEnd, StreamTransport};
use crate::{Address, START_NS, hello, host, other_version};

/// A client that does not read a message within this time counts as lost; reports have their own timeout.
const WRITE_SECONDS: u64 = 10;
/// Above this number of UDP flows, each gets its own port: older kernels scan the connected sockets of one port.
const SHARED_UDP_FLOWS: usize = 1000;

/// Maximum number of plans above [`SMALL_PLAN`] that are received concurrently.
const MAX_LARGE_PLANS: u64 = 64;
/// A plan up to this size is received from any client; larger ones are limited to [`MAX_LARGE_PLANS`].
const SMALL_PLAN: usize = 64 << 10;

/// Ends a session however its task ends: by return, drop or panic.
struct Closing<'s> {
    shared: &'s Arc<Shared>,
    session: Arc<Session>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        lock(&self.shared.registry).remove(&self.session.facts.session);
        self.session.close(&self.shared.engine);
    }
}

struct Task<'s> {
    shared: &'s Arc<Shared>,
    peer: Address,
    writer: Writer,
    /// Bytes of the control connection.
    meter: Meter,
    /// Whether the last message was a refusal, which the client must have time to read.
    refused: bool,
    /// Whether it holds the only session of a server for one client.
    took: bool,
}

/// Runs a control connection to its end; returns whether a session was granted.
pub(super) async fn session(
    stream: TcpStream,
    peer: Address,
    shared: &Arc<Shared>,
    noise: bool,
    deadline: Instant,
    half_open: Share,
) -> bool {
    let refused = |reason: &str| {
        let _ = shared.events.send(ServerEvent::Refused { peer, reason: reason.into() });
    };
    let Ok(local) = peer.ip().map_or(Ok(peer.ip_or_none()), |_| stream.local_addr()) else {
        return false;
    };
    if noise && shared.config.key.is_none() {
        refused("the client has a key, this server has none");
        return false;
    }
    let key = shared.config.key.as_ref().filter(|_| noise);
    let meter = Meter::default();
    let opening = channel::open(stream, key, false, HELLO_LIMIT, meter.clone());
    let (mut reader, writer) = match tokio::time::timeout_at(deadline, opening).await {
        Ok(Ok(halves)) => halves,
        Ok(Err(e)) => {
            refused(&format!("handshake: {e}"));
            return false;
        }
        Err(_) => return false,
    };
    let mut task = Task { shared, peer, writer, meter, refused: false, took: false };
    // A refused client counts as half open until it disconnects.
    let mut half_open = Some(half_open);
    let ran = task.serve(&mut reader, local, noise, deadline, &mut half_open).await;
    if task.took && !ran {
        // No session ran: the next client may have it.
        shared.is_taken.store(false, Ordering::Relaxed);
    }
    if task.refused {
        channel::linger(&mut reader, &mut task.writer).await;
    }
    ran
}

impl Task<'_> {
    /// Runs from the hello to the end of the session; returns whether one was granted.
    async fn serve(
        &mut self,
        reader: &mut Reader,
        local: SocketAddr,
        noise: bool,
        deadline: Instant,
        half_open: &mut Option<Share>,
    ) -> bool {
        let shared = self.shared;
        if shared.config.key.is_some() && !noise {
            self.refuse("key", "this server requires a key").await;
            return false;
        }
        let open = match tokio::time::timeout_at(deadline, self.greet(reader)).await {
            Ok(Some(open)) => open,
            _ => return false,
        };
        if shared.config.one_off && shared.is_taken.swap(true, Ordering::Relaxed) {
            self.refuse("busy", "this server serves a single client, which is already connected")
                .await;
            return false;
        }
        self.took = shared.config.one_off;
        let Some(session_share) =
            Share::take(&shared.load, |l| &l.sessions, 1, shared.config.limits.sessions)
        else {
            let most = shared.config.limits.sessions;
            self.refuse("busy", &format!("{most} sessions are running, the limit of this server"))
                .await;
            return false;
        };
        // Counted before expansion: one line of a plan can request a hundred thousand flows.
        let flows: u64 = open.plan.connections.iter().map(|c| u64::from(c.count)).sum();
        let Some(flow_share) =
            Share::take(&shared.load, |l| &l.flows, flows, shared.config.limits.flows)
        else {
            self.refuse(
                "limit",
                &format!(
                    "{flows} flows: the limit of this server is {} in all",
                    shared.config.limits.flows
                ),
            )
            .await;
            return false;
        };
        drop(half_open.take());
        let specs: Vec<FlowSpec> = open.plan.flows(open.family, open.path_mtu_bytes);
        let sending = specs.iter().filter(|s| s.connection.direction == Direction::Reverse);
        let mtu = self.peer.ip().map_or(u32::MAX, host::min_path_mtu);
        if let Some(o) = host::oversized(sending, open.family, mtu) {
            let text = format!(
                "datagrams of {} bytes that must not be fragmented: the path accepts {} from this end",
                o.payload_bytes, o.most
            );
            self.refuse("plan", &text).await;
            return false;
        }
        let joins = match groups::needed(&specs, &shared.config.limits, shared.port) {
            Ok(joins) => joins,
            Err(text) => {
                self.refuse("limit", &text).await;
                return false;
            }
        };
        let most = shared.config.limits.joins;
        let Some(join_share) = Share::take(&shared.load, |l| &l.joins, joins, most) else {
            let text = format!(
                "{joins} memberships: the limit of this server is {most} in all (--max-joins)"
            );
            self.refuse("limit", &text).await;
            return false;
        };
        let frames = transport::frames(&specs).count() as u64;
        let most = shared.config.limits.frame_flows;
        let Some(frame_share) = Share::take(&shared.load, |l| &l.frame_flows, frames, most) else {
            let text = format!(
                "{frames} flows of Ethernet frames: the limit of this server is {most} in all (--max-frame-flows)"
            );
            self.refuse("limit", &text).await;
            return false;
        };
        let counted = xdp::flows(&specs).count() as u64;
        let most = xdp::MAX_FLOWS;
        let Some(xdp_share) = Share::take(&shared.load, |l| &l.xdp_flows, counted, most) else {
            let text =
                format!("{counted} flows with engine xdp: a server has at most {most} in all");
            self.refuse("limit", &text).await;
            return false;
        };
        let ran = self.run(reader, open, specs, local).await;
        drop((session_share, flow_share, join_share, frame_share, xdp_share));
        ran
    }

    async fn send(&mut self, message: &ServerMessage) -> bool {
        let writing = self.writer.write(message);
        matches!(
            tokio::time::timeout(Duration::from_secs(WRITE_SECONDS), writing).await,
            Ok(Ok(()))
        )
    }

    async fn refuse(&mut self, code: &str, text: &str) {
        let _ =
            self.shared.events.send(ServerEvent::Refused { peer: self.peer, reason: text.into() });
        self.send(&ServerMessage::Refused { code: code.into(), text: text.into() }).await;
        self.refused = true;
    }

    /// Refuses a client whose message was corrupted on the path; returns whether it was.
    async fn damaged(&mut self, e: &ChannelError) -> bool {
        if e.is_damage() {
            self.refuse(DAMAGED, &e.to_string()).await;
        }
        e.is_damage()
    }

    /// Exchanges hellos, then reads and checks the client's request.
    async fn greet(&mut self, reader: &mut Reader) -> Option<Box<Open>> {
        let client = match reader.read::<ClientMessage>().await {
            Ok(ClientMessage::Hello(hello)) => hello,
            // Includes a damaged hello: before its hello a client may be a stranger, which gets no answer.
            _ => return None,
        };
        let ours = hello(self.shared.config.key.is_some(), &self.shared.config.clock);
        if ours.common_protocol(&client).is_none() {
            self.refuse("version", &other_version(&ours, &client)).await;
            return None;
        }
        if !self.send(&ServerMessage::Hello(ours)).await {
            return None;
        }
        reader.set_limit(SMALL_PLAN);
        let mut message = reader.read::<ClientMessage>().await;
        let mut large = None;
        if let Err(ChannelError::Frame(FrameError::TooLong { .. })) = message {
            large = Share::take(&self.shared.load, |l| &l.large_plans, 1, MAX_LARGE_PLANS);
            if large.is_none() {
                self.refuse("busy", "too many large plans are being received, try again").await;
                return None;
            }
            reader.set_limit(SERVER_LIMIT);
            message = reader.read::<ClientMessage>().await;
        }
        drop(large);
        let open = match message {
            Ok(ClientMessage::Open(open)) => open,
            Ok(_) => return None,
            Err(e) if self.damaged(&e).await => return None,
            Err(e @ (ChannelError::Frame(_) | ChannelError::Message(_))) => {
                self.refuse("plan", &e.to_string()).await;
                return None;
            }
            Err(_) => return None,
        };
        // The tables of laws may take long, and this thread serves all sessions.
        let checking = tokio::task::spawn_blocking(move || (open.plan.check(), open));
        let Ok((checked, open)) = checking.await else { return None };
        if let Err(e) = checked {
            self.refuse("plan", &e.to_string()).await;
            return None;
        }
        if !(1_000_000..=600_000_000_000).contains(&open.loss_threshold_ns) {
            self.refuse("plan", "loss threshold out of range").await;
            return None;
        }
        for connection in &open.plan.connections {
            let name = connection.transport.name();
            // Its flows would be waited for: the kernel answers them, not this server.
            let without = name.echoes().then(|| "it has no server".to_string());
            if let Some(reason) = without.or_else(|| transport::unavailable(name)) {
                self.refuse("unavailable", &format!("transport {name}: {reason}")).await;
                return None;
            }
        }
        let names: BTreeSet<&str> =
            open.plan.connections.iter().filter_map(host::congestion_of).collect();
        for name in names {
            if let Err(reason) = host::congestion_control(name) {
                let text = format!("congestion control {}: {reason}", channel::clean(name));
                self.refuse("unavailable", &text).await;
                return None;
            }
        }
        Some(open)
    }

    async fn run(
        &mut self,
        reader: &mut Reader,
        open: Box<Open>,
        specs: Vec<FlowSpec>,
        local: SocketAddr,
    ) -> bool {
        let shared = self.shared;
        let xdp = match self.counting_end(&specs) {
            Ok(end) => end,
            Err(reason) => {
                self.refuse("unavailable", &format!("engine xdp: {reason}")).await;
                return false;
            }
        };
        let (Ok(key), Ok(token_secret)) = (crate::key::random(), crate::key::random()) else {
            return false;
        };
        let facts = SessionFacts {
            session: shared.next_session.fetch_add(1, Ordering::Relaxed),
            key,
            hmac: None,
            token_secret,
            seed: open.plan.seed.0,
            omit_ns: open.plan.omit.0,
            loss_threshold_ns: open.loss_threshold_ns,
            feedback_ns: StatedRate::of(&open.plan, &specs).feedback_ns(),
            any_size: false,
            is_unnumbered: false,
            flows: specs.len(),
            expected: Arc::default(),
            prefix: Arc::default(),
            numbering: Default::default(),
        };
        let files = match self.files(&specs, facts.session) {
            Ok(files) => files,
            Err(text) => {
                self.refuse("unavailable", &text).await;
                return false;
            }
        };
        let (events, mut flow_events) = mpsc::unbounded_channel();
        let now = shared.engine.clock().monotonic_ns();
        let session = Arc::new(Session::new(
            facts.clone(),
            specs.clone(),
            local,
            self.peer,
            open.plan.bind,
            now,
            events.clone(),
            shared.log.clone(),
            xdp,
            files,
        ));
        lock(&shared.registry).insert(facts.session, Arc::downgrade(&session));
        let closing = Closing { shared, session: session.clone() };
        let mut opened = Opened {
            session: facts.session,
            key: crate::key::to_hex(&facts.key),
            token_secret: crate::key::to_hex(&facts.token_secret),
            tcp_port: shared.port,
            udp_port: shared.port,
            flow_ports: vec![],
            mac: None,
        };
        let listening = match self.dedicate(&open, &specs, &session, &mut opened, local) {
            Ok(task) => task,
            Err(text) => {
                self.refuse("unavailable", &text).await;
                return false;
            }
        };
        let _ = shared.events.send(ServerEvent::SessionOpened {
            session: facts.session,
            peer: self.peer,
            flows: specs.len(),
        });
        let mut ends = (String::from("the client went away"), None);
        if self.send(&ServerMessage::Opened(opened)).await {
            ends = self.talk(reader, &open, &specs, &session, &events, &mut flow_events).await;
        }
        if let Some(task) = listening {
            task.abort();
        }
        drop(closing);
        if let Some(log) = &shared.log {
            // A reader finds whole sessions; a failure is reported when the server ends.
            let _ = lock(log).flush();
        }
        let (reason, report) = ends;
        let _ = shared.events.send(ServerEvent::SessionClosed {
            session: facts.session,
            peer: self.peer,
            reason,
            report,
            record: None,
        });
        true
    }

    /// The program for the flows whose data ends in one, attached to the interface towards the client.
    fn counting_end(&self, specs: &[FlowSpec]) -> Result<Option<ReceiveEnd>, String> {
        if xdp::flows(specs).next().is_none() {
            return Ok(None);
        }
        let peer = self.peer.ip().ok_or("a Unix socket has no link")?;
        self.shared.xdp.towards(peer).map(Some)
    }

    /// The files of the flows that are to be stored.
    fn files(&self, specs: &[FlowSpec], session: u64) -> Result<HashMap<u32, SharedFile>, String> {
        let stores =
            |spec: &&FlowSpec| spec.connection.transport.stream().is_some_and(|s| s.to_file);
        let flows: Vec<u32> = specs.iter().filter(stores).map(|spec| spec.id).collect();
        if flows.is_empty() {
            return Ok(HashMap::new());
        }
        let Some(files) = &self.shared.files else {
            return Err("this server stores nothing (weir serve --file-dir)".into());
        };
        if flows.len() > MAX_FILES {
            let flows = flows.len();
            return Err(format!("{flows} flows to store: the limit of a session is {MAX_FILES}"));
        }
        let created = files.of_session(session, &flows);
        created.map(HashMap::from_iter).map_err(|e| format!("creating a file: {e}"))
    }

    /// A part of the file of a flow. The error is the reason why there is none.
    async fn part(
        &self,
        session: &Session,
        flow: u32,
        offset: u64,
    ) -> Result<ServerMessage, String> {
        let file = session.files.get(&flow).cloned().ok_or("a file that does not exist")?;
        let reading = tokio::task::spawn_blocking(move || lock(&file).read(offset, MAX_PART));
        let part = reading.await.map_err(|e| e.to_string())?;
        let part = part.map_err(|e| format!("reading the file: {e}"))?;
        Ok(ServerMessage::Part { flow, offset, data: STANDARD.encode(part) })
    }

    /// Opens ports for this session alone, if its options need them before the handshake or its plan requests them.
    fn dedicate(
        &self,
        open: &Open,
        specs: &[FlowSpec],
        session: &Arc<Session>,
        opened: &mut Opened,
        local: SocketAddr,
    ) -> Result<Option<tokio::task::JoinHandle<()>>, String> {
        let pool = &self.shared.data_ports;
        let ports = match open.plan.data_ports {
            DataPorts::Range if !pool.is_range() => {
                return Err("this server has no range of data ports".into());
            }
            DataPorts::Range => DataPorts::Dedicated,
            ports => ports,
        };
        // A Unix socket has no ports.
        let streams: Vec<_> = specs
            .iter()
            .filter(|s| s.connection.transport.name().ip())
            .filter_map(|s| Some((s, transport::stream(s)?)))
            .collect();
        // Connections inherit the label of their listener.
        let reverse =
            streams.iter().map(|(s, _)| s).filter(|s| s.connection.direction == Direction::Reverse);
        let labels: BTreeSet<Option<u32>> =
            reverse.map(|s| s.connection.transport.ip().and_then(|ip| ip.flow_label)).collect();
        let flow_label = labels.last().copied().flatten().filter(|_| open.family == Family::Ipv6);
        if flow_label.is_some() && (labels.len() > 1 || ports == DataPorts::Shared) {
            return Err("this server applies a flow label to the TCP connections on which it sends only if all of them have the same one and their data port is not shared".into());
        }
        // All sockets are opened before anything starts, so that a refusal releases its ports immediately.
        let mut listener = None;
        let sends = |s: &FlowSpec| s.connection.direction == Direction::Reverse;
        let needs = |(s, transport): &&(&FlowSpec, &dyn StreamTransport)| {
            // Options that connections inherit from their listener; the rest is set when they are accepted.
            let inherited = weir_net::tcp::TcpOptions {
                nodelay: false,
                cork: false,
                priority: None,
                quick_ack: None,
                pacing_bytes_per_second: None,
                ..transport.options(s, sends(s))
            };
            inherited != weir_net::tcp::TcpOptions::default()
        };
        if !streams.is_empty()
            && (ports == DataPorts::Dedicated
                || (ports == DataPorts::Auto && streams.iter().any(|s| needs(&s))))
        {
            // One listener with the options of the first flow that has any: those of one plan hardly differ.
            let (spec, transport) = streams.iter().find(needs).unwrap_or(&streams[0]);
            let options = weir_net::tcp::TcpOptions {
                nonblocking: true,
                flow_label,
                // A listener of a protocol that extends TCP accepts TCP connections as well.
                protocol: streams.iter().find_map(|(s, t)| t.options(s, sends(s)).protocol),
                // Those of single connections, set when they are accepted.
                cork: false,
                priority: None,
                ..transport.options(spec, sends(spec))
            };
            let opening =
                pool.open(|port| TcpListener::open(on_port(local, port), &options, 1024))?;
            opened.tcp_port = opening.local_addr().map_err(|e| e.to_string())?.port();
            let opening = tokio::net::TcpListener::from_std(opening.into());
            listener = Some(opening.map_err(|e| e.to_string())?);
        }
        let datagrams: Vec<_> =
            specs.iter().filter_map(|s| Some((s, transport::datagrams(s)?))).collect();
        let mut sockets = vec![];
        let is_dedicated = ports == DataPorts::Dedicated
            || (ports == DataPorts::Auto && datagrams.len() > SHARED_UDP_FLOWS);
        for (spec, transport) in datagrams {
            let is_own = is_dedicated || spec.connection.transfers_datagrams();
            if !is_own && spec.connection.transport.shares_port() {
                continue;
            }
            let socket = pool.open(|port| session.dedicated_socket(spec, transport, port))?;
            let port = socket.local_addr().map_err(|e| e.to_string())?.port();
            opened.flow_ports.push((spec.id, port));
            sockets.push((spec.id, socket));
        }
        let frames = self.await_frames(specs, opened)?;
        for (flow, socket) in sockets {
            self.shared.front.await_dedicated(session, flow, socket);
        }
        for (flow, socket) in frames {
            self.shared.front.await_frames(session, flow, socket);
        }
        // No session is opened on this port: a control preface is as invalid there as any other.
        let accepting = |listener| super::accept(listener, self.shared.clone(), None);
        Ok(listener.map(|listener| tokio::spawn(accepting(listener))))
    }

    /// Opens the sockets of the flows that are sent as frames of the link to the client.
    fn await_frames(
        &self,
        specs: &[FlowSpec],
        opened: &mut Opened,
    ) -> Result<Vec<(u32, AwaitedFrames)>, String> {
        let frames = transport::frames(specs);
        if frames.clone().next().is_none() {
            return Ok(vec![]);
        }
        let peer = self.peer.ip().ok_or("a Unix socket has no link for Ethernet frames")?;
        let link = LinkEnd::towards(peer, None)?;
        let client = link.peer_mac()?;
        if let Some((bytes, most)) = link.oversized(frames.clone()) {
            let name = link.name();
            return Err(format!("frames with a payload of {bytes} bytes: {name} accepts {most}"));
        }
        opened.mac = Some(mac_text(link.mac()));
        let mut sockets = vec![];
        for spec in frames {
            let near = link.endpoint().map_err(|e| e.to_string())?;
            let receives = !Session::sends(spec);
            let socket = link.listen(spec, near, client, receives, specs.len());
            sockets.push((spec.id, socket.map_err(|e| e.to_string())?));
            opened.flow_ports.push((spec.id, near.port));
        }
        Ok(sockets)
    }

    /// Handles messages and events during a test. Returns how it ended, and the report if it was made.
    async fn talk(
        &mut self,
        reader: &mut Reader,
        open: &Open,
        specs: &[FlowSpec],
        session: &Arc<Session>,
        events: &Events,
        flow_events: &mut mpsc::UnboundedReceiver<FlowEvent>,
    ) -> (String, Option<Box<EndReport>>) {
        let shared = self.shared.clone();
        let clock = shared.engine.clock().clone();
        let before = Arc::new(host::before(session.peer.ip().map(|peer| peer.ip()), None));
        let mut cpu = CpuMeter::new(&clock);
        // Flows that have not finished sending: started ones, and those that wait for a command.
        let (mut sending, mut waiting): (BTreeSet<u32>, BTreeSet<u32>) =
            session.specs.keys().partition(|id| session.specs[id].connection.autostart);
        let notes_before = shared.engine.notes().len();
        let lease = Instant::now() + Duration::from_secs(shared.config.limits.session_seconds);
        let mut report = None;
        let mut live = Live::none();
        let stated = StatedRate::of(&open.plan, specs);
        let silence = Duration::from_secs(shared.config.limits.silence_seconds)
            + Duration::from_nanos(stated.more_silence_ns());
        let mut heard = Instant::now();
        let mut references = None;
        let mut start_at = None;
        let mut groups = Groups::default();
        loop {
            cpu.set_sending(!sending.is_empty());
            let live_at = live.at;
            let live_due = async {
                match live_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let cpu_starts = async {
                match start_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let group_at = groups.next();
            let group_due = async {
                match group_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = reader.read::<ClientMessage>() => {
                    let now = clock.monotonic_ns();
                    heard = Instant::now();
                    match message {
                        Ok(ClientMessage::Probe { t1_ns, reference: wanted }) => {
                            if wanted && references.is_none() {
                                // Opening it may start a program, so it is done once.
                                let clock = clock.clone();
                                let opening = tokio::task::spawn_blocking(move || ReferenceReader::open(&clock));
                                references = opening.await.ok();
                            }
                            let reference = references.as_ref().filter(|_| wanted).and_then(crate::reference::read);
                            let t3_ns = clock.monotonic_ns();
                            if !self.send(&ServerMessage::ProbeReply { t1_ns, t2_ns: now, t3_ns, reference }).await {
                                return ("the client does not read".into(), report);
                            }
                        }
                        Ok(ClientMessage::Clock(state)) => session.set_clock(state, now),
                        Ok(ClientMessage::Start { .. }) if session.intervals().is_some() => return ("a second start".into(), report),
                        Ok(ClientMessage::Start { at_ns }) => {
                            // A client that could not relate the clocks starts after the same time.
                            let at_ns = if at_ns == 0 { now + START_NS } else { at_ns };
                            // A start in the far future would be a session that never ends.
                            if at_ns.abs_diff(now) > 60_000_000_000 {
                                return ("a start that is a minute off".into(), report);
                            }
                            let intervals = IntervalClock { start_ns: at_ns, interval_ns: open.plan.interval.0, omit_ns: open.plan.omit.0 };
                            session.start(&shared.engine, intervals);
                            let until = Duration::from_nanos(at_ns.saturating_sub(now));
                            start_at = Some(Instant::now() + until);
                            groups.start(Instant::now() + until);
                            if open.live && open.plan.interval.0 > 0 {
                                live.start(intervals, ControlBudget::new(&stated), self.meter.bytes(), now);
                            }
                            if !self.send(&ServerMessage::Started).await {
                                return ("the client does not read".into(), report);
                            }
                        }
                        Ok(ClientMessage::Join { flow, source, name, key }) => {
                            let request = JoinRequest { flow, source, name, key };
                            let limits = &shared.config.limits;
                            if let Err(text) = groups.add(session, &shared.engine, limits, &request) {
                                self.refuse("unavailable", &text).await;
                                return (text, report);
                            }
                        }
                        Ok(ClientMessage::StartFlow { flow }) => {
                            sending.extend(waiting.take(&flow));
                            if let (Some(f), Some(intervals)) = (session.flow(flow), session.intervals()) {
                                f.start(&shared.engine, now, intervals);
                            }
                        }
                        Ok(ClientMessage::StopFlow { flow }) => {
                            let flows = flow.map_or_else(|| session.all(), |id| session.flow(id).into_iter().collect());
                            flows.iter().for_each(|f| f.stop(&shared.engine));
                            // All sessions share a thread.
                            tokio::task::yield_now().await;
                        }
                        Ok(ClientMessage::SetRate { flow, rate }) => {
                            if let Some(f) = session.flow(flow) {
                                if let Err(e) = f.spec.connection.check_rate(rate) {
                                    return (format!("a rate that can't be: {e}"), report);
                                }
                                f.set_rate(&shared.engine, rate);
                            }
                        }
                        Ok(ClientMessage::SenderDone(total)) => {
                            sending.remove(&total.flow);
                            waiting.remove(&total.flow);
                            if let Some(f) = session.flow(total.flow) {
                                f.sender_done(&shared.engine, &total, session.facts.loss_threshold_ns);
                            }
                        }
                        Ok(ClientMessage::Report) => {
                            // Only one: making it takes work, and it removes the flows from the engine.
                            if report.is_some() {
                                return ("a second request for the report".into(), report);
                            }
                            groups.read(&shared.engine);
                            let measured = cpu.report();
                            let Some(mut end) = self.report(session, &before, measured, &clock).await else {
                                return ("the report could not be made".into(), report);
                            };
                            end.warnings.extend(shared.engine.notes().into_iter().skip(notes_before));
                            if let Err(e) = self.send_report(&end).await {
                                return (not_read(&e), Some(Box::new(end)));
                            }
                            // Reading the report counts as activity, and may have taken longer than the silence
                            // allowed.
                            heard = Instant::now();
                            report = Some(Box::new(end));
                        }
                        // Only what was reported: before that, a worker still writes.
                        Ok(ClientMessage::Fetch { flow, offset }) if report.is_some() => {
                            match self.part(session, flow, offset).await {
                                Ok(part) if self.send(&part).await => heard = Instant::now(),
                                Ok(_) => return ("the client does not read".into(), report),
                                Err(text) => {
                                    self.refuse("unavailable", &text).await;
                                    return (text, report);
                                }
                            }
                        }
                        Ok(ClientMessage::Fetch { .. }) => return ("a message out of order".into(), report),
                        Ok(ClientMessage::Close) => return ("done".into(), report),
                        Ok(ClientMessage::Hello(_) | ClientMessage::Open(_)) => return ("a message out of order".into(), report),
                        Err(e) => {
                            self.damaged(&e).await;
                            return (format!("control connection: {e}"), report);
                        }
                    }
                }
                Some(event) = flow_events.recv() => {
                    if let FlowEvent::SenderDone(SenderTotal { flow, .. }) | FlowEvent::Failed(flow, _) = &event {
                        sending.remove(flow);
                        waiting.remove(flow);
                    }
                    let message = match event {
                        FlowEvent::SenderDone(total) => ServerMessage::SenderDone(total),
                        FlowEvent::ReceiverDone(flow) => ServerMessage::ReceiverDone { flow },
                        FlowEvent::Ready(flow) => ServerMessage::FlowReady { flow },
                        // The native protocol announces it on the control connection.
                        FlowEvent::SenderEnded(_) => continue,
                        FlowEvent::Failed(flow, text) => {
                            if let Some(f) = session.flow(flow) {
                                f.fail(text.clone());
                            }
                            ServerMessage::FlowFailed { flow, text }
                        }
                    };
                    if !self.send(&message).await {
                        return ("the client does not read".into(), report);
                    }
                }
                () = group_due => {
                    for failed in groups.run(&shared.engine) {
                        let _ = events.send(failed);
                    }
                }
                () = cpu_starts => {
                    start_at = None;
                    cpu.start();
                }
                () = live_due => {
                    if !self.send_live(session, &mut live, &clock).await {
                        return ("the client does not read".into(), report);
                    }
                }
                // The client's host may have gone without a message.
                () = tokio::time::sleep_until(heard + silence) => {
                    return (format!("no message from the client for {} s", silence.as_secs()), report);
                }
                () = tokio::time::sleep_until(lease) => {
                    self.refuse("closing", &format!("the session reached this server's limit of {} s", shared.config.limits.session_seconds)).await;
                    return ("its time limit was reached".into(), report);
                }
                _ = shared.stop.asked(1) => {
                    self.refuse("closing", "the server is being stopped").await;
                    return ("the server was stopped".into(), report);
                }
            }
            let _ = events;
        }
    }

    /// Live figures of intervals that have ended.
    async fn send_live(
        &mut self,
        session: &Session,
        live: &mut Live,
        clock: &weir_net::clock::Clock,
    ) -> bool {
        let flows = session.all();
        // The direction of the data, whichever end starts and ends the flow.
        let receivers = flows.iter().filter(|f| !Session::sends(&f.spec)).count() as u32;
        let now = clock.monotonic_ns();
        let count = |index| {
            let count = |f: &Arc<Flow>| {
                Some((
                    Session::sends(&f.spec),
                    f.spec.connection.transport.name(),
                    f.spec.id,
                    f.interval(index, now)?,
                ))
            };
            flows.iter().filter_map(count).collect()
        };
        for message in live.due(now, receivers, self.meter.bytes(), count) {
            if !self.send(&message).await {
                return false;
            }
        }
        true
    }

    /// Makes this end's report, on its own thread: with thousands of flows it takes long enough to delay other
    /// sessions. `None` if that thread failed.
    async fn report(
        &self,
        session: &Arc<Session>,
        before: &Arc<host::Before>,
        cpu: Option<CpuEnd>,
        clock: &weir_net::clock::Clock,
    ) -> Option<EndReport> {
        let (session, before, clock) = (session.clone(), before.clone(), clock.clone());
        let engine = self.shared.engine.clone();
        let making = tokio::task::spawn_blocking(move || {
            let now = clock.monotonic_ns();
            let flows = session.all().iter().map(|f| f.report(&engine, now)).collect();
            EndReport { cpu, flows, host: host::after(&before), warnings: vec![] }
        });
        making.await.ok()
    }

    async fn send_report(&mut self, end: &EndReport) -> Result<(), ChannelError> {
        let mut waiting = Waiting::begin(self.shared.config.limits.report, Instant::now());
        for flow in &end.flows {
            let message = ServerMessage::Flow(Box::new(flow.clone()));
            self.writer.write_patiently(&message, &mut waiting).await?;
        }
        let rest = ServerMessage::End(Box::new(EndReport { flows: vec![], ..end.clone() }));
        self.writer.write_patiently(&rest, &mut waiting).await
    }
}

/// Why a client did not receive its report.
fn not_read(e: &ChannelError) -> String {
    match e {
        ChannelError::NotTaken(TimedOut::Idle(silence)) => {
            format!("the client read nothing of its report for {} s", silence.as_secs_f64())
        }
        ChannelError::NotTaken(TimedOut::Incomplete(whole)) => {
            format!("the client had not read its report after {} s", whole.as_secs_f64())
        }
        _ => "the client left before its report".into(),
    }
}
