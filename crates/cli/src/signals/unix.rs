//! The signals of Unix.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::engine::StopReason;

/// SIGINT, SIGTERM, and SIGHUP unless it is ignored.
pub(super) struct Signals {
    interrupts: Signal,
    terminations: Signal,
    hangups: Option<Signal>,
}

impl Signals {
    /// Installs the handlers. Must be called in a Tokio runtime.
    pub(super) fn new() -> io::Result<Signals> {
        Ok(Signals {
            interrupts: signal(SignalKind::interrupt())?,
            terminations: signal(SignalKind::terminate())?,
            hangups: match hangup_is_ignored() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> StopReason {
        let hangup = async {
            match &mut self.hangups {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupts.recv() => StopReason::Interrupted,
            _ = self.terminations.recv() => StopReason::Terminated,
            _ = hangup => StopReason::Terminated,
        }
    }
}

/// Whether SIGHUP (signal 1) is ignored, by the mask in /proc; false if unknown.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 != 0)
}
