//! Emulators of this host. They are found by their control sockets in the runtime directory, whichever program
//! started them, so that they outlive this server.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde_json::{Value, json};
use weir_emulator::control::{is_id, socket_id, socket_name};
use weir_emulator::{Alarm, Report};
use weir_jobs::{EmulatorJob, Event, Job, Notice, Ready};
use weir_model::Refusal;
use weir_model::impairment::{Impairment, OTHER};
use weir_model::units::Span;

use super::history::{Reports, Written};
use super::orders::{LabNode, Order, PACKET_TRACES, log_name, packet_trace_name};
use crate::app::{App, Shared, lock};
use crate::clock;
use crate::extract::etag_of;
use crate::problem::{FieldError, Problem, pointer};
use crate::types::{
    AlarmEvent, EmulatorChange, EmulatorEntry, EmulatorRequest, ObjectKind, PacketTraceLocation,
    State, StateEvent,
};

/// Time for an emulator to start.
const BEGIN: Duration = Duration::from_secs(10);
/// Time for it to stop: it drains for 2 s at most.
const END: Duration = Duration::from_secs(6);
/// Maximum number of changes stored per emulator.
const MAX_CHANGES: usize = 200;
/// Maximum size of its messages that is read.
const MAX_WORDS_BYTES: u64 = 64 << 10;
/// Polling interval of an emulator with readers.
const LOOK: Duration = Duration::from_millis(200);

/// What this server knows about emulators in addition to their own answers.
#[derive(Debug, Default)]
pub(crate) struct Emulators {
    own: Mutex<BTreeMap<String, OwnEmulator>>,
    /// Emulators that are being started.
    starting: Mutex<BTreeSet<String>>,
    changes: Mutex<HashMap<String, VecDeque<EmulatorChange>>>,
    histories: Mutex<HashMap<String, Reports>>,
}

#[derive(Debug, Clone)]
struct OwnEmulator {
    keepalive_timeout_seconds: Option<u32>,
}

/// The answer of an emulator to `show`.
#[derive(Debug, Clone)]
pub(crate) struct EmulatorView {
    pub(crate) entry: EmulatorEntry,
    pub(crate) configuration: Impairment,
}

fn runtime() -> Result<PathBuf, Problem> {
    weir_lab::runtime_directory().map_err(|e| Problem::unavailable(e.to_string()))
}

/// The control socket of an emulator.
pub(crate) fn socket(id: &str) -> Result<PathBuf, Problem> {
    if !is_id(id) {
        return Err(Problem::missing("emulator", id));
    }
    Ok(runtime()?.join(socket_name(id)))
}

/// Sends a request to an emulator; a refusal is a problem.
pub(crate) async fn ask(id: &str, request: Value) -> Result<Value, Problem> {
    let path = socket(id)?;
    let asked = tokio::task::spawn_blocking(move || weir_emulator::control::ask(&path, &request));
    let answer = asked.await.map_err(Problem::internal)?.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            Problem::missing("emulator", id)
        }
        _ => Problem::unavailable(format!("emulator {id} does not answer: {e}")),
    })?;
    if answer["ok"] == Value::Bool(true) {
        return Ok(answer);
    }
    let words = answer["error"].as_str().unwrap_or("it refused without a reason").to_owned();
    let status = match answer["kind"].as_str() {
        Some("refused") => StatusCode::UNPROCESSABLE_ENTITY,
        Some("ended") => StatusCode::GONE,
        Some("internal") => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = |member: &str| answer[member].as_str().map(Into::into);
    Err(Problem::new(status, words.clone()).with(FieldError {
        field: text("field").as_deref().map(pointer).unwrap_or_default(),
        given: text("given"),
        accepted: text("accepted"),
        message: words,
    }))
}

/// The entity tag of a configuration.
pub(crate) fn etag(configuration: &Impairment) -> String {
    etag_of(&serde_json::to_vec(configuration).unwrap_or_default())
}

/// Asks an emulator to show itself.
pub(crate) async fn show(app: &App, id: &str) -> Result<EmulatorView, Problem> {
    let answer = ask(id, json!({ "verb": "show" })).await?;
    let texts = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(Into::into).collect()
    };
    let configuration: Impairment = weir_model::document::read(&answer["impairment"])
        .map_err(|e| Problem::internal(format!("the emulator's answer: {e}")))?;
    let mut interfaces = texts(&answer["interfaces"]).into_iter();
    let interfaces = [interfaces.next(), interfaces.next()].map(Option::unwrap_or_default);
    let own = lock(&app.emulators.own).get(id).cloned();
    let packet_trace = match answer["packet_trace"].as_str() {
        None => PacketTraceLocation::None,
        Some(path) if Path::new(path) == packet_trace_path(app, id) => PacketTraceLocation::Stored,
        Some(_) => PacketTraceLocation::External,
    };
    let entry = EmulatorEntry {
        id: id.into(),
        interfaces,
        lab: answer["lab"].as_str().map(Into::into),
        links: texts(&answer["links"]),
        notes: texts(&answer["notes"]),
        real_time: answer["real_time"] == Value::Bool(true),
        etag: etag(&configuration),
        seed: configuration.seed,
        title: configuration.title.clone(),
        stopped_flows: texts(&answer["stopped"]),
        own: own.is_some(),
        keepalive_timeout_seconds: own.and_then(|o| o.keepalive_timeout_seconds),
        packet_trace,
    };
    Ok(EmulatorView { entry, configuration })
}

/// Ids of the emulators with a control socket; some may have been killed.
fn ids() -> Result<Vec<String>, Problem> {
    let directory = runtime()?;
    let entries = std::fs::read_dir(&directory).map_err(Problem::internal)?;
    let mut out: Vec<String> =
        entries.filter_map(|entry| socket_id(&entry.ok()?.path()).map(ToOwned::to_owned)).collect();
    out.sort();
    Ok(out)
}

/// All that answer.
pub(crate) async fn list(app: &App) -> Result<Vec<EmulatorEntry>, Problem> {
    let mut out = vec![];
    for id in ids()? {
        // A socket without a listener belongs to an emulator that was killed.
        if let Ok(shown) = show(app, &id).await {
            out.push(shown.entry);
        }
    }
    Ok(out)
}

/// Starts an emulator and waits until it answers.
pub(crate) async fn start(
    app: &Shared,
    request: EmulatorRequest,
    at: Option<LabNode>,
) -> Result<EmulatorEntry, Problem> {
    let id = clock::new_id();
    let _place = Reservation::new(app, &id, list(app).await?)?;
    let packet_trace_bytes = request.packet_trace.then_some(app.config.limits.packet_trace_bytes);
    if packet_trace_bytes.is_some() {
        let mut running = vec![];
        for id in ids()? {
            // A killed emulator leaves its socket: the packet trace is deleted eventually.
            let is_gone =
                matches!(ask(&id, json!({ "verb": "show" })).await, Err(p) if p.status == 404);
            if !is_gone {
                running.push(id);
            }
        }
        let app = app.clone();
        let tidied = tokio::task::spawn_blocking(move || tidy_packet_traces(&app, &running)).await;
        tidied.map_err(Problem::internal)?;
    }
    let job = EmulatorJob {
        link: Some(request.link.name().into()),
        force: request.force,
        control_socket: Some(socket(&id)?),
        keepalive_timeout: request.keepalive_timeout_seconds.map(|s| Span::from_seconds(s.into())),
        duration: request.duration_seconds.map(|s| Span::from_seconds(s.into())),
        packet_trace: packet_trace_bytes.map(|_| packet_trace_path(app, &id)),
        packet_trace_limit: packet_trace_bytes,
        few_capabilities: true,
        detached: true,
        ..EmulatorJob::new(request.interfaces, request.configuration)
    };
    let job = Box::new(Job::Emulator(Box::new(job)));
    let order = Order::Start { job, at, log: Some(log_name(&id)) };
    let begun = begin(app, &id, order).await;
    let mut exit = begun.inspect_err(|_| remove_packet_trace(app, &id))?;
    lock(&app.emulators.own).insert(
        id.clone(),
        OwnEmulator { keepalive_timeout_seconds: request.keepalive_timeout_seconds },
    );
    let shown = show(app, &id).await?;
    tell(app, &id, State::Running, None);
    let (app, id) = (app.clone(), id);
    tokio::spawn(async move {
        let exit = (&mut exit).await.ok();
        lock(&app.emulators.own).remove(&id);
        lock(&app.emulators.changes).remove(&id);
        let code = exit.and_then(|e| e.code);
        let failed = !matches!(code, Some(0 | 130));
        let error = failed.then(|| refusal(&id, code).message);
        tell(&app, &id, if failed { State::Failed } else { State::Ended }, error);
        if let Ok(directory) = runtime() {
            let _ = std::fs::remove_file(directory.join(log_name(&id)));
        }
    });
    Ok(shown.entry)
}

/// A slot for an emulator that is being started.
struct Reservation {
    app: Shared,
    id: String,
}

impl Reservation {
    /// Reserves a slot, counting emulators that run, that are being started, and that started since `running` was
    /// read.
    fn new(app: &Shared, id: &str, running: Vec<EmulatorEntry>) -> Result<Reservation, Problem> {
        let mut starting = lock(&app.emulators.starting);
        let mut all: BTreeSet<String> = running.into_iter().map(|e| e.id).collect();
        all.extend(starting.iter().cloned());
        all.extend(lock(&app.emulators.own).keys().cloned());
        let (there, most) = (all.len(), app.config.limits.emulators);
        if there >= most {
            let words = format!("{there} emulators are running, the limit is {most}");
            return Err(Problem::conflict("limit", words));
        }
        starting.insert(id.into());
        Ok(Reservation { app: app.clone(), id: id.into() })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.app.emulators.starting).remove(&self.id);
    }
}

/// The request's field for a field of the job.
fn request_field(field: &str) -> String {
    const FIELDS: [(&str, &str); 6] = [
        ("impairment", "/configuration"),
        ("link", "/link"),
        ("keepalive_timeout", "/keepalive_timeout_seconds"),
        ("duration", "/duration_seconds"),
        ("packet_trace", "/packet_trace"),
        ("interfaces", "/interfaces"),
    ];
    let pointer = crate::problem::pointer(field);
    let found = FIELDS.iter().find_map(|(own, theirs)| {
        Some(format!("{theirs}{}", pointer.strip_prefix('/')?.strip_prefix(own)?))
    });
    // Not a field of the job: one of its configuration.
    found.unwrap_or_else(|| format!("/configuration{pointer}"))
}

/// Why an emulator ended: the last error of its events.
fn refusal(id: &str, code: Option<i32>) -> Refusal {
    let errors = events(id).into_iter().rev().find_map(|event| match event {
        Event::Error(refusal) => Some(refusal),
        _ => None,
    });
    errors.unwrap_or_else(|| match code {
        Some(code) => Refusal::new("ended", format!("it ended with exit code {code}"), code),
        None => Refusal::new("ended", "it was killed", 70),
    })
}

type ExitReceiver = tokio::sync::oneshot::Receiver<super::launcher::Exit>;

async fn begin(app: &App, id: &str, order: Order) -> Result<ExitReceiver, Problem> {
    let started = app.launcher.order(order).await?;
    let started = started.ok_or_else(|| Problem::internal("the launcher started nothing"))?;
    let mut exit = started.exit;
    let until = Instant::now() + BEGIN;
    loop {
        tokio::select! {
            ended = &mut exit => {
                let refusal = refusal(id, ended.ok().and_then(|e| e.code));
                if let Ok(directory) = runtime() {
                    let _ = std::fs::remove_file(directory.join(log_name(id)));
                }
                return Err(Problem::of_refusal(&refusal, request_field));
            }
            () = tokio::time::sleep(Duration::from_millis(30)) => {}
        }
        if ask(id, json!({ "verb": "show" })).await.is_ok() {
            return Ok(exit);
        }
        if Instant::now() > until {
            let _ = app.launcher.order(Order::EndEmulator { id: id.into() }).await;
            return Err(Problem::unavailable("the emulator did not start within 10 s"));
        }
    }
}

/// Stops an emulator and waits for its end.
pub(crate) async fn end(app: &App, id: &str) -> Result<(), Problem> {
    let path = socket(id)?;
    let packet_trace = packet_trace_path(app, id);
    match ask(id, json!({ "verb": "show" })).await {
        Err(problem) if problem.status == 404 && packet_trace.exists() => {
            // It has ended by itself: remove its files.
            remove_packet_trace(app, id);
            return Ok(());
        }
        answer => drop(answer?),
    }
    app.launcher.order(Order::EndEmulator { id: id.into() }).await?;
    let until = Instant::now() + END;
    while path.exists() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    if path.exists() {
        return Err(Problem::unavailable("the emulator has not ended within 6 s"));
    }
    // That of an emulator that an earlier server started is removed only here.
    let _ = std::fs::remove_file(runtime()?.join(log_name(id)));
    remove_packet_trace(app, id);
    Ok(())
}

/// Path of the packet trace of an emulator that a server started; the file may not exist.
fn packet_trace_path(app: &App, id: &str) -> PathBuf {
    app.config.data.directory().join(PACKET_TRACES).join(packet_trace_name(id))
}

/// The file of later configurations next to a packet trace.
pub(crate) fn configurations_of(packet_trace: &Path) -> PathBuf {
    let mut path = packet_trace.as_os_str().to_owned();
    path.push(".configurations");
    path.into()
}

fn remove_packet_trace(app: &App, id: &str) {
    let packet_trace = packet_trace_path(app, id);
    let _ = std::fs::remove_file(configurations_of(&packet_trace));
    let _ = std::fs::remove_file(packet_trace);
}

/// The packet trace of an emulator that runs or has ended by itself. A running one is asked to flush it.
pub(crate) async fn packet_trace(app: &App, id: &str) -> Result<PathBuf, Problem> {
    // A name that could be a path is no emulator's.
    socket(id)?;
    let path = packet_trace_path(app, id);
    match show(app, id).await.map(|shown| shown.entry.packet_trace) {
        Ok(PacketTraceLocation::Stored) => {
            report(id).await?;
            Ok(path)
        }
        Ok(PacketTraceLocation::None) => Err(Problem::new(
            StatusCode::NOT_FOUND,
            format!("emulator {id} has no packet trace: start it with \"packet_trace\": true"),
        )),
        Ok(PacketTraceLocation::External) => Err(Problem::new(
            StatusCode::NOT_FOUND,
            format!(
                "the packet trace of emulator {id} is a file that was named when it was started, which is not served"
            ),
        )),
        Err(problem) if problem.status == 404 && path.exists() => Ok(path),
        Err(problem) => Err(problem),
    }
}

/// Deletes the oldest packet traces of emulators that have ended by themselves, so that no more are stored than there
/// may be emulators.
fn tidy_packet_traces(app: &App, running: &[String]) {
    let directory = app.config.data.directory().join(PACKET_TRACES);
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut ended: Vec<(std::time::SystemTime, String)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let id = entry.file_name().to_str()?.strip_suffix(".packets")?.to_owned();
            let at = entry.metadata().ok()?.modified().ok()?;
            let is_over = !running.contains(&id) && !lock(&app.emulators.starting).contains(&id);
            is_over.then_some((at, id))
        })
        .collect();
    ended.sort_unstable();
    let beyond = (ended.len() + 1).saturating_sub(app.config.limits.emulators);
    ended.iter().take(beyond).for_each(|(_, id)| remove_packet_trace(app, id));
}

fn tell(app: &App, id: &str, state: State, error: Option<String>) {
    app.hub.state(&StateEvent {
        kind: ObjectKind::Emulators,
        id: id.into(),
        state,
        error,
        run_id: None,
        step: None,
    });
}

/// The messages of an emulator, latest last.
pub(crate) fn words(id: &str) -> Vec<String> {
    let all = events(id).into_iter().filter_map(|event| match event {
        Event::Ready(Ready { message, .. })
        | Event::Progress(Notice { message, .. })
        | Event::Warning(Notice { message, .. }) => Some(message),
        Event::Error(refusal) => Some(refusal.message),
        _ => None,
    });
    all.flat_map(|text| text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()).collect()
}

/// The latest events of an emulator that a server started.
fn events(id: &str) -> Vec<Event> {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<String> {
        let path = weir_lab::runtime_directory().map_err(std::io::Error::other)?.join(log_name(id));
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_WORDS_BYTES)))?;
        let mut bytes = vec![];
        file.take(MAX_WORDS_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default().lines().filter_map(Event::parse).collect()
}

/// Stores a change made through this server.
pub(crate) fn remember(app: &App, id: &str, by: &str, change: String) {
    let mut changes = lock(&app.emulators.changes);
    let list = changes.entry(id.into()).or_default();
    if list.len() >= MAX_CHANGES {
        list.pop_front();
    }
    list.push_back(EmulatorChange { at: clock::now(), by: by.into(), change });
}

/// Changes made through this server, latest last.
pub(crate) fn changes(app: &App, id: &str) -> Vec<EmulatorChange> {
    lock(&app.emulators.changes).get(id).map(|l| l.iter().cloned().collect()).unwrap_or_default()
}

/// The figures of an emulator that are later than `after_seconds`.
pub(crate) fn history(app: &App, id: &str, after_seconds: f64) -> Vec<Written> {
    lock(&app.emulators.histories).get(id).map(|all| all.after(after_seconds)).unwrap_or_default()
}

/// The complete report of an emulator.
pub(crate) async fn report(id: &str) -> Result<Report, Problem> {
    let answer = ask(id, json!({ "verb": "stats" })).await?;
    weir_model::document::read(&answer["report"])
        .map_err(|e| Problem::internal(format!("the emulator's answer: {e}")))
}

/// Whether the configuration has this flow.
pub(crate) fn knows(configuration: &Impairment, flow: &str) -> bool {
    flow == OTHER || configuration.flows.iter().any(|f| f.name == flow)
}

/// Polls every emulator with readers. One without readers is not polled, so that its keepalive timeout runs.
pub(crate) async fn sample(app: Shared) {
    let watched: Arc<Mutex<HashMap<String, Vec<Alarm>>>> = Arc::default();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let Ok(all) = ids() else { continue };
        // An emulator that another program started reports its end to no one else.
        lock(&app.emulators.changes).retain(|id, _| all.contains(id));
        lock(&app.emulators.histories).retain(|id, _| all.contains(id));
        lock(&watched).retain(|id, _| {
            let is_there = all.contains(id);
            if !is_there {
                app.hub.forget(ObjectKind::Emulators, id);
            }
            is_there
        });
        for id in all.into_iter().filter(|id| app.hub.is_wanted(ObjectKind::Emulators, id)) {
            // Its samples have a reader: polling alone does not restart the keepalive timer.
            let _ = ask(&id, json!({ "verb": "keepalive" })).await;
            let Ok(mut report) = report(&id).await else { continue };
            lock(&app.emulators.histories).entry(id.clone()).or_default().push(&report);
            let before = lock(&watched).insert(id.clone(), report.alarms.clone());
            for alarm in &report.alarms {
                let known = before.iter().flatten().any(|b| b == alarm);
                if !known && (before.is_some() || alarm.active) {
                    let event = AlarmEvent { id: id.clone(), alarm: alarm.clone() };
                    app.hub.alarm(&event);
                }
            }
            for flow in &mut report.impairment.flows {
                if let Some(lateness) = &mut flow.lateness {
                    lateness.data.clear();
                }
            }
            app.hub.sample(ObjectKind::Emulators, &id, "emulator", &report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_packet_traces_of_ended_emulators_make_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _in = runtime.enter();
        let (_, app) = crate::server::for_tests();
        let directory = app.config.data.directory().join(PACKET_TRACES);
        std::fs::create_dir_all(&directory).unwrap();
        let most = app.config.limits.emulators;
        let begin = std::time::SystemTime::UNIX_EPOCH;
        for n in 0..most + 2 {
            for name in [format!("e{n}.packets"), format!("e{n}.packets.configurations")] {
                let file = std::fs::File::create(directory.join(name)).unwrap();
                file.set_modified(begin + Duration::from_secs(n as u64)).unwrap();
            }
        }
        // The oldest of all is still running.
        tidy_packet_traces(&app, &["e0".into()]);
        let left = |n: usize| packet_trace_path(&app, &format!("e{n}")).exists();
        assert!(left(0) && !left(1) && !left(2) && left(3) && left(most + 1));
        let names = std::fs::read_dir(&directory).unwrap().count();
        assert_eq!(names, 2 * most, "what was beside them went with them");
    }

    #[tokio::test]
    async fn those_that_are_being_started_count() {
        let (_, app) = crate::server::for_tests();
        let most = app.config.limits.emulators;
        let held: Vec<_> =
            (0..most).map(|i| Reservation::new(&app, &i.to_string(), vec![]).unwrap()).collect();
        assert_eq!(Reservation::new(&app, "late", vec![]).err().map(|p| p.status), Some(409));
        lock(&app.emulators.own)
            .insert("0".into(), OwnEmulator { keepalive_timeout_seconds: None });
        drop(held);
        // One of them is running now; it counts once.
        let held: Vec<_> =
            (1..most).map(|i| Reservation::new(&app, &i.to_string(), vec![]).unwrap()).collect();
        assert!(Reservation::new(&app, "late", vec![]).is_err());
        drop(held);
    }
}
