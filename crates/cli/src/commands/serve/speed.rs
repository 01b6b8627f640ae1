//! `weir serve --speed-test`: a speed test for browsers, on its own thread alongside the server.

use std::net::{Ipv6Addr, SocketAddr};

use clap::Args;
use weir_jobs::SpeedTestJob;

#[cfg_attr(not(target_os = "linux"), path = "speed/absent.rs")]
mod running;

use crate::commands::values;
pub(super) use running::{Serving, start};

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
    /// The job of the speed test, if one is requested.
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
