//! `weir runs import`: records, or results that another tool wrote.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use clap::Args;
use clap::builder::PossibleValue;
use weir_exchange::{Format, MAX_FILE_BYTES, ReadError, accepted_files, read, recognise};
use weir_model::record::{Build, RUN_SCHEMA, Record};
use weir_runs::{DataDirectory, Imported, Store};

use super::RunsError;
use crate::stamp;

const AUTO: &str = "auto";
const JSON: &str = "json";
/// How much of a file shows whether it has records, bytes.
const HEAD: u64 = 64 << 10;

/// The names of the formats that are read, with their descriptions.
fn formats() -> Vec<PossibleValue> {
    let own =
        [(AUTO, "What the content shows"), (JSON, "Records (weir.run/1), as export writes them")];
    let own = own.map(|(name, about)| PossibleValue::new(name).help(about));
    let others = Format::read_ones().map(|f| PossibleValue::new(f.name).help(f.about));
    own.into_iter().chain(others).collect()
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file, or - for stdin. Other tools' files may be compressed by gzip.
    file: PathBuf,
    /// The format.
    #[arg(long, value_name = "NAME", default_value = AUTO, value_parser = formats())]
    format: String,
}

pub(super) fn run(
    args: &ImportArgs,
    data: &DataDirectory,
    now_unix_ms: i64,
    err: &mut dyn Write,
) -> Result<(), RunsError> {
    let fail = |operation| {
        let path = args.file.clone();
        move |source| RunsError::File { operation, path, source }
    };
    let mut modified_ms = u64::try_from(now_unix_ms).unwrap_or(0);
    let mut input: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.file).map_err(fail("open"))?;
        let modified = file.metadata().and_then(|facts| facts.modified()).ok();
        if let Some(since) = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) {
            modified_ms = since.as_millis() as u64;
        }
        Box::new(file)
    };
    let format = Format::find(&args.format);
    let mut content = vec![];
    input.by_ref().take(HEAD).read_to_end(&mut content).map_err(fail("read"))?;
    let is_record = |bytes: &[u8]| {
        let schema = RUN_SCHEMA.as_bytes();
        // A binary file may begin with any byte; JSON has no zeros.
        (bytes.trim_ascii_start().starts_with(b"[") && !bytes.contains(&0))
            || bytes.windows(schema.len()).any(|w| w == schema)
    };
    if args.format != JSON && (format.is_some() || !is_record(&content)) {
        // One more than the maximum, so that a larger file is refused.
        let rest = (MAX_FILE_BYTES as u64 + 1).saturating_sub(content.len() as u64);
        input.by_ref().take(rest).read_to_end(&mut content).map_err(fail("read"))?;
        let refused = |error| RunsError::Result { path: args.file.clone(), error };
        if let Some(format) = format.or_else(|| recognise(&content)) {
            let mut records = read(&content, Some(format), modified_ms).map_err(refused)?;
            records.iter_mut().for_each(stamp_imported);
            return report(Store::open_at(data)?.import_records(records)?, err);
        }
        if !is_record(&content) {
            let error = ReadError {
                line: None,
                field: Some("FILE".into()),
                given: "content".into(),
                accepted: accepted_files(),
            };
            return Err(refused(error));
        }
    }
    let mut input = BufReader::new(Cursor::new(content).chain(input));
    report(Store::open_at(data)?.import(&mut input)?, err)
}

/// This program made the record, though another measured.
fn stamp_imported(record: &mut Record) {
    record.version = stamp::VERSION.into();
    record.build = Build { commit: stamp::COMMIT.map(Into::into), target: stamp::TARGET.into() };
    record.plan_sha256 = stamp::plan_sha256(&record.plan);
}

fn report(done: Imported, err: &mut dyn Write) -> Result<(), RunsError> {
    writeln!(err, "{} added, {} already there", done.added, done.already_there)?;
    Ok(())
}
