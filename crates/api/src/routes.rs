//! Every route with its operation: what the document says is what answers.

use axum::Router;
use axum::http::Method;
use axum::routing::{delete, get, post, put};
use serde_json::Value;
use weir_emulator::Report;
use weir_experiment::doctor::Diagnosis;
use weir_model::experiment::Experiment;
use weir_model::impairment::Impairment;
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_runs::Diff;

use crate::app::Shared;
use crate::document::{Operation, Routes};
use crate::handlers::*;
use crate::types::*;

/// The router of the API, and its OpenAPI document.
pub(crate) fn routes() -> (Router<Shared>, Value) {
    Routes::new()
        .add(&Method::GET, "/system", get(not_yet), Operation::new("getSystem", "system", "What this server is and may do.").answers::<System>(200))
        .add(&Method::GET, "/doctor", get(not_yet), Operation::new("getDoctor", "system", "What this host can do for a measurement, and what to change; takes about a second.").answers::<Diagnosis>(200))
        .add(&Method::GET, "/calibration", get(not_yet), Operation::new("getCalibration", "system", "This host's noise floor.").answers::<CalibrationState>(200))
        .add(&Method::POST, "/calibration", post(not_yet), Operation::new("startCalibration", "system", "Measures this host's noise floor and keeps it.").body::<CalibrationRequest>().answers::<CalibrationState>(202))
        .add(&Method::GET, "/interfaces", get(not_yet), Operation::new("listInterfaces", "system", "The interfaces of this host.").answers::<InterfaceList>(200))
        .add(&Method::GET, "/schemas", get(not_yet), Operation::new("listSchemas", "system", "The published JSON Schemas.").answers::<SchemaList>(200))
        .add(&Method::GET, "/schemas/{name}", get(not_yet), Operation::new("getSchema", "system", "One JSON Schema.").answers_as::<AnyJson>(200, "application/schema+json"))
        .add(&Method::GET, "/audit", get(not_yet), Operation::new("getAudit", "system", "Who changed what.").answers::<AuditList>(200))
        .add(&Method::GET, "/openapi.json", get(not_yet), Operation::new("getOpenapi", "system", "This document.").answers::<AnyJson>(200))
        .add(&Method::GET, "/clients", get(not_yet), Operation::new("listClients", "system", "The answering side's sessions.").answers::<ClientList>(200))
        .add(&Method::GET, "/events", get(not_yet), Operation::new("getEvents", "events", "The one live stream (server-sent events): each event's name and data are those of StreamEvent.").query::<EventsQuery>().answers_as::<StreamEvent>(200, "text/event-stream"))
        .add(&Method::GET, "/tests", get(not_yet), Operation::new("listTests", "tests", "Tests of this server, newest first.").answers::<TestList>(200))
        .add(&Method::POST, "/tests", post(not_yet), Operation::new("startTest", "tests", "Starts a test.").body::<TestRequest>().answers::<Test>(201))
        .add(&Method::GET, "/tests/{id}", get(not_yet), Operation::new("getTest", "tests", "A test.").answers::<Test>(200))
        .add(&Method::DELETE, "/tests/{id}", delete(not_yet), Operation::new("forgetTest", "tests", "Stops a test and takes it off the list; its run stays.").done())
        .add(&Method::POST, "/tests/{id}/stop", post(not_yet), Operation::new("stopTest", "tests", "Stops a test; what it measured is kept.").answers::<Test>(202))
        .add(&Method::GET, "/tests/{id}/record", get(not_yet), Operation::new("getTestRecord", "tests", "The record of a test that has ended.").answers::<Record>(200))
        .add(&Method::POST, "/tests/{id}/connections/{name}/start", post(not_yet), Operation::new("startConnection", "tests", "Starts a connection that waits.").answers::<Test>(200))
        .add(&Method::POST, "/tests/{id}/connections/{name}/stop", post(not_yet), Operation::new("stopConnection", "tests", "Stops one connection of a running test.").answers::<Test>(200))
        .add(&Method::GET, "/plans", get(not_yet), Operation::new("listPlans", "plans", "Kept plans.").answers::<PlanList>(200))
        .add(&Method::GET, "/plans/{name}", get(not_yet), Operation::new("getPlan", "plans", "A kept plan.").answers::<Plan>(200).tagged())
        .add(&Method::PUT, "/plans/{name}", put(not_yet), Operation::new("putPlan", "plans", "Keeps a plan.").body::<Plan>().answers::<PlanEntry>(200).answers::<PlanEntry>(201).matching())
        .add(&Method::DELETE, "/plans/{name}", delete(not_yet), Operation::new("removePlan", "plans", "Removes a kept plan.").done().matching())
        .add(&Method::POST, "/validate/{what}", post(not_yet), Operation::new("validate", "plans", "Looks at a plan, an impairment or a scenario (`plan`, `impairment`, `scenario`) and runs nothing.").body::<AnyJson>().answers::<Validation>(200))
        .add(&Method::GET, "/runs", get(not_yet), Operation::new("listRuns", "runs", "Kept runs, newest first.").query::<RunsQuery>().answers::<RunList>(200))
        .add(&Method::GET, "/runs/{id}", get(not_yet), Operation::new("getRun", "runs", "A run's record.").answers::<Record>(200))
        .add(&Method::DELETE, "/runs/{id}", delete(not_yet), Operation::new("removeRun", "runs", "Removes a run for good.").done())
        .add(&Method::GET, "/runs/{id}/tags", get(not_yet), Operation::new("getTags", "runs", "A run's tags.").answers::<Tags>(200).tagged())
        .add(&Method::PUT, "/runs/{id}/tags", put(not_yet), Operation::new("putTags", "runs", "Replaces a run's tags.").body::<Tags>().answers::<Tags>(200).matching())
        .add(&Method::GET, "/runs/{id}/report", get(not_yet), Operation::new("getReport", "runs", "A run's report.").query::<ReportQuery>().answers_as::<String>(200, "text/html").answers_as::<String>(200, "text/markdown").answers_as::<String>(200, "text/csv").answers_as::<String>(200, "image/svg+xml").answers::<Record>(200))
        .add(&Method::GET, "/runs/{id}/figures", get(not_yet), Operation::new("getFigures", "runs", "Every plot of a run's report, as data.").answers::<FigureList>(200))
        .add(&Method::GET, "/comparison", get(not_yet), Operation::new("compareRuns", "runs", "Which figures moved between runs, and whether chance explains it.").query::<ComparisonQuery>().answers::<Diff>(200))
        .add(&Method::GET, "/scenarios", get(not_yet), Operation::new("listScenarios", "experiments", "Scenarios that can be picked.").answers::<ScenarioList>(200))
        .add(&Method::GET, "/scenarios/{name}", get(not_yet), Operation::new("getScenario", "experiments", "A scenario.").answers::<ScenarioText>(200))
        .add(&Method::GET, "/experiments", get(not_yet), Operation::new("listExperiments", "experiments", "Experiments of this server, newest first.").answers::<ExperimentList>(200))
        .add(&Method::POST, "/experiments", post(not_yet), Operation::new("startExperiment", "experiments", "Runs a scenario.").body::<ExperimentRequest>().answers::<ExperimentState>(201))
        .add(&Method::GET, "/experiments/{id}", get(not_yet), Operation::new("getExperiment", "experiments", "An experiment.").answers::<ExperimentState>(200))
        .add(&Method::DELETE, "/experiments/{id}", delete(not_yet), Operation::new("forgetExperiment", "experiments", "Stops an experiment and takes it off the list; its runs stay.").done())
        .add(&Method::POST, "/experiments/{id}/stop", post(not_yet), Operation::new("stopExperiment", "experiments", "Stops an experiment; what it measured is kept.").answers::<ExperimentState>(202))
        .add(&Method::GET, "/experiments/{id}/report", get(not_yet), Operation::new("getExperimentReport", "experiments", "An experiment's report.").query::<ReportQuery>().answers_as::<String>(200, "text/html").answers_as::<String>(200, "text/markdown").answers::<Experiment>(200))
        .add(&Method::GET, "/experiments/{id}/figures", get(not_yet), Operation::new("getExperimentFigures", "experiments", "Every plot of an experiment's report, as data.").answers::<FigureList>(200))
        .add(&Method::POST, "/sweeps", post(not_yet), Operation::new("startSweep", "experiments", "Runs a sweep; it becomes an experiment.").body::<SweepRequest>().answers::<ExperimentState>(201))
        .add(&Method::GET, "/emulators", get(not_yet), Operation::new("listEmulators", "emulators", "Running emulators of this host.").answers::<EmulatorList>(200))
        .add(&Method::POST, "/emulators", post(not_yet), Operation::new("startEmulator", "emulators", "Starts an emulator between two interfaces.").body::<EmulatorRequest>().answers::<EmulatorEntry>(201))
        .add(&Method::GET, "/emulators/{id}", get(not_yet), Operation::new("getEmulator", "emulators", "An emulator.").answers::<EmulatorEntry>(200).tagged())
        .add(&Method::DELETE, "/emulators/{id}", delete(not_yet), Operation::new("endEmulator", "emulators", "Ends an emulator.").done())
        .add(&Method::GET, "/emulators/{id}/configuration", get(not_yet), Operation::new("getConfiguration", "emulators", "Its configuration.").answers::<Impairment>(200).tagged())
        .add(&Method::PUT, "/emulators/{id}/configuration", put(not_yet), Operation::new("putConfiguration", "emulators", "Puts a configuration into force, for all flows together.").body::<Impairment>().answers::<Applied>(200).matching())
        .add(&Method::POST, "/emulators/{id}/run", post(not_yet), Operation::new("runAll", "emulators", "Applies every flow's laws again.").answers::<Applied>(200))
        .add(&Method::POST, "/emulators/{id}/stop", post(not_yet), Operation::new("stopAll", "emulators", "Lets every flow's packets pass untouched.").answers::<Applied>(200))
        .add(&Method::POST, "/emulators/{id}/flows/{name}/run", post(not_yet), Operation::new("runFlow", "emulators", "Applies a flow's laws again.").answers::<Applied>(200))
        .add(&Method::POST, "/emulators/{id}/flows/{name}/stop", post(not_yet), Operation::new("stopFlow", "emulators", "Lets a flow's packets pass untouched.").answers::<Applied>(200))
        .add(&Method::PUT, "/emulators/{id}/flows/{name}/log", put(not_yet), Operation::new("logFlow", "emulators", "Writes a flow's verdicts to the journal, or no longer.").body::<LogRequest>().done())
        .add(&Method::GET, "/emulators/{id}/counters", get(not_yet), Operation::new("getCounters", "emulators", "Its counters, lateness histograms and alarms.").answers::<Report>(200))
        .add(&Method::GET, "/emulators/{id}/log", get(not_yet), Operation::new("getEmulatorLog", "emulators", "What it had to say, and who changed it.").answers::<EmulatorLog>(200))
        .add(&Method::POST, "/laws/preview", post(not_yet), Operation::new("previewLaws", "emulators", "What a flow's laws do to packets, by the engine on the virtual clock with the configuration's seed.").body::<PreviewRequest>().answers::<Preview>(200))
        .add(&Method::GET, "/profiles", get(not_yet), Operation::new("listProfiles", "emulators", "Presets for a flow's laws.").answers::<ProfileList>(200))
        .add(&Method::GET, "/labs", get(not_yet), Operation::new("listLabs", "labs", "Labs of this user.").answers::<LabList>(200))
        .add(&Method::POST, "/labs", post(not_yet), Operation::new("makeLab", "labs", "Makes a lab of network namespaces.").body::<LabRequest>().answers::<LabEntry>(201))
        .add(&Method::DELETE, "/labs/{name}", delete(not_yet), Operation::new("removeLab", "labs", "Ends a lab and the programs inside.").done())
        .finish()
}
