//! `weir impair`: the emulator between two interfaces, from capture to capture, or around a command; and the commands that
//! control a running one.

mod args;
mod capture;
mod control;
pub(crate) use control::running;
mod datagrams;
mod exec;
mod figures;
pub(crate) mod files;
mod live;
mod on;
mod outward;
mod pair;
mod record;
mod relay;
mod serve;
pub(crate) mod spawn;
mod text;
mod topology;
mod watch;

use args::Verb;
pub(crate) use args::{ImpairArgs, LawArgs};

pub(crate) use weir_emulator::EmulatorError as Error;
use weir_model::Refusal;

use crate::error::CliError;
use crate::job::report_error;

/// Runs `weir impair …`.
pub(crate) fn run(args: ImpairArgs) -> Result<i32, CliError> {
    match args.verb {
        Some(Verb::Exec(exec)) => exec::run(&exec),
        Some(Verb::Serve(server)) => serve::run(&server),
        Some(verb) => control::run(&verb),
        None if args.run.pcap_in.is_some() => capture::run(&args.run),
        None => live::run(&args.run),
    }
}

/// Runs a job of `weir job`.
pub(crate) fn run_job(job: weir_jobs::EmulatorJob) -> Result<i32, CliError> {
    live::emulate(&[job], live::Form::Events, live::Around::default())
}

/// The outcome after the report was printed: `code`, or the error. With `--json` the report is the only object on stdout;
/// it holds the error as `end_reason`, and stderr gets the error with its sources.
fn outcome(error: Option<CliError>, json: bool, code: i32) -> Result<i32, CliError> {
    match error {
        None => Ok(code),
        Some(error) if json => {
            report_error(&error);
            Ok(error.exit_code())
        }
        Some(error) => Err(error),
    }
}

/// An emulator's error as a refusal: the field, its value, and what is accepted.
pub(crate) fn refusal(error: &Error) -> Refusal {
    if let Error::Refusal { what, given, accepted } = error {
        return Refusal::of_field("emulator", what, given, accepted);
    }
    if let Error::File { path, .. } | Error::PacketTrace { path, .. } = error {
        return Refusal { given: Some(path.display().to_string()), ..Refusal::default() };
    }
    match error.object() {
        Some(object) => {
            let forced = if error.may_be_forced() { ", or this one with force" } else { "" };
            let accepted = format!("another interface of this host{forced}");
            Refusal::of_field("emulator", "interfaces", object, accepted)
        }
        None => Refusal::default(),
    }
}

/// The exit code for an error of the emulator.
pub(crate) fn exit_code(error: &Error) -> i32 {
    use Error as E;
    let of_system = |errno: Option<i32>| match errno {
        // ENODEV, EISDIR: a missing interface or a directory in place of a file is a mistyped argument.
        Some(19 | 21) => 2,
        _ => 4,
    };
    match error {
        E::Link(weir_link::Error::Gone(_)) => 3,
        E::Refused { .. }
        | E::Impair(_)
        | E::Refusal { .. }
        | E::Link(weir_link::Error::Capture { .. } | weir_link::Error::Refused { .. }) => 2,
        E::Link(error) => of_system(error.raw_os_error()),
        E::Net(error) => of_system(error.raw_os_error()),
        E::File { source, .. } => match source.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::StorageFull => 4,
            _ => 2,
        },
        E::Guard(_) | E::PacketTrace { .. } | E::System { .. } | E::Pending(_) => 4,
        E::Ended => 3,
        // A thread panicked: a defect of this program.
        _ => 70,
    }
}
