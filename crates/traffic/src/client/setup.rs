//! Sets up the data connections concurrently: TCP handshakes and prefaces, UDP hellos.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_flow::Supply;
use weir_model::plan::{Direction, EngineName, FlowSpec, GroupStream, Plan};
use weir_net::clock::Clock;
use weir_net::poll::{Events as PollEvents, Interest, Poller};
use weir_net::socket::borrow;
use weir_net::tcp::{TcpOptions, TcpStream};
use weir_net::udp::{RecvBatch, UdpOptions, UdpSocket};
use weir_wire::control::Opened;
use weir_wire::datagram::{ControlDatagram, DatagramKey, DatagramKind, LEN};
use weir_wire::ethernet::{Endpoint, mac_text, parse_mac};
use weir_wire::preface::{DATA_LEN, DataPreface};

use super::connect::bind_address;
use super::streams::{self, Streams};
use crate::channel::Meter;
use crate::engine::{Dial, Dialling, Engine, Events, Link, Ports};
use crate::flows::{Flow, SessionFacts};
use crate::log::PacketLog;
use crate::signals::{ClientSignals, Feedback};
use crate::transport::xdp::SendEnd;
use crate::transport::{
    self, DatagramSocket, DatagramTransport, FrameSocket, LinkEnd, StreamTransport,
};
use crate::{Address, TrafficError};

/// A hello that is not answered is retransmitted after this time.
const HELLO_RETRY_NS: u64 = 100_000_000;
/// Without an answer for this long, UDP counts as blocked.
pub(super) const HELLO_PATIENCE_NS: u64 = 2_000_000_000;

/// Everything needed to set up the data connections.
pub(super) struct Setup<'a> {
    pub(super) plan: &'a Plan,
    pub(super) facts: SessionFacts,
    pub(super) opened: &'a Opened,
    pub(super) server: Address,
    pub(super) engine: &'a Engine,
    pub(super) events: &'a Events,
    pub(super) connect_timeout_ns: u64,
    pub(super) log: Option<PacketLog>,
    pub(super) meter: Meter,
    pub(super) streams: Arc<Streams>,
    /// The program that sends the data of flows with engine `xdp`.
    pub(super) xdp: Option<SendEnd>,
    /// The data of flows that send a file.
    pub(super) supply: Option<Arc<Supply>>,
}

impl Setup<'_> {
    fn clock(&self) -> &Clock {
        self.engine.clock()
    }

    fn failed(spec: &FlowSpec, reason: impl ToString) -> TrafficError {
        TrafficError::Flow {
            code: "flow",
            flow: spec.id,
            name: spec.name.clone(),
            reason: reason.to_string(),
        }
    }

    /// Connects every flow, in order of their ids.
    pub(super) fn flows(&self, specs: &[FlowSpec]) -> Result<Vec<Arc<Flow>>, TrafficError> {
        let datagrams: Vec<_> =
            specs.iter().filter_map(|s| Some((s, transport::datagrams(s)?))).collect();
        let streams: Vec<_> =
            specs.iter().filter_map(|s| Some((s, transport::stream(s)?))).collect();
        let mut flows = self.datagrams(&datagrams, specs.len())?;
        flows.extend(self.frames(specs)?);
        flows.extend(self.streams(&streams)?);
        let mut group_streams: HashMap<u32, GroupStream> =
            self.plan.group_streams().into_iter().collect();
        for spec in specs {
            flows.extend(self.passed(spec)?);
            flows.extend(self.to_group(spec, group_streams.remove(&spec.id))?);
        }
        flows.sort_by_key(|f| f.spec.id);
        Ok(flows.into_iter().map(Arc::new).collect())
    }

    /// The server's address with another port.
    fn at(&self, port: u16) -> Address {
        let at = |mut address: SocketAddr| {
            address.set_port(port);
            address.into()
        };
        self.server.ip().map_or(self.server, at)
    }

    fn datagrams(
        &self,
        specs: &[(&FlowSpec, &dyn DatagramTransport)],
        all: usize,
    ) -> Result<Vec<Flow>, TrafficError> {
        if specs.is_empty() {
            return Ok(vec![]);
        }
        let own_ports: HashMap<u32, u16> = self.opened.flow_ports.iter().copied().collect();
        let port_of = |flow| own_ports.get(&flow).copied().unwrap_or(self.opened.udp_port);
        let mut sockets = Vec::with_capacity(specs.len());
        for (spec, transport) in specs {
            let options = self.datagram_options(spec, *transport, port_of(spec.id), all);
            sockets.push(UdpSocket::open(&options).map_err(|e| Self::failed(spec, e))?);
        }
        let ids: Vec<u32> = specs.iter().map(|(s, _)| s.id).collect();
        let greeted: Vec<&dyn DatagramSocket> = sockets.iter().map(|s| s as _).collect();
        if let Some(flow) = self.greet(&greeted, &ids)? {
            return Err(TrafficError::UdpBlocked { port: port_of(flow), address: self.server });
        }
        let flows = specs.iter().zip(sockets);
        flows.map(|((spec, _), socket)| self.on_udp(spec, socket)).collect()
    }

    /// The options of a socket for datagrams to the server's `port`.
    fn datagram_options(
        &self,
        spec: &FlowSpec,
        transport: &dyn DatagramTransport,
        port: u16,
        flows: usize,
    ) -> UdpOptions {
        let remote = self.at(port).ip_or_none();
        // The flow's own socket uses a port of the range too: a firewall may admit no other.
        let port = match spec.connection.client_ports() {
            Some((first, last)) => first + ((spec.id - 1) % (u32::from(last - first) + 1)) as u16,
            None => spec.connection.client_port().unwrap_or(0),
        };
        let local = bind_address(self.plan, remote, 0, port);
        let any = UdpOptions::connect(remote).bind;
        UdpOptions {
            connect: Some(remote),
            device: self.plan.device.clone(),
            ..transport.options(spec, local.unwrap_or(any), receives(spec), flows)
        }
    }

    /// The program that sends the data of a flow, if one does.
    fn sending_end(&self, spec: &FlowSpec) -> Option<&SendEnd> {
        self.xdp.as_ref().filter(|_| spec.connection.engine == EngineName::Xdp)
    }

    /// A flow of UDP on its connected socket.
    fn on_udp(&self, spec: &FlowSpec, socket: UdpSocket) -> Result<Flow, TrafficError> {
        match self.sending_end(spec) {
            None => Ok(self.on_socket(spec, Arc::new(socket))),
            Some(end) => self.on_program(spec, end.sender(spec, &self.facts, socket)),
        }
    }

    /// A flow of Ethernet frames on its connected socket.
    fn on_frames(&self, spec: &FlowSpec, socket: FrameSocket) -> Result<Flow, TrafficError> {
        match self.sending_end(spec) {
            None => Ok(self.on_socket(spec, Arc::new(socket))),
            Some(end) => self.on_program(spec, end.frame_sender(spec, &self.facts, socket)),
        }
    }

    /// A flow whose data a program sends, or the reason why none can.
    fn on_program(
        &self,
        spec: &FlowSpec,
        socket: Result<Arc<dyn DatagramSocket>, String>,
    ) -> Result<Flow, TrafficError> {
        let given = spec.connection.engine.to_string();
        let unavailable = |reason| TrafficError::Unavailable { field: "engine", given, reason };
        Ok(self.on_socket(spec, socket.map_err(unavailable)?))
    }

    /// Proves the address of each flow's socket to the server; `Some`: the first flow without an answer.
    fn greet(
        &self,
        sockets: &[&dyn DatagramSocket],
        flows: &[u32],
    ) -> Result<Option<u32>, TrafficError> {
        let key = DatagramKey::for_session(&self.facts.key);
        let hello = |flow| ControlDatagram {
            kind: DatagramKind::Hello,
            flow,
            session: self.facts.session,
            sequence: 0,
            t1_ns: 0,
            t2_ns: 0,
            t3_ns: 0,
        };
        say_hello(sockets, flows, &key, hello, self.clock(), HELLO_PATIENCE_NS)
            .map_err(|e| TrafficError::system("waiting for hellos", e))
    }

    /// The flows that are sent as frames of the link to the server.
    fn frames(&self, all: &[FlowSpec]) -> Result<Vec<Flow>, TrafficError> {
        let specs: Vec<&FlowSpec> = transport::frames(all).collect();
        let Some(first) = specs.first() else { return Ok(vec![]) };
        let protocol = |reason: &str| TrafficError::Protocol {
            address: self.server,
            reason: reason.to_owned(),
        };
        let link = LinkEnd::towards(self.server.ip_or_none(), self.plan.device.as_deref())
            .map_err(|e| Self::failed(first, e))?;
        let mac = self.opened.mac.as_deref().and_then(parse_mac);
        let mac = mac.ok_or_else(|| protocol("a session without a MAC address for its frames"))?;
        let own_ports: HashMap<u32, u16> = self.opened.flow_ports.iter().copied().collect();
        let mut sockets = Vec::with_capacity(specs.len());
        for spec in &specs {
            let port = own_ports.get(&spec.id).copied();
            let port = port.ok_or_else(|| protocol("a flow of frames without a number"))?;
            let far = Endpoint { mac, port };
            if !far.is_unicast() {
                return Err(protocol("frames to a group of hosts"));
            }
            let mut near = link.endpoint()?;
            // On loopback each end would take the other's frames for its own.
            if near == far {
                near.port = near.port.wrapping_add(1);
            }
            let socket = link.connect(spec, near, far, receives(spec), all.len());
            sockets.push(socket.map_err(|e| Self::failed(spec, e))?);
        }
        let ids: Vec<u32> = specs.iter().map(|s| s.id).collect();
        let greeted: Vec<&dyn DatagramSocket> = sockets.iter().map(|s| s as _).collect();
        if let Some(flow) = self.greet(&greeted, &ids)? {
            let name = specs.iter().find(|s| s.id == flow).map_or("", |s| s.name.as_str());
            return Err(TrafficError::Flow {
                code: "frames-blocked",
                flow,
                name: name.to_owned(),
                reason: format!(
                    "{} answers by TCP, but no hello came back within 2 s as an Ethernet frame (EtherType 0x88B5) from {} through {}: frames must pass between the two interfaces",
                    self.server,
                    mac_text(mac),
                    link.name()
                ),
            });
        }
        specs.iter().zip(sockets).map(|(spec, socket)| self.on_frames(spec, socket)).collect()
    }

    /// A datagram flow on its socket.
    fn on_socket(&self, spec: &FlowSpec, socket: Arc<dyn DatagramSocket>) -> Flow {
        let key = DatagramKey::for_session(&self.facts.key);
        let sends = spec.connection.direction == Direction::Forward;
        // A server sends responses that are longer than the requests only to a client that proves to be there.
        let is_amplified = spec.connection.response_bytes() > spec.connection.request_bytes();
        let feedback = (!sends || is_amplified)
            .then(|| Feedback { period_ns: self.facts.feedback_ns, meter: self.meter.clone() });
        let signals = ClientSignals {
            key,
            session: self.facts.session,
            flow: spec.id,
            feedback,
            next_ns: 0,
            last: 0,
        };
        if spec.connection.shape.has_transactions() {
            let link = Link::Datagrams { socket, signals: Box::new(signals), proof: None };
            let (spec, events) = (spec.clone(), self.events.clone());
            let dial = self.ports(&spec).map(|ports| Dialling::Datagrams(Box::new(ports)));
            return Flow::transactions(self.engine, &self.facts, spec, true, link, dial, events);
        }
        Flow::datagrams(
            self.engine,
            &self.facts,
            spec.clone(),
            sends,
            socket,
            Some(Box::new(signals)),
            None,
            self.events.clone(),
            self.log.clone().filter(|_| !sends),
            self.supply.clone(),
        )
    }

    /// How the transfers of a flow get sockets, if they are sent as datagrams.
    fn ports(&self, spec: &FlowSpec) -> Option<Ports> {
        let datagrams = spec.datagrams_of_transfers()?;
        let transport = transport::datagrams(&datagrams)?;
        // Such a flow always has a port of its own.
        let port = self.opened.flow_ports.iter().find(|(flow, _)| *flow == spec.id)?.1;
        let range = spec.connection.client_ports();
        Some(Ports {
            options: self.datagram_options(&datagrams, transport, port, 1),
            range,
            turn: u64::from(spec.id - 1),
            key: DatagramKey::for_session(&self.facts.key),
            session: self.facts.session,
            spec: datagrams,
        })
    }

    /// A datagram flow whose socket is passed to the server; `None` for transports that pass none.
    fn passed(&self, spec: &FlowSpec) -> Result<Option<Flow>, TrafficError> {
        let Some(transport) = transport::passed(spec) else { return Ok(None) };
        let receives = receives(spec);
        let pass = || {
            let mut stream = transport::connect_unix(self.server)?;
            stream.write_all(&self.preface(spec))?;
            transport.pass(spec, borrow(&stream), receives)
        };
        let socket = pass().map_err(|e| Self::failed(spec, e))?;
        Ok(Some(self.on_socket(spec, socket)))
    }

    /// A flow that is sent to a group; `None` for transports without groups. `stream`: the flow's, of the plan.
    fn to_group(
        &self,
        spec: &FlowSpec,
        stream: Option<GroupStream>,
    ) -> Result<Option<Flow>, TrafficError> {
        let (Some(transport), Some(stream)) = (transport::group(spec), stream) else {
            return Ok(None);
        };
        let request = streams::Request {
            plan: self.plan,
            spec,
            stream,
            server: self.server.ip_or_none(),
            facts: &self.facts,
            engine: self.engine,
            events: self.events,
            supply: &self.supply,
        };
        self.streams.part(&request, transport).map(Some)
    }

    /// The first bytes of a stream, which identify its flow to the server.
    fn preface(&self, spec: &FlowSpec) -> [u8; DATA_LEN] {
        let token = self.facts.token(spec.id);
        DataPreface { session: self.facts.session, flow: spec.id, token }.encode()
    }

    /// The options of a stream to `remote`.
    fn stream_options(
        &self,
        spec: &FlowSpec,
        transport: &dyn StreamTransport,
        remote: Address,
    ) -> TcpOptions {
        let sends = spec.connection.direction == Direction::Forward;
        let turn = u64::from(spec.id - 1);
        // The flows of several groups may share a range of ports.
        let port = match spec.connection.client_ports() {
            Some((first, last)) => {
                first + (turn % (u64::from(last.saturating_sub(first)) + 1)) as u16
            }
            None => spec.connection.client_port().unwrap_or(0),
        };
        TcpOptions {
            bind: remote.ip().and_then(|remote| bind_address(self.plan, remote, turn, port)),
            device: self.plan.device.clone(),
            nonblocking: true,
            ..transport.options(spec, sends)
        }
    }

    /// A flow on its connected stream.
    fn on_stream(
        &self,
        spec: &FlowSpec,
        transport: &'static dyn StreamTransport,
        stream: TcpStream,
        remote: Address,
    ) -> Flow {
        let sends = spec.connection.direction == Direction::Forward;
        let socket = transport.socket(spec, stream);
        let (engine, facts, events) = (self.engine, &self.facts, self.events.clone());
        let shape = spec.connection.shape;
        if !shape.has_transactions() {
            let supply = self.supply.clone();
            let spec = spec.clone();
            return Flow::stream(engine, facts, spec, sends, socket, events, supply, None, None);
        }
        let dial = shape.connects().then(|| {
            Dialling::Streams(Box::new(Dial {
                transport,
                spec: spec.clone(),
                server: remote,
                options: self.stream_options(spec, transport, remote),
                sources: self.plan.bind,
                ports: spec.connection.client_ports(),
                // Flows begin at different addresses and ports.
                turn: u64::from(spec.id - 1),
                preface: Some(self.preface(spec)),
            }))
        });
        Flow::transactions(engine, facts, spec.clone(), true, Link::Stream(socket), dial, events)
    }

    fn streams(
        &self,
        specs: &[(&FlowSpec, &'static dyn StreamTransport)],
    ) -> Result<Vec<Flow>, TrafficError> {
        let remote = self.at(self.opened.tcp_port);
        let poller = Poller::new().map_err(|e| TrafficError::system("setting up streams", e))?;
        let clock = self.clock();
        type Waiting<'s> = (&'s FlowSpec, &'static dyn StreamTransport, TcpStream, u64);
        let mut waiting: HashMap<u64, Waiting> = HashMap::new();
        let mut flows = vec![];
        for (spec, transport) in specs {
            let options = self.stream_options(spec, *transport, remote);
            let begun = clock.monotonic_ns();
            let stream =
                transport.start_connect(remote, &options).map_err(|e| Self::failed(spec, e))?;
            poller
                .add(&stream, u64::from(spec.id), Interest::WRITE)
                .map_err(|e| Self::failed(spec, e))?;
            waiting.insert(u64::from(spec.id), (spec, *transport, stream, begun));
        }
        let deadline = clock.monotonic_ns() + self.connect_timeout_ns;
        let mut events = PollEvents::new(256);
        while !waiting.is_empty() {
            let now = clock.monotonic_ns();
            if now >= deadline {
                let spec = waiting.values().map(|w| w.0).min_by_key(|s| s.id).unwrap_or(specs[0].0);
                return Err(Self::failed(
                    spec,
                    format!(
                        "data connection to {remote}: no answer within {:.1} s",
                        self.connect_timeout_ns as f64 / 1e9
                    ),
                ));
            }
            poller
                .wait(&mut events, Some(deadline - now))
                .map_err(|e| TrafficError::system("setting up streams", e))?;
            for event in events.iter() {
                let Some((spec, transport, stream, begun)) = waiting.remove(&event.token) else {
                    continue;
                };
                if let Ok(Some(e)) = stream.take_error() {
                    return Err(Self::failed(spec, format!("data connection to {remote}: {e}")));
                }
                let _ = poller.remove(&stream);
                let preface = self.preface(spec);
                // The send buffer of a new connection accepts 36 bytes in one call.
                match stream.send(&preface) {
                    Ok(n) if n == preface.len() => {}
                    Ok(_) => {
                        return Err(Self::failed(
                            spec,
                            "data connection accepted only part of its preface",
                        ));
                    }
                    Err(e) => {
                        return Err(Self::failed(
                            spec,
                            format!("data connection to {remote}: {e}"),
                        ));
                    }
                }
                let seconds = clock.monotonic_ns().saturating_sub(begun) as f64 / 1e9;
                let mut flow = self.on_stream(spec, transport, stream, remote);
                flow.connect_seconds = Some(seconds);
                flows.push(flow);
            }
        }
        Ok(flows)
    }
}

/// Whether this end receives data: the client of a transaction receives responses, that of an echo its own data.
fn receives(spec: &FlowSpec) -> bool {
    let connection = &spec.connection;
    connection.direction == Direction::Reverse
        || connection.shape.has_transactions()
        || connection.echo.is_some()
}

/// Sends hellos until each socket has received an acknowledgement. `Some`: the first flow without one, after none has
/// arrived on any socket for `patience_ns`.
pub(super) fn say_hello(
    sockets: &[&dyn DatagramSocket],
    flows: &[u32],
    key: &DatagramKey,
    hello: impl Fn(u32) -> ControlDatagram,
    clock: &Clock,
    patience_ns: u64,
) -> std::io::Result<Option<u32>> {
    let poller = Poller::new()?;
    for (i, socket) in sockets.iter().enumerate() {
        poller.add(*socket, i as u64, Interest::READ)?;
    }
    let mut open = vec![true; sockets.len()];
    let mut left = sockets.len();
    let mut events = PollEvents::new(256);
    let begun = clock.monotonic_ns();
    // Each answer shows that the path is open, so it restarts the timeout.
    let mut last_answer = begun;
    let mut next_round = begun;
    let mut batch = RecvBatch::new(8, 2 * LEN);
    while left > 0 {
        let now = clock.monotonic_ns();
        if now.saturating_sub(last_answer) >= patience_ns {
            return Ok(flows.iter().zip(&open).find(|(_, open)| **open).map(|(flow, _)| *flow));
        }
        if now >= next_round {
            for (i, socket) in sockets.iter().enumerate().filter(|(i, _)| open[*i]) {
                // An ICMP error for an earlier hello shows here; the peer may still come up.
                let _ = socket.send_control(&hello(flows[i]).encode(key));
            }
            next_round = clock.monotonic_ns() + HELLO_RETRY_NS;
        }
        poller.wait(&mut events, Some(next_round.saturating_sub(clock.monotonic_ns())))?;
        for event in events.iter() {
            let i = event.token as usize;
            while sockets[i].recv_batch(&mut batch).is_ok() {
                for message in batch.messages() {
                    let Ok(d) = ControlDatagram::decode(message.data, key) else { continue };
                    if d.kind == DatagramKind::HelloAck && d.flow == flows[i] && open[i] {
                        open[i] = false;
                        left -= 1;
                        last_answer = clock.monotonic_ns();
                    }
                }
            }
        }
    }
    Ok(None)
}
