//! Control of another host's emulators: the requests of a client of `weir impair serve`, and the answers.
//!
//! They are messages of the control connection ([`weir_wire::control::Message`]). A client is another host: it names no file of
//! the server ([`EmulatorJob::of_client`]).

use serde::de::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_model::{Refusal, document, names};
use weir_wire::control::Message;

use crate::{EmulatorJob, Notice};

/// A request. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EmulatorRequest {
    /// The running emulators: [`EmulatorAnswer::Emulators`].
    List {},
    /// Start an emulator, which runs until it is ended or the server is: [`EmulatorAnswer::Started`].
    Start {
        /// The emulator.
        job: Box<EmulatorJob>,
    },
    /// The state of an emulator that a client started: [`EmulatorAnswer::Running`] or [`EmulatorAnswer::Ended`].
    Poll {
        /// Its id.
        id: String,
    },
    /// End an emulator and wait for it: [`EmulatorAnswer::Ended`].
    End {
        /// Its id; absent: the only one that runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// Pass a request on to an emulator's control socket: [`EmulatorAnswer::Answer`].
    Ask {
        /// Its id; absent: the only one that runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The request: an object with a `verb`.
        request: Value,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmulatorAnswer {
    /// The running emulators, whichever program started them.
    Emulators(Vec<EmulatorEntry>),
    /// The emulator runs.
    Started {
        /// Its id.
        id: String,
        /// What it printed: links, laws, limits.
        message: String,
    },
    /// The emulator runs.
    Running {
        /// Its warnings since the last poll; the oldest are omitted if there were many.
        warnings: Vec<Notice>,
    },
    /// The emulator has ended.
    Ended(EmulatorEnd),
    /// What the emulator's control socket answered.
    Answer(Value),
    /// The request was refused.
    Refused(Refusal),
}

/// A running emulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmulatorEntry {
    /// Its id.
    pub id: String,
    /// Interface A and interface B.
    pub interfaces: [String; 2],
    /// The namespace of a lab that it runs in, `LAB/NODE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
}

/// How an emulator ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EmulatorEnd {
    /// Its report; absent if this server did not start it, or it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
    /// Its error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

impl Message for EmulatorRequest {
    fn to_json(&self) -> Vec<u8> {
        // Serialising to memory can't fail: no map has keys other than strings.
        serde_json::to_vec(self).unwrap_or_default()
    }
    fn of_json(json: &[u8]) -> serde_json::Result<Self> {
        document::parse_json(json).map_err(serde_json::Error::custom)
    }
}

impl Message for EmulatorAnswer {
    fn to_json(&self) -> Vec<u8> {
        // As above.
        serde_json::to_vec(self).unwrap_or_default()
    }
    fn of_json(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json)
    }
}

impl EmulatorJob {
    /// The job as a server runs it for a client: with few capabilities, and until the server ends.
    ///
    /// # Errors
    /// It names a file, an invalid interface, or an emulator that can't be controlled.
    pub fn of_client(self) -> Result<EmulatorJob, Box<Refusal>> {
        // Every field is named, so that a new one is either accepted or refused on purpose.
        let EmulatorJob {
            interfaces,
            impairment,
            link,
            force,
            control_socket,
            controlled,
            keepalive_timeout,
            duration,
            packet_trace,
            packet_trace_limit,
            capture,
            log,
            ring_frames,
            threads,
            real_time,
            few_capabilities: _,
            disposable: _,
            detached: _,
        } = self;
        let refuse = |field: &str, given: &dyn std::fmt::Display, accepted: &str| {
            Err(Box::new(Refusal::of_field("emulator", field, given.to_string(), accepted)))
        };
        if let Some(name) = interfaces.iter().find(|name| !names::is_emulator_end(name)) {
            return refuse("interfaces", name, names::EMULATOR_END_FORMS);
        }
        const NO_FILE: &str = "none: a client of another host names no file of this one";
        for (field, path) in [
            ("control_socket", control_socket),
            ("packet_trace", packet_trace),
            ("capture", capture),
            ("log", log),
        ] {
            if let Some(path) = path {
                return refuse(field, &path.display(), NO_FILE);
            }
        }
        if let Some(limit) = packet_trace_limit {
            return refuse("packet_trace_limit", &limit, "none: there is no packet trace");
        }
        if !controlled {
            return refuse("controlled", &false, "true");
        }
        Ok(EmulatorJob {
            link,
            force,
            keepalive_timeout,
            duration,
            ring_frames,
            threads,
            real_time,
            few_capabilities: true,
            ..EmulatorJob::new(interfaces, impairment)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weir_model::units::Span;

    fn job() -> EmulatorJob {
        EmulatorJob::new(["a".into(), "b".into()], Default::default())
    }

    #[test]
    fn requests_and_answers_are_read_as_they_are_written() {
        for request in [
            EmulatorRequest::List {},
            EmulatorRequest::Start { job: Box::new(job()) },
            EmulatorRequest::Poll { id: "1".into() },
            EmulatorRequest::End { id: None },
            EmulatorRequest::Ask { id: Some("1".into()), request: json!({ "verb": "show" }) },
        ] {
            assert_eq!(EmulatorRequest::of_json(&request.to_json()).unwrap(), request);
        }
        let entry =
            EmulatorEntry { id: "1".into(), interfaces: ["a".into(), "b".into()], lab: None };
        for answer in [
            EmulatorAnswer::Emulators(vec![entry]),
            EmulatorAnswer::Started { id: "1".into(), message: "up".into() },
            EmulatorAnswer::Running { warnings: vec![Notice::of("x")] },
            EmulatorAnswer::Ended(EmulatorEnd { report: Some(json!({})), error: None }),
            EmulatorAnswer::Answer(json!({ "ok": true })),
            EmulatorAnswer::Refused(Refusal::new("x", "y", 2)),
        ] {
            assert_eq!(EmulatorAnswer::of_json(&answer.to_json()).unwrap(), answer);
        }
    }

    #[test]
    fn unknown_requests_and_fields_are_refused() {
        for line in [
            "{}",
            "\"list\"",
            r#"{"shutdown":{}}"#,
            r#"{"list":{"all":true}}"#,
            r#"{"end":{"id":"1","signal":9}}"#,
            r#"{"ask":{"id":"1"}}"#,
            r#"{"start":{"job":{"interfaces":["a","b"],"command":"sh"}}}"#,
            r#"{"list":{},"end":{}}"#,
        ] {
            assert!(EmulatorRequest::of_json(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn a_client_names_no_file_and_leaves_nothing_behind() {
        let path = || Some("/etc/passwd".into());
        for (job, field) in [
            (EmulatorJob { control_socket: path(), ..job() }, "control_socket"),
            (EmulatorJob { packet_trace: path(), ..job() }, "packet_trace"),
            (EmulatorJob { capture: path(), ..job() }, "capture"),
            (EmulatorJob { log: path(), ..job() }, "log"),
            (EmulatorJob { packet_trace_limit: Some(1), ..job() }, "packet_trace_limit"),
            (EmulatorJob { controlled: false, ..job() }, "controlled"),
            (EmulatorJob::new(["a".into(), "tap:b/c".into()], Default::default()), "interfaces"),
        ] {
            let refusal = job.of_client().unwrap_err();
            assert_eq!((refusal.field.as_deref(), refusal.exit_code), (Some(field), 2));
        }
        let wanted = EmulatorJob {
            link: Some("packet".into()),
            force: true,
            keepalive_timeout: Some(Span::from_seconds(1)),
            duration: Some(Span::from_seconds(2)),
            ring_frames: Some(64),
            threads: Some(2),
            real_time: false,
            few_capabilities: true,
            ..job()
        };
        let asked = EmulatorJob {
            detached: true,
            disposable: true,
            few_capabilities: false,
            ..wanted.clone()
        };
        assert_eq!(asked.of_client(), Ok(wanted));
    }
}
