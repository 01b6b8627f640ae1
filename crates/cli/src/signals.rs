//! Signals become requests to stop; the first lets the test end in order, the second at once.

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
/// [`CliError::Internal`] when the system takes no handler.
pub(crate) fn listen(stop: &Stop) -> Result<(), CliError> {
    listen_until(stop, || {})
}

/// The same; before the third signal ends the process, `last` is called on a thread of its own and waited for, [`LAST`] at
/// most. For what a process that ends in the middle would leave behind.
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
                // It continues as well when the thread could do nothing and has dropped its end.
                let _ = is_done.recv_timeout(LAST);
            }
            std::process::exit(reason.exit_code());
        }
        stop.request(reason);
    })
}

/// How long what is done last may hold up the end.
const LAST: std::time::Duration = std::time::Duration::from_secs(1);

/// Calls `told` for each of the signals, on a thread of its own, until the program ends.
///
/// # Errors
/// As [`listen`].
pub(crate) fn each(told: impl FnMut(StopReason) + Send + 'static) -> Result<(), CliError> {
    // Commands on the standard input of a job do the same.
    let told = std::sync::Arc::new(std::sync::Mutex::new(told));
    let signalled = told.clone();
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
    crate::job::listen(move |reason| call(&told, reason))
}

fn call(told: &std::sync::Mutex<impl FnMut(StopReason)>, reason: StopReason) {
    let mut told = lock(told);
    (*told)(reason);
}
