//! `--mgen-script`, `--rude-script` and `--ditg-script`: scripts of other tools, as plans.

use std::io::Read;
use std::path::Path;

use weir_link::capture::CaptureReader;
use weir_peers::scripts::{self, Captured, Destination, MAX_SCRIPT_BYTES};

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
        (Some(path), _) => {
            let script = text("--mgen-script", path)?;
            (path, scripts::read_mgen(&script, to, &mut packets))
        }
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

/// Maximum number of packets of a capture that are read: one more than a plan can have.
const MAX_PACKETS: usize = 10_001;

/// The packets of a capture, which is named from the directory in which the program runs, as MGEN does.
fn packets(name: &str) -> Result<Vec<Captured>, String> {
    let refused = |error: &dyn std::fmt::Display| format!("a capture that can be read ({error})");
    let file = std::fs::File::open(name).map_err(|error| refused(&error))?;
    let input = std::io::BufReader::new(file);
    let mut reader = CaptureReader::new(input, name).map_err(|error| refused(&error))?;
    let mut packets = vec![];
    while let Some(frame) = reader.next_frame().map_err(|error| refused(&error))? {
        packets.push(Captured { at_ns: frame.time_ns, frame_bytes: frame.original_len.into() });
        if packets.len() == MAX_PACKETS {
            break;
        }
    }
    Ok(packets)
}

fn reading(flag: &str) -> &'static str {
    match flag {
        "--mgen-script" => "--mgen-script: read",
        "--ditg-script" => "--ditg-script: read",
        _ => "--rude-script: read",
    }
}
