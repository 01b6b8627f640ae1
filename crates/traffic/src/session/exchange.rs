//! Transactions with an end of another tool: messages of the stated sizes, on one socket or on a connection for each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_model::plan::{FlowSpec, Plan};
use weir_net::tcp::{TcpOptions, TcpStream};
use weir_net::udp::UdpSocket;

use super::{End, Share, not_a, planned_bind};
use crate::engine::{Accepted, Dial, Dialling, Framed, Link, Messages};
use crate::flows::Flow;
use crate::framing::Framing;
use crate::signals::Signals;
use crate::{TrafficError, transport};

/// Maximum length of a message with a header, bytes.
const MAX_FRAMED: u64 = 64 << 10;

/// What the messages of a flow are exchanged on.
pub enum Exchange<'a> {
    /// One connection.
    Stream(TcpStream),
    /// One connection, whose messages begin with a header of the protocol, one request in flight at a time. A server sends back
    /// each request, with its header changed.
    Framed(FramedStream),
    /// A connected socket of datagrams, and the protocol's messages among them. Datagrams have no numbers: a response
    /// answers the latest request, so that the client has one in flight.
    Datagrams(UdpSocket, Box<dyn Signals>),
    /// A connection for each, from this end to the address, with the options of the plan.
    Connect(&'a Plan, SocketAddr),
    /// A connection for each, accepted by this end ([`End::accept`]): its address, and the peer's.
    Accept(SocketAddr, SocketAddr),
}

/// A connection whose messages have headers.
pub struct FramedStream {
    /// The connection.
    pub stream: TcpStream,
    /// Its headers: those of a client's requests, or of a server's responses.
    pub framing: Box<dyn Framing>,
    /// Time from a request's arrival to its response, ns.
    pub hold_ns: u64,
    /// What a server has read of the first request.
    pub begun: Vec<u8>,
}

impl End {
    /// Adds transactions. `is_client`: this end sends the requests. Of this end's [`Plan`], the loss threshold limits the wait
    /// for a response that may be lost.
    ///
    /// # Errors
    /// [`TrafficError::Unavailable`] for another transport than the one stated, or another shape than rr, crr and cc.
    pub fn transactions(
        &mut self,
        spec: &FlowSpec,
        is_client: bool,
        on: Exchange,
    ) -> Result<(), TrafficError> {
        let shape = spec.connection.shape;
        if !shape.has_transactions() || shape.has_volumes() {
            return Err(not_a(spec, "flow of transactions"));
        }
        let stream = || transport::stream(spec).ok_or_else(|| not_a(spec, "stream"));
        let mut framed = None;
        let connected = |connected: TcpStream| {
            let transport = stream()?;
            connected
                .set_nonblocking(true)
                .map_err(|e| TrafficError::system("using a connection", e))?;
            Ok::<_, TrafficError>((Link::Stream(transport.socket(spec, connected)), None))
        };
        let (link, dial) = match on {
            Exchange::Stream(stream) => connected(stream)?,
            Exchange::Framed(FramedStream { stream, framing, hold_ns, begun }) => {
                let bytes = spec.connection.request_bytes();
                if bytes != spec.connection.response_bytes()
                    || bytes > MAX_FRAMED
                    || begun.len() as u64 > bytes
                {
                    return Err(not_a(spec, "flow of framed transactions"));
                }
                framed = Some(Framed::new(framing, hold_ns, begun));
                connected(stream)?
            }
            Exchange::Datagrams(socket, signals) => {
                (Link::Datagrams { socket: Arc::new(socket), signals, proof: None }, None)
            }
            Exchange::Connect(plan, to) => {
                let transport = stream()?;
                let options = TcpOptions {
                    bind: planned_bind(plan, spec, to),
                    device: plan.device.clone(),
                    nonblocking: true,
                    ..transport.options(spec, true)
                };
                let local = options.bind.map_or_else(String::new, |bind| bind.ip().to_string());
                let dial = Dial {
                    transport,
                    spec: spec.clone(),
                    server: to.into(),
                    options,
                    sources: plan.bind,
                    ports: spec.connection.client_ports(),
                    turn: 0,
                    preface: None,
                };
                let link = Link::Absent([local, to.to_string()]);
                (link, Some(Dialling::Streams(Box::new(dial))))
            }
            Exchange::Accept(local, peer) => {
                (Link::Absent([local.to_string(), peer.ip().to_string()]), None)
            }
        };
        let (engine, events) = (&self.engine, self.events.clone());
        let (spec, messages) = (spec.clone(), Messages { link, framed });
        let flow = Flow::transactions(engine, &self.facts, spec, is_client, messages, dial, events);
        self.flows.push(flow);
        Ok(())
    }

    /// Takes a connection of one transaction. `share`: its part of a limit. It is closed when no part of its request arrives,
    /// and none of its response is taken, for `patience`.
    ///
    /// # Errors
    /// [`TrafficError::Unavailable`] for a transport without streams; [`TrafficError::System`].
    pub fn accept(
        &self,
        spec: &FlowSpec,
        connected: TcpStream,
        share: Share,
        patience: Duration,
    ) -> Result<(), TrafficError> {
        let transport = transport::stream(spec).ok_or_else(|| not_a(spec, "stream"))?;
        let using = |e| TrafficError::system("using a connection", e);
        connected.set_nonblocking(true).map_err(using)?;
        let socket = transport.socket(spec, connected);
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let flow = self.flow(spec.id).ok_or_else(|| not_a(spec, "flow of this end"))?;
        flow.accept(&self.engine, Accepted { socket, _share: share, patience_ns });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
