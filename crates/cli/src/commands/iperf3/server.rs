//! The server: it prints a test at its end, since several may run at the same time.

use std::ffi::OsString;

use weir_model::record::{Record, SERVED};
use weir_peers::ServeConfig;
use weir_report::{Iperf3Options, Iperf3Text};
use weir_traffic::Limits;
use weir_traffic::session::WorkerConfig;

use super::args::Iperf3Args;
use super::output::{Iperf3Form, json};
use crate::commands::serve::{PidFile, daemon, trim};
use crate::commands::tool::{self, Served};
use crate::engine::StopReason;
use crate::error::CliError;
use crate::output::Sink;

const NAME: &str = "iperf3";
/// Maximum duration of a test unless the command line has one: that of a client's test, s.
const SESSION_SECONDS: u64 = 7 * 86_400;
const RULE: &str = "-----------------------------------------------------------";

/// The text of a session for its client: as it is printed.
pub(crate) fn describe(record: &Record) -> Option<String> {
    let mut record = record.clone();
    record.labels.insert(SERVED.into(), NAME.into());
    trim(&mut record);
    Iperf3Text::of_record(&record, Iperf3Options::default()).ok()
}

/// Serves clients until it is stopped or, with `-1`, one was served.
pub(super) fn run(args: &Iperf3Args, words: &[OsString]) -> Result<i32, CliError> {
    let serving = args.serving();
    let settings = args.output();
    let limits = Limits {
        session_seconds: serving.server_max_duration.unwrap_or(SESSION_SECONDS),
        ..Limits::default()
    };
    let cpus = args.cpus()?;
    cpus.as_ref().map_or(Ok(()), |cpus| cpus.check())?;
    let config = ServeConfig {
        bind: args.addresses()?,
        port: args.port(),
        limits,
        workers: WorkerConfig { cpus: cpus.map(|cpus| cpus.0), ..WorkerConfig::default() },
        hmac: None,
        logins: args.logins()?.map(std::sync::Arc::new),
        rate_limit: serving.server_bitrate_limit,
        passphrase: None,
        managers: None,
        describe: Some(describe),
        call_backs: Default::default(),
        iperf2: Default::default(),
        ports: Default::default(),
    };
    let stamp = args.timestamps()?;
    if serving.daemon && !serving.in_background {
        return daemon::start(true, words);
    }
    let mut sink = match (args.logfile(), serving.in_background) {
        (None, true) => Sink::to(Box::new(std::io::sink())),
        (logfile, _) => Sink::open(logfile, stamp)?,
    };
    let mut pidfile = None;
    let banner =
        |test: u64| format!("{RULE}\nServer listening on {} (test #{test})\n{RULE}\n", config.port);
    let is_text = settings.form == Iperf3Form::Text;
    let (mut tests, mut failed) = (1, false);
    let stop = tool::serve(NAME, &config, words, serving.in_background, &mut |event| {
        let record = match event {
            Served::Listening => {
                pidfile = args.pidfile().map(PidFile::write).transpose()?;
                if is_text {
                    sink.text(&banner(1));
                }
                return Ok(false);
            }
            Served::Refused(text) => {
                super::tell(&text);
                return Ok(false);
            }
            Served::Ended(record) => record,
        };
        let text = match settings.form {
            Iperf3Form::Text => Iperf3Text::of_record(record, settings.options),
            form => json(record, form, Default::default()),
        };
        match text {
            Ok(text) if is_text => sink.text(&text),
            Ok(text) => sink.raw(&text),
            Err(reason) => super::tell(&reason.to_string()),
        }
        tool::warn(record);
        failed = record.status != weir_model::record::Status::Complete;
        if failed {
            super::tell(&record.end_reason);
        }
        tests += 1;
        if is_text && !serving.one_off {
            sink.text(&banner(tests));
        }
        Ok(serving.one_off)
    })?;
    drop(pidfile);
    if let Some(failure) = sink.failure() {
        return Err(failure);
    }
    match (serving.one_off && tests > 1, failed) {
        (true, failed) => Ok(failed.into()),
        (false, _) => Ok(stop.reason().map_or(0, StopReason::service_exit_code)),
    }
}
