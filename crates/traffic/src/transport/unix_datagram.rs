//! Unix datagram sockets: a pair created by the client, which passes one to the server over the flow's Unix stream.

use std::io;
use std::sync::Arc;

use weir_model::plan::FlowSpec;
use weir_net::socket::BorrowedSocket;
use weir_net::udp::{Filling, RecvBatch, Sent, UdpSocket};
use weir_net::unix::{datagram_pair, pass, prepare, take};

use super::{DatagramSocket, PassedTransport};

/// Unix datagram sockets.
pub(super) struct UnixDatagram;

impl PassedTransport for UnixDatagram {
    fn pass(
        &self,
        spec: &FlowSpec,
        stream: BorrowedSocket<'_>,
        receives: bool,
    ) -> io::Result<Arc<dyn DatagramSocket>> {
        let (near, far) = datagram_pair()?;
        let near = Socket::prepared(near, spec, receives)?;
        pass(stream, far)?;
        Ok(near)
    }

    fn take(
        &self,
        spec: &FlowSpec,
        stream: BorrowedSocket<'_>,
        receives: bool,
    ) -> io::Result<Arc<dyn DatagramSocket>> {
        Socket::prepared(take(stream)?, spec, receives)
    }
}

/// One socket of a pair. The calls for batches are those of UDP.
#[derive(Debug)]
struct Socket(UdpSocket);

impl Socket {
    fn prepared(
        socket: UdpSocket,
        spec: &FlowSpec,
        receives: bool,
    ) -> io::Result<Arc<dyn DatagramSocket>> {
        let window = spec.connection.window.map(|window| window.0 as usize);
        prepare(&socket, window, receives)?;
        Ok(Arc::new(Socket(socket)))
    }
}

weir_net::as_socket!(Socket, 0);

impl DatagramSocket for Socket {
    fn send_batch(&self, batch: &mut Filling<'_, '_>) -> io::Result<Sent> {
        self.0.send_batch(batch)
    }

    fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.0.recv_batch(batch)
    }

    fn send_control(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_control(bytes)
    }

    fn max_segments(&self) -> usize {
        1
    }

    /// The kernel drops nothing: the sender waits.
    fn overflow(&self) -> Option<u32> {
        None
    }

    fn addresses(&self) -> [String; 2] {
        Default::default()
    }

    fn buffer_bytes(&self, send: bool) -> Option<u64> {
        self.0.buffer_bytes(send)
    }
}
