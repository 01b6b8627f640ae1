//! `weir keygen`: a new key for `--key-file` and WEIR_KEY on both sides.

use clap::Args;

use crate::engine::Key;
use crate::error::CliError;
use crate::output::print;

/// Print a new 256-bit key
#[derive(Debug, Args)]
#[command(
    after_help = "Keep it in a file that only you can read:\n  (umask 077; weir keygen > key)\n  weir serve --key-file key"
)]
pub(crate) struct KeygenArgs {}

/// Prints the key.
pub(crate) fn run() -> Result<i32, CliError> {
    print(&format!("{}\n", Key::generate()?))
}
