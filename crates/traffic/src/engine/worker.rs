//! A worker thread and its inbox.
//!
//! A panic in a worker is a bug that must not leave a test waiting: the worker's flows fail (each reports it when a
//! panicking thread drops it), and the worker restarts with the commands still in its inbox.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use weir_net::poll::{Interest, Poller, Waker};

use crate::TrafficError;

/// Token of the inbox in the worker's poller; flows count from 1.
pub(super) const INBOX: u64 = 0;

/// Error of a flow whose worker panicked.
pub(super) const LOST: &str =
    "internal error: the thread that served this flow stopped unexpectedly";

/// Inputs of a worker thread.
pub(super) struct Inbox<C> {
    pub(super) commands: Receiver<C>,
    pub(super) poller: Poller,
    pub(super) waker: Waker,
}

impl<C> Inbox<C> {
    /// Replaces the poller by one without the sockets of earlier flows.
    fn renew(&mut self) {
        // On failure the old one is used: events of flows that have ended are ignored.
        if let Ok(poller) = Poller::new()
            && poller.add(&self.waker, INBOX, Interest::READ).is_ok()
        {
            self.poller = poller;
        }
    }
}

/// A running worker. Dropping it stops the thread and waits for it.
pub(super) struct Worker<C> {
    commands: Option<Sender<C>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl<C: Send + 'static> Worker<C> {
    pub(super) fn start(
        name: &str,
        cpu: Option<usize>,
        mut work: impl FnMut(&Inbox<C>) + Send + 'static,
    ) -> Result<Self, TrafficError> {
        let failed = |e| TrafficError::system(format!("starting worker {name}"), e);
        let poller = Poller::new().map_err(failed)?;
        let waker = Waker::new(&poller, INBOX).map_err(failed)?;
        let (commands, receiver) = channel();
        let mut inbox = Inbox { commands: receiver, poller, waker: waker.clone() };
        let short: String = name.chars().take(15).collect();
        let thread = std::thread::Builder::new()
            .name(short)
            .spawn(move || {
                if let Some(cpu) = cpu {
                    // The flag was checked before: a refusal means that the processor went away meanwhile.
                    let _ = weir_net::thread::pin_to_cpu(cpu);
                }
                // Shared state is behind mutexes and valid at every moment, so that a panic leaves it usable.
                while catch_unwind(AssertUnwindSafe(|| work(&inbox))).is_err() {
                    inbox.renew();
                }
            })
            .map_err(failed)?;
        Ok(Worker { commands: Some(commands), waker, thread: Some(thread) })
    }

    pub(super) fn tell(&self, command: C) {
        if let Some(commands) = &self.commands {
            // Fails only when the thread has ended, which needs no commands.
            let _ = commands.send(command);
            self.waker.wake();
        }
    }
}

impl<C> Drop for Worker<C> {
    fn drop(&mut self) {
        self.commands = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
