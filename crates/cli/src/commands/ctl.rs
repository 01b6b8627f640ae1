//! `weir ctl`: sends one request to the control socket of a running test and prints the answer.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::output::print;
use weir_model::units::SendRate;
use weir_report::clean;

/// Start, stop and query the connections of a running test, and change their rates (`weir test --control-socket`)
#[derive(Debug, Args)]
pub(crate) struct CtlArgs {
    /// The control socket of the test; required
    #[arg(long, value_name = "PATH", global = true, visible_alias = "control-socket")]
    socket: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(short = 'J', long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a waiting connection
    Start {
        /// Its name in the plan [default: all]
        name: Option<String>,
    },
    /// Stop a connection
    Stop {
        /// Its name in the plan [default: all]
        name: Option<String>,
    },
    /// Change the rate of a connection, at whichever end it is sent
    Rate {
        /// The new rate: bit/s with K, M, G (powers of ten), or packets per second (50000pps); 0 is unlimited
        rate: SendRate,
        /// Its name in the plan [default: all]
        name: Option<String>,
    },
    /// Print the state of a connection
    Status {
        /// Its name in the plan [default: all]
        name: Option<String>,
    },
}

/// Maximum length of an answer, bytes.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// The request, as one line of JSON.
fn request(verb: &Verb) -> String {
    let (verb, name, rate) = match verb {
        Verb::Start { name } => ("start", name, None),
        Verb::Stop { name } => ("stop", name, None),
        Verb::Rate { rate, name } => ("rate", name, Some(rate)),
        Verb::Status { name } => ("status", name, None),
    };
    let mut request = json!({ "verb": verb });
    if let Some(name) = name {
        request["connection"] = json!(name);
    }
    if let Some(rate) = rate {
        request["rate"] = json!(rate);
    }
    request.to_string()
}

/// The text to print for an answer, or the refusal in it.
fn understood(args: &CtlArgs, socket: &Path, line: &str) -> Result<String, CliError> {
    let refused =
        |reason: String, exit_code| CliError::Control { path: socket.into(), reason, exit_code };
    if line.trim().is_empty() {
        return Err(refused("closed without an answer".into(), 3));
    }
    let answer: Value = serde_json::from_str(line)
        .map_err(|e| refused(format!("the answer is not JSON: {e}"), 3))?;
    match answer.get("error") {
        None | Some(Value::Null) if args.json => Ok(format!("{answer}\n")),
        None | Some(Value::Null) => Ok(as_text(&answer)),
        Some(error) => {
            let words = error.get("message").unwrap_or(error);
            Err(refused(words.as_str().map_or_else(|| words.to_string(), Into::into), 2))
        }
    }
}

/// A line for each connection: its number, name and state, and the rate that was set.
fn as_text(answer: &Value) -> String {
    let flows = answer.get("flows").and_then(Value::as_array);
    let lines = flows.into_iter().flatten().map(|flow| {
        let text = |key: &str| clean(flow.get(key).and_then(Value::as_str).unwrap_or("?"));
        let id = flow.get("id").and_then(Value::as_u64).unwrap_or(0);
        let rate = flow.get("rate").and_then(Value::as_str).map(|rate| match rate {
            "0" => ", now unlimited".into(),
            rate => format!(", now {}", clean(rate)),
        });
        format!("[{id:>3}] {}: {}{}\n", text("name"), text("state"), rate.unwrap_or_default())
    });
    let lines: String = lines.collect();
    if lines.is_empty() { "done\n".into() } else { lines }
}

/// Sends the request and prints the answer.
pub(crate) fn run(args: &CtlArgs) -> Result<i32, CliError> {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::time::Duration;

    const TIMEOUT: Duration = Duration::from_secs(5);
    // The parser can't require a flag that may also follow the command.
    let socket = args.socket.as_deref().ok_or_else(|| {
        let accepted = "the socket of `weir test --control-socket`";
        CliError::flag("--socket", "missing", accepted)
    })?;
    let failed = |e: std::io::Error| CliError::Control {
        path: socket.into(),
        reason: match e.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
                format!("no test listens there ({e})")
            }
            std::io::ErrorKind::WouldBlock => "no answer within 5 s".into(),
            _ => e.to_string(),
        },
        exit_code: match e.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::Unsupported => 4,
            _ => 3,
        },
    };
    let mut stream = weir_net::local::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
    stream.write_all(format!("{}\n", request(&args.verb)).as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_ANSWER_BYTES)).read_line(&mut line).map_err(failed)?;
    print(&understood(args, socket, &line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_verb_and_connection() {
        assert_eq!(
            request(&Verb::Start { name: Some("a \"b\"".into()) }),
            r#"{"connection":"a \"b\"","verb":"start"}"#
        );
        let rate = "10M/4".parse().unwrap();
        assert_eq!(
            request(&Verb::Rate { rate, name: Some("a".into()) }),
            r#"{"connection":"a","rate":"10M/4","verb":"rate"}"#
        );
        assert_eq!(request(&Verb::Status { name: None }), r#"{"verb":"status"}"#);
    }

    #[test]
    fn answers() {
        let of = |args: &CtlArgs, line: &str| understood(args, Path::new("s"), line);
        let args = CtlArgs { socket: None, json: true, verb: Verb::Status { name: None } };
        assert_eq!(of(&args, "{\"ok\":true}\n").unwrap(), "{\"ok\":true}\n");
        let args = CtlArgs { json: false, ..args };
        assert_eq!(of(&args, "{\"ok\":true}\n").unwrap(), "done\n");
        let state = r#"{"ok":true,"flows":[{"id":1,"name":"voice","state":"started"},{"id":12,"name":"a\u001bb","state":"finished"}]}"#;
        assert_eq!(of(&args, state).unwrap(), "[  1] voice: started\n[ 12] a\u{fffd}b: finished\n");
        let changed = r#"{"ok":true,"flows":[{"id":1,"name":"v","state":"started","rate":"10M"},{"id":2,"name":"w","state":"started","rate":"0"},{"id":3,"name":"x","state":"finished"}]}"#;
        let said = of(&args, changed).unwrap();
        let rates: Vec<&str> = said.lines().map(|l| l.rsplit(' ').next().unwrap()).collect();
        assert_eq!(rates, ["10M", "unlimited", "finished"]);
        let error = of(&args, r#"{"error":{"message":"no connection 'x'"}}"#).unwrap_err();
        assert_eq!(
            (error.exit_code(), error.to_string().as_str()),
            (2, "control socket s: no connection 'x'")
        );
        assert_eq!(of(&args, r#"{"error":"x"}"#).unwrap_err().exit_code(), 2);
        assert_eq!(of(&args, "").unwrap_err().exit_code(), 3);
        assert_eq!(of(&args, "]").unwrap_err().exit_code(), 3);
    }
}
