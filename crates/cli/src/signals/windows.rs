//! The console events of Windows.

use std::io;

use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

use crate::engine::StopReason;

/// Ctrl-C, Ctrl-Break, and the end of the console.
pub(super) struct Signals {
    interrupts: CtrlC,
    breaks: CtrlBreak,
    closes: CtrlClose,
}

impl Signals {
    /// Installs the handlers. Must be called in a Tokio runtime.
    pub(super) fn new() -> io::Result<Signals> {
        Ok(Signals { interrupts: ctrl_c()?, breaks: ctrl_break()?, closes: ctrl_close()? })
    }

    /// Waits for the next event.
    pub(super) async fn next(&mut self) -> StopReason {
        tokio::select! {
            _ = self.interrupts.recv() => StopReason::Interrupted,
            _ = self.breaks.recv() => StopReason::Interrupted,
            _ = self.closes.recv() => StopReason::Terminated,
        }
    }
}
