//! Ethernet frames without IP: packet sockets on the interfaces of the control connection.
//!
//! A frame reaches only the hosts of one link, so the far end must have its address there. The server knows the client's MAC
//! address by its own neighbour table, not by the client's word: it never sends frames to a third host.

use std::io;
use std::net::{IpAddr, SocketAddr};

use weir_model::plan::FlowSpec;
use weir_net::ethernet::{EthernetOptions, EthernetSocket, FrameMatch, HEADER_BYTES, try_ethernet};
use weir_net::interface::{Interface, egress_interface, interface, interfaces, neighbour_mac};
use weir_net::udp::{Filling, RecvBatch, Sent, UdpOptions};
use weir_wire::datagram::LEN;
use weir_wire::ethernet::{
    ETHERTYPE, Endpoint, EthernetFrame, OWN_BYTES, flow_bytes, mac_text, mask_without_source_port,
};

use super::{DatagramSocket, udp};
use crate::TrafficError;

/// Why this host can't open one.
pub(super) fn unavailable() -> Option<String> {
    let error = try_ethernet().err()?;
    Some(match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "no permission for packet sockets ({error}): grant CAP_NET_RAW (sudo setcap cap_net_raw+ep weir)"
        ),
        _ => format!("this system opens no packet socket ({error})"),
    })
}

/// The interface towards a peer, `device` if given, and the next router if the route through it has one.
///
/// # Errors
/// As text: why there is none.
pub(super) fn route(
    peer: SocketAddr,
    device: Option<&str>,
) -> Result<(Interface, Option<IpAddr>), String> {
    let scope = match peer {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id(),
        _ => 0,
    };
    if scope != 0 && device.is_none() {
        let all = interfaces().map_err(|e| e.to_string())?;
        let found = all.into_iter().find(|i| i.index == scope);
        let found = found.ok_or_else(|| format!("{peer}: no interface has the number {scope}"))?;
        return Ok((found, None));
    }
    let route = egress_interface(peer.ip().to_canonical()).map_err(|e| e.to_string());
    let name = match (device, &route) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(route)) => route.interface.clone(),
        (None, Err(error)) => return Err(error.clone()),
    };
    let router = route.ok().filter(|route| route.interface == name).and_then(|r| r.gateway);
    Ok((interface(&name).map_err(|e| e.to_string())?, router))
}

/// This host's end of the link to a peer.
#[derive(Debug, Clone)]
pub(crate) struct LinkEnd {
    interface: Interface,
    mac: [u8; 6],
    peer: IpAddr,
}

impl LinkEnd {
    /// The end of the link to a peer: on `device` if given, else on the interface of the route.
    ///
    /// # Errors
    /// As text: why frames do not reach the peer.
    pub(crate) fn towards(peer: SocketAddr, device: Option<&str>) -> Result<LinkEnd, String> {
        let address = peer.ip().to_canonical();
        let (interface, router) = route(peer, device)?;
        if let Some(router) = router {
            return Err(format!("{address} is on another link, behind the router {router}"));
        }
        let no_mac = || format!("interface {} has no Ethernet address", interface.name);
        let mac = interface.mac.ok_or_else(no_mac)?;
        Ok(LinkEnd { interface, mac, peer: address })
    }

    /// The name of the interface.
    pub(crate) fn name(&self) -> &str {
        &self.interface.name
    }

    /// MAC address of the interface.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Largest packet of the interface, bytes.
    pub(crate) fn mtu_bytes(&self) -> u32 {
        self.interface.mtu_bytes
    }

    /// The first payload that is too large for a frame of this interface, and the largest that is not, bytes.
    pub(crate) fn oversized<'a>(
        &self,
        specs: impl IntoIterator<Item = &'a FlowSpec>,
    ) -> Option<(u64, u64)> {
        let most = u64::from(self.mtu_bytes()).saturating_sub(OWN_BYTES as u64);
        let sizes = specs.into_iter().map(|spec| {
            let connection = &spec.connection;
            spec.max_payload().max(connection.request_bytes()).max(connection.response_bytes())
        });
        sizes.into_iter().find(|size| *size > most).map(|size| (size, most))
    }

    /// The peer's MAC address as this host has resolved it for the control connection.
    ///
    /// # Errors
    /// As text: why it is unknown.
    pub(crate) fn peer_mac(&self) -> Result<[u8; 6], String> {
        if self.interface.loopback {
            return Ok(self.mac);
        }
        let found = neighbour_mac(self.interface.index, self.peer).map_err(|e| e.to_string())?;
        let name = &self.interface.name;
        let mac = found.ok_or_else(|| {
            format!("{} is no neighbour on interface {name}: its MAC address is unknown", self.peer)
        })?;
        match (Endpoint { mac, port: 0 }).is_unicast() {
            true => Ok(mac),
            false => Err(format!("{} resolves to {}, a group of hosts", self.peer, mac_text(mac))),
        }
    }

    /// An end of a flow here, with a number that no other flow is likely to have.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, TrafficError> {
        Ok(Endpoint { mac: self.mac, port: u16::from_ne_bytes(crate::key::random()?) })
    }

    fn options(
        &self,
        spec: &FlowSpec,
        receive: FrameMatch,
        receives: bool,
        flows: usize,
    ) -> EthernetOptions {
        // Buffers are those of UDP.
        let any = UdpOptions::connect(SocketAddr::from(([0, 0, 0, 0], 0))).bind;
        let of_udp = udp::options(spec, any, receives, flows);
        EthernetOptions {
            interface: self.interface.index,
            name: self.interface.name.clone(),
            ethertype: ETHERTYPE,
            receive,
            send: None,
            send_buffer: of_udp.send_buffer,
            receive_buffer: of_udp.receive_buffer,
            priority: of_udp.priority,
            timestamps: receives,
        }
    }

    /// Opens the client's socket of a flow. `receives`: data arrives on it; `flows`: how many the session has.
    ///
    /// # Errors
    /// The system's refusal.
    pub(crate) fn connect(
        &self,
        spec: &FlowSpec,
        near: Endpoint,
        far: Endpoint,
        receives: bool,
        flows: usize,
    ) -> weir_net::Result<FrameSocket> {
        let receive = FrameMatch::exactly(flow_bytes(far, near));
        let send = Some(flow_bytes(near, far));
        let options = EthernetOptions { send, ..self.options(spec, receive, receives, flows) };
        Ok(FrameSocket { socket: EthernetSocket::open(&options)?, near, far })
    }

    /// Opens the server's socket of a flow, which waits for the hello of the client with this MAC address.
    ///
    /// # Errors
    /// The system's refusal.
    pub(crate) fn listen(
        &self,
        spec: &FlowSpec,
        near: Endpoint,
        client: [u8; 6],
        receives: bool,
        flows: usize,
    ) -> weir_net::Result<AwaitedFrames> {
        let far = Endpoint { mac: client, port: 0 };
        let receive = FrameMatch { bytes: flow_bytes(far, near), mask: mask_without_source_port() };
        let socket = EthernetSocket::open(&self.options(spec, receive, receives, flows))?;
        Ok(AwaitedFrames { socket, near, far })
    }
}

/// A server's socket of a flow before the hello: it can't send.
#[derive(Debug)]
pub(crate) struct AwaitedFrames {
    socket: EthernetSocket,
    near: Endpoint,
    far: Endpoint,
}

weir_net::as_socket!(AwaitedFrames, socket);

impl AwaitedFrames {
    /// The next message of the length of a hello, and the client's end of the flow; `None` for another frame.
    ///
    /// # Errors
    /// `WouldBlock` if none has arrived.
    pub(crate) fn read(&self) -> io::Result<Option<([u8; LEN], Endpoint)>> {
        let mut buffer = [0; HEADER_BYTES + LEN];
        let got = self.socket.recv_frame(&mut buffer)?;
        let frame = EthernetFrame::decode(&buffer[..got.min(buffer.len())]).ok();
        Ok(frame.and_then(|frame| {
            let hello = <[u8; LEN]>::try_from(frame.payload).ok()?;
            // The kernel has compared the rest.
            Some((hello, Endpoint { port: frame.source.port, ..self.far }))
        }))
    }

    /// The socket of the flow from now on, connected to the client's end.
    ///
    /// # Errors
    /// The system's answer.
    pub(crate) fn connect(mut self, far: Endpoint) -> io::Result<FrameSocket> {
        self.socket.set_peer(flow_bytes(far, self.near), flow_bytes(self.near, far))?;
        Ok(FrameSocket { socket: self.socket, near: self.near, far })
    }
}

/// A connected socket of a flow.
#[derive(Debug)]
pub(crate) struct FrameSocket {
    socket: EthernetSocket,
    near: Endpoint,
    far: Endpoint,
}

impl FrameSocket {
    /// This end and the peer's, for the engine xdp.
    #[cfg(target_os = "linux")]
    pub(super) fn ends(&self) -> (Endpoint, Endpoint) {
        (self.near, self.far)
    }
}

weir_net::as_socket!(FrameSocket, socket);

impl DatagramSocket for FrameSocket {
    fn send_batch(&self, batch: &mut Filling<'_, '_>) -> io::Result<Sent> {
        batch.send_frames(&self.socket)
    }

    fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv_frames(&self.socket)
    }

    fn send_control(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes)
    }

    fn max_segments(&self) -> usize {
        1
    }

    fn overflow(&self) -> Option<u32> {
        self.socket.socket_memory().ok().map(|m| m.drops)
    }

    fn addresses(&self) -> [String; 2] {
        [self.near.to_string(), self.far.to_string()]
    }

    fn buffer_bytes(&self, send: bool) -> Option<u64> {
        let bytes = if send { self.socket.send_buffer() } else { self.socket.receive_buffer() };
        bytes.ok().map(|b| b as u64)
    }
}
