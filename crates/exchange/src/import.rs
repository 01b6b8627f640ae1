//! Storing the runs of a file: records of Weir, or results of another tool. The command line and the API import by this.

use std::io::{self, BufReader, Cursor, Read};

use weir_model::record::{Build, RUN_SCHEMA, Record};
use weir_runs::{DataDirectory, Imported, Store, StoreError, plan_sha256};

use crate::{Format, MAX_FILE_BYTES, ReadError, accepted_files, read, recognise};

/// How much of a file shows whether it has records, bytes.
const HEAD: u64 = 64 << 10;

/// What a file is read as.
#[derive(Debug, Clone, Copy, Default)]
pub enum FileFormat {
    /// What its content shows.
    #[default]
    Auto,
    /// Records of Weir.
    Records,
    /// Results of another tool.
    Tool(&'static Format),
}

/// The program that makes records of results that another tool measured.
#[derive(Debug, Clone, Default)]
pub struct Maker {
    /// Its version.
    pub version: String,
    /// Its build.
    pub build: Build,
}

/// A file.
pub struct ImportFile<'a> {
    /// Its content. Records are read one after the other; of other files at most [`MAX_FILE_BYTES`] are accepted.
    pub content: &'a mut dyn Read,
    /// What it is read as.
    pub format: FileFormat,
    /// Its time, milliseconds since 1970: the start of a test where the file states none.
    pub modified_ms: u64,
}

/// Why a file is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The content could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is not of an accepted format, or damaged.
    #[error(transparent)]
    File(#[from] ReadError),
    /// A record is invalid, or the store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores the runs of a file; those whose id is stored already are unchanged. The store is opened once the file has been
/// recognised.
///
/// # Errors
/// [`ImportError`]. Results of another tool are stored all or not at all; of records those before the invalid one are stored.
pub fn import(
    file: ImportFile<'_>,
    maker: &Maker,
    data: &DataDirectory,
) -> Result<Imported, ImportError> {
    let input = file.content;
    let mut content = vec![];
    input.take(HEAD).read_to_end(&mut content)?;
    let tool = match file.format {
        FileFormat::Tool(format) => Some(format),
        FileFormat::Auto | FileFormat::Records => None,
    };
    if !matches!(file.format, FileFormat::Records) && (tool.is_some() || !has_records(&content)) {
        // One more than the maximum, so that a larger file is refused.
        let rest = (MAX_FILE_BYTES as u64 + 1).saturating_sub(content.len() as u64);
        input.take(rest).read_to_end(&mut content)?;
        if let Some(format) = tool.or_else(|| recognise(&content)) {
            let mut records = read(&content, Some(format), file.modified_ms)?;
            records.iter_mut().for_each(|record| stamp(record, maker));
            return Ok(Store::open_at(data)?.import_records(records)?);
        }
        if !has_records(&content) {
            return Err(ReadError::at_field("FILE", "content", accepted_files()).into());
        }
    }
    let mut input = BufReader::new(Cursor::new(content).chain(input));
    Ok(Store::open_at(data)?.import(&mut input)?)
}

/// Whether a file looks like records of Weir.
fn has_records(bytes: &[u8]) -> bool {
    let schema = RUN_SCHEMA.as_bytes();
    // A binary file may begin with any byte; JSON has no zeros.
    (bytes.trim_ascii_start().starts_with(b"[") && !bytes.contains(&0))
        || bytes.windows(schema.len()).any(|w| w == schema)
}

/// This program made the record, though another measured.
fn stamp(record: &mut Record, maker: &Maker) {
    record.version.clone_from(&maker.version);
    record.build.clone_from(&maker.build);
    record.plan_sha256 = plan_sha256(&record.plan);
}
