//! Stand-ins for the page and the API, which are not available on this system.

use std::net::SocketAddr;

use super::super::args::ServeArgs;
use super::LauncherArgs;
use crate::commands::not_available;
use crate::error::CliError;
use crate::output::Sink;

/// Refused.
pub(crate) fn run(_: &ServeArgs, _: SocketAddr, _: Sink) -> Result<i32, CliError> {
    not_available("--ui")
}

/// Refused.
pub(crate) fn launcher(_: &LauncherArgs) -> Result<i32, CliError> {
    not_available("weir launcher")
}
