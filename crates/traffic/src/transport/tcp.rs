//! TCP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_model::plan::{FlowSpec, Switch, TransportName};
use weir_net::tcp::{MemFile, TcpInfo, TcpOptions, TcpStream};

use super::{StreamSocket, StreamTransport, shown};

/// TCP.
pub(super) struct Tcp;

impl StreamTransport for Tcp {
    fn options(&self, spec: &FlowSpec, sends: bool) -> TcpOptions {
        options(spec, sends)
    }

    fn socket(&self, spec: &FlowSpec, connected: TcpStream) -> Arc<dyn StreamSocket> {
        Socket::shared(connected, quick_ack(spec), |_| None)
    }
}

/// What the plan states about acknowledgements: `Some(true)`: sent immediately; `None`: as the kernel decides.
fn quick_ack(spec: &FlowSpec) -> Option<bool> {
    match spec.connection.transport.tcp_options()?.delayed_ack {
        Switch::Auto => None,
        Switch::On => Some(false),
        Switch::Off => Some(true),
    }
}

/// The options of a TCP connection.
pub(super) fn options(spec: &FlowSpec, sends: bool) -> TcpOptions {
    let transport = &spec.connection.transport;
    let (tcp, ip) = (transport.tcp_options(), transport.ip().cloned().unwrap_or_default());
    let window = spec.connection.window.map(|w| w.0 as usize);
    TcpOptions {
        send_buffer: window,
        receive_buffer: window,
        mss: tcp.and_then(|o| o.mss).map(|m| m as u16),
        congestion_control: tcp.and_then(|o| o.congestion.clone()),
        nodelay: spec.connection.no_delay(),
        user_timeout_ms: tcp.and_then(|o| o.user_timeout).map(|t| (t.0 / 1_000_000) as u32),
        cork: sends && tcp.is_some_and(|o| o.cork),
        priority: ip.priority.filter(|_| sends),
        quick_ack: quick_ack(spec).filter(|_| !sends),
        tos: spec.connection.tos(),
        ttl: ip.ttl,
        flow_label: ip.flow_label,
        pacing_bytes_per_second: ip.kernel_pacing.filter(|_| sends).map(|r| r.0 / 8),
        ..TcpOptions::default()
    }
}

/// A connected stream that the kernel handles like TCP.
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    /// The peer, if it was connected when the flow began: a connection that both ends have closed has none.
    peer: Option<SocketAddr>,
    quick_ack: Option<bool>,
    fallback: fn(&TcpStream) -> Option<TransportName>,
}

impl Socket {
    /// `quick_ack`: whether received data is acknowledged immediately. `fallback`: the transport that carries the stream,
    /// if it differs from the requested one.
    pub(super) fn shared(
        stream: TcpStream,
        quick_ack: Option<bool>,
        fallback: fn(&TcpStream) -> Option<TransportName>,
    ) -> Arc<dyn StreamSocket> {
        let peer = stream.peer_addr().ok();
        let socket = Socket { stream, peer, quick_ack, fallback };
        socket.set_quick_ack();
        Arc::new(socket)
    }

    /// Sets it again: the kernel changes it as it sees fit. A failure has no effect on the data.
    fn set_quick_ack(&self) {
        if let Some(on) = self.quick_ack {
            let _ = self.stream.set_quickack(on);
        }
    }
}

weir_net::as_socket!(Socket, stream);

impl StreamSocket for Socket {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(bytes)
    }

    fn send_file(&self, file: &MemFile, offset: u64, length: usize) -> io::Result<usize> {
        self.stream.send_file(file, offset, length)
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.recv(buffer);
        self.set_quick_ack();
        read
    }

    fn recv_discard(&self, most: usize) -> io::Result<usize> {
        let read = self.stream.recv_discard(most);
        self.set_quick_ack();
        read
    }

    fn half_close(&self) -> io::Result<()> {
        self.stream.half_close()
    }

    fn reset_on_close(&self) {
        let _ = self.stream.set_reset_on_close();
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.stream.take_error()
    }

    fn info(&self) -> Option<TcpInfo> {
        self.stream.info().ok()
    }

    fn congestion_control(&self) -> Option<String> {
        self.stream.congestion_control().ok()
    }

    fn fallback(&self) -> Option<TransportName> {
        (self.fallback)(&self.stream)
    }

    fn addresses(&self) -> [String; 2] {
        let peer = self.stream.peer_addr().or_else(|e| self.peer.ok_or(e));
        [shown(self.stream.local_addr()), shown(peer)]
    }

    fn buffer_bytes(&self, send: bool) -> Option<u64> {
        let stream = &self.stream;
        let bytes = if send { stream.send_buffer() } else { stream.receive_buffer() };
        bytes.ok().map(|b| b as u64)
    }
}
