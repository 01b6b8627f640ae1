//! Tests: started, watched, stopped.

use std::path::{Path, PathBuf};

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_net::trust::{Origin, trusted};

use super::{Answer, Json200, answer};
use crate::app::Shared;
use crate::extract::{Json, Part, Parts2};
use crate::problem::Problem;
use crate::supervise::{self, LabNode};
use crate::types::*;

/// Most tags of a test.
const MOST_TAGS: usize = 64;

pub(crate) async fn list(State(app): State<Shared>) -> Json200<TestList> {
    Json200(TestList { tests: app.tests.list() })
}

pub(crate) async fn start(
    State(app): State<Shared>,
    Json(request): Json<TestRequest>,
) -> Result<Response, Problem> {
    request.plan.check().map_err(|e| Problem::of_model("/plan", &e))?;
    let host = request.host.or_else(|| request.plan.host.clone());
    let host = host.ok_or_else(|| {
        Problem::field("/host", "nothing", "who answers: a name, an address, NAME:PORT")
    })?;
    let wanted = supervise::Wanted {
        host: right_host("/host", &host)?,
        key_file: key_file(&app.config.keys, request.key_name.as_deref())?,
        from: request.from.as_deref().map(|f| lab_node("/from", f)).transpose()?,
        tags: right_tags("/tags", request.tags)?,
        plan: request.plan,
        no_store: request.no_store,
    };
    let test = supervise::start_test(&app, wanted).await?;
    Ok(answer(StatusCode::CREATED, &test, None))
}

/// A host that may be handed on, or the field that is refused.
pub(crate) fn right_host(field: &str, host: &str) -> Result<String, Problem> {
    let host = host.trim();
    supervise::host(host)
        .map(Into::into)
        .map_err(|_| Problem::field(field, host, "NAME, ADDRESS, NAME:PORT or [V6ADDRESS]:PORT"))
}

type TagMap = std::collections::BTreeMap<String, String>;

fn right_tags(field: &str, tags: TagMap) -> Result<TagMap, Problem> {
    if tags.len() > MOST_TAGS {
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

/// `LAB/HOST`.
pub(crate) fn lab_node(field: &str, text: &str) -> Result<LabNode, Problem> {
    let is_right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let right = |t: &str| !t.is_empty() && t.chars().all(is_right);
    match text.split_once('/') {
        Some((lab, node)) if right(lab) && right(node) && !text.starts_with('-') => {
            Ok(LabNode { lab: lab.into(), node: node.into() })
        }
        _ => Err(Problem::field(field, text, "LAB/HOST")),
    }
}

/// The file of a key by its name.
pub(crate) fn key_file(directory: &Path, name: Option<&str>) -> Result<Option<PathBuf>, Problem> {
    let Some(name) = name else { return Ok(None) };
    let names = key_names(directory);
    if !names.iter().any(|n| n == name) {
        let accepted = if names.is_empty() {
            format!("none: there are no keys in {}", directory.display())
        } else {
            names.join(", ")
        };
        return Err(Problem::field("/key_name", name, accepted));
    }
    Ok(Some(key_path(directory, name)))
}

fn key_path(directory: &Path, name: &str) -> PathBuf {
    let plain = directory.join(name);
    if plain.is_file() { plain } else { directory.join(format!("{name}.key")) }
}

/// The files of all keys, as [`key_file`] has them.
pub(crate) fn key_paths(directory: &Path) -> Vec<PathBuf> {
    key_names(directory).iter().map(|name| key_path(directory, name)).collect()
}

/// Names of the keys in the key directory.
pub(crate) fn key_names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return vec![] };
    // Under sudo it is the calling user's: a link there could lead to a key of somebody else.
    let are_links_taken = trusted(directory, Origin::Found).is_ok();
    let mut names: Vec<String> = entries
        .filter_map(|e| {
            let entry = e.ok()?;
            let name = entry.file_name().to_str()?.to_owned();
            let name = name.strip_suffix(".key").unwrap_or(&name).to_owned();
            let is_link = entry.file_type().ok()?.is_symlink();
            let is_taken = entry.path().is_file() && (are_links_taken || !is_link);
            (is_taken && super::file_name(&name).is_ok()).then_some(name)
        })
        .take(1000)
        .collect();
    names.sort();
    names.dedup();
    names
}

pub(crate) async fn get(State(app): State<Shared>, Part(id): Part) -> Answer<Test> {
    let test = app.tests.get(&id)?;
    if !test.state.is_over() && !test.flows.is_empty() {
        supervise::refresh(&app, &id).await;
    }
    app.tests.get(&id).map(Json200)
}

pub(crate) async fn forget(
    State(app): State<Shared>,
    Part(id): Part,
) -> Result<StatusCode, Problem> {
    supervise::stop_test(&app, &id).await?;
    app.tests.forget(&id);
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn stop(State(app): State<Shared>, Part(id): Part) -> Result<Response, Problem> {
    let test = supervise::stop_test(&app, &id).await?;
    Ok(answer(StatusCode::ACCEPTED, &test, None))
}

pub(crate) async fn record(State(app): State<Shared>, Part(id): Part) -> Result<Response, Problem> {
    let path = app.tests.record(&id)?;
    let text = tokio::task::spawn_blocking(move || std::fs::read(path));
    let text = text.await.map_err(Problem::internal)?.map_err(Problem::internal)?;
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], text).into_response())
}

pub(crate) async fn start_connection(
    State(app): State<Shared>,
    Parts2(id, name): Parts2,
) -> Answer<Test> {
    supervise::connection(&app, &id, "start", &name).await.map(Json200)
}

pub(crate) async fn stop_connection(
    State(app): State<Shared>,
    Parts2(id, name): Parts2,
) -> Answer<Test> {
    supervise::connection(&app, &id, "stop", &name).await.map(Json200)
}
