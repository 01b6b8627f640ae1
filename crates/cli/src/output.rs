//! Output to stdout or a file, optionally with a time stamp before each line.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_jobs::Event;
use weir_net::file::private;

use crate::error::CliError;
use crate::job::{emit, is_job};
use crate::time::{Format, local_zone, since_epoch};

/// An output stream that survives the loss of its reader.
///
/// After the reader of a pipe has closed its end, output is discarded and [`Sink::is_gone`] returns true. Any other failure is
/// stored until the end ([`Sink::failure`]): a result must not be lost because one of its copies could not be written.
pub(crate) struct Sink {
    out: Box<dyn Write + Send>,
    path: PathBuf,
    stamp: Option<Format>,
    gone: bool,
    failure: Option<io::Error>,
}

impl Sink {
    /// Output to stdout (`None` or `-`), or appended to a file.
    ///
    /// # Errors
    /// [`CliError::Io`] when the file can't be opened.
    pub(crate) fn open(logfile: Option<&Path>, stamp: Option<Format>) -> Result<Sink, CliError> {
        let logfile = logfile.filter(|path| path.as_os_str() != "-");
        let (out, path): (Box<dyn Write + Send>, PathBuf) = match logfile {
            None => (Box::new(io::stdout()), "stdout".into()),
            Some(path) => {
                // Only this user may read messages about clients and keys.
                let file = private(File::options().append(true).create(true)).open(path);
                (Box::new(file.map_err(CliError::io("--logfile: open", path))?), path.into())
            }
        };
        Ok(Sink { out, path, stamp, gone: false, failure: None })
    }

    /// Output into any writer.
    pub(crate) fn to(out: Box<dyn Write + Send>) -> Sink {
        Sink { out, path: "output".into(), stamp: None, gone: false, failure: None }
    }

    /// Writes complete lines of text, with time stamps if enabled.
    pub(crate) fn text(&mut self, text: &str) {
        let stamped;
        let text = match &self.stamp {
            None => text,
            Some(format) => {
                let now = since_epoch(std::time::SystemTime::now());
                let time = format.render(now, local_zone());
                stamped = text
                    .split_inclusive('\n')
                    .map(|line| format!("{time}{line}"))
                    .collect::<String>();
                &stamped
            }
        };
        self.raw(text);
    }

    /// Writes text without time stamps, such as JSON.
    pub(crate) fn raw(&mut self, text: &str) {
        // A failure is stored in the sink.
        let _ = self.write_all(text.as_bytes());
        let _ = self.flush();
    }

    /// Whether the reader has closed its end.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// The first failure other than a closed pipe.
    pub(crate) fn failure(&mut self) -> Option<CliError> {
        self.failure.take().map(CliError::io("write", self.path.clone()))
    }

    fn keep(&mut self, error: io::Error) {
        match error.kind() {
            io::ErrorKind::BrokenPipe => self.gone = true,
            _ => drop(self.failure.get_or_insert(error)),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.gone || self.failure.is_some() {
            return Ok(bytes.len());
        }
        match self.out.write(bytes) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Err(e),
            Err(e) => {
                self.keep(e);
                Ok(bytes.len())
            }
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Err(e) = self.out.flush() {
            self.keep(e);
        }
        Ok(())
    }
}

/// Prints text to stdout and returns exit code 0. A reader that has closed its end is no error.
///
/// # Errors
/// [`CliError::Io`] for any other failure, such as a full disk.
pub(crate) fn print(text: &str) -> Result<i32, CliError> {
    let mut sink = Sink::open(None, None)?;
    sink.raw(text);
    sink.failure().map_or(Ok(0), Err)
}

/// Prints the result of a command as one JSON object, or reports it as the result of a job.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_object(object: &impl Serialize) -> Result<i32, CliError> {
    let internal = |e: serde_json::Error| CliError::Internal(e.to_string());
    if is_job() {
        let value = serde_json::to_value(object).map_err(internal)?;
        emit(&Event::Result(value));
        return Ok(0);
    }
    let text = weir_model::json::to_pretty(object).map_err(internal)?;
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(io::ErrorKind);
    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let mut sink = Sink::to(Box::new(Failing(io::ErrorKind::BrokenPipe)));
        sink.text("a\n");
        assert!(sink.is_gone() && sink.failure().is_none());
    }

    #[test]
    fn a_full_disk_is_reported_at_the_end() {
        let mut sink = Sink::to(Box::new(Failing(io::ErrorKind::StorageFull)));
        sink.text("a\n");
        assert!(!sink.is_gone());
        assert_eq!(sink.failure().unwrap().exit_code(), 4);
    }

    #[test]
    fn every_line_has_a_time_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut sink = Sink::open(Some(&path), Some("T%% ".parse().unwrap())).unwrap();
        sink.text("a\nb\n");
        sink.raw("{}\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "T% a\nT% b\n{}\n");
        let mut again = Sink::open(Some(&path), None).unwrap();
        again.text("c\n");
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("{}\nc\n"), "appended");
    }
}
