//! `weir impair set`, `show`, `start` and the other verbs: each sends one request to a running emulator and prints the
//! answer.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use weir_emulator::control::{Connection, ask, end, is_id, socket_id, socket_name};
use weir_emulator::{Alarm, AlarmSelection, AlarmThresholds, FlowTrigger, RecordingReport, Report};
use weir_jobs::{EmulatorAnswer, EmulatorEntry, EmulatorRequest};
use weir_model::impairment::Impairment;
use weir_model::{Refusal, counted};
use weir_net::namespace::process_start_time;

use super::args::{AlarmArgs, LawArgs, SocketArgs, Verb};
use super::{record, text, watch};
use crate::error::CliError;
use crate::output::print;
use crate::terminal::style;

/// Timeout of each emulator that is listed: any of them may be a stopped process.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for an emulator to end: queued packets leave within 2 s.
const END: Duration = Duration::from_secs(10);

/// Sends the request of a verb and prints the answer.
pub(super) fn run(verb: &Verb) -> Result<i32, CliError> {
    let named = |verb: &str, flow: &Option<String>| match flow {
        Some(flow) => json!({ "verb": verb, "flow": flow }),
        None => json!({ "verb": verb }),
    };
    match verb {
        Verb::Set { laws, flow, socket } => {
            let request = changes(laws, flow.as_deref())?;
            print_in_force(&talk(socket, &request)?)
        }
        Verb::Start { flow, socket } => print_in_force(&talk(socket, &named("start", flow))?),
        Verb::Stop { flow, socket } => print_in_force(&talk(socket, &named("stop", flow))?),
        Verb::Trigger { flow, socket } => {
            let answer = talk(socket, &named("trigger", flow))?;
            let count = answer["triggered"].as_u64().unwrap_or(0);
            print(&format!("condition met: {}\n", counted(count, "trigger")))
        }
        Verb::Reset { flow, socket } => {
            talk(socket, &named("reset", flow))?;
            Ok(0)
        }
        Verb::Capture { verb } => record::capture(verb),
        Verb::Log { verb } => record::log(verb),
        Verb::Trace { words, socket } => {
            let (on, flow) = switched(words)?;
            let mut request = named("trace", &flow);
            request["on"] = Value::Bool(on);
            talk(socket, &request)?;
            Ok(0)
        }
        Verb::Show { json, socket } => {
            let answer = talk(socket, &json!({ "verb": "show" }))?;
            if *json {
                return print(&shown(answer));
            }
            show(&answer)
        }
        Verb::Stats { json, watch: Some(interval), socket } => watch::run(*interval, *json, socket),
        Verb::Stats { json, watch: None, socket } => {
            let answer = talk(socket, &json!({ "verb": "stats" }))?;
            let report = &answer["report"];
            if *json {
                return print(&format!("{report:#}\n"));
            }
            let report: Report = understood(report)?;
            print(&text::table(&report, &style()))
        }
        Verb::Save { file, socket } => {
            let answer = talk(socket, &json!({ "verb": "save" }))?;
            let toml = answer["toml"].as_str().unwrap_or_default();
            match file {
                None => print(toml),
                Some(path) => crate::files::write("write", path, toml).map(|()| 0),
            }
        }
        Verb::Acknowledge { alarms, socket } => {
            change_alarms(AlarmVerb::Acknowledge, alarms, socket)
        }
        Verb::Clear { alarms, socket } => change_alarms(AlarmVerb::Clear, alarms, socket),
        Verb::Thresholds { changes, json, socket } => {
            let mut request = json!(changes);
            request["verb"] = "thresholds".into();
            let answer = talk(socket, &request)?;
            let thresholds = &answer["thresholds"];
            if *json {
                return print(&format!("{thresholds:#}\n"));
            }
            let AlarmThresholds {
                cpu_percentage,
                memory_percentage,
                unplanned_packets,
                late_packets,
            } = understood(thresholds)?;
            print(&format!(
                "CPU use above {cpu_percentage} % of a processor\n\
                 memory use above {memory_percentage} % of its limit\n\
                 more than {unplanned_packets} packets lost without a law in 0.5 s\n\
                 more than {late_packets} packets late in 0.5 s\n"
            ))
        }
        Verb::List { json, on } => {
            let emulators = match on.connect()? {
                None => entries(&weir_lab::runtime_directory()?)?,
                Some(mut server) => match server.ask(&EmulatorRequest::List {})? {
                    EmulatorAnswer::Emulators(emulators) => emulators,
                    _ => return Err(server.unexpected()),
                },
            };
            if *json {
                return print(&format!("{:#}\n", json!({ "emulators": emulators })));
            }
            print(&emulators.iter().map(line_of).collect::<String>())
        }
        Verb::End { socket } => {
            let id = socket.id.clone();
            let name = match socket.on.connect()? {
                None => {
                    let path = local_socket(socket)?;
                    end_at(&path)?;
                    path.display().to_string()
                }
                Some(mut server) => match server.ask(&EmulatorRequest::End { id })? {
                    EmulatorAnswer::Ended(end) => match end.error {
                        None => server.name(),
                        Some(error) => return Err(CliError::Refused(Box::new(error))),
                    },
                    _ => return Err(server.unexpected()),
                },
            };
            print(&format!("{name}: the emulator has ended\n"))
        }
        // The caller has handled them.
        Verb::Exec(_) | Verb::Serve(_) => Err(CliError::Internal("no control verb".into())),
    }
}

/// The request of `set`.
fn changes(laws: &LawArgs, flow: Option<&str>) -> Result<Value, CliError> {
    let mut request = Map::new();
    request.insert("verb".into(), "set".into());
    if laws.is_whole() {
        laws.print_translation();
        let config = laws.impairment()?;
        let config = serde_json::to_value(config).map_err(|e| CliError::Internal(e.to_string()))?;
        request.insert("impairment".into(), config);
        return Ok(request.into());
    }
    laws.print_translation();
    if laws.is_empty() && laws.seed().is_none() {
        return Err(CliError::flag(
            "--both",
            "nothing to set",
            "--both, --a-to-b, --b-to-a, --netem, --mahimahi, --profile, --config or --seed",
        ));
    }
    let [a_to_b, b_to_a] = match laws.mahimahi.is_empty() {
        true => [laws.a_to_b.clone(), laws.b_to_a.clone()],
        false => laws.directions()?,
    };
    let both = laws.both().filter(|_| laws.mahimahi.is_empty());
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            request.insert(key.into(), value.into());
        }
    };
    put("flow", flow.map(Into::into));
    put("both", both.map(ToString::to_string));
    put("a_to_b", a_to_b.as_ref().map(ToString::to_string));
    put("b_to_a", b_to_a.as_ref().map(ToString::to_string));
    put("profile", laws.profile.clone());
    put("seed", laws.seed().map(|seed| seed.to_string()));
    Ok(request.into())
}

/// Parses `on` or `off` and a flow's name, in either order. If the flow is itself named `on` or `off`, the state is first.
fn switched(words: &[String]) -> Result<(bool, Option<String>), CliError> {
    let state = words.iter().position(|word| matches!(word.as_str(), "on" | "off"));
    let Some(state) = state else {
        let accepted = "on or off, and the flow's name: weir impair trace off other";
        return Err(CliError::flag("trace", words.join(" "), accepted));
    };
    let flow = words.iter().enumerate().find(|(i, _)| *i != state).map(|(_, word)| word.clone());
    Ok((words[state] == "on", flow))
}

/// The answer to `show` as JSON, without the protocol's `ok` field.
fn shown(mut answer: Value) -> String {
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("ok");
    }
    format!("{answer:#}\n")
}

/// A verb on alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlarmVerb {
    Acknowledge,
    Clear,
}

fn change_alarms(
    verb: AlarmVerb,
    alarms: &AlarmArgs,
    socket: &SocketArgs,
) -> Result<i32, CliError> {
    let selection = alarms.selection();
    let mut request = json!(selection);
    request["verb"] = match verb {
        AlarmVerb::Acknowledge => "acknowledge".into(),
        AlarmVerb::Clear => "clear".into(),
    };
    let answer = talk(socket, &request)?;
    let count = answer["alarms"].as_u64().unwrap_or(0);
    if alarms.json {
        return print(&format!("{:#}\n", json!({ "alarms": count })));
    }
    if count > 0 {
        let done = if verb == AlarmVerb::Clear { "removed" } else { "acknowledged" };
        return print(&format!("{} {done}\n", counted(count, "alarm")));
    }
    let answer = talk(socket, &json!({ "verb": "stats" }))?;
    let report: Report = understood(&answer["report"])?;
    print(&format!("{}\n", why_none(verb, &selection, &report.alarms)))
}

/// Why a verb changed none of these alarms.
fn why_none(verb: AlarmVerb, selection: &AlarmSelection, all: &[Alarm]) -> String {
    let mut which = String::new();
    if let Some(kind) = selection.kind {
        which += &format!(" of kind {}", kind.name());
    }
    if let Some(object) = &selection.object {
        which += &format!(" on {object}");
    }
    let found = all.iter().filter(|alarm| selection.has(alarm)).count() as u64;
    let none = if verb == AlarmVerb::Clear { "no alarm removed" } else { "no alarm acknowledged" };
    match (found, verb) {
        (0, _) => format!("{none}: the emulator has no alarm{which}"),
        (n, AlarmVerb::Clear) => {
            let those = counted(n, "alarm");
            let verb = if n == 1 { "is" } else { "are" };
            format!(
                "{none}: {those}{which} {verb} active, and removed only after the condition has passed"
            )
        }
        (n, AlarmVerb::Acknowledge) => {
            let verb = if n == 1 { "is" } else { "are" };
            format!("{none}: {}{which} {verb} acknowledged already", counted(n, "alarm"))
        }
    }
}

fn print_in_force(answer: &Value) -> Result<i32, CliError> {
    let mut out = format!("configuration {} is in force\n", answer["configuration"]);
    if let Some(note) = answer["note"].as_str() {
        out += &format!("note: {note}\n");
    }
    print(&out)
}

fn show(answer: &Value) -> Result<i32, CliError> {
    let config: Impairment = understood(&answer["impairment"])?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
    let mut out = list(&answer["interfaces"]).join(" ⇄ ");
    out += &format!(", seed {}\n", config.seed);
    if let Some(place) = answer["lab"].as_str() {
        out += &format!("  in lab {place}\n");
    }
    for link in list(&answer["links"]) {
        out += &format!("  {link}\n");
    }
    out += &text::laws(&config);
    let triggers: Vec<FlowTrigger> = understood(&answer["triggers"])?;
    for FlowTrigger { name, direction, trigger } in triggers {
        out += &text::trigger(&name, direction, &trigger);
    }
    let stopped = list(&answer["stopped"]);
    if !stopped.is_empty() {
        out += &format!("stopped: {}\n", stopped.join(", "));
    }
    let recordings: Vec<RecordingReport> = understood(&answer["recordings"])?;
    recordings.iter().for_each(|recording| out += &text::recording(recording));
    for note in list(&answer["notes"]) {
        out += &format!("note: {note}\n");
    }
    print(&out)
}

pub(super) fn understood<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, CliError> {
    T::deserialize(value)
        .map_err(|e| CliError::Internal(format!("the emulator's answer is invalid: {e}")))
}

/// Sends a request to the selected emulator; its refusal is an error.
pub(super) fn talk(target: &SocketArgs, request: &Value) -> Result<Value, CliError> {
    let (answer, path) = match target.on.connect()? {
        Some(mut server) => (server.forward(target.id.as_deref(), request)?, Err(server.name())),
        None => {
            let path = local_socket(target)?;
            (ask_at(&path, request)?, Ok(path))
        }
    };
    accepted(answer, path)
}

/// Sends a request with an open file to the selected emulator of this host; its refusal is an error.
pub(super) fn record_at(
    target: &SocketArgs,
    request: &Value,
    file: &File,
) -> Result<Value, CliError> {
    let path = local_socket(target)?;
    let ask = || Connection::open(&path)?.ask_with(request, file);
    let answer = ask().map_err(|error| no_answer(&path, &error))?;
    accepted(answer, Ok(path))
}

/// An answer from a control socket of this host, or from the host of that name, unless it is a refusal.
fn accepted(answer: Value, path: Result<PathBuf, String>) -> Result<Value, CliError> {
    if answer["ok"] == Value::Bool(true) {
        return Ok(answer);
    }
    let reason = answer["error"].as_str().unwrap_or("refused without a reason");
    let exit_code = exit_code(answer["kind"].as_str());
    Err(match path {
        Ok(path) => CliError::Control { path, reason: reason.into(), exit_code },
        // As the code of the other.
        Err(host) => CliError::Refused(Box::new(Refusal::new(
            "control-socket",
            format!("{host}: {reason}"),
            exit_code,
        ))),
    })
}

/// Sends a request to the emulator that listens at `path`; returns its answer, which may be a refusal.
pub(super) fn ask_at(path: &Path, request: &Value) -> Result<Value, CliError> {
    ask(path, request).map_err(|error| no_answer(path, &error))
}

/// The error of a control socket that does not answer.
fn no_answer(path: &Path, error: &std::io::Error) -> CliError {
    let (reason, exit_code) = match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            (format!("no emulator listens there ({error})"), 3)
        }
        std::io::ErrorKind::PermissionDenied => (error.to_string(), 4),
        _ => (format!("no answer ({error})"), 3),
    };
    CliError::Control { path: path.into(), reason, exit_code }
}

/// Ends the emulator that listens at `path`, and waits until it has removed its control socket.
pub(super) fn end_at(path: &Path) -> Result<(), CliError> {
    end(path).map_err(|error| no_answer(path, &error))?;
    let until = Instant::now() + END;
    while path.exists() {
        if Instant::now() > until {
            let reason = format!("the emulator has not ended within {} s", END.as_secs());
            return Err(CliError::Control { path: path.into(), reason, exit_code: 3 });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The emulators in a runtime directory that answer.
pub(super) fn entries(directory: &Path) -> Result<Vec<EmulatorEntry>, CliError> {
    let entry = |path: PathBuf| {
        let id = socket_id(&path)?.to_owned();
        let mut connection = Connection::open(&path).ok()?;
        connection.set_timeout(LIST_TIMEOUT).ok()?;
        let shown = connection.ask(&json!({ "verb": "show" })).ok()?;
        let interfaces = serde_json::from_value(shown["interfaces"].clone()).ok()?;
        Some(EmulatorEntry { id, interfaces, lab: shown["lab"].as_str().map(Into::into) })
    };
    Ok(running(directory)?.into_iter().filter_map(entry).collect())
}

/// An emulator in a list.
fn line_of(entry: &EmulatorEntry) -> String {
    let EmulatorEntry { id, interfaces: [a, b], lab } = entry;
    let place = lab.as_ref().map(|lab| format!(", in lab {lab}")).unwrap_or_default();
    let line = format!("{id}: {a} ⇄ {b}{place}");
    format!("{}\n", weir_report::clean(&line))
}

/// The control socket of an emulator of this host that flags select.
fn local_socket(target: &SocketArgs) -> Result<PathBuf, CliError> {
    match &target.socket {
        Some(path) => Ok(path.clone()),
        None => socket_of(&weir_lab::runtime_directory()?, target.id.as_deref()),
    }
}

/// The control socket of an emulator in a runtime directory, by its id; without one, that of the only emulator.
pub(super) fn socket_of(directory: &Path, id: Option<&str>) -> Result<PathBuf, CliError> {
    if let Some(id) = id {
        let path = directory.join(socket_name(id));
        return if is_id(id) && path.exists() {
            Ok(path)
        } else {
            Err(CliError::flag("--id", id, "an id that `weir impair list` prints"))
        };
    }
    let mut alive = running(directory)?;
    match alive.len() {
        1 => Ok(alive.remove(0)),
        0 => Err(CliError::Control {
            path: directory.into(),
            reason: "no emulator of this user listens there (weir impair A B starts one; one with a --control-socket of its own is \
                     named by --socket)"
                .into(),
            exit_code: 3,
        }),
        _ => {
            let names: Vec<&str> = alive.iter().filter_map(|path| socket_id(path)).collect();
            Err(CliError::flag("--id", "nothing, while several emulators run", &names.join(", ")))
        }
    }
}

/// The exit code for a kind of refusal.
fn exit_code(kind: Option<&str>) -> i32 {
    match kind {
        Some("ended") => 3,
        Some("not-available") => 4,
        Some("internal") => 70,
        // The request is invalid.
        _ => 2,
    }
}

/// Control sockets with a listener; sockets left behind by emulators that were killed are removed.
pub(crate) fn running(directory: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut alive = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(CliError::io("read", directory))? {
        let path = entry.map_err(CliError::io("read", directory))?.path();
        let Some(id) = socket_id(&path) else { continue };
        // The id is that of the process, with a number where it has several emulators.
        let process = id.split_once('-').map_or(id, |(process, _)| process);
        let is_alive = || process.parse().ok().and_then(process_start_time).is_some();
        match UnixStream::connect(&path) {
            Ok(_) => alive.push(path.clone()),
            // An emulator that is starting has bound its socket but may not listen yet: keep it.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused && !is_alive() => {
                let _ = std::fs::remove_file(&path);
            }
            Err(_) => {}
        }
    }
    alive.sort_by(|a, b| socket_id(a).cmp(&socket_id(b)));
    Ok(alive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_hold_the_verb_and_its_arguments() {
        let laws = LawArgs {
            both: Some("loss 1%".parse().unwrap()),
            seed: Some(weir_model::units::Seed(7)),
            ..LawArgs::default()
        };
        let request = changes(&laws, Some("voice")).unwrap();
        assert_eq!(
            request.to_string(),
            r#"{"both":"loss 1%","flow":"voice","seed":"0x7","verb":"set"}"#
        );
        assert_eq!(changes(&LawArgs::default(), None).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_verb_that_changes_no_alarm_says_why() {
        use weir_emulator::AlarmKind;
        let alarm = |object: &str, active| Alarm {
            kind: AlarmKind::LinkDown,
            object: object.into(),
            at_seconds: 1.0,
            active,
            acknowledged_at_seconds: Some(2.0),
            text: String::new(),
        };
        let all = [alarm("eth0", true), alarm("eth1", true)];
        let of =
            |kind, object: Option<&str>| AlarmSelection { kind, object: object.map(Into::into) };
        let why = |verb, which: AlarmSelection| why_none(verb, &which, &all);
        let eth0 = of(Some(AlarmKind::LinkDown), Some("eth0"));
        let clear = why(AlarmVerb::Clear, eth0.clone());
        assert!(clear.contains("1 alarm of kind link-down on eth0 is active"), "{clear}");
        let both = why(AlarmVerb::Acknowledge, of(None, None));
        assert!(both.contains("2 alarms are acknowledged already"), "{both}");
        let none = why(AlarmVerb::Clear, of(Some(AlarmKind::CpuHigh), None));
        assert!(none.ends_with("no alarm of kind cpu-high"), "{none}");
    }

    #[test]
    fn a_state_and_a_name_come_in_either_order() {
        let read = |line: &str| {
            let words: Vec<String> = line.split(' ').map(Into::into).collect();
            switched(&words)
        };
        let other = Some("other".to_owned());
        assert_eq!(read("off other").unwrap(), (false, other.clone()));
        assert_eq!(read("other off").unwrap(), (false, other));
        assert_eq!(read("on").unwrap(), (true, None));
        // A flow named `on` is selected by the order in the help: the state first.
        assert_eq!(read("off on").unwrap(), (false, Some("on".to_owned())));
        let error = read("other").unwrap_err();
        let refused = error.refusal();
        assert_eq!((refused.given.as_deref(), refused.exit_code), (Some("other"), 2));
    }

    #[test]
    fn show_as_json_prints_the_answer() {
        let answer =
            json!({ "ok": true, "interfaces": ["a", "b"], "stopped": [], "packet_trace": null });
        let shown: Value = serde_json::from_str(&shown(answer)).unwrap();
        assert_eq!(shown, json!({ "interfaces": ["a", "b"], "stopped": [], "packet_trace": null }));
    }

    /// A socket that answers one request.
    fn answering(answer: &'static str) -> (tempfile::TempDir, SocketArgs) {
        use std::io::{BufRead, BufReader, Write};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        (dir, SocketArgs { socket: Some(path), ..SocketArgs::default() })
    }

    #[test]
    fn a_refusal_has_the_exit_code_of_its_kind() {
        for (answer, code) in [
            (r#"{"ok":false,"error":"the emulator has ended","kind":"ended"}"#, 3),
            (r#"{"ok":false,"error":"flow: x; accepted: other","kind":"refused"}"#, 2),
            (r#"{"ok":false,"error":"cannot open","kind":"not-available"}"#, 4),
            (r#"{"ok":false,"error":"no answer","kind":"internal"}"#, 70),
            // A refusal without a kind.
            (r#"{"ok":false,"error":"flow: x; accepted: other"}"#, 2),
        ] {
            let (_dir, socket) = answering(answer);
            let error = talk(&socket, &json!({ "verb": "show" })).unwrap_err();
            assert_eq!(error.exit_code(), code, "{answer}");
        }
    }

    #[test]
    fn sockets_of_killed_emulators_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let living = std::os::unix::net::UnixListener::bind(path("impair-1.socket")).unwrap();
        // No process has a number beyond PID_MAX_LIMIT, 2^22.
        drop(std::os::unix::net::UnixListener::bind(path("impair-5000000.socket")).unwrap());
        let own = path(&format!("impair-{}.socket", std::process::id()));
        drop(std::os::unix::net::UnixListener::bind(&own).unwrap());
        std::fs::write(path("impair-3.socket.txt"), "").unwrap();
        assert_eq!(running(dir.path()).unwrap(), [path("impair-1.socket")]);
        assert!(!path("impair-5000000.socket").exists() && path("impair-3.socket.txt").exists());
        assert!(own.exists(), "one that is about to listen keeps its name");
        drop(living);
    }
}
