//! The `weir` program.

mod commands;

use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weir_report::{Style, TextOptions};
use weir_runs::Place;

/// Generate, measure and impair IP traffic.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kept results.
    Runs(commands::runs::RunsArgs),
}

fn main() -> ExitCode {
    let Command::Runs(args) = Cli::parse().command;
    let colour =
        stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let style = if colour { Style::COLOUR } else { Style::PLAIN };
    let options = TextOptions { style, ..Default::default() };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |d| d.as_millis() as i64);
    let code = Place::of_this_user().map_err(Into::into).and_then(|place| {
        commands::runs::run(
            &args,
            &place,
            now,
            &options,
            &mut stdout().lock(),
            &mut stderr().lock(),
        )
    });
    let code = code.unwrap_or_else(|e| {
        if e.exit_code() != 0 {
            // Where stderr is gone, the exit code still tells.
            let _ = writeln!(stderr(), "weir: {e}");
        }
        e.exit_code()
    });
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}
