//! `weir runs import`: records, or results that another tool wrote.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use clap::Args;
use clap::builder::PossibleValue;
use weir_exchange::{FileFormat, Format, ImportError, ImportFile, import};
use weir_runs::DataDirectory;

use super::RunsError;
use crate::stamp;

const AUTO: &str = "auto";
const JSON: &str = "json";

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
    let mut content: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.file).map_err(fail("open"))?;
        let modified = file.metadata().and_then(|facts| facts.modified()).ok();
        if let Some(since) = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) {
            modified_ms = since.as_millis() as u64;
        }
        Box::new(file)
    };
    let format = match args.format.as_str() {
        JSON => FileFormat::Records,
        name => Format::find(name).map_or(FileFormat::Auto, FileFormat::Tool),
    };
    let file = ImportFile { content: &mut content, format, modified_ms };
    let done = import(file, &stamp::maker(), data).map_err(|error| match error {
        ImportError::Read(source) => fail("read")(source),
        ImportError::File(error) => RunsError::Result { path: args.file.clone(), error },
        ImportError::Store(error) => error.into(),
    })?;
    writeln!(err, "{} added, {} already there", done.added, done.already_there)?;
    Ok(())
}
