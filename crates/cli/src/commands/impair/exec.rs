//! `weir impair exec -- COMMAND`.

use std::ffi::OsString;

use super::args::ExecArgs;
use crate::error::CliError;

/// Runs the command behind an emulator; its exit code is returned.
pub(super) fn run(_args: &ExecArgs, _words: &[OsString]) -> Result<i32, CliError> {
    Err(CliError::Unavailable("not yet".into()))
}
