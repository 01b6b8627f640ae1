//! What answers each route.

use crate::problem::Problem;

/// Stands where nothing answers yet.
pub(crate) async fn not_yet() -> Problem {
    Problem::new(axum::http::StatusCode::NOT_IMPLEMENTED, "not there yet")
}
