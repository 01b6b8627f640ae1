//! Events of a running job: one JSON object a line, `{"event":…,"data":…}`. `--json-stream` prints the same.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_model::Refusal;
use weir_model::document;
use weir_model::json::to_line;
use weir_model::progress::{EchoInterval, FlowProgress, PeerStatus};
use weir_model::record::{Interval, Record};
use weir_model::report::EndReport;
use weir_report::Start;

/// One event of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// A server listens.
    Listening(Listening),
    /// A client has a session.
    SessionOpened {
        /// Its number.
        session: u64,
        /// The client's address.
        peer: String,
        /// Number of flows.
        flows: usize,
        /// The protocol of another tool that it speaks; absent: Weir's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
    },
    /// A session has ended.
    SessionClosed {
        /// Its number.
        session: u64,
        /// The client's address.
        peer: String,
        /// How it ended.
        reason: String,
        /// What the server counted.
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<Box<EndReport>>,
        /// The id of the stored result: of a client of another tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// As in [`Event::SessionOpened`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
    },
    /// A client was refused.
    Refused {
        /// The client's address.
        peer: String,
        /// Why.
        reason: String,
        /// As in [`Event::SessionOpened`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<String>,
    },
    /// Another tool's protocol is served.
    PeerListening {
        /// Its name.
        protocol: String,
        /// Its transports.
        transports: Vec<String>,
        /// Addresses and ports.
        addresses: Vec<String>,
    },
    /// A server that answers datagrams without sessions has stopped; its totals.
    Reflected(Reflected),
    /// The speed test for browsers listens.
    SpeedTest {
        /// Its address and port.
        address: SocketAddr,
    },
    /// An emulator forwards, a lab is up, or a test waits for the command `start`.
    Ready(Ready),
    /// The answer to the command `start-connection` or `stop-connection`, in the order of the commands.
    Commanded(Answer),
    /// An emulator's answer to the command `set`.
    Configured(Answer),
    /// A test starts.
    Start(Box<Start>),
    /// States of flows that have changed.
    Flows(Vec<FlowProgress>),
    /// An interval of a test ended.
    Interval(Box<Interval>),
    /// Intervals of echoed flows whose echoes have all come back, or are given up.
    Echoes(Vec<EchoInterval>),
    /// The peer has become unreachable, or reachable again.
    Peer(PeerStatus),
    /// Progress, for people.
    Progress(Notice),
    /// Something that limits the result, or a part of it that failed.
    Warning(Notice),
    /// A test ended; the record holds everything.
    End(Box<Record>),
    /// The document that another kind of job ends with: a report, an experiment, a calibration.
    Result(Value),
    /// The job was refused, or failed. A record or a result may still follow with what was measured.
    Error(Refusal),
}

/// The addresses on which a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Listening {
    /// Its addresses and ports, or `unix:` and a path.
    pub addresses: Vec<String>,
    /// No key is set: any client that reaches it can use it.
    pub open: bool,
}

impl Listening {
    /// The port of its first address.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        let first = self.addresses.iter().find(|address| !address.starts_with("unix:"))?;
        first.rsplit_once(':')?.1.parse().ok()
    }
}

/// Totals of a server that answers datagrams without sessions. The rest of the requests was ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reflected {
    /// Its protocol.
    pub protocol: String,
    /// Datagrams that arrived.
    pub requests: u64,
    /// Replies that were sent.
    pub replies: u64,
    /// Requests above the limit of replies to their address.
    pub limited: u64,
    /// Replies that the system did not accept.
    pub unsent: u64,
}

/// A job that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ready {
    /// The control socket, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_socket: Option<PathBuf>,
    /// What `weir impair` and `weir lab up` print at this point.
    pub message: String,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// Why it was refused; absent: it was carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A message for people.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Notice {
    /// Stable name for programs, such as [`Notice::NOT_STORED`]; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// The text.
    pub message: String,
}

impl Notice {
    /// The code of a warning that a result could not be stored.
    pub const NOT_STORED: &str = "not-stored";

    /// A notice with a code.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Notice {
        Notice { code: code.into(), message: message.into() }
    }

    /// A notice without a code.
    #[must_use]
    pub fn of(message: impl Into<String>) -> Notice {
        Notice::new("", message)
    }
}

impl Event {
    /// Marks a server's event as belonging to a session of another tool's protocol.
    #[must_use]
    pub fn of_protocol(mut self, name: &str) -> Event {
        if let Event::SessionOpened { protocol, .. }
        | Event::SessionClosed { protocol, .. }
        | Event::Refused { protocol, .. } = &mut self
        {
            *protocol = Some(name.into());
        } else if let Event::Reflected(totals) = &mut self {
            totals.protocol = name.into();
        }
        self
    }

    /// Adds the id of the stored result to the end of a session.
    #[must_use]
    pub fn with_run(mut self, id: Option<String>) -> Event {
        if let Event::SessionClosed { run, .. } = &mut self {
            *run = id;
        }
        self
    }

    /// The event as a line of JSON, with its newline. Figures that are not finite are absent.
    ///
    /// # Errors
    /// Errors of serde_json, which no event causes: all keys of maps are strings.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        to_line(self).map(|line| line + "\n")
    }

    /// Parses the event of a line; `None` if this version does not know it.
    #[must_use]
    pub fn parse(line: &str) -> Option<Event> {
        let mut tree = document::json(line.as_bytes()).ok()?;
        let data = tree.get_mut("data")?.take();
        // A derived implementation would compile every payload a second time, for lines with the name after the data.
        Some(match tree.get("event")?.as_str()? {
            "listening" => Event::Listening(read(&data)?),
            "session_opened" => {
                let Opened { session, peer, flows, protocol } = read(&data)?;
                Event::SessionOpened { session, peer, flows, protocol }
            }
            "session_closed" => {
                let Closed { session, peer, reason, report, run, protocol } = read(&data)?;
                Event::SessionClosed { session, peer, reason, report, run, protocol }
            }
            "refused" => {
                let Turned { peer, reason, protocol } = read(&data)?;
                Event::Refused { peer, reason, protocol }
            }
            "peer_listening" => {
                let PeerListening { protocol, transports, addresses } = read(&data)?;
                Event::PeerListening { protocol, transports, addresses }
            }
            "reflected" => Event::Reflected(read(&data)?),
            "speed_test" => Event::SpeedTest { address: read(data.get("address")?)? },
            "ready" => Event::Ready(read(&data)?),
            "commanded" => Event::Commanded(read(&data)?),
            "configured" => Event::Configured(read(&data)?),
            "start" => Event::Start(read(&data)?),
            "flows" => Event::Flows(read(&data)?),
            "interval" => Event::Interval(read(&data)?),
            "echoes" => Event::Echoes(read(&data)?),
            "peer" => Event::Peer(read(&data)?),
            "progress" => Event::Progress(read(&data)?),
            "warning" => Event::Warning(read(&data)?),
            "end" => Event::End(read(&data)?),
            "result" => Event::Result(data),
            "error" => Event::Error(read(&data)?),
            _ => return None,
        })
    }
}

fn read<T: DeserializeOwned>(data: &Value) -> Option<T> {
    document::read(data).ok()
}

/// The data of [`Event::SessionOpened`].
#[derive(Deserialize)]
struct Opened {
    session: u64,
    peer: String,
    flows: usize,
    protocol: Option<String>,
}

/// The data of [`Event::SessionClosed`].
#[derive(Deserialize)]
struct Closed {
    session: u64,
    peer: String,
    reason: String,
    report: Option<Box<EndReport>>,
    run: Option<String>,
    protocol: Option<String>,
}

/// The data of [`Event::Refused`].
#[derive(Deserialize)]
struct Turned {
    peer: String,
    reason: String,
    protocol: Option<String>,
}

/// The data of [`Event::PeerListening`].
#[derive(Deserialize)]
struct PeerListening {
    protocol: String,
    transports: Vec<String>,
    addresses: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_the_form_of_the_stream() {
        let event = Event::Error(Refusal::of_field("usage", "port", "x", "1 to 65535"));
        let line = event.to_line().unwrap();
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "error");
        assert_eq!(value["data"]["field"], "port");
        assert_eq!(value["data"]["exit_code"], 2);
        assert_eq!(Event::parse(&line), Some(event));
        assert_eq!(Event::parse("{\"event\":\"later\",\"data\":1}"), None);
    }

    #[test]
    fn every_event_is_read_as_it_is_written() {
        let peer = || "192.0.2.1:5".to_owned();
        for event in [
            Event::Listening(Listening { addresses: vec![peer()], open: true }),
            Event::SessionOpened { session: 1, peer: peer(), flows: 2, protocol: None },
            Event::PeerListening {
                protocol: "x".into(),
                transports: vec!["tcp".into()],
                addresses: vec![peer()],
            },
            Event::Reflected(Reflected {
                protocol: "x".into(),
                requests: 3,
                replies: 2,
                limited: 1,
                unsent: 0,
            }),
            Event::SessionClosed {
                session: 1,
                peer: peer(),
                reason: "x".into(),
                report: None,
                run: None,
                protocol: None,
            },
            Event::SessionClosed {
                session: 1,
                peer: peer(),
                reason: "x".into(),
                report: Some(Box::default()),
                run: Some("x".into()),
                protocol: Some("x".into()),
            },
            Event::Refused { peer: peer(), reason: "x".into(), protocol: None },
            Event::SpeedTest { address: "192.0.2.1:5".parse().unwrap() },
            Event::Ready(Ready::default()),
            Event::Start(Box::default()),
            Event::Flows(vec![]),
            Event::Interval(Box::default()),
            Event::Configured(Answer::default()),
            Event::Commanded(Answer { error: Some("x".into()) }),
            Event::Echoes(vec![EchoInterval {
                round_trip_cells: vec![(5, 1)],
                ..EchoInterval::default()
            }]),
            Event::Progress(Notice::of("x")),
            Event::Warning(Notice::new("a", "x")),
            Event::End(Box::default()),
            Event::Result(serde_json::json!({ "a": [1] })),
            Event::Error(Refusal::new("usage", "x", 2)),
        ] {
            let line = event.to_line().unwrap();
            assert_eq!(Event::parse(&line), Some(event), "{line}");
        }
    }

    #[test]
    fn figures_that_are_not_finite_are_absent() {
        let event = Event::End(Box::new(Record { seconds: f64::NAN, ..Record::default() }));
        let line = event.to_line().unwrap();
        assert!(!line.contains("null"), "{line}");
        assert!(matches!(Event::parse(&line), Some(Event::End(_))));
    }
}
