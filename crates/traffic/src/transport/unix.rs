//! Unix stream sockets.

use std::sync::Arc;

use weir_model::plan::FlowSpec;
use weir_net::tcp::{TcpOptions, TcpStream};

use super::tcp::Socket;
use super::{StreamSocket, StreamTransport, connect_unix};
use crate::Address;

/// A Unix stream socket.
pub(super) struct Unix;

impl StreamTransport for Unix {
    fn options(&self, _: &FlowSpec, _: bool) -> TcpOptions {
        TcpOptions::default()
    }

    fn start_connect(&self, to: Address, _: &TcpOptions) -> weir_net::Result<TcpStream> {
        connect_unix(to).map(TcpStream::from).map_err(|source| weir_net::Error::System {
            operation: "connect to",
            object: to.to_string(),
            source,
        })
    }

    fn socket(&self, spec: &FlowSpec, connected: TcpStream) -> Arc<dyn StreamSocket> {
        if let Some(window) = spec.connection.window {
            // A size beyond the system's limit becomes that limit; the record reports the size in effect.
            let _ = connected.set_buffers(window.0 as usize);
        }
        Socket::shared(connected, None, |_| None)
    }
}
