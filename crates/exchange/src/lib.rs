//! Results of other tools: their files as run records, and records as their files.
//!
//! Reading and writing are pure: bytes go in, records or bytes come out. [`FORMATS`] lists the formats; each has one entry
//! there and a file or folder here. [`read`] makes records of a file, of a named format or of the one that its content shows.
//!
//! A record states only what its file does. What a tool rounds is as precise as the tool printed it, and what it does not
//! print is absent. `docs/formats.md` has units and meaning of each format's figures.

mod ditg;
mod error;
mod flent;
mod formats;
mod import;
mod iperf3;
mod itgdec;
mod json;
mod netperf;
mod nuttcp;
mod reading;
mod rows;
mod text;

#[doc(hidden)]
pub mod fuzz;

pub use error::{NoForm, ReadError};
pub use formats::{FORMATS, Format, MAX_FILE_BYTES, accepted_files, decompressed, read, recognise};
pub use import::{FileFormat, ImportError, ImportFile, Maker, import};
