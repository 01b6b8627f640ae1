//! In-band messages of a session protocol among the datagrams of a flow: the end of sending, feedback, hellos.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow::budget::FEEDBACK_BYTES;
use weir_wire::datagram::{ControlDatagram, DatagramKey, DatagramKind, looks_like_control};

use crate::channel::Meter;
use crate::transport::DatagramSocket;

/// Kind of a datagram on the socket of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Data: it is counted.
    Data,
    /// A message of the protocol: it is not counted.
    Message,
    /// The message by which the sender ends: it is not counted, and the session gets
    /// [`FlowEvent::SenderEnded`](crate::session::FlowEvent::SenderEnded).
    End,
    /// Data that is the sender's last: it is counted, and the session gets the same event.
    Last,
}

/// The in-band messages of a session protocol, for one flow of datagrams.
///
/// A worker calls these for each datagram, so they must be quick and must not block. Datagrams are hostile input.
pub trait Signals: Send {
    /// Classifies a datagram. Called at `now_ns` for each message that is not coalesced. An answer is sent on
    /// `socket`, only to a peer whose address is verified, and is never longer than the datagram.
    fn classify(&mut self, socket: &dyn DatagramSocket, bytes: &[u8], now_ns: u64) -> Signal;

    /// Called about every 50 ms, for messages that are due by time.
    fn tick(&mut self, _socket: &dyn DatagramSocket, _now_ns: u64) {}
}

/// Feedback by which a receiver shows its sender that it still wants data.
pub(crate) struct Feedback {
    pub(crate) period_ns: u64,
    pub(crate) meter: Meter,
}

/// The server's end of a native flow: it repeats answers to hellos and records feedback.
pub(crate) struct ServerSignals {
    pub(crate) key: DatagramKey,
    pub(crate) session: u64,
    pub(crate) flow: u32,
    /// When feedback arrived last.
    pub(crate) alive: Arc<AtomicU64>,
    /// Number of the last feedback.
    pub(crate) last: u64,
}

impl Signals for ServerSignals {
    fn classify(&mut self, socket: &dyn DatagramSocket, bytes: &[u8], now_ns: u64) -> Signal {
        if !looks_like_control(bytes) {
            return Signal::Data;
        }
        let Ok(d) = ControlDatagram::decode(bytes, &self.key) else { return Signal::Data };
        if d.session == self.session && d.flow == self.flow {
            match d.kind {
                // Each counts once: a replayed one proves nothing.
                DatagramKind::Feedback if d.sequence > self.last => {
                    self.last = d.sequence;
                    self.alive.store(now_ns, Ordering::Relaxed);
                }
                DatagramKind::Hello => {
                    let ack =
                        ControlDatagram { kind: DatagramKind::HelloAck, ..d }.encode(&self.key);
                    let _ = socket.send_control(&ack);
                }
                _ => {}
            }
        }
        Signal::Message
    }
}

/// The client's end of a native flow. With `feedback` it shows that it still wants data.
pub(crate) struct ClientSignals {
    pub(crate) key: DatagramKey,
    pub(crate) session: u64,
    pub(crate) flow: u32,
    pub(crate) feedback: Option<Feedback>,
    /// When the next feedback is due, and the number of the last one.
    pub(crate) next_ns: u64,
    pub(crate) last: u64,
}

impl Signals for ClientSignals {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        let is_control =
            looks_like_control(bytes) && ControlDatagram::decode(bytes, &self.key).is_ok();
        if is_control { Signal::Message } else { Signal::Data }
    }

    fn tick(&mut self, socket: &dyn DatagramSocket, now_ns: u64) {
        let Some(feedback) = self.feedback.as_ref().filter(|_| now_ns >= self.next_ns) else {
            return;
        };
        self.next_ns = now_ns + feedback.period_ns;
        self.last += 1;
        let d = ControlDatagram {
            kind: DatagramKind::Feedback,
            flow: self.flow,
            session: self.session,
            sequence: self.last,
            t1_ns: now_ns,
            t2_ns: 0,
            t3_ns: 0,
        };
        if socket.send_control(&d.encode(&self.key)).is_ok() {
            feedback.meter.add(FEEDBACK_BYTES);
        }
    }
}
