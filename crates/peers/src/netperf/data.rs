//! The data socket of a test at the server: it listens on a port of its own, and takes data from the host of the control
//! connection alone.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_model::plan::{FlowSpec, Plan};
use weir_net::tcp::TcpListener;
use weir_net::udp::UdpSocket;
use weir_traffic::TrafficError;
use weir_traffic::session::{self, DatagramSocket, Signal, Signals};

use super::codec::{self, Direction, Protocol, Request, errno, refuse};

/// First port that a client may choose.
const FIRST_PORT: u16 = 1024;
/// Pause after a failure of the system.
const PAUSE: Duration = Duration::from_millis(10);

/// An open data socket.
pub(super) enum DataSocket {
    Listener(TcpListener),
    Datagrams(UdpSocket),
}

/// Datagrams of a test: an empty one ends it.
#[derive(Debug)]
pub(super) struct EmptyEnds;

impl Signals for EmptyEnds {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        if bytes.is_empty() { Signal::End } else { Signal::Data }
    }
}

/// Where the data of a request arrives: the address that the client stated, or reached by the control connection.
///
/// # Errors
/// [`codec::Refused`] for an address of another family, or that this server does not listen on, and for ports below 1024.
pub(super) fn place(
    request: &Request,
    local: SocketAddr,
    bound: &[IpAddr],
) -> Result<SocketAddr, codec::Refused> {
    let reached = local.ip().to_canonical();
    if request.is_ipv6 != reached.is_ipv6() {
        let text = "data over another address family than that of the control connection";
        return refuse(errno::FAMILY, text);
    }
    if (1..FIRST_PORT).contains(&request.data_port) {
        return refuse(errno::ADDRESS, format!("data port {}", request.data_port));
    }
    let mut at = match local {
        SocketAddr::V6(_) if reached.is_ipv4() => SocketAddr::new(reached, 0),
        local => local,
    };
    if let Some(stated) = request.server_address.filter(|stated| *stated != reached) {
        if !bound.is_empty() && !bound.contains(&stated) {
            return refuse(errno::ADDRESS, format!("data address {stated}"));
        }
        at = SocketAddr::new(stated, 0);
    }
    at.set_port(request.data_port);
    Ok(at)
}

/// Opens the data socket of a request at an address. `client`: the host of the control connection.
///
/// # Errors
/// [`codec::Refused`] with the system's error number.
pub(super) fn open(
    request: &Request,
    plan: &Plan,
    spec: &FlowSpec,
    at: SocketAddr,
    client: IpAddr,
) -> Result<DataSocket, codec::Refused> {
    let sends = request.direction == Direction::Send;
    let failed = |error: TrafficError| codec::Refused {
        number: match &error {
            TrafficError::Net(error) => error.raw_os_error().unwrap_or(errno::INVALID),
            _ => errno::INVALID,
        },
        text: error.to_string(),
    };
    if request.protocol == Protocol::Tcp {
        return session::listen_flow(spec, sends, at).map(DataSocket::Listener).map_err(failed);
    }
    if at.port() > 0 {
        // Sockets of sessions share a port that several ask for: each would get datagrams of the others.
        std::net::UdpSocket::bind(at).map_err(|error| codec::Refused {
            number: error.raw_os_error().unwrap_or(errno::ADDRESS),
            text: format!("UDP {at}: {error}"),
        })?;
    }
    let to = match (sends, request.client_port) {
        (false, _) => None,
        (true, 0) => return refuse(errno::ADDRESS, "datagrams to a client without a port"),
        (true, port) => Some(SocketAddr::new(client, port)),
    };
    let opened = session::open_datagrams(plan, spec, sends, Some(at), to);
    opened.map(DataSocket::Datagrams).map_err(failed)
}

impl DataSocket {
    pub(super) fn port(&self) -> u16 {
        let local = match self {
            DataSocket::Listener(listener) => listener.local_addr(),
            DataSocket::Datagrams(socket) => socket.local_addr(),
        };
        local.map_or(0, |local| local.port())
    }

    /// Send and receive buffer, bytes.
    pub(super) fn buffers(&self) -> [u32; 2] {
        let buffers = match self {
            DataSocket::Listener(listener) => listener.buffers().unwrap_or_default(),
            DataSocket::Datagrams(socket) => {
                [socket.send_buffer(), socket.receive_buffer()].map(io::Result::unwrap_or_default)
            }
        };
        buffers.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

/// The next connection of `client`. Those of other hosts are closed.
pub(super) async fn accept(
    listener: &tokio::net::TcpListener,
    client: IpAddr,
) -> io::Result<(weir_net::tcp::TcpStream, SocketAddr)> {
    loop {
        match listener.accept().await {
            Ok((stream, from)) if from.ip().to_canonical() == client => {
                return Ok((stream.into_std()?.into(), from));
            }
            Ok(_) => {}
            // Out of descriptors, or a connection that is gone already.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Connects a socket to the port of `client` from which the first datagram comes; the datagram stays in the socket. Those of
/// other hosts are dropped until then.
pub(super) async fn connected(socket: UdpSocket, client: IpAddr) -> io::Result<UdpSocket> {
    let socket = tokio::net::UdpSocket::from_std(socket.into())?;
    let mut byte = [0];
    loop {
        match socket.peek_from(&mut byte).await {
            Ok((_, from)) if from.ip().to_canonical() == client => {
                socket.connect(from).await?;
                return Ok(socket.into_std()?.into());
            }
            Ok(_) => drop(socket.try_recv_from(&mut byte)),
            // Reading a pending ICMP error clears it.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str, port: u16) -> Request {
        let address: IpAddr = text.parse().unwrap();
        Request {
            data_port: port,
            server_address: (!address.is_unspecified()).then_some(address),
            is_ipv6: address.is_ipv6(),
            ..super::super::codec::example()
        }
    }

    #[test]
    fn data_arrives_where_the_control_connection_does_or_at_a_stated_address_of_the_server() {
        let local = "192.0.2.1:12865".parse().unwrap();
        let bound = ["192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap()];
        let found = |request: &Request, bound: &[IpAddr]| {
            place(request, local, bound).map(|at| at.to_string()).map_err(|refused| refused.number)
        };
        assert_eq!(found(&request("0.0.0.0", 0), &bound), Ok("192.0.2.1:0".into()));
        assert_eq!(found(&request("192.0.2.2", 5000), &bound), Ok("192.0.2.2:5000".into()));
        assert_eq!(found(&request("192.0.2.3", 0), &[]), Ok("192.0.2.3:0".into()));
        assert_eq!(found(&request("192.0.2.3", 0), &bound), Err(errno::ADDRESS));
        assert_eq!(found(&request("0.0.0.0", 1023), &bound), Err(errno::ADDRESS));
        assert_eq!(found(&request("::", 0), &bound), Err(errno::FAMILY));
        // A control connection to an IPv4 address behind a mapped one.
        let mapped = "[::ffff:192.0.2.1]:12865".parse().unwrap();
        let at = place(&request("0.0.0.0", 0), mapped, &[]).unwrap();
        assert_eq!(at.to_string(), "192.0.2.1:0");
    }
}
