//! A server of NATS on loopback, agents that run a script in place of Weir, and a controller.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weir_fleet::{
    AgentFacts, AgentName, AgentOptions, Connection, Controller, Error, JobId, NewKey, Outcome,
    Submission, Work, new_key, server_configuration,
};
use weir_jobs::{Job, TestJob};

/// Only a broken test takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The server's program; `None` after printing that the test is skipped.
fn program(test: &str) -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let built = target.parent().unwrap().join("tools/nats-server");
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let found = named.into_iter().chain([built]).find(|path| path.exists());
    if found.is_none() {
        eprintln!("SKIPPED {test}: nats-server missing (scripts/ensure.sh test)");
    }
    found
}

/// A server with keys for a controller and for agents.
pub(crate) struct Server {
    program: PathBuf,
    child: Child,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) url: String,
    port: u16,
    controller: NewKey,
    agents: Vec<(AgentName, NewKey)>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(test: &str, agents: &[&str]) -> Option<Server> {
        let program = program(test)?;
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let agents = agents.iter().map(|name| (name.parse().unwrap(), new_key().unwrap()));
        let mut server = Server {
            child: Command::new("true").spawn().unwrap(),
            program,
            directory,
            url: format!("nats://127.0.0.1:{port}"),
            port,
            controller: new_key().unwrap(),
            agents: agents.collect(),
        };
        server.configure(|_| true);
        server.run();
        Some(server)
    }

    /// Writes the configuration, with these agents only.
    pub(crate) fn configure(&self, allowed: impl Fn(&AgentName) -> bool) {
        let agents: Vec<_> = self
            .agents
            .iter()
            .filter(|(name, _)| allowed(name))
            .map(|(name, key)| (name.clone(), key.public.clone()))
            .collect();
        let store = self.directory.path().join("store");
        let controllers = [self.controller.public.clone()];
        let text = server_configuration(&controllers, &agents, Some((&store, self.port)));
        std::fs::write(self.directory.path().join("nats.conf"), text).unwrap();
    }

    pub(crate) fn run(&mut self) {
        let log = std::fs::File::create(self.directory.path().join("log")).unwrap();
        self.child = Command::new(&self.program)
            .arg("--config")
            .arg(self.directory.path().join("nats.conf"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
    }

    /// Ends the server without any order.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn connection(&self, key: &NewKey, name: &str) -> Connection {
        let file = self.directory.path().join(name);
        std::fs::write(&file, &key.seed).unwrap();
        Connection { url: self.url.clone(), nkey_file: Some(file), ca_file: None }
    }

    pub(crate) fn agent_connection(&self, name: &str) -> Connection {
        let (_, key) = self.agents.iter().find(|(known, _)| known.as_str() == name).unwrap();
        self.connection(key, name)
    }

    pub(crate) fn seed(&self, name: &str) -> String {
        self.agents.iter().find(|(known, _)| known.as_str() == name).unwrap().1.seed.clone()
    }

    pub(crate) async fn controller(&self) -> Controller {
        let end = Instant::now() + LIMIT;
        loop {
            let connection = self.connection(&self.controller, "controller");
            match Controller::connect(&connection, 1).await {
                Ok(controller) => return controller,
                Err(error) if Instant::now() > end => panic!("{error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// A script that takes the place of Weir: `body` has the job's line in `$job`.
pub(crate) fn script(directory: &Path, body: &str) -> PathBuf {
    let path = directory.join(format!("script-{}", body.len()));
    let text = format!("#!/bin/bash\nread -r job\n{body}\n");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A running agent. Dropping it ends it without any order, as SIGKILL would.
pub(crate) struct Agent {
    task: JoinHandle<Result<(), Error>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    pub(crate) fn start(server: &Server, name: &str, program: PathBuf) -> Agent {
        let options = AgentOptions {
            connection: server.agent_connection(name),
            name: name.parse().unwrap(),
            facts: AgentFacts {
                version: "1".into(),
                labels: [("site".to_owned(), "paris".to_owned())].into(),
                ..AgentFacts::default()
            },
            clock_bound_ns: Box::new(|| None),
            outbox: server.directory.path().join(format!("outbox-{name}")),
            program: Box::new(move || Command::new(&program)),
            notice: Arc::new(|code, text| eprintln!("{code}: {text}")),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let run = weir_fleet::run(options, async move {
            let _ = stopped.await;
        });
        Agent { task: tokio::spawn(run), stop: Some(stop) }
    }

    /// Stops it in order.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap().unwrap();
    }
}

pub(crate) fn job(id: &str) -> Submission {
    Submission {
        id: id.parse().unwrap(),
        resource: "host".parse().unwrap(),
        start_at_unix_ns: None,
        longest_seconds: 60,
        hold: None,
        work: Work::Job(Box::new(Job::Test(Box::new(TestJob {
            host: Some(id.into()),
            ..TestJob::default()
        })))),
    }
}

/// Waits for one outcome of each job; the stream must have no other.
pub(crate) async fn outcomes(controller: &Controller, agent: &str, jobs: &[&str]) -> Vec<Outcome> {
    let ids: Vec<(AgentName, JobId)> =
        jobs.iter().map(|id| (agent.parse().unwrap(), id.parse().unwrap())).collect();
    let mut arriving = controller.outcomes_of(&ids).await.unwrap();
    let mut outcomes = vec![];
    while outcomes.len() < jobs.len() {
        let next = tokio::time::timeout(LIMIT, arriving.next()).await;
        outcomes.push(next.expect("an outcome is missing").unwrap());
    }
    outcomes
}

impl Agent {
    /// Starts an agent once the server accepts connections.
    pub(crate) async fn start_when_reached(server: &Server, name: &str, program: PathBuf) -> Agent {
        let end = Instant::now() + LIMIT;
        while tokio::net::TcpStream::connect(("127.0.0.1", server.port)).await.is_err() {
            assert!(Instant::now() < end, "the server does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Agent::start(server, name, program)
    }
}

impl Agent {
    /// Waits until it has ended by itself.
    pub(crate) async fn ended(mut self) -> Result<(), Error> {
        (&mut self.task).await.unwrap()
    }
}
