//! The stream's route.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::app::Shared;
use crate::clock;
use crate::events::{Topics, stream};
use crate::extract::Query;
use crate::problem::Problem;
use crate::types::{EventsQuery, Hello};

/// Samples of one object a second, unless asked otherwise.
const RATE: f64 = 10.0;

pub(crate) async fn events(
    State(app): State<Shared>,
    Query(query): Query<EventsQuery>,
) -> Result<Response, Problem> {
    let rate = query.rate.unwrap_or(RATE);
    if !(0.1..=20.0).contains(&rate) {
        return Err(Problem::field("?rate", rate.to_string(), "0.1 to 20"));
    }
    let topics = Topics::parse(query.topics.as_deref().unwrap_or_default())?;
    let permit = app.readers.clone().try_acquire_owned().map_err(|_| {
        let most = app.config.limits.stream_readers;
        let mut problem = Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{most} readers, which is the limit"),
        );
        problem.retry_after_seconds = Some(5);
        problem
    })?;
    let hello = Hello {
        instance: app.instance.clone(),
        version: app.config.version.clone(),
        at: clock::now(),
        rate,
    };
    let reader = app.hub.join(topics, rate);
    Ok(stream(app, reader, &hello, permit))
}
