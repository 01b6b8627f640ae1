//! `weir impair --pcap-in F --pcap-out F`: the same engine on a capture's own clock.

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Read, Write, stdin, stdout};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_emulator::Ending;
use weir_emulator::replay::Replay;

use super::args::RunArgs;
use super::{outcome, text};
use crate::app::{note, style};
use crate::error::CliError;
use crate::output::print;

fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads, impairs, writes.
pub(super) fn run(args: &RunArgs) -> Result<i32, CliError> {
    let (Some(from), Some(to)) = (&args.pcap_in, &args.pcap_out) else {
        return Err(CliError::Usage("--pcap-in and --pcap-out go together".into()));
    };
    let replay = Replay {
        impairment: args.laws.impairment()?,
        a_mac: args.a_mac,
        journal: args.journal.clone(),
        native_port: args.native_port,
    };
    let (piped_in, piped_out) = (is_pipe(from), is_pipe(to));
    if piped_out && stdout().is_terminal() {
        return Err(CliError::flag("--pcap-out", "- on a terminal", "a file, or - into a pipe"));
    }
    let input: Box<dyn Read> = if piped_in {
        Box::new(stdin().lock())
    } else {
        Box::new(File::open(from).map_err(CliError::io("read capture", from))?)
    };
    // What is written would be read, or written over: told before anything is cut to nothing.
    if !piped_in && !piped_out && is_one_file(from, to) {
        return Err(CliError::flag("--pcap-out", to.display().to_string(), "another file"));
    }
    if let Some(journal) = &args.journal
        && (!piped_in && is_one_file(journal, from) || !piped_out && is_one_file(journal, to))
    {
        return Err(CliError::flag("--journal", journal.display().to_string(), "another file"));
    }
    let output: Box<dyn Write> = if piped_out {
        Box::new(stdout().lock())
    } else {
        Box::new(File::create(to).map_err(CliError::io("write capture", to))?)
    };
    let name = |path: &Path, pipe, of_pipe: &str| match pipe {
        true => of_pipe.to_owned(),
        false => path.display().to_string(),
    };
    let names = (name(from, piped_in, "stdin"), name(to, piped_out, "stdout"));
    let Ending { report, error } = replay.run(
        (BufReader::with_capacity(1 << 18, input), &names.0),
        (BufWriter::with_capacity(1 << 18, output), &names.1),
    )?;
    // Where the capture goes to stdout, nothing else does.
    let print = |text: &str| {
        if piped_out {
            note(text.trim_end());
            return Ok(0);
        }
        print(text)
    };
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|e| CliError::Internal(e.to_string()))?;
        print(&format!("{text}\n"))?;
        return outcome(error, true, 0);
    }
    let mut out = format!("{} → {}, seed {}\n", names.0, names.1, report.impairment.config.seed);
    out += &text::laws(&report.impairment.config);
    out += &text::table(&report, &style());
    print(&out)?;
    outcome(error, false, 0)
}

/// Whether both name one file, by whatever name, which need not be there. Devices and pipes may be given twice.
fn is_one_file(a: &Path, b: &Path) -> bool {
    if let (Ok(a), Ok(b)) = (a.metadata(), b.metadata()) {
        return a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    let place = |path: &Path| -> Option<PathBuf> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Some(directory.unwrap_or(Path::new(".")).canonicalize().ok()?.join(path.file_name()?))
    };
    place(a).is_some_and(|place_of_a| place(b) == Some(place_of_a))
}
