//! What arrives on the socket of a session: its own messages, those of other flows of its source, and what arrives while the
//! session is being opened.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use weir_net::poll::Waker;
use weir_net::thread::lock;
use weir_traffic::session::{Arrival, DatagramSocket, End, Signal, Signals};

use super::codec::{Belongs, Series};
use super::server::{FLOW, MAX_WAITING};

/// A datagram that has been read, and when it arrived.
pub(super) type Read = (Vec<u8>, Arrival);
/// A datagram of another flow than that of the session whose socket it arrived on, with its source.
pub(super) type Passed = (SocketAddr, Read);

/// What arrives on the socket of a session while it is being opened. It is counted after what arrived before.
#[derive(Default)]
pub(super) struct Opening {
    is_over: AtomicBool,
    waiting: Mutex<Vec<Read>>,
}

impl Opening {
    /// Stores a datagram, and returns whether there was room; `None`: the session is open.
    fn hold(&self, datagram: &[u8], arrival: Arrival) -> Option<bool> {
        if self.is_over.load(Ordering::Acquire) {
            return None;
        }
        let mut waiting = lock(&self.waiting);
        if self.is_over.load(Ordering::Acquire) {
            return None;
        }
        let has_room = waiting.len() < MAX_WAITING;
        if has_room {
            waiting.push((datagram.to_vec(), arrival));
        }
        Some(has_room)
    }

    /// Delivers what has arrived so far, and opens the session.
    pub(super) fn finish(&self, end: &End) {
        loop {
            let mut waiting = lock(&self.waiting);
            if waiting.is_empty() {
                return self.is_over.store(true, Ordering::Release);
            }
            let arrived = std::mem::take(&mut *waiting);
            // A worker that counts a datagram holds its flow, and waits for this lock.
            drop(waiting);
            for (datagram, arrival) in &arrived {
                end.deliver(FLOW, datagram, *arrival);
            }
        }
    }
}

/// Distinguishes the messages of a session from those of other flows.
pub(super) struct OwnMessages {
    pub(super) series: Series,
    pub(super) opening: Arc<Opening>,
    pub(super) from: SocketAddr,
    pub(super) passed: SyncSender<Passed>,
    pub(super) waker: Waker,
    /// How many could not be passed on.
    pub(super) dropped: Arc<AtomicU64>,
}

impl Signals for OwnMessages {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], now_ns: u64) -> Signal {
        let arrival = Arrival { at_ns: now_ns, is_stamped: false, is_first_of_call: false };
        match self.series.belongs(bytes) {
            Belongs::Yes => match self.opening.hold(bytes, arrival) {
                None => Signal::Data,
                Some(is_held) => {
                    self.dropped.fetch_add(u64::from(!is_held), Ordering::Relaxed);
                    Signal::Message
                }
            },
            // It counts as corrupted.
            Belongs::No => Signal::Data,
            Belongs::Before => Signal::Message,
            Belongs::Other => {
                match self.passed.try_send((self.from, (bytes.to_vec(), arrival))) {
                    Ok(()) => self.waker.wake(),
                    Err(_) => {
                        self.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Signal::Message
            }
        }
    }
}
