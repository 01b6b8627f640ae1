//! `weir serve --ui`: the page and the API next to the test server.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

#[cfg_attr(not(target_os = "linux"), path = "ui/absent.rs")]
mod running;

use crate::commands::values;
#[cfg(target_os = "linux")]
pub(super) use running::is_for_another;
pub(crate) use running::launcher;
pub(super) use running::run;

/// Port of the page and the API.
const PORT: u16 = 9348;

/// Flags of the page and the API.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Page and API")]
pub(crate) struct UiArgs {
    /// Also serve the page and the HTTP API on ADDRESS:PORT; without a token file, a loopback address only
    /// [default: 127.0.0.1:9348]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9348", value_parser = address, conflicts_with = "one_off")]
    pub(crate) ui: Option<SocketAddr>,
    /// Require a token whose hash is in this file; a missing file is created with one token, which is
    /// printed once
    #[arg(long, value_name = "FILE", requires = "ui")]
    pub(crate) ui_token_file: Option<PathBuf>,
    /// A host name for the page, in addition to IP addresses and localhost; may be repeated
    #[arg(long, value_name = "NAME", requires = "ui")]
    pub(crate) ui_host: Vec<String>,
    /// Permit scenarios to run the scripts in this directory, and no other command
    #[arg(long, value_name = "DIR", requires = "ui")]
    pub(crate) allow_commands: Option<PathBuf>,
    /// A directory of scenarios for the page; may be repeated [default: scenarios/ in the configuration directory]
    #[arg(long, value_name = "DIR", requires = "ui")]
    pub(crate) scenarios: Vec<PathBuf>,
}

/// Flags of `weir launcher`, which `weir serve --ui` starts.
#[derive(Debug, Args)]
pub(crate) struct LauncherArgs {
    /// The directory that both share.
    #[arg(long)]
    directory: PathBuf,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    values::listen_address(text, Ipv4Addr::LOCALHOST.into(), PORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn addresses_of_the_page() {
        assert_eq!(address("10.0.0.1").unwrap().to_string(), "10.0.0.1:9348");
        assert_eq!(address(":80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(address("[::1]:7").unwrap().to_string(), "[::1]:7");
        assert_eq!(address("::1").unwrap().to_string(), "[::1]:9348");
        assert!(address("example.org:80").is_err() && address("").is_err());
    }

    #[test]
    fn the_address_of_the_page_may_be_a_separate_argument() {
        let of = |line: &str| {
            let command =
                clap::Command::new("serve").arg(clap::Arg::new("one_off").long("one-off"));
            let found = UiArgs::augment_args(command).try_get_matches_from(line.split(' ')).ok()?;
            UiArgs::from_arg_matches(&found).ok()?.ui
        };
        let one = |text: &str| Some(text.parse().unwrap());
        assert_eq!(of("serve --ui 127.0.0.1:80"), one("127.0.0.1:80"));
        assert_eq!(of("serve --ui=127.0.0.1:80 --ui-host a"), one("127.0.0.1:80"));
        assert_eq!(of("serve --ui --ui-host a"), one("127.0.0.1:9348"));
        assert_eq!(of("serve --ui example.org"), None);
    }
}
