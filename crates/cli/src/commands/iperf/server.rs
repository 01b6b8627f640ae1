//! The server: it prints a test at its end, since several may run at the same time.

use std::ffi::OsString;

use weir_peers::{Iperf2Group, Iperf2ServeOptions, ServeConfig};
use weir_report::{Iperf2Text, iperf2_banner};
use weir_traffic::session::WorkerConfig;
use weir_traffic::{Limits, TrafficError};

use super::args::IperfArgs;
use super::stamp;
use crate::app::note;
use crate::commands::serve::daemon;
use crate::commands::tool::{self, Served, fresh_buffers};
use crate::engine::StopReason;
use crate::error::CliError;
use crate::output::Sink;
use crate::time::since_epoch;

const NAME: &str = "iperf2";
/// Longest test, s: that of a client's test.
const SESSION_SECONDS: u64 = 7 * 86_400;

/// Serves clients until it is stopped.
pub(super) fn run(args: &IperfArgs, words: &[OsString]) -> Result<i32, CliError> {
    let group = args.group()?;
    let config = ServeConfig {
        bind: if group.is_some() { vec![] } else { args.addresses()? },
        port: args.port(),
        limits: Limits { session_seconds: SESSION_SECONDS, ..Limits::default() },
        workers: WorkerConfig::default(),
        hmac: None,
        logins: None,
        rate_limit: None,
        passphrase: None,
        managers: None,
        describe: None,
        call_backs: args.call_backs(),
        iperf2: Iperf2ServeOptions { group },
        ports: Default::default(),
    };
    let (wants_background, in_background) = args.runs_in();
    if wants_background && !in_background {
        return daemon::start(true, words);
    }
    let mut sink = match (args.logfile(), in_background) {
        (None, true) => Sink::to(Box::new(std::io::sink())),
        (logfile, _) => Sink::open(logfile, None)?,
    };
    let options = args.options();
    let mut streams = 0;
    let stop = tool::serve(NAME, &config, words, in_background, &mut |event| {
        match event {
            Served::Listening if !options.csv => {
                let transport = if args.udp() { "UDP" } else { "TCP" };
                let title = format!("Server listening on {transport} port {}", config.port);
                let [_, buffer] = fresh_buffers(args.udp(), [None; 2]);
                let joining = config.iperf2.group.as_ref().map(joining);
                sink.text(&iperf2_banner(&title, args.udp(), joining.as_slice(), buffer, None));
            }
            Served::Listening => {}
            Served::Refused(text) => note(&format!("iperf: {text}")),
            Served::Ended(record) => {
                let mut shown = record.clone();
                if !args.has_rows() {
                    shown.intervals.clear();
                }
                streams += 1;
                let now = since_epoch(std::time::SystemTime::now());
                let lasted = std::time::Duration::from_secs_f64(record.seconds.max(0.0));
                let started = now.saturating_sub(lasted);
                let time = |end: f64| stamp(options, started, end);
                match Iperf2Text::of_record(&shown, options, streams, &time) {
                    Ok(text) => sink.text(&text),
                    Err(reason) => note(&format!("iperf: {reason}")),
                }
                tool::warn(record);
            }
        }
        Ok(false)
    })
    .map_err(named)?;
    if let Some(failure) = sink.failure() {
        return Err(failure);
    }
    Ok(stop.reason().map_or(0, StopReason::service_exit_code))
}

/// An error with the flag of its field.
fn named(error: CliError) -> CliError {
    match error {
        CliError::Traffic(TrafficError::Input { field, given, accepted }) => {
            CliError::flag(&format!("--{}", field.replace('_', "-")), given, &accepted)
        }
        other => other,
    }
}

/// The line of the group that the server joins.
fn joining(group: &Iperf2Group) -> String {
    let address = group.address;
    match (group.source, &group.interface) {
        (None, None) => format!("Joining multicast group  {address}"),
        (source, interface) => {
            let known = source.map(|source| source.to_string());
            let (kind, source) = known.map_or(("*", "*".into()), |source| ("S", source));
            let on = interface.as_ref().map(|name| format!(" w/iface {name}"));
            format!("Joining multicast ({kind},G)={source},{address}{}", on.unwrap_or_default())
        }
    }
}
