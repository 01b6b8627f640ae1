//! UDP.

use std::io;
use std::net::SocketAddr;

use weir_model::plan::{FlowSpec, Switch};
use weir_net::udp::{
    Filling, RecvBatch, RecvMode, SendMode, Sent, UdpOptions, UdpSocket, gso_max_segments,
};

use super::{DatagramSocket, DatagramTransport, shown};

/// Receive buffer requested if the plan sets none: 100 ms at 1 Mpps of small datagrams, as the kernel counts them.
const RECEIVE_BUFFER: usize = 32 << 20;
/// The same for an unlimited sender: 20 ms at 40 Gbit/s. Arrival times are the kernel's, so that queueing here does
/// not change them.
const UNLIMITED_RECEIVE_BUFFER: usize = 128 << 20;
/// Send buffer requested.
const SEND_BUFFER: usize = 4 << 20;
/// Limit of all flows' buffers: with very many flows each gets less.
const BUFFERS_TOTAL: usize = 2 << 30;

/// UDP.
pub(super) struct Udp;

impl DatagramTransport for Udp {
    fn options(
        &self,
        spec: &FlowSpec,
        bind: SocketAddr,
        receives: bool,
        flows: usize,
    ) -> UdpOptions {
        options(spec, bind, receives, flows)
    }
}

/// The options of a socket of UDP, or of a transport that the kernel handles like UDP.
pub(super) fn options(
    spec: &FlowSpec,
    bind: SocketAddr,
    receives: bool,
    flows: usize,
) -> UdpOptions {
    let (c, udp) = (&spec.connection, own_options(spec));
    let ip = c.transport.ip().cloned().unwrap_or_default();
    let per_flow = |most: usize| most.min(buffer_limit(flows));
    let window = c.window.map(|w| w.0 as usize);
    // An echo goes in both directions.
    let sends = !receives || c.echo.is_some();
    let receive_buffer = if spec.is_paced() { RECEIVE_BUFFER } else { UNLIMITED_RECEIVE_BUFFER };
    UdpOptions {
        send_buffer: sends.then(|| window.unwrap_or(per_flow(SEND_BUFFER))),
        receive_buffer: receives.then(|| window.unwrap_or(per_flow(receive_buffer))),
        priority: ip.priority.filter(|_| sends),
        tos: c.tos(),
        ttl: ip.ttl,
        flow_label: if bind.is_ipv6() { ip.flow_label } else { None },
        // Without the flag the system fragments as usual, so that large payloads pass.
        dont_fragment: udp.dont_fragment.then_some(true),
        gro: receives && wants_coalescing(spec),
        timestamps: receives && !c.shape.has_transactions(),
        rxq_overflow: receives,
        receive_tos_ttl: receives && c.counts_ecn(),
        pacing_bytes_per_second: ip.kernel_pacing.filter(|_| sends).map(|r| r.0 / 8),
        nonblocking: true,
        ..UdpOptions::bind(bind)
    }
}

/// Largest buffer of one of `flows` sockets, of which all together have [`BUFFERS_TOTAL`], or 256 KiB each.
pub(super) fn buffer_limit(flows: usize) -> usize {
    (BUFFERS_TOTAL / flows.max(1)).max(256 << 10)
}

/// The options of UDP, or their defaults.
fn own_options(spec: &FlowSpec) -> weir_model::plan::UdpOptions {
    spec.connection.transport.udp_options().cloned().unwrap_or_default()
}

/// Whether a receiver requests coalesced datagrams: where spacing does not matter, or as configured.
pub(crate) fn wants_coalescing(spec: &FlowSpec) -> bool {
    let transport = &spec.connection.transport;
    let Some(options) = transport.udp_options().filter(|_| transport.coalesces()) else {
        return false;
    };
    if spec.connection.shape.has_transactions() {
        return false;
    }
    match options.gro {
        Switch::On => true,
        Switch::Off => false,
        Switch::Auto => !spec.is_paced() && options.gso != Switch::Off,
    }
}

/// Whether a sender uses super-packets.
pub(crate) fn wants_segmentation(spec: &FlowSpec, socket: &dyn DatagramSocket) -> bool {
    let payload = spec.max_payload();
    // The kernel segments a message into datagrams of one size.
    let possible = spec.connection.transport.coalesces()
        && spec.size.is_constant()
        && payload > 0
        && payload * 2 <= 65_507
        && socket.max_segments() > 1;
    match own_options(spec).gso {
        Switch::On => possible,
        Switch::Off => false,
        Switch::Auto => possible && !spec.is_paced(),
    }
}

impl DatagramSocket for UdpSocket {
    fn send_batch(&self, batch: &mut Filling<'_, '_>) -> io::Result<Sent> {
        // A socket that a client passed may be set to block at any time.
        batch.send(self, SendMode::DontWait)
    }

    fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.recv(self, RecvMode::DontWait)
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn recv_one(&self, buffer: &mut [u8], mode: RecvMode) -> io::Result<usize> {
        self.recv(buffer, mode)
    }

    fn send_control(&self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn max_segments(&self) -> usize {
        if self.segmentation_available() { gso_max_segments().into() } else { 1 }
    }

    fn overflow(&self) -> Option<u32> {
        self.socket_memory().ok().map(|m| m.drops)
    }

    fn addresses(&self) -> [String; 2] {
        [shown(self.local_addr()), shown(self.peer_addr())]
    }

    fn checksum_coverage(&self, send: bool) -> Option<u16> {
        self.lite_coverage(send).ok()
    }

    fn buffer_bytes(&self, send: bool) -> Option<u64> {
        let bytes = if send { self.send_buffer() } else { self.receive_buffer() };
        bytes.ok().map(|b| b as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::{Connection, Family, Plan, Shape, Transport};

    /// Their messages go between datagrams of other sizes, which a super-packet would hide.
    #[test]
    fn datagrams_of_transfers_are_received_one_by_one() {
        let connection = Connection { transport: Transport::udp(), ..Connection::default() };
        let unpaced = Connection { rate: Some("0".parse().unwrap()), ..connection.clone() };
        let volume = Some("100K".parse().unwrap());
        let transfers = Connection { shape: Shape::Transfers, volume, ..connection };
        let spec = |connection: Connection| {
            let plan = Plan { connections: vec![connection], ..Plan::default() };
            plan.flows(Family::Ipv4, 1500).remove(0)
        };
        assert!(wants_coalescing(&spec(unpaced)));
        assert!(!wants_coalescing(&spec(transfers).datagrams_of_transfers().unwrap()));
    }
}
