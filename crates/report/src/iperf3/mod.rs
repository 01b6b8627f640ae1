//! A test as iperf3 prints it: as JSON, for programs that read `iperf3 -J` and `--json-stream`, and as text.

mod json;
pub(crate) mod text;

use weir_model::plan::{Connection, Direction, Shape};
use weir_model::record::{Flow, Record, SERVED};

pub use json::{iperf3_end, iperf3_interval, iperf3_json, iperf3_json_lines, iperf3_start};
pub use text::{Iperf3Options, Iperf3Text, Iperf3Unit};

/// The end of a test that prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The client, which has chosen the test.
    Client,
    /// The server.
    Server,
}

/// Why a record has no such form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoIperf3Form {
    /// Its flows are not streams of TCP, MPTCP or UDP of one kind.
    Flows,
}

impl std::fmt::Display for NoIperf3Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "iperf3 has no form for it: its flows are not streams of one kind over TCP or UDP",
        )
    }
}

/// What the parts of one record share.
struct Form<'a> {
    record: &'a Record,
    role: Role,
    datagrams: bool,
    /// The plan's first connection, of which all others are of the kind.
    connection: &'a Connection,
}

impl<'a> Form<'a> {
    fn of(record: &'a Record) -> Result<Self, NoIperf3Form> {
        let is_served = record.labels.contains_key(SERVED);
        let role = if is_served { Role::Server } else { Role::Client };
        let connections = &record.plan.connections;
        let connection = connections.first().ok_or(NoIperf3Form::Flows)?;
        let datagrams = connection.transport.datagrams();
        let is_like = |c: &Connection| {
            let name = c.transport.name();
            c.shape == Shape::Stream
                && !c.transport.echoes()
                && c.echo.is_none()
                && name.ip()
                && name.datagrams() == datagrams
        };
        match connections.iter().all(is_like) && !record.flows.is_empty() {
            true => Ok(Form { record, role, datagrams, connection }),
            false => Err(NoIperf3Form::Flows),
        }
    }

    fn has(&self, direction: Direction) -> bool {
        self.record.flows.iter().any(|flow| flow.direction == direction)
    }

    fn is_bidirectional(&self) -> bool {
        self.has(Direction::Forward) && self.has(Direction::Reverse)
    }

    /// Whether only the server sends.
    fn is_reverse(&self) -> bool {
        match self.role {
            Role::Client => !self.has(Direction::Forward),
            Role::Server => !self.has(Direction::Reverse),
        }
    }
}

/// The number that iperf3 usually gives to a stream: that of its socket.
fn socket(flow: u32) -> u32 {
    2 * flow + 3
}

/// Host and port of an address; port 0 where it has none.
pub(crate) fn parts(text: &str) -> (String, u16) {
    let address = text.parse::<std::net::SocketAddr>().ok();
    address.map_or((text.to_owned(), 0), |a| (a.ip().to_canonical().to_string(), a.port()))
}

/// The addresses of a flow as host and port, of this end first.
pub(crate) fn addresses(flow: &Flow) -> [(String, u16); 2] {
    match flow.direction {
        Direction::Forward => [parts(&flow.source), parts(&flow.destination)],
        Direction::Reverse => [parts(&flow.destination), parts(&flow.source)],
    }
}

/// The time over which iperf3 states the rate of a receiver: the time of the test, not only until the last arrival.
fn received_seconds(flow: &Flow) -> Option<f64> {
    let receiver = flow.receiver.as_ref()?;
    Some(flow.sender.as_ref().map_or(0.0, |sender| sender.seconds).max(receiver.seconds))
}
