//! The handlers of the routes.

pub(crate) mod emulators;
pub(crate) mod events;
pub(crate) mod experiments;
pub(crate) mod imports;
pub(crate) mod labs;
pub(crate) mod laws;
pub(crate) mod meshes;
pub(crate) mod page;
pub(crate) mod plans;
pub(crate) mod runs;
mod seeds;
pub(crate) mod session;
pub(crate) mod system;
pub(crate) mod tests;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::app::Shared;
use crate::extract::Condition;
use crate::problem::{FieldError, Problem};

/// What handlers answer.
pub(crate) type Answer<T> = Result<Json200<T>, Problem>;

/// JSON with status 200.
pub(crate) struct Json200<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json200<T> {
    fn into_response(self) -> Response {
        answer(StatusCode::OK, &self.0, None)
    }
}

/// JSON with a status and, where it has one, its entity tag.
pub(crate) fn answer<T: Serialize>(status: StatusCode, value: &T, etag: Option<&str>) -> Response {
    let text = match serde_json::to_vec(value) {
        Ok(text) => text,
        Err(error) => return Problem::internal(error).into_response(),
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(value) = etag.and_then(|tag| format!("\"{tag}\"").parse().ok()) {
        headers.insert(header::ETAG, value);
    }
    (status, headers, text).into_response()
}

/// Refuses a change of an outdated document with 412, naming who changed it; one without a precondition, which could
/// overwrite another's change, with 428.
pub(crate) fn fresh(
    app: &Shared,
    document: &str,
    wanted: &Condition,
    now: Option<&str>,
) -> Result<(), Problem> {
    let matches = match (wanted, now) {
        (Condition::None, _) => {
            return Err(Problem::new(
                StatusCode::PRECONDITION_REQUIRED,
                "a condition is required: If-Match with the entity tag that was read, or * for any; If-None-Match: * for a new document",
            )
            .with(FieldError {
                field: "If-Match".into(),
                given: Some("nothing".into()),
                accepted: Some("an entity tag, or *".into()),
                message: "neither If-Match nor If-None-Match".into(),
            }));
        }
        (Condition::IsNew, now) => now.is_none(),
        (Condition::Never, _) => false,
        (Condition::Exists, now) => now.is_some(),
        (Condition::Is(wanted), Some(now)) => wanted == now,
        (Condition::Is(_), None) => false,
    };
    if matches {
        return Ok(());
    }
    let changed = app.last_edit(document);
    let detail = match (&changed, now) {
        _ if *wanted == Condition::Never => "no document meets If-Match and If-None-Match".into(),
        (None, Some(_)) if *wanted == Condition::IsNew => "it is there already".into(),
        (Some(edit), Some(_)) => format!("{} changed it at {}", edit.by, edit.at),
        (Some(edit), None) => format!("{} removed it at {}", edit.by, edit.at),
        (None, Some(_)) => "it was changed by another program".into(),
        (None, None) => "it is not there".into(),
    };
    let mut problem = Problem::new(StatusCode::PRECONDITION_FAILED, detail);
    problem.changed = changed;
    Err(problem)
}

/// Runs CPU- or disk-intensive work on another thread; a few at a time.
pub(crate) async fn heavy<T: Send + 'static>(
    app: &Shared,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let permit = app.heavy.clone().acquire_owned().await.map_err(Problem::internal)?;
    // The permit belongs to the work, which continues if the client has gone.
    let work = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(Problem::internal)?
}

/// A safe file name: letters, digits, `-`, `_`, `.` and inner spaces.
pub(crate) fn file_name(name: &str) -> Result<&str, Problem> {
    let right = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    let wrong = name.is_empty()
        || name.chars().count() > 64
        || name.starts_with(['.', '-', ' '])
        || name.ends_with([' ', '.'])
        || !name.chars().all(right);
    if wrong {
        return Err(Problem::field(
            "name",
            name,
            "letters, digits, '-', '_', '.' and spaces, 1 to 64, not beginning with '.', '-' or a space",
        ));
    }
    Ok(name)
}

/// Limits of texts that become arguments of a command, and of lists of them.
const MAX_WORD_BYTES: usize = 4000;
const MAX_WORDS: usize = 64;

/// Refuses a text that is too long.
pub(crate) fn short(field: &str, text: &str) -> Result<(), Problem> {
    if text.len() <= MAX_WORD_BYTES && !text.contains('\0') {
        return Ok(());
    }
    let given = format!("{} bytes", text.len());
    Err(Problem::field(field, given, format!("at most {MAX_WORD_BYTES} bytes, none of them 0")))
}

/// The same for a list.
pub(crate) fn short_list(field: &str, list: &[String]) -> Result<(), Problem> {
    if list.len() > MAX_WORDS {
        let given = format!("{} of them", list.len());
        return Err(Problem::field(field, given, format!("at most {MAX_WORDS}")));
    }
    list.iter().zip(0..).try_for_each(|(text, i)| short(&format!("{field}/{i}"), text))
}

/// No resource at this path.
pub(crate) async fn nothing(uri: axum::http::Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("no resource at {}", uri.path()))
}

/// The method is not supported at this path.
pub(crate) async fn wrong_method(method: axum::http::Method) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not supported at this path"))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[tokio::test]
    async fn work_that_without_a_waiter_holds_its_place_to_its_end() {
        let (_, app) = crate::server::for_tests();
        let all = app.heavy.available_permits();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let work = move || {
            begun.send(()).unwrap();
            let _ = may_go.recv();
            Ok(())
        };
        tokio::select! {
            _ = heavy(&app, work) => panic!("done"),
            begun = has_begun => begun.unwrap(),
        }
        assert_eq!(app.heavy.available_permits(), all - 1);
        drop(go);
        let given_back = async {
            while app.heavy.available_permits() < all {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        let limit = std::time::Duration::from_secs(60);
        tokio::time::timeout(limit, given_back).await.expect("the place is not given back");
    }
}
