//! The control socket of a running test: one line of JSON starts or stops one connection, or changes its rate.
//!
//! `{"verb":"start","connection":"NAME"}`, `stop`, `status`, and `rate` with `"rate":"10M"`; a connection is named as in
//! the plan, or by a flow's name.
//! The answer is one line: `{"ok":true,"flows":[…]}` or `{"ok":false,"error":"…"}`.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use weir_model::plan::FlowSpec;
use weir_model::progress::FlowState;
use weir_model::units::SendRate;
use weir_net::thread::lock;

use crate::TrafficError;
use crate::local::{Listener, SocketFile};

/// Maximum length of a line, bytes.
const LINE: u64 = 4096;

/// A request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) verb: String,
    #[serde(default)]
    pub(super) connection: Option<String>,
    /// With the verb `rate`.
    #[serde(default)]
    pub(super) rate: Option<SendRate>,
}

impl Request {
    /// Whether it concerns a flow: by name, or by the number that text output shows in front of each line.
    pub(super) fn names(&self, spec: &FlowSpec) -> bool {
        self.connection.as_ref().is_none_or(|n| {
            *n == spec.name || *n == spec.connection.name || *n == spec.id.to_string()
        })
    }
}

/// The answer to a request that concerns none of the flows.
pub(super) fn unknown<'a>(request: &Request, specs: impl Iterator<Item = &'a FlowSpec>) -> Reply {
    let names: Vec<&str> = specs.take(20).map(|s| s.name.as_str()).collect();
    let given = request.connection.as_deref().unwrap_or("");
    Reply::error(format!("connection: {given}; accepted: {}", names.join(", ")))
}

/// The answer to a request to start a connection whose flows have ended.
pub(super) fn has_ended(name: &str) -> Reply {
    Reply::error(format!(
        "start: {name} has ended and can't be started again; accepted: a waiting connection"
    ))
}

/// One flow in an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct NamedFlow {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) state: FlowState,
    /// The rate at which it sends from now on, after the verb `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<SendRate>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Reply {
    pub(super) ok: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) flows: Vec<NamedFlow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Reply {
    pub(super) fn error(text: impl Into<String>) -> Self {
        Reply { ok: false, flows: vec![], error: Some(text.into()) }
    }
}

/// A request with the channel for its reply.
pub(super) type PendingRequest = (Request, oneshot::Sender<Reply>);

/// Commands to a running test from other threads of its program; the same as those of the control socket.
#[derive(Debug, Clone)]
pub struct Commands {
    requests: mpsc::UnboundedSender<PendingRequest>,
    /// Taken by the test.
    asked: Arc<Mutex<Option<mpsc::UnboundedReceiver<PendingRequest>>>>,
}

/// The answer to a command, which arrives while the test runs.
#[derive(Debug)]
pub struct Answer(oneshot::Receiver<Reply>);

impl Answer {
    /// The answer, or the reason of the refusal; `None` until it has arrived. It arrives once.
    pub fn poll(&mut self) -> Option<Result<(), String>> {
        match self.0.try_recv() {
            Ok(reply) => Some(reply.error.map_or(Ok(()), Err)),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(ENDING.into())),
        }
    }
}

impl Default for Commands {
    fn default() -> Self {
        let (requests, asked) = mpsc::unbounded_channel();
        Commands { requests, asked: Arc::new(Mutex::new(Some(asked))) }
    }
}

impl Commands {
    /// Starts a waiting connection, named as in the plan or by the name of one of its flows; `None`: all of them.
    pub fn start(&self, name: Option<&str>) -> Answer {
        self.ask("start", name, None)
    }

    /// Stops a connection; `None`: all of them, which ends the test.
    pub fn stop(&self, name: Option<&str>) -> Answer {
        self.ask("stop", name, None)
    }

    /// Changes the rate of a connection, whichever end sends it.
    pub fn rate(&self, name: &str, rate: SendRate) -> Answer {
        self.ask("rate", Some(name), Some(rate))
    }

    fn ask(&self, verb: &str, name: Option<&str>, rate: Option<SendRate>) -> Answer {
        let request = Request { verb: verb.into(), connection: name.map(Into::into), rate };
        let (sender, receiver) = oneshot::channel();
        // A test that has ended drops the sender, which closes the answer.
        let _ = self.requests.send((request, sender));
        Answer(receiver)
    }

    /// Refuses each request, as long as it is polled.
    pub async fn refuse(&self, reason: &str) -> std::convert::Infallible {
        let mut asked = self.take();
        while let Some((_, reply)) = asked.recv().await {
            let _ = reply.send(Reply::error(reason));
        }
        std::future::pending().await
    }

    /// Another sender of requests.
    pub(super) fn sender(&self) -> mpsc::UnboundedSender<PendingRequest> {
        self.requests.clone()
    }

    /// The requests. A second test with the same commands gets none.
    pub(super) fn take(&self) -> mpsc::UnboundedReceiver<PendingRequest> {
        lock(&self.asked).take().unwrap_or_else(|| mpsc::unbounded_channel().1)
    }
}

/// The answer to a request that comes too late.
const ENDING: &str = "the test is ending";

/// The listening socket; dropping it removes its file.
pub(super) struct CommandSocket {
    _file: SocketFile,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for CommandSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens at `path`, for this user alone.
pub(super) fn listen(
    path: &Path,
    requests: mpsc::UnboundedSender<PendingRequest>,
) -> Result<CommandSocket, TrafficError> {
    let (listener, file) = Listener::bind(path, true).map_err(|source| TrafficError::File {
        field: "control_socket",
        path: path.into(),
        source,
    })?;
    let task = tokio::spawn(async move {
        while let Ok(stream) = listener.accept().await {
            tokio::spawn(serve(stream, requests.clone()));
        }
    });
    Ok(CommandSocket { _file: file, task })
}

async fn serve(stream: TcpStream, requests: mpsc::UnboundedSender<PendingRequest>) {
    let (read, mut write) = stream.into_split();
    let mut reader = BufReader::new(read);
    loop {
        let mut line = String::new();
        match (&mut reader).take(LINE).read_line(&mut line).await {
            Ok(n) if n > 0 => {}
            _ => return,
        }
        let reply = match serde_json::from_str::<Request>(&line) {
            Ok(request) => {
                let (sender, receiver) = oneshot::channel();
                if requests.send((request, sender)).is_err() {
                    return;
                }
                receiver.await.unwrap_or_else(|_| Reply::error(ENDING))
            }
            Err(e) => Reply::error(format!(
                "not a request: {e}; accepted: {{\"verb\":\"start|stop|rate|status\",\"connection\":\"NAME\",\"rate\":\"RATE\"}}"
            )),
        };
        let Ok(mut text) = serde_json::to_string(&reply) else { return };
        text.push('\n');
        if write.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}
