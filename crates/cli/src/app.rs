//! From the command line to an exit code: parsing, dispatch and the printing of what went wrong.

use std::ffi::OsString;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use weir_report::{Style, TextOptions};

use crate::commands;
use crate::error::CliError;
use crate::stamp;

/// Generate, measure and impair IP traffic
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version = stamp::VERSION,
    long_version = stamp::LONG_VERSION,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "`weir COMMAND --help` tells the flags of a command."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one test against a host where `weir serve` answers
    Test(Box<commands::test::TestArgs>),
    /// Answer tests
    Serve(Box<commands::serve::ServeArgs>),
    /// Start, stop and query the connections of a running test (`weir test --control-socket`)
    Ctl(commands::ctl::CtlArgs),
    /// Measure between two hosts made of namespaces: asked beside measured
    Demo(commands::demo::DemoArgs),
    /// What this host would do to a measurement, and what to change
    Doctor(commands::doctor::DoctorArgs),
    /// Measure and keep this host's noise floor
    Calibrate(commands::calibrate::CalibrateArgs),
    /// Hosts in network namespaces: set up, run inside, take down
    Lab(Box<commands::lab::LabArgs>),
    /// Impair the path between two interfaces, and control a running emulator
    Impair(Box<commands::impair::ImpairArgs>),
    /// List the presets of `weir impair --profile`
    Profiles(commands::profiles::ProfilesArgs),
    /// Kept results: list, show, export, import, remove
    Runs(commands::runs::RunsArgs),
    /// Run a test at each point of a grid, repeatedly: mean, variance, confidence interval
    Sweep(Box<commands::experiment::sweep::SweepArgs>),
    /// Weir and other tools over the same path, in shuffled order
    Compare(Box<commands::experiment::compare::CompareArgs>),
    /// Run a scenario from a file: steps, expectations, verdict
    Run(Box<commands::experiment::run::RunArgs>),
    /// A run, or several compared, as one HTML page with charts; as Markdown, SVG or CSV
    Report(commands::report::ReportArgs),
    /// Print a new 256-bit key
    Keygen(commands::keygen::KeygenArgs),
    /// Print the JSON Schema of a run's record or of a plan
    Schema(commands::schema::SchemaArgs),
    /// Print a completion script for a shell
    Completions(commands::completions::CompletionsArgs),
    /// Starts programs for `weir serve --ui`
    #[command(hide = true)]
    Launcher(commands::serve::ui::LauncherArgs),
    /// Print the manual page, or write the pages of all commands
    Man(commands::man::ManArgs),
}

/// The whole command line, for completions and manual pages.
pub(crate) fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let code = match Cli::try_parse_from(&words) {
        Ok(cli) => dispatch(cli.command, &words),
        Err(refusal) => parsed_otherwise(&refusal, &words),
    };
    // Every code of the contract fits a byte.
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}

fn dispatch(command: Command, words: &[OsString]) -> i32 {
    let form = ErrorForm::of(words);
    let done = match command {
        // These print their own errors: what was measured before has its place in the output.
        Command::Test(args) if args.later.is_repeated() => {
            commands::experiment::sweep::repeated(*args, words)
        }
        Command::Test(args) => return commands::test::run(&args, words),
        Command::Serve(args) => commands::serve::run(&args, words),
        Command::Ctl(args) => commands::ctl::run(&args),
        Command::Lab(args) => commands::lab::run(*args),
        Command::Demo(args) => commands::demo::run(&args, words),
        Command::Doctor(args) => commands::doctor::run(args).map_err(unavailable),
        Command::Calibrate(args) => commands::calibrate::run(args).map_err(unavailable),
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
        Command::Launcher(args) => commands::serve::ui::launcher(&args),
        Command::Man(args) => commands::man::run(&args),
    };
    done.unwrap_or_else(|error| {
        tell(&error, form);
        error.exit_code()
    })
}

/// What keeps doctor or calibrate from looking is this system's.
fn unavailable(error: Box<dyn std::error::Error>) -> CliError {
    CliError::Unavailable(error.to_string())
}

fn runs(args: &commands::runs::RunsArgs) -> Result<i32, CliError> {
    let options = TextOptions { style: style(), ..Default::default() };
    let place = weir_runs::Place::of_this_user().map_err(commands::runs::RunsError::from)?;
    let now = crate::time::since_epoch(std::time::SystemTime::now()).as_millis() as i64;
    Ok(commands::runs::run(
        args,
        &place,
        now,
        &options,
        &mut stdout().lock(),
        &mut stderr().lock(),
    )?)
}

/// Colour on a terminal, unless NO_COLOR is set to something (no-color.org).
pub(crate) fn style() -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    if stdout().is_terminal() && !refused { Style::COLOUR } else { Style::PLAIN }
}

/// How an error is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `error: …` on stderr.
    Text,
    /// One object on stdout.
    Json,
    /// One event line on stdout.
    Stream,
}

/// Short flags without a value: behind these another may follow in the same word.
const CLUSTERABLE: &str = "uRNZ46V1D";

impl ErrorForm {
    /// What the words ask for, also when they can't be parsed.
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
        ErrorForm::Text
    }
}

/// Tells an error. A stream that is gone is nobody's to complain to: the exit code still tells.
pub(crate) fn tell(error: &CliError, form: ErrorForm) {
    if error.exit_code() == 0 {
        return;
    }
    let _ = match form {
        ErrorForm::Text => writeln!(stderr(), "error: {}", error.chain()),
        ErrorForm::Json => writeln!(stdout(), "{}", error.body().json()),
        ErrorForm::Stream => writeln!(stdout(), "{}", error.body().event()),
    };
}

/// A line to stderr that must not end the program when stderr is gone, as `eprintln!` would.
pub(crate) fn note(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Help and version, or a refusal by the parser.
fn parsed_otherwise(refusal: &clap::Error, words: &[OsString]) -> i32 {
    let form = ErrorForm::of(words);
    match refusal.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = refusal.print();
            0
        }
        _ if form == ErrorForm::Text => {
            match tip(refusal, words) {
                Some(tip) => note(&with_tip(&refusal.render().to_string(), tip)),
                None => drop(refusal.print()),
            }
            2
        }
        _ => {
            let text = refusal.render().to_string();
            // The first line says what is wrong; the rest is usage for people.
            let first = text.split("\n\n").next().unwrap_or(&text).trim();
            let first = first.strip_prefix("error: ").unwrap_or(first);
            let tip = tip(refusal, words);
            let words: Vec<&str> =
                first.split_whitespace().chain(tip.map(|_| ";")).chain(tip).collect();
            let error = CliError::Usage(words.join(" ").replace(" ;", ";"));
            tell(&error, form);
            error.exit_code()
        }
    }
}

/// What to do about a flag of `weir test` that people bring along from other tools, and that this one has not.
fn tip(refusal: &clap::Error, words: &[OsString]) -> Option<&'static str> {
    if refusal.kind() != ErrorKind::UnknownArgument || words.get(1)? != "test" {
        return None;
    }
    let Some(ContextValue::String(flag)) = refusal.get(ContextKind::InvalidArg) else {
        return None;
    };
    match flag.as_str() {
        "-c" | "--client" => Some("HOST stands by itself: weir test HOST"),
        "-s" | "--server" => Some("the answering side is: weir serve"),
        "-D" | "--daemon" | "--one-off" => Some("a flag of weir serve"),
        _ if flag.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit()) => Some(
            "no value may be negative; -t 0 is until stopped, -b 0 unlimited (-1, one client, is a flag of weir serve)",
        ),
        _ => None,
    }
}

/// The parser's text with our tip in the place of its own.
fn with_tip(text: &str, tip: &str) -> String {
    let mut lines: Vec<String> =
        text.trim_end().lines().filter(|l| !l.starts_with("  tip: ")).map(Into::into).collect();
    let at = lines.iter().position(String::is_empty).map_or(lines.len(), |i| i + 1);
    lines.insert(at, format!("  tip: {tip}"));
    // Where the parser had a tip of its own, the line after it is empty already.
    if lines.get(at + 1).is_some_and(|l| !l.is_empty()) {
        lines.insert(at + 1, String::new());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_flags_holds() {
        command_line().debug_assert();
    }

    #[test]
    fn flags_of_other_tools_get_a_tip() {
        for (words, wanted) in [
            (&["weir", "test", "-c", "10.0.0.1"][..], "weir test HOST"),
            (&["weir", "test", "--client", "h"], "weir test HOST"),
            (&["weir", "test", "-s"], "weir serve"),
            (&["weir", "test", "h", "-t", "-1"], "-t 0 is until stopped"),
        ] {
            let line: Vec<OsString> = words.iter().map(OsString::from).collect();
            let refusal = Cli::try_parse_from(&line).unwrap_err();
            let tip = tip(&refusal, &line).unwrap_or_else(|| panic!("{words:?}: {refusal}"));
            let text = with_tip(&refusal.render().to_string(), tip);
            assert!(tip.contains(wanted), "{tip}");
            assert_eq!(text.matches("  tip: ").count(), 1, "{text}");
            assert!(!text.contains("to pass '"), "{text}");
            assert!(text.contains("\n\nUsage: weir test"), "{text}");
        }
        let line: Vec<OsString> = ["weir", "test", "h", "--udpp"].iter().map(Into::into).collect();
        assert_eq!(tip(&Cli::try_parse_from(&line).unwrap_err(), &line), None);
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
