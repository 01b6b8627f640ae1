//! `weir impair --pcap-in F --pcap-out F`: runs the emulator's engine on a capture, by the capture's clock.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, IsTerminal, Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use weir_emulator::EmulatorResult;
use weir_emulator::replay::Replay;
use weir_net::output::{begin, look};

use super::args::RunArgs;
use super::files;
use super::{outcome, text};
use crate::app::note;
use crate::error::CliError;
use crate::named::{NamedFile, apart};
use crate::output::print;
use crate::terminal::style;

fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Reads the capture, impairs it and writes the result.
pub(super) fn run(args: &RunArgs) -> Result<i32, CliError> {
    let (Some(from), Some(to)) = (&args.pcap_in, &args.pcap_out) else {
        return Err(CliError::flag(
            "--pcap-in",
            "given alone",
            "--pcap-in and --pcap-out together",
        ));
    };
    let replay = Replay {
        impairment: args.impairment()?,
        a_mac: args.a_mac,
        packet_trace: args.packet_trace.clone(),
    };
    args.laws.print_translation();
    let (piped_in, piped_out) = (is_pipe(from), is_pipe(to));
    if piped_out && stdout().is_terminal() {
        return Err(CliError::flag("--pcap-out", "- on a terminal", "a file, or - into a pipe"));
    }
    let input: Box<dyn Read> = if piped_in {
        Box::new(stdin().lock())
    } else {
        Box::new(File::open(from).map_err(CliError::io("read capture", from))?)
    };
    // Refuse an output that is also an input or another output, before any file is truncated.
    let written = |flag, path| NamedFile { flag, path, is_written: true };
    let mut named = vec![
        NamedFile { flag: "--pcap-in", path: from, is_written: false },
        written("--pcap-out", to),
    ];
    let configurations_path;
    if let Some(path) = &args.packet_trace {
        files::packet_trace_is_file(path)?;
        let (packet_trace, configurations) = files::packet_trace(path);
        configurations_path = configurations;
        named.extend([packet_trace, written("--packet-trace", &configurations_path)]);
    }
    if let Some(path) = &args.laws.config {
        named.insert(0, NamedFile { flag: "--config", path, is_written: false });
    }
    apart(&named)?;
    let output: Box<dyn Write> = if piped_out {
        Box::new(stdout().lock())
    } else {
        Box::new(OutputTarget::open(to).map_err(CliError::io("write capture", to))?)
    };
    let name = |path: &Path, pipe, of_pipe: &str| match pipe {
        true => of_pipe.to_owned(),
        false => path.display().to_string(),
    };
    let names = (name(from, piped_in, "stdin"), name(to, piped_out, "stdout"));
    let EmulatorResult { report, error } = replay.run(
        (BufReader::with_capacity(1 << 18, input), &names.0),
        (BufWriter::with_capacity(1 << 18, output), &names.1),
    )?;
    // If the capture is written to stdout, all text goes to stderr.
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
        return outcome(error.map(CliError::from), true, 0);
    }
    let mut out = format!("{} → {}, seed {}\n", names.0, names.1, report.impairment.config.seed);
    out += &text::laws(&report.impairment.config);
    out += &text::table(&report, &style());
    print(&out)?;
    outcome(error.map(CliError::from), false, 0)
}

/// A file that is unchanged until something is written: an input that is not a capture does not destroy an earlier result.
enum OutputTarget {
    /// Exists and is unchanged; the flag says whether its content is removed before the first write.
    Before(File, bool),
    /// Does not exist yet.
    Absent(PathBuf),
    /// Written to.
    Begun(File),
}

impl OutputTarget {
    fn open(path: &Path) -> std::io::Result<OutputTarget> {
        match look(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(OutputTarget::Absent(path.into())),
            found => found.map(|(file, is_emptied)| OutputTarget::Before(file, is_emptied)),
        }
    }

    fn begun(&mut self) -> std::io::Result<&mut File> {
        let file = match self {
            OutputTarget::Begun(file) => return Ok(file),
            OutputTarget::Absent(path) => begin(path)?,
            OutputTarget::Before(file, is_emptied) => {
                // A device or a pipe can't be truncated, and the file of a descriptor is appended to.
                if *is_emptied {
                    file.set_len(0)?;
                }
                file.try_clone()?
            }
        };
        *self = OutputTarget::Begun(file);
        self.begun()
    }
}

impl Write for OutputTarget {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.begun()?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            OutputTarget::Begun(file) => file.flush(),
            OutputTarget::Before(..) | OutputTarget::Absent(_) => Ok(()),
        }
    }
}
