//! Stops a running test or server: first gracefully, then immediately.

use std::sync::Arc;

use tokio::sync::watch;

/// The reason for a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// By the user (SIGINT).
    Interrupted,
    /// By the user, with a key of a live view.
    User,
    /// By the system (SIGTERM).
    Terminated,
    /// The reader of the only output closed it, which ends other programs by SIGPIPE.
    OutputClosed,
}

impl StopReason {
    /// The exit code of a program whose results are partial because of the stop.
    pub fn exit_code(self) -> i32 {
        match self {
            StopReason::Interrupted | StopReason::User => 130,
            StopReason::Terminated => 143,
            StopReason::OutputClosed => 141,
        }
    }

    /// The exit code of a service, such as a server or an emulator: SIGTERM is its ordinary end.
    pub fn service_exit_code(self) -> i32 {
        match self {
            StopReason::Terminated => 0,
            _ => self.exit_code(),
        }
    }

    /// The reason as text.
    pub fn text(self) -> &'static str {
        match self {
            StopReason::Interrupted => "interrupted",
            StopReason::User => "stopped by the user",
            StopReason::Terminated => "terminated",
            StopReason::OutputClosed => "the reader of its output closed it",
        }
    }
}

/// A handle to stop a run; clones stop the same one. After the first request results are still exchanged, after the
/// second they are not.
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

    /// Requests a stop. May be called from any thread.
    pub fn request(&self, reason: StopReason) {
        self.state.send_modify(|s| *s = (s.0 + 1, s.1.or(Some(reason))));
    }

    /// The reason of the first request, if any.
    pub fn reason(&self) -> Option<StopReason> {
        self.state.borrow().1
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u32 {
        self.state.borrow().0
    }

    /// Waits until a stop was requested `times` times.
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
