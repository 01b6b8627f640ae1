//! The `weir` program. What it does is in [`app`]; each command is a module of [`commands`].

mod app;
mod commands;
mod emulated;
mod engine;
mod error;
mod files;
mod job;
mod key;
mod output;
mod random;
mod signals;
mod stamp;
mod time;
mod user_data;

use std::process::ExitCode;

fn main() -> ExitCode {
    app::main()
}
