//! The server. A stream is a session with a record; datagrams are answered without sessions.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_model::plan::{ConnectionFields, Direction, Echo, HeaderFormat, Plan, Transport};
use weir_model::units::{SendRate, Span};
use weir_net::clock::Clock;
use weir_net::tcp::TcpListener;
use weir_net::udp::{RecvMessage, UdpSocket};
use weir_traffic::session::{self, Workers};
use weir_traffic::{ServerEvent, Stop, TrafficError};

use crate::reflector::{self, Counts, Reflect, Reflector};
use crate::sessions::{self, Bounds, SessionEvent};
use crate::{ServeConfig, Server};

/// The server before it runs.
struct EchoServer {
    streams: Vec<TcpListener>,
    datagrams: Vec<(UdpSocket, SocketAddr)>,
    bound: Vec<SocketAddr>,
    workers: Workers,
    clock: Clock,
    bounds: Bounds,
}

/// Listens for streams and datagrams.
pub(super) fn open(config: &ServeConfig) -> Result<Box<dyn Server>, TrafficError> {
    let (streams, bound) = session::listen_streams(&config.bind, config.port)?;
    let mut datagrams = vec![];
    for address in &bound {
        datagrams.extend(reflector::listen(&[address.ip()], address.port())?);
    }
    Ok(Box::new(EchoServer {
        streams,
        datagrams,
        bound,
        workers: Workers::start(&config.workers)?,
        clock: config.workers.clock.clone(),
        bounds: Bounds::of(&config.limits),
    }))
}

/// The plan of a stream, at this end: what arrives is counted and sent back.
fn plan() -> Plan {
    let fields = ConnectionFields {
        transport: Transport::tcp().name(),
        direction: Direction::Reverse,
        header: HeaderFormat::None,
        echo: Some(Echo::Whole),
        rate: Some(SendRate::UNLIMITED),
        duration: Some(Span(0)),
        ..ConnectionFields::default()
    };
    Plan { latency: false, connections: vec![fields.into()], ..Plan::default() }
}

/// Sends back a datagram as it is.
struct Same;

impl Reflect for Same {
    fn reply(&mut self, request: &RecvMessage<'_>, reply: &mut Vec<u8>) -> bool {
        reply.extend_from_slice(request.data);
        true
    }
}

impl Server for EchoServer {
    fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.clone()
    }

    fn run(
        self: Box<Self>,
        stop: &Stop,
        observe: &mut dyn FnMut(ServerEvent),
    ) -> Result<(), TrafficError> {
        let EchoServer { streams, datagrams, workers, clock, bounds, .. } = *self;
        let counts: Arc<Counts> = Arc::default();
        let counting = counts.clone();
        let front = |_: &_| Reflector::start(datagrams, clock, Same, counting);
        let mut on_event = |event: SessionEvent| {
            observe(event.of_server(super::PROTOCOL.name, |_| plan(), bounds.sessions));
            true
        };
        let streams = (streams, plan());
        let serving =
            sessions::receive(streams, workers, (bounds, false), stop, front, &mut on_event);
        crate::runtime()?.block_on(serving)?;
        observe(counts.event());
        Ok(())
    }
}
