//! The files of a packet trace, checked before anything is written.

use std::path::{Path, PathBuf};

use super::args::LawArgs;
use crate::error::CliError;
use crate::named::{NamedFile, apart};

/// The packet trace's own two files: later configurations are next to it, and those of an earlier packet trace are removed.
pub(super) fn packet_trace(path: &Path) -> (NamedFile<'_>, PathBuf) {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".configurations");
    (NamedFile { flag: "--packet-trace", path, is_written: true }, beside.into())
}

/// Refuses a packet trace that is no file with a place for its second one, or a directory.
///
/// # Errors
/// [`CliError::Flag`] with what was given.
pub(super) fn packet_trace_is_file(path: &Path) -> Result<(), CliError> {
    let given = match path.as_os_str() == "-" {
        true => "-".into(),
        false if path.is_dir() => format!("{} is a directory", path.display()),
        false => return Ok(()),
    };
    let accepted = "a file; later configurations are written to FILE.configurations";
    Err(CliError::flag("--packet-trace", given, accepted))
}

/// Refuses a packet trace that is no file, and one that is, itself or by its second file, the file of laws.
///
/// # Errors
/// As [`packet_trace_is_file`] and [`apart`].
pub(super) fn packet_trace_apart(laws: &LawArgs, path: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    packet_trace_is_file(path)?;
    let Some(config) = &laws.config else { return Ok(()) };
    let (packet_trace, beside) = packet_trace(path);
    let config = NamedFile { flag: "--config", path: config, is_written: false };
    apart(&[
        config,
        packet_trace,
        NamedFile { flag: "--packet-trace", path: &beside, is_written: true },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_trace_is_a_file_whether_or_not_there_is_one_of_laws() {
        let dir = tempfile::tempdir().unwrap();
        let laws = LawArgs::default();
        for given in [Path::new("-"), dir.path()] {
            let refused = packet_trace_apart(&laws, Some(given)).unwrap_err().refusal();
            assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--packet-trace"), 2));
        }
        assert!(packet_trace_apart(&laws, Some(&dir.path().join("new"))).is_ok());
        // A name with a directory is one like others.
        assert!(packet_trace_apart(&laws, Some(Path::new("./-"))).is_ok());
    }

    #[test]
    fn a_packet_trace_has_a_second_file() {
        let (named, beside) = packet_trace(Path::new("a/j"));
        assert_eq!((named.flag, named.is_written), ("--packet-trace", true));
        assert_eq!(beside, Path::new("a/j.configurations"));
    }
}
