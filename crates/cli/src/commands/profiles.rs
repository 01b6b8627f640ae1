//! `weir profiles`: the presets of the emulator.

use clap::Args;
use weir_model::impairment::profiles::{PROFILES, Profile};
use weir_report::{TextOptions, hanging};

use crate::error::CliError;
use crate::output::print;
use crate::terminal::text_options;

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
    print(&text(&text_options()))
}

/// Three lines for each preset, then the sources.
fn text(options: &TextOptions) -> String {
    let mut out = String::new();
    let mut sources: Vec<&str> = Vec::new();
    for Profile { name, title, source, up, down } in &PROFILES {
        let number = sources.iter().position(|known| known == source).unwrap_or_else(|| {
            sources.push(source);
            sources.len() - 1
        });
        let heading = options.style.bold(name);
        out += &format!("{heading}: {title} [{}]\n", number + 1);
        let laws = if up == down { vec![("both", up)] } else { vec![("up", up), ("down", down)] };
        for (label, laws) in laws {
            out += &format!("  {label:<4}  {}", hanging(laws, options.width, 8));
        }
    }
    out += "\nup is A to B, down is B to A. Delays are one-way. Sources:\n";
    for (number, source) in (1..).zip(&sources) {
        let label = format!("[{number}] ");
        out += &format!("{label}{}", hanging(source, options.width, label.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_and_source_fits_the_terminal() {
        for width in [60, 80, 200] {
            let text = text(&TextOptions { width, ..TextOptions::default() });
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let words =
                |text: &str| text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
            let printed = words(&text).join(" ");
            for profile in &PROFILES {
                for part in [profile.title, profile.source, profile.up, profile.down] {
                    assert!(printed.contains(&words(part).join(" ")), "{width}: {part}");
                }
            }
        }
    }
}
