//! What the commands with another tool's flags have in common: their tests are those of `weir test --peer`, and their servers
//! those of `weir serve --peer`. The text is the tool's.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};

use clap::Parser;
use weir_model::plan::FlowSpec;
use weir_model::record::{Interval, Record};
use weir_model::warning::Severity;
use weir_peers::{Protocol, ServeConfig};
use weir_report::{Start, TextOptions, warning};

use super::iperf::{IperfSettings, IperfText};
use super::iperf3::{Iperf3Output, Iperf3Settings};
use super::netperf::{NetperfSettings, NetperfText};
use super::serve::{Kept, daemon};
use super::test::TestArgs;
use crate::app::note;
use crate::engine::{Address, FlowAddresses, ServerEvent, Stop, StopReason};
use crate::error::CliError;
use crate::{parsed, signals};

/// Exit code of the tools' commands for errors other than a wrong flag.
pub(crate) const FAILED: i32 = 1;
/// Exit code of a wrong flag.
const WRONG: i32 = 2;

/// The exit code of a command. `print` prints its error.
pub(crate) fn exit_code(done: Result<i32, CliError>, print: impl Fn(&str)) -> i32 {
    match done {
        Ok(0) => 0,
        Ok(_) => FAILED,
        Err(error) => {
            print(&error.chain());
            if error.exit_code() == WRONG { WRONG } else { FAILED }
        }
    }
}

/// Prints an error of the command with this name.
pub(crate) fn printed(name: &str) -> impl Fn(&str) {
    move |text| note(&format!("{name}: {text}"))
}

/// The tool whose text a test prints.
#[derive(Debug, Clone)]
pub(crate) enum Tool {
    /// iperf (iperf2).
    Iperf(IperfSettings),
    /// iperf3.
    Iperf3(Iperf3Settings),
    /// netperf.
    Netperf(Box<NetperfSettings>),
}

impl Tool {
    /// The text of a test.
    pub(crate) fn output(&self) -> Box<dyn ToolOutput> {
        match self {
            Tool::Iperf(settings) => Box::new(IperfText::new(*settings)),
            Tool::Iperf3(settings) => Box::new(Iperf3Output::new(settings.clone())),
            Tool::Netperf(settings) => Box::new(NetperfText::new((**settings).clone())),
        }
    }
}

/// The text of a client's test. Each method returns what is printed.
pub(crate) trait ToolOutput {
    /// The client is connected.
    fn connected(&mut self, host: &str, port: u16, remote: Address) -> String;

    /// The server's own output has arrived.
    fn server_output(&mut self, _text: &str) {}

    /// The addresses of streams, before their start.
    fn addresses(&mut self, _addresses: &[FlowAddresses]) -> String {
        String::new()
    }

    /// Traffic starts.
    fn started(&mut self, start: &Start, specs: &[FlowSpec]) -> String;

    /// An interval is over.
    fn interval(&mut self, interval: &Interval) -> String;

    /// The test failed. It prints the error itself.
    fn failed(&mut self, error: &str, with_record: bool);

    /// The result is known.
    fn finish(&mut self, record: &Record) -> String;
}

/// The flags of `weir test` that a client has.
#[derive(Debug, Parser)]
pub(crate) struct Line {
    #[command(flatten)]
    args: TestArgs,
}

/// The test of these arguments of `weir test`, of which the first is the tool's name.
///
/// # Errors
/// The parser's refusal.
pub(crate) fn test(words: Vec<String>, tool: Tool) -> Result<TestArgs, CliError> {
    let typed: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let line = parsed::read(&typed, |words| Line::try_parse_from(words))
        .map_err(|error| CliError::Refused(Box::new(parsed::refusal(&error, &[]))))?;
    let mut test = line.args;
    test.output.tool = Some(tool);
    Ok(test)
}

/// Prints the warnings of a result, for which tools have no place, on standard error.
pub(crate) fn warn(record: &Record) {
    let severe = record.warnings.iter().filter(|warning| warning.severity != Severity::Info);
    for text in severe.map(|severe| warning(severe, &TextOptions::default())) {
        note(text.trim_end());
    }
}

/// Send and receive buffer of a new socket that asks for these sizes.
pub(crate) fn fresh_buffers(is_udp: bool, requested: [Option<u32>; 2]) -> [Option<u64>; 2] {
    let [send, receive] = requested.map(|bytes| bytes.map(|bytes| bytes as usize));
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let bytes = |size: usize| Some(size as u64);
    if is_udp {
        let options = weir_net::udp::UdpOptions {
            send_buffer: send,
            receive_buffer: receive,
            ..weir_net::udp::UdpOptions::bind(at)
        };
        let socket = weir_net::udp::UdpSocket::open(&options).ok();
        return socket.map_or([None; 2], |socket| {
            [socket.send_buffer(), socket.receive_buffer()].map(|size| bytes(size.ok()?))
        });
    }
    let options = weir_net::tcp::TcpOptions {
        send_buffer: send,
        receive_buffer: receive,
        ..weir_net::tcp::TcpOptions::default()
    };
    let listener = weir_net::tcp::TcpListener::open(at, &options, 1).ok();
    let buffers = listener.and_then(|listener| listener.buffers().ok());
    buffers.map_or([None; 2], |buffers| buffers.map(bytes))
}

/// What a server reports.
pub(crate) enum Served<'a> {
    /// It listens.
    Listening,
    /// A client was refused, for this reason.
    Refused(String),
    /// A session has ended.
    Ended(&'a Record),
}

/// Serves clients of a tool until it is stopped, or `observe` returns true. Stores the results.
///
/// # Errors
/// A port that is in use, a thread that can't be started, or an error of `observe`.
pub(crate) fn serve(
    name: &'static str,
    config: &ServeConfig,
    words: &[OsString],
    in_background: bool,
    observe: &mut dyn FnMut(Served<'_>) -> Result<bool, CliError>,
) -> Result<Stop, CliError> {
    let serve = Protocol::find(name).and_then(|protocol| protocol.serve);
    let serve = serve.ok_or_else(|| CliError::Internal(format!("{name} has no server")))?;
    let server = serve(config)?;
    let stop = Stop::new();
    signals::listen(&stop)?;
    observe(Served::Listening)?;
    if in_background {
        daemon::hand_over("");
    }
    let mut kept = Kept::new(words, name);
    let mut failure = None;
    server.run(&stop, &mut |event| {
        let record = match event {
            ServerEvent::Refused { peer, reason } => {
                let told = observe(Served::Refused(format!("{peer}: {reason}")));
                failure = failure.take().or(told.err());
                return;
            }
            ServerEvent::SessionClosed { record: Some(record), .. } => record,
            _ => return,
        };
        let mut record = *record;
        kept.stamp(&mut record);
        let told = observe(Served::Ended(&record));
        kept.store(record);
        if *told.as_ref().unwrap_or(&true) {
            stop.request(StopReason::Terminated);
        }
        failure = failure.take().or(told.err());
    })?;
    failure.map_or(Ok(stop), Err)
}
