//! The TCP sockets of Linux.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::memfile::MemFile;
use super::options::{Common, with_flow_label, without_flow_label};
use super::sockopt::{self, retry};
use super::{error_queue, udp};
use crate::error::{Context, Error, Result};
use crate::socket::{AsSocket, borrow};
use crate::tcp::{TcpInfo, TcpOptions, ZeroCopyCompletion};
use crate::udp::{ErrorOrigin, SocketMemory};

/// A TCP connection.
#[derive(Debug)]
pub struct TcpStream {
    socket: Socket,
}

/// A listening TCP socket; its connections inherit its settings.
#[derive(Debug)]
pub struct TcpListener {
    socket: Socket,
}

macro_rules! descriptor {
    ($name:ident, $std:ty) => {
        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.socket.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.socket.as_raw_fd()
            }
        }

        impl From<$name> for OwnedFd {
            fn from(this: $name) -> OwnedFd {
                this.socket.into()
            }
        }

        impl From<$name> for $std {
            fn from(this: $name) -> $std {
                this.socket.into()
            }
        }

        impl From<$std> for $name {
            fn from(this: $std) -> $name {
                $name { socket: this.into() }
            }
        }
    };
}

descriptor!(TcpStream, std::net::TcpStream);
descriptor!(TcpListener, std::net::TcpListener);

fn open(like: SocketAddr, options: &TcpOptions, object: &str) -> Result<Socket> {
    let domain = if like.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let protocol = options.protocol.map_or(Protocol::TCP, Protocol::from);
    let socket =
        Socket::new(domain, Type::STREAM, Some(protocol)).context("open TCP socket for", object)?;
    apply(&socket, like, Some(options.v6_only), options, object)?;
    Ok(socket)
}

/// Sets the options of a socket of the family of `like`. `v6_only`: only before it is bound.
fn apply(
    socket: &Socket,
    like: SocketAddr,
    v6_only: Option<bool>,
    options: &TcpOptions,
    object: &str,
) -> Result<()> {
    let common = Common {
        v6: like.is_ipv6(),
        datagram: false,
        v6_only,
        raw: false,
        reuse_port: options.reuse_port,
        send_buffer: options.send_buffer,
        receive_buffer: options.receive_buffer,
        priority: options.priority,
        tos: options.tos,
        ttl: options.ttl,
        flow_label: options.flow_label,
        device: options.device.as_deref(),
        pacing_bytes_per_second: options.pacing_bytes_per_second,
    };
    common.apply(socket, object)?;
    let fd = socket.as_fd();
    if let Some(mss) = options.mss {
        sockopt::set(fd, libc::SOL_TCP, libc::TCP_MAXSEG, i32::from(mss))
            .context("set TCP_MAXSEG on", object)?;
    }
    if let Some(name) = &options.congestion_control {
        sockopt::set_slice(fd, libc::SOL_TCP, libc::TCP_CONGESTION, name.as_bytes())
            .context("set congestion control to", name.as_str())?;
    }
    if options.nodelay {
        socket.set_tcp_nodelay(true).context("set TCP_NODELAY on", object)?;
    }
    if options.cork {
        sockopt::set(fd, libc::SOL_TCP, libc::TCP_CORK, 1).context("set TCP_CORK on", object)?;
    }
    if let Some(seconds) = options.keepalive_seconds {
        let idle = Duration::from_secs(u64::from(seconds.max(1)));
        let keepalive = TcpKeepalive::new().with_time(idle).with_interval(idle);
        socket.set_tcp_keepalive(&keepalive).context("set SO_KEEPALIVE on", object)?;
    }
    if let Some(ms) = options.user_timeout_ms {
        sockopt::set(fd, libc::SOL_TCP, libc::TCP_USER_TIMEOUT, ms)
            .context("set TCP_USER_TIMEOUT on", object)?;
    }
    if options.zerocopy {
        sockopt::set(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1)
            .context("set SO_ZEROCOPY on", object)?;
    }
    Ok(())
}

/// Checks that the kernel accepts a congestion control by this name for a new connection, loading a module if it may.
///
/// # Errors
/// The kernel's: `NotFound` for a name that it does not know, `PermissionDenied` for one that only root may use.
pub fn try_congestion_control(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    sockopt::set_slice(socket.as_fd(), libc::SOL_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

/// Checks that the kernel opens stream sockets of this protocol number.
///
/// # Errors
/// The kernel's: `EPROTONOSUPPORT` where it does not have the protocol, `ENOPROTOOPT` where it is switched off.
pub fn try_protocol(protocol: i32) -> io::Result<()> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(protocol))).map(drop)
}

/// The congestion controls that are loaded.
///
/// # Errors
/// Those of reading `/proc`.
pub fn available_congestion_controls() -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    Ok(text.split_whitespace().map(Into::into).collect())
}

/// Stores a flow label in a socket that is not bound yet, for the connections that it will accept.
///
/// The kernel has no option for that: a socket takes its label from the address of `connect`, and accepted connections
/// copy the listener's. So this connects to an IPv4-mapped address, which a socket for IPv6 alone refuses after it has
/// stored the label and before it sends anything.
fn set_listener_flow_label(socket: &Socket, label: u32) -> io::Result<()> {
    socket.set_only_v6(true)?;
    let refused = SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 9);
    match socket.connect(&with_flow_label(refused, Some(label)).into()) {
        Err(e) if e.raw_os_error() == Some(libc::ENETUNREACH) => Ok(()),
        Err(e) => Err(e),
        Ok(()) => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl TcpListener {
    /// Listens on `address` with room for `backlog` connections not yet accepted (the system's `somaxconn` at most).
    /// `SO_REUSEADDR` is set, so that a server can restart immediately.
    pub fn open(address: SocketAddr, options: &TcpOptions, backlog: u32) -> Result<Self> {
        let object = address.to_string();
        let socket = open(address, options, &object)?;
        if let (SocketAddr::V6(v6), Some(label)) = (address, options.flow_label)
            && v6.ip().to_ipv4_mapped().is_none()
        {
            set_listener_flow_label(&socket, label)
                .and_then(|()| socket.set_only_v6(options.v6_only))
                .context("set a flow label on", &object)?;
        }
        socket.set_reuse_address(true).context("set SO_REUSEADDR on", &object)?;
        socket.bind(&address.into()).context("bind TCP listener to", &object)?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX)).context("listen on", &object)?;
        socket.set_nonblocking(options.nonblocking).context("set non-blocking", &object)?;
        Ok(TcpListener { socket })
    }

    /// Accepts the next connection; `nonblocking`: its calls do not block.
    pub fn accept(&self, nonblocking: bool) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, from) = self.socket.accept()?;
        socket.set_nonblocking(nonblocking)?;
        let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        Ok((TcpStream { socket }, without_flow_label(from)))
    }

    /// The address listened on.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Bytes of send and of receive buffer that its connections begin with.
    pub fn buffers(&self) -> io::Result<[usize; 2]> {
        Ok([self.socket.send_buffer_size()?, self.socket.recv_buffer_size()?])
    }
}

/// Lets a TCP socket accept more data only while fewer than `bytes` are unsent (`TCP_NOTSENT_LOWAT`).
pub fn limit_unsent(socket: &impl AsSocket, bytes: u32) -> io::Result<()> {
    sockopt::set(borrow(socket), libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// Bytes written to a TCP socket and not yet acknowledged by the peer (`SIOCOUTQ`).
pub fn unacknowledged_bytes(socket: &(impl AsSocket + ?Sized)) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (the same number as TIOCOUTQ) writes one int.
    let rc = unsafe { libc::ioctl(borrow(socket).as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if rc == 0 { Ok(u32::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

impl TcpStream {
    /// Connects to `to`; gives up with `TimedOut` after `timeout_ns` (the system's own limit, about two minutes: `None`).
    pub fn connect(to: SocketAddr, options: &TcpOptions, timeout_ns: Option<u64>) -> Result<Self> {
        let object = to.to_string();
        let socket = Self::prepare(to, options, &object)?;
        let to = with_flow_label(to, options.flow_label).into();
        match timeout_ns {
            Some(ns) => socket.connect_timeout(&to, Duration::from_nanos(ns.max(1))),
            None => socket.connect(&to),
        }
        .context("connect to", &object)?;
        socket.set_nonblocking(options.nonblocking).context("set non-blocking", &object)?;
        Ok(TcpStream { socket })
    }

    /// Starts to connect and returns immediately with a non-blocking socket: it is connected when it becomes writable
    /// and [`TcpStream::take_error`] has nothing.
    pub fn start_connect(to: SocketAddr, options: &TcpOptions) -> Result<Self> {
        let object = to.to_string();
        let socket = Self::prepare(to, options, &object)?;
        socket.set_nonblocking(true).context("set non-blocking", &object)?;
        match socket.connect(&with_flow_label(to, options.flow_label).into()) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => {
                Err(e).context("connect to", &object)
            }
            _ => Ok(TcpStream { socket }),
        }
    }

    fn prepare(to: SocketAddr, options: &TcpOptions, object: &str) -> Result<Socket> {
        let socket = open(to, options, object)?;
        if let Some(bind) = options.bind {
            if bind.is_ipv4() != to.is_ipv4() {
                let object = format!("{to} from {bind}");
                return Err(Error::Refused {
                    operation: "connect",
                    object,
                    reason: "both must be of one family",
                });
            }
            if bind.port() != 0 {
                socket.set_reuse_address(true).context("set SO_REUSEADDR on", object)?;
            } else {
                // Leaves the choice of port to connect, so that one port serves several destinations.
                sockopt::set(socket.as_fd(), libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
                    .context("set IP_BIND_ADDRESS_NO_PORT on", object)?;
            }
            socket.bind(&bind.into()).context("bind TCP socket to", bind.to_string())?;
        }
        Ok(socket)
    }

    /// The local address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The same connection once more, for another worker.
    pub fn try_clone(&self) -> io::Result<TcpStream> {
        Ok(TcpStream { socket: self.socket.try_clone()? })
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        let address = self.socket.peer_addr()?.as_socket();
        address.map(without_flow_label).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The IPv6 flow label of sent packets, if one was requested ([`TcpOptions::flow_label`]).
    pub fn flow_label(&self) -> io::Result<Option<u32>> {
        let peer = self.socket.peer_addr()?.as_socket_ipv6();
        // sin6_flowinfo is in network byte order.
        let label = peer.map(|peer| u32::from_be(peer.flowinfo()) & 0xf_ffff);
        Ok(label.filter(|label| *label != 0))
    }

    /// Whether calls return `WouldBlock` where they would wait.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    /// Sends from `buffer`; returns how many bytes were accepted.
    #[inline]
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.send_flags(buffer, 0)
    }

    fn send_flags(&self, buffer: &[u8], flags: i32) -> io::Result<usize> {
        let flags = flags | libc::MSG_NOSIGNAL;
        // SAFETY: `buffer` is readable for its length through the call.
        retry(|| unsafe {
            libc::send(self.as_raw_fd(), buffer.as_ptr().cast(), buffer.len(), flags)
        })
    }

    /// Receives into `buffer`; 0 is the end of the stream.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_flags(buffer, 0)
    }

    /// Reads ahead: the bytes stay for the next receive.
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv_flags(buffer, libc::MSG_PEEK)
    }

    fn recv_flags(&self, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
        // SAFETY: `buffer` is writable for its length through the call.
        retry(|| unsafe {
            libc::recv(self.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags)
        })
    }

    /// Discards up to `most` received bytes without copying them anywhere (`MSG_TRUNC`, `tcp(7)`); 0 is the end.
    #[inline]
    pub fn recv_discard(&self, most: usize) -> io::Result<usize> {
        // SAFETY: with MSG_TRUNC on TCP the kernel writes nothing, and a null buffer is accepted.
        retry(|| unsafe {
            libc::recv(self.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC)
        })
    }

    /// Sends up to `len` bytes of `file` from `offset` on, without copying them through this process (`sendfile(2)`).
    /// Returns how many were accepted; 0 at the end of the file.
    #[inline]
    pub fn send_file(&self, file: &MemFile, offset: u64, len: usize) -> io::Result<usize> {
        let start = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        retry(|| {
            let mut at = start;
            // SAFETY: `at` is a valid off_t; both descriptors are open.
            unsafe { libc::sendfile(self.as_raw_fd(), file.as_fd().as_raw_fd(), &raw mut at, len) }
        })
    }

    /// Sends from `buffer` without copying (`MSG_ZEROCOPY`); needs [`TcpOptions::zerocopy`]. The kernel keeps the
    /// pages, so this is safe, but it sends their contents at the time of transmission: keep `buffer` alive and
    /// unchanged until [`TcpStream::zerocopy_completion`] has reported this send. `NoBuffers` means that too many are
    /// outstanding.
    #[inline]
    pub fn send_zerocopy(&self, buffer: &[u8]) -> io::Result<usize> {
        self.send_flags(buffer, libc::MSG_ZEROCOPY)
    }

    /// Takes the next completion of zero-copy sends, `None` when there is none yet.
    pub fn zerocopy_completion(&self) -> io::Result<Option<ZeroCopyCompletion>> {
        loop {
            match error_queue::read(self.as_fd())? {
                None => return Ok(None),
                Some(e) if e.origin == ErrorOrigin::ZeroCopy => {
                    return Ok(Some(ZeroCopyCompletion {
                        first: e.info,
                        last: e.data,
                        copied: e.icmp_code & 1 != 0,
                    }));
                }
                Some(_) => {}
            }
        }
    }

    /// Closes the sending direction; the peer's stays open (`SHUT_WR`).
    pub fn half_close(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// Closes both directions.
    pub fn shutdown(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Both)
    }

    /// Makes closing send a reset instead of the usual end (`SO_LINGER` 0): no TIME-WAIT, unsent data is lost.
    pub fn set_reset_on_close(&self) -> io::Result<()> {
        self.socket.set_linger(Some(Duration::ZERO))
    }

    /// Sends small writes immediately (`TCP_NODELAY`).
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.socket.set_tcp_nodelay(on)
    }

    /// Acknowledges immediately for now (`TCP_QUICKACK`); the kernel may revert this by itself.
    pub fn set_quickack(&self, on: bool) -> io::Result<()> {
        sockopt::set(self.as_fd(), libc::SOL_TCP, libc::TCP_QUICKACK, i32::from(on))
    }

    /// Holds back partial segments (`TCP_CORK`), 200 ms at most.
    pub fn set_cork(&self, on: bool) -> io::Result<()> {
        sockopt::set(self.as_fd(), libc::SOL_TCP, libc::TCP_CORK, i32::from(on))
    }

    /// Priority of sent packets in the queueing discipline (`SO_PRIORITY`).
    pub fn set_priority(&self, priority: u8) -> io::Result<()> {
        sockopt::set(self.as_fd(), libc::SOL_SOCKET, libc::SO_PRIORITY, i32::from(priority))
    }

    /// Sets the pacing rate, bytes per second; `u64::MAX` lifts it.
    pub fn set_pacing_rate(&self, bytes_per_second: u64) -> io::Result<()> {
        sockopt::set(self.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
    }

    /// Reports the socket writable only while fewer than `bytes` are unsent (`TCP_NOTSENT_LOWAT`).
    pub fn set_not_sent_low_water(&self, bytes: u32) -> io::Result<()> {
        sockopt::set(self.as_fd(), libc::SOL_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
    }

    /// Sets the options of an accepted connection, as far as it can have them: a flow label belongs to its listener.
    pub fn set_options(&self, options: &TcpOptions) -> Result<()> {
        let (local, object) = (self.local_addr(), "an accepted connection");
        let local = local.context("read the address of", object)?;
        let own = TcpOptions { flow_label: None, reuse_port: false, ..options.clone() };
        apply(&self.socket, local, None, &own, object)
    }

    /// Requests this size of both buffers, bytes; the system's limits apply.
    pub fn set_buffers(&self, bytes: usize) -> io::Result<()> {
        self.socket.set_send_buffer_size(bytes)?;
        self.socket.set_recv_buffer_size(bytes)
    }

    /// Bytes of send buffer in effect: twice the requested size, within limits, since the kernel counts overhead in.
    pub fn send_buffer(&self) -> io::Result<usize> {
        self.socket.send_buffer_size()
    }

    /// Bytes of receive buffer in effect, counted likewise.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// Maximum segment size in effect, bytes.
    pub fn mss(&self) -> io::Result<u32> {
        sockopt::get_i32(self.as_fd(), libc::SOL_TCP, libc::TCP_MAXSEG)
            .map(|v| u32::try_from(v).unwrap_or(0))
    }

    /// Name of the congestion control in use.
    pub fn congestion_control(&self) -> io::Result<String> {
        let mut name = [0_u8; 16];
        let len = sockopt::get_into(self.as_fd(), libc::SOL_TCP, libc::TCP_CONGESTION, &mut name)?;
        let text: Vec<u8> = name[..len].iter().copied().take_while(|&b| b != 0).collect();
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// An option of the socket that is an integer, or the first one of a structure, by level and name (`getsockopt(2)`).
    pub fn option(&self, level: i32, name: i32) -> io::Result<i32> {
        sockopt::get_i32(self.as_fd(), level, name)
    }

    /// The kernel's information about the connection.
    pub fn info(&self) -> io::Result<TcpInfo> {
        let mut bytes = [0_u8; 320];
        let len = sockopt::get_into(self.as_fd(), libc::SOL_TCP, libc::TCP_INFO, &mut bytes)?;
        TcpInfo::parse(&bytes[..len]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Bytes written and not yet acknowledged by the peer (`SIOCOUTQ`).
    pub fn unacknowledged_bytes(&self) -> io::Result<u32> {
        unacknowledged_bytes(self)
    }

    /// The socket's memory accounts (`SO_MEMINFO`).
    pub fn socket_memory(&self) -> io::Result<SocketMemory> {
        udp::socket_memory(self.as_fd())
    }

    /// Takes the pending error of the socket, if any (`SO_ERROR`).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }
}
