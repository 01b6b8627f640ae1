//! Where to measure: over loopback, or between hosts of a lab, whose sockets are opened inside and used from here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_lab::Lab;
use weir_net::tcp::{TcpListener, TcpOptions, TcpStream};
use weir_net::udp::{UdpOptions, UdpSocket};

use crate::Error;
use crate::error::Context;

/// Receive buffer for 10 ms at high rates, within the system's limit.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Timeout of a connection within one machine.
const CONNECT_NS: u64 = 2_000_000_000;

/// A path from a sender to a receiver.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    lab: Option<&'a Lab>,
    from: IpAddr,
    to: IpAddr,
}

impl<'a> Path<'a> {
    pub(crate) fn loopback() -> Path<'static> {
        let local = Ipv4Addr::LOCALHOST.into();
        Path { lab: None, from: local, to: local }
    }

    /// From `a` to `b`.
    pub(crate) fn lab(lab: &'a Lab) -> Result<Self, Error> {
        let (from, to) = (lab.host("a")?.ipv4.into(), lab.host("b")?.ipv4.into());
        Ok(Path { lab: Some(lab), from, to })
    }

    /// Prefix of the figures' names.
    pub(crate) fn name(&self) -> &'static str {
        if self.lab.is_some() { "lab" } else { "loopback" }
    }

    fn at<T: Send>(&self, host: &str, open: impl FnOnce() -> T + Send) -> Result<T, Error> {
        match self.lab {
            Some(lab) => Ok(lab.run_in(host, open)?),
            None => Ok(open()),
        }
    }

    /// A connected sender and its receiver, which takes stamps or coalesced datagrams.
    pub(crate) fn udp(&self, stamps: bool, gro: bool) -> Result<(UdpSocket, UdpSocket), Error> {
        let receive = UdpOptions {
            receive_buffer: Some(RECEIVE_BUFFER),
            timestamps: stamps,
            gro,
            nonblocking: true,
            ..UdpOptions::bind(SocketAddr::new(self.to, 0))
        };
        let receiver = self.at("b", || UdpSocket::open(&receive))??;
        let to = receiver.local_addr().context("read address of", "the receiver")?;
        let send =
            UdpOptions { connect: Some(to), ..UdpOptions::bind(SocketAddr::new(self.from, 0)) };
        let sender = self.at("a", || UdpSocket::open(&send))??;
        Ok((sender, receiver))
    }

    /// Both ends of a connection, the sender's first.
    pub(crate) fn tcp(&self) -> Result<(TcpStream, TcpStream), Error> {
        let at = SocketAddr::new(self.to, 0);
        let listener = self.at("b", || TcpListener::open(at, &TcpOptions::default(), 1))??;
        let to = listener.local_addr().context("read address of", "the listener")?;
        let options = TcpOptions::default();
        let sender = self.at("a", || TcpStream::connect(to, &options, Some(CONNECT_NS)))??;
        // The handshake is complete, so this does not wait.
        let (receiver, _) = listener.accept(false).context("accept on", to.to_string())?;
        Ok((sender, receiver))
    }
}
