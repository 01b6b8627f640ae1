//! Errors of values and documents, with their field.

use crate::document::DocumentError;

/// An error of parsing or checking a value, a plan or a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A value is not valid for its unit.
    #[error("{what}: '{given}' is not accepted; expected {accepted}")]
    Value {
        /// The kind of value (rate, size, duration, …).
        what: &'static str,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: &'static str,
    },
    /// A field of a document has an invalid value.
    #[error("{field}: {given}; accepted: {accepted}")]
    Field {
        /// The path of the field, such as `connection[2].payload`.
        field: String,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: String,
    },
    /// A document is invalid.
    #[error("{schema}{0}", schema = of_schema(.0))]
    Document(Box<DocumentError>),
}

impl From<Box<DocumentError>> for ModelError {
    fn from(error: Box<DocumentError>) -> Self {
        ModelError::Document(error)
    }
}

/// Prefix of the message: the document's schema.
fn of_schema(error: &DocumentError) -> String {
    match error.document {
        "" => String::new(),
        schema => format!("{schema}: "),
    }
}
