//! The `weir` program.
mod commands;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "weir", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    /// Hosts in network namespaces: set up, run inside, take down
    Lab(commands::lab::LabArgs),
}

fn main() {
    let Commands::Lab(args) = Cli::parse().command;
    let code = match commands::lab::run(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weir lab: {error}");
            commands::lab::exit_code(&error)
        }
    };
    std::process::exit(code);
}
