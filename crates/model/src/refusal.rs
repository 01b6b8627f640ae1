//! Errors as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::document::DocumentError;

/// An error. Programs may act on `code` and the fields; the wording of `message` may change at any time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Refusal {
    /// Stable name of the kind of error, such as `usage`, `plan`, `file` or `peer`.
    pub code: String,
    /// The invalid field: its path in a document, such as `connection[2].payload`, or a flag. Absent if no
    /// field is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The given value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// The accepted values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// The known name that was probably meant by an unknown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// The line of the field in its document, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The complete message, which names the operation and its object.
    pub message: String,
    /// Exit code of a program that ends with this error.
    pub exit_code: i32,
}

impl Refusal {
    /// An error without a field.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>, exit_code: i32) -> Refusal {
        Refusal { code: code.into(), message: message.into(), exit_code, ..Refusal::default() }
    }

    /// An invalid field. The exit code is 2, for bad input.
    #[must_use]
    pub fn of_field(
        code: &str,
        field: impl Into<String>,
        given: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Refusal {
        let (field, given, accepted) = (field.into(), given.into(), accepted.into());
        Refusal {
            code: code.into(),
            message: format!("{field}: {given}; accepted: {accepted}"),
            field: Some(field),
            given: Some(given),
            accepted: Some(accepted),
            exit_code: 2,
            ..Refusal::default()
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl From<&ModelError> for Refusal {
    fn from(error: &ModelError) -> Refusal {
        let message = error.to_string();
        let (field, given, accepted) = match error {
            ModelError::Document(error) => return Refusal::from(&**error),
            ModelError::Value { given, accepted, .. } => {
                (None, Some(given.clone()), Some((*accepted).to_owned()))
            }
            ModelError::Field { field, given, accepted } => {
                (Some(field.clone()), Some(given.clone()), Some(accepted.clone()))
            }
        };
        Refusal { field, given, accepted, ..Refusal::new("value", message, 2) }
    }
}

impl From<&DocumentError> for Refusal {
    fn from(error: &DocumentError) -> Refusal {
        Refusal {
            field: (!error.field.is_empty()).then(|| error.field.clone()),
            given: (!error.given.is_empty()).then(|| error.given.clone()),
            accepted: Some(error.accepted.clone()),
            nearest: error.nearest.clone(),
            line: error.line,
            ..Refusal::new(
                error.code.name(),
                ModelError::from(Box::new(error.clone())).to_string(),
                2,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_errors_keep_their_parts() {
        let error = ModelError::Field {
            field: "connection[2].payload".into(),
            given: "70000".into(),
            accepted: "0 to 65507".into(),
        };
        let refusal = Refusal::from(&error);
        assert_eq!(refusal.field.as_deref(), Some("connection[2].payload"));
        assert_eq!(refusal.given.as_deref(), Some("70000"));
        assert_eq!(refusal.accepted.as_deref(), Some("0 to 65507"));
        assert_eq!(refusal.exit_code, 2);
        let json = serde_json::to_string(&refusal).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
    }
}
