//! The servers that reply to probes, one at each agent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_fleet::{AgentName, JobId};
use weir_jobs::{Event, Job, KeySource, ServeJob};
use weir_model::units::Span;

use super::jobs::{Jobs, Purpose};
use crate::engine::Key;
use crate::error::CliError;

/// A server that does not listen after this time is replaced.
const START: Duration = Duration::from_secs(60);
/// Before another attempt at a server that ended.
const PAUSE: Duration = Duration::from_secs(5);
/// A server without a client ends after this time: that of a controller that is gone.
const IDLE: Span = Span::from_seconds(300);
/// Maximum number of clients of a server.
const MAX_SESSIONS: u32 = 4096;

#[derive(Debug)]
struct Server {
    job: Option<JobId>,
    since: Instant,
    port: Option<u16>,
}

/// The servers, by their agents.
#[derive(Default)]
pub(super) struct Servers {
    servers: BTreeMap<AgentName, Server>,
    /// The key of all of them.
    key: Option<KeySource>,
}

impl Servers {
    /// The key of the servers, known to this watch only.
    pub(super) fn key(&self) -> KeySource {
        self.key.clone().unwrap_or_default()
    }

    /// The port of the server at an agent; `None` until it listens.
    pub(super) fn port(&self, agent: &AgentName) -> Option<u16> {
        self.servers.get(agent)?.port
    }

    /// Starts the server at an agent unless it runs.
    pub(super) async fn ensure(
        &mut self,
        jobs: &mut Jobs,
        agent: &AgentName,
        now: Instant,
    ) -> Result<(), CliError> {
        if let Some(server) = self.servers.get(agent) {
            let limit = match (&server.job, server.port) {
                (Some(_), Some(_)) => return Ok(()),
                (Some(_), None) => START,
                (None, _) => PAUSE,
            };
            if now.duration_since(server.since) < limit {
                return Ok(());
            }
            jobs.stop_where(|_, purpose| *purpose == Purpose::Server(agent.clone())).await;
        }
        if self.key.is_none() {
            let key = Key::generate()?.to_string();
            self.key = Some(KeySource { key: Some(key), ..KeySource::default() });
        }
        let job = Job::Serve(Box::new(ServeJob {
            port: 0,
            key: self.key(),
            idle_timeout: Some(IDLE),
            max_sessions: MAX_SESSIONS,
            multicast_scope: None,
            ..ServeJob::default()
        }));
        let id = jobs.start(agent, job, Purpose::Server(agent.clone())).await?;
        self.servers.insert(agent.clone(), Server { job: Some(id), since: now, port: None });
        Ok(())
    }

    pub(super) fn on_event(&mut self, agent: &AgentName, job: &JobId, event: &Event) {
        let server = self.servers.get_mut(agent).filter(|server| server.job.as_ref() == Some(job));
        if let (Some(server), Event::Listening(listening)) = (server, event) {
            let port = |address: &String| address.rsplit(':').next()?.parse().ok();
            server.port = listening.addresses.iter().find_map(port);
        }
    }

    pub(super) fn ended(&mut self, agent: &AgentName, job: &JobId) {
        let server = self.servers.get_mut(agent).filter(|server| server.job.as_ref() == Some(job));
        if let Some(server) = server {
            *server = Server { job: None, since: Instant::now(), port: None };
        }
    }

    /// An agent is gone, and its server with it.
    pub(super) fn leave(&mut self, agent: &AgentName) {
        self.servers.remove(agent);
    }
}
