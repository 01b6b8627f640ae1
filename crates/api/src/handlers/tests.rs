//! Tests: starting, following, stopping.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_model::json::to_line;
use weir_model::names::{HOST_FORMS, Host};
use weir_model::plan::Plan;
use weir_model::record::Record;

use super::{Answer, Json200, answer, heavy, seeds};
use crate::app::Shared;
use crate::extract::{JsonText, PathSegment, PathSegments, Query};
use crate::problem::Problem;
use crate::supervise::{self, LabNode};
use crate::types::*;

/// Maximum number of tags of a test.
const MAX_TAGS: usize = 64;
/// Maximum number of keys listed.
const MAX_KEYS: usize = 1000;

pub(crate) async fn list(State(app): State<Shared>) -> Json200<TestList> {
    Json200(TestList { tests: app.tests.list() })
}

pub(crate) async fn start(
    State(app): State<Shared>,
    JsonText(mut request, text): JsonText<TestRequest>,
) -> Result<Response, Problem> {
    seeds::draw(&mut request.plan.seed, seeds::part(&text, "plan"))?;
    let host = match (request.host, request.plan.host.take()) {
        (Some(host), _) => Some(right_host("/host", &host)?),
        (None, Some(host)) => Some(right_host("/plan/host", &host)?),
        (None, None) if request.plan.connections.iter().all(|c| c.host.is_some()) => None,
        (None, None) => return Err(Problem::field("/host", "nothing", HOST_FORMS)),
    };
    if let Some(host) = &host {
        set_host(&mut request.plan, host);
    }
    request.plan.check().map_err(|e| Problem::of_model("/plan", &e))?;
    let from = match request.from.as_deref() {
        Some(from) => Some(lab_node(&app, "/from", from).await?),
        None => None,
    };
    let wanted = supervise::CheckedTest {
        host,
        key_file: key_file(&app.config.keys, request.key_name.as_deref())?,
        from,
        tags: right_tags("/tags", request.tags)?,
        plan: request.plan,
        no_store: request.no_store,
    };
    let test = supervise::start_test(&app, wanted).await?;
    Ok(answer(StatusCode::CREATED, &test, None))
}

/// A valid host, or the refused field.
pub(crate) fn right_host(field: &str, host: &str) -> Result<String, Problem> {
    let host = host.trim();
    let parsed = Host::parse(host).map_err(|_| Problem::field(field, host, HOST_FORMS));
    parsed.map(|_| host.into())
}

/// The plan with the request's host instead of its own, as `weir test --plan FILE HOST`, so that the plan is checked
/// with it.
pub(crate) fn set_host(plan: &mut Plan, host: &str) {
    if let Ok(Host { name, port }) = Host::parse(host) {
        plan.host = Some(name);
        plan.port = port.or(plan.port);
    }
}

type TagMap = BTreeMap<String, String>;

fn right_tags(field: &str, tags: TagMap) -> Result<TagMap, Problem> {
    if tags.len() > MAX_TAGS {
        return Err(Problem::field(field, format!("{} tags", tags.len()), "64 at most"));
    }
    for (key, value) in &tags {
        let wrong = key.trim().is_empty()
            || key.contains('=')
            || key.len() > 200
            || value.len() > 1000
            || key.chars().chain(value.chars()).any(char::is_control);
        if wrong {
            let at = format!("{field}/{}", key.replace('~', "~0").replace('/', "~1"));
            return Err(Problem::field(
                at,
                format!("{key}={value}"),
                "a key without '=' of at most 200 bytes, a value of at most 1000, no control characters",
            ));
        }
    }
    Ok(tags)
}

/// `LAB/HOST` of an existing lab.
pub(crate) async fn lab_node(app: &Shared, field: &str, text: &str) -> Result<LabNode, Problem> {
    let is_right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let right = |t: &str| !t.is_empty() && t.chars().all(is_right);
    let named = text.split_once('/').filter(|(lab, node)| right(lab) && right(node));
    let Some((lab, node)) = named.filter(|_| !text.starts_with('-')) else {
        return Err(Problem::field(field, text, "LAB/HOST"));
    };
    let labs = super::labs::labs(app).await?;
    let places: Vec<String> = labs
        .iter()
        .flat_map(|lab| lab.nodes.iter().map(move |node| format!("{}/{node}", lab.name)))
        .collect();
    if !places.iter().any(|place| place == text) {
        let accepted = match places.is_empty() {
            true => "none: no lab exists".into(),
            false => format!("LAB/HOST of an existing lab: {}", places.join(", ")),
        };
        let refusal = Problem::field(field, text, accepted);
        return Err(refusal.with_status(StatusCode::CONFLICT));
    }
    Ok(LabNode { lab: lab.into(), node: node.into() })
}

/// The file of a key by its name.
pub(crate) fn key_file(directory: &Path, name: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    let Some(name) = name else { return Ok(None) };
    let mut all = keys(directory);
    all.remove(name).map(Some).ok_or_else(|| {
        let accepted = if all.is_empty() {
            "none: the server has no keys".into()
        } else {
            all.into_keys().collect::<Vec<_>>().join(", ")
        };
        Problem::field("/key_name", name, accepted).with_status(StatusCode::CONFLICT)
    })
}

/// Names of the keys in the key directory.
pub(crate) fn key_names(directory: &Path) -> Vec<String> {
    keys(directory).into_keys().collect()
}

/// The key files in the key directory, by name without `.key`.
fn keys(directory: &Path) -> BTreeMap<String, PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return BTreeMap::new() };
    let found = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let file = entry.file_name().to_str()?.to_owned();
        let name = file.strip_suffix(".key").unwrap_or(&file).to_owned();
        let path = entry.path();
        (path.is_file() && super::file_name(&name).is_ok()).then_some((name, path))
    });
    let mut keys: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, path) in found.take(MAX_KEYS) {
        // `NAME` before `NAME.key`.
        let is_first = path.file_name().is_some_and(|file| *file == *name);
        if is_first || !keys.contains_key(&name) {
            keys.insert(name, path);
        }
    }
    keys
}

pub(crate) async fn get(State(app): State<Shared>, PathSegment(id): PathSegment) -> Answer<Test> {
    app.tests.get(&id).map(Json200)
}

pub(crate) async fn history(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    Query(query): Query<HistoryQuery>,
) -> Answer<TestHistory> {
    app.tests.history(&id, after_seconds(&query)?).map(Json200)
}

/// The time that a history starts after.
pub(crate) fn after_seconds(query: &HistoryQuery) -> Result<f64, Problem> {
    let after = query.after.unwrap_or(0.0);
    // Not a comparison with 0 alone: NaN is refused too.
    if after.is_finite() && after >= 0.0 {
        return Ok(after);
    }
    Err(Problem::field("?after", after.to_string(), "a time of at least 0 s"))
}

pub(crate) async fn forget(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<StatusCode, Problem> {
    supervise::stop_test(&app, &id).await?;
    app.tests.forget(&id);
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn stop(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let test = supervise::stop_test(&app, &id).await?;
    Ok(answer(StatusCode::ACCEPTED, &test, None))
}

pub(crate) async fn record(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    Query(RecordQuery { parts }): Query<RecordQuery>,
) -> Result<Response, Problem> {
    let path = app.tests.record(&id)?;
    let read = move || {
        let text = std::fs::read(path).map_err(Problem::internal)?;
        if parts == RecordParts::All {
            return Ok(text);
        }
        let mut record: Record = serde_json::from_slice(&text).map_err(Problem::internal)?;
        record.intervals.clear();
        record.histograms.clear();
        record.flows.iter_mut().for_each(|flow| flow.tcp_samples.clear());
        to_line(&record).map(String::into_bytes).map_err(Problem::internal)
    };
    let text = heavy(&app, read).await?;
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], text).into_response())
}

pub(crate) async fn start_connection(
    State(app): State<Shared>,
    PathSegments(id, name): PathSegments,
) -> Answer<Test> {
    supervise::connection(&app, &id, "start", &name, None).await.map(Json200)
}

pub(crate) async fn stop_connection(
    State(app): State<Shared>,
    PathSegments(id, name): PathSegments,
) -> Answer<Test> {
    supervise::connection(&app, &id, "stop", &name, None).await.map(Json200)
}

pub(crate) async fn set_rate(
    State(app): State<Shared>,
    PathSegments(id, name): PathSegments,
    JsonText(RateRequest { rate }, _): JsonText<RateRequest>,
) -> Answer<Test> {
    supervise::connection(&app, &id, "rate", &name, Some(rate)).await.map(Json200)
}

#[cfg(test)]
mod key_tests {
    use super::*;

    #[test]
    fn keys_are_found_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("keys/deeper.key")).unwrap();
        for name in ["elsewhere", "keys/a.key", "keys/b.key", "keys/b"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::os::unix::fs::symlink(at("elsewhere"), at("keys/c")).unwrap();
        let file = |name| key_file(&at("keys"), Some(name)).ok().flatten();
        assert_eq!(key_names(&at("keys")), ["a", "b", "c"]);
        assert_eq!(file("a"), Some(at("keys/a.key")));
        assert_eq!(file("b"), Some(at("keys/b")), "NAME has precedence over NAME.key");
        assert_eq!(file("c"), Some(at("keys/c")));
        assert_eq!((file("../elsewhere"), file("deeper")), (None, None));
    }
}
