//! Parses the command line, dispatches the command, prints errors and returns the exit code.

use std::ffi::OsString;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use weir_jobs::Event;

use crate::commands;
use crate::error::{CliError, error_object};
use crate::job;
use crate::parsed;
use crate::stamp;
use crate::terminal;

/// Generate, measure and impair IP traffic
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version = stamp::SHORT_VERSION,
    long_version = stamp::LONG_VERSION,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "`weir COMMAND --help` lists the flags of a command."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a test against a host that runs `weir serve`
    Test(Box<commands::test::TestArgs>),
    /// Run the server that tests measure against
    Serve(Box<commands::serve::ServeArgs>),
    /// iperf's flags and text, for what was written for iperf (iperf2)
    Iperf(Box<commands::iperf::IperfArgs>),
    /// iperf3's flags, text and JSON, for what was written for iperf3
    Iperf3(Box<commands::iperf3::Iperf3Args>),
    /// netperf's flags and text, for what was written for netperf
    Netperf(Box<commands::netperf::NetperfArgs>),
    /// netserver's flags, for clients of netperf
    Netserver(commands::netperf::NetserverArgs),
    #[command(flatten)]
    Peer(commands::peers::PeerCommand),
    /// Take jobs for this host from a NATS server
    Agent(commands::fleet::AgentArgs),
    /// Run jobs on the agents of many hosts
    Fleet(Box<commands::fleet::FleetArgs>),
    /// Start, stop and query the connections of a running test (`weir test --control-socket`)
    Ctl(commands::ctl::CtlArgs),
    /// Measure between two network namespaces: asked, realised, measured
    Demo(commands::demo::DemoArgs),
    /// Check this host for settings that disturb a measurement
    Doctor(commands::doctor::DoctorArgs),
    /// Measure and store this host's noise floor
    Calibrate(commands::calibrate::CalibrateArgs),
    /// Create hosts in network namespaces, run commands in them, remove them
    Lab(Box<commands::lab::LabArgs>),
    /// Impair the path between two interfaces, and control a running emulator
    Impair(Box<commands::impair::ImpairArgs>),
    /// List the presets of `weir impair --profile`
    Profiles(commands::profiles::ProfilesArgs),
    /// List, show, compare, export, import and remove stored results
    Runs(commands::runs::RunsArgs),
    /// Run a test at each point of a grid, repeatedly: mean, variance, confidence interval
    Sweep(Box<commands::experiment::sweep::SweepArgs>),
    /// Measure a path with Weir and other tools, in shuffled order
    Compare(Box<commands::experiment::compare::CompareArgs>),
    /// Run a scenario: steps, expectations, verdict
    Run(Box<commands::experiment::run::RunArgs>),
    /// Render a run, or a comparison of runs, as HTML, Markdown, SVG or CSV
    Report(commands::report::ReportArgs),
    /// Print a new 256-bit key
    Keygen(commands::keygen::KeygenArgs),
    /// Print the JSON Schema of a file format
    Schema(commands::schema::SchemaArgs),
    /// Print a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
    /// Run one job for another Weir process: JSON lines on stdin and stdout
    #[command(hide = true)]
    Job {
        /// Kind of the job, shown in process listings
        kind: Option<String>,
    },
    /// Starts programs for `weir serve --ui`
    #[command(hide = true)]
    Launcher(commands::serve::ui::LauncherArgs),
    /// Print the manual page, or write those of all commands
    Man(commands::man::ManArgs),
}

/// The file from which a command builds its experiment.
pub(crate) enum ScenarioSource {
    /// The scenario of `weir run`.
    Scenario(std::path::PathBuf),
    /// `--plan` of a sweep, or of repeated tests.
    Plan(std::path::PathBuf),
}

/// The file that a stored experiment's command named; `None` if this version does not parse that command.
pub(crate) fn file_of(words: &[String]) -> Option<ScenarioSource> {
    let words: Vec<OsString> = words.iter().map(Into::into).collect();
    match read(&words).ok()?.command {
        Command::Run(args) => args.file().map(|file| ScenarioSource::Scenario(file.into())),
        Command::Sweep(args) => args.plan().map(|file| ScenarioSource::Plan(file.into())),
        Command::Test(args) => args.general.plan.map(ScenarioSource::Plan),
        _ => None,
    }
}

fn read(words: &[OsString]) -> Result<Cli, clap::Error> {
    parsed::read(words, |words| Cli::try_parse_from(words))
}

/// The whole command line, for completions and manual pages.
pub(crate) fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    // Daemons and jobs are started by /proc/self/exe, whose name process listings would show.
    if std::fs::read("/proc/self/comm").is_ok_and(|name| name.trim_ascii_end() == b"exe") {
        weir_net::thread::set_name("weir");
    }
    let words = by_link(std::env::args_os().collect());
    let code = match read(&words) {
        Ok(cli) => dispatch(cli.command, &words),
        Err(refusal) => help_or_refusal(&refusal, &words),
    };
    // Every documented exit code fits in a byte.
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}

/// Commands that are run where the program is called by a link of their name.
const LINKS: [&str; 5] = ["iperf", "iperf3", "netperf", "netserver", "ttcp"];

/// The command line, with the command of the link by which the program was called.
fn by_link(words: Vec<OsString>) -> Vec<OsString> {
    let [program, rest @ ..] = &words[..] else { return words };
    let name = std::path::Path::new(program).file_stem().and_then(std::ffi::OsStr::to_str);
    let Some(link) = LINKS.into_iter().find(|link| Some(*link) == name) else { return words };
    ["weir", link].map(OsString::from).into_iter().chain(rest.iter().cloned()).collect()
}

fn dispatch(command: Command, words: &[OsString]) -> i32 {
    let form = ErrorForm::of(words);
    // Plans of clients and jobs come with their profiles in place; a client can't name a file of this user.
    let is_server = matches!(&command, Command::Serve(args) if args.ui.ui.is_none());
    if !is_server && !matches!(command, Command::Job { .. }) {
        crate::user_data::find_profiles();
    }
    let done = match command {
        // These print their own errors, after the results measured so far.
        Command::Test(args) if args.later.is_repeated() => {
            commands::experiment::sweep::repeated(*args, words)
        }
        Command::Test(args) => return commands::test::run(&args, words),
        Command::Iperf(args) => return commands::iperf::run(&args, words),
        Command::Iperf3(args) => return commands::iperf3::run(&args, words),
        Command::Netperf(args) => return commands::netperf::run(&args, words),
        Command::Netserver(args) => return commands::netperf::serve(&args, words),
        Command::Peer(command) => return commands::peers::run(command, words),
        Command::Serve(args) => commands::serve::run(&args, words),
        Command::Agent(args) => commands::fleet::agent(&args),
        Command::Fleet(args) => commands::fleet::run(&args),
        Command::Ctl(args) => commands::ctl::run(&args),
        Command::Lab(args) => commands::lab::run(*args),
        Command::Demo(args) => commands::demo::run(&args, words),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Calibrate(args) => commands::calibrate::run(args),
        Command::Impair(args) => commands::impair::run(*args),
        Command::Profiles(args) => commands::profiles::run(&args),
        Command::Runs(args) => runs(&args),
        Command::Sweep(args) => commands::experiment::sweep::run(*args, words),
        Command::Compare(args) => commands::experiment::compare::run(*args, words),
        Command::Run(args) => commands::experiment::run::run(&args, words),
        Command::Report(args) => commands::report::run(&args),
        Command::Keygen(args) => commands::keygen::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Job { .. } => return crate::job::run(),
        Command::Launcher(args) => commands::serve::ui::launcher(&args),
        Command::Man(args) => commands::man::run(&args),
    };
    done.unwrap_or_else(|error| {
        let error = error.named_as_typed(words);
        tell(&error, form);
        error.exit_code()
    })
}

fn runs(args: &commands::runs::RunsArgs) -> Result<i32, CliError> {
    let options = terminal::text_options();
    let data = weir_runs::DataDirectory::of_this_user().map_err(commands::runs::RunsError::from)?;
    let now = crate::time::since_epoch(std::time::SystemTime::now()).as_millis() as i64;
    Ok(commands::runs::run(args, &data, now, &options, &mut stdout().lock(), &mut stderr().lock())?)
}

/// How an error is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `error: …` on stderr.
    Text,
    /// One object on stdout.
    Json,
    /// One event line on stdout.
    Stream,
}

/// Short flags without a value: another short flag may follow in the same argument.
const CLUSTERABLE: &str = "uRNZ46V1D";

impl ErrorForm {
    /// The form that the arguments request, even if they can't be parsed.
    pub(crate) fn of(words: &[OsString]) -> ErrorForm {
        for word in words.iter().skip(1).filter_map(|w| w.to_str()) {
            match word {
                "--" => break,
                "--json" => return ErrorForm::Json,
                "--json-stream" => return ErrorForm::Stream,
                _ => {}
            }
            if let Some(cluster) = word.strip_prefix('-')
                && cluster.trim_start_matches(|c| CLUSTERABLE.contains(c)).starts_with('J')
            {
                return ErrorForm::Json;
            }
        }
        Self::of_environment()
    }

    /// The form that the environment requests for every command.
    pub(crate) fn of_environment() -> ErrorForm {
        let is_json = std::env::var_os("WEIR_ERRORS").is_some_and(|form| form == "json");
        if is_json { ErrorForm::Json } else { ErrorForm::Text }
    }
}

/// Prints an error. If the stream is closed, only the exit code reports it.
pub(crate) fn tell(error: &CliError, form: ErrorForm) {
    if error.exit_code() == 0 {
        return;
    }
    if job::is_job() {
        return job::emit(&Event::Error(error.refusal()));
    }
    let line = match form {
        ErrorForm::Text => return note(&format!("error: {}", error.chain())),
        ErrorForm::Json => error_object(&error.refusal()),
        ErrorForm::Stream => {
            Event::Error(error.refusal()).to_line().unwrap_or_default().trim_end().to_owned()
        }
    };
    let mut out = stdout();
    // If stdout failed, the error to report may be that failure: stderr gets it.
    let is_gone = |e: std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    if written.is_err_and(|e| !is_gone(e)) {
        job::report_error(error);
    }
}

/// Prints a line to stderr.
pub(crate) fn note(line: &str) {
    job::notice("", line);
}

/// Prints help, the version, or the parser's refusal; returns the exit code.
fn help_or_refusal(refusal: &clap::Error, words: &[OsString]) -> i32 {
    let form = ErrorForm::of(words);
    match refusal.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = refusal.print();
            0
        }
        _ if form == ErrorForm::Text => {
            match parsed::text(refusal, words) {
                Some(text) => note(&text),
                None => drop(refusal.print()),
            }
            2
        }
        _ => {
            let error = CliError::Refused(Box::new(parsed::refusal(refusal, words)));
            tell(&error, form);
            error.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_its_command() {
        let words =
            |line: &str| -> Vec<OsString> { line.split_whitespace().map(OsString::from).collect() };
        assert_eq!(by_link(words("/usr/bin/iperf3 -c h")), words("weir iperf3 -c h"));
        for same in ["weir test h", "/opt/weir iperf3 -s", ""] {
            assert_eq!(by_link(words(same)), words(same));
        }
        for link in LINKS {
            assert!(command_line().find_subcommand(link).is_some(), "{link}");
        }
    }

    #[test]
    fn the_definition_of_flags_holds() {
        command_line().debug_assert();
    }

    /// The parser wraps lines that are longer than a narrow terminal. A line broken by hand would be wrapped twice there, and
    /// every other line would hold only a few words.
    #[test]
    fn help_is_wrapped_once() {
        fn check(command: &clap::Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for (i, line) in lines.iter().enumerate() {
                let cut = line.chars().count() > 78 && !line.ends_with(['.', ':', ')', '"']);
                let continues = lines.get(i + 1).is_some_and(|next| !next.is_empty());
                assert!(!(cut && continues), "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&command_line());
    }

    #[test]
    fn usage_shows_where_the_command_begins() {
        for (words, usage) in [
            (&["weir", "impair", "exec"][..], "weir impair exec [OPTIONS] [LAWS] -- COMMAND"),
            (&["weir", "lab", "exec", "a"], "weir lab exec [OPTIONS] HOST -- CMD"),
        ] {
            let text = Cli::try_parse_from(words).unwrap_err().to_string();
            assert!(text.contains(&format!("Usage: {usage}")), "{text}");
        }
    }

    #[test]
    fn the_form_of_errors_is_known_without_parsing() {
        let form =
            |words: &[&str]| ErrorForm::of(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(form(&["weir", "test", "h", "-J"]), ErrorForm::Json);
        assert_eq!(form(&["weir", "test", "h", "-uJ"]), ErrorForm::Json);
        assert_eq!(form(&["weir", "test", "h", "-TJ"]), ErrorForm::Text);
        assert_eq!(form(&["weir", "test", "h", "--", "--json"]), ErrorForm::Text);
        assert_eq!(form(&["weir", "test", "--json-stream"]), ErrorForm::Stream);
    }
}
