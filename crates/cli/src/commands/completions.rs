//! `weir completions`: shell scripts, generated from the definition of the flags.

use clap::Args;
use clap_complete::Shell;

use crate::app::command_line;
use crate::error::CliError;
use crate::output::print;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "For bash: weir completions bash > ~/.local/share/bash-completion/completions/weir"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs) -> Result<i32, CliError> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut command_line(), "weir", &mut script);
    print(&String::from_utf8_lossy(&script))
}
