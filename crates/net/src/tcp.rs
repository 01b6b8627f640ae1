//! TCP connections with all settings made before the handshake, when the kernel still applies them: window scale, MSS
//! and congestion control are fixed after it.

use std::net::SocketAddr;

pub use crate::sys::memfile::MemFile;
pub use crate::sys::tcp::{
    TcpListener, TcpStream, available_congestion_controls, limit_unsent, try_congestion_control,
    try_protocol, unacknowledged_bytes,
};
pub use crate::tcp_info::TcpInfo;

/// Options of a TCP socket. Settings left at `None` or `false` are the system's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Local address of a connection; a listener's is given to [`TcpListener::open`].
    pub bind: Option<SocketAddr>,
    /// Lets several listeners of this user share the local address (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// Keeps an IPv6 listener on `::` from also accepting IPv4 (`IPV6_V6ONLY`).
    pub v6_only: bool,
    /// Requested bytes of send buffer, beyond `wmem_max` if the process may. Disables automatic sizing.
    pub send_buffer: Option<usize>,
    /// Requested bytes of receive buffer, which bounds the window and its scale; beyond `rmem_max` if the process
    /// may. Disables automatic sizing.
    pub receive_buffer: Option<usize>,
    /// Largest segment, bytes of payload with options (`TCP_MAXSEG`), 88–32 767.
    pub mss: Option<u16>,
    /// Congestion control by the kernel's name: `cubic`, `reno`, `bbr`.
    pub congestion_control: Option<String>,
    /// Sends small writes immediately (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Holds back partial segments until they are full, 200 ms at most (`TCP_CORK`).
    pub cork: bool,
    /// Whether received data is acknowledged immediately. Checked only: the kernel reverts it, so the receiver sets it after
    /// each read ([`TcpStream::set_quickack`]).
    pub quick_ack: Option<bool>,
    /// Priority of sent packets in the queueing discipline (`SO_PRIORITY`), 0–15; above 6 with `CAP_NET_ADMIN`.
    pub priority: Option<u8>,
    /// TOS byte (IPv4) or traffic class (IPv6) of sent packets; the ECN bits stay the kernel's.
    pub tos: Option<u8>,
    /// TTL or hop limit of sent packets, 1–255.
    pub ttl: Option<u8>,
    /// IPv6 flow label of sent packets, 20 bits. Connections that a listener accepts inherit it.
    pub flow_label: Option<u32>,
    /// Name of the interface to bind to (`SO_BINDTODEVICE`).
    pub device: Option<String>,
    /// Pacing rate, bytes per second (`SO_MAX_PACING_RATE`); TCP keeps it by itself under any queueing discipline.
    pub pacing_bytes_per_second: Option<u64>,
    /// Probes an idle connection after this many seconds (`SO_KEEPALIVE`, `TCP_KEEPIDLE`).
    pub keepalive_seconds: Option<u32>,
    /// Fails a connection whose data stays unacknowledged for this long, ms (`TCP_USER_TIMEOUT`).
    pub user_timeout_ms: Option<u32>,
    /// Allows [`TcpStream::send_zerocopy`] (`SO_ZEROCOPY`).
    pub zerocopy: bool,
    /// Protocol number of the socket (`socket(2)`) if it differs from TCP's and behaves like it.
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
