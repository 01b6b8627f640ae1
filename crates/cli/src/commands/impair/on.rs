//! `weir impair … --on HOST`: emulators of another host, by its `weir impair serve`.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use weir_emulator::control::{MAX_ANSWER_BYTES, MAX_REQUEST_BYTES};
use weir_jobs::{EmulatorAnswer, EmulatorEnd, EmulatorJob, EmulatorRequest, Event, Notice, Ready};
use weir_model::Refusal;
use weir_model::names::{Host, HostKind};
use weir_report::clean;

use super::live::Form;
use super::spawn::print_warning;
use super::text;
use crate::engine::{RequestClient, Service, Stop, StopReason, TrafficError};
use crate::error::CliError;
use crate::job::{notice, report, warn};
use crate::key::KeyArgs;
use crate::output::print;
use crate::signals;
use crate::terminal::style;

/// TCP port of `weir impair serve`.
pub(super) const PORT: u16 = 9349;
/// The control of emulators over the network: messages as long as those of a control socket.
pub(super) const SERVICE: Service = Service {
    name: "emulators",
    max_request_bytes: MAX_REQUEST_BYTES as usize,
    max_answer_bytes: MAX_ANSWER_BYTES as usize,
};
/// Timeout for a connection, and for the hello.
const CONNECT: Duration = Duration::from_secs(5);
/// Timeout for an answer: starting an emulator takes 20 s at most.
const ANSWER: Duration = Duration::from_secs(40);
/// Interval at which a running emulator is polled.
const POLL: Duration = Duration::from_millis(250);

/// Selects another host.
#[derive(Debug, Default, Args)]
pub(crate) struct OnArgs {
    /// The host whose emulators are meant, where `weir impair serve` runs [default: this host; port 9349]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host)]
    on: Option<Host>,
    #[command(flatten)]
    key: KeyArgs,
}

/// A host of the network, with or without its port.
fn host(text: &str) -> Result<Host, String> {
    match Host::parse(text) {
        Ok(host) if host.kind() == HostKind::Network => Ok(host),
        _ => {
            Err("expected NAME, ADDRESS, NAME:PORT, [V6ADDRESS]:PORT or V6ADDRESS%INTERFACE".into())
        }
    }
}

impl OnArgs {
    /// Whether another host is meant.
    pub(super) fn is_given(&self) -> bool {
        self.on.is_some()
    }

    /// Connects to the other host, if one is given.
    ///
    /// # Errors
    /// An invalid key, or the host is unreachable or refuses.
    pub(super) fn connect(&self) -> Result<Option<Server>, CliError> {
        let Some(host) = &self.on else {
            let KeyArgs { key, key_file, passphrase_file } = &self.key;
            for (flag, is_given) in [
                ("--key", key.is_some()),
                ("--key-file", key_file.is_some()),
                ("--passphrase-file", passphrase_file.is_some()),
            ] {
                if is_given {
                    return Err(CliError::flag(flag, "given without --on", "--on HOST with a key"));
                }
            }
            return Ok(None);
        };
        let (key, warnings) = self.key.resolve()?;
        warnings.iter().for_each(|text| warn("key-exposed", text));
        let port = host.port.unwrap_or(PORT);
        RequestClient::connect(&host.name, port, key.as_ref(), &SERVICE, CONNECT)
            .map(|client| Some(Server(client)))
            .map_err(|error| match error {
                TrafficError::Connect { address, reason } => {
                    let reason = format!("{reason}; does `weir impair serve` run there?");
                    CliError::Traffic(TrafficError::Connect { address, reason })
                }
                error => CliError::Traffic(error),
            })
    }
}

/// A connection to another host's `weir impair serve`.
pub(super) struct Server(RequestClient);

impl Server {
    /// Its address and port.
    pub(super) fn name(&self) -> String {
        self.0.address().to_string()
    }

    /// Sends a request; a refusal is an error.
    pub(super) fn ask(&mut self, request: &EmulatorRequest) -> Result<EmulatorAnswer, CliError> {
        let mut answer = self.0.ask(request, ANSWER)?;
        match &mut answer {
            EmulatorAnswer::Refused(refusal) => {
                let message = format!("{}: {}", self.0.address(), clean(&refusal.message));
                Err(CliError::Refused(Box::new(Refusal { message, ..refusal.clone() })))
            }
            EmulatorAnswer::Answer(value)
            | EmulatorAnswer::Ended(EmulatorEnd { report: Some(value), .. }) => {
                clean_all(value);
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }

    /// Passes a request on to the control socket of an emulator; returns its answer.
    pub(super) fn forward(&mut self, id: Option<&str>, request: &Value) -> Result<Value, CliError> {
        let id = id.map(ToOwned::to_owned);
        match self.ask(&EmulatorRequest::Ask { id, request: request.clone() })? {
            EmulatorAnswer::Answer(answer) => Ok(answer),
            _ => Err(self.unexpected()),
        }
    }

    /// The error for an answer to another request.
    pub(super) fn unexpected(&self) -> CliError {
        let reason = "the answer is that to another request".into();
        CliError::Traffic(TrafficError::Protocol { address: self.0.address(), reason })
    }
}

/// Makes the texts of another host safe to print; they may have several lines.
fn clean_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean_lines(text),
        Value::Array(items) => items.iter_mut().for_each(clean_all),
        Value::Object(fields) => fields.values_mut().for_each(clean_all),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Starts an emulator on another host. Unless it is left running there, follows it until it ends, and ends it on a signal.
pub(super) fn run(
    mut server: Server,
    job: EmulatorJob,
    form: Form,
    is_left: bool,
) -> Result<i32, CliError> {
    let stop = Stop::new();
    signals::listen(&stop)?;
    let request = EmulatorRequest::Start { job: Box::new(job) };
    let EmulatorAnswer::Started { id, message } = server.ask(&request)? else {
        return Err(server.unexpected());
    };
    let id = clean(&id).into_owned();
    let head = format!("{}emulator {id} on {}\n", clean_lines(&message), server.name());
    match form {
        Form::Text => drop(print(&head)?),
        Form::Json | Form::Events => {
            let ready = Event::Ready(Ready { control_socket: None, message: head.clone() });
            report(&ready, head.trim_end());
        }
    }
    if is_left {
        return Ok(0);
    }
    let ended = follow(&mut server, &id, &stop).inspect_err(|error| {
        if let CliError::Traffic(_) = error {
            let text = format!(
                "emulator {id} runs on if {} does: `weir impair end --on` ends it",
                server.name()
            );
            notice("emulator-left", &text);
        }
    })?;
    if let Some(value) = &ended.report {
        match form {
            Form::Text => print(&text::table(&super::control::understood(value)?, &style()))?,
            Form::Json | Form::Events => print(&format!("{value:#}\n"))?,
        };
    }
    let error = ended.error.map(|error| CliError::Refused(Box::new(error)));
    let code = stop.reason().map_or(0, StopReason::service_exit_code);
    super::outcome(error, form == Form::Json && ended.report.is_some(), code)
}

/// Reports the warnings of an emulator until it ends, or until a signal ends it.
fn follow(server: &mut Server, id: &str, stop: &Stop) -> Result<EmulatorEnd, CliError> {
    loop {
        let request = match stop.reason() {
            None => EmulatorRequest::Poll { id: id.into() },
            Some(_) => EmulatorRequest::End { id: Some(id.into()) },
        };
        match server.ask(&request)? {
            EmulatorAnswer::Running { warnings } => {
                for Notice { code, message } in warnings {
                    print_warning(Notice::new(&clean(&code), clean(&message)));
                }
            }
            EmulatorAnswer::Ended(end) => return Ok(end),
            _ => return Err(server.unexpected()),
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_of_the_network() {
        let of = |text| host(text).ok().map(|host| (host.name, host.port));
        assert_eq!(of("rack"), Some(("rack".into(), None)));
        assert_eq!(of("[2001:db8::1]:80"), Some(("2001:db8::1".into(), Some(80))));
        for bad in ["", "unix:/s", "interface:eth0", "rack:0", "-x"] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn texts_of_another_host_do_not_control_the_terminal() {
        let mut value = serde_json::json!({ "a": ["x\u{1b}[2J\ny"], "b": { "c": "\r" }, "n": 1 });
        clean_all(&mut value);
        let clean =
            serde_json::json!({ "a": ["x\u{fffd}[2J\ny"], "b": { "c": "\u{fffd}" }, "n": 1 });
        assert_eq!(value, clean);
    }
}
