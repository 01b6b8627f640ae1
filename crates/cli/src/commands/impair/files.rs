//! Checks the files of a packet trace before anything is written.

use std::path::{Path, PathBuf};

use super::args::LawArgs;
use crate::error::CliError;
use crate::named::{NamedFile, apart};

/// The two files of a packet trace: the trace, and the later configurations, which replace those of an earlier trace.
pub(super) fn packet_trace(path: &Path) -> (NamedFile<'_>, PathBuf) {
    let mut configurations = path.as_os_str().to_owned();
    configurations.push(".configurations");
    (NamedFile { flag: "--packet-trace", path, is_written: true }, configurations.into())
}

/// Refuses a packet trace that is a stream or a directory: the second file's name is derived from the path.
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

/// Refuses a packet trace that is not a file, and one of whose two files is the file of laws.
///
/// # Errors
/// As [`packet_trace_is_file`] and [`apart`].
pub(super) fn packet_trace_apart(laws: &LawArgs, path: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    packet_trace_is_file(path)?;
    let Some(config) = &laws.config else { return Ok(()) };
    let (packet_trace, configurations) = packet_trace(path);
    let config = NamedFile { flag: "--config", path: config, is_written: false };
    apart(&[
        config,
        packet_trace,
        NamedFile { flag: "--packet-trace", path: &configurations, is_written: true },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_trace_must_be_a_file_with_or_without_a_config() {
        let dir = tempfile::tempdir().unwrap();
        let laws = LawArgs::default();
        for given in [Path::new("-"), dir.path()] {
            let refused = packet_trace_apart(&laws, Some(given)).unwrap_err().refusal();
            assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--packet-trace"), 2));
        }
        assert!(packet_trace_apart(&laws, Some(&dir.path().join("new"))).is_ok());
        // `./-` is a file, not a stream.
        assert!(packet_trace_apart(&laws, Some(Path::new("./-"))).is_ok());
    }

    #[test]
    fn a_packet_trace_has_a_second_file() {
        let (named, configurations) = packet_trace(Path::new("a/j"));
        assert_eq!((named.flag, named.is_written), ("--packet-trace", true));
        assert_eq!(configurations, Path::new("a/j.configurations"));
    }
}
