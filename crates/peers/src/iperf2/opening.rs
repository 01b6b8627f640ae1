//! Opening the sockets of a client's test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use weir_flow::Supply;
use weir_model::plan::{FlowSpec, HeaderFormat, Plan, Shape};
use weir_net::udp::UdpSocket;
use weir_traffic::session::{self, Arrival, End, Exchange, Workers};
use weir_traffic::{ClientConfig, Event, FlowAddresses, TrafficError};

use super::bounce;
use super::call_back::{Called, Listening};
use super::client::Extras;
use super::codec::{self, Header, Mode, Width};
use super::datagrams::{Ending, LastNumber};
use super::isochronous::{Frames, Isochronous};
use super::senders::{Sender, number};
use super::settings;
use crate::serving::sends;
use crate::sessions::counted;

/// How long a server may take to acknowledge the header of a stream. Old ones never do.
const ACK: Duration = Duration::from_secs(2);

/// Flows that start at the same time.
pub(super) struct Part {
    pub(super) end: End,
    pub(super) specs: Vec<FlowSpec>,
    /// Connections, to await their end.
    pub(super) streams: Vec<tokio::net::TcpStream>,
    pub(super) senders: Vec<Sender>,
    /// First datagrams, by which a server is asked to send, by flow.
    pub(super) requests: Vec<(u32, Vec<u8>)>,
    /// Sockets on which the server sends datagrams. They receive once the flows start.
    pub(super) called: Vec<(FlowSpec, UdpSocket, LastNumber)>,
    /// The datagrams of isochronous frames.
    supply: Option<Arc<Supply>>,
    /// Ends of received datagrams, by flow.
    pub(super) endings: Vec<(u32, Arc<Ending>)>,
    /// Datagrams that arrived before their flow had a socket.
    pub(super) early: Vec<(u32, Vec<u8>, Arrival)>,
    /// The server connected back, and awaits a report of its datagrams.
    pub(super) is_called: bool,
    pub(super) addresses: Vec<FlowAddresses>,
    /// Bytes of the header of each stream.
    pub(super) header_bytes: u64,
    peer: SocketAddr,
}

/// The sockets of a test.
pub(super) struct Opened {
    pub(super) peer: SocketAddr,
    /// All flows.
    pub(super) specs: Vec<FlowSpec>,
    pub(super) part: Part,
    /// Where the server connects back once this end has sent.
    pub(super) listening: Option<Listening>,
}

/// What all tries to open a test have in common.
pub(super) struct Opening<'a> {
    pub(super) config: &'a ClientConfig,
    pub(super) plan: &'a Plan,
    pub(super) extras: &'a Extras,
    /// The datagrams of isochronous frames.
    pub(super) supply: Option<Arc<Supply>>,
    pub(super) workers: &'a Workers,
}

/// Opens the sockets, to the first address of the server that accepts them.
pub(super) async fn open(
    opening: &Opening<'_>,
    observe: &mut dyn FnMut(Event),
) -> Result<Opened, TrafficError> {
    let mut failure = None;
    for peer in session::resolve(&opening.config.host, opening.plan).await? {
        match open_to(opening, peer, observe).await {
            Ok(opened) => return Ok(opened),
            Err(error) => failure = Some(error),
        }
    }
    let reason = "no address".into();
    let host = opening.config.host.clone();
    Err(failure.unwrap_or(TrafficError::Resolve { host, reason }))
}

async fn open_to(
    Opening { config, plan, extras, supply, workers }: &Opening<'_>,
    peer: SocketAddr,
    observe: &mut dyn FnMut(Event),
) -> Result<Opened, TrafficError> {
    let specs = plan.flows(crate::family(peer), session::path_mtu_bytes(peer.ip()));
    if peer.ip().is_multicast() && settings::mode(plan) != Mode::Forward {
        return Err(TrafficError::Input {
            field: "host",
            given: peer.ip().to_string(),
            accepted: "an address of one host where the server sends".into(),
        });
    }
    let (streams, bounces): (Vec<FlowSpec>, Vec<FlowSpec>) =
        specs.iter().cloned().partition(|spec| spec.connection.shape == Shape::Stream);
    let (forward, reverse): (Vec<FlowSpec>, Vec<FlowSpec>) =
        streams.iter().cloned().partition(sends);
    let listening = match (extras.call_back, reverse.first()) {
        (Some(asked), Some(spec)) => Some(Listening::open(asked, plan, spec, peer)?),
        _ => None,
    };
    // Frames that this end sends are larger than what the server has room for.
    let header = reverse.first().or(streams.first()).or(specs.first());
    let header = header.map(|spec| settings::header(plan, spec, peer.port()));
    let header = header.map(|header| match &extras.isochronous {
        Some(isochronous) => isochronous.headed(header),
        None => header,
    });
    let header = header.ok_or_else(|| TrafficError::Input {
        field: "connection",
        given: "none".into(),
        accepted: "at least one".into(),
    })?;
    let is_datagrams = plan.connections[0].transport.datagrams();
    let header = listening
        .as_ref()
        .map_or(header, |on| header.calling_back(on.port, on.is_after, is_datagrams));
    let end = End::new(workers, &counted(plan), true).with_host(peer.ip(), plan.device.as_deref());
    let end = end.with_prefix(&header.datagram_bytes()).with_supply(supply.clone());
    let mut part = Part { supply: supply.clone(), ..Part::new(end, peer) };
    // Both directions of a stream, or of datagrams, have one socket unless the server connects back.
    let pairs: Vec<(&FlowSpec, Option<&FlowSpec>)> = match header.mode {
        Mode::FullDuplex => forward.iter().zip(reverse.iter().map(Some)).collect(),
        Mode::Dual | Mode::TradeOff => forward.iter().map(|spec| (spec, None)).collect(),
        _ => streams.iter().map(|spec| (spec, None)).collect(),
    };
    // Round trips come last: a server of iperf reads one header at a time, and theirs comes with the first request.
    for (spec, back) in pairs.into_iter().chain(bounces.iter().map(|spec| (spec, None))) {
        if spec.connection.shape != Shape::Stream {
            part.open_bounce(config, plan, spec, extras).await?;
        } else if spec.connection.transport.datagrams() {
            part.open_datagrams(plan, spec, back, &header)?;
        } else {
            let frames = extras.isochronous.as_ref();
            part.open_stream((config, plan), spec, back, (&header, frames)).await?;
        }
        if part.addresses.first().is_some_and(|first| first.flow == spec.id) {
            let local = part.addresses[0].local;
            observe(Event::Connected { local: local.into(), remote: peer.into() });
        }
    }
    let mut opened = Opened { peer, specs, part, listening };
    if let Some(listening) = opened.listening.take_if(|on| !on.is_after) {
        // The header of the first datagram is the request.
        opened.part.senders.iter().for_each(|sender| sender.begin(&opened.part.end));
        for spec in &reverse {
            opened.part.called(&listening, plan, spec, workers).await?;
        }
    }
    Ok(opened)
}

impl Part {
    /// Flows of a test with this server, without any yet.
    pub(super) fn new(end: End, peer: SocketAddr) -> Self {
        Part {
            end,
            specs: vec![],
            streams: vec![],
            senders: vec![],
            requests: vec![],
            called: vec![],
            supply: None,
            endings: vec![],
            early: vec![],
            is_called: false,
            addresses: vec![],
            header_bytes: 0,
            peer,
        }
    }

    /// Waits for the server to connect back, and receives a flow from it.
    pub(super) async fn called(
        &mut self,
        listening: &Listening,
        plan: &Plan,
        spec: &FlowSpec,
        workers: &Workers,
    ) -> Result<(), TrafficError> {
        self.is_called = true;
        match listening.next(plan, spec, workers).await? {
            Called::Stream(stream) => {
                session::accepted_stream(spec, false, &stream)?;
                self.know(&[Some(spec)], stream.local_addr(), stream.peer_addr().ok());
                self.end.stream(spec, false, stream)
            }
            Called::Datagrams(socket, early) => {
                let width = width(spec);
                self.know(&[Some(spec)], socket.local_addr(), socket.peer_addr().ok());
                let signals = self.last_number(spec, width);
                self.called.push((spec.clone(), socket, signals));
                self.early.extend(early.into_iter().map(|(bytes, at)| (spec.id, bytes, at)));
                Ok(())
            }
        }
    }

    fn open_datagrams(
        &mut self,
        plan: &Plan,
        spec: &FlowSpec,
        back: Option<&FlowSpec>,
        header: &Header,
    ) -> Result<(), TrafficError> {
        let width = width(spec);
        let is_sent = sends(spec);
        let receiver = if is_sent { back } else { Some(spec) };
        // A socket that also receives has the buffers for it.
        let socket = session::open_datagrams(
            plan,
            spec,
            is_sent && receiver.is_none(),
            None,
            Some(self.peer),
        )?;
        self.know(&[Some(spec), back], socket.local_addr(), None);
        let prefix = header.request_bytes();
        let size = usize::try_from(spec.max_payload()).unwrap_or(0);
        let mut last = vec![0; size.max(codec::NUMBER_BYTES + prefix.len())];
        let at = match width {
            Width::Wide => codec::NUMBER_BYTES,
            Width::Narrow => codec::NARROW_BYTES,
        };
        last[at..at + prefix.len()].copy_from_slice(&prefix);
        if is_sent {
            // A group has no receiver that reports.
            let wants_report = !header.wants_no_report && !self.peer.ip().is_multicast();
            let sender = Sender::new(spec, last, wants_report).with_supply(self.supply.clone());
            let to_receive = receiver.map(|_| socket.try_clone()).transpose();
            let to_receive =
                to_receive.map_err(|source| super::system("using a socket", source))?;
            // The receiver of the same socket reads all of it.
            let signals = receiver.is_none().then(|| sender.signals());
            self.end.datagrams(&settings::sent(spec), true, socket, signals);
            self.senders.push(sender);
            if let (Some(back), Some(socket)) = (receiver, to_receive) {
                let signals = Box::new(self.last_number(back, width));
                self.end.datagrams(back, false, socket, Some(signals));
            }
        } else {
            number(&mut last, width, 1);
            self.requests.push((spec.id, last));
            let signals = Box::new(self.last_number(spec, width));
            self.end.datagrams(spec, false, socket, Some(signals));
        }
        Ok(())
    }

    /// The addresses of the flows of a socket.
    fn know(
        &mut self,
        specs: &[Option<&FlowSpec>],
        local: std::io::Result<SocketAddr>,
        remote: Option<SocketAddr>,
    ) {
        self.specs.extend(specs.iter().flatten().map(|spec| (*spec).clone()));
        let Ok(local) = local else { return };
        let remote = remote.unwrap_or(self.peer);
        self.addresses.extend(specs.iter().flatten().map(|spec| FlowAddresses {
            flow: spec.id,
            direction: spec.connection.direction,
            local,
            remote,
        }));
    }

    /// The end of datagrams that arrive here.
    fn last_number(&mut self, spec: &FlowSpec, width: Width) -> LastNumber {
        let ending = Arc::<Ending>::default();
        self.endings.push((spec.id, ending.clone()));
        LastNumber::new(width, ending)
    }

    async fn open_bounce(
        &mut self,
        config: &ClientConfig,
        plan: &Plan,
        spec: &FlowSpec,
        extras: &Extras,
    ) -> Result<(), TrafficError> {
        let connecting =
            session::connect_stream(plan, spec, true, self.peer, config.connect_timeout);
        let stream = connecting.await?;
        self.know(&[Some(spec)], stream.local_addr(), None);
        let framed = bounce::requests(spec, stream, extras.hold_us, !extras.no_quick_ack);
        self.end.transactions(spec, true, Exchange::Framed(framed))
    }

    async fn open_stream(
        &mut self,
        (config, plan): (&ClientConfig, &Plan),
        spec: &FlowSpec,
        back: Option<&FlowSpec>,
        (header, frames): (&Header, Option<&Isochronous>),
    ) -> Result<(), TrafficError> {
        let peer = self.peer;
        let connecting =
            session::connect_stream(plan, spec, sends(spec), peer, config.connect_timeout);
        let stream = connecting.await?;
        let lost = |reason: String| TrafficError::Lost {
            address: peer.into(),
            during: "the start of a stream",
            reason,
        };
        // A new connection has room for it.
        let bytes = header.opening_bytes();
        self.header_bytes = bytes.len() as u64;
        match stream.send(&bytes) {
            Ok(sent) if sent == bytes.len() => {}
            Ok(_) => return Err(lost("there was no room for the header".into())),
            Err(error) => return Err(lost(error.to_string())),
        }
        self.know(&[Some(spec), back], stream.local_addr(), None);
        let clone = || stream.try_clone().map_err(|error| lost(error.to_string()));
        let watched = tokio::net::TcpStream::from_std(clone()?.into());
        let mut watched = watched.map_err(|error| lost(error.to_string()))?;
        if header.awaits_ack {
            acknowledged(&mut watched, peer).await?;
        }
        if let Some(back) = back {
            self.end.stream(back, false, clone()?)?;
        }
        match frames.filter(|_| sends(spec)) {
            Some(frames) => {
                let frames = Frames::new(frames, header.frame_bytes());
                self.end.framed_stream(spec, stream, Box::new(frames))?;
            }
            None => self.end.stream(spec, sends(spec), stream)?,
        }
        self.streams.push(watched);
        Ok(())
    }
}

/// The numbers of a flow's datagrams.
pub(super) fn width(spec: &FlowSpec) -> Width {
    let is_wide = spec.connection.header == HeaderFormat::Iperf2;
    if is_wide { Width::Wide } else { Width::Narrow }
}

/// Waits for the acknowledgement of a stream's header, which servers before 2.0.10 do not send.
async fn acknowledged(
    stream: &mut tokio::net::TcpStream,
    peer: SocketAddr,
) -> Result<(), TrafficError> {
    let mut ack = [0; codec::ACK_BYTES];
    match tokio::time::timeout(ACK, stream.read_exact(&mut ack)).await {
        Ok(Ok(_)) if codec::is_ack(&ack) => Ok(()),
        Ok(Ok(_)) => Err(TrafficError::Protocol {
            address: peer.into(),
            reason: "the answer to the header is no acknowledgement of iperf2".into(),
        }),
        Ok(Err(error)) => Err(TrafficError::Lost {
            address: peer.into(),
            during: "the start of a stream",
            reason: error.to_string(),
        }),
        Err(_) => Ok(()),
    }
}
