//! Datagrams that arrive: the first of a server, and the markers among them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_model::plan::{FlowSpec, Plan};
use weir_net::udp::{RecvBatch, RecvMode, UdpSocket};
use weir_traffic::TrafficError;
use weir_traffic::session::{self, Arrival, DatagramSocket, End, Signal, Signals, Workers};

use super::codec::Marker;

/// Time from the first marker to the data, ns.
pub(super) const BEGINNING_NS: u64 = 250_000_000;
/// Messages per receive call.
const MESSAGES: usize = 16;
/// Most datagrams that are stored before their flow begins.
const MAX_EARLY: usize = 1024;
/// Pause between two looks at a socket.
const LOOK: Duration = Duration::from_millis(2);

/// A datagram that has been read, and when it arrived.
pub(super) type Read = (Vec<u8>, Arrival);

/// Recognizes the end among the datagrams that this end receives.
#[derive(Debug, Default)]
pub(super) struct EndMarkers {
    is_over: bool,
}

impl Signals for EndMarkers {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        match Marker::parse(bytes) {
            None => Signal::Data,
            Some(Marker::End(_)) if !std::mem::replace(&mut self.is_over, true) => Signal::End,
            Some(_) => Signal::Message,
        }
    }
}

/// What arrives at a sender of datagrams is no data.
#[derive(Debug)]
pub(super) struct NoData;

impl Signals for NoData {
    fn classify(&mut self, _: &dyn DatagramSocket, _: &[u8], _: u64) -> Signal {
        Signal::Message
    }
}

/// Whether a datagram may be the first of a flow: the end of another test may still arrive.
pub(super) fn begins(datagram: &[u8]) -> bool {
    matches!(Marker::parse(datagram), None | Some(Marker::Begin))
}

/// When a test begins whose first datagrams are these.
pub(super) fn start_ns(early: &[Read]) -> Option<u64> {
    let (datagram, arrival) = early.first()?;
    let ahead_ns = match Marker::parse(datagram) {
        Some(Marker::Begin) if datagram.ends_with(b"0") => BEGINNING_NS,
        _ => 0,
    };
    Some(arrival.at_ns.saturating_add(ahead_ns))
}

/// Delivers datagrams that arrived before their flow was added.
pub(super) fn deliver(end: &End, flow: u32, early: &[Read], quiet_ns: u64) {
    for (datagram, arrival) in early {
        match Marker::parse(datagram) {
            None => end.deliver(flow, datagram, *arrival),
            Some(Marker::End(_)) => end.drain(quiet_ns),
            Some(_) => {}
        }
    }
}

/// A port at which a server's datagrams are expected.
pub(super) struct Expected {
    socket: UdpSocket,
    at: SocketAddr,
}

impl Expected {
    /// Opens the port.
    ///
    /// # Errors
    /// [`TrafficError::Listen`] if it is in use.
    pub(super) fn open(
        plan: &Plan,
        spec: &FlowSpec,
        at: SocketAddr,
    ) -> Result<Expected, TrafficError> {
        let listening = |error: std::io::Error| TrafficError::Listen {
            address: at.into(),
            reason: error.to_string(),
        };
        // Sockets of one user share a port: those of another program would get some of the datagrams.
        std::net::UdpSocket::bind(at).map_err(listening)?;
        let socket = session::open_datagrams(plan, spec, false, Some(at), None)?;
        Ok(Expected { socket, at })
    }

    pub(super) fn port(&self) -> u16 {
        self.at.port()
    }

    /// Waits for the first datagrams from `server`, and connects the socket to their source. What other hosts have sent is
    /// dropped.
    ///
    /// # Errors
    /// [`TrafficError::System`].
    pub(super) async fn first(
        self,
        server: IpAddr,
        workers: &Workers,
    ) -> Result<(UdpSocket, SocketAddr, Vec<Read>), TrafficError> {
        let system = |source| TrafficError::System { operation: "using a socket".into(), source };
        let mut batch = RecvBatch::new(MESSAGES, 1 << 16);
        let mut source: Option<SocketAddr> = None;
        let mut early: Vec<Read> = vec![];
        loop {
            match batch.recv(&self.socket, RecvMode::DontWait) {
                Ok(_) => {
                    for message in batch.messages() {
                        let is_own = match source {
                            Some(source) => message.from == source,
                            None => {
                                message.from.ip().to_canonical() == server.to_canonical()
                                    && begins(message.data)
                            }
                        };
                        if is_own {
                            source = Some(message.from);
                            let arrival = workers.arrival(message.kernel_realtime_ns, true);
                            early.push((message.data.to_vec(), arrival));
                        }
                    }
                    if let Some(from) = source {
                        self.socket.connect(from).map_err(system)?;
                        if early.len() >= MAX_EARLY {
                            return Ok((self.socket, from, early));
                        }
                    }
                    // A socket that is never empty must not keep the test from being stopped.
                    tokio::task::yield_now().await;
                }
                Err(_) => match source {
                    // It is empty, and only this source is received from now on.
                    Some(from) => return Ok((self.socket, from, early)),
                    None => tokio::time::sleep(LOOK).await,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_begins_after_the_first_marker() {
        let read = |datagram: &[u8]| {
            let arrival = Arrival { at_ns: 7, is_stamped: true, is_first_of_call: true };
            (datagram.to_vec(), arrival)
        };
        assert_eq!(start_ns(&[read(b"BOD0"), read(b"data and more")]), Some(7 + BEGINNING_NS));
        assert_eq!(start_ns(&[read(b"BOD1")]), Some(7));
        assert_eq!(start_ns(&[read(b"data and more")]), Some(7));
        assert_eq!(start_ns(&[]), None);
    }
}
