//! The `weir` program. It starts in [`app`]; each command is a module of [`commands`].

// On other systems the helpers of the commands that need Linux are unused.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod app;
mod commands;
#[cfg_attr(not(target_os = "linux"), path = "emulated/absent.rs")]
mod emulated;
mod engine;
mod error;
mod files;
mod job;
mod key;
mod labs;
mod named;
mod other_tools;
mod output;
mod parsed;
mod random;
mod signals;
mod stamp;
mod terminal;
mod time;
mod user_data;

use std::process::ExitCode;

fn main() -> ExitCode {
    app::main()
}
