//! Turns signals into requests to stop: the first ends the test in order, the second immediately.

#[cfg_attr(windows, path = "signals/windows.rs")]
mod unix;

use weir_net::thread::lock;

use crate::engine::{Stop, StopReason};
use crate::error::CliError;
use unix::Signals;

/// Listens until the program ends: SIGINT, SIGTERM, and SIGHUP unless it is ignored (`nohup`); on Windows Ctrl-C, Ctrl-Break and
/// the end of the console.
///
/// The third signal ends the process at once, whatever it is doing.
///
/// # Errors
/// [`CliError::Internal`] if a handler can't be installed.
pub(crate) fn listen(stop: &Stop) -> Result<(), CliError> {
    listen_until(stop, || {})
}

/// Like [`listen`], but before the third signal ends the process, `last` runs on a thread of its own, for at most [`LAST`].
/// It cleans up what the process would otherwise leave behind.
///
/// # Errors
/// As [`listen`].
pub(crate) fn listen_until(
    stop: &Stop,
    last: impl FnOnce() + Send + 'static,
) -> Result<(), CliError> {
    let stop = stop.clone();
    let (mut count, mut last) = (0, Some(last));
    each(move |reason| {
        count += 1;
        if count >= 3 {
            let (done, is_done) = std::sync::mpsc::channel();
            if let Some(last) = last.take() {
                std::thread::spawn(move || {
                    last();
                    let _ = done.send(());
                });
                // If the thread could not be started, its end is dropped and this returns immediately.
                let _ = is_done.recv_timeout(LAST);
            }
            std::process::exit(reason.exit_code());
        }
        stop.request(reason);
    })
}

/// Maximum time by which the last action delays the end of the process.
const LAST: std::time::Duration = std::time::Duration::from_secs(1);

/// Calls `handle` for each signal, on a thread of its own, until the program ends.
///
/// # Errors
/// As [`listen`].
pub(crate) fn each(handle: impl FnMut(StopReason) + Send + 'static) -> Result<(), CliError> {
    // A job's commands on standard input call the same closure.
    let handle = std::sync::Arc::new(std::sync::Mutex::new(handle));
    let signalled = handle.clone();
    let failed = |e: std::io::Error| CliError::Internal(format!("signal handler: {e}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    // Handlers are in place before this returns: a signal from now on is not lost.
    let mut signals = {
        let _inside = runtime.enter();
        Signals::new().map_err(failed)?
    };
    let listener = async move {
        loop {
            call(&signalled, signals.next().await);
        }
    };
    std::thread::Builder::new()
        .name("weir-signals".into())
        .spawn(move || runtime.block_on(listener))
        .map_err(failed)?;
    crate::job::listen(move |reason| call(&handle, reason))
}

fn call(handle: &std::sync::Mutex<impl FnMut(StopReason)>, reason: StopReason) {
    let mut handle = lock(handle);
    (*handle)(reason);
}
