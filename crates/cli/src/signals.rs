//! Signals become requests to stop; the first lets the test end in order, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::engine::{Stop, StopReason};
use crate::error::CliError;

/// What signals have come so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals {
    first: Arc<AtomicI32>,
}

impl Signals {
    /// The exit code that the first signal asks for (128 + its number), if one came.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        Some(self.first.load(Ordering::Acquire)).filter(|code| *code != 0)
    }

    /// Notes a reason to stop and passes it on.
    pub(crate) fn request(&self, stop: &Stop, reason: StopReason) {
        let code = exit_code(reason);
        // Only the first counts: it is why the run ended.
        let _ = self.first.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        stop.request(reason);
    }

    /// Listens until the program ends: SIGINT, SIGTERM, and SIGHUP unless it is ignored (`nohup`).
    ///
    /// The third signal ends the process whatever it is doing: nothing may make it unstoppable.
    ///
    /// # Errors
    /// [`CliError::Internal`] when the system takes no handler.
    #[cfg(unix)]
    pub(crate) fn listen(stop: &Stop) -> Result<Signals, CliError> {
        use tokio::signal::unix::{SignalKind, signal};

        let failed = |e: std::io::Error| CliError::Internal(format!("signal handler: {e}"));
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let (mut interrupts, mut terminations, mut hangups) = {
            // Handlers are in place before this returns: a signal from now on is not lost.
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt()).map_err(failed)?,
                signal(SignalKind::terminate()).map_err(failed)?,
                if hangup_is_ignored() {
                    None
                } else {
                    Some(signal(SignalKind::hangup()).map_err(failed)?)
                },
            )
        };
        let (signals, stop) = (Signals::default(), stop.clone());
        let noted = signals.clone();
        let listener = async move {
            for count in 1u32.. {
                let hangup = async {
                    match &mut hangups {
                        Some(signal) => signal.recv().await,
                        None => std::future::pending().await,
                    }
                };
                let reason = tokio::select! {
                    _ = interrupts.recv() => StopReason::Interrupted,
                    _ = terminations.recv() => StopReason::Terminated,
                    _ = hangup => StopReason::Terminated,
                };
                if count >= 3 {
                    std::process::exit(exit_code(reason));
                }
                noted.request(&stop, reason);
            }
        };
        std::thread::Builder::new()
            .name("weir-signals".into())
            .spawn(move || runtime.block_on(listener))
            .map_err(failed)?;
        Ok(signals)
    }

    /// Nothing to listen for yet: the system's default ends the program.
    #[cfg(not(unix))]
    pub(crate) fn listen(_: &Stop) -> Result<Signals, CliError> {
        Ok(Signals::default())
    }
}

/// The exit code of a run that was stopped for a reason.
fn exit_code(reason: StopReason) -> i32 {
    match reason {
        StopReason::Interrupted => 130,
        StopReason::Terminated => 143,
    }
}

/// Whether SIGHUP (signal 1) is ignored, by the mask that Linux shows; unknown counts as not.
#[cfg(unix)]
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_the_reason() {
        let (signals, stop) = (Signals::default(), Stop::new());
        assert_eq!(signals.exit_code(), None);
        signals.request(&stop, StopReason::Terminated);
        signals.request(&stop, StopReason::Interrupted);
        assert_eq!(signals.exit_code(), Some(143));
    }
}
