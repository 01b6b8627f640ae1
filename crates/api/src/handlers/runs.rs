//! Stored runs: lists, records, reports, comparisons.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_model::record::Record;
use weir_report::CsvWriter;
use weir_report::page::{self, Document};
use weir_report::plot::{self, FigureData};
use weir_runs::{Diff, Edge, Filter, RunKind, Side, Store, StoreError, diff, moment_of};

use super::{Answer, Json200, answer, fresh, heavy};
use crate::app::Shared;
use crate::clock;
use crate::extract::{ApiClient, Condition, Json, PathSegment, Query, etag_of};
use crate::problem::{FieldError, Problem};
use crate::types::*;

/// Default and maximum number of runs in a list.
const RUNS: u32 = 100;
const MAX_RUNS: u32 = 1000;
/// Maximum number of runs of one side of a comparison.
const MAX_COMPARED: usize = 100;
/// Limits of a report over several runs: runs, and bytes of their records, which are all in memory.
const MAX_REPORTED: usize = 50;
pub(crate) const MAX_REPORTED_BYTES: u64 = 64 << 20;

/// An error of the store as a problem.
pub(super) fn of_store(error: StoreError) -> Problem {
    let status = match &error {
        StoreError::NotFound { .. } => StatusCode::NOT_FOUND,
        StoreError::Ambiguous { .. } | StoreError::Exists { .. } => StatusCode::CONFLICT,
        StoreError::Label { .. } | StoreError::Refused { .. } | StoreError::Import { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    // Remote clients do not need the store's path or commands that inspect it.
    let (field, given, accepted, message) = match &error {
        StoreError::NotFound { selector, .. } => {
            let accepted = "the id of a stored run, or its first characters";
            let message = format!("no run {selector:?}");
            (String::from("id"), selector.clone(), String::from(accepted), message)
        }
        StoreError::Ambiguous { selector, matches } => {
            ("id".into(), selector.clone(), matches.join(", "), error.to_string())
        }
        StoreError::Exists { id, .. } => {
            let message = format!("run {id} exists already");
            ("/id".into(), id.clone(), "an unused id".into(), message)
        }
        StoreError::Label { label, reason } => {
            // The field of a tag is its key.
            let key = label.split('=').next().unwrap_or_default();
            let field = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            (field, label.clone(), String::from(*reason), error.to_string())
        }
        StoreError::Refused { id, reason } => {
            let accepted = format!("a record of weir.run/1 that can be stored: {reason}");
            (String::new(), format!("record {id:?}"), accepted, error.to_string())
        }
        // There is one record, which needs no name.
        StoreError::Import { reason, .. } => {
            let accepted = "one record of weir.run/1".into();
            (String::new(), "what is refused".into(), accepted, reason.clone())
        }
        _ => return Problem::new(status, error.to_string()),
    };
    Problem::new(status, message.clone()).with(FieldError {
        field,
        given: Some(given),
        accepted: Some(accepted),
        message,
    })
}

/// Works on the store on another thread.
async fn with_store<T: Send + 'static>(
    app: &Shared,
    work: impl FnOnce(&mut Store) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let data = app.config.data.clone();
    heavy(app, move || {
        let mut store = Store::open_at(&data).map_err(of_store)?;
        work(&mut store)
    })
    .await
}

pub(crate) async fn list(
    State(app): State<Shared>,
    Query(query): Query<RunsQuery>,
) -> Answer<RunList> {
    let filter = filter(&query)?;
    with_store(&app, move |store| {
        let rows = store.list(&filter).map_err(of_store)?;
        let mut runs = vec![];
        for run in rows {
            // A run that was removed since has no tags.
            let tags = store.labels(&run.id).unwrap_or_default();
            runs.push(RunEntry { run, tags });
        }
        let total = store.count(&filter).map_err(of_store)?;
        let excluded_by_kind = match filter.kind {
            RunKind::All => 0,
            _ => {
                let all =
                    store.count(&Filter { kind: RunKind::All, ..filter }).map_err(of_store)?;
                all.saturating_sub(total)
            }
        };
        Ok(RunList { runs, total, excluded_by_kind })
    })
    .await
    .map(Json200)
}

fn filter(query: &RunsQuery) -> Result<Filter, Problem> {
    let limit = query.limit.unwrap_or(RUNS);
    if !(1..=MAX_RUNS).contains(&limit) {
        return Err(Problem::field("?limit", limit.to_string(), "1 to 1000"));
    }
    let now = clock::unix_ms() as i64;
    let moment = |field: &str, text: &Option<String>, edge| {
        text.as_ref()
            .map(|text| moment_of(text, now, edge))
            .transpose()
            .map_err(|e| Problem::of_model(field, &e))
    };
    let label = |text: &String| match text.split_once('=') {
        Some((key, value)) => (key.trim().to_owned(), Some(value.to_owned())),
        None => (text.trim().to_owned(), None),
    };
    let mut conditions = vec![];
    for text in &query.conditions {
        conditions.push(text.parse().map_err(|e| Problem::of_model("?where", &e))?);
    }
    Ok(Filter {
        limit: Some(limit),
        since_unix_ms: moment("?since", &query.since, Edge::Since)?,
        until_unix_ms: moment("?until", &query.until, Edge::Until)?,
        host: query.host.clone(),
        labels: query.tag.iter().map(label).collect(),
        kind: query.kind,
        title: query.title.clone(),
        conditions,
    })
}

pub(crate) async fn import(
    State(app): State<Shared>,
    Json(record): Json<Record>,
) -> Result<Response, Problem> {
    let id = record.id.clone();
    let imported = with_store(&app, move |store| {
        let text = serde_json::to_vec(&record).map_err(Problem::internal)?;
        // As `weir runs import`, with all its checks.
        store.import(&mut &text[..]).map_err(of_store)
    })
    .await?;
    let added = imported.added > 0;
    let status = if added { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &ImportedRun { id, added }, None))
}

async fn record_of(app: &Shared, id: String) -> Result<Record, Problem> {
    with_store(app, move |store| store.get(&id).map_err(of_store)).await
}

pub(crate) async fn get(State(app): State<Shared>, PathSegment(id): PathSegment) -> Answer<Record> {
    record_of(&app, id).await.map(Json200)
}

pub(crate) async fn remove(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
) -> Result<StatusCode, Problem> {
    let named = id.clone();
    with_store(&app, move |store| {
        // Complete ids only: deletion can't be undone.
        if store.resolve(&id).map_err(of_store)? != id {
            return Err(Problem::missing("run", &id));
        }
        store.remove(&[id]).map_err(of_store)
    })
    .await?;
    app.edited(format!("runs/{named}"), &client.name(), None);
    Ok(StatusCode::NO_CONTENT)
}

fn tag_of(tags: &BTreeMap<String, String>) -> String {
    etag_of(&serde_json::to_vec(tags).unwrap_or_default())
}

pub(crate) async fn tags(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let tags = with_store(&app, move |store| store.labels(&id).map_err(of_store)).await?;
    let etag = tag_of(&tags);
    Ok(answer(StatusCode::OK, &Tags(tags), Some(&etag)))
}

pub(crate) async fn put_tags(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
    wanted: Condition,
    Json(Tags(tags)): Json<Tags>,
) -> Result<Response, Problem> {
    let _one = app.documents.lock().await;
    let document = format!("runs/{id}/tags");
    let named = id.clone();
    let before = with_store(&app, move |store| store.labels(&named).map_err(of_store)).await?;
    fresh(&app, &document, &wanted, Some(&tag_of(&before)))?;
    let after = with_store(&app, move |store| {
        let new: Vec<(&String, &String)> = tags.iter().collect();
        store.tag(&id, &new).map_err(of_store)?;
        let gone: Vec<&String> = before.keys().filter(|k| !tags.contains_key(*k)).collect();
        if !gone.is_empty() {
            store.untag(&id, &gone).map_err(of_store)?;
        }
        store.labels(&id).map_err(of_store)
    })
    .await?;
    let etag = tag_of(&after);
    app.edited(document, &client.name(), Some(etag.clone()));
    Ok(answer(StatusCode::OK, &Tags(after), Some(&etag)))
}

pub(crate) async fn report(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    Query(query): Query<ReportQuery>,
) -> Result<Response, Problem> {
    let record = record_of(&app, id).await?;
    heavy(&app, move || match query.format {
        ReportFormat::Csv if query.figure.is_some() => {
            let document = page::of_run(&record);
            let figure = figure_of(&document, query.figure.as_deref())?;
            Ok(text("text/csv; charset=utf-8", figure.csv()))
        }
        ReportFormat::Json => Ok(answer(StatusCode::OK, &record, None)),
        ReportFormat::Csv => {
            let mut writer = CsvWriter::new(vec![]).map_err(Problem::internal)?;
            writer.record(&record).map_err(Problem::internal)?;
            Ok(text("text/csv; charset=utf-8", writer.into_inner()))
        }
        _ => rendered(page::of_run(&record), &query),
    })
    .await
}

/// Several runs in one report.
pub(crate) async fn report_of_several(
    State(app): State<Shared>,
    Query(query): Query<SeveralReportQuery>,
) -> Result<Response, Problem> {
    let SeveralReportQuery { run: ids, experiment: experiments, label, format, figure, from_zero } =
        query;
    let query = ReportQuery { format, figure, from_zero };
    if !experiments.is_empty() {
        if !ids.is_empty() {
            return Err(Problem::field("?experiment", "runs as well", "either of them"));
        }
        return super::experiments::report_of_several(&app, &experiments, &label, query).await;
    }
    if !label.is_empty() {
        return Err(Problem::field("?label", "labels", "none without experiments"));
    }
    if !(1..=MAX_REPORTED).contains(&ids.len()) {
        let given = format!("{} runs", ids.len());
        return Err(Problem::field(
            "?run",
            given,
            format!("1 to {MAX_REPORTED} runs: run=ID&run=ID"),
        ));
    }
    if format == ReportFormat::Json {
        let accepted = "html, md, csv, svg; a record is at /runs/ID";
        return Err(Problem::field("?format", "json", accepted));
    }
    with_store(&app, move |store| {
        let (mut records, mut bytes) = (vec![], 0);
        let mut known = BTreeSet::new();
        for id in &ids {
            let whole = store.resolve(id).map_err(|e| in_query("?run", of_store(e), id))?;
            if !known.insert(whole) {
                let given = format!("run {id} twice");
                return Err(Problem::field("?run", given, "each run once"));
            }
            bytes += store.record_bytes(id).map_err(|e| in_query("?run", of_store(e), id))?;
            if bytes > MAX_REPORTED_BYTES {
                let given = format!("records of more than {MAX_REPORTED_BYTES} bytes in all");
                return Err(Problem::field("?run", given, "fewer runs, or weir report"));
            }
            records.push(store.get(id).map_err(|e| in_query("?run", of_store(e), id))?);
        }
        with_csv(page::of_runs(&records), &query)
    })
    .await
}

/// A document in one of its formats, or the data of one figure.
pub(crate) fn with_csv(document: Document, query: &ReportQuery) -> Result<Response, Problem> {
    match query.format {
        ReportFormat::Csv => {
            let found = figure_of(&document, query.figure.as_deref())?;
            Ok(text("text/csv; charset=utf-8", found.csv()))
        }
        _ => rendered(document, query),
    }
}

/// A run named in a query; a refusal names that field.
fn in_query(key: &str, mut problem: Problem, id: &str) -> Problem {
    for error in problem.errors.iter_mut().filter(|e| e.field == "id") {
        error.field = key.into();
        error.given = Some(id.into());
    }
    problem
}

/// A figure by its id, or the first.
fn figure_of<'a>(
    document: &'a Document,
    wanted: Option<&str>,
) -> Result<&'a plot::Figure, Problem> {
    document.figures().find(|f| wanted.is_none_or(|w| w == f.id)).ok_or_else(|| {
        let names: Vec<&str> = document.figures().map(|f| f.id.as_str()).collect();
        let accepted = match names.is_empty() {
            true => "nothing: there is no figure".into(),
            false => names.join(", "),
        };
        let given = wanted.unwrap_or("none");
        Problem::field("?figure", given, accepted).with_status(StatusCode::NOT_FOUND)
    })
}

/// A document in one of its formats.
pub(crate) fn rendered(mut document: Document, query: &ReportQuery) -> Result<Response, Problem> {
    if query.from_zero {
        document.start_at_zero();
    }
    match query.format {
        ReportFormat::Html => Ok(standing_alone(page::html(&document))),
        ReportFormat::Md => Ok(text("text/markdown; charset=utf-8", page::markdown(&document))),
        ReportFormat::Svg => {
            let figure = figure_of(&document, query.figure.as_deref())?;
            Ok(text("image/svg+xml", figure.svg()))
        }
        // Callers with other formats have handled them before.
        ReportFormat::Csv => Err(Problem::field("?format", "csv", "html, md, svg, json")),
        ReportFormat::Json => Err(Problem::field("?format", "json", "html, md, svg")),
    }
}

fn text(kind: &'static str, body: impl Into<axum::body::Body>) -> Response {
    let kind = HeaderValue::from_static(kind);
    ([(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

/// A standalone page: styles and script are included, and its policy forbids all requests.
fn standing_alone(html: String) -> Response {
    let mut response = text("text/html; charset=utf-8", html);
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers
        .insert(HeaderName::from_static("x-frame-options"), HeaderValue::from_static("SAMEORIGIN"));
    response
}

pub(crate) async fn figures(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Answer<FigureList> {
    let record = record_of(&app, id).await?;
    let draw = move || Ok(data_of(&page::of_run(&record)));
    heavy(&app, draw).await.map(Json200)
}

pub(crate) async fn summary(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Answer<RunSummary> {
    let record = record_of(&app, id).await?;
    heavy(&app, move || Ok(RunSummary::from(&record))).await.map(Json200)
}

/// A document's figures as data.
pub(crate) fn data_of(document: &Document) -> FigureList {
    FigureList { figures: document.figures().map(FigureData::from).collect() }
}

pub(crate) async fn comparison(
    State(app): State<Shared>,
    Query(query): Query<ComparisonQuery>,
) -> Answer<Diff> {
    let confidence = query.confidence.unwrap_or(95.0);
    if !(50.0..100.0).contains(&confidence) {
        let given = confidence.to_string();
        return Err(Problem::field("?confidence", given, "50 to below 100"));
    }
    let refuse = || {
        Problem::field(
            "?runs",
            query.runs.as_str(),
            "A,B or A1+A2,B1+B2: at most 100 runs on each side",
        )
    };
    let (a, b) = query.runs.split_once(',').ok_or_else(refuse)?;
    let ids = |text: &str| -> Result<Vec<String>, Problem> {
        let ids: Vec<String> =
            text.split(['+', ' ']).filter(|i| !i.is_empty()).map(Into::into).collect();
        let wrong = ids.is_empty() || ids.len() > MAX_COMPARED || text.contains(',');
        if wrong { Err(refuse()) } else { Ok(ids) }
    };
    let (a, b) = (ids(a)?, ids(b)?);
    with_store(&app, move |store| {
        let mut known = BTreeSet::new();
        let mut side = |ids: &[String]| -> Result<Side, Problem> {
            let mut side = Side::new();
            for id in ids {
                let record = store.get(id).map_err(|e| in_query("?runs", of_store(e), id))?;
                if !known.insert(record.id.clone()) {
                    let given = format!("run {id} twice");
                    return Err(Problem::field("?runs", given, "each run once, on one side"));
                }
                side.add(&record);
            }
            Ok(side)
        };
        Ok(diff(&side(&a)?, &side(&b)?, confidence / 100.0))
    })
    .await
    .map(Json200)
}
