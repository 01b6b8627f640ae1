//! Refusals and failures as `application/problem+json` (RFC 9457) with the fields concerned.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use weir_model::document::{self, DocumentCode, DocumentError};
use weir_model::{ModelError, Refusal};

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct FieldError {
    /// The field: a JSON pointer into the body (`/plan/connection/0/rate`), a query parameter (`?limit`), the name of
    /// a header or of a path segment; empty for the whole request.
    pub field: String,
    /// What was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// What is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// The full message.
    pub message: String,
}

impl FieldError {
    /// A refusal of a field of the document at `root` in the body.
    pub(crate) fn of_document(root: &str, error: &DocumentError) -> Self {
        let given = match error.code {
            DocumentCode::MissingField => "nothing".into(),
            _ => error.given.clone(),
        };
        FieldError {
            field: format!("{root}{}", pointer(&error.field)),
            given: Some(given),
            accepted: Some(error.accepted.clone()),
            message: match error.line {
                Some(line) => format!("line {line}: {}", error.reason()),
                None => error.reason(),
            },
        }
    }
}

/// A refusal or a failure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// Type of the problem: `urn:weir:problem:` and a stable name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status as text.
    pub title: String,
    /// The status.
    pub status: u16,
    /// What happened.
    pub detail: String,
    /// The fields concerned.
    pub errors: Vec<FieldError>,
    /// With 412: who changed the document, when, and its present entity tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<crate::types::DocumentChange>,
    /// Seconds to wait before a retry, as in `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

impl Problem {
    /// A problem with its status and message.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Failed");
        Problem {
            kind: format!("urn:weir:problem:{}", title.to_ascii_lowercase().replace(' ', "-")),
            title: title.into(),
            status: status.as_u16(),
            detail: detail.into(),
            errors: vec![],
            changed: None,
            retry_after_seconds: None,
        }
    }

    /// An invalid field: 422.
    pub(crate) fn field(
        field: impl Into<String>,
        given: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Self {
        let (field, given, accepted) = (field.into(), given.into(), accepted.into());
        let message = format!("{given}; accepted: {accepted}");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{field}: {message}"))
            .with(FieldError { field, given: Some(given), accepted: Some(accepted), message })
    }

    /// The same refusal with another status: 409 or 404 where the request is valid and the server lacks what it names.
    #[must_use]
    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Problem { errors: self.errors, ..Problem::new(status, self.detail) }
    }

    /// A missing resource: 404.
    pub(crate) fn missing(what: &str, name: &str) -> Self {
        Problem::new(StatusCode::NOT_FOUND, format!("no {what} {name:?}"))
    }

    /// A conflict with the present state: 409.
    pub(crate) fn conflict(kind: &str, detail: impl Into<String>) -> Self {
        let kind = format!("urn:weir:problem:{kind}");
        Problem { kind, ..Problem::new(StatusCode::CONFLICT, detail) }
    }

    /// An internal failure: 500.
    pub(crate) fn internal(detail: impl std::fmt::Display) -> Self {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail.to_string())
    }

    /// Unavailable on this host or not permitted: 503.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// Adds a field.
    #[must_use]
    pub(crate) fn with(mut self, error: FieldError) -> Self {
        self.errors.push(error);
        self
    }

    /// A refusal or failure of a job; `field` maps its field to that of the request, or to an empty string.
    pub(crate) fn of_refusal(refusal: &Refusal, field: impl Fn(&str) -> String) -> Self {
        let status = match refusal.exit_code {
            2 => StatusCode::UNPROCESSABLE_ENTITY,
            3 | 4 => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let problem = Problem::new(status, refusal.message.as_str());
        if !matches!(problem.status, 422 | 503) {
            return problem;
        }
        problem.with(FieldError {
            field: refusal.field.as_deref().map(field).unwrap_or_default(),
            given: refusal.given.clone(),
            accepted: refusal.accepted.clone(),
            message: refusal.message.clone(),
        })
    }

    /// A document at `root` in the body that was refused: 422, or 400 where it is no JSON at all.
    pub(crate) fn of_document(root: &str, error: &DocumentError) -> Self {
        let status = match error.code {
            DocumentCode::Syntax => StatusCode::BAD_REQUEST,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let field = FieldError::of_document(root, error);
        let colon = if field.field.is_empty() { "" } else { ": " };
        let detail = format!("{}{colon}{}", field.field, field.message);
        Problem::new(status, detail).with(field)
    }

    /// The same, where a refusal of a field does not say what was given: what is there in the document at `root`.
    #[must_use]
    pub(crate) fn with_given_of(mut self, root: &str, document: &str) -> Self {
        let tree = document::tree(document).unwrap_or_default();
        for error in self.errors.iter_mut().filter(|error| error.given.is_none()) {
            let at = error.field.strip_prefix(root).and_then(|at| tree.pointer(at));
            error.given = Some(at.map_or_else(|| "nothing".into(), document::shown));
        }
        self
    }

    /// An error of the model about the document at `root` in the body.
    pub(crate) fn of_model(root: &str, error: &ModelError) -> Self {
        let field = field_of(root, error);
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()).with(field)
    }
}

/// The model's refusal of the field at a pointer.
pub(crate) fn field_of(root: &str, error: &ModelError) -> FieldError {
    let message = error.to_string();
    match error {
        ModelError::Field { field, given, accepted } => FieldError {
            field: format!("{root}{}", pointer(field)),
            given: Some(given.clone()),
            accepted: Some(accepted.clone()),
            message: format!("{given}; accepted: {accepted}"),
        },
        ModelError::Value { given, accepted, .. } => FieldError {
            field: root.into(),
            given: Some(given.clone()),
            accepted: Some((*accepted).into()),
            message,
        },
        ModelError::Document(error) => FieldError::of_document(root, error),
    }
}

/// `connection[2].payload` as `/connection/2/payload`.
pub(crate) fn pointer(path: &str) -> String {
    // A field of an embedded document follows a colon.
    let parts = document::segments(&path.replace(": ", "."));
    parts.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let text = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_path_becomes_a_pointer() {
        assert_eq!(pointer("connection[2].payload"), "/connection/2/payload");
        assert_eq!(pointer("flow[\"a/b\"].a_to_b"), "/flow/a~1b/a_to_b");
        assert_eq!(pointer(""), "");
        assert_eq!(pointer("emulator.m.config: other.a_to_b"), "/emulator/m/config/other/a_to_b");
    }

    #[test]
    fn the_field_is_named_beneath_its_root() {
        let error = ModelError::Field {
            field: "connection[0].mss".into(),
            given: "7".into(),
            accepted: "88 to 32767".into(),
        };
        let problem = Problem::of_model("/plan", &error);
        assert_eq!(problem.errors[0].field, "/plan/connection/0/mss");
        assert_eq!(problem.status, 422);
        assert_eq!(problem.errors[0].accepted.as_deref(), Some("88 to 32767"));
    }
}
