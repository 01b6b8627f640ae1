//! The list of formats, and reading a file of any of them.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::GzDecoder;
use weir_model::record::Record;

use crate::reading::Reading;
use crate::{NoForm, ReadError, ditg, flent, iperf3, itgdec, netperf, nuttcp};

/// Maximum size of a file, bytes, also of a compressed one after decompression.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// A format of another tool: one entry in [`FORMATS`].
#[derive(Debug)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, for help.
    pub about: &'static str,
    /// How its files are read; absent for a format that is only written.
    pub(crate) reader: Option<Reader>,
    /// How a record is written; absent for a format that is only read.
    pub(crate) writer: Option<Writer>,
}

/// How files of a format are read.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The tool, for the label of imported records.
    pub tool: &'static str,
    /// Whether a file, decompressed, looks like one of this format.
    pub recognises: fn(&[u8]) -> bool,
    /// The results in a file, decompressed.
    pub read: for<'a> fn(&'a [u8]) -> Result<Vec<Reading<'a>>, ReadError>,
}

/// How records are written.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The bytes of one record.
    pub write: fn(&Record) -> Result<Vec<u8>, NoForm>,
    /// Whether a file may have several, one after the other.
    pub is_repeated: bool,
}

/// All formats.
pub static FORMATS: &[Format] = &[
    Format {
        name: "iperf3",
        about: "As `iperf3 -J` prints: one object for each run, a line each",
        reader: Some(Reader {
            tool: "iperf3",
            recognises: iperf3::recognises_json,
            read: iperf3::read,
        }),
        writer: Some(Writer { write: iperf3::write_json, is_repeated: true }),
    },
    Format {
        name: "iperf3-stream",
        about: "As `iperf3 --json-stream` prints",
        reader: Some(Reader {
            tool: "iperf3",
            recognises: iperf3::recognises_stream,
            read: iperf3::read,
        }),
        writer: Some(Writer { write: iperf3::write_stream, is_repeated: true }),
    },
    Format {
        name: "netperf",
        about: "What netperf prints: tables, or CSV or keywords of omni output (-o, -k)",
        reader: Some(Reader {
            tool: "netperf",
            recognises: netperf::recognises,
            read: netperf::read,
        }),
        writer: None,
    },
    Format {
        name: "nuttcp",
        about: "What nuttcp prints, also with -fparse and -i",
        reader: Some(Reader { tool: "nuttcp", recognises: nuttcp::recognises, read: nuttcp::read }),
        writer: None,
    },
    Format {
        name: "itgdec",
        about: "What ITGDec of D-ITG prints",
        reader: Some(Reader { tool: "d-itg", recognises: itgdec::recognises, read: itgdec::read }),
        writer: None,
    },
    Format {
        name: "ditg",
        about: "A log of packets of ITGSend, ITGRecv or ITGLog of D-ITG",
        reader: Some(Reader { tool: "d-itg", recognises: ditg::recognises, read: ditg::read }),
        writer: None,
    },
    Format {
        name: "flent",
        about: "A data file of flent: one run, gzip",
        reader: Some(Reader { tool: "flent", recognises: flent::recognises, read: flent::read }),
        writer: Some(Writer { write: flent::write, is_repeated: false }),
    },
];

impl Format {
    /// The format with a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Formats that can be read.
    pub fn read_ones() -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().filter(|format| format.reader.is_some())
    }

    /// Formats that can be written.
    pub fn written_ones() -> impl Iterator<Item = &'static Format> {
        FORMATS.iter().filter(|format| format.writer.is_some())
    }

    /// Whether a file may have several runs, one after the other.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.is_repeated)
    }

    /// Records in this format.
    ///
    /// # Errors
    /// [`NoForm`] for a record that the format can't state, or for several where a file has one.
    pub fn write(&self, records: &[Record]) -> Result<Vec<u8>, NoForm> {
        let Some(writer) = &self.writer else { return Ok(vec![]) };
        if records.len() > 1 && !writer.is_repeated {
            return Err(NoForm::SeveralRuns);
        }
        let mut out = vec![];
        for record in records {
            out.extend((writer.write)(record)?);
        }
        Ok(out)
    }
}

/// The format of a file, by its content.
#[must_use]
pub fn recognise(bytes: &[u8]) -> Option<&'static Format> {
    recognised(&decompressed(bytes, MAX_FILE_BYTES).ok()?)
}

fn recognised(bytes: &[u8]) -> Option<&'static Format> {
    let is_of = |format: &&Format| format.reader.as_ref().is_some_and(|r| (r.recognises)(bytes));
    FORMATS.iter().find(is_of)
}

/// Reads the results in a file. Without `format`, the content decides. `modified_ms` is the time of the file, milliseconds
/// since 1970, which is the start of a test where the file states none.
///
/// The same content gives the same ids.
///
/// # Errors
/// [`ReadError`] with the line or field, or with the list of formats for any other file.
pub fn read(
    bytes: &[u8],
    format: Option<&'static Format>,
    modified_ms: u64,
) -> Result<Vec<Record>, ReadError> {
    let bytes = decompressed(bytes, MAX_FILE_BYTES)?;
    let format = format.or_else(|| recognised(&bytes));
    let Some((format, reader)) = format.and_then(|f| Some((f, f.reader.as_ref()?))) else {
        return Err(ReadError::at_field("FILE", "content", accepted_files()));
    };
    let found = (reader.read)(&bytes)?;
    if found.is_empty() {
        return Err(ReadError::at_field("FILE", "content", format!("a result of {}", format.name)));
    }
    Ok(found.into_iter().map(|reading| reading.record(reader.tool, modified_ms)).collect())
}

/// What is accepted as a file: the names of the formats.
#[must_use]
pub fn accepted_files() -> String {
    let names: Vec<&str> = Format::read_ones().map(|format| format.name).collect();
    format!("records of Weir, or a file of {}", names.join(", "))
}

/// The content of a file, decompressed if it is gzip.
///
/// # Errors
/// [`ReadError`] for a content of more than `most` bytes, and for damaged or incomplete gzip.
pub fn decompressed(bytes: &[u8], most: usize) -> Result<Cow<'_, [u8]>, ReadError> {
    let too_large = || ReadError::new("size", format!("at most {most} bytes"));
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return if bytes.len() > most { Err(too_large()) } else { Ok(bytes.into()) };
    }
    let mut out = vec![];
    let mut gzip = GzDecoder::new(bytes).take(most as u64 + 1);
    gzip.read_to_end(&mut out).map_err(|e| ReadError::new(e.to_string(), "a whole gzip file"))?;
    if out.len() > most { Err(too_large()) } else { Ok(out.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn names_are_unique_and_each_format_does_something() {
        for (n, format) in FORMATS.iter().enumerate() {
            assert!(FORMATS[..n].iter().all(|other| other.name != format.name), "{}", format.name);
            assert!(format.reader.is_some() || format.writer.is_some(), "{}", format.name);
        }
    }

    #[test]
    fn a_file_of_no_format_is_refused() {
        for text in ["", "{}", "hello", "[1, 2]", "{\"event\": 1}"] {
            let error = read(text.as_bytes(), None, 0).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("FILE"), "{text}");
            assert!(Format::read_ones().all(|format| error.accepted.contains(format.name)));
        }
    }

    #[test]
    fn a_gzip_bomb_is_refused() {
        let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        let zeros = vec![0; 1 << 20];
        (0..=MAX_FILE_BYTES >> 20).for_each(|_| gzip.write_all(&zeros).unwrap());
        let bomb = gzip.finish().unwrap();
        assert!(bomb.len() < 1 << 20);
        assert!(read(&bomb, None, 0).unwrap_err().accepted.contains(&MAX_FILE_BYTES.to_string()));
        assert!(read(&bomb[..100], None, 0).is_err());
    }
}
