//! Echoes of datagrams: the server's end sends back what it receives, the client's awaits what comes back.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_flow::{Drain, Receiving};
use weir_net::udp::SendBatch;
use weir_wire::control::SenderTotal;

use super::lock;
use crate::transport::DatagramSocket;

/// Datagrams per call.
const BATCH: usize = 64;

/// What a receiver of datagrams does about echoes.
pub(crate) enum EchoRole {
    /// It sends back what it receives.
    Back(EchoBack),
    /// It receives what comes back.
    Await(Arc<AwaitedEcho>),
}

/// The server's end: it sends back each datagram, never longer than it arrived.
pub(crate) struct EchoBack {
    batch: SendBatch,
    most_bytes: usize,
    /// Datagrams that the system did not accept.
    unsent: Arc<AtomicU64>,
}

impl EchoBack {
    /// `most_bytes` of each datagram come back; `None`: all. `unsent` counts those that the system does not accept.
    pub(crate) fn new(most_bytes: Option<usize>, unsent: Arc<AtomicU64>) -> Self {
        let most_bytes = most_bytes.unwrap_or(usize::MAX);
        EchoBack { batch: SendBatch::new(BATCH), most_bytes, unsent }
    }

    /// Sends back datagrams that arrived on `socket`. It never waits: an echo without room is lost at this host.
    pub(super) fn send(&mut self, socket: &dyn DatagramSocket, datagrams: &[&[u8]]) {
        for part in datagrams.chunks(BATCH) {
            let mut filling = self.batch.fill();
            for datagram in part {
                // It has room for all of them.
                let _ = filling.push(&datagram[..datagram.len().min(self.most_bytes)], None, None);
            }
            let mut is_refused = false;
            while filling.remaining() > 0 {
                match socket.send_batch(&mut filling) {
                    Ok(sent) if sent.messages > 0 => is_refused = false,
                    // An ICMP error for an earlier one, which this call has cleared.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionRefused && !is_refused => {
                        is_refused = true;
                    }
                    _ => break,
                }
            }
            self.unsent.fetch_add(filling.remaining() as u64, Ordering::Relaxed);
        }
    }
}

/// The client's end: what comes back, and what its sender has sent. The flow has finished sending when its echoes have
/// arrived, or are given up.
pub(crate) struct AwaitedEcho {
    pub(crate) receiving: Arc<Mutex<Receiving>>,
    loss_threshold_ns: u64,
    sent: Mutex<Sent>,
}

/// What is known of the sender.
enum Sent {
    Sending,
    Finished(SenderTotal),
    /// Its end was reported, or echoes are no longer received.
    Over,
}

impl AwaitedEcho {
    pub(crate) fn new(receiving: Arc<Mutex<Receiving>>, loss_threshold_ns: u64) -> Arc<Self> {
        Arc::new(AwaitedEcho { receiving, loss_threshold_ns, sent: Mutex::new(Sent::Sending) })
    }

    /// The sender has finished at `now_ns`. Returns its total if echoes are no longer awaited, so that it is to be reported now.
    pub(super) fn finished(&self, total: SenderTotal, now_ns: u64) -> Option<SenderTotal> {
        let mut sent = lock(&self.sent);
        if matches!(*sent, Sent::Over) {
            return Some(total);
        }
        *sent = Sent::Finished(total);
        drop(sent);
        let mut receiving = lock(&self.receiving);
        receiving.set_sent_total(total.packets);
        receiving.set_sent_omitted(total.omitted_packets);
        total.end_ns.into_iter().for_each(|end| receiving.set_sender_end(end));
        receiving.drain(Drain::datagrams(now_ns, self.loss_threshold_ns));
        None
    }

    /// Waiting for echoes has ended. Returns the sender's total if it has finished and was not reported.
    pub(super) fn over(&self) -> Option<SenderTotal> {
        match std::mem::replace(&mut *lock(&self.sent), Sent::Over) {
            Sent::Finished(total) => Some(total),
            Sent::Sending | Sent::Over => None,
        }
    }
}
