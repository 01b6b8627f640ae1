//! Asking a running test or server to end: first gently, then at once.

use std::sync::Arc;

use tokio::sync::watch;

/// Why it is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// By the user (SIGINT).
    Interrupted,
    /// By the system (SIGTERM).
    Terminated,
}

impl StopReason {
    /// The exit code of the program by contract.
    pub fn exit_code(self) -> i32 {
        match self {
            StopReason::Interrupted => 130,
            StopReason::Terminated => 143,
        }
    }

    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            StopReason::Interrupted => "interrupted",
            StopReason::Terminated => "terminated",
        }
    }
}

/// A handle to end a run; clones end the same one. The first request lets results be exchanged, the second does not.
#[derive(Debug, Clone)]
pub struct Stop {
    state: Arc<watch::Sender<(u32, Option<StopReason>)>>,
}

impl Default for Stop {
    fn default() -> Self {
        Stop { state: Arc::new(watch::Sender::new((0, None))) }
    }
}

impl Stop {
    /// A handle that has not been used.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to end. May be called from any thread.
    pub fn request(&self, reason: StopReason) {
        self.state.send_modify(|s| *s = (s.0 + 1, s.1.or(Some(reason))));
    }

    /// Why, if it was asked.
    pub fn reason(&self) -> Option<StopReason> {
        self.state.borrow().1
    }

    /// How often it was asked.
    pub fn requests(&self) -> u32 {
        self.state.borrow().0
    }

    /// Waits until it has been asked `times` times.
    pub async fn asked(&self, times: u32) -> StopReason {
        let mut receiver = self.state.subscribe();
        loop {
            if let (n, Some(reason)) = *receiver.borrow_and_update()
                && n >= times
            {
                return reason;
            }
            if receiver.changed().await.is_err() {
                // The sender lives in self: this does not happen while it is borrowed.
                std::future::pending::<()>().await;
            }
        }
    }
}
