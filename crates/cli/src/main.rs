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
    /// This host's noise floor: clock, waking, spacing, delay, rates; kept and printed beside results
    Calibrate(commands::calibrate::CalibrateArgs),
    /// What this host can do for a measurement, what stands in its way, and the command that changes it
    Doctor(commands::doctor::DoctorArgs),
    /// Hosts in network namespaces: set up, run inside, take down
    Lab(commands::lab::LabArgs),
}

fn main() {
    let code = match Cli::parse().command {
        Commands::Calibrate(args) => or_failed("calibrate", commands::calibrate::run(args)),
        Commands::Doctor(args) => or_failed("doctor", commands::doctor::run(args)),
        Commands::Lab(args) => match commands::lab::run(args) {
            Ok(code) => code,
            Err(error) => {
                eprintln!("weir lab: {error}");
                commands::lab::exit_code(&error)
            }
        },
    };
    std::process::exit(code);
}

fn or_failed(command: &str, result: Result<i32, Box<dyn std::error::Error>>) -> i32 {
    result.unwrap_or_else(|error| {
        eprintln!("weir {command}: {error}");
        // What these commands need and can't have is the system's to give.
        4
    })
}
