//! ICMP and ICMPv6 echo.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use weir_model::plan::FlowSpec;
use weir_net::udp::{
    Filling, IcmpSocket, QueuedError, RecvBatch, Sent, UdpOptions, UdpSocket, try_icmp,
};
use weir_wire::echo::Echo;

use super::{DatagramSocket, udp};
use crate::TrafficError;
use crate::engine::lock;

/// Differs between the raw sockets of this process; the tags distinguish those of other processes.
static RAW_SOCKETS: AtomicU16 = AtomicU16::new(0);

/// Why this host can't open one.
pub(super) fn unavailable() -> Option<String> {
    let error = try_icmp(false).err()?;
    Some(format!(
        "no permission for ICMP sockets ({error}): set the sysctl net.ipv4.ping_group_range to include this user's group, or grant CAP_NET_RAW (sudo setcap cap_net_raw+p weir)"
    ))
}

/// A socket that sends payloads as echo requests and receives the replies.
#[derive(Debug)]
pub struct EchoSocket {
    socket: UdpSocket,
    /// Without a port, the kernel does not report it.
    peer: IpAddr,
    pub(crate) echo: Echo,
    message: Mutex<Vec<u8>>,
}

/// The addresses of this end and of the peer, without ports.
pub(super) fn addresses(socket: &UdpSocket, peer: IpAddr) -> [String; 2] {
    let local = socket.local_addr().map(|address| address.ip().to_string());
    [local.unwrap_or_default(), peer.to_string()]
}

impl EchoSocket {
    /// Opens a socket to `peer`, a ping socket if this user may. `key` is the secret of this flow's tags.
    ///
    /// # Errors
    /// [`TrafficError::Net`].
    pub(crate) fn open(
        spec: &FlowSpec,
        bind: Option<SocketAddr>,
        device: Option<String>,
        peer: SocketAddr,
        key: &[u8; 16],
    ) -> Result<EchoSocket, TrafficError> {
        let is_v6 = peer.is_ipv6();
        let kind = match try_icmp(is_v6) {
            Ok(IcmpSocket::Raw { .. }) => {
                let own = u16::from_ne_bytes([key[0], key[1]]);
                let next = RAW_SOCKETS.fetch_add(1, Ordering::Relaxed);
                IcmpSocket::Raw { identifier: own.wrapping_add(next) }
            }
            // Where neither is permitted, opening it returns the error.
            _ => IcmpSocket::Ping,
        };
        let bind = bind.unwrap_or(UdpOptions::connect(peer).bind);
        let socket = UdpSocket::open(&UdpOptions {
            icmp: Some(kind),
            connect: Some(peer),
            device,
            v6_only: is_v6,
            timestamps: true,
            receive_errors: true,
            ..udp::options(spec, bind, false, 1)
        })?;
        let identifier = match kind {
            IcmpSocket::Raw { identifier } => identifier,
            _ => socket
                .local_addr()
                .map_err(|e| TrafficError::system("reading the identifier of an ICMP socket", e))?
                .port(),
        };
        let has_ip_header = !is_v6 && kind != IcmpSocket::Ping;
        let echo = Echo::new(is_v6, identifier, has_ip_header, key);
        Ok(EchoSocket { socket, peer: peer.ip(), echo, message: Mutex::default() })
    }

    /// Takes the next ICMP error for an earlier request.
    pub(crate) fn next_error(&self) -> Option<QueuedError> {
        self.socket.read_error_queue().ok().flatten()
    }
}

weir_net::as_socket!(EchoSocket, socket);

impl DatagramSocket for EchoSocket {
    fn send_batch(&self, _: &mut Filling<'_, '_>) -> io::Result<Sent> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.socket.recv_batch(batch)
    }

    fn send_control(&self, payload: &[u8]) -> io::Result<usize> {
        let mut message = lock(&self.message);
        self.echo.encode(payload, &mut message);
        self.socket.send(&message)
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn overflow(&self) -> Option<u32> {
        self.socket.overflow()
    }

    /// It has no ports.
    fn addresses(&self) -> [String; 2] {
        addresses(&self.socket, self.peer)
    }

    fn buffer_bytes(&self, send: bool) -> Option<u64> {
        self.socket.buffer_bytes(send)
    }

    fn echo(&self) -> Option<&EchoSocket> {
        Some(self)
    }
}
