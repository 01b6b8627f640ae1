//! The stream's route.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::app::Shared;
use crate::clock;
use crate::events::{Topics, stream};
use crate::extract::{ApiClient, Query};
use crate::problem::Problem;
use crate::speed::network_of;
use crate::types::{EventsQuery, Hello};

/// Default number of samples per object and second.
const RATE: f64 = 10.0;

/// An address gets this fraction of the readers, but at least the minimum.
const SHARES: usize = 4;
const MIN_SHARE: usize = 8;

pub(crate) async fn events(
    State(app): State<Shared>,
    client: ApiClient,
    Query(query): Query<EventsQuery>,
) -> Result<Response, Problem> {
    let rate = query.rate.unwrap_or(RATE);
    if !(0.1..=20.0).contains(&rate) {
        return Err(Problem::field("?rate", rate.to_string(), "0.1 to 20"));
    }
    let topics = Topics::parse("?topics", query.topics.as_deref().unwrap_or_default())?;
    let samples = Topics::parse("?samples", query.samples.as_deref().unwrap_or_default())?;
    let most = app.config.limits.stream_readers;
    let refuse = |detail: String| {
        let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        problem.retry_after_seconds = Some(5);
        problem
    };
    let permit = app
        .readers
        .clone()
        .try_acquire_owned()
        .map_err(|_| refuse(format!("the limit of {most} readers is reached")))?;
    let hello = Hello {
        instance: app.instance.clone(),
        version: app.config.version.clone(),
        at: clock::now(),
        rate,
    };
    let share = (most / SHARES).max(MIN_SHARE);
    let network = network_of(client.address.ip());
    let reader = app
        .hub
        .join(topics, samples, rate, network, share)
        .ok_or_else(|| refuse(format!("the limit of {share} readers per address is reached")))?;
    Ok(stream(app, reader, &hello, permit))
}
