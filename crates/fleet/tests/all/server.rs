//! A server of NATS on loopback, agents that run a script in place of Weir, and a controller.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::Context;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weir_fleet::{
    AgentFacts, AgentName, AgentOptions, Connection, Controller, Error, JobId, NewKey, Outcome,
    Submission, Timing, Work, new_key, server_configuration,
};
use weir_jobs::{Job, TestJob};
use weir_net::clock::Clock;

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

/// Keys of a controller and of agents.
struct Keys {
    controller: NewKey,
    agents: Vec<(AgentName, NewKey)>,
}

/// A server with keys for a controller and for agents.
pub(crate) struct Server {
    program: PathBuf,
    child: Option<Child>,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) ca_file: Option<PathBuf>,
    keys: Arc<Keys>,
    /// Added to its configuration.
    more: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    pub(crate) fn start(test: &str, agents: &[&str]) -> Option<Server> {
        Server::start_with(test, agents, |_| String::new())
    }

    /// Starts a server with more in its configuration, which may name files in its directory.
    pub(crate) fn start_with(
        test: &str,
        agents: &[&str],
        more: impl FnOnce(&Path) -> String,
    ) -> Option<Server> {
        let program = program(test)?;
        let agents = agents.iter().map(|name| (name.parse().unwrap(), new_key().unwrap()));
        let keys = Keys { controller: new_key().unwrap(), agents: agents.collect() };
        let mut server = Server::new(program, Arc::new(keys));
        server.more = more(server.directory.path());
        server.configure(|_| true);
        server.run();
        Some(server)
    }

    /// A cluster of servers with the same keys.
    pub(crate) fn cluster(test: &str, agents: &[&str], count: usize) -> Option<Vec<Server>> {
        let program = program(test)?;
        let agents = agents.iter().map(|name| (name.parse().unwrap(), new_key().unwrap()));
        let keys = Arc::new(Keys { controller: new_key().unwrap(), agents: agents.collect() });
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let routes: Vec<String> =
            ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        let routes = routes.join(", ");
        let servers = ports.iter().map(|port| {
            let mut server = Server::new(program.clone(), keys.clone());
            let name = server.name();
            server.more = format!(
                "server_name: {name}\ncluster {{ name: c, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}\n"
            );
            server.configure(|_| true);
            server.run();
            server
        });
        Some(servers.collect())
    }

    fn new(program: PathBuf, keys: Arc<Keys>) -> Server {
        let port = free_port();
        Server {
            program,
            child: None,
            directory: tempfile::tempdir().unwrap(),
            url: format!("nats://127.0.0.1:{port}"),
            port,
            ca_file: None,
            keys,
            more: String::new(),
        }
    }

    /// Its name in a cluster.
    pub(crate) fn name(&self) -> String {
        format!("server-{}", self.port)
    }

    /// Writes the configuration, with these agents only.
    pub(crate) fn configure(&self, allowed: impl Fn(&AgentName) -> bool) {
        let agents: Vec<_> = self
            .keys
            .agents
            .iter()
            .filter(|(name, _)| allowed(name))
            .map(|(name, key)| (name.clone(), key.public.clone()))
            .collect();
        let store = self.directory.path().join("store");
        let controllers = [self.keys.controller.public.clone()];
        let text = server_configuration(&controllers, &agents, Some((&store, self.port)));
        std::fs::write(self.directory.path().join("nats.conf"), text + &self.more).unwrap();
    }

    pub(crate) fn run(&mut self) {
        let log = std::fs::File::create(self.directory.path().join("log")).unwrap();
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(self.directory.path().join("nats.conf"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    /// Ends the server without any order.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn connection(&self, key: &NewKey, name: &str) -> Connection {
        let file = self.directory.path().join(name);
        std::fs::write(&file, &key.seed).unwrap();
        Connection { url: self.url.clone(), nkey_file: Some(file), ca_file: self.ca_file.clone() }
    }

    pub(crate) fn agent_connection(&self, name: &str) -> Connection {
        let (_, key) = self.keys.agents.iter().find(|(known, _)| known.as_str() == name).unwrap();
        self.connection(key, name)
    }

    pub(crate) fn controller_connection(&self) -> Connection {
        self.connection(&self.keys.controller, "controller")
    }

    /// JetStream, by a client with the controller's key.
    pub(crate) async fn jetstream(&self) -> Context {
        let options = async_nats::ConnectOptions::with_nkey(self.keys.controller.seed.clone());
        async_nats::jetstream::new(options.connect(&self.url).await.unwrap())
    }

    pub(crate) fn seed(&self, name: &str) -> String {
        self.keys.agents.iter().find(|(known, _)| known.as_str() == name).unwrap().1.seed.clone()
    }

    pub(crate) async fn controller(&self) -> Controller {
        Server::controller_of(&self.controller_connection(), 1).await
    }

    pub(crate) async fn controller_of(connection: &Connection, replicas: usize) -> Controller {
        let end = Instant::now() + LIMIT;
        loop {
            match Controller::connect(connection, replicas).await {
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

/// What an agent needs. Its program is a script in place of Weir.
pub(crate) fn options(
    connection: Connection,
    name: &str,
    outbox: PathBuf,
    program: PathBuf,
) -> AgentOptions {
    AgentOptions {
        connection,
        name: name.parse().unwrap(),
        facts: AgentFacts {
            version: "1".into(),
            labels: [("site".to_owned(), "paris".to_owned())].into(),
            ..AgentFacts::default()
        },
        clock_bound_ns: Box::new(|| None),
        outbox,
        // Executed by name, a script that another test's fork has open for writing would fail with ETXTBSY.
        program: Box::new(move || {
            let mut command = Command::new("/bin/bash");
            command.arg(&program);
            command
        }),
        notice: Arc::new(|code, text| eprintln!("{code}: {text}")),
        clock: Clock::System,
        timing: QUICK,
    }
}

/// A lost connection, and a job that no agent has, are noticed soon.
pub(crate) const QUICK: Timing = Timing {
    ping: Duration::from_millis(500),
    ack_wait: Duration::from_secs(2),
    renewal: Duration::from_millis(500),
};

impl Agent {
    pub(crate) fn start(server: &Server, name: &str, program: PathBuf) -> Agent {
        let outbox = server.directory.path().join(format!("outbox-{name}"));
        Agent::run(options(server.agent_connection(name), name, outbox, program))
    }

    pub(crate) fn run(options: AgentOptions) -> Agent {
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
        without_record: false,
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

impl Server {
    /// Waits until it accepts connections.
    pub(crate) async fn reached(&self) {
        let end = Instant::now() + LIMIT;
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            assert!(Instant::now() < end, "the server does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Agent {
    /// Waits until it has ended by itself.
    pub(crate) async fn ended(mut self) -> Result<(), Error> {
        (&mut self.task).await.unwrap()
    }
}
