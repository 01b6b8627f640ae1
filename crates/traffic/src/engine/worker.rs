//! A worker thread and its inbox.
//!
//! A panic in a worker is an error of ours that must not leave a test waiting: the flows that the worker held fail (each
//! says so when it is dropped by a panicking thread), and the worker starts again with what is still in its inbox.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use weir_net::poll::{Interest, Poller, Waker};

use crate::TrafficError;

/// Token of the inbox in the worker's poller; flows count from 1.
pub(super) const INBOX: u64 = 0;

/// What a flow says that was lost with its worker.
pub(super) const LOST: &str =
    "internal error: the thread that served this flow stopped unexpectedly";

/// What a worker thread is given.
pub(super) struct Inbox<C> {
    pub(super) commands: Receiver<C>,
    pub(super) poller: Poller,
    pub(super) waker: Waker,
}

impl<C> Inbox<C> {
    /// A poller that knows nothing of the sockets waited for before.
    fn renew(&mut self) {
        // Without one the old one is used: events of flows that have ended are ignored.
        if let Ok(poller) = Poller::new()
            && poller.add(&self.waker, INBOX, Interest::READ).is_ok()
        {
            self.poller = poller;
        }
    }
}

/// A running worker. Dropping it ends the thread and waits for it.
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
                    // Refused when the processor is not ours: the flag was checked, so it went away meanwhile.
                    let _ = weir_net::thread::pin_to_cpu(cpu);
                }
                // What the worker shares lies behind mutexes whose contents are valid at every moment.
                while catch_unwind(AssertUnwindSafe(|| work(&inbox))).is_err() {
                    inbox.renew();
                }
            })
            .map_err(failed)?;
        Ok(Worker { commands: Some(commands), waker, thread: Some(thread) })
    }

    pub(super) fn tell(&self, command: C) {
        if let Some(commands) = &self.commands {
            // It fails only when the thread has ended, and then there is nothing to tell it.
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
