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
                let (t2_ns, t3_ns, t1_ns) = self.transfers.end(port, asked.sequence, now_ns)?;
                Some(ControlDatagram { kind: DatagramKind::Count, t1_ns, t2_ns, t3_ns, ..*asked })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_wire::datagram::LEN;

    fn key() -> DatagramKey {
        DatagramKey::from_bytes(&[7; 16])
    }

    /// A server of session 5, flow 2, for one transfer, and a client's socket.
    fn pair() -> (TransferCounts, std::net::UdpSocket) {
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let loopback = "127.0.0.1:0".parse().unwrap();
        let socket = UdpSocket::open(&weir_net::udp::UdpOptions::bind(loopback)).unwrap();
        let counts = TransferCounts {
            socket: Arc::new(socket),
            peer: "127.0.0.1".parse().unwrap(),
            key: key(),
            session: 5,
            flow: 2,
            transfers: DatagramTransfers::new(1),
        };
        (counts, client)
    }

    fn answer(client: &std::net::UdpSocket) -> Option<ControlDatagram> {
        let mut bytes = [0; 1500];
        let n = client.recv(&mut bytes).ok()?;
        assert_eq!(n, LEN, "as long as what was asked");
        Some(ControlDatagram::decode(&bytes[..n], &key()).unwrap())
    }

    #[test]
    fn only_messages_of_the_session_from_the_client_are_answered() {
        let (mut server, client) = pair();
        let from = client.local_addr().unwrap();
        let message = |kind, session, flow| ControlDatagram::new(kind, session, flow, 9);
        let open = message(DatagramKind::Open, 5, 2);
        // From another host, of another session or flow, of other kinds, and about what is not open: silence.
        let elsewhere = SocketAddr::new("127.0.0.2".parse().unwrap(), from.port());
        assert!(!server.is_data(&open.encode(&key()), elsewhere, 1));
        for ignored in [
            message(DatagramKind::Open, 6, 2),
            message(DatagramKind::Open, 5, 3),
            message(DatagramKind::End, 5, 2),
            message(DatagramKind::Feedback, 5, 2),
            message(DatagramKind::Opened, 5, 2),
        ] {
            assert!(!server.is_data(&ignored.encode(&key()), from, 1), "{ignored:?}");
        }
        // With another key it is data, and its damage is counted there.
        assert!(server.is_data(&open.encode(&DatagramKey::from_bytes(&[8; 16])), from, 1));
        assert_eq!(answer(&client), None);
        assert!(!server.is_data(&open.encode(&key()), from, 1));
        assert_eq!(answer(&client).unwrap().kind, DatagramKind::Opened);
        let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(!server.is_data(&open.encode(&key()), other.local_addr().unwrap(), 1));
        assert_eq!(answer(&other).unwrap().kind, DatagramKind::Refused, "no room for a second");
        let logged_at = 1_000;
        server.transfers.arrived(from.port(), 0, 100, logged_at);
        assert!(!server.is_data(&message(DatagramKind::End, 5, 2).encode(&key()), from, 4_000));
        let count = answer(&client).unwrap();
        assert_eq!((count.kind, count.t1_ns), (DatagramKind::Count, 3_000));
        assert_eq!((count.t2_ns, count.t3_ns), (1, 100));
    }
}
