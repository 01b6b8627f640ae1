//! `weir netserver`: `weir serve` with netperf's protocol alone.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use clap::Args;
use weir_model::plan::Family;
use weir_model::record::Record;
use weir_peers::ServeConfig;
use weir_traffic::Limits;
use weir_traffic::session::WorkerConfig;

use super::SPOKEN;
use super::values::{explicit, family};
use crate::app::note;
use crate::commands::serve::daemon;
use crate::commands::tool::{self, FAILED, Served};
use crate::commands::values;
use crate::engine::StopReason;
use crate::error::CliError;
use crate::output::print;
use crate::stamp::VERSION;

const NAME: &str = "netperf";
/// Longest test, s: that of a client's test.
const SESSION_SECONDS: u64 = 7 * 86_400;

/// Flags of netserver, for clients of netperf
#[derive(Debug, Args)]
#[command(
    override_usage = "weir netserver [OPTIONS]",
    disable_version_flag = true,
    after_help = "Called by a link of the name netserver, weir is this command.\n\
                  Results are stored as those of weir serve are (weir runs list).\n\
                  Exit codes: 0 stopped, 1 any error, 2 a wrong flag."
)]
pub(crate) struct NetserverArgs {
    /// Port
    #[arg(short = 'p', value_name = "PORT", default_value_t = 12865, value_parser = values::whole(1_u16..=65_535))]
    port: u16,
    /// IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    ipv6: bool,
    /// Address to listen on, and its family
    #[arg(short = 'L', value_name = "ADDRESS[,FAMILY]")]
    listen: Option<String>,
    /// Stay in the foreground
    #[arg(short = 'D')]
    foreground: bool,
    /// Serve one client at a time, and refuse others meanwhile
    #[arg(short = 'f')]
    serial: bool,
    /// Clients must send this passphrase first
    #[arg(short = 'Z', value_name = "PASSPHRASE")]
    passphrase: Option<String>,
    /// Print a line for each test
    #[arg(short = 'v', value_name = "LEVEL", value_parser = values::whole(0_u32..=9))]
    verbosity: Option<u32>,
    /// Print the version
    #[arg(short = 'V', exclusive = true)]
    version: bool,
    /// Without an effect: clients get no debugging output
    #[arg(short = 'N')]
    no_debug: bool,
    /// Without an effect: no debugging output
    #[arg(short = 'd', action = clap::ArgAction::Count)]
    debug: u8,
    /// Set for the process in the background.
    #[arg(long, hide = true)]
    in_background: bool,
}

impl NetserverArgs {
    /// The addresses to listen on; empty: all.
    fn addresses(&self) -> Result<Vec<IpAddr>, CliError> {
        let [name, stated] = explicit(self.listen.as_deref());
        let stated = stated.map(|text| family("-L", text)).transpose()?.flatten();
        let any = |family| match family {
            Family::Ipv4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            Family::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let wanted = match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::Ipv4),
            (_, true) => Some(Family::Ipv6),
            _ => stated,
        };
        match name {
            None => Ok(wanted.map(any).into_iter().collect()),
            Some(name) => {
                let address = values::address(name).map(|address| vec![address]);
                address.map_err(|accepted| CliError::flag("-L", name, &accepted))
            }
        }
    }
}

/// Runs the command; prints errors itself. Returns 0, 2 after a wrong flag, or 1 after any other error.
pub(crate) fn serve(args: &NetserverArgs, words: &[OsString]) -> i32 {
    if args.version {
        let text = format!("Netperf version {SPOKEN} (weir {VERSION})\n");
        return print(&text).map_or(FAILED, |_| 0);
    }
    tool::exit_code(run(args, words), tool::printed("netserver"))
}

fn run(args: &NetserverArgs, words: &[OsString]) -> Result<i32, CliError> {
    let usual = Limits::default();
    let config = ServeConfig {
        bind: args.addresses()?,
        port: args.port,
        limits: Limits {
            session_seconds: SESSION_SECONDS,
            sessions: if args.serial { 1 } else { usual.sessions },
            ..usual
        },
        workers: WorkerConfig::default(),
        passphrase: args.passphrase.clone(),
        hmac: None,
        logins: None,
        rate_limit: None,
        managers: None,
        describe: None,
        call_backs: weir_peers::CallBacks::Never,
        iperf2: Default::default(),
        ports: Default::default(),
    };
    let is_shown = !args.in_background;
    if !args.foreground && !args.in_background {
        print(&starting(&config))?;
        return daemon::start(true, words);
    }
    let is_verbose = args.verbosity.is_some_and(|level| level > 0);
    let stop = tool::serve(NAME, &config, words, args.in_background, &mut |event| {
        match event {
            Served::Listening if is_shown => drop(print(&starting(&config))?),
            Served::Refused(text) if is_shown => note(&format!("netserver: {text}")),
            Served::Ended(record) if is_shown && is_verbose => drop(print(&line(record))?),
            _ => {}
        }
        Ok(false)
    })?;
    Ok(stop.reason().map_or(0, StopReason::service_exit_code))
}

/// The line of the start.
fn starting(config: &ServeConfig) -> String {
    let (host, family) = match config.bind.first() {
        None => ("IN(6)ADDR_ANY".into(), "AF_UNSPEC"),
        Some(address) if address.is_ipv4() => (address.to_string(), "AF_INET"),
        Some(address) => (address.to_string(), "AF_INET6"),
    };
    format!("Starting netserver with host '{host}' port '{}' and family {family}\n", config.port)
}

/// The line of a test, `-v`.
fn line(record: &Record) -> String {
    let host = weir_report::clean(record.plan.host.as_deref().unwrap_or_default());
    let reason = weir_report::clean(&record.end_reason);
    format!("{host}: {:.2} s, {reason} ({})\n", record.seconds, record.id)
}
