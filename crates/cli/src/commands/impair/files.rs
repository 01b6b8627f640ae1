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

/// The files that a running emulator writes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OutputFiles<'a> {
    pub(super) packet_trace: Option<&'a Path>,
    pub(super) capture: Option<&'a Path>,
    pub(super) log: Option<&'a Path>,
}

impl OutputFiles<'_> {
    /// Refuses a packet trace that is not a file, a capture or log on standard output, and two outputs or an output and the file
    /// of laws that are one file.
    ///
    /// # Errors
    /// As [`packet_trace_is_file`] and [`apart`].
    pub(super) fn check(self, laws: &LawArgs) -> Result<(), CliError> {
        self.packet_trace.map_or(Ok(()), packet_trace_is_file)?;
        let written = |flag, path| NamedFile { flag, path, is_written: true };
        let recordings = [("--capture", self.capture), ("--log", self.log)].into_iter();
        let recordings = recordings.filter_map(|(flag, path)| Some(written(flag, path?)));
        if let Some(stream) = recordings.clone().find(|file| file.path.as_os_str() == "-") {
            let accepted = "a file: standard output has the report";
            return Err(CliError::flag(stream.flag, "-", accepted));
        }
        let traces = self.packet_trace.map(packet_trace);
        let config = laws.config.as_deref();
        let config = config.map(|path| NamedFile { flag: "--config", path, is_written: false });
        let mut files: Vec<_> = config.into_iter().collect();
        if let Some((file, configurations)) = &traces {
            files.extend([*file, written("--packet-trace", configurations)]);
        }
        files.extend(recordings);
        apart(&files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_trace_must_be_a_file_with_or_without_a_config() {
        let dir = tempfile::tempdir().unwrap();
        let laws = LawArgs::default();
        let trace = |path| OutputFiles { packet_trace: Some(path), ..OutputFiles::default() };
        for given in [Path::new("-"), dir.path()] {
            let refused = trace(given).check(&laws).unwrap_err().refusal();
            assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--packet-trace"), 2));
        }
        let new = dir.path().join("new");
        assert!(trace(&new).check(&laws).is_ok());
        // `./-` is a file, not a stream.
        assert!(trace(Path::new("./-")).check(&laws).is_ok());
        // Outputs are different files.
        let beside = dir.path().join("new.configurations");
        for path in [&new, &beside, Path::new("-")] {
            let files = OutputFiles { log: Some(path), ..trace(&new) };
            let refused = files.check(&laws).unwrap_err().refusal();
            assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--log"), 2));
        }
        let both = OutputFiles { capture: Some(&new), log: Some(&beside), packet_trace: None };
        assert!(both.check(&laws).is_ok());
    }

    #[test]
    fn a_packet_trace_has_a_second_file() {
        let (named, configurations) = packet_trace(Path::new("a/j"));
        assert_eq!((named.flag, named.is_written), ("--packet-trace", true));
        assert_eq!(configurations, Path::new("a/j.configurations"));
    }
}
