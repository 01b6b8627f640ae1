//! The web server's side of the launcher: sends orders, receives processes and their exits.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::orders::{
    LauncherMessage, MAX_ORDER_BYTES, NumberedOrder, Order, numbered_line, parse_word,
};
use super::output::Output;
use crate::app::lock;
use crate::config::ApiError;
use crate::problem::Problem;

/// Maximum number of queued orders.
const MAX_ORDERS: usize = 64;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Exit code.
    pub(crate) code: Option<i32>,
    /// The signal that killed it.
    pub(crate) signal: Option<i32>,
}

/// A started process.
pub(crate) struct Started {
    pub(crate) pid: u32,
    /// Resolves when it has ended; an error when the launcher has ended.
    pub(crate) exit: oneshot::Receiver<Exit>,
    /// What it prints.
    pub(crate) output: Option<Output>,
}

type Answer = Result<Option<(u32, oneshot::Receiver<Exit>)>, String>;

#[derive(Debug, Default)]
struct Waiting {
    orders: HashMap<u64, oneshot::Sender<Answer>>,
    exits: HashMap<u32, oneshot::Sender<Exit>>,
    is_gone: bool,
}

/// The connection to the launcher.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Complete lines for the writing task, so that a cancelled caller cuts none.
    orders: Option<mpsc::Sender<String>>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    directory: std::path::PathBuf,
}

impl Launcher {
    /// A launcher at the other end of this connection, a socket of any kind. Without one nothing can be started.
    pub(crate) fn new(
        stream: Option<std::net::TcpStream>,
        directory: &Path,
    ) -> Result<Launcher, ApiError> {
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let mut orders = None;
        if let Some(stream) = stream {
            stream.set_nonblocking(true).map_err(ApiError::Launcher)?;
            let stream = TcpStream::from_std(stream).map_err(ApiError::Launcher)?;
            let (read, mut write) = stream.into_split();
            let (lines, mut inbox) = mpsc::channel::<String>(MAX_ORDERS);
            let own = lines.downgrade();
            orders = Some(lines);
            tokio::spawn(async move {
                while let Some(line) = inbox.recv().await {
                    if write.write_all(line.as_bytes()).await.is_err() {
                        break;
                    }
                }
            });
            let waiting = waiting.clone();
            tokio::spawn(async move {
                let mut lines = BufReader::new(read).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let Some(pid) = heard(&waiting, &line) else { continue };
                    // The caller has gone: stop the process.
                    let order =
                        NumberedOrder { number: 0, order: Order::Stop { pid }, output: None };
                    if let Some(orders) = own.upgrade() {
                        let _ = orders.send(numbered_line(&order)).await;
                    }
                }
                // Dropping the senders wakes all callers.
                let mut waiting = lock(&waiting);
                waiting.is_gone = true;
                waiting.orders.clear();
                waiting.exits.clear();
            });
        }
        Ok(Launcher { orders, waiting, next: AtomicU64::new(1), directory: directory.into() })
    }

    /// Whether jobs can be started.
    pub(crate) fn is_there(&self) -> bool {
        self.orders.is_some() && !lock(&self.waiting).is_gone
    }

    /// Sends an order without output.
    pub(crate) async fn order(&self, order: Order) -> Result<Option<Started>, Problem> {
        self.send(order, None).await
    }

    /// Starts a job whose output is read.
    pub(crate) async fn start(&self, order: Order) -> Result<Started, Problem> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let names = [format!("{number}.out"), format!("{number}.err")];
        let output = Output::listen(&self.directory, &names)
            .map_err(|e| Problem::internal(format!("listen for a program's output: {e}")))?;
        let started = self.send(order, Some((names, output))).await?;
        started.ok_or_else(|| Problem::internal("the launcher started nothing"))
    }

    async fn send(
        &self,
        order: Order,
        output: Option<([String; 2], Output)>,
    ) -> Result<Option<Started>, Problem> {
        let gone = || Problem::unavailable("the launcher is not running: nothing can be started");
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (names, output) = output.map_or((None, None), |(n, o)| (Some(n), Some(o)));
        let line = numbered_line(&NumberedOrder { number, order, output: names });
        if line.len() as u64 > MAX_ORDER_BYTES {
            let length = format!("{} bytes in all", line.len());
            return Err(Problem::field("", length, format!("at most {MAX_ORDER_BYTES}")));
        }
        let (answer, heard) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.is_gone {
                return Err(gone());
            }
            waiting.orders.insert(number, answer);
        }
        if let Err(error) = orders.try_send(line) {
            lock(&self.waiting).orders.remove(&number);
            return Err(match error {
                mpsc::error::TrySendError::Full(_) => {
                    Problem::unavailable("too many queued orders")
                }
                mpsc::error::TrySendError::Closed(_) => gone(),
            });
        }
        match heard.await {
            Ok(Ok(started)) => Ok(started.map(|(pid, exit)| Started { pid, exit, output })),
            Ok(Err(refusal)) => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, refusal)),
            Err(_) => Err(gone()),
        }
    }
}

/// Handles a message of the launcher; returns a process whose caller has gone.
fn heard(waiting: &Mutex<Waiting>, line: &str) -> Option<u32> {
    let mut waiting = lock(waiting);
    match parse_word(line) {
        Some(LauncherMessage::Done { number, pid }) => {
            // The exit is reported after the start: there is always a receiver.
            let started = pid.map(|pid| {
                let (exit, ended) = oneshot::channel();
                waiting.exits.insert(pid, exit);
                (pid, ended)
            });
            if let Some(answer) = waiting.orders.remove(&number)
                && answer.send(Ok(started)).is_err()
            {
                return pid;
            }
        }
        Some(LauncherMessage::Refused { number, error }) => {
            if let Some(answer) = waiting.orders.remove(&number) {
                let _ = answer.send(Err(error));
            }
        }
        Some(LauncherMessage::Exited { exited, code, signal }) => {
            if let Some(exit) = waiting.exits.remove(&exited) {
                let _ = exit.send(Exit { code, signal });
            }
        }
        None => {}
    }
    None
}
