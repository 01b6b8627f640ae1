//! Emulators: starting, changing, stopping.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use weir_emulator::{AlarmSelection, AlarmThresholds, Report};
use weir_model::impairment::Impairment;
use weir_model::names;

use super::{Answer, Json200, answer, fresh, heavy, seeds};
use crate::app::Shared;
use crate::extract::{ApiClient, Condition, Json, JsonText, PathSegment, PathSegments, Query};
use crate::file_body;
use crate::problem::{FieldError, Problem};
use crate::supervise::emulators as supervise;
use crate::types::*;

pub(crate) async fn list(State(app): State<Shared>) -> Answer<EmulatorList> {
    let unavailable = match (app.launcher.is_there(), app.config.may_emulate) {
        (true, true) => None,
        (true, false) => {
            Some("the server was started without CAP_NET_ADMIN and CAP_NET_RAW".into())
        }
        (false, _) => Some("the launcher is not running: nothing can be started".into()),
    };
    Ok(Json200(EmulatorList { emulators: supervise::list(&app).await?, unavailable }))
}

pub(crate) async fn start(
    State(app): State<Shared>,
    client: ApiClient,
    JsonText(mut request, text): JsonText<EmulatorRequest>,
) -> Result<Response, Problem> {
    seeds::draw(&mut request.configuration.seed, seeds::part(&text, "configuration"))?;
    request.configuration.check().map_err(|e| Problem::of_model("/configuration", &e))?;
    let configuration = request.configuration.clone();
    let compile = move || {
        weir_emulator::compile_filters(&configuration)
            .map_err(|e| Problem::of_model("/configuration", &e))
    };
    heavy(&app, compile).await?;
    for (seconds, most, field) in [
        (request.keepalive_timeout_seconds, 86_400, "/keepalive_timeout_seconds"),
        (request.duration_seconds, 604_800, "/duration_seconds"),
    ] {
        if let Some(seconds) = seconds.filter(|s| !(1..=most).contains(s)) {
            return Err(Problem::field(field, seconds.to_string(), format!("1 to {most}")));
        }
    }
    for (name, i) in request.interfaces.iter().zip(0..) {
        if !names::is_emulator_end(name) {
            let field = format!("/interfaces/{i}");
            return Err(Problem::field(field, name.as_str(), names::EMULATOR_END_FORMS));
        }
    }
    let at = match request.lab.as_deref() {
        Some(lab) => Some(super::tests::lab_node(&app, "/lab", lab).await?),
        None => None,
    };
    if at.is_none() && request.force && is_remote(&client) {
        keep_the_way(&request.interfaces)?;
    }
    let names = request.interfaces.clone();
    let entry = supervise::start(&app, request, at).await.map_err(|e| of_interfaces(e, &names))?;
    let what = format!("started between {}", entry.interfaces.join(" and "));
    supervise::remember(&app, &entry.id, &client.name(), what);
    let etag = entry.etag.clone();
    Ok(answer(StatusCode::CREATED, &entry, Some(&etag)))
}

/// Whether the client is remote. Behind a proxy or a tunnel all clients come from loopback: if tokens are required, a
/// client with a token counts as remote.
fn is_remote(client: &ApiClient) -> bool {
    client.user.is_some() || !client.address.ip().to_canonical().is_loopback()
}

/// The field of the refused interface.
fn of_interfaces(mut problem: Problem, names: &[String; 2]) -> Problem {
    for error in problem.errors.iter_mut().filter(|error| error.field == "/interfaces") {
        let at = names.iter().position(|name| error.given.as_ref() == Some(name));
        error.field = at.map_or_else(String::new, |i| format!("/interfaces/{i}"));
    }
    problem
}

/// A remote client could cut its own path to this server: refused unless it runs on this host.
fn keep_the_way(interfaces: &[String; 2]) -> Result<(), Problem> {
    use weir_emulator::Refusal;
    let found = weir_emulator::refusals(&interfaces[0], &interfaces[1]).unwrap_or_default();
    for (name, reasons) in found {
        let way = reasons.iter().find(|r| {
            matches!(r, Refusal::DefaultRoute | Refusal::OwnSession(_) | Refusal::Upper(..))
        });
        if let Some(reason) = way {
            let given = format!("{name}: {reason}");
            return Err(Problem::field("/force", given, "false for a client on another host"));
        }
    }
    Ok(())
}

pub(crate) async fn get(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let entry = supervise::show(&app, &id).await?.entry;
    let etag = entry.etag.clone();
    Ok(answer(StatusCode::OK, &entry, Some(&etag)))
}

pub(crate) async fn end(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<StatusCode, Problem> {
    supervise::end(&app, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn configuration(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let shown = supervise::show(&app, &id).await?;
    Ok(answer(StatusCode::OK, &shown.configuration, Some(&shown.entry.etag)))
}

fn document(id: &str) -> String {
    format!("emulators/{id}/configuration")
}

pub(crate) async fn put_configuration(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
    wanted: Condition,
    JsonText(mut configuration, text): JsonText<Impairment>,
) -> Result<Response, Problem> {
    seeds::draw(&mut configuration.seed, std::str::from_utf8(&text).unwrap_or_default())?;
    configuration.check().map_err(|e| Problem::of_model("", &e))?;
    // Between the check of the tag and the change no other change is made through this server.
    let _one = app.documents.lock().await;
    let before = supervise::show(&app, &id).await?;
    fresh(&app, &document(&id), &wanted, Some(&before.entry.etag))?;
    let request = json!({ "verb": "set", "impairment": configuration });
    let told = supervise::ask(&id, request).await?;
    let applied = applied(&app, &id, &client, &told, "configuration").await?;
    let etag = applied.etag.clone();
    Ok(answer(StatusCode::OK, &applied, Some(&etag)))
}

/// Publishes a change and its result.
async fn applied(
    app: &Shared,
    id: &str,
    client: &ApiClient,
    told: &Value,
    what: &str,
) -> Result<Applied, Problem> {
    let shown = supervise::show(app, id).await?;
    supervise::remember(app, id, &client.name(), what.into());
    let etag = shown.entry.etag;
    app.edited(document(id), &client.name(), Some(etag.clone()));
    Ok(Applied {
        configuration: told["configuration"].as_u64().unwrap_or(0),
        seed: shown.configuration.seed,
        etag,
        note: told["note"].as_str().map(Into::into),
    })
}

async fn order(
    app: &Shared,
    id: &str,
    client: &ApiClient,
    verb: &str,
    flow: Option<&str>,
) -> Result<Applied, Problem> {
    let _one = app.documents.lock().await;
    let mut request = json!({ "verb": verb });
    if let Some(flow) = flow {
        let shown = supervise::show(app, id).await?;
        if !supervise::knows(&shown.configuration, flow) {
            return Err(Problem::missing("flow", flow));
        }
        request["flow"] = flow.into();
    }
    let told = supervise::ask(id, request).await?;
    let what = format!("{verb} {}", flow.unwrap_or("all"));
    applied(app, id, client, &told, &what).await
}

pub(crate) async fn run_all(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
) -> Answer<Applied> {
    order(&app, &id, &client, "start", None).await.map(Json200)
}

pub(crate) async fn stop_all(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
) -> Answer<Applied> {
    order(&app, &id, &client, "stop", None).await.map(Json200)
}

pub(crate) async fn run_flow(
    State(app): State<Shared>,
    PathSegments(id, flow): PathSegments,
    client: ApiClient,
) -> Answer<Applied> {
    order(&app, &id, &client, "start", Some(&flow)).await.map(Json200)
}

pub(crate) async fn stop_flow(
    State(app): State<Shared>,
    PathSegments(id, flow): PathSegments,
    client: ApiClient,
) -> Answer<Applied> {
    order(&app, &id, &client, "stop", Some(&flow)).await.map(Json200)
}

async fn reset(
    app: &Shared,
    id: &str,
    client: &ApiClient,
    flow: Option<&str>,
) -> Result<StatusCode, Problem> {
    let mut request = json!({ "verb": "reset" });
    if let Some(flow) = flow {
        let shown = supervise::show(app, id).await?;
        if !supervise::knows(&shown.configuration, flow) {
            return Err(Problem::missing("flow", flow));
        }
        request["flow"] = flow.into();
    }
    supervise::ask(id, request).await?;
    let what = format!("reset {}", flow.unwrap_or("all"));
    supervise::remember(app, id, &client.name(), what);
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn reset_all(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
) -> Result<StatusCode, Problem> {
    reset(&app, &id, &client, None).await
}

pub(crate) async fn reset_flow(
    State(app): State<Shared>,
    PathSegments(id, flow): PathSegments,
    client: ApiClient,
) -> Result<StatusCode, Problem> {
    reset(&app, &id, &client, Some(&flow)).await
}

pub(crate) async fn trigger_flow(
    State(app): State<Shared>,
    PathSegments(id, flow): PathSegments,
    client: ApiClient,
) -> Result<StatusCode, Problem> {
    let shown = supervise::show(&app, &id).await?;
    if !supervise::knows(&shown.configuration, &flow) {
        return Err(Problem::missing("flow", &flow));
    }
    supervise::ask(&id, json!({ "verb": "trigger", "flow": flow })).await?;
    supervise::remember(&app, &id, &client.name(), format!("trigger {flow}"));
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn trace_flow(
    State(app): State<Shared>,
    PathSegments(id, flow): PathSegments,
    client: ApiClient,
    Json(request): Json<TraceRequest>,
) -> Result<StatusCode, Problem> {
    let shown = supervise::show(&app, &id).await?;
    if shown.entry.packet_trace == PacketTraceLocation::None {
        let message =
            format!("emulator {id} has no packet trace: start it with \"packet_trace\": true");
        return Err(Problem::conflict("no-packet-trace", message.clone()).with(FieldError {
            field: "/on".into(),
            given: Some(format!("{}, of an emulator without a packet trace", request.on)),
            accepted: Some("an emulator that was started with a packet trace".into()),
            message,
        }));
    }
    let told = json!({ "verb": "trace", "flow": flow, "on": request.on });
    supervise::ask(&id, told).await?;
    let what = format!("trace {flow} {}", if request.on { "on" } else { "off" });
    supervise::remember(&app, &id, &client.name(), what);
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn packet_trace(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let path = supervise::packet_trace(&app, &id).await?;
    file_body::download(path, "application/octet-stream").await
}

pub(crate) async fn packet_trace_configurations(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Result<Response, Problem> {
    let path = supervise::configurations_of(&supervise::packet_trace(&app, &id).await?);
    file_body::download(path, "application/x-ndjson").await
}

/// Sends a verb on alarms.
async fn change_alarms(
    app: &Shared,
    id: &str,
    client: &ApiClient,
    verb: &str,
    which: &AlarmSelection,
) -> Answer<AlarmCount> {
    let mut request = json!(which);
    request["verb"] = verb.into();
    let told = supervise::ask(id, request).await?;
    let alarms = told["alarms"].as_u64().unwrap_or(0);
    // What matches no alarm changes nothing, and its text has any length.
    if alarms > 0 {
        let kind = which.kind.map_or("all alarms", |kind| kind.name());
        let what = match &which.object {
            Some(object) => format!("{verb} {kind} of {object}"),
            None => format!("{verb} {kind}"),
        };
        supervise::remember(app, id, &client.name(), what);
    }
    Ok(Json200(AlarmCount { alarms }))
}

pub(crate) async fn acknowledge_alarms(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
    Json(which): Json<AlarmSelection>,
) -> Answer<AlarmCount> {
    change_alarms(&app, &id, &client, "acknowledge", &which).await
}

pub(crate) async fn clear_alarms(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
    Json(which): Json<AlarmSelection>,
) -> Answer<AlarmCount> {
    change_alarms(&app, &id, &client, "clear", &which).await
}

/// Sends the verb `thresholds` and returns those in force.
async fn ask_thresholds(id: &str, mut request: Value) -> Result<AlarmThresholds, Problem> {
    request["verb"] = "thresholds".into();
    let told = supervise::ask(id, request).await?;
    weir_model::document::read(&told["thresholds"])
        .map_err(|e| Problem::internal(format!("the emulator's answer: {e}")))
}

pub(crate) async fn thresholds(PathSegment(id): PathSegment) -> Answer<AlarmThresholds> {
    ask_thresholds(&id, json!({})).await.map(Json200)
}

pub(crate) async fn set_thresholds(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    client: ApiClient,
    Json(thresholds): Json<AlarmThresholds>,
) -> Answer<AlarmThresholds> {
    let set = ask_thresholds(&id, json!(thresholds)).await?;
    supervise::remember(&app, &id, &client.name(), "alarm thresholds".into());
    Ok(Json200(set))
}

pub(crate) async fn history(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
    Query(query): Query<HistoryQuery>,
) -> Answer<EmulatorHistory> {
    let after = super::tests::after_seconds(&query)?;
    // Whether it runs.
    supervise::show(&app, &id).await?;
    Ok(Json200(EmulatorHistory { reports: supervise::history(&app, &id, after) }))
}

pub(crate) async fn counters(PathSegment(id): PathSegment) -> Answer<Report> {
    supervise::report(&id).await.map(Json200)
}

pub(crate) async fn log(
    State(app): State<Shared>,
    PathSegment(id): PathSegment,
) -> Answer<EmulatorLog> {
    let alarms = supervise::report(&id).await?.alarms;
    let lines = supervise::words(&id);
    let changes = supervise::changes(&app, &id);
    Ok(Json200(EmulatorLog { alarms, lines, changes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shows_a_token_is_taken_for_remote() {
        let of = |address: &str, user: Option<&str>| {
            let address = format!("{address}:1").parse().unwrap();
            is_remote(&ApiClient { address, user: user.map(Into::into) })
        };
        assert!(!of("127.0.0.1", None) && !of("[::1]", None) && !of("[::ffff:127.0.0.1]", None));
        assert!(of("192.0.2.1", None) && of("127.0.0.1", Some("anna")));
    }

    #[test]
    fn an_interface_that_is_refused_is_named_by_its_place() {
        let names = ["to-a".to_owned(), "lo".to_owned()];
        let of = |field: &str, given: &str| {
            let problem = Problem::field(field, given, "another interface of this host");
            of_interfaces(problem, &names).errors[0].field.clone()
        };
        assert_eq!(of("/interfaces", "lo"), "/interfaces/1");
        assert_eq!(of("/interfaces", "to-a"), "/interfaces/0");
        assert_eq!(of("/interfaces", "a file"), "");
        assert_eq!(of("/link", "xdp"), "/link");
    }
}
