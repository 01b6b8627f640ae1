//! The emulator's side of the control socket: each connection has a thread that answers its requests.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use weir_impair::ImpairError;
use weir_model::Refusal;
use weir_model::impairment::{Impairment, Laws, OTHER};
use weir_model::units::Seed;
use weir_net::namespace::{Process, process_start_time};

use super::descriptors::DescriptorReader;
use crate::alarm::AlarmSelection;
use crate::config::is_timed;
use crate::error::EmulatorError;
use crate::recording::{Recording, RecordingSelection};
use crate::remote::{Remote, Watch};
use crate::wanted::Change;

/// Maximum length of a request: an impairment of many thousand flows.
pub const MAX_REQUEST_BYTES: u64 = 16 << 20;
/// SIGTERM, as every Unix numbers it.
const TERMINATE: i32 = 15;
/// Maximum number of concurrent clients, watching ones excluded.
const MAX_CLIENTS: usize = 64;
/// Maximum number of concurrent watching clients: a test watches as long as it runs.
const MAX_WATCHERS: usize = 256;

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    /// Replaces the configuration, or changes a part of it.
    Set {
        /// The whole one.
        #[serde(default)]
        impairment: Option<Value>,
        /// With a part: the flow; absent: Other.
        #[serde(default)]
        flow: Option<String>,
        #[serde(default)]
        both: Option<String>,
        #[serde(default)]
        a_to_b: Option<String>,
        #[serde(default)]
        b_to_a: Option<String>,
        /// A preset that replaces the laws.
        #[serde(default)]
        profile: Option<String>,
        #[serde(default)]
        seed: Option<Seed>,
    },
    // Braces, so that unknown fields of these variants are refused.
    Show {},
    Start {
        #[serde(default)]
        flow: Option<String>,
    },
    Stop {
        #[serde(default)]
        flow: Option<String>,
    },
    /// Meets the condition of triggers that wait for a command.
    Trigger {
        #[serde(default)]
        flow: Option<String>,
    },
    /// Includes a flow in the packet trace, or excludes it.
    Trace {
        #[serde(default)]
        flow: Option<String>,
        on: bool,
    },
    /// Starts a capture or log. The descriptor of its file comes with the request.
    Record(Recording),
    /// Ends captures and logs.
    #[serde(rename = "end_recordings")]
    EndRecordings(RecordingSelection),
    Stats {},
    /// Starts a new period of counting.
    Reset {
        #[serde(default)]
        flow: Option<String>,
    },
    Save {},
    /// Acknowledges alarms.
    Acknowledge(AlarmSelection),
    /// Removes alarms whose condition has passed.
    Clear(AlarmSelection),
    /// Changes the named thresholds of alarms; without one it only reads.
    Thresholds(Map<String, Value>),
    /// Restarts the keepalive timer.
    Keepalive {},
    /// Counts dropped datagrams until this connection closes.
    Watch {},
    /// The datagrams dropped since this connection's watch started.
    Drops {},
}

impl Request {
    /// Whether it only reads, and so does not restart the keepalive timer.
    fn is_reading(&self) -> bool {
        match self {
            Request::Show {}
            | Request::Stats {}
            | Request::Save {}
            | Request::Watch {}
            | Request::Drops {} => true,
            Request::Thresholds(changes) => changes.is_empty(),
            Request::Set { .. }
            | Request::Start { .. }
            | Request::Stop { .. }
            | Request::Trigger { .. }
            | Request::Trace { .. }
            | Request::Record(_)
            | Request::EndRecordings(_)
            | Request::Reset { .. }
            | Request::Acknowledge(_)
            | Request::Clear(_)
            | Request::Keepalive {} => false,
        }
    }
}

/// Number of connected clients.
#[derive(Debug, Default)]
struct ConnectionCounts {
    clients: AtomicUsize,
    watchers: AtomicUsize,
}

/// A connection that counts until dropped.
struct ConnectionSlot {
    load: Arc<ConnectionCounts>,
    count: fn(&ConnectionCounts) -> &AtomicUsize,
}

impl ConnectionSlot {
    fn take(
        load: &Arc<ConnectionCounts>,
        count: fn(&ConnectionCounts) -> &AtomicUsize,
        max: usize,
    ) -> Option<ConnectionSlot> {
        let before = count(load).fetch_add(1, Ordering::Relaxed);
        let seat = ConnectionSlot { load: load.clone(), count };
        (before < max).then_some(seat)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        (self.count)(&self.load).fetch_sub(1, Ordering::Relaxed);
    }
}

/// A listening control socket; removes its file when dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    contact: LastContact,
}

/// When a client last made a request that is not read-only.
#[derive(Debug, Clone)]
pub struct LastContact(Arc<Mutex<Instant>>);

impl Default for LastContact {
    /// Now.
    fn default() -> Self {
        LastContact(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LastContact {
    fn touch(&self) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Instant::now();
    }

    /// Time since then, or since the socket started to listen.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).elapsed()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn refused(path: &Path, source: std::io::Error) -> EmulatorError {
    EmulatorError::File { operation: "listen on control socket", path: path.to_owned(), source }
}

/// An error with its causes, as a user reads it.
fn in_words(error: &EmulatorError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// A listener at `path`; replaces a socket without a listener.
fn bind(path: &Path) -> Result<UnixListener, EmulatorError> {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path).map_err(|source| refused(path, source))?;
    }
    UnixListener::bind(path).map_err(|source| refused(path, source))
}

impl ControlSocket {
    /// Listens at `path`, for this user alone, until the process ends. Replaces a socket without a listener; refuses
    /// any other file.
    ///
    /// # Errors
    /// The path is unavailable.
    pub fn listen(path: &Path, remote: Remote) -> Result<Self, EmulatorError> {
        let failed = |source| refused(path, source);
        let listener = bind(path)?;
        let contact = LastContact::default();
        let socket = ControlSocket { path: path.to_owned(), contact: contact.clone() };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let load = Arc::new(ConnectionCounts::default());
        let accept = move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Probably out of file descriptors: wait before the next attempt.
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                };
                let Some(seat) = ConnectionSlot::take(&load, |load| &load.clients, MAX_CLIENTS)
                else {
                    continue;
                };
                let (remote, contact) = (remote.clone(), contact.clone());
                // Without a thread the connection is closed and its slot released.
                let _ = std::thread::Builder::new()
                    .name("weir-control".into())
                    .spawn(move || serve(&stream, &remote, &contact, seat));
            }
        };
        std::thread::Builder::new()
            .name("weir-control".into())
            .spawn(accept)
            .map_err(|source| EmulatorError::System { operation: "start a thread", source })?;
        Ok(socket)
    }

    /// Checks whether [`ControlSocket::listen`] could use this path, before an emulator is started. Leaves nothing
    /// there.
    ///
    /// # Errors
    /// The path is unavailable.
    pub fn check(path: &Path) -> Result<(), EmulatorError> {
        bind(path)?;
        std::fs::remove_file(path).map_err(|source| refused(path, source))
    }

    /// When a client last made a request that is not read-only.
    #[must_use]
    pub fn contact(&self) -> LastContact {
        self.contact.clone()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Asks the emulator that listens at `path` to end in order (SIGTERM).
///
/// # Errors
/// No emulator listens there, it has just ended, or this user may not signal it.
pub fn end(path: &Path) -> std::io::Result<()> {
    let stream = UnixStream::connect(path)?;
    let listener = rustix::net::sockopt::socket_peercred(&stream)?;
    let has_ended = || std::io::Error::new(std::io::ErrorKind::NotFound, "it has ended");
    let pid = u32::try_from(listener.pid.as_raw_nonzero().get()).map_err(|_| has_ended())?;
    let started = process_start_time(pid).ok_or_else(has_ended)?;
    let process = Process::open(pid, started).map_err(std::io::Error::other)?;
    process.ok_or_else(has_ended)?.signal(TERMINATE).map_err(std::io::Error::other)
}

fn serve(stream: &UnixStream, remote: &Remote, contact: &LastContact, mut seat: ConnectionSlot) {
    let mut reader = BufReader::new(DescriptorReader::new(stream));
    // It ends with the connection, also when a client dies.
    let mut watch = None;
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MAX_REQUEST_BYTES).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 => {}
            _ => return,
        }
        let file = reader.get_mut().take_file();
        let mut reply = answer(&line, file, remote, contact, &mut seat, &mut watch).to_string();
        reply.push('\n');
        let mut out = stream;
        // A line that is too long has no known end: what follows is not a request.
        if out.write_all(reply.as_bytes()).is_err() || line.last() != Some(&b'\n') {
            return;
        }
    }
}

fn answer(
    line: &[u8],
    file: Option<File>,
    remote: &Remote,
    contact: &LastContact,
    seat: &mut ConnectionSlot,
    watch: &mut Option<Watch>,
) -> Value {
    let done = match weir_model::document::parse_json::<Request>(line) {
        Ok(request) => {
            if !request.is_reading() {
                contact.touch();
            }
            obey(request, file, remote, seat, watch)
        }
        Err(error) => Err(EmulatorError::Refusal {
            what: "request".into(),
            given: error.to_string(),
            accepted:
                r#"{"verb":"set|show|start|stop|trigger|trace|record|end_recordings|stats|reset|save|acknowledge|clear|thresholds|keepalive|watch|drops",…} on one line"#
                    .into(),
        }),
    };
    match done {
        Ok(mut value) => {
            value["ok"] = Value::Bool(true);
            value
        }
        Err(error) => {
            let mut value = json!({ "ok": false, "error": in_words(&error), "kind": kind(&error) });
            if let Some(Refusal { field, given, accepted, .. }) = field_of(&error) {
                for (member, text) in [("field", field), ("given", given), ("accepted", accepted)] {
                    text.into_iter().for_each(|text| value[member] = text.into());
                }
            }
            if let EmulatorError::Pending(number) = error {
                value["pending"] = number.into();
            }
            value
        }
    }
}

/// The field that was refused.
fn field_of(error: &EmulatorError) -> Option<Refusal> {
    match error {
        EmulatorError::Impair(ImpairError::Config(error)) => Some(Refusal::from(error)),
        EmulatorError::Refusal { what, given, accepted } => {
            Some(Refusal::of_field("emulator", what, given, accepted))
        }
        _ => None,
    }
}

/// The kind of a refusal, for the client's exit code.
fn kind(error: &EmulatorError) -> &'static str {
    match error {
        EmulatorError::Impair(_) | EmulatorError::Refusal { .. } => "refused",
        EmulatorError::Ended => "ended",
        // A direction that did not answer: not the request's fault.
        EmulatorError::Pending(_) | EmulatorError::Panicked(_) => "internal",
        EmulatorError::System { source, .. } if source.kind() == std::io::ErrorKind::TimedOut => {
            "internal"
        }
        _ => "not-available",
    }
}

fn obey(
    request: Request,
    file: Option<File>,
    remote: &Remote,
    seat: &mut ConnectionSlot,
    watch: &mut Option<Watch>,
) -> Result<Value, EmulatorError> {
    Ok(match request {
        Request::Set { impairment: Some(config), flow, both, a_to_b, b_to_a, profile, seed } => {
            if flow.or(both).or(a_to_b).or(b_to_a).or(profile).is_some() || seed.is_some() {
                return Err(EmulatorError::Refusal {
                    what: "set".into(),
                    given: "a whole impairment, and parts of one".into(),
                    accepted: "either".into(),
                });
            }
            let config = Impairment::of_tree(&config).map_err(|error| {
                EmulatorError::from(ImpairError::Config(error.inside("impairment").into()))
            })?;
            let number = remote.set(config)?;
            resting(applied(remote, number), remote, None)
        }
        Request::Set { impairment: None, flow, both, a_to_b, b_to_a, profile, seed } => {
            let laws = |text: Option<String>| -> Result<Option<Laws>, EmulatorError> {
                let parsed = text.map(|text| text.parse()).transpose();
                parsed.map_err(|e| EmulatorError::Impair(weir_impair::ImpairError::Config(e)))
            };
            let both = laws(both)?;
            let (a_to_b, b_to_a) = (laws(a_to_b)?.or(both.clone()), laws(b_to_a)?.or(both));
            let has_laws = profile.is_some() || a_to_b.is_some() || b_to_a.is_some();
            let name = flow.clone().unwrap_or_else(|| OTHER.to_owned());
            let change = Change { flow, profile, a_to_b, b_to_a, seed };
            let answer = applied(remote, remote.change(change)?);
            if has_laws { resting(answer, remote, Some(&name)) } else { answer }
        }
        Request::Show {} => {
            let (config, stopped) = remote.wanted();
            json!({
                "interfaces": remote.interfaces(),
                "lab": remote.lab(),
                "links": remote.links(),
                "notes": remote.notes(),
                "real_time": remote.is_real_time(),
                "impairment": config,
                "stopped": stopped,
                "triggers": remote.triggers()?,
                "packet_trace": remote.packet_trace(),
                "recordings": remote.recordings(),
            })
        }
        Request::Start { flow } => applied(remote, remote.run(flow.as_deref(), true)?),
        Request::Stop { flow } => applied(remote, remote.run(flow.as_deref(), false)?),
        Request::Trigger { flow } => json!({ "triggered": remote.trigger(flow.as_deref())? }),
        Request::Trace { flow, on } => {
            remote.trace(flow.as_deref(), on)?;
            json!({})
        }
        Request::Record(recording) => {
            let file = file.ok_or_else(|| EmulatorError::Refusal {
                what: "record".into(),
                given: "a request without the descriptor of a file".into(),
                accepted: "a descriptor that is open for writing, sent with the request".into(),
            })?;
            remote.record(recording, file)?;
            json!({})
        }
        Request::EndRecordings(selection) => {
            json!({ "recordings": remote.end_recordings(&selection)? })
        }
        Request::Stats {} => json!({ "report": remote.report()? }),
        Request::Reset { flow } => {
            remote.reset(flow.as_deref())?;
            json!({})
        }
        Request::Acknowledge(which) => json!({ "alarms": remote.acknowledge(&which) }),
        Request::Clear(which) => json!({ "alarms": remote.clear_alarms(&which) }),
        Request::Thresholds(changes) => json!({ "thresholds": remote.set_thresholds(changes)? }),
        Request::Keepalive {} => json!({}),
        Request::Watch {} => {
            if watch.is_none() {
                // Watching clients have a limit of their own.
                let taken = ConnectionSlot::take(&seat.load, |load| &load.watchers, MAX_WATCHERS);
                *seat = taken.ok_or_else(|| EmulatorError::Refusal {
                    what: "watch".into(),
                    given: "another watcher".into(),
                    accepted: format!("{MAX_WATCHERS} at a time"),
                })?;
            }
            *watch = Some(remote.watch_drops()?);
            json!({})
        }
        Request::Drops {} => match watch {
            Some(watch) => json!({ "drops": watch.drops()? }),
            None => {
                return Err(EmulatorError::Refusal {
                    what: "drops".into(),
                    given: "a connection without a watch".into(),
                    accepted: r#"{"verb":"watch"} before it, on the same connection"#.into(),
                });
            }
        },
        Request::Save {} => {
            let text = remote.wanted().0.to_toml();
            json!({ "toml": text.map_err(weir_impair::ImpairError::Config)? })
        }
    })
}

/// The answer to a change.
fn applied(remote: &Remote, number: u64) -> Value {
    let mut out = json!({ "configuration": number });
    if !remote.is_stamped() && is_timed(&remote.wanted().0) {
        out["note"] =
            "this link has no receive stamps: delays count from when a frame was read".into();
    }
    out
}

/// Adds to the answer that laws were set but are not applied, for this flow or (`None`) any.
fn resting(mut answer: Value, remote: &Remote, flow: Option<&str>) -> Value {
    let mut names = remote.wanted().1;
    names.retain(|name| flow.is_none_or(|flow| flow == name));
    if !names.is_empty() {
        let names = names.join(", ");
        let told = format!(
            "stopped, so that packets are forwarded unchanged until they are started: {names}"
        );
        answer["note"] = match answer["note"].as_str() {
            Some(note) => format!("{note}; {told}").into(),
            None => told.into(),
        };
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_distinguished() {
        let system = |reason: std::io::ErrorKind| EmulatorError::System {
            operation: "get an answer",
            source: reason.into(),
        };
        let asked = EmulatorError::Refusal {
            what: "flow".into(),
            given: "x".into(),
            accepted: "other".into(),
        };
        for (error, wanted) in [
            (asked, "refused"),
            (EmulatorError::Ended, "ended"),
            (system(std::io::ErrorKind::TimedOut), "internal"),
            (system(std::io::ErrorKind::OutOfMemory), "not-available"),
        ] {
            assert_eq!(kind(&error), wanted, "{error}");
        }
    }
}
