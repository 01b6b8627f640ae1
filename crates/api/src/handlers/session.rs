//! A page's token: set once as a cookie that scripts can't read.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::app::Shared;
use crate::extract::Json;
use crate::guard::cookie;
use crate::problem::Problem;
use crate::types::SessionRequest;

pub(crate) async fn begin(
    State(app): State<Shared>,
    Json(request): Json<SessionRequest>,
) -> Result<Response, Problem> {
    let Some(tokens) = &app.tokens else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    if tokens.user(&request.token).is_none() {
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "the token is not known"));
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie(Some(&request.token)))])
        .into_response())
}

pub(crate) async fn end() -> Response {
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie(None))]).into_response()
}
