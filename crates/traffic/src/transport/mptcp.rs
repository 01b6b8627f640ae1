//! MPTCP: sockets of protocol 262, which fall back to TCP by themselves.

use std::sync::Arc;

use weir_model::plan::{FlowSpec, Transport, TransportName};
use weir_net::tcp::{TcpOptions, TcpStream, try_protocol};

use super::tcp::{self, Socket};
use super::{StreamSocket, StreamTransport};

/// `IPPROTO_MPTCP` of linux/in.h.
const PROTOCOL: i32 = 262;
/// `SOL_TCP` and `TCP_IS_MPTCP` of linux/tcp.h: 1 while a socket speaks MPTCP.
const IS_MPTCP: (i32, i32) = (6, 43);
/// `SOL_MPTCP` and `MPTCP_INFO` of linux/mptcp.h: refused after a fallback. For kernels without `TCP_IS_MPTCP`.
const INFO: (i32, i32) = (284, 1);
/// Errors of linux/errno.h.
const ENOPROTOOPT: i32 = 92;
const EOPNOTSUPP: i32 = 95;

/// MPTCP.
pub(super) struct Mptcp;

impl StreamTransport for Mptcp {
    fn unavailable(&self) -> Option<String> {
        let error = try_protocol(PROTOCOL).err()?;
        let needs = "it needs CONFIG_MPTCP and the sysctl net.mptcp.enabled = 1";
        Some(format!("the kernel opens no MPTCP socket ({error}); {needs}"))
    }

    fn options(&self, spec: &FlowSpec, sends: bool) -> TcpOptions {
        TcpOptions { protocol: Some(PROTOCOL), ..tcp::options(spec, sends) }
    }

    fn socket(&self, _: &FlowSpec, connected: TcpStream) -> Arc<dyn StreamSocket> {
        Socket::shared(connected, None, fallback)
    }
}

/// TCP, if the kernel reports that the connection does not use MPTCP.
fn fallback(stream: &TcpStream) -> Option<TransportName> {
    let is_plain = match stream.option(IS_MPTCP.0, IS_MPTCP.1) {
        Ok(speaks) => speaks == 0,
        Err(e) if e.raw_os_error() == Some(ENOPROTOOPT) => {
            stream.option(INFO.0, INFO.1).is_err_and(|e| e.raw_os_error() == Some(EOPNOTSUPP))
        }
        Err(_) => false,
    };
    is_plain.then(|| Transport::tcp().name())
}
