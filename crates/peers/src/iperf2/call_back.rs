//! Tests in which the server connects back to the client: at the same time (`-d`), or after the client has sent (`-r`). What the
//! server then sends has no header; it sends as much as the client's header states.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;
use weir_model::plan::{FlowSpec, Plan};
use weir_net::tcp::{TcpListener, TcpStream};
use weir_net::udp::{RecvBatch, RecvMode, UdpSocket};
use weir_traffic::TrafficError;
use weir_traffic::session::{self, Arrival, Workers};

/// How long a server may take to connect back. One that has received a stream first finishes its own report.
const CALL: Duration = Duration::from_secs(5);
/// Pause between two looks for its first datagram.
const LOOK: Duration = Duration::from_millis(5);
/// Messages per receive call.
const MESSAGES: usize = 16;
/// Maximum number of datagrams that are stored until their flow has a socket.
const MAX_EARLY: usize = 4096;

/// How a server of iperf2 is asked to connect back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallBack {
    /// After this end has sent, as with iperf's `-r`; otherwise at the same time, as with `-d`.
    pub is_after: bool,
    /// The port on which this end listens; absent: chosen by the system.
    pub port: Option<u16>,
}

/// What listens for the server.
enum Socket {
    Streams(tokio::net::TcpListener),
    Datagrams(UdpSocket, SocketAddr),
}

/// This end, listening for the server.
pub(super) struct Listening {
    socket: Socket,
    /// The server's host, which alone may connect.
    host: IpAddr,
    pub(super) port: u16,
    pub(super) is_after: bool,
}

/// A socket on which the server sends.
pub(super) enum Called {
    Stream(TcpStream),
    /// The first datagrams arrived on another socket.
    Datagrams(UdpSocket, Vec<(Vec<u8>, Arrival)>),
}

impl Listening {
    /// Listens for the flow of `spec`, at the plan's own address or any of the server's family.
    ///
    /// # Errors
    /// A port that is in use.
    pub(super) fn open(
        asked: CallBack,
        plan: &Plan,
        spec: &FlowSpec,
        peer: SocketAddr,
    ) -> Result<Self, TrafficError> {
        let any: IpAddr = match peer.is_ipv6() {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let ip = plan.bind.map_or(any, |bind| bind.first());
        let at = SocketAddr::new(ip, asked.port.unwrap_or(0));
        let failed = |error: &dyn std::fmt::Display| TrafficError::Listen {
            address: at.into(),
            reason: error.to_string(),
        };
        let (socket, port) = if spec.connection.transport.datagrams() {
            let socket = session::open_datagrams(plan, spec, false, Some(at), None);
            let socket = socket.map_err(|error| failed(&error))?;
            let port = socket.local_addr().map_err(|error| failed(&error))?.port();
            (Socket::Datagrams(socket, SocketAddr::new(ip, port)), port)
        } else {
            let listener: TcpListener =
                session::listen_flow(spec, false, at).map_err(|error| failed(&error))?;
            let listener = tokio::net::TcpListener::from_std(listener.into());
            let listener = listener.map_err(|error| failed(&error))?;
            let port = listener.local_addr().map_err(|error| failed(&error))?.port();
            (Socket::Streams(listener), port)
        };
        let host = peer.ip().to_canonical();
        Ok(Listening { socket, host, port, is_after: asked.is_after })
    }

    /// Waits for the server's next connection or first datagram.
    ///
    /// # Errors
    /// [`TrafficError::Lost`] without one.
    pub(super) async fn next(
        &self,
        plan: &Plan,
        spec: &FlowSpec,
        workers: &Workers,
    ) -> Result<Called, TrafficError> {
        let lost = |reason: String| TrafficError::Lost {
            address: SocketAddr::new(self.host, self.port).into(),
            during: "the server's connection to this end",
            reason,
        };
        let called = async {
            match &self.socket {
                Socket::Streams(listener) => self.stream(listener).await,
                Socket::Datagrams(socket, local) => {
                    self.datagrams(socket, *local, plan, spec, workers).await
                }
            }
        };
        match tokio::time::timeout(CALL, called).await {
            Ok(called) => called.map_err(|error| lost(error.to_string())),
            Err(_) => {
                let transport = spec.connection.transport.name().title();
                Err(lost(format!("the server did not use {transport} port {}", self.port)))
            }
        }
    }

    async fn stream(&self, listener: &tokio::net::TcpListener) -> Result<Called, TrafficError> {
        let failed = |source| super::system("accepting a connection", source);
        loop {
            let (stream, from) = listener.accept().await.map_err(failed)?;
            if from.ip().to_canonical() == self.host {
                let stream = stream.into_std().map_err(failed)?;
                return Ok(Called::Stream(stream.into()));
            }
        }
    }

    async fn datagrams(
        &self,
        socket: &UdpSocket,
        local: SocketAddr,
        plan: &Plan,
        spec: &FlowSpec,
        workers: &Workers,
    ) -> Result<Called, TrafficError> {
        let mut batch = RecvBatch::new(MESSAGES, 1 << 16);
        let mut early: Vec<(SocketAddr, (Vec<u8>, Arrival))> = vec![];
        loop {
            self.read(socket, &mut batch, workers, &mut early);
            let Some((from, _)) = early.first() else {
                tokio::time::sleep(LOOK).await;
                continue;
            };
            let from = *from;
            let own = session::open_datagrams(plan, spec, false, Some(local), Some(from))?;
            // Datagrams of any source may have reached the socket before it was connected.
            self.read(socket, &mut batch, workers, &mut early);
            self.read(&own, &mut batch, workers, &mut early);
            let of_source = early.into_iter().filter(|(source, _)| *source == from);
            return Ok(Called::Datagrams(own, of_source.map(|(_, read)| read).collect()));
        }
    }

    /// Reads what the server's host has sent.
    fn read(
        &self,
        socket: &UdpSocket,
        batch: &mut RecvBatch,
        workers: &Workers,
        early: &mut Vec<(SocketAddr, (Vec<u8>, Arrival))>,
    ) {
        let until = Instant::now() + LOOK;
        while early.len() < MAX_EARLY && Instant::now() < until {
            let Ok(got) = batch.recv(socket, RecvMode::DontWait) else { return };
            for message in batch.messages() {
                if message.from.ip().to_canonical() == self.host {
                    let arrival = workers.arrival(message.kernel_realtime_ns, early.is_empty());
                    early.push((message.from, (message.data.to_vec(), arrival)));
                }
            }
            if got < batch.capacity() {
                return;
            }
        }
    }
}
