//! Streams to groups: each is sent once, however many servers receive it, each in a session of its own.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use weir_flow::Supply;
use weir_model::plan::{FlowSpec, GroupStream, Plan};
use weir_net::interface::{Interface, egress_interface, interface};
use weir_net::udp::{UdpOptions, UdpSocket};
use weir_wire::control::SenderTotal;

use super::connect::bind_address;
use crate::TrafficError;
use crate::engine::{Engine, Events, FlowEvent, lock};
use crate::flows::{Flow, Join, SessionFacts, SharedStream};
use crate::transport::{GroupTransport, destination};

/// The streams of a client, shared by its tests.
#[derive(Default)]
pub(super) struct Streams(Mutex<Inner>);

/// For each stream the sessions that it is part of, with its number there.
type Sessions = Arc<Mutex<Vec<Vec<(Events, u32)>>>>;

#[derive(Default)]
struct Inner {
    streams: Vec<Stream>,
    /// Where the workers report, once there is a stream.
    events: Option<Events>,
    sessions: Sessions,
}

struct Stream {
    of: GroupStream,
    flow: Flow,
    shared: Arc<SharedStream>,
}

/// What a session's part in a stream is made from.
pub(super) struct Request<'a> {
    pub(super) plan: &'a Plan,
    pub(super) spec: &'a FlowSpec,
    pub(super) stream: GroupStream,
    pub(super) server: SocketAddr,
    pub(super) facts: &'a SessionFacts,
    pub(super) engine: &'a Engine,
    pub(super) events: &'a Events,
    pub(super) supply: &'a Option<Arc<Supply>>,
}

impl Streams {
    /// A session's part in the stream of a flow, which the first session opens.
    pub(super) fn part(
        &self,
        request: &Request,
        transport: &dyn GroupTransport,
    ) -> Result<Flow, TrafficError> {
        let mut inner = lock(&self.0);
        let at = match inner.streams.iter().position(|stream| stream.of == request.stream) {
            Some(at) => at,
            None => {
                let stream = inner.open(request, transport)?;
                inner.streams.push(stream);
                inner.streams.len() - 1
            }
        };
        let spec = request.spec;
        lock(&inner.sessions)[at].push((request.events.clone(), spec.id));
        let Stream { flow, shared, .. } = &inner.streams[at];
        Ok(flow.of_session(spec.clone(), shared.clone()))
    }
}

impl Inner {
    fn open(
        &mut self,
        request: &Request,
        transport: &dyn GroupTransport,
    ) -> Result<Stream, TrafficError> {
        let Request { plan, spec, server, facts, engine, .. } = request;
        let failed = |reason: String| TrafficError::Flow {
            code: "flow",
            flow: spec.id,
            name: spec.name.clone(),
            reason,
        };
        let through = sending_interface(plan, *server).map_err(failed)?;
        if let Some(accepted) = transport.refused(spec, &through) {
            let group = destination(spec, through.index).ip();
            return Err(TrafficError::Input { field: "group", given: group.to_string(), accepted });
        }
        let to = destination(spec, through.index);
        let port = spec.connection.client_port().unwrap_or(0);
        let bind = bind_address(plan, to, 0, port).unwrap_or(UdpOptions::connect(to).bind);
        let options = transport.sender(spec, bind, &through);
        let device = plan.device.clone().or(options.device);
        let socket = UdpSocket::open(&UdpOptions { device, ..options });
        let socket = socket.map_err(|e| failed(e.to_string()))?;
        let source = socket.local_addr().map_err(|e| failed(e.to_string()))?;
        let key = crate::key::random()?;
        let number = self.streams.len() as u32 + 1;
        let events = match &self.events {
            Some(events) => events.clone(),
            None => self.events.insert(distribute(self.sessions.clone())?).clone(),
        };
        lock(&self.sessions).push(vec![]);
        let flow = Flow::datagrams(
            engine,
            &SessionFacts { key, ..(*facts).clone() },
            FlowSpec { id: number, ..(*spec).clone() },
            true,
            Arc::new(socket),
            None,
            None,
            events,
            None,
            request.supply.clone(),
        );
        let join = Join { source: Some(source), name: spec.name.clone(), key };
        let shared = Arc::new(SharedStream::new(join, flow.spec.clone()));
        Ok(Stream { of: request.stream.clone(), flow, shared })
    }
}

/// The interface through which a stream is sent: the plan's, or the one towards the first server.
fn sending_interface(plan: &Plan, server: SocketAddr) -> Result<Interface, String> {
    let name = match &plan.device {
        Some(name) => name.clone(),
        None => egress_interface(server.ip()).map_err(|e| e.to_string())?.interface,
    };
    interface(&name).map_err(|e| e.to_string())
}

/// Starts the thread that passes the events of streams on to their sessions. It ends with the last stream.
fn distribute(sessions: Sessions) -> Result<Events, TrafficError> {
    let (events, mut reported) = mpsc::unbounded_channel::<FlowEvent>();
    std::thread::Builder::new()
        .name("weir-streams".into())
        .spawn(move || {
            while let Some(event) = reported.blocking_recv() {
                let number = match &event {
                    FlowEvent::SenderDone(total) => total.flow,
                    FlowEvent::ReceiverDone(id)
                    | FlowEvent::SenderEnded(id)
                    | FlowEvent::Failed(id, _)
                    | FlowEvent::Ready(id) => *id,
                };
                let sessions = lock(&sessions);
                let index = number.wrapping_sub(1) as usize;
                for (session, id) in sessions.get(index).into_iter().flatten() {
                    let _ = session.send(numbered(&event, *id));
                }
            }
        })
        .map_err(|e| TrafficError::system("starting a thread for streams", e))?;
    Ok(events)
}

/// The event of a stream as that of flow `id` of a session.
fn numbered(event: &FlowEvent, id: u32) -> FlowEvent {
    match event {
        FlowEvent::SenderDone(total) => FlowEvent::SenderDone(SenderTotal { flow: id, ..*total }),
        FlowEvent::ReceiverDone(_) => FlowEvent::ReceiverDone(id),
        FlowEvent::SenderEnded(_) => FlowEvent::SenderEnded(id),
        FlowEvent::Failed(_, text) => FlowEvent::Failed(id, text.clone()),
        FlowEvent::Ready(_) => FlowEvent::Ready(id),
    }
}
