//! Every route with its operation, so that the document describes what the server does.

use axum::http::Method;
use axum::routing::{delete, get, post, put};
use weir_emulator::Report;
use weir_experiment::doctor::Diagnosis;
use weir_jobs::{CalibrateJob, DemoJob};
use weir_model::experiment::Experiment;
use weir_model::impairment::Impairment;
use weir_model::plan::Plan;
use weir_model::record::Record;
use weir_runs::Diff;

use crate::document::{Operation, Routes};
use crate::handlers::*;
use crate::types::*;

/// The routes of the API; their OpenAPI document is made only if `DOCUMENTED`.
pub(crate) fn routes<const DOCUMENTED: bool>() -> Routes<DOCUMENTED> {
    Routes::new()
        .add(&Method::GET, "/system", get(system::system), || Operation::new("getSystem", "system", "This server and its permissions.").answers::<System>(200))
        .add(&Method::GET, "/doctor", get(system::doctor), || Operation::new("getDoctor", "system", "Checks this host for settings that affect measurements; takes about a second.").answers::<Diagnosis>(200))
        .add(&Method::GET, "/calibration", get(system::calibration), || Operation::new("getCalibration", "system", "This host's noise floor.").answers::<CalibrationState>(200))
        .add(&Method::POST, "/calibration", post(system::calibrate), || Operation::new("startCalibration", "system", "Measures and stores this host's noise floor.").body::<CalibrateJob>().answers::<CalibrationState>(202))
        .add(&Method::GET, "/demo", get(system::demo), || Operation::new("getDemo", "system", "The running or latest demo: requested, realised and measured values.").answers::<DemoState>(200))
        .add(&Method::POST, "/demo", post(system::run_demo), || Operation::new("runDemo", "system", "Runs the demo, as `weir demo` does, in labs of its own that are removed afterwards; at most one at a time.").body::<DemoJob>().answers::<DemoState>(202))
        .add(&Method::POST, "/demo/stop", post(system::stop_demo), || Operation::new("stopDemo", "system", "Stops the demo; the runs that it stored stay.").answers::<DemoState>(202))
        .add(&Method::GET, "/interfaces", get(system::interfaces), || Operation::new("listInterfaces", "system", "The interfaces of this host.").answers::<InterfaceList>(200))
        .add(&Method::GET, "/schemas", get(system::schemas), || Operation::new("listSchemas", "system", "The published JSON Schemas.").answers::<SchemaList>(200))
        .add(&Method::GET, "/metrics", get(system::metrics), || Operation::new("listMetrics", "system", "The metrics that records, comparisons and experiments know by name.").answers::<MetricList>(200))
        .add(&Method::GET, "/schemas/{name}", get(system::schema), || Operation::new("getSchema", "system", "One JSON Schema.").answers_as::<AnyJson>(200, "application/schema+json"))
        .add(&Method::GET, "/audit", get(system::audit), || Operation::new("getAudit", "system", "Who changed what.").answers::<AuditList>(200))
        .add(&Method::GET, "/openapi.json", get(page::openapi), || Operation::new("getOpenapi", "system", "This document.").answers::<AnyJson>(200))
        .add(&Method::GET, "/openapi-3.0.json", get(page::openapi_three_zero), || Operation::new("getOpenapi30", "system", "This document in OpenAPI 3.0.3, for generators that read no later version.").answers::<AnyJson>(200))
        .add(&Method::GET, "/clients", get(system::clients), || Operation::new("listClients", "system", "The sessions of the test server.").answers::<ClientList>(200))
        .add(&Method::GET, "/events", get(events::events), || Operation::new("getEvents", "events", "The live event stream (server-sent events): each event's name and data are those of StreamEvent.").query::<EventsQuery>().answers_as::<StreamEvent>(200, "text/event-stream"))
        .add(&Method::POST, "/session", post(session::begin), || Operation::new("beginSession", "system", "Sets a page's token as a cookie; needs no token itself.").body::<SessionRequest>().done())
        .add(&Method::DELETE, "/session", delete(session::end), || Operation::new("endSession", "system", "Takes it away.").done())
        .add(&Method::GET, "/tests", get(tests::list), || Operation::new("listTests", "tests", "Tests of this server, newest first.").answers::<TestList>(200))
        .add(&Method::POST, "/tests", post(tests::start), || Operation::new("startTest", "tests", "Starts a test.").body::<TestRequest>().answers::<Test>(201))
        .add(&Method::GET, "/tests/{id}", get(tests::get), || Operation::new("getTest", "tests", "A test.").answers::<Test>(200))
        .add(&Method::DELETE, "/tests/{id}", delete(tests::forget), || Operation::new("forgetTest", "tests", "Stops a test and removes it from the list; its run stays.").done())
        .add(&Method::POST, "/tests/{id}/stop", post(tests::stop), || Operation::new("stopTest", "tests", "Stops a test; what it measured is stored.").answers::<Test>(202))
        .add(&Method::GET, "/tests/{id}/record", get(tests::record), || Operation::new("getTestRecord", "tests", "The record of a finished test.").query::<RecordQuery>().answers::<Record>(200))
        .add(&Method::GET, "/tests/{id}/history", get(tests::history), || Operation::new("getTestHistory", "tests", "The intervals of a running test, and the sums so far.").query::<HistoryQuery>().answers::<TestHistory>(200))
        .add(&Method::POST, "/tests/{id}/connections/{name}/start", post(tests::start_connection), || Operation::new("startConnection", "tests", "Starts a waiting connection.").answers::<Test>(200))
        .add(&Method::POST, "/tests/{id}/connections/{name}/rate", post(tests::set_rate), || Operation::new("setRate", "tests", "Changes the rate of one connection of a running test.").body::<RateRequest>().answers::<Test>(200))
        .add(&Method::POST, "/tests/{id}/connections/{name}/stop", post(tests::stop_connection), || Operation::new("stopConnection", "tests", "Stops one connection of a running test.").answers::<Test>(200))
        .add(&Method::GET, "/plans", get(plans::list), || Operation::new("listPlans", "plans", "Stored plans.").answers::<PlanList>(200))
        .add(&Method::GET, "/plans/{name}", get(plans::get), || Operation::new("getPlan", "plans", "A stored plan.").answers::<Plan>(200).tagged().names_file())
        .add(&Method::PUT, "/plans/{name}", put(plans::put), || Operation::new("putPlan", "plans", "Keeps a plan.").body::<Plan>().answers::<PlanEntry>(200).answers::<PlanEntry>(201).matching().names_file())
        .add(&Method::DELETE, "/plans/{name}", delete(plans::remove), || Operation::new("removePlan", "plans", "Removes a stored plan.").done().matching().names_file())
        .add(&Method::POST, "/validate/{what}", post(plans::validate), || Operation::new("validate", "plans", "Checks a plan, an impairment or a scenario (`plan`, `impairment`, `scenario`) without running it. A plan or an impairment may also be a string: the text of its file.").body::<AnyJson>().answers::<Validation>(200))
        .add(&Method::GET, "/runs", get(runs::list), || Operation::new("listRuns", "runs", "Stored runs, newest first.").query::<RunsQuery>().answers::<RunList>(200))
        .add(&Method::POST, "/runs", post(runs::import), || Operation::new("importRun", "runs", "Stores a record from elsewhere, as `weir runs import` does; an existing run is not changed (200).").body::<Record>().answers::<ImportedRun>(200).answers::<ImportedRun>(201))
        .add(&Method::GET, "/runs/{id}", get(runs::get), || Operation::new("getRun", "runs", "A run's record.").answers::<Record>(200))
        .add(&Method::DELETE, "/runs/{id}", delete(runs::remove), || Operation::new("removeRun", "runs", "Deletes a run.").done())
        .add(&Method::GET, "/runs/{id}/tags", get(runs::tags), || Operation::new("getTags", "runs", "A run's tags.").answers::<Tags>(200).tagged())
        .add(&Method::PUT, "/runs/{id}/tags", put(runs::put_tags), || Operation::new("putTags", "runs", "Replaces a run's tags.").body::<Tags>().answers::<Tags>(200).matching())
        .add(&Method::GET, "/runs/{id}/report", get(runs::report), || Operation::new("getReport", "runs", "A run's report.").query::<ReportQuery>().answers_as::<String>(200, "text/html").answers_as::<String>(200, "text/markdown").answers_as::<String>(200, "text/csv").answers_as::<String>(200, "image/svg+xml").answers::<Record>(200))
        .add(&Method::GET, "/runs/{id}/summary", get(runs::summary), || Operation::new("getRunSummary", "runs", "The result of a run in words, with its main figures.").answers::<RunSummary>(200))
        .add(&Method::GET, "/runs/{id}/figures", get(runs::figures), || Operation::new("getFigures", "runs", "Every plot of a run's report, as data.").answers::<FigureList>(200))
        .add(&Method::GET, "/report", get(runs::report_of_several), || Operation::new("getReportOfRuns", "runs", "Several runs in one report, as `weir report RUN RUN…`: `?run=ID&run=ID`.").query::<RunsReportQuery>().answers_as::<String>(200, "text/html").answers_as::<String>(200, "text/markdown").answers_as::<String>(200, "text/csv").answers_as::<String>(200, "image/svg+xml"))
        .add(&Method::GET, "/comparison", get(runs::comparison), || Operation::new("compareRuns", "runs", "Which figures differ between runs, and whether chance explains it.").query::<ComparisonQuery>().answers::<Diff>(200))
        .add(&Method::GET, "/scenarios", get(experiments::scenarios), || Operation::new("listScenarios", "experiments", "The scenarios of the server.").answers::<ScenarioList>(200))
        .add(&Method::GET, "/scenarios/{name}", get(experiments::scenario), || Operation::new("getScenario", "experiments", "A scenario.").answers::<ScenarioText>(200).names_file())
        .add(&Method::GET, "/experiments", get(experiments::list), || Operation::new("listExperiments", "experiments", "Experiments of this server and stored ones, newest first.").answers::<ExperimentList>(200))
        .add(&Method::POST, "/experiments", post(experiments::start), || Operation::new("startExperiment", "experiments", "Runs a scenario.").body::<ExperimentRequest>().answers::<ExperimentState>(201))
        .add(&Method::GET, "/experiments/{id}", get(experiments::get), || Operation::new("getExperiment", "experiments", "An experiment.").answers::<ExperimentState>(200))
        .add(&Method::DELETE, "/experiments/{id}", delete(experiments::forget), || Operation::new("forgetExperiment", "experiments", "Stops an experiment and removes it from the list; its runs, its checkpoint and its result stay, so that it is available by its id, and listed again when the server restarts.").done())
        .add(&Method::POST, "/experiments/{id}/stop", post(experiments::stop), || Operation::new("stopExperiment", "experiments", "Stops an experiment; what it measured is stored.").answers::<ExperimentState>(202))
        .add(&Method::POST, "/experiments/{id}/resume", post(experiments::resume), || Operation::new("resumeExperiment", "experiments", "Resumes an incomplete experiment of this server or of an earlier one (`resumable`): completed runs are not repeated. It keeps its id, and its result has the runs of all sessions.").answers::<ExperimentState>(202))
        .add(&Method::GET, "/experiments/{id}/report", get(experiments::report), || Operation::new("getExperimentReport", "experiments", "An experiment's report.").query::<ReportQuery>().answers_as::<String>(200, "text/html").answers_as::<String>(200, "text/markdown").answers::<Experiment>(200))
        .add(&Method::GET, "/experiments/{id}/figures", get(experiments::figures), || Operation::new("getExperimentFigures", "experiments", "Every plot of an experiment's report, as data.").answers::<FigureList>(200))
        .add(&Method::POST, "/sweeps", post(experiments::sweep), || Operation::new("startSweep", "experiments", "Runs a sweep; it becomes an experiment.").body::<SweepRequest>().answers::<ExperimentState>(201))
        .add(&Method::GET, "/emulators", get(emulators::list), || Operation::new("listEmulators", "emulators", "Running emulators of this host.").answers::<EmulatorList>(200))
        .add(&Method::POST, "/emulators", post(emulators::start), || Operation::new("startEmulator", "emulators", "Starts an emulator between two interfaces.").body::<EmulatorRequest>().answers::<EmulatorEntry>(201))
        .add(&Method::GET, "/emulators/{id}", get(emulators::get), || Operation::new("getEmulator", "emulators", "An emulator.").answers::<EmulatorEntry>(200).tagged())
        .add(&Method::DELETE, "/emulators/{id}", delete(emulators::end), || Operation::new("endEmulator", "emulators", "Stops an emulator and deletes its packet trace, also that of one that has ended by itself.").done())
        .add(&Method::GET, "/emulators/{id}/configuration", get(emulators::configuration), || Operation::new("getConfiguration", "emulators", "Its configuration.").answers::<Impairment>(200).tagged())
        .add(&Method::PUT, "/emulators/{id}/configuration", put(emulators::put_configuration), || Operation::new("putConfiguration", "emulators", "Applies a configuration, for all flows together.").body::<Impairment>().answers::<Applied>(200).matching())
        .add(&Method::POST, "/emulators/{id}/run", post(emulators::run_all), || Operation::new("runAll", "emulators", "Applies every flow's laws again.").answers::<Applied>(200))
        .add(&Method::POST, "/emulators/{id}/stop", post(emulators::stop_all), || Operation::new("stopAll", "emulators", "Forwards every flow's packets unchanged.").answers::<Applied>(200))
        .add(&Method::POST, "/emulators/{id}/flows/{name}/run", post(emulators::run_flow), || Operation::new("runFlow", "emulators", "Applies a flow's laws again.").answers::<Applied>(200))
        .add(&Method::POST, "/emulators/{id}/flows/{name}/stop", post(emulators::stop_flow), || Operation::new("stopFlow", "emulators", "Forwards a flow's packets unchanged.").answers::<Applied>(200))
        .add(&Method::POST, "/emulators/{id}/reset", post(emulators::reset_all), || Operation::new("resetCounters", "emulators", "Starts a new period of counting for every flow (`current` of its counters).").done())
        .add(&Method::POST, "/emulators/{id}/flows/{name}/reset", post(emulators::reset_flow), || Operation::new("resetFlowCounters", "emulators", "Starts a new period of counting for a flow.").done())
        .add(&Method::PUT, "/emulators/{id}/flows/{name}/log", put(emulators::log_flow), || Operation::new("logFlow", "emulators", "Includes a flow in the packet trace, or excludes it.").body::<LogRequest>().done())
        .add(&Method::GET, "/emulators/{id}/packet-trace", get(emulators::packet_trace), || Operation::new("getPacketTrace", "emulators", "Its packet trace as written so far (weir.packets/1, docs/packets.md); also after it has ended by itself.").answers_as::<String>(200, "application/octet-stream"))
        .add(&Method::GET, "/emulators/{id}/packet-trace/configurations", get(emulators::packet_trace_configurations), || Operation::new("getPacketTraceConfigurations", "emulators", "The later configurations with their numbers in the packet trace, one JSON object per line.").answers_as::<String>(200, "application/x-ndjson"))
        .add(&Method::GET, "/emulators/{id}/counters", get(emulators::counters), || Operation::new("getCounters", "emulators", "Its counters, lateness histograms and alarms.").answers::<Report>(200))
        .add(&Method::GET, "/emulators/{id}/history", get(emulators::history), || Operation::new("getEmulatorHistory", "emulators", "Its counters over time, while a client reads its samples.").query::<HistoryQuery>().answers::<EmulatorHistory>(200))
        .add(&Method::GET, "/emulators/{id}/log", get(emulators::log), || Operation::new("getEmulatorLog", "emulators", "Its messages, and who changed it.").answers::<EmulatorLog>(200))
        .add(&Method::POST, "/laws/preview", post(laws::preview), || Operation::new("previewLaws", "emulators", "What a flow's laws do to packets, by the engine on the virtual clock with the configuration's seed.").body::<PreviewRequest>().answers::<Preview>(200))
        .add(&Method::GET, "/profiles", get(laws::profiles), || Operation::new("listProfiles", "emulators", "Presets for a flow's laws.").answers::<ProfileList>(200))
        .add(&Method::GET, "/labs", get(labs::list), || Operation::new("listLabs", "labs", "Labs of this user.").answers::<LabList>(200))
        .add(&Method::POST, "/labs", post(labs::make), || Operation::new("makeLab", "labs", "Creates a lab of network namespaces.").body::<LabRequest>().answers::<LabEntry>(201))
        .add(&Method::POST, "/labs/{name}/hosts/{host}/server", post(labs::serve), || Operation::new("startLabServer", "labs", "Starts a test server in a host of a lab, as `weir serve` does; answers when it listens. It ends with this server.").answers::<LabServer>(201))
        .add(&Method::DELETE, "/labs/{name}/hosts/{host}/server", delete(labs::stop_server), || Operation::new("stopLabServer", "labs", "Stops the test server of a host of a lab that this server started; answers when it has ended.").done())
        .add(&Method::DELETE, "/labs/{name}", delete(labs::remove), || Operation::new("removeLab", "labs", "Removes a lab and ends the programs in it.").done())
}
