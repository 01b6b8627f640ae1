//! Runs the speed test on a thread.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_api::speed::{SpeedConfig, SpeedLimits, SpeedServer};
use weir_jobs::{Event, SpeedTestJob};
use weir_runs::DataDirectory;

use crate::commands::runs::RunsError;
use crate::error::CliError;
use crate::stamp::VERSION;

/// A running speed test; it stops when this is dropped.
pub(crate) struct Serving {
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// The event of its start.
    pub(crate) fn event(&self) -> Event {
        Event::SpeedTest { address: self.address }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the speed test, if one is requested; it listens when this returns.
pub(crate) fn start(job: Option<&SpeedTestJob>) -> Result<Option<Serving>, CliError> {
    let Some(job) = job else { return Ok(None) };
    let address = job.address;
    let limits = SpeedLimits::default();
    let kept_days = job.keep_days.unwrap_or(limits.kept_days);
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    let for_another = super::super::ui::is_for_another(&data);
    let config = SpeedConfig {
        address,
        version: VERSION.into(),
        data,
        host_names: job.host_names.clone(),
        anonymous: job.anonymous,
        limits: SpeedLimits { kept_days, ..limits },
    };
    let failed = |e: std::io::Error| CliError::Unavailable(format!("speed test: {e}"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (started, has_started) = mpsc::channel::<Result<SocketAddr, CliError>>();
    let thread = std::thread::Builder::new()
        .name("weir-speed".into())
        .spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(e) => return drop(started.send(Err(failed(e)))),
            };
            runtime.block_on(async {
                let server = async {
                    let server = SpeedServer::bind(config).await?;
                    // Serving visitors needs no capabilities: this thread drops its own once it listens.
                    weir_api::drop_capabilities(for_another)?;
                    let address = server.address()?;
                    Ok::<_, weir_api::ApiError>((server, address))
                };
                match server.await {
                    Ok((server, address)) => {
                        let _ = started.send(Ok(address));
                        server.run(async { drop(stopped.await) }).await;
                    }
                    Err(e) => drop(started.send(Err(e.into()))),
                }
            });
            // Running tests are cancelled; a result that is being stored gets 500 ms.
            runtime.shutdown_timeout(Duration::from_millis(500));
        })
        .map_err(failed)?;
    let ended = || CliError::Unavailable("speed test: it ended before it listened".into());
    let address = has_started.recv().map_err(|_| ended())??;
    Ok(Some(Serving { address, stop: Some(stop), thread: Some(thread) }))
}
