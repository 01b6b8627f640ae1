//! The server's end of a flow whose transfers are sent as datagrams: one socket, to which each transfer is sent from a port of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_flow::{DatagramTransfers, Logged};
use weir_net::udp::UdpSocket;
use weir_stats::Arrival;
use weir_wire::datagram::{ControlDatagram, DatagramKey, DatagramKind, looks_like_control};

/// What it says to the client, and counts for it.
pub(crate) struct TransferCounts {
    pub(crate) socket: Arc<UdpSocket>,
    /// The host of the control connection: datagrams of others are ignored.
    pub(crate) peer: IpAddr,
    pub(crate) key: DatagramKey,
    pub(crate) session: u64,
    pub(crate) flow: u32,
    pub(crate) transfers: DatagramTransfers,
}

impl TransferCounts {
    /// Whether a datagram is data. A message of the client is answered, by one of the same size.
    pub(super) fn is_data(&mut self, bytes: &[u8], from: SocketAddr, now_ns: u64) -> bool {
        if from.ip() != self.peer {
            return false;
        }
        if !looks_like_control(bytes) {
            return true;
        }
        let Ok(asked) = ControlDatagram::decode(bytes, &self.key) else { return true };
        if (asked.session, asked.flow) == (self.session, self.flow)
            && let Some(answer) = self.answer(&asked, from.port(), now_ns)
        {
            let _ = self.socket.send_to(&answer.encode(&self.key), from);
        }
        false
    }

    fn answer(
        &mut self,
        asked: &ControlDatagram,
        port: u16,
        now_ns: u64,
    ) -> Option<ControlDatagram> {
        match asked.kind {
            // The acknowledgement of the flow's hello was lost.
            DatagramKind::Hello => Some(ControlDatagram { kind: DatagramKind::HelloAck, ..*asked }),
            DatagramKind::Open => {
                let kind = match self.transfers.open(port, asked.sequence, asked.t1_ns, now_ns) {
                    true => DatagramKind::Opened,
                    false => DatagramKind::Refused,
                };
                Some(ControlDatagram { kind, ..*asked })
            }
            DatagramKind::End => {
                let (t2_ns, t3_ns) = self.transfers.end(port, asked.sequence, now_ns)?;
                Some(ControlDatagram { kind: DatagramKind::Count, t2_ns, t3_ns, ..*asked })
            }
            _ => None,
        }
    }

    /// A datagram from `port` was counted.
    pub(super) fn counted(&mut self, logged: &Logged, port: u16, now_ns: u64) {
        let is_first = match logged.arrival {
            Arrival::InOrder | Arrival::Gap { .. } | Arrival::Reordered { .. } => true,
            Arrival::Duplicate | Arrival::Late | Arrival::Implausible => false,
        };
        if is_first && !logged.damaged {
            self.transfers.arrived(port, logged.sequence, logged.size.into(), now_ns);
        }
    }
}
