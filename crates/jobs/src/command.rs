//! The commands of a running job.

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;
use weir_model::document;
use weir_model::impairment::Impairment;

/// A line of standard input after the job's line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// Stop in order, as after SIGINT. A second one stops immediately.
    Stop,
    /// A test that waits for its start: start.
    Start {
        /// CLOCK_MONOTONIC, ns, at which sending starts; a time that has passed means at once.
        at_ns: u64,
    },
    /// A test: start a waiting connection.
    StartConnection {
        /// Named as in the plan, or by the name of one of its flows; absent: all that wait.
        connection: Option<String>,
    },
    /// A test: stop a connection.
    StopConnection {
        /// As in [`Command::StartConnection`]; absent: all.
        connection: Option<String>,
    },
    /// An emulator: put another configuration into force.
    Set {
        /// The whole configuration.
        impairment: Box<Impairment>,
    },
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Set {
            impairment: Box<Impairment>,
        }
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Start {
            at_ns: u64,
        }
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Connection {
            connection: Option<String>,
        }
        let mut tree = Value::deserialize(deserializer)?;
        let name = tree.as_object_mut().and_then(|fields| fields.remove("command"));
        match name.as_ref().and_then(Value::as_str) {
            Some("stop") if tree.as_object().is_some_and(serde_json::Map::is_empty) => {
                Ok(Command::Stop)
            }
            Some("start") => document::read(&tree)
                .map(|Start { at_ns }| Command::Start { at_ns })
                .map_err(D::Error::custom),
            Some("start-connection") => document::read(&tree)
                .map(|Connection { connection }| Command::StartConnection { connection })
                .map_err(D::Error::custom),
            Some("stop-connection") => document::read(&tree)
                .map(|Connection { connection }| Command::StopConnection { connection })
                .map_err(D::Error::custom),
            Some("set") => document::read(&tree)
                .map(|Set { impairment }| Command::Set { impairment })
                .map_err(D::Error::custom),
            _ => Err(D::Error::custom(
                "accepted: stop; start with at_ns; start-connection and stop-connection, with a connection; set with an impairment",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        let read = |line: &str| document::parse_json::<Command>(line.as_bytes());
        for command in [
            Command::Stop,
            Command::Start { at_ns: 5 },
            Command::StartConnection { connection: None },
            Command::StopConnection { connection: Some("a".into()) },
            Command::Set { impairment: Box::default() },
        ] {
            let line = serde_json::to_string(&command).unwrap();
            assert_eq!(read(&line), Ok(command), "{line}");
        }
        for line in [
            "{}",
            "[]",
            r#"{"command":"halt"}"#,
            r#"{"command":"stop","now":true}"#,
            r#"{"command":"start"}"#,
            r#"{"command":"start","at_ns":-1}"#,
            r#"{"command":"set"}"#,
            r#"{"command":"stop-connection","name":"a"}"#,
            r#"{"command":"set","impairment":{"schema":"weir.impair/1"},"more":1}"#,
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
