//! What the servers with sessions of their own share: how they accept clients, notice that one is gone, and end.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_model::impairment::{Prefix, Prefixes};
use weir_model::plan::{Direction, FlowSpec};
use weir_net::tcp::{TcpListener, TcpOptions};
use weir_traffic::{ServerEvent, Stop, TrafficError};

use crate::sessions::last_events;

/// A client whose host is gone is noticed by unanswered keepalives after this time, ms.
const GONE_MS: u32 = 20_000;
/// Pause between two keepalives, s.
const KEEPALIVE_SECONDS: u32 = 5;
/// Pause after a failure to accept.
const PAUSE: Duration = Duration::from_millis(10);

/// Options of a connection whose client may vanish.
pub(crate) fn watched() -> TcpOptions {
    TcpOptions {
        keepalive_seconds: Some(KEEPALIVE_SECONDS),
        user_timeout_ms: Some(GONE_MS),
        ..TcpOptions::default()
    }
}

/// Whether this end sends a flow.
pub(crate) fn sends(spec: &FlowSpec) -> bool {
    spec.connection.direction == Direction::Forward
}

/// Whether one of these prefixes has an address.
pub(crate) fn has(prefixes: &Prefixes, address: IpAddr) -> bool {
    let address = match address.to_canonical() {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    };
    let within = |prefix: &Prefix| {
        prefix.mapped_ranges().iter().any(|(low, high)| (*low..=*high).contains(&address))
    };
    prefixes.0.iter().any(within)
}

/// The error of a socket that the runtime does not take.
pub(crate) fn not_listening(source: std::io::Error) -> TrafficError {
    TrafficError::System { operation: "listening".into(), source }
}

/// Gives each client of these listeners to `on_client`, until the returned tasks are dropped.
///
/// # Errors
/// [`TrafficError::System`].
pub(crate) fn accept(
    listeners: Vec<TcpListener>,
    on_client: impl Fn(tokio::net::TcpStream, SocketAddr) + Clone + Send + 'static,
) -> Result<JoinSet<()>, TrafficError> {
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let listener = tokio::net::TcpListener::from_std(listener.into()).map_err(not_listening)?;
        let on_client = on_client.clone();
        accepting.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => on_client(stream, peer),
                    // Out of descriptors, or a connection that is gone already.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        });
    }
    Ok(accepting)
}

/// Reports events until the server is stopped; then drops `listening`, and waits for the sessions, which observe the stop
/// themselves.
pub(crate) async fn until_stopped<L>(
    mut inbox: mpsc::UnboundedReceiver<ServerEvent>,
    listening: L,
    stop: &Stop,
    has_sessions: impl Fn() -> bool,
    observe: &mut dyn FnMut(ServerEvent),
) {
    loop {
        tokio::select! {
            Some(event) = inbox.recv() => observe(event),
            _ = stop.asked(1) => break,
        }
    }
    drop(listening);
    last_events(&mut inbox, has_sessions, observe).await;
}
