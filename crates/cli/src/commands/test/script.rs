//! `--mgen-script`, `--rude-script` and `--ditg-script`: scripts of other tools, as plans.

use std::io::Read;
use std::path::Path;

use weir_peers::scripts::{self, Destination, MAX_SCRIPT_BYTES};

use super::args::TestArgs;
use crate::error::CliError;
use crate::job::warn;

/// The plan of the script that the flags name, as TOML; `None`: they name none. What has no effect is reported.
///
/// # Errors
/// A file that can't be read, or an invalid script, with the line.
pub(super) fn translated(args: &TestArgs) -> Result<Option<String>, CliError> {
    let general = &args.general;
    if let Some(path) = &general.ditg_script {
        let read = weir_peers::ditg_script(&text("--ditg-script", path)?);
        return read.map(Some).map_err(|error| {
            let place = format!("{} line {}", path.display(), error.line);
            let given = format!("{place}: {} {}", error.option, error.given);
            CliError::flag("--ditg-script", given, &error.accepted)
        });
    }
    let to = match args.host.is_empty() {
        true => Destination::Script,
        false => Destination::Server,
    };
    let (path, read) = match (&general.mgen_script, &general.rude_script) {
        (Some(path), _) => (path, scripts::read_mgen(&text("--mgen-script", path)?, to)),
        (None, Some(path)) => {
            // A trace is named from the directory in which the program runs, as RUDE does.
            let mut trace = |name: &str| {
                text("--rude-script", Path::new(name))
                    .map_err(|error| format!("a file that can be read ({error})"))
            };
            (path, scripts::read_rude(&text("--rude-script", path)?, to, &mut trace))
        }
        (None, None) => return Ok(None),
    };
    let script = read.map_err(|error| CliError::Plan { path: path.clone(), error })?;
    for note in &script.notes {
        let text = format!("{}, line {}: {}", path.display(), note.line, note.text);
        warn("script-without-effect", &text);
    }
    script.plan.to_toml().map(Some).map_err(CliError::Model)
}

/// The text of a file that a flag names.
fn text(flag: &'static str, path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let limit = MAX_SCRIPT_BYTES as u64 + 1;
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(CliError::io(reading(flag), path))?;
    Ok(text)
}

fn reading(flag: &str) -> &'static str {
    match flag {
        "--mgen-script" => "--mgen-script: read",
        "--ditg-script" => "--ditg-script: read",
        _ => "--rude-script: read",
    }
}
