//! What can be wrong with a value or a document, named by its field.

use crate::document::DocumentError;

/// An error of parsing or checking a value, a plan or a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// A value does not have the form of its unit.
    #[error("{what}: '{given}' is not accepted; expected {accepted}")]
    Value {
        /// The kind of value (rate, size, duration, …).
        what: &'static str,
        /// What was given.
        given: String,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// A field of a document holds something that can't be run.
    #[error("{field}: {given}; accepted: {accepted}")]
    Field {
        /// The path of the field, such as `connection[2].payload`.
        field: String,
        /// What was given.
        given: String,
        /// What is accepted.
        accepted: String,
    },
    /// A document was refused.
    #[error("{schema}{0}", schema = of_schema(.0))]
    Document(Box<DocumentError>),
}

impl From<Box<DocumentError>> for ModelError {
    fn from(error: Box<DocumentError>) -> Self {
        ModelError::Document(error)
    }
}

/// The document's schema, before what is wrong with it.
fn of_schema(error: &DocumentError) -> String {
    match error.document {
        "" => String::new(),
        schema => format!("{schema}: "),
    }
}
