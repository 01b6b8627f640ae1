//! Test servers in hosts of labs, one at most for each host. They end with this server, and with their lab.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use weir_jobs::{Event, Job, ServeJob};

use super::orders::{LabNode, Order};
use super::output::follow;
use crate::app::{Shared, lock};
use crate::clock;
use crate::problem::Problem;
use crate::types::LabServer;

/// Time for a server to end, with the reports of its clients.
const END: Duration = Duration::from_secs(15);

/// The servers by their hosts.
#[derive(Debug, Default)]
pub(crate) struct LabServers(Mutex<BTreeMap<LabNode, Entry>>);

#[derive(Debug)]
struct Entry {
    /// Process id, once it listens.
    running: Option<(u32, LabServer)>,
    /// Closed when it has ended.
    end: watch::Receiver<()>,
}

impl LabServers {
    /// The server that listens in a host.
    pub(crate) fn get(&self, at: &LabNode) -> Option<LabServer> {
        lock(&self.0).get(at)?.running.as_ref().map(|(_, server)| server.clone())
    }
}

/// Starts one; resolves when it listens.
pub(crate) async fn start(app: &Shared, at: LabNode) -> Result<LabServer, Problem> {
    let (ended, end) = watch::channel(());
    {
        let mut all = lock(&app.lab_servers.0);
        if all.contains_key(&at) {
            let words = format!("a server was already started in {}/{}", at.lab, at.node);
            return Err(Problem::conflict("not-ended", words));
        }
        all.insert(at.clone(), Entry { running: None, end });
    }
    let (answer, answered) = oneshot::channel();
    // Not in the request's own task, which ends with its client.
    tokio::spawn(run(app.clone(), at, answer, ended));
    answered.await.unwrap_or_else(|_| Err(Problem::internal("the server's task has ended")))
}

async fn run(
    app: Shared,
    at: LabNode,
    answer: oneshot::Sender<Result<LabServer, Problem>>,
    ended: watch::Sender<()>,
) {
    let job = Box::new(Job::Serve(Box::default()));
    let order = Order::Start { job, at: Some(at.clone()), log: None };
    let mut answer = Some(answer);
    let problem = match app.launcher.start(order).await {
        Err(problem) => problem,
        Ok(started) => {
            let pid = started.pid;
            let outcome = follow(started, |event| {
                let Event::Listening(listening) = event else { return };
                let server = LabServer {
                    port: ServeJob::default().port,
                    open: listening.open,
                    started_at: clock::now(),
                };
                if let Some(entry) = lock(&app.lab_servers.0).get_mut(&at) {
                    entry.running = Some((pid, server.clone()));
                }
                if let Some(answer) = answer.take() {
                    // The client may have gone: the server is listed all the same.
                    let _ = answer.send(Ok(server));
                }
            })
            .await;
            let refusal = outcome.why();
            match refusal.code.as_str() {
                // Another program listens there, perhaps a server.
                "listen" => Problem::conflict("listen", refusal.message),
                _ => Problem::of_refusal(&refusal, |_| String::new()),
            }
        }
    };
    lock(&app.lab_servers.0).remove(&at);
    drop(ended);
    if let Some(answer) = answer {
        let _ = answer.send(Err(problem));
    }
}

/// Stops the server of a host; resolves when it has ended.
pub(crate) async fn stop(app: &Shared, at: &LabNode) -> Result<(), Problem> {
    let (pid, mut end) = {
        let all = lock(&app.lab_servers.0);
        let missing = || Problem::missing("server", &format!("{}/{}", at.lab, at.node));
        let entry = all.get(at).ok_or_else(missing)?;
        let (pid, _) = entry
            .running
            .as_ref()
            .ok_or_else(|| Problem::conflict("not-started", "the server is not listening yet"))?;
        (*pid, entry.end.clone())
    };
    // One that has just ended needs no stopping.
    let _ = app.launcher.order(Order::Stop { pid }).await;
    // An error of `changed` is the end.
    match tokio::time::timeout(END, end.changed()).await {
        Ok(_) => Ok(()),
        Err(_) => Err(Problem::unavailable("the server is still ending")),
    }
}
