//! Errors that end the program, each with an exit code and a stable code for scripts.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::commands::impair;
use crate::commands::runs::RunsError;
use crate::engine::{TrafficError, file_exit_code};
use crate::labs;
use crate::parsed::typed_flag;
use weir_model::{ModelError, Refusal};

/// An error that ends the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// An invalid value of a flag, or flags that conflict.
    #[error("{flag}: {given}; accepted: {accepted}")]
    Flag { flag: String, given: String, accepted: String },
    /// An invalid plan, emulator file or scenario.
    #[error("{}", file_name(path))]
    Plan {
        path: PathBuf,
        #[source]
        error: ModelError,
    },
    /// An invalid value of the model.
    #[error(transparent)]
    Model(ModelError),
    /// A failed operation on a file or a stream. The operation is prefixed with the flag that named the file, if any.
    #[error("{operation} {}", path.display())]
    Io {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A running test's control socket.
    #[error("control socket {}: {reason}", path.display())]
    Control { path: PathBuf, reason: String, exit_code: i32 },
    /// The background process did not start.
    #[error("the daemon did not start: {reason}")]
    Daemon { reason: String, exit_code: i32 },
    /// The stored runs.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// A lab.
    #[error(transparent)]
    Lab(#[from] weir_lab::Error),
    /// The emulator.
    #[error(transparent)]
    Emulator(#[from] impair::Error),
    /// The engine.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Unavailable on this system.
    #[error("{0}")]
    Unavailable(String),
    /// A flag whose value is unavailable on this system.
    #[error("{flag}: {given}: {reason}")]
    NotAvailable { flag: String, given: String, reason: String },
    /// Nothing could be concluded, because the host was the limit.
    #[error("{0}")]
    Inconclusive(String),
    /// A command that could not be run; the codes are those of shells and `env`.
    #[error("cannot run {program}")]
    Command {
        program: String,
        #[source]
        source: std::io::Error,
    },
    /// An emulator that ended unexpectedly.
    #[error("{reason}")]
    EmulatorEnded { reason: String, exit_code: i32 },
    /// A failed program of an experiment, with its own message.
    #[error("{reason}")]
    Experiment { reason: String, exit_code: i32 },
    /// A refusal by another part of Weir, as data.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// A defect of this program.
    #[error("internal error: {0}")]
    Internal(String),
}

impl CliError {
    /// The refusal of a flag.
    pub(crate) fn flag(flag: &str, given: impl Into<String>, accepted: &str) -> CliError {
        CliError::Flag { flag: flag.into(), given: given.into(), accepted: accepted.into() }
    }

    /// The error with the flag's name that was typed, where it is an alias.
    pub(crate) fn named_as_typed(mut self, words: &[OsString]) -> CliError {
        if let CliError::Flag { flag, .. } | CliError::NotAvailable { flag, .. } = &mut self
            && let Some(typed) = typed_flag(flag, words)
        {
            *flag = typed;
        }
        self
    }

    /// A refused field, with the flag that set it.
    pub(crate) fn of_field(error: ModelError, flag: &str) -> CliError {
        match error {
            ModelError::Field { given, accepted, .. } => CliError::flag(flag, given, &accepted),
            other => CliError::Model(other),
        }
    }

    /// Converts an I/O error of a file; `operation` says what failed.
    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> CliError {
        let path = path.into();
        move |source| CliError::Io { operation, path, source }
    }

    /// The exit code for the error.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            CliError::Flag { .. } | CliError::Plan { .. } | CliError::Model(_) => 2,
            CliError::Io { source, .. } => file_exit_code(source.kind()),
            CliError::Control { exit_code, .. } | CliError::Daemon { exit_code, .. } => *exit_code,
            CliError::Runs(error) => error.exit_code(),
            CliError::Lab(error) => labs::exit_code(error),
            CliError::Emulator(error) => impair::exit_code(error),
            CliError::Traffic(error) => error.exit_code(),
            CliError::Unavailable(_) | CliError::NotAvailable { .. } => 4,
            CliError::Inconclusive(_) => 5,
            CliError::Command { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                127
            }
            CliError::Command { .. } => 126,
            CliError::EmulatorEnded { exit_code, .. } | CliError::Experiment { exit_code, .. } => {
                *exit_code
            }
            CliError::Refused(refusal) => refusal.exit_code,
            CliError::Internal(_) => 70,
        }
    }

    /// A stable name for scripts.
    fn code(&self) -> String {
        let code = match self {
            CliError::Flag { .. } => "usage",
            CliError::Plan { .. } => "plan",
            CliError::Model(_) => "value",
            CliError::Io { .. } => "file",
            CliError::Control { .. } => "control-socket",
            CliError::Daemon { .. } => "daemon",
            CliError::Runs(_) => "runs",
            CliError::Lab(_) => "lab",
            CliError::Emulator(error) => error.code(),
            CliError::Traffic(error) => return error.code(),
            CliError::Unavailable(_) | CliError::NotAvailable { .. } => "not-available",
            CliError::Inconclusive(_) => "inconclusive",
            CliError::Command { .. } => "command",
            CliError::EmulatorEnded { .. } => "emulator",
            CliError::Experiment { .. } => "experiment",
            CliError::Refused(refusal) => &refusal.code,
            CliError::Internal(_) => "internal",
        };
        code.into()
    }

    /// The error and its sources on one line.
    pub(crate) fn chain(&self) -> String {
        chain(self)
    }

    /// The error as data.
    pub(crate) fn refusal(&self) -> Refusal {
        let parts = match self {
            CliError::Flag { flag, given, accepted } => {
                Refusal::of_field("usage", long(flag), given, accepted)
            }
            CliError::NotAvailable { flag, given, .. } => Refusal {
                field: Some(long(flag)),
                given: Some(given.clone()),
                ..Refusal::default()
            },
            CliError::Io { operation, path, .. } => Refusal {
                field: operation.split(": ").next().filter(|flag| flag.starts_with('-')).map(long),
                given: Some(path.display().to_string()),
                ..Refusal::default()
            },
            CliError::Plan { error, .. } | CliError::Model(error) => Refusal::from(error),
            CliError::Traffic(TrafficError::Plan(error)) => Refusal::from(error),
            CliError::Traffic(TrafficError::Input { field, given, accepted }) => {
                Refusal::of_field("usage", *field, given, accepted)
            }
            CliError::Traffic(TrafficError::AddressSpace { field, given, accepted }) => {
                Refusal::of_field("address-space-exhausted", *field, given, accepted)
            }
            CliError::Traffic(TrafficError::Unavailable { field, given, .. }) => Refusal {
                field: Some((*field).into()),
                given: Some(given.clone()),
                ..Refusal::default()
            },
            CliError::Traffic(TrafficError::File { field, path, .. }) => Refusal {
                field: Some((*field).into()),
                given: Some(path.display().to_string()),
                ..Refusal::default()
            },
            CliError::Emulator(error) => impair::refusal(error),
            CliError::Lab(error) => labs::refusal(error),
            CliError::Traffic(error) => Refusal { given: error.given(), ..Refusal::default() },
            CliError::Control { path, .. } => {
                Refusal { given: Some(path.display().to_string()), ..Refusal::default() }
            }
            CliError::Command { program, .. } => {
                Refusal { given: Some(program.clone()), ..Refusal::default() }
            }
            CliError::Refused(refusal) => return (**refusal).clone(),
            CliError::Runs(error) => error.refusal(),
            _ => Refusal::default(),
        };
        let code = match self {
            CliError::Runs(_) => parts.code.clone(),
            _ => self.code(),
        };
        Refusal { code, message: self.chain(), exit_code: self.exit_code(), ..parts }
    }
}

/// The long name of a flag that is written `-t/--time`.
fn long(flag: &str) -> String {
    flag.rsplit_once('/')
        .filter(|(_, long)| long.starts_with("--"))
        .map_or(flag, |(_, long)| long)
        .into()
}

/// The object that `--json` prints if there is no result: `{"error":{…}}`.
pub(crate) fn error_object(refusal: &Refusal) -> String {
    serde_json::json!({ "error": refusal }).to_string()
}

/// The name of a file in an error.
fn file_name(path: &std::path::Path) -> String {
    if path.as_os_str() == "-" { "stdin".into() } else { path.display().to_string() }
}

/// An error and its sources, joined by colons; a source that its outer error quotes already is not repeated.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let words = source.to_string();
        if !text.ends_with(&words) {
            // Writing into a string cannot fail.
            let _ = write!(text, ": {words}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_name_operation_object_and_reason() {
        let error = CliError::io("read plan", "/no/such")(std::io::Error::from(
            std::io::ErrorKind::NotFound,
        ));
        assert_eq!(error.chain(), "read plan /no/such: entity not found");
        assert_eq!(error.exit_code(), 2);
        assert_eq!(
            error_object(&error.refusal()),
            r#"{"error":{"code":"file","exit_code":2,"given":"/no/such","message":"read plan /no/such: entity not found"}}"#
        );
    }

    #[test]
    fn an_invalid_file_is_named_with_its_type() {
        let error = weir_model::impairment::Impairment::parse("schema = 'weir.impair/1'\nx = 1");
        let error = error.unwrap_err();
        let of = |path: &str| CliError::Plan { path: path.into(), error: error.clone() }.chain();
        assert!(of("bad.toml").starts_with("bad.toml: weir.impair/1: "), "{}", of("bad.toml"));
        assert!(of("-").starts_with("stdin: weir.impair/1: "), "{}", of("-"));
    }

    #[test]
    fn missing_permissions_are_exit_code_4() {
        let error =
            CliError::io("write", "x")(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
        assert_eq!(error.exit_code(), 4);
    }
}
