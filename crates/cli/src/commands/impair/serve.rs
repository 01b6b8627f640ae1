//! `weir impair serve`: starts, lists, controls and ends emulators of this host for clients of other hosts.
//!
//! Each emulator is a job in a process of its own, whose standard input this process holds: it ends with this process, also
//! after a SIGKILL. Other requests are passed on to the control sockets in the runtime directory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use weir_emulator::control::socket_id;
use weir_jobs::{
    EmulatorAnswer, EmulatorEnd, EmulatorJob, EmulatorRequest, Event, Listening, Notice,
};
use weir_model::Refusal;
use weir_net::thread::lock;

use super::control::{ask_at, end_at, entries, socket_of};
use super::on::{PORT, SERVICE};
use super::spawn::{self, Spawned};
use crate::commands::values;
use crate::engine::{
    InvalidRequest, Key, RequestServer, RequestTimeouts, ServerEvent, Stop, StopReason,
    serve_requests,
};
use crate::error::CliError;
use crate::job::{notice, report, warn};
use crate::key::KeyArgs;
use crate::signals;
use crate::stamp::VERSION;

/// Interval at which the emulators are checked.
const LOOK: Duration = Duration::from_millis(100);
/// Maximum number of warnings of an emulator that wait for a client.
const MAX_WARNINGS: usize = 100;
/// Number of ended emulators whose reports are stored for their clients.
const MAX_ENDED: usize = 32;
/// Time to wait for an emulator that another request is ending.
const END: Duration = Duration::from_secs(15);

/// Let clients of other hosts start, control and end emulators here
#[derive(Debug, Args)]
#[command(
    after_help = "A client is `weir impair … --on HOST` with the same key. Any client with the key can impair and interrupt \
                  the traffic of every interface here.\n\
                  Emulators that clients start continue when the client leaves, and end with this command.\n\
                  Exit codes: 0 SIGTERM, 2 bad input, 4 the port is in use or not permitted, 130 interrupted."
)]
pub(crate) struct ServerArgs {
    /// TCP port, 1 to 65535
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = PORT, value_parser = values::whole(1_u16..=65_535))]
    port: u16,
    /// Listen on this address only; may be repeated. Without a key, a loopback address [default: with a key all addresses, else 127.0.0.1]
    #[arg(short = 'B', long, value_name = "ADDRESS", value_parser = values::address)]
    bind: Vec<IpAddr>,
    /// Maximum number of emulators that clients started and that run at the same time, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = values::whole(1_u32..=1000))]
    max_emulators: u32,
    #[command(flatten)]
    key: KeyArgs,
}

impl ServerArgs {
    /// The addresses to listen on; empty: all.
    fn addresses(&self, key: Option<&Key>) -> Result<Vec<IpAddr>, CliError> {
        if key.is_some() {
            return Ok(self.bind.clone());
        }
        if let Some(address) = self.bind.iter().find(|address| !address.is_loopback()) {
            let given = format!("{address} without a key");
            let accepted = "a loopback address, or any with --key-file (`weir keygen` makes a key)";
            return Err(CliError::flag("--bind", given, accepted));
        }
        let default = Some(Ipv4Addr::LOCALHOST.into()).filter(|_| self.bind.is_empty());
        Ok(self.bind.iter().copied().chain(default).collect())
    }
}

/// Serves until a signal arrives, then ends the emulators that clients started.
pub(super) fn run(args: &ServerArgs) -> Result<i32, CliError> {
    let (key, warnings) = args.key.resolve()?;
    let bind = args.addresses(key.as_ref())?;
    warnings.iter().for_each(|text| warn("key-exposed", text));
    let emulators = Arc::new(Emulators {
        directory: weir_lab::runtime_directory()?,
        most: args.max_emulators as usize,
        state: Mutex::default(),
    });
    let config = RequestServer {
        bind,
        port: args.port,
        key,
        service: SERVICE,
        timeouts: RequestTimeouts::default(),
    };
    let stop = Stop::new();
    signals::listen(&stop)?;
    let watched = emulators.clone();
    let watching = std::thread::Builder::new()
        .name("weir-emulators".into())
        .spawn(move || watched.watch())
        .map_err(|e| CliError::Internal(format!("start a thread: {e}")))?;
    let answering = emulators.clone();
    let served = serve_requests(config, &stop, &mut observe, move |peer, request| {
        answering.answer(peer, request)
    });
    emulators.close();
    let _ = watching.join();
    served?;
    Ok(stop.reason().map_or(0, StopReason::service_exit_code))
}

/// Reports an event of the server on standard error.
fn observe(event: ServerEvent) {
    let (event, text) = match event {
        ServerEvent::Listening { addresses, open } => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let mut text =
                format!("weir {VERSION}: control of emulators on {} (TCP)", addresses.join(", "));
            if open {
                text += "\nopen: no key is set, any user of this host can control emulators";
            }
            (Event::Listening(Listening { addresses, open }), text)
        }
        ServerEvent::Refused { peer, reason } => {
            let peer = peer.to_string();
            let text = format!("refused {peer}: {reason}");
            (Event::Refused { peer, reason, protocol: None }, text)
        }
        ServerEvent::SessionOpened { .. }
        | ServerEvent::SessionClosed { .. }
        | ServerEvent::Reflected { .. } => return,
    };
    report(&event, &text);
}

/// The emulators of this host.
struct Emulators {
    /// Their control sockets.
    directory: PathBuf,
    /// Maximum number of those that clients started.
    most: usize,
    state: Mutex<State>,
}

/// The emulators that clients started, by id.
#[derive(Default)]
struct State {
    /// The server is ending: nothing is started any more.
    is_closed: bool,
    starting: usize,
    running: BTreeMap<String, Started>,
    ending: BTreeSet<String>,
    /// The latest last.
    ended: VecDeque<(String, EmulatorEnd)>,
}

struct Started {
    spawned: Spawned,
    /// Warnings that no client has polled yet.
    warnings: VecDeque<Notice>,
}

impl State {
    fn end_of(&self, id: &str) -> Option<EmulatorEnd> {
        self.ended.iter().find(|(ended, _)| ended == id).map(|(_, end)| end.clone())
    }

    fn store(&mut self, id: &str, end: EmulatorEnd) {
        self.ending.remove(id);
        self.ended.push_back((id.to_owned(), end));
        let surplus = self.ended.len().saturating_sub(MAX_ENDED);
        self.ended.drain(..surplus);
    }
}

fn unknown(id: &str) -> CliError {
    let accepted = "an id that `weir impair list` prints";
    CliError::Refused(Box::new(Refusal::of_field("emulator", "id", id, accepted)))
}

fn is_closing() -> CliError {
    CliError::Refused(Box::new(Refusal::new("closing", "the server is ending", 3)))
}

impl Emulators {
    /// Answers a request of a client.
    fn answer(
        &self,
        peer: SocketAddr,
        request: Result<EmulatorRequest, InvalidRequest>,
    ) -> EmulatorAnswer {
        let answer = match request {
            Ok(EmulatorRequest::List {}) => entries(&self.directory).map(EmulatorAnswer::Emulators),
            Ok(EmulatorRequest::Start { job }) => self.start(peer, *job),
            Ok(EmulatorRequest::Poll { id }) => self.poll(&id),
            Ok(EmulatorRequest::End { id }) => self.end(peer, id).map(EmulatorAnswer::Ended),
            Ok(EmulatorRequest::Ask { id, request }) => self.forward(id.as_deref(), &request),
            Err(InvalidRequest(reason)) => {
                let accepted = "list, start, poll, end or ask";
                let refusal = Refusal::of_field("request", "request", reason, accepted);
                Err(CliError::Refused(Box::new(refusal)))
            }
        };
        answer.unwrap_or_else(|error| EmulatorAnswer::Refused(error.refusal()))
    }

    fn start(&self, peer: SocketAddr, job: EmulatorJob) -> Result<EmulatorAnswer, CliError> {
        let job = job.of_client().map_err(CliError::Refused)?;
        let interfaces = job.interfaces.join(" ⇄ ");
        {
            let mut state = lock(&self.state);
            if state.is_closed {
                return Err(is_closing());
            }
            let (count, most) = (state.starting + state.running.len(), self.most);
            if count >= most {
                let text = format!("{count} emulators are running, the limit is {most}");
                return Err(CliError::Refused(Box::new(Refusal::new("limit", text, 3))));
            }
            state.starting += 1;
        }
        let begun = spawn::start(Command::new(crate::job::program()), job);
        let mut state = lock(&self.state);
        state.starting -= 1;
        let spawned = begun?;
        let id = spawned.control_socket.as_deref().and_then(socket_id);
        // In each case of an error the emulator is dropped, which ends it; others need not wait for that.
        let Some(id) = id.map(ToOwned::to_owned) else {
            drop(state);
            let text = format!("the emulator could not listen: {}", spawned.head.trim_end());
            return Err(CliError::Refused(Box::new(Refusal::new("emulator", text, 4))));
        };
        if state.is_closed {
            drop(state);
            return Err(is_closing());
        }
        // A process id that an ended emulator had.
        state.ended.retain(|(ended, _)| *ended != id);
        let message = spawned.head.clone();
        state.running.insert(id.clone(), Started { spawned, warnings: VecDeque::new() });
        drop(state);
        notice("emulator-started", &format!("emulator {id}: {interfaces}, started by {peer}"));
        Ok(EmulatorAnswer::Started { id, message })
    }

    fn poll(&self, id: &str) -> Result<EmulatorAnswer, CliError> {
        let mut state = lock(&self.state);
        if let Some(started) = state.running.get_mut(id) {
            let warnings = started.warnings.drain(..).collect();
            return Ok(EmulatorAnswer::Running { warnings });
        }
        if state.ending.contains(id) {
            return Ok(EmulatorAnswer::Running { warnings: vec![] });
        }
        state.end_of(id).map(EmulatorAnswer::Ended).ok_or_else(|| unknown(id))
    }

    /// Ends an emulator, whichever program started it, and waits for its end.
    fn end(&self, peer: SocketAddr, id: Option<String>) -> Result<EmulatorEnd, CliError> {
        let until = Instant::now() + END;
        let socket = match &id {
            // It may have ended already, and then has no socket.
            Some(_) => None,
            None => Some(socket_of(&self.directory, None)?),
        };
        let only = socket.as_deref().and_then(socket_id);
        let id = id.or(only.map(Into::into)).unwrap_or_default();
        let started = {
            let mut state = lock(&self.state);
            let started = state.running.remove(&id);
            if started.is_some() {
                state.ending.insert(id.clone());
            }
            started
        };
        if let Some(Started { spawned, .. }) = started {
            let end = spawned.end();
            lock(&self.state).store(&id, end.clone());
            notice("emulator-ended", &format!("emulator {id}: ended by {peer}"));
            return Ok(end);
        }
        loop {
            let state = lock(&self.state);
            if let Some(end) = state.end_of(&id) {
                return Ok(end);
            }
            if !state.ending.contains(&id) {
                break;
            }
            drop(state);
            if Instant::now() > until {
                let text = format!("emulator {id} has not ended");
                return Err(CliError::Refused(Box::new(Refusal::new("timeout", text, 3))));
            }
            std::thread::sleep(LOOK);
        }
        // Another program started it.
        end_at(&socket_of(&self.directory, Some(&id))?)?;
        notice("emulator-ended", &format!("emulator {id}: ended by {peer}"));
        Ok(EmulatorEnd::default())
    }

    fn forward(&self, id: Option<&str>, request: &Value) -> Result<EmulatorAnswer, CliError> {
        // Watches last as long as their connection, and this one is closed after the answer. A recording needs an open file.
        if let Some(verb @ ("watch" | "drops" | "record")) = request["verb"].as_str() {
            let accepted = "the verbs of a control socket except watch, drops and record";
            let refusal = Refusal::of_field("emulator", "verb", verb, accepted);
            return Err(CliError::Refused(Box::new(refusal)));
        }
        let path = socket_of(&self.directory, id)?;
        ask_at(&path, request).map(EmulatorAnswer::Answer)
    }

    /// Collects warnings and finds emulators that have ended, until the server is closed.
    fn watch(&self) {
        loop {
            let mut over = vec![];
            {
                let mut state = lock(&self.state);
                if state.is_closed {
                    return;
                }
                for (id, Started { spawned, warnings }) in &mut state.running {
                    warnings.extend(spawned.warnings());
                    let surplus = warnings.len().saturating_sub(MAX_WARNINGS);
                    warnings.drain(..surplus);
                    if spawned.is_over() {
                        over.push(id.clone());
                    }
                }
                for id in &over {
                    state.ending.insert(id.clone());
                }
            }
            for id in over {
                let started = lock(&self.state).running.remove(&id);
                // Otherwise a client's request is ending it.
                let Some(Started { spawned, .. }) = started else { continue };
                let end = spawned.end();
                let reason = end.error.as_ref().map(|error| format!(": {}", error.message));
                let reason = reason.unwrap_or_default();
                lock(&self.state).store(&id, end);
                notice("emulator-ended", &format!("emulator {id}: ended{reason}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends all emulators that clients started, and starts none any more.
    fn close(&self) {
        let running = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            std::mem::take(&mut state.running)
        };
        // All at the same time: each may take seconds.
        std::thread::scope(|scope| {
            for Started { spawned, .. } in running.into_values() {
                scope.spawn(move || spawned.end());
            }
        });
    }
}
