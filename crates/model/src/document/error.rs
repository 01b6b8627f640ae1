//! Errors of documents, as data.

use std::fmt;

use serde::de::{self, Expected, Unexpected};
use serde_json::Value;

use super::{line, short, shown};
use crate::{ModelError, nearest};

/// Kind of error of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentCode {
    /// The text is not TOML or JSON.
    Syntax,
    /// An unknown field of a table.
    UnknownField,
    /// A required field is missing.
    MissingField,
    /// A table has a field twice.
    DuplicateField,
    /// A value that its field does not accept.
    Value,
}

impl DocumentCode {
    /// Its stable name.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            DocumentCode::Syntax => "syntax",
            DocumentCode::UnknownField => "unknown-field",
            DocumentCode::MissingField => "missing-field",
            DocumentCode::DuplicateField => "duplicate-field",
            DocumentCode::Value => "value",
        }
    }
}

/// An error of a document. Programs act on the fields; the text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentError {
    /// The schema of the document, such as `weir.plan/1`; empty where it is not known.
    pub document: &'static str,
    /// The kind of error.
    pub code: DocumentCode,
    /// The path of the field, such as `connection[2].payload`; empty for the whole document.
    pub field: String,
    /// What was given: an unknown field's name, a value, or the parser's message for invalid syntax; empty for
    /// a missing field.
    pub given: String,
    /// What is accepted; the known names for an unknown field.
    pub accepted: String,
    /// The most similar known name to an unknown one.
    pub nearest: Option<String>,
    /// The line of the text, from 1.
    pub line: Option<usize>,
}

impl DocumentError {
    fn new(code: DocumentCode, given: impl Into<String>, accepted: impl Into<String>) -> Box<Self> {
        Box::new(DocumentError {
            document: "",
            code,
            field: String::new(),
            given: given.into(),
            accepted: accepted.into(),
            nearest: None,
            line: None,
        })
    }

    /// Text that is not in the format `accepted`.
    pub(super) fn syntax(reason: &str, accepted: &str) -> Box<Self> {
        Self::new(DocumentCode::Syntax, short(reason), accepted)
    }

    /// A key that a table has twice.
    pub(super) fn duplicate(field: &str) -> Box<Self> {
        let field = short(field);
        Self::new(DocumentCode::DuplicateField, field.clone(), "each field once").in_key(&field)
    }

    /// A name that is not among the known ones.
    fn unknown(code: DocumentCode, given: &str, known: &[&str]) -> Box<Self> {
        let near = nearest(given, known.iter().copied()).map(Into::into);
        let accepted = if known.is_empty() { "no field here".into() } else { known.join(", ") };
        let mut error = Self::new(code, short(given), accepted);
        error.nearest = near;
        error
    }

    /// The error with the document's schema.
    #[must_use]
    pub(crate) fn of(mut self: Box<Self>, document: &'static str) -> Box<Self> {
        self.document = document;
        self
    }

    /// The error with the line of its field in the document's text.
    #[must_use]
    pub(crate) fn located(mut self: Box<Self>, text: &str) -> Box<Self> {
        self.line = self.line.or_else(|| line::line_of(text, &self.field));
        self
    }

    /// What is accepted, with the nearest known name.
    #[must_use]
    pub fn accepted_with_hint(&self) -> String {
        let hint = self.nearest.as_deref().map(|near| format!(" (did you mean {near}?)"));
        format!("{}{}", self.accepted, hint.unwrap_or_default())
    }

    pub(super) fn at_line(mut self: Box<Self>, line: Option<usize>) -> Box<Self> {
        self.line = line;
        self
    }

    /// The error in a document that is the value of field `place` of another document.
    #[must_use]
    pub fn inside(mut self: Box<Self>, place: &str) -> Box<Self> {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{place}{dot}{}", self.field);
        self
    }

    /// The error in the value of a key.
    pub(super) fn in_key(self: Box<Self>, key: &str) -> Box<Self> {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        if !key.is_empty() && key.chars().all(is_plain) {
            return self.inside(key);
        }
        self.inside(&format!("[{}]", Value::from(key)))
    }

    /// The reason, without the field and the line.
    #[must_use]
    pub fn reason(&self) -> String {
        let (given, accepted) = (&self.given, self.accepted_with_hint());
        match self.code {
            DocumentCode::Syntax => format!("{given}; expected {accepted}"),
            DocumentCode::UnknownField => format!("unknown field; accepted: {accepted}"),
            DocumentCode::MissingField => format!("missing; accepted: {accepted}"),
            DocumentCode::DuplicateField => format!("given twice; accepted: {accepted}"),
            DocumentCode::Value => format!("{given}; accepted: {accepted}"),
        }
    }

    /// The error with the given value, where the reader did not have it.
    pub(super) fn with_given(mut self: Box<Self>, value: &Value) -> Box<Self> {
        if self.given.is_empty() && self.code == DocumentCode::Value && self.field.is_empty() {
            self.given = shown(value);
        }
        self
    }

    /// A value can't be expressed in TOML.
    pub(super) fn unwritable(error: &impl fmt::Display) -> Box<Self> {
        Self::new(DocumentCode::Value, short(&error.to_string()), "values that TOML can express")
    }

    pub(super) fn value(given: &Value, accepted: impl Into<String>) -> Box<Self> {
        Self::new(DocumentCode::Value, shown(given), accepted)
    }

    /// An error of a document's check, with the line of its field.
    pub(crate) fn of_check(error: ModelError, document: &'static str, text: &str) -> ModelError {
        match error {
            ModelError::Field { field, given, accepted } => {
                let error = Self::new(DocumentCode::Value, given, accepted).inside(&field);
                error.of(document).located(text).into()
            }
            ModelError::Document(error) => error.located(text).into(),
            other => other,
        }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.reason())
    }
}

impl std::error::Error for DocumentError {}

/// [`DocumentError`] as serde's error; boxed, so that results stay small.
#[derive(Debug)]
pub(super) struct ReadError(pub(super) Box<DocumentError>);

impl ReadError {
    pub(super) fn in_key(self, key: &str) -> Self {
        ReadError(self.0.in_key(key))
    }

    pub(super) fn in_item(self, index: usize) -> Self {
        ReadError(self.0.inside(&format!("[{index}]")))
    }
}

impl From<Box<DocumentError>> for ReadError {
    fn from(error: Box<DocumentError>) -> Self {
        ReadError(error)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ReadError {}

/// The given value; empty for values that the reader inserts itself.
fn given(unexpected: Unexpected) -> String {
    match unexpected {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Str(text) | Unexpected::Other(text) => short(text),
        _ => String::new(),
    }
}

impl de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        DocumentError::new(DocumentCode::Value, "", message.to_string()).into()
    }
    fn invalid_type(unexpected: Unexpected, expected: &dyn Expected) -> Self {
        Self::invalid_value(unexpected, expected)
    }
    fn invalid_value(unexpected: Unexpected, expected: &dyn Expected) -> Self {
        DocumentError::new(DocumentCode::Value, given(unexpected), expected.to_string()).into()
    }
    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        let given = format!("a list of {length}");
        DocumentError::new(DocumentCode::Value, given, expected.to_string()).into()
    }
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        DocumentError::unknown(DocumentCode::Value, variant, expected).into()
    }
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let error = DocumentError::unknown(DocumentCode::UnknownField, field, expected);
        error.in_key(&short(field)).into()
    }
    fn missing_field(field: &'static str) -> Self {
        DocumentError::new(DocumentCode::MissingField, "", "a value").in_key(field).into()
    }
    fn duplicate_field(field: &'static str) -> Self {
        DocumentError::duplicate(field).into()
    }
}

/// An error of the model as serde's error, with the given and the accepted values.
pub(crate) fn refused<E: de::Error>(error: ModelError) -> E {
    match &error {
        ModelError::Value { given, accepted, .. } => {
            E::invalid_value(Unexpected::Str(given), accepted)
        }
        ModelError::Field { field, given, accepted } => {
            let given = format!("{field}: {given}");
            E::invalid_value(Unexpected::Other(&given), &accepted.as_str())
        }
        ModelError::Document(_) => E::custom(error),
    }
}
