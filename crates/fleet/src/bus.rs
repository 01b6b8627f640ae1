//! The connection to NATS, and the streams that a fleet needs.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::{self, Context, kv, stream};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, ServerAddr};
use weir_model::Refusal;

use crate::error::Error;
use crate::keys::read_seed;
use crate::names::{AGENTS, AgentName, JOBS, OUTCOMES, inbox};

/// Timeout of a connection attempt to one address, and of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// Most servers of a list.
const MOST_SERVERS: usize = 16;
const SERVERS: &str = "nats:// or tls://, host and port; up to 16, separated by commas";
/// Outcomes are removed from their stream after this time.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// How soon an agent and the server notice that they lost each other. Tests use shorter times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Interval of pings to the server. After two pings without a reply, the client connects again.
    pub ping: Duration,
    /// The server delivers a job again if the agent has not renewed it for this time.
    pub ack_wait: Duration,
    /// Interval at which the agent renews its jobs; shorter than `ack_wait`.
    pub renewal: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let [ping, ack_wait, renewal] = [20, 30, 10].map(Duration::from_secs);
        Timing { ping, ack_wait, renewal }
    }
}

/// How NATS is reached.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    /// `nats://` or `tls://`, host and port; several servers of a cluster are separated by commas. One `tls://` requires
    /// TLS of all servers, and of those of the cluster that the server names later.
    pub url: String,
    /// A file with the seed of the key; absent: the server asks for none.
    pub nkey_file: Option<PathBuf>,
    /// A file with certificates (PEM) of authorities that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl Connection {
    /// Connects. Afterwards the client reconnects by itself.
    pub(crate) async fn open(
        &self,
        agent: Option<&AgentName>,
        timing: &Timing,
    ) -> Result<Client, Error> {
        let servers = self.servers()?;
        let count = servers.len();
        let mut options = ConnectOptions::new()
            .connection_timeout(TIMEOUT)
            .request_timeout(Some(TIMEOUT))
            .ping_interval(timing.ping)
            .max_reconnects(None)
            .reconnect_delay_callback(move |attempts| delay(attempts, count));
        if let Some(agent) = agent {
            options = options.name(agent).custom_inbox_prefix(inbox(agent));
        }
        if let Some(file) = &self.nkey_file {
            options = options.nkey(read_seed(file)?);
        }
        if let Some(file) = &self.ca_file {
            std::fs::File::open(file).map_err(Error::file("read", file))?;
            options = options.add_root_certificates(file.clone());
        }
        let is_tls = self.ca_file.is_some() || servers.iter().any(ServerAddr::tls_required);
        options = options.require_tls(is_tls);
        let failed = |reason: String| Error::Connection { url: self.url.clone(), reason };
        // Each server has the whole timeout, and one more covers names with several addresses.
        let limit = TIMEOUT * (count as u32 + 1);
        match tokio::time::timeout(limit, options.connect(servers)).await {
            Ok(Err(error)) if error.kind() == ConnectErrorKind::AuthorizationViolation => {
                Err(failed("it does not accept this key".into()))
            }
            Ok(client) => client.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("no connection within {} s", limit.as_secs()))),
        }
    }

    /// The servers of the list.
    fn servers(&self) -> Result<Vec<ServerAddr>, Error> {
        let refused = || Error::from(Refusal::of_field("usage", "nats", &*self.url, SERVERS));
        let server = |text: &str| match text.trim().parse::<ServerAddr>() {
            Ok(server) if !server.is_websocket() && !server.host().is_empty() => Ok(server),
            _ => Err(refused()),
        };
        let servers: Vec<ServerAddr> = self.url.split(',').map(server).collect::<Result<_, _>>()?;
        if servers.len() > MOST_SERVERS {
            return Err(refused());
        }
        Ok(servers)
    }
}

/// Delay before a connection attempt, of which `attempts` is the number since the last connection. The first to each
/// server has none.
fn delay(attempts: usize, servers: usize) -> Duration {
    match attempts.checked_sub(servers + 1) {
        None => Duration::ZERO,
        Some(further) => Duration::from_millis(100 << further.min(6)).min(TIMEOUT),
    }
}

/// JetStream, by a connection.
pub(crate) fn jetstream_of(client: &Client) -> Context {
    let mut context = jetstream::new(client.clone());
    context.set_timeout(TIMEOUT);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_servers_are_read_or_refused() {
        let of = |url: &str| Connection { url: url.into(), ..Connection::default() }.servers();
        let servers = of("nats://a:4222, tls://[::1]:1,b").unwrap();
        let hosts: Vec<_> = servers.iter().map(|it| (it.host(), it.port())).collect();
        assert_eq!(hosts, [("a", 4222), ("::1", 1), ("b", 4222)]);
        let many = ["a"; MOST_SERVERS + 1].join(",");
        for bad in ["", "http://a", "ws://a", "nats://a,", "nats://", "a b", &many] {
            let Err(Error::Refused(refusal)) = of(bad) else { panic!("{bad}") };
            assert_eq!((refusal.field.as_deref(), refusal.exit_code), (Some("nats"), 2), "{bad}");
        }
    }

    #[test]
    fn attempts_are_delayed_after_the_first_of_each_server() {
        assert_eq!((delay(1, 1), delay(3, 3)), (Duration::ZERO, Duration::ZERO));
        assert_eq!((delay(2, 1), delay(4, 3)), (Duration::from_millis(100), delay(2, 1)));
        assert_eq!(delay(usize::MAX, 1), TIMEOUT);
    }
}
