//! TCP connections whose every setting is made before the handshake, where the kernel heeds it: window scale, MSS and
//! congestion control are fixed by then.

use std::net::SocketAddr;

pub use crate::sys::memfile::MemFile;
pub use crate::sys::tcp::{
    TcpListener, TcpStream, available_congestion_controls, limit_unsent, try_congestion_control,
    try_protocol, unacknowledged_bytes,
};
pub use crate::tcp_info::TcpInfo;

/// How a TCP socket is to be opened. Settings left at `None` or `false` are the system's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Local address of a connection; a listener's is given to [`TcpListener::open`].
    pub bind: Option<SocketAddr>,
    /// Lets several listeners of this user share the local address (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Keeps an IPv6 listener on `::` from also taking IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Bytes of send buffer asked for. The limit `wmem_max` is passed when the process may. Ends automatic sizing.
    pub send_buffer: Option<usize>,
    /// Bytes of receive buffer asked for: bounds the window and its scale. The limit `rmem_max` is passed when the
    /// process may. Ends automatic sizing.
    pub receive_buffer: Option<usize>,
    /// Largest segment, bytes of payload with options (`TCP_MAXSEG`), 88–32 767.
    pub mss: Option<u16>,
    /// Congestion control by the kernel's name: `cubic`, `reno`, `bbr`.
    pub congestion_control: Option<String>,
    /// Sends small writes at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// TOS byte (IPv4) or traffic class (IPv6) of what is sent; the ECN bits stay the kernel's.
    pub tos: Option<u8>,
    /// TTL or hop limit of what is sent, 1–255.
    pub ttl: Option<u8>,
    /// IPv6 flow label of what is sent, 20 bits. Connections that a listener accepts inherit it.
    pub flow_label: Option<u32>,
    /// Name of the interface to be bound to (`SO_BINDTODEVICE`).
    pub device: Option<String>,
    /// Pacing rate, bytes per second (`SO_MAX_PACING_RATE`); TCP keeps it by itself under any queueing discipline.
    pub pacing_bytes_per_second: Option<u64>,
    /// Probes an idle connection after this many seconds (`SO_KEEPALIVE`, `TCP_KEEPIDLE`).
    pub keepalive_seconds: Option<u32>,
    /// Fails a connection whose data stays unacknowledged for this long, ms (`TCP_USER_TIMEOUT`).
    pub user_timeout_ms: Option<u32>,
    /// Allows [`TcpStream::send_zerocopy`] (`SO_ZEROCOPY`).
    pub zerocopy: bool,
    /// Protocol number of the socket (`socket(2)`) where it is another than TCP's and behaves like it.
    pub protocol: Option<i32>,
    /// Calls return `WouldBlock` where they would wait.
    pub nonblocking: bool,
}

/// The end of one or more zero-copy sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroCopyCompletion {
    /// Number of the first send done, counted from 0 on this connection, modulo 2^32.
    pub first: u32,
    /// Number of the last send done.
    pub last: u32,
    /// The kernel copied after all: zero-copy gained nothing on this route.
    pub copied: bool,
}
