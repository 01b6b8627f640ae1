//! Socket settings that UDP and TCP share.

use std::io;
use std::os::fd::AsFd;

use super::sockopt;
use crate::error::{Context, Result};

/// Requests a buffer beyond the system's limit if this process may, else within it.
pub(crate) fn set_buffer(fd: impl AsFd, force: i32, plain: i32, bytes: usize) -> io::Result<()> {
    // The kernel doubles the figure; half of i32::MAX is its maximum.
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX).min(i32::MAX / 2);
    sockopt::set(fd.as_fd(), libc::SOL_SOCKET, force, bytes)
        .or_else(|_| sockopt::set(fd.as_fd(), libc::SOL_SOCKET, plain, bytes))
}

/// The settings of [`crate::udp::UdpOptions`] and [`crate::tcp::TcpOptions`] that mean the same to both.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Common<'a> {
    pub(crate) v6: bool,
    /// Not a stream: multicast settings exist.
    pub(crate) datagram: bool,
    /// Absent: unchanged, of a socket that is bound.
    pub(crate) v6_only: Option<bool>,
    /// A raw socket, which has no setting of the above: it is of one family.
    pub(crate) raw: bool,
    pub(crate) reuse_port: bool,
    pub(crate) send_buffer: Option<usize>,
    pub(crate) receive_buffer: Option<usize>,
    pub(crate) priority: Option<u8>,
    pub(crate) tos: Option<u8>,
    pub(crate) ttl: Option<u8>,
    pub(crate) flow_label: Option<u32>,
    pub(crate) device: Option<&'a str>,
    pub(crate) pacing_bytes_per_second: Option<u64>,
}

impl Common<'_> {
    /// Applies them; `object` names the socket in errors.
    pub(crate) fn apply(&self, socket: &socket2::Socket, object: &str) -> Result<()> {
        let fd = socket.as_fd();
        if let Some(only) = self.v6_only.filter(|_| self.v6 && !self.raw) {
            socket.set_only_v6(only).context("set IPV6_V6ONLY on", object)?;
        }
        if self.reuse_port {
            socket.set_reuse_port(true).context("set SO_REUSEPORT on", object)?;
        }
        if let Some(bytes) = self.send_buffer {
            set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
                .context("set SO_SNDBUF on", object)?;
        }
        if let Some(bytes) = self.receive_buffer {
            set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
                .context("set SO_RCVBUF on", object)?;
        }
        if let Some(tos) = self.tos {
            if self.v6 {
                sockopt::set(fd, libc::SOL_IPV6, libc::IPV6_TCLASS, i32::from(tos))
                    .context("set IPV6_TCLASS on", object)?;
            }
            // Also on IPv6 sockets, for IPv4 peers behind mapped addresses; refused there when IPv6 only.
            let set = sockopt::set(fd, libc::SOL_IP, libc::IP_TOS, i32::from(tos));
            if !self.v6 {
                set.context("set IP_TOS on", object)?;
            }
        }
        // After the TOS, which sets a priority of its own.
        if let Some(priority) = self.priority {
            sockopt::set(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, i32::from(priority))
                .context("set SO_PRIORITY on", object)?;
        }
        if let Some(ttl) = self.ttl {
            self.set_ttl(socket, i32::from(ttl), object)?;
        }
        if self.flow_label.is_some() && self.v6 {
            sockopt::set(fd, libc::SOL_IPV6, libc::IPV6_FLOWINFO_SEND, 1)
                .context("set IPV6_FLOWINFO_SEND on", object)?;
        }
        if let Some(device) = self.device {
            socket.bind_device(Some(device.as_bytes())).context("bind to device", device)?;
        }
        if let Some(rate) = self.pacing_bytes_per_second {
            sockopt::set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)
                .context("set SO_MAX_PACING_RATE on", object)?;
        }
        Ok(())
    }

    fn set_ttl(&self, socket: &socket2::Socket, ttl: i32, object: &str) -> Result<()> {
        let set = |level, name, operation| {
            sockopt::set(socket.as_fd(), level, name, ttl).context(operation, object)
        };
        if self.v6 {
            set(libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS, "set IPV6_UNICAST_HOPS on")?;
            if self.datagram {
                set(libc::SOL_IPV6, libc::IPV6_MULTICAST_HOPS, "set IPV6_MULTICAST_HOPS on")?;
            }
            // For IPv4 peers behind mapped addresses; refused when the socket is IPv6 only.
            let _ = set(libc::SOL_IP, libc::IP_TTL, "set IP_TTL on");
            return Ok(());
        }
        set(libc::SOL_IP, libc::IP_TTL, "set IP_TTL on")?;
        if self.datagram {
            set(libc::SOL_IP, libc::IP_MULTICAST_TTL, "set IP_MULTICAST_TTL on")?;
        }
        Ok(())
    }
}

/// Puts a flow label in an IPv6 address to connect to.
pub(crate) fn with_flow_label(
    to: std::net::SocketAddr,
    label: Option<u32>,
) -> std::net::SocketAddr {
    match (to, label) {
        (std::net::SocketAddr::V6(mut v6), Some(label)) => {
            // sin6_flowinfo is in network byte order.
            v6.set_flowinfo((label & 0xf_ffff).to_be());
            v6.into()
        }
        _ => to,
    }
}

/// An address for comparison: the kernel reports the peer's with the flow label of packets sent to it.
pub(crate) fn without_flow_label(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    if let std::net::SocketAddr::V6(v6) = &mut address {
        v6.set_flowinfo(0);
    }
    address
}
