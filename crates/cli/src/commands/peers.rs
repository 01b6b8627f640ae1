//! Commands of other tools' session protocols, such as `weir ttcp`. Each protocol is described by its declaration
//! ([`weir_peers::PROTOCOLS`]); this module makes its command and flags from it.

use std::ffi::OsString;
use std::time::SystemTime;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use weir_jobs::{Event, Notice, PeerJob};
use weir_model::Refusal;
use weir_model::record::Record;
use weir_peers::{
    Command as ToolCommand, Event as Told, Form, Given, Opt, PROTOCOLS, Protocol, StandardStream,
    Test,
};
use weir_report::json_pretty;
use weir_traffic::session::WorkerConfig;

use super::values::Label;
use crate::app::{ErrorForm, note, tell};
use crate::engine::{Failure, Stop};
use crate::error::{CliError, chain};
use crate::job::{emit, is_job, warn};
use crate::output::print;
use crate::random;
use crate::signals;
use crate::stamp::Identity;
use crate::time::since_epoch;
use crate::user_data;

/// A command of a protocol with its options.
#[derive(Debug)]
pub(crate) struct PeerCommand {
    protocol: &'static str,
    options: Vec<(String, String)>,
    output: OutputArgs,
}

/// The flags of every such command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(id = "PeerOutput")]
struct OutputArgs {
    /// Print the result as one JSON record at the end
    #[arg(long)]
    json: bool,
    /// Store a label with the result; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Do not store the result
    #[arg(long)]
    no_store: bool,
}

fn arg(opt: &Opt) -> Arg {
    let arg = Arg::new(opt.name).help(opt.help);
    let arg = match opt.form {
        Form::Letter(letter) => arg.short(letter),
        Form::Long => arg.long(opt.name),
        Form::Positional => arg,
    };
    match opt.value {
        Some(value) => arg.value_name(value).action(ArgAction::Set),
        None => arg.action(ArgAction::SetTrue),
    }
}

/// The protocols that have a command.
fn commands() -> impl Iterator<Item = (&'static Protocol, ToolCommand)> {
    PROTOCOLS.iter().filter_map(|protocol| Some((protocol, protocol.command?)))
}

fn command((protocol, tool): (&'static Protocol, ToolCommand)) -> Command {
    let command = Command::new(protocol.name).args(tool.options.iter().map(arg));
    // Behind the flags, whose own words would stand for the command's.
    OutputArgs::augment_args(command).about(tool.about).after_help(tool.details)
}

impl Subcommand for PeerCommand {
    fn augment_subcommands(parent: Command) -> Command {
        commands().fold(parent, |parent, tool| parent.subcommand(command(tool)))
    }

    fn augment_subcommands_for_update(parent: Command) -> Command {
        Self::augment_subcommands(parent)
    }

    fn has_subcommand(name: &str) -> bool {
        commands().any(|(protocol, _)| protocol.name == name)
    }
}

impl FromArgMatches for PeerCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let unknown = || clap::Error::new(clap::error::ErrorKind::InvalidSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(unknown)?;
        let (protocol, tool) =
            commands().find(|(protocol, _)| protocol.name == name).ok_or_else(unknown)?;
        let given = |opt: &Opt| match opt.value {
            Some(_) => matches.get_one::<String>(opt.name).cloned(),
            None => matches.get_flag(opt.name).then(String::new),
        };
        let options = tool.options.iter();
        Ok(PeerCommand {
            protocol: protocol.name,
            options: options.filter_map(|opt| Some((opt.name.into(), given(opt)?))).collect(),
            output: OutputArgs::from_arg_matches(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the command; prints errors itself, after the results.
pub(crate) fn run(command: PeerCommand, words: &[OsString]) -> i32 {
    let form = if command.output.json { ErrorForm::Json } else { ErrorForm::Text };
    let labels = command.output.label.iter().map(|l| (l.key.clone(), l.value.clone()));
    let job = PeerJob {
        protocol: command.protocol.into(),
        options: command.options.into_iter().collect(),
        labels: labels.collect(),
        store: !command.output.no_store,
    };
    run_as(job, words, form)
}

/// Runs a job of `weir job`.
pub(crate) fn run_job(job: PeerJob) -> i32 {
    run_as(job, &["weir", "job"].map(OsString::from), ErrorForm::Stream)
}

fn run_as(job: PeerJob, words: &[OsString], form: ErrorForm) -> i32 {
    let ready = prepare(&job).and_then(|test| {
        let stop = Stop::new();
        signals::listen(&stop)?;
        Ok((test, stop))
    });
    let ready = ready
        .and_then(|ready| check_standard_stream(ready.0.standard_stream(), form).map(|()| ready));
    match ready {
        Ok((test, stop)) => execute(test, &stop, job, words, form),
        Err(error) => {
            tell(&error, of_errors(form));
            error.exit_code()
        }
    }
}

/// The form of errors: that of the result, unless the environment requests another.
fn of_errors(form: ErrorForm) -> ErrorForm {
    if form == ErrorForm::Text { ErrorForm::of_environment() } else { form }
}

/// The test of a job.
fn prepare(job: &PeerJob) -> Result<Box<dyn Test>, CliError> {
    let found = commands().find(|(protocol, _)| protocol.name == job.protocol);
    let (_, tool) = found.ok_or_else(|| {
        let names: Vec<&str> = commands().map(|(protocol, _)| protocol.name).collect();
        CliError::flag("protocol", &job.protocol, &names.join(", "))
    })?;
    let named = |refusal: Box<Refusal>| by_flag(refusal, &tool);
    let options = job.options.iter().map(|(name, value)| (name.clone(), value.clone()));
    let given = Given::new(options, tool.options).map_err(named)?;
    let test = (tool.make)(&given).map_err(named)?;
    test.plan().check().map_err(CliError::Model)?;
    Ok(test)
}

/// Refuses a test whose data would mix with a job's lines or with a record.
fn check_standard_stream(stream: Option<StandardStream>, form: ErrorForm) -> Result<(), CliError> {
    match (stream, form) {
        (Some(_), ErrorForm::Stream) => Err(CliError::flag(
            "pattern",
            "missing",
            "pattern in a job, which has no standard streams",
        )),
        (Some(StandardStream::Output), ErrorForm::Json) => Err(CliError::flag(
            "--json",
            "with data on standard output",
            "with -s, or without --json",
        )),
        _ => Ok(()),
    }
}

/// A refused option, by its flag on a command line.
fn by_flag(refusal: Box<Refusal>, tool: &ToolCommand) -> CliError {
    let opt = tool.options.iter().find(|opt| refusal.field.as_deref() == Some(opt.name));
    let (Some(opt), Some(given), Some(accepted)) =
        (opt.filter(|_| !is_job()), &refusal.given, &refusal.accepted)
    else {
        return CliError::Refused(refusal);
    };
    let flag = match opt.form {
        Form::Letter(letter) => format!("-{letter}"),
        Form::Long => format!("--{}", opt.name),
        Form::Positional => opt.value.unwrap_or_default().into(),
    };
    CliError::flag(&flag, given, accepted)
}

fn execute(
    test: Box<dyn Test>,
    stop: &Stop,
    job: PeerJob,
    words: &[OsString],
    form: ErrorForm,
) -> i32 {
    let now = since_epoch(SystemTime::now());
    let identity = Identity::new(words, job.labels, now, random::u64());
    let mut observe = |event: Told| match event {
        // Like ttcp, on standard error; standard output is for data and records.
        Told::Line(line) => note(&line),
    };
    let outcome = test.run(&WorkerConfig::default(), stop, &mut observe);
    let (record, error) = match outcome {
        Ok(record) => (Some(record), None),
        Err(Failure { error, partial }) => (partial.map(|p| *p), Some(CliError::from(error))),
    };
    let record = record.map(|mut record| {
        identity.stamp(&mut record);
        user_data::add_calibration(&mut record);
        record
    });
    if let Some(record) = record.as_ref().filter(|_| job.store)
        && let Err(e) = user_data::keep(record)
    {
        warn(Notice::NOT_STORED, &format!("the result was not stored: {}", chain(&e)));
    }
    let mut code = error.as_ref().map_or(0, CliError::exit_code);
    if let Some(error) = &error {
        // Standard output gets a single object: the record, if there is one.
        let has_record_object = form == ErrorForm::Json && record.is_some();
        tell(error, if has_record_object { ErrorForm::Text } else { of_errors(form) });
    }
    if let Some(record) = record
        && let Err(error) = show(record, form)
    {
        tell(&error, ErrorForm::Text);
        code = if code == 0 { error.exit_code() } else { code };
    }
    code
}

fn show(record: Record, form: ErrorForm) -> Result<(), CliError> {
    match form {
        ErrorForm::Text => Ok(()),
        ErrorForm::Json => print(&json_pretty(&record)).map(drop),
        ErrorForm::Stream => {
            emit(&Event::End(Box::new(record)));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<PeerCommand, clap::Error> {
        let parent = PeerCommand::augment_subcommands(Command::new("weir"));
        let words = std::iter::once("weir").chain(line.split_whitespace());
        parent.try_get_matches_from(words).and_then(|m| PeerCommand::from_arg_matches(&m))
    }

    fn refused(line: &str) -> Refusal {
        let command = of(line).unwrap();
        let job = PeerJob {
            protocol: command.protocol.into(),
            options: command.options.into_iter().collect(),
            ..PeerJob::default()
        };
        prepare(&job).err().unwrap().refusal()
    }

    #[test]
    fn options_come_from_the_declaration() {
        let command = of("ttcp -t -s -n 7 host --json --no-store --label a=b").unwrap();
        let options: Vec<_> = command.options.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(
            options,
            [("host", "host"), ("transmit", ""), ("pattern", ""), ("buffers", "7")]
        );
        assert_eq!((command.output.json, command.output.label.len()), (true, 1));
        assert!(of("ttcp -x").is_err() && of("ttcp -n").is_err());
    }

    #[test]
    fn each_protocol_has_a_well_formed_command_that_no_other_has() {
        let parent = PeerCommand::augment_subcommands(Command::new("weir"));
        parent.debug_assert();
        let own = crate::app::command_line();
        for (protocol, tool) in commands() {
            assert_eq!(own.get_subcommands().filter(|c| c.get_name() == protocol.name).count(), 1);
            let names: Result<Vec<_>, _> = protocol
                .transports
                .iter()
                .map(|name| name.parse::<weir_model::plan::TransportName>())
                .collect();
            assert!(names.is_ok() && protocol.port > 0, "{}", protocol.name);
            let command = own.find_subcommand(protocol.name).unwrap();
            assert_eq!(command.get_about().unwrap().to_string(), tool.about);
            assert!(command.get_long_about().is_none());
        }
    }

    #[test]
    fn a_refusal_names_the_flag() {
        let refusal = refused("ttcp -t -s -l 0 h");
        assert_eq!((refusal.field.as_deref(), refusal.given.as_deref()), (Some("-l"), Some("0")));
        assert_eq!(refusal.accepted.as_deref(), Some("1 to 16777216"));
        assert_eq!(refused("ttcp -t -s").field.as_deref(), Some("HOST"));
        let unknown = PeerJob { protocol: "tcp".into(), ..PeerJob::default() };
        let refusal = prepare(&unknown).err().unwrap().refusal();
        assert_eq!(refusal.field.as_deref(), Some("protocol"));
    }
}
