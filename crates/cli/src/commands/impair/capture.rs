//! `weir impair --pcap-in F --pcap-out F`: the same engine on a capture's own clock.

use std::fs::File;
use std::io::{BufReader, BufWriter};

use weir_emulator::replay::Replay;

use super::args::RunArgs;
use super::text;
use crate::app::style;
use crate::error::CliError;
use crate::output::print;

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
    let input = File::open(from).map_err(CliError::io("read capture", from))?;
    let same = || Some(from.canonicalize().ok()? == to.canonicalize().ok()?);
    if same() == Some(true) {
        return Err(CliError::flag("--pcap-out", to.display().to_string(), "another file"));
    }
    let output = File::create(to).map_err(CliError::io("write capture", to))?;
    let names = (from.display().to_string(), to.display().to_string());
    let report = replay.run(
        (BufReader::with_capacity(1 << 18, input), &names.0),
        (BufWriter::with_capacity(1 << 18, output), &names.1),
    )?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|e| CliError::Internal(e.to_string()))?;
        return print(&format!("{text}\n"));
    }
    let mut out = format!("{} → {}, seed {}\n", names.0, names.1, report.impairment.config.seed);
    out += &text::laws(&report.impairment.config);
    out += &text::table(&report, &style());
    print(&out)
}
