//! Scenarios, sweeps, experiments.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use weir_jobs::ScenarioJob;
use weir_model::experiment::{HostSpec, Variables};
use weir_model::names::Host;
use weir_net::file::symlink;
use weir_report::page;

use super::runs::{MAX_REPORTED_BYTES, data_of, rendered, with_csv};
use super::tests::{key_file, right_host, set_host};
use super::{Answer, Json200, answer, heavy, short, short_list};
use crate::app::Shared;
use crate::clock;
use crate::config::Config;
use crate::extract::{Json, PathSegment, Query};
use crate::problem::Problem;
use crate::scenarios;
use crate::supervise;
use crate::sweeps;
use crate::types::*;

/// Maximum number of experiments on one page.
const MAX_REPORTED: usize = 10;
/// Maximum number of characters of an experiment's label.
const MAX_LABEL: usize = 100;
/// Maximum number of hosts of an experiment.
const MAX_HOSTS: usize = 64;

pub(crate) async fn scenarios(State(app): State<Shared>) -> Answer<ScenarioList> {
    let of = app.clone();
    heavy(&app, move || {
        let found = scenarios::of_config(&of.config);
        Ok(ScenarioList {
            scenarios: found.iter().map(|f| scenarios::described(f).0).collect(),
            directories: of.config.scenarios.iter().map(|d| d.display().to_string()).collect(),
        })
    })
    .await
    .map(Json200)
}

pub(crate) async fn scenario(
    State(app): State<Shared>,
    PathSegment(name): PathSegment,
) -> Answer<ScenarioText> {
    let of = app.clone();
    heavy(&app, move || {
        let found = scenarios::named(&of.config, &name)?;
        let (entry, scenario) = scenarios::described(&found);
        Ok(ScenarioText { entry, text: found.text, scenario })
    })
    .await
    .map(Json200)
}

/// Checks a scenario without starting it; returns its summary.
pub(crate) fn looked_at(text: &str, config: &Config) -> Result<Vec<String>, Problem> {
    let (set, hosts) = (Variables::new(), BTreeMap::new());
    let scripts = config.scripts.as_deref();
    let scenario = scenarios::of_request("", text, &set, &hosts, false, scripts)?;
    let nowhere = PathBuf::from("/nonexistent");
    let estimate = scenarios::checked("", &scenario, nowhere, config.parse_flags)
        .map_err(|problem| problem.with_given_of("", text))?;
    let plural = if scenario.steps.len() == 1 { "" } else { "s" };
    Ok(vec![format!("{} step{plural}", scenario.steps.len()), estimate.text(None)])
}

pub(crate) async fn list(State(app): State<Shared>) -> Answer<ExperimentList> {
    supervise::stored::look_beside(&app).await;
    Ok(Json200(ExperimentList { experiments: app.experiments.list() }))
}

pub(crate) async fn start(
    State(app): State<Shared>,
    Json(request): Json<ExperimentRequest>,
) -> Result<Response, Problem> {
    let key_file = key_file(&app.config.keys, request.key_name.as_deref())?;
    if request.hosts.len() > MAX_HOSTS {
        let given = format!("{} hosts", request.hosts.len());
        return Err(Problem::field("/hosts", given, format!("at most {MAX_HOSTS}")));
    }
    let mut hosts = BTreeMap::new();
    for (name, address) in &request.hosts {
        let field = format!("/hosts/{}", name.replace('~', "~0").replace('/', "~1"));
        super::file_name(name)
            .map_err(|_| Problem::field(field.clone(), name.as_str(), "a name"))?;
        hosts.insert(name.clone(), right_host(&field, address)?);
    }
    if key_file.is_some() && hosts.is_empty() {
        return Err(Problem::field("/key_name", "a key", "none without hosts"));
    }
    let work = {
        let app = app.clone();
        let (set, hosts) = (request.set, hosts.clone());
        let (quick, name, document) = (request.quick, request.scenario, request.document);
        move || prepare(&app, name, document, &set.into_iter().collect(), &hosts, quick)
    };
    let ready = heavy(&app, work).await?;
    let mut specs = BTreeMap::new();
    for (name, address) in hosts {
        let host = Host::parse(&address).map_err(|e| Problem::of_model("/hosts", &e))?;
        let key_file = key_file.as_ref().map(|path| path.display().to_string());
        specs.insert(name, HostSpec { address: host.name, port: host.port, key_file });
    }
    let path = ready.path.clone();
    let read = move || {
        std::fs::read_to_string(&path)
            .map_err(|e| Problem::internal(format!("read the scenario: {e}")))
    };
    let text = heavy(&app, read).await?;
    let directory = ready.path.parent().map(PathBuf::from).unwrap_or_default();
    let job = |id| ScenarioJob {
        id: Some(id),
        text,
        directory,
        quick: request.quick,
        simulate: request.simulate,
        hosts: specs,
        seed: request.seed,
        ..ScenarioJob::default()
    };
    let state =
        supervise::start_experiment(&app, &ready.name, ready.title, job, ready.directory).await?;
    Ok(answer(StatusCode::CREATED, &state, None))
}

/// A checked scenario with its file.
struct PreparedScenario {
    name: String,
    title: Option<String>,
    path: PathBuf,
    /// Made for it.
    directory: Option<PathBuf>,
}

fn prepare(
    app: &Shared,
    name: Option<String>,
    document: Option<serde_json::Value>,
    set: &Variables,
    addresses: &BTreeMap<String, String>,
    quick: bool,
) -> Result<PreparedScenario, Problem> {
    let hosts: BTreeMap<String, HostSpec> = addresses
        .iter()
        .map(|(n, a)| (n.clone(), HostSpec { address: a.clone(), ..HostSpec::default() }))
        .collect();
    let scripts = app.config.scripts.as_deref();
    let directory = app.private(&format!("experiment-{}", clock::new_id()));
    let failed = |e: std::io::Error| Problem::internal(format!("write the scenario: {e}"));
    match (name, document) {
        (Some(name), None) => {
            let found = scenarios::named(&app.config, &name).map_err(|_| {
                Problem::field("/scenario", name, scenarios::names(&app.config))
                    .with_status(StatusCode::CONFLICT)
            })?;
            let scenario = scenarios::of_server(&found, set, &hosts, quick, scripts)?;
            let beside = found.path.parent().map(PathBuf::from).unwrap_or_default();
            scenarios::checked("/scenario", &scenario, beside.clone(), app.config.parse_flags)?;
            let runs_commands = scenarios::described(&found).0.runs_commands;
            let (path, directory) = if set.is_empty() && !runs_commands {
                (std::fs::canonicalize(&found.path).map_err(failed)?, None)
            } else {
                // The scenario as it was checked, with its neighbouring files.
                let text = scenarios::settled(&found.text, set, scripts)?;
                let field = if set.is_empty() { "/scenario" } else { "/set" };
                scenarios::as_it_runs(field, &text, &hosts, quick, scripts, &scenario)?;
                std::fs::create_dir(&directory).map_err(failed)?;
                const NAME: &str = "scenario.settled.json";
                let entries = std::fs::read_dir(&beside).map_err(failed)?.flatten();
                for entry in entries.filter(|e| e.file_name() != NAME) {
                    let Ok(real) = std::fs::canonicalize(entry.path()) else { continue };
                    let to = directory.join(entry.file_name());
                    symlink(&real, &to).map_err(failed)?;
                }
                let path = directory.join(NAME);
                std::fs::write(&path, text).map_err(failed)?;
                (path, Some(directory))
            };
            Ok(PreparedScenario { name: scenario.name, title: scenario.title, path, directory })
        }
        (None, Some(document)) => {
            let text = document.to_string();
            let scenario = scenarios::of_request("/document", &text, set, &hosts, quick, scripts)?;
            std::fs::create_dir(&directory).map_err(failed)?;
            let done = || -> Result<PathBuf, Problem> {
                scenarios::checked(
                    "/document",
                    &scenario,
                    directory.clone(),
                    app.config.parse_flags,
                )
                .map_err(|problem| problem.with_given_of("/document", &text))?;
                let text = scenarios::settled(&text, set, scripts)?;
                scenarios::as_it_runs("/document", &text, &hosts, quick, scripts, &scenario)?;
                let path = directory.join("scenario.json");
                std::fs::write(&path, text).map_err(failed)?;
                Ok(path)
            };
            match done() {
                Ok(path) => {
                    let (name, title) = (scenario.name, scenario.title);
                    Ok(PreparedScenario { name, title, path, directory: Some(directory) })
                }
                Err(problem) => {
                    let _ = std::fs::remove_dir_all(&directory);
                    Err(problem)
                }
            }
        }
        (given, _) => Err(Problem::field(
            "/scenario",
            if given.is_some() { "a name and a document" } else { "nothing" },
            "the name of a scenario, or a document",
        )),
    }
}

pub(crate) async fn sweep(
    State(app): State<Shared>,
    Json(mut request): Json<SweepRequest>,
) -> Result<Response, Problem> {
    let host = request.host.clone().or_else(|| request.plan.host.clone());
    let host = match (host, request.lab) {
        (Some(host), false) => Some(right_host("/host", &host)?),
        (None, true) => None,
        (Some(host), true) => return Err(Problem::field("/host", host, "none with a lab")),
        (None, false) => {
            return Err(Problem::field("/host", "nothing", "a server, or a lab"));
        }
    };
    if let Some(host) = &host {
        set_host(&mut request.plan, host);
    }
    request.plan.check().map_err(|e| Problem::of_model("/plan", &e))?;
    if request.over.is_empty() || request.over.len() > 16 {
        let given = format!("{} axes", request.over.len());
        return Err(Problem::field("/over", given, "1 to 16"));
    }
    short_list("/over", &request.over)?;
    short_list("/metrics", &request.metrics)?;
    short_list("/expect", &request.expect)?;
    for (field, text) in [("/both", &request.both), ("/emulator", &request.emulator)] {
        text.as_deref().map_or(Ok(()), |text| short(field, text))?;
    }
    if let Some(runs) = request.runs.filter(|r| !(1..=1000).contains(r)) {
        return Err(Problem::field("/runs", runs.to_string(), "1 to 1000"));
    }
    let request = heavy(&app, move || sweeps::check(&request).map(|()| request)).await?;
    if let Some(id) = &request.emulator {
        let shown = supervise::emulators::show(&app, id).await;
        shown.map_err(|problem| match problem.status {
            404 => Problem::field(
                "/emulator",
                id.as_str(),
                "the id of a running emulator on this host",
            )
            .with_status(StatusCode::CONFLICT),
            _ => problem,
        })?;
    }
    let key_file = key_file(&app.config.keys, request.key_name.as_deref())?;
    let socket = match &request.emulator {
        Some(id) => Some(supervise::emulators::socket(id)?),
        None => None,
    };
    let title = request.plan.title.clone();
    let scenario = sweeps::scenario(request, host, socket, key_file)?;
    let text = serde_json::to_string(&scenario).map_err(Problem::internal)?;
    let job = |id| ScenarioJob { id: Some(id), text, ..ScenarioJob::default() };
    let state = supervise::start_experiment(&app, "sweep", title, job, None).await?;
    Ok(answer(StatusCode::CREATED, &state, None))
}

pub(crate) async fn get(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Answer<ExperimentState> {
    supervise::experiment(&app, &id).await.map(Json200)
}

pub(crate) async fn forget(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<StatusCode, Problem> {
    supervise::stop_experiment(&app, &id).await?;
    supervise::stored::remove(&app, &id);
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn stop(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let state = supervise::stop_experiment(&app, &id).await?;
    Ok(answer(StatusCode::ACCEPTED, &state, None))
}

pub(crate) async fn resume(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let state = supervise::resume_experiment(&app, &id).await?;
    Ok(answer(StatusCode::ACCEPTED, &state, None))
}

pub(crate) async fn report(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    Query(query): Query<ReportQuery>,
) -> Result<Response, Problem> {
    let outcome = supervise::experiment_outcome(&app, &id).await?;
    heavy(&app, move || match query.format {
        ReportFormat::Json => Ok(answer(StatusCode::OK, &outcome, None)),
        _ => rendered(page::of_experiment(&outcome), &query),
    })
    .await
}

/// Several experiments on one page.
pub(crate) async fn report_of_several(
    app: &Shared,
    ids: &[String],
    labels: &[String],
    query: ReportQuery,
) -> Result<Response, Problem> {
    if ids.len() > MAX_REPORTED {
        let given = format!("{} experiments", ids.len());
        return Err(Problem::field("?experiment", given, format!("at most {MAX_REPORTED}")));
    }
    if query.format == ReportFormat::Json {
        let accepted = "html, md, csv, svg; a result is at /experiments/ID";
        return Err(Problem::field("?format", "json", accepted));
    }
    let again = ids.iter().enumerate().find(|(i, id)| ids[..*i].contains(id));
    if let Some((_, id)) = again {
        let given = format!("experiment {id} twice");
        return Err(Problem::field("?experiment", given, "each experiment once"));
    }
    if !labels.is_empty() && labels.len() != ids.len() {
        let given = format!("{} labels for {} experiments", labels.len(), ids.len());
        return Err(Problem::field("?label", given, "none, or one for each experiment"));
    }
    if let Some(long) = labels.iter().find(|label| label.chars().count() > MAX_LABEL) {
        let accepted = format!("at most {MAX_LABEL} characters");
        return Err(Problem::field("?label", long.as_str(), accepted));
    }
    let labels = labels.to_vec();
    let results = weir_runs::Experiments::of(&app.config.data);
    let (mut outcomes, mut bytes) = (vec![], 0);
    for id in ids {
        outcomes.push(supervise::experiment_outcome(app, id).await?);
        bytes += results.result(id).metadata().map_or(0, |file| file.len());
        if bytes > MAX_REPORTED_BYTES {
            let given = format!("results of more than {MAX_REPORTED_BYTES} bytes in all");
            return Err(Problem::field("?experiment", given, "fewer experiments, or weir report"));
        }
    }
    heavy(app, move || {
        let mut headings = page::headings(&outcomes);
        for (heading, label) in headings.iter_mut().zip(labels) {
            if !label.trim().is_empty() {
                *heading = label.trim().to_owned();
            }
        }
        let again =
            headings.iter().enumerate().find(|(i, heading)| headings[..*i].contains(heading));
        if let Some((_, heading)) = again {
            return Err(Problem::field("?label", format!("{heading} twice"), "different labels"));
        }
        let named: Vec<_> = headings.into_iter().zip(outcomes).collect();
        with_csv(page::of_experiments(&named), &query)
    })
    .await
}

pub(crate) async fn figures(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Answer<FigureList> {
    let outcome = supervise::experiment_outcome(&app, &id).await?;
    heavy(&app, move || Ok(data_of(&page::of_experiment(&outcome)))).await.map(Json200)
}
