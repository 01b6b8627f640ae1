//! Errors of labs as refusals and exit codes.

use weir_lab::{Error, ErrorClass};
use weir_model::Refusal;

/// A lab's error as a refusal: the field, its value, and what is accepted.
pub(crate) fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Invalid { field, given, accepted } => {
            Refusal::of_field("lab", *field, given, accepted)
        }
        Error::Exists { name } => Refusal::of_field("lab", "name", name, error.to_string()),
        Error::NoSuchLab { name, known } => Refusal {
            field: Some("--lab".into()),
            given: Some(name.clone()),
            accepted: known.clone(),
            ..Refusal::default()
        },
        Error::NoSuchHost { host, known } => Refusal {
            field: Some("HOST".into()),
            given: Some(host.clone()),
            accepted: Some(known.clone()),
            ..Refusal::default()
        },
        Error::Program { program, .. } => {
            Refusal { given: Some(program.clone()), ..Refusal::default() }
        }
        _ => Refusal::default(),
    }
}

/// The exit code for an error of a lab.
pub(crate) fn exit_code(error: &Error) -> i32 {
    match error.class() {
        ErrorClass::Usage => 2,
        ErrorClass::NotPermitted => 4,
        ErrorClass::Internal => 70,
    }
}
