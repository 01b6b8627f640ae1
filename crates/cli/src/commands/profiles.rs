//! `weir profiles`: the presets of the emulator.

use clap::Args;
use weir_model::impairment::profiles::PROFILES;
use weir_report::{Align, Table};

use crate::app::style;
use crate::error::CliError;
use crate::output::print;

/// List the presets of `weir impair --profile`
#[derive(Debug, Args)]
pub(crate) struct ProfilesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints each preset's name, its laws in both directions, and the source of its figures.
pub(crate) fn run(args: &ProfilesArgs) -> Result<i32, CliError> {
    if args.json {
        let all: Vec<_> = PROFILES
            .iter()
            .map(|p| {
                serde_json::json!({
                    "name": p.name, "title": p.title, "source": p.source,
                    "a_to_b": p.up, "b_to_a": p.down,
                })
            })
            .collect();
        return print(&format!("{:#}\n", serde_json::json!({ "profiles": all })));
    }
    let left = Align::Left;
    let mut table = Table::new([
        ("name", left),
        ("what", left),
        ("up (A to B)", left),
        ("down (B to A)", left),
        ("", left),
    ]);
    let mut sources: Vec<&str> = Vec::new();
    for profile in &PROFILES {
        let number = sources.iter().position(|s| *s == profile.source).unwrap_or_else(|| {
            sources.push(profile.source);
            sources.len() - 1
        });
        table.row([
            profile.name.to_owned(),
            profile.title.to_owned(),
            profile.up.to_owned(),
            profile.down.to_owned(),
            format!("[{}]", number + 1),
        ]);
    }
    let mut out = table.render(&style());
    out += "\nDelays are one-way. Sources:\n";
    for (number, source) in (1..).zip(&sources) {
        out += &format!("[{number}] {source}\n");
    }
    print(&out)
}
