//! `weir serve --speed-test`: the speed test of a visitor's browser, next to the server on a thread of its own.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use weir_api::speed::{SpeedConfig, SpeedLimits, SpeedServer};
use weir_jobs::{Event, SpeedTestJob};
use weir_runs::DataDirectory;

use crate::commands::runs::RunsError;
use crate::commands::values;
use crate::error::CliError;
use crate::stamp::VERSION;

/// Port of the speed test.
const PORT: u16 = 9349;

/// Flags of the speed test.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Speed test")]
pub(crate) struct SpeedArgs {
    /// Also serve a speed test for browsers, without login, on ADDRESS:PORT, ADDRESS or :PORT (all addresses)
    /// [default port: 9349]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) speed_test: Option<SocketAddr>,
    /// A host name for the speed test, in addition to IP addresses and localhost; may be repeated
    #[arg(long, value_name = "NAME", requires = "speed_test")]
    pub(crate) speed_test_host: Vec<String>,
    /// Days after which results of the speed test are removed, unless tagged; at most the newest 20000 are stored [default: 90]
    #[arg(long, value_name = "DAYS", requires = "speed_test", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    pub(crate) speed_test_keep: Option<u64>,
    /// Do not store browsers' addresses with results of the speed test
    #[arg(long, requires = "speed_test")]
    pub(crate) speed_test_anonymous: bool,
}

impl SpeedArgs {
    /// What is asked, if a speed test is.
    pub(super) fn job(&self) -> Option<SpeedTestJob> {
        Some(SpeedTestJob {
            address: self.speed_test?,
            host_names: self.speed_test_host.clone(),
            keep_days: self.speed_test_keep,
            anonymous: self.speed_test_anonymous,
        })
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    values::listen_address(text, Ipv6Addr::UNSPECIFIED.into(), PORT)
}

/// A speed test that is being served, until this is dropped.
pub(super) struct Serving {
    /// Where.
    pub(super) address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// The event of its start.
    pub(super) fn event(&self) -> Event {
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
pub(super) fn start(job: Option<&SpeedTestJob>) -> Result<Option<Serving>, CliError> {
    let Some(job) = job else { return Ok(None) };
    let address = job.address;
    let limits = SpeedLimits::default();
    let kept_days = job.keep_days.unwrap_or(limits.kept_days);
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    let for_another = super::ui::is_for_another(&data);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_speed_test() {
        assert_eq!(address("10.0.0.1").unwrap().to_string(), "10.0.0.1:9349");
        assert_eq!(address(":80").unwrap().to_string(), "[::]:80");
        assert_eq!(address("[::1]:7").unwrap().to_string(), "[::1]:7");
        assert!(address("example.org:80").is_err() && address("").is_err());
    }
}
