//! The speed test as a thread.

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

/// A speed test that is being served, until this is dropped.
pub(crate) struct Serving {
    /// Where.
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

/// Starts it, where it is asked for: it listens when this returns.
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
    let (tell, told) = mpsc::channel::<Result<SocketAddr, CliError>>();
    let thread = std::thread::Builder::new()
        .name("weir-speed".into())
        .spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(e) => return drop(tell.send(Err(failed(e)))),
            };
            runtime.block_on(async {
                let server = async {
                    let server = SpeedServer::bind(config).await?;
                    // Visitors need nothing that takes capabilities; this thread drops its own once it listens.
                    weir_api::drop_capabilities(for_another)?;
                    let address = server.address()?;
                    Ok::<_, weir_api::ApiError>((server, address))
                };
                match server.await {
                    Ok((server, address)) => {
                        let _ = tell.send(Ok(address));
                        server.run(async { drop(stopped.await) }).await;
                    }
                    Err(e) => drop(tell.send(Err(e.into()))),
                }
            });
            // Tests that run go with it; a result that is being kept has a moment.
            runtime.shutdown_timeout(Duration::from_millis(500));
        })
        .map_err(failed)?;
    let ended = || CliError::Unavailable("speed test: it ended before it listened".into());
    let address = told.recv().map_err(|_| ended())??;
    Ok(Some(Serving { address, stop: Some(stop), thread: Some(thread) }))
}
