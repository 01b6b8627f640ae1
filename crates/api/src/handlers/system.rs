//! The server, its host, its schemas and its log.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use weir_experiment::calibrate::Calibration;
use weir_experiment::doctor::{Diagnosis, Options, examine};
use weir_jobs::{CalibrateJob, DemoJob, Job};
use weir_model::schema;
use weir_net::interface;
use weir_runs::Store;

use super::{Answer, Json200, answer, heavy};
use crate::app::Shared;
use crate::extract::{Json, PathSegment};
use crate::problem::Problem;
use crate::supervise;
use crate::types::*;

/// Age from which the diagnosis of this host is repeated.
const STALE: Duration = Duration::from_secs(5);

pub(crate) async fn system(State(app): State<Shared>) -> Answer<System> {
    let data = app.config.data.clone();
    let calibration = heavy(&app, move || Ok(kept(&data).ok().flatten())).await?;
    let capabilities = weir_net::capability::capabilities().unwrap_or_default();
    let names = [
        (capabilities.net_admin, "net_admin"),
        (capabilities.net_raw, "net_raw"),
        (capabilities.sys_admin, "sys_admin"),
        (capabilities.sys_nice, "sys_nice"),
        (capabilities.bpf, "bpf"),
    ];
    let can_start = app.launcher.is_there();
    let mut reasons = vec![];
    if !can_start {
        reasons.push("the launcher is not running: nothing can be started".to_owned());
    }
    if can_start && !app.config.may_emulate {
        reasons.push("emulators need CAP_NET_ADMIN and CAP_NET_RAW, which the server lacks".into());
    }
    let page = super::page::state();
    Ok(Json200(System {
        version: app.config.version.clone(),
        instance: app.instance.clone(),
        started_at: app.started_at.clone(),
        host: weir_net::host::host().ok().map(|h| h.hostname),
        kernel: weir_net::host::host().ok().map(|h| h.kernel),
        may: Permissions {
            emulate: can_start && app.config.may_emulate,
            make_labs: can_start && app.config.may_make_labs,
            run_scripts: app.config.scripts.is_some(),
            reasons,
            capabilities: names.iter().filter(|(has, _)| *has).map(|(_, n)| (*n).into()).collect(),
        },
        page,
        limits: app.config.limits,
        key_names: super::tests::key_names(&app.config.keys),
        calibration_id: calibration.map(|c| c.id),
        token_needed: app.tokens.is_some(),
    }))
}

/// The latest stored calibration of this host.
fn kept(data: &weir_runs::DataDirectory) -> Result<Option<Calibration>, Problem> {
    let Some(store) = Store::open_existing(data).map_err(Problem::internal)? else {
        return Ok(None);
    };
    let host = weir_net::host::host().map_err(Problem::internal)?.hostname;
    let kept = store.latest_calibration(&host).map_err(Problem::internal)?;
    kept.map(|k| weir_model::document::read(&k.calibration).map_err(Problem::internal)).transpose()
}

pub(crate) async fn doctor(State(app): State<Shared>) -> Answer<Diagnosis> {
    // One diagnosis at a time, which continues if its client has gone; later clients share the result.
    let look = tokio::spawn(async move {
        let mut latest = app.doctor.lock().await;
        if let Some((_, found)) = latest.as_ref().filter(|(at, _)| at.elapsed() < STALE) {
            return Ok(found.clone());
        }
        let found = look(&app).await?;
        *latest = Some((Instant::now(), found.clone()));
        Ok(found)
    });
    look.await.map_err(Problem::internal)?.map(Json200)
}

async fn look(app: &Shared) -> Result<Diagnosis, Problem> {
    if !app.launcher.is_there() {
        return heavy(app, || examine(&Options::default()).map_err(Problem::internal)).await;
    }
    // By a process with the launcher's permissions, which tests have too.
    let ended = supervise::finished(app, supervise::Order::job(Job::Doctor {})).await?;
    match ended.result {
        Some(result) => weir_model::document::read(&result).map_err(Problem::internal),
        None => Err(Problem::of_refusal(&ended.why(), |_| String::new())),
    }
}

pub(crate) async fn calibration(State(app): State<Shared>) -> Answer<CalibrationState> {
    state(&app).await.map(Json200)
}

async fn state(app: &Shared) -> Result<CalibrationState, Problem> {
    let data = app.config.data.clone();
    let kept = heavy(app, move || kept(&data)).await?;
    let progress = app.calibrating.progress();
    Ok(CalibrationState {
        kept,
        running: progress.running,
        step: progress.step,
        error: progress.error,
    })
}

pub(crate) async fn calibrate(
    State(app): State<Shared>,
    Json(job): Json<CalibrateJob>,
) -> Result<Response, Problem> {
    supervise::calibrate(&app, job).await?;
    Ok(answer(StatusCode::ACCEPTED, &state(&app).await?, None))
}

pub(crate) async fn demo(State(app): State<Shared>) -> Json200<DemoState> {
    Json200(app.demo.state())
}

pub(crate) async fn run_demo(
    State(app): State<Shared>,
    Json(job): Json<DemoJob>,
) -> Result<Response, Problem> {
    if !(1..=60).contains(&job.seconds) {
        return Err(Problem::field("/seconds", job.seconds.to_string(), "1 to 60"));
    }
    if !job.simulate && app.launcher.is_there() && !app.config.may_make_labs {
        let accepted = "true: this server may not create labs";
        return Err(Problem::field("/simulate", "false", accepted));
    }
    supervise::demo::start(&app, job).await?;
    Ok(answer(StatusCode::ACCEPTED, &app.demo.state(), None))
}

pub(crate) async fn stop_demo(State(app): State<Shared>) -> Response {
    supervise::demo::stop(&app).await;
    answer(StatusCode::ACCEPTED, &app.demo.state(), None)
}

pub(crate) async fn interfaces(State(app): State<Shared>) -> Answer<InterfaceList> {
    let look = || {
        let all = interface::interfaces().map_err(Problem::internal)?;
        let entries = all.iter().map(entry).collect();
        Ok(InterfaceList { interfaces: entries })
    };
    heavy(&app, look).await.map(Json200)
}

fn entry(of: &interface::Interface) -> InterfaceEntry {
    let mac = of.mac.map(|m| m.map(|b| format!("{b:02x}")).join(":"));
    // The request names one interface, which is on both sides.
    let refusals = weir_emulator::refusals(&of.name, &of.name).unwrap_or_default();
    let reasons: Vec<String> = refusals
        .iter()
        .flat_map(|(_, reasons)| reasons)
        .filter(|r| !matches!(r, weir_emulator::Refusal::SameTwice))
        .map(ToString::to_string)
        .collect();
    InterfaceEntry {
        name: of.name.clone(),
        kind: of.kind.clone(),
        up: of.up,
        carrier: of.carrier,
        loopback: of.loopback,
        member: of.master.is_some(),
        mtu_bytes: of.mtu_bytes,
        mac,
        addresses: of
            .addresses
            .iter()
            .map(|a| format!("{}/{}", a.address, a.prefix_length))
            .collect(),
        qdisc: of.qdisc.clone(),
        speed_bits_per_second: interface::speed_bits_per_second(&of.name).ok().flatten(),
        in_use: (!reasons.is_empty()).then(|| reasons.join("; ")),
    }
}

/// Name in the path, name of the schema, and its generator.
type Published = (&'static str, &'static str, fn() -> serde_json::Value);

const SCHEMAS: [Published; 5] = [
    ("plan", "weir.plan/1", schema::plan_schema),
    ("impair", "weir.impair/1", schema::impair_schema),
    ("run", "weir.run/1", schema::run_schema),
    ("scenario", "weir.scenario/1", schema::scenario_schema),
    ("experiment", "weir.experiment/1", schema::experiment_schema),
];

pub(crate) async fn schemas() -> Json200<SchemaList> {
    let entry = |(name, schema, _): &(&str, &str, _)| SchemaEntry {
        name: (*name).into(),
        schema: (*schema).into(),
    };
    Json200(SchemaList { schemas: SCHEMAS.iter().map(entry).collect() })
}

pub(crate) async fn metrics() -> Json200<MetricList> {
    Json200(MetricList { metrics: weir_model::metric::metric_entries() })
}

pub(crate) async fn schema(PathSegment(name): PathSegment) -> Result<Response, Problem> {
    let found = SCHEMAS.iter().find(|(known, ..)| *known == name);
    let (_, _, make) = found.ok_or_else(|| Problem::missing("schema", &name))?;
    let mut response = answer(StatusCode::OK, &make(), None);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/schema+json"));
    Ok(response)
}

pub(crate) async fn audit(State(app): State<Shared>) -> Json200<AuditList> {
    Json200(AuditList { entries: app.audit.latest(), file: app.audit.path() })
}

pub(crate) async fn clients(State(app): State<Shared>) -> Json200<ClientList> {
    Json200(app.clients.list())
}
