//! TCP over socket2. Information about a connection (`TCP_INFO`), congestion control and zero-copy are absent.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::memfile::MemFile;
use super::native;
use crate::error::{Context, Error, Result};
use crate::socket::AsSocket;
use crate::tcp::{TcpInfo, TcpOptions, ZeroCopyCompletion};
use crate::udp::SocketMemory;

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

macro_rules! standard {
    ($name:ident, $std:ty) => {
        crate::as_socket!($name, socket);

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

standard!(TcpStream, std::net::TcpStream);
standard!(TcpListener, std::net::TcpListener);

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

fn open(like: SocketAddr, options: &TcpOptions, object: &str) -> Result<Socket> {
    let socket = Socket::new(Domain::for_address(like), Type::STREAM, Some(Protocol::TCP))
        .context("open TCP socket for", object)?;
    apply(&socket, like, options, object)?;
    Ok(socket)
}

/// Sets the options of a socket of the family of `like`.
fn apply(socket: &Socket, like: SocketAddr, options: &TcpOptions, object: &str) -> Result<()> {
    let missing = [
        (options.reuse_port, "share the port of"),
        (options.mss.is_some(), "set the largest segment of"),
        (options.congestion_control.is_some(), "set congestion control of"),
        (options.cork, "cork"),
        (options.quick_ack.is_some(), "set acknowledgements of"),
        (options.priority.is_some(), "set a priority on"),
        (options.tos.is_some(), "set TOS on"),
        (options.flow_label.is_some(), "set a flow label on"),
        (options.device.is_some(), "bind to a device"),
        (options.pacing_bytes_per_second.is_some(), "pace"),
        (options.user_timeout_ms.is_some(), "limit unacknowledged time of"),
        (options.zerocopy, "send without copying to"),
        (options.protocol.is_some(), "choose another protocol for"),
    ];
    if let Some((_, operation)) = missing.into_iter().find(|(asked, _)| *asked) {
        return Err(Error::Unsupported { operation, object: object.to_owned() });
    }
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes).context("set SO_SNDBUF on", object)?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket.set_recv_buffer_size(bytes).context("set SO_RCVBUF on", object)?;
    }
    match (options.ttl.map(u32::from), like.is_ipv6()) {
        (Some(ttl), false) => socket.set_ttl_v4(ttl).context("set TTL on", object)?,
        (Some(ttl), true) => {
            socket.set_unicast_hops_v6(ttl).context("set the hop limit on", object)?;
        }
        (None, _) => {}
    }
    if options.nodelay {
        socket.set_tcp_nodelay(true).context("set TCP_NODELAY on", object)?;
    }
    if let Some(seconds) = options.keepalive_seconds {
        let idle = Duration::from_secs(u64::from(seconds.max(1)));
        let keepalive = TcpKeepalive::new().with_time(idle).with_interval(idle);
        socket.set_tcp_keepalive(&keepalive).context("set SO_KEEPALIVE on", object)?;
    }
    Ok(())
}

/// Not available.
pub fn try_congestion_control(_name: &str) -> io::Result<()> {
    unsupported()
}

/// Not available.
pub fn try_protocol(_protocol: i32) -> io::Result<()> {
    unsupported()
}

/// Not available.
pub fn available_congestion_controls() -> io::Result<Vec<String>> {
    unsupported()
}

/// Not available.
pub fn limit_unsent(_socket: &impl AsSocket, _bytes: u32) -> io::Result<()> {
    unsupported()
}

/// Not available.
pub fn unacknowledged_bytes(_socket: &(impl AsSocket + ?Sized)) -> io::Result<u32> {
    unsupported()
}

impl TcpListener {
    /// Listens on `address` with room for `backlog` connections not yet accepted.
    pub fn open(address: SocketAddr, options: &TcpOptions, backlog: u32) -> Result<Self> {
        let object = address.to_string();
        let socket = open(address, options, &object)?;
        if address.is_ipv6() {
            socket.set_only_v6(options.v6_only).context("set IPV6_V6ONLY on", &object)?;
        }
        // On Windows SO_REUSEADDR would let another program take the port.
        if cfg!(unix) {
            socket.set_reuse_address(true).context("set SO_REUSEADDR on", &object)?;
        }
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
        Ok((TcpStream { socket }, from))
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

impl TcpStream {
    /// Connects to `to`; gives up with `TimedOut` after `timeout_ns` (the system's own limit: `None`).
    pub fn connect(to: SocketAddr, options: &TcpOptions, timeout_ns: Option<u64>) -> Result<Self> {
        let object = to.to_string();
        let socket = Self::prepare(to, options, &object)?;
        match timeout_ns {
            Some(ns) => socket.connect_timeout(&to.into(), Duration::from_nanos(ns.max(1))),
            None => socket.connect(&to.into()),
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
        match socket.connect(&to.into()) {
            Err(e) if !native::is_connecting(&e) => Err(e).context("connect to", &object),
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
        self.socket.peer_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Not available: none is ever set.
    pub fn flow_label(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Whether calls return `WouldBlock` where they would wait.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.socket.set_nonblocking(nonblocking)
    }

    /// Sends from `buffer`; returns how many bytes were accepted.
    pub fn send(&self, buffer: &[u8]) -> io::Result<usize> {
        (&self.socket).write(buffer)
    }

    /// Receives into `buffer`; 0 is the end of the stream.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(buffer)
    }

    /// Discards up to `most` received bytes; 0 is the end.
    pub fn recv_discard(&self, most: usize) -> io::Result<usize> {
        let mut room = [0; 16 << 10];
        let most = most.min(room.len());
        self.recv(&mut room[..most])
    }

    /// Sends up to `len` bytes of `file` from `offset` on. Returns how many were accepted; 0 at the end of the file.
    pub fn send_file(&self, file: &MemFile, offset: u64, len: usize) -> io::Result<usize> {
        match file.part(offset, len) {
            [] => Ok(0),
            part => self.send(part),
        }
    }

    /// Not available.
    pub fn send_zerocopy(&self, _buffer: &[u8]) -> io::Result<usize> {
        unsupported()
    }

    /// Not available.
    pub fn zerocopy_completion(&self) -> io::Result<Option<ZeroCopyCompletion>> {
        unsupported()
    }

    /// Closes the sending direction; the peer's stays open.
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

    /// Not available.
    pub fn set_cork(&self, _on: bool) -> io::Result<()> {
        unsupported()
    }

    /// Not available.
    pub fn set_priority(&self, _priority: u8) -> io::Result<()> {
        unsupported()
    }

    /// Not available.
    pub fn set_quickack(&self, _on: bool) -> io::Result<()> {
        unsupported()
    }

    /// Not available.
    pub fn set_pacing_rate(&self, _bytes_per_second: u64) -> io::Result<()> {
        unsupported()
    }

    /// Sets the options of an accepted connection, as far as it can have them.
    pub fn set_options(&self, options: &TcpOptions) -> Result<()> {
        let (local, object) = (self.local_addr(), "an accepted connection");
        let local = local.context("read the address of", object)?;
        let own = TcpOptions { flow_label: None, reuse_port: false, ..options.clone() };
        apply(&self.socket, local, &own, object)
    }

    /// Requests this size of both buffers, bytes; the system's limits apply.
    pub fn set_buffers(&self, bytes: usize) -> io::Result<()> {
        self.socket.set_send_buffer_size(bytes)?;
        self.socket.set_recv_buffer_size(bytes)
    }

    /// Bytes of send buffer in effect.
    pub fn send_buffer(&self) -> io::Result<usize> {
        self.socket.send_buffer_size()
    }

    /// Bytes of receive buffer in effect.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    /// Not available.
    pub fn congestion_control(&self) -> io::Result<String> {
        unsupported()
    }

    /// Not available.
    pub fn option(&self, _level: i32, _name: i32) -> io::Result<i32> {
        unsupported()
    }

    /// Not available.
    pub fn info(&self) -> io::Result<TcpInfo> {
        unsupported()
    }

    /// Not available.
    pub fn socket_memory(&self) -> io::Result<SocketMemory> {
        unsupported()
    }

    /// Takes the pending error of the socket, if any (`SO_ERROR`).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }
}

#[cfg(test)]
mod tests {
    use super::super::poll::{Events, Poller};
    use super::*;
    use crate::poll::Interest;

    fn listener() -> TcpListener {
        let address = "127.0.0.1:0".parse().unwrap();
        TcpListener::open(address, &TcpOptions::default(), 8).unwrap()
    }

    #[test]
    fn a_stream_connects_without_waiting_and_carries_bytes_to_the_end() {
        let listener = listener();
        let to = listener.local_addr().unwrap();
        let stream = TcpStream::start_connect(to, &TcpOptions::default()).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&stream, 1, Interest::WRITE).unwrap();
        poller.wait(&mut Events::new(1), None).unwrap();
        assert!(stream.take_error().unwrap().is_none());
        let (accepted, from) = listener.accept(false).unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
        assert_eq!(stream.recv(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(stream.send(b"abc").unwrap(), 3);
        let file = MemFile::new(b"0123456789").unwrap();
        assert_eq!(stream.send_file(&file, 8, 100).unwrap(), 2);
        assert_eq!(stream.send_file(&file, 10, 100).unwrap(), 0);
        stream.half_close().unwrap();
        let mut buffer = [0; 1];
        assert_eq!(accepted.recv(&mut buffer).unwrap(), 1);
        let mut discarded = 0;
        loop {
            match accepted.recv_discard(100).unwrap() {
                0 => break,
                n => discarded += n,
            }
        }
        assert_eq!((buffer, discarded), (*b"a", 4));
    }

    #[test]
    fn a_setting_that_the_system_lacks_is_refused_before_anything_is_opened() {
        let options =
            TcpOptions { congestion_control: Some("cubic".into()), ..TcpOptions::default() };
        let to = listener().local_addr().unwrap();
        assert!(matches!(TcpStream::connect(to, &options, None), Err(Error::Unsupported { .. })));
    }
}
