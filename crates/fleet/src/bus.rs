//! The connection to NATS, and the streams that a fleet needs.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::{self, Context, kv, stream};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};

use crate::error::Error;
use crate::keys::read_seed;
use crate::names::{AGENTS, AgentName, JOBS, OUTCOMES, inbox};

/// Limit for a connection, and for a reply to a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Outcomes are removed from their stream after this time.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How NATS is reached.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// `nats://` or `tls://`, host and port; several servers of a cluster are separated by commas.
    pub url: String,
    /// A file with the seed of the key; absent: the server asks for none.
    pub nkey_file: Option<PathBuf>,
    /// A file with certificates (PEM) of authorities that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl Connection {
    /// Connects. Afterwards the client reconnects by itself.
    pub(crate) async fn open(&self, agent: Option<&AgentName>) -> Result<Client, Error> {
        let mut options = ConnectOptions::new()
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .max_reconnects(None)
            .reconnect_delay_callback(|attempts| {
                Duration::from_millis(100 << attempts.min(6)).min(Duration::from_secs(5))
            });
        if let Some(agent) = agent {
            options = options.name(agent).custom_inbox_prefix(inbox(agent));
        }
        if let Some(file) = &self.nkey_file {
            options = options.nkey(read_seed(file)?);
        }
        if let Some(file) = &self.ca_file {
            std::fs::File::open(file).map_err(Error::file("read", file))?;
            options = options.add_root_certificates(file.clone()).require_tls(true);
        }
        let servers: Vec<&str> = self.url.split(',').map(str::trim).collect();
        let failed = |reason: String| Error::Connection { url: self.url.clone(), reason };
        let connecting = options.connect(servers);
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(Err(error)) if error.kind() == ConnectErrorKind::AuthorizationViolation => {
                Err(failed("it does not accept this key".into()))
            }
            Ok(client) => client.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("no connection within {} s", PATIENCE.as_secs()))),
        }
    }
}

/// JetStream, by a connection.
pub(crate) fn jetstream_of(client: &Client) -> Context {
    let mut context = jetstream::new(client.clone());
    context.set_timeout(PATIENCE);
    context
}

/// Makes the bucket and the streams, unless they are there. Agents may not.
pub(crate) async fn prepare(context: &Context, replicas: usize) -> Result<(), Error> {
    let jobs = stream::Config {
        name: JOBS.into(),
        description: Some("jobs of Weir's agents that are not finished".into()),
        subjects: vec!["weir.job.*.*".into()],
        retention: stream::RetentionPolicy::WorkQueue,
        num_replicas: replicas,
        ..stream::Config::default()
    };
    let outcomes = stream::Config {
        name: OUTCOMES.into(),
        description: Some("outcomes of jobs of Weir's agents".into()),
        subjects: vec!["weir.outcome.*.*.*".into()],
        max_age: KEPT,
        num_replicas: replicas,
        ..stream::Config::default()
    };
    for config in [jobs, outcomes] {
        let name = config.name.clone();
        context.get_or_create_stream(config).await.map_err(Error::bus("make stream", name))?;
    }
    let agents = kv::Config {
        bucket: AGENTS.into(),
        description: "agents of Weir".into(),
        history: 1,
        num_replicas: replicas,
        ..kv::Config::default()
    };
    if context.get_key_value(AGENTS).await.is_err() {
        context.create_key_value(agents).await.map_err(Error::bus("make bucket", AGENTS))?;
    }
    Ok(())
}
