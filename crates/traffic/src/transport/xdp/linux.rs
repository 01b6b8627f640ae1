//! The programs of Linux.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};

use weir_flow::{Counted, PayloadRing, Sending, Stated};
use weir_link::live::{
    Clock, Counts, FlowAddresses, FlowCounter, FrameSender, ReceiveProgram, SendProgram, Template,
};
use weir_model::plan::FlowSpec;
use weir_net::interface::{Interface, neighbour_mac, sends_xdp_frames};
use weir_net::udp::{Filling, RecvBatch, Sent, UdpSocket};
use weir_stats::DelaySummary;
use weir_wire::ethernet::{EthernetFrame, OWN_BYTES, flow_bytes};
use weir_wire::udp_frame::UdpFrame;

use super::super::{DatagramSocket, FlowCounts, FrameSocket, ethernet::route};
use crate::engine::lock;
use crate::flows::SessionFacts;

/// Where the tag is in a native data header.
const TAG: std::ops::Range<usize> = 28..32;

/// Why a program can't be used, with the capabilities that it needs.
fn refused(error: weir_link::Error) -> String {
    match error.raw_os_error() {
        Some(1 | 13) => format!(
            "{error}: grant CAP_BPF and CAP_NET_ADMIN (sudo setcap cap_bpf,cap_net_admin+ep weir)"
        ),
        _ => error.to_string(),
    }
}

/// Attached programs by interface.
#[derive(Debug)]
struct Programs<T>(Mutex<HashMap<u32, Weak<T>>>);

impl<T> Default for Programs<T> {
    fn default() -> Self {
        Programs(Mutex::default())
    }
}

impl<T> Programs<T> {
    /// The program on an interface: the attached one, or a new one by `attach`.
    fn on(
        &self,
        interface: &Interface,
        attach: impl FnOnce((&str, u32)) -> weir_link::Result<T>,
    ) -> Result<Arc<T>, String> {
        let mut programs = lock(&self.0);
        if let Some(program) = programs.get(&interface.index).and_then(Weak::upgrade) {
            return Ok(program);
        }
        let program = Arc::new(attach((&interface.name, interface.index)).map_err(refused)?);
        programs.insert(interface.index, Arc::downgrade(&program));
        Ok(program)
    }
}

/// The client's end: the program that sends to one server.
#[derive(Debug, Clone)]
pub(crate) struct SendEnd {
    program: Arc<SendProgram>,
    interface: Interface,
    near: [u8; 6],
    next_hop: [u8; 6],
}

/// A client's programs, one for each interface in use, whichever servers are behind it.
#[derive(Debug, Default)]
pub(crate) struct Senders(Programs<SendProgram>);

impl Senders {
    /// The program on the interface towards `server`, which is `device` if given; it is attached until its last user drops
    /// it.
    ///
    /// # Errors
    /// As text: why frames can't be sent there.
    pub(crate) fn towards(
        &self,
        server: SocketAddr,
        device: Option<&str>,
    ) -> Result<SendEnd, String> {
        let (interface, router) = route(server, device)?;
        if interface.loopback {
            return Err(format!(
                "{} is this host: there is no link to send frames on",
                server.ip()
            ));
        }
        let name = &interface.name;
        let near =
            interface.mac.ok_or_else(|| format!("interface {name} has no Ethernet address"))?;
        let hop = router.unwrap_or(server.ip().to_canonical());
        let next_hop = neighbour_mac(interface.index, hop).map_err(|e| e.to_string())?;
        let next_hop =
            next_hop.ok_or_else(|| format!("the MAC address of {hop} on {name} is unknown"))?;
        let program = self.0.on(&interface, SendProgram::attach)?;
        Ok(SendEnd { program, interface, near, next_hop })
    }
}

impl SendEnd {
    /// The largest payload of a flow that the interface carries to a server of this family, bytes.
    pub(crate) fn max_payload(&self, spec: &FlowSpec, server: SocketAddr) -> u64 {
        let headers = match server.ip().to_canonical() {
            _ if spec.connection.transport.frames() => OWN_BYTES as u64,
            IpAddr::V4(_) => 28,
            IpAddr::V6(_) => 48,
        };
        u64::from(self.interface.mtu_bytes).saturating_sub(headers)
    }

    /// The name of the interface.
    pub(crate) fn name(&self) -> &str {
        &self.interface.name
    }

    /// A flow's connected socket of UDP, whose data the program sends from now on. The payload of all frames is that of the
    /// flow's first datagram.
    ///
    /// # Errors
    /// As text.
    pub(crate) fn sender(
        &self,
        spec: &FlowSpec,
        facts: &SessionFacts,
        socket: UdpSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        let payload = first_payload(spec, facts)?;
        let addresses = socket.local_addr().and_then(|near| Ok((near, socket.peer_addr()?)));
        let (source, destination) = addresses.map_err(|e| e.to_string())?;
        let ip = spec.connection.transport.ip().cloned().unwrap_or_default();
        let headers = UdpFrame {
            source_mac: self.near,
            destination_mac: self.next_hop,
            source,
            destination,
            tos: spec.connection.tos().unwrap_or(0),
            ttl: ip.ttl,
            flow_label: ip.flow_label.unwrap_or(0),
        };
        let (frame, sum) = headers.encode(&payload).ok_or("the datagram is too long")?;
        // The program adds words in this host's byte order.
        let sum = u32::from(sum.folded().to_be());
        self.sends(spec, facts, frame, sum, Arc::new(socket))
    }

    /// The same for a flow of Ethernet frames.
    ///
    /// # Errors
    /// As text.
    pub(crate) fn frame_sender(
        &self,
        spec: &FlowSpec,
        facts: &SessionFacts,
        socket: FrameSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        let payload = first_payload(spec, facts)?;
        let (source, destination) = socket.ends();
        let frame = EthernetFrame { source, destination, payload: &payload }.encode();
        self.sends(spec, facts, frame, 0, Arc::new(socket))
    }

    fn sends(
        &self,
        spec: &FlowSpec,
        facts: &SessionFacts,
        frame: Vec<u8>,
        sum: u32,
        socket: Arc<dyn DatagramSocket>,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        // After the server has attached its program, which a veth needs to accept frames from its other end.
        let Interface { index, name, .. } = &self.interface;
        if sends_xdp_frames(*index).map_err(|e| e.to_string())? == Some(false) {
            return Err(format!(
                "the driver of interface {name} does not send frames of XDP (a veth does if XDP runs in the driver of its other end)"
            ));
        }
        let key = facts.tag_key(spec.id).words();
        let sender = self.program.add(Template { frame, sum, key }).map_err(refused)?;
        Ok(Arc::new(XdpSocket { socket, part: Part::Sends(sender) }))
    }
}

/// The payload that all frames of a flow are made of: that of its first datagram, with a tag of zeros.
fn first_payload(spec: &FlowSpec, facts: &SessionFacts) -> Result<Vec<u8>, String> {
    let key = facts.tag_key(spec.id);
    let content = spec.connection.content;
    let mut ring = PayloadRing::new(content, facts.seed, spec.max_payload() as usize);
    let first = Sending::new(spec, key, 0, false);
    let mut payload = first.fill(&mut ring, 1, 0).0.to_vec();
    // With number and time 0, the header has only a tag that the program has to replace.
    payload.get_mut(TAG).ok_or("no room for the data header")?.fill(0);
    Ok(payload)
}

/// A server's programs, one for each interface in use.
#[derive(Debug, Default)]
pub(crate) struct Receivers(Programs<ReceiveProgram>);

impl Receivers {
    /// The program on the interface towards a client; it is attached until its last user drops it.
    ///
    /// # Errors
    /// As text: why datagrams can't be received there.
    pub(crate) fn towards(&self, client: SocketAddr) -> Result<ReceiveEnd, String> {
        let (interface, _) = route(client, None)?;
        if interface.loopback {
            return Err(format!(
                "{} is this host: there is no link to receive frames from",
                client.ip()
            ));
        }
        self.0.on(&interface, ReceiveProgram::attach).map(ReceiveEnd)
    }
}

/// A server's end of a session: the program on the interface towards the client.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveEnd(Arc<ReceiveProgram>);

impl ReceiveEnd {
    /// A flow's connected socket of UDP, whose data ends in the program from now on.
    ///
    /// # Errors
    /// As text.
    pub(crate) fn receiver(
        &self,
        spec: &FlowSpec,
        facts: &SessionFacts,
        socket: UdpSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        let addresses = socket.peer_addr().and_then(|peer| Ok((peer, socket.local_addr()?)));
        let (source, destination) = addresses.map_err(|e| e.to_string())?;
        let addresses = FlowAddresses::Udp { source, destination };
        self.counts(spec, facts, addresses, Arc::new(socket))
    }

    /// The same for a flow of Ethernet frames.
    ///
    /// # Errors
    /// As text.
    pub(crate) fn frame_receiver(
        &self,
        spec: &FlowSpec,
        facts: &SessionFacts,
        socket: FrameSocket,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        let (near, far) = socket.ends();
        let addresses = FlowAddresses::Ethernet(flow_bytes(far, near));
        self.counts(spec, facts, addresses, Arc::new(socket))
    }

    fn counts(
        &self,
        spec: &FlowSpec,
        facts: &SessionFacts,
        addresses: FlowAddresses,
        socket: Arc<dyn DatagramSocket>,
    ) -> Result<Arc<dyn DatagramSocket>, String> {
        let key = facts.tag_key(spec.id);
        let counter = self.0.add(addresses, key.words()).map_err(refused)?;
        Ok(Arc::new(XdpSocket { socket, part: Part::Counts(counter) }))
    }
}

/// The socket of a flow with this engine.
#[derive(Debug)]
struct XdpSocket {
    socket: Arc<dyn DatagramSocket>,
    part: Part,
}

#[derive(Debug)]
enum Part {
    Sends(FrameSender),
    Counts(FlowCounter),
}

weir_net::as_socket!(XdpSocket, socket);

impl DatagramSocket for XdpSocket {
    fn send_batch(&self, batch: &mut Filling<'_, '_>) -> io::Result<Sent> {
        self.socket.send_batch(batch)
    }

    fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.socket.recv_batch(batch)
    }

    fn send_control(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send_control(bytes)
    }

    /// Each frame has one datagram.
    fn max_segments(&self) -> usize {
        1
    }

    /// Data does not pass through the socket.
    fn overflow(&self) -> Option<u32> {
        None
    }

    fn addresses(&self) -> [String; 2] {
        self.socket.addresses()
    }

    fn buffer_bytes(&self, _: bool) -> Option<u64> {
        None
    }

    fn send_frames(&self, count: u32) -> Option<io::Result<u32>> {
        match &self.part {
            Part::Sends(sender) => Some(sender.send(count).map_err(io::Error::other)),
            Part::Counts(_) => None,
        }
    }

    fn counter(&self) -> Option<&dyn FlowCounts> {
        match &self.part {
            Part::Sends(_) => None,
            Part::Counts(counter) => Some(counter),
        }
    }
}

fn counts(read: Counts) -> Counted {
    Counted {
        packets: read.packets,
        bytes: read.bytes,
        duplicates: read.duplicates,
        late: read.late,
        repeated_bytes: read.repeated_bytes,
        reordered: read.reordered,
        first_ns: (read.first_ns > 0).then_some(read.first_ns),
        last_ns: read.last_ns,
        delays: read.delays,
        delay_sum_ns: read.delay_sum_ns,
        jitter_ns: (read.packets > 1).then_some(read.jitter_256th_ns as f64 / 256.0),
    }
}

impl FlowCounts for FlowCounter {
    fn method(&self) -> &'static str {
        if self.is_in_driver() { "xdp-native" } else { "xdp-generic" }
    }

    fn state(&self, stated: Stated) -> io::Result<()> {
        let Stated { clock_offset_ns: offset_ns, interval_end_ns: boundary_ns } = stated;
        FlowCounter::state(self, Clock { offset_ns, boundary_ns }).map_err(io::Error::other)
    }

    fn read(&self) -> io::Result<(Counted, Option<Counted>)> {
        let snapshot = FlowCounter::read(self).map_err(io::Error::other)?;
        Ok((counts(snapshot.now), snapshot.at_boundary.map(counts)))
    }

    fn delays(&self) -> io::Result<Option<DelaySummary>> {
        let sum_ns = FlowCounter::read(self).map_err(io::Error::other)?.now.delay_sum_ns;
        let delays = FlowCounter::delays(self).map_err(io::Error::other)?;
        Ok(delays.and_then(|d| {
            DelaySummary::from_cells([d.min_ns, d.max_ns], sum_ns.into(), &d.above, &d.below)
        }))
    }
}
