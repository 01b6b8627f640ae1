//! Opens a session with a host: resolves its name, connects, exchanges hellos and requests the session.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::net::TcpStream;
use weir_model::plan::{Family, Plan};
use weir_net::tcp::TcpOptions;
use weir_wire::control::{
    CLIENT_LIMIT, ClientMessage, HELLO_LIMIT, Hello, Open, Opened, ServerMessage,
};
use weir_wire::preface::{self, ControlMode};

use super::ClientConfig;
use crate::channel::{self, ChannelError, DAMAGED, Meter, Reader, Writer};
use crate::hello;
use crate::key::Key;
use crate::{Address, TrafficError};

/// A connection after both hellos.
pub(crate) struct Connected {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) server: Hello,
    pub(crate) local: Address,
    pub(crate) remote: Address,
}

/// The addresses of a host in the wanted family, in the resolver's order.
pub(crate) fn resolve(
    host: &str,
    port: u16,
    family: Option<Family>,
) -> Result<Vec<SocketAddr>, TrafficError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = (bare, port)
        .to_socket_addrs()
        .map_err(|e| TrafficError::Resolve { host: host.into(), reason: e.to_string() })?;
    let wanted: Vec<SocketAddr> = found
        .filter(|a| match family {
            None => true,
            Some(Family::Ipv4) => a.is_ipv4(),
            Some(Family::Ipv6) => a.is_ipv6(),
        })
        .collect();
    if wanted.is_empty() {
        let reason = match family {
            Some(f) => format!("it has no {f} address"),
            None => "the resolver gave none".into(),
        };
        return Err(TrafficError::Resolve { host: host.into(), reason });
    }
    Ok(wanted)
}

/// Resolves on a separate thread, which is abandoned if the test is stopped meanwhile: a resolver may take long.
pub(crate) async fn resolve_elsewhere(
    name: &str,
    plan: &Plan,
) -> Result<Vec<SocketAddr>, TrafficError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let (host, port, family) = (name.to_owned(), plan.server_port(), plan.wanted_family());
    std::thread::Builder::new()
        .name("weir-resolve".into())
        .spawn(move || drop(sender.send(resolve(&host, port, family))))
        .map_err(|e| TrafficError::system("starting a thread to resolve names", e))?;
    let found = receiver.await.map_err(|_| TrafficError::Resolve {
        host: name.into(),
        reason: "the resolver failed".into(),
    })??;
    // The system would report "invalid argument". With a device set, no scope is needed.
    let scopeless = |a: &SocketAddr| matches!(a, SocketAddr::V6(a) if a.ip().is_unicast_link_local() && a.scope_id() == 0);
    if plan.device.is_none() && found.iter().all(scopeless) {
        let reason = "a link-local address needs its interface, as in fe80::1%eth0".into();
        return Err(TrafficError::Resolve { host: name.into(), reason });
    }
    Ok(found)
}

/// A control connection that cannot be used any more.
pub(crate) fn broken(address: Address, during: &'static str, e: &ChannelError) -> TrafficError {
    if e.is_damage() {
        return TrafficError::Damaged { address, during };
    }
    TrafficError::Lost { address, during, reason: e.to_string() }
}

/// The error of a refusal, with its text made safe to show.
pub(super) fn refused(address: Address, code: &str, text: &str) -> TrafficError {
    let text = channel::clean(text);
    match code {
        // The session was accepted before: the server is closing a running test.
        "closing" => TrafficError::Closed { address, text },
        DAMAGED => TrafficError::Damaged { address, during: "the test" },
        _ => TrafficError::Refused { address, code: channel::clean(code), text },
    }
}

/// Local address to bind to for a peer of this family, for the connection that is `turn`, counted from 0.
pub(crate) fn bind_address(
    plan: &Plan,
    peer: SocketAddr,
    turn: u64,
    port: u16,
) -> Option<SocketAddr> {
    let ip: IpAddr = match plan.bind {
        Some(sources) => sources.in_turn(turn),
        None if port == 0 => return None,
        None if peer.is_ipv4() => std::net::Ipv4Addr::UNSPECIFIED.into(),
        None => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    Some(SocketAddr::new(ip, port))
}

async fn tcp(config: &ClientConfig, address: SocketAddr) -> Result<TcpStream, TrafficError> {
    let plan = &config.plan;
    if plan.bind.is_some_and(|b| b.first().is_ipv4() != address.is_ipv4()) {
        return Err(TrafficError::Input {
            field: "bind",
            given: plan.bind.map(|b| b.to_string()).unwrap_or_default(),
            accepted: format!("an address of the family of {}", address.ip()),
        });
    }
    let options = TcpOptions {
        bind: bind_address(plan, address, 0, 0),
        device: plan.device.clone(),
        nodelay: true,
        keepalive_seconds: Some(15),
        nonblocking: true,
        ..TcpOptions::default()
    };
    established(address, &options, config.connect_timeout).await.map_err(|error| match error {
        TrafficError::Connect { address, reason } if reason.ends_with(NOTHING) => {
            let reason = format!("{reason}; `weir serve` starts a server there");
            TrafficError::Connect { address, reason }
        }
        error => error,
    })
}

/// What it means that a host refuses a connection.
const NOTHING: &str = ": nothing listens on this port";

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("{error}{NOTHING}"),
        _ => error.to_string(),
    }
}

/// A connection accepted by the peer within `timeout`.
pub(crate) async fn established(
    address: SocketAddr,
    options: &TcpOptions,
    timeout: Duration,
) -> Result<TcpStream, TrafficError> {
    let failed = |reason: String| TrafficError::Connect { address: address.into(), reason };
    let stream =
        weir_net::tcp::TcpStream::start_connect(address, options).map_err(|e| match e {
            // No route, or refused immediately: unreachable, like an address that does not answer.
            weir_net::Error::System { operation: "connect to", source, .. } => {
                failed(reason(&source))
            }
            e => TrafficError::from(e),
        })?;
    let stream = TcpStream::from_std(stream.into()).map_err(|e| failed(e.to_string()))?;
    let connecting = async {
        stream.writable().await?;
        stream.take_error()?.map_or(Ok(()), Err)
    };
    match tokio::time::timeout(timeout, connecting).await {
        Ok(Ok(())) => Ok(stream),
        Ok(Err(e)) => Err(failed(reason(&e))),
        Err(_) => Err(failed(format!("no answer within {} s", timeout.as_secs_f64()))),
    }
}

/// Connects to the first address that answers and says hello.
pub(super) async fn connect(
    config: &ClientConfig,
    meter: &Meter,
) -> Result<Connected, TrafficError> {
    let key = config.key.as_ref();
    let ours = hello(key.is_some(), &config.clock);
    if let Some(path) = config.host.strip_prefix("unix:") {
        let address = Address::unix(path);
        let stream = crate::transport::connect_unix(address)
            .and_then(TcpStream::from_std)
            .map_err(|e| TrafficError::Connect { address, reason: e.to_string() })?;
        return greet(stream, address, key, &ours, config.connect_timeout, meter).await;
    }
    let addresses = resolve_elsewhere(&config.host, &config.plan).await?;
    let mut last = None;
    for address in addresses {
        match tcp(config, address).await {
            Ok(stream) => {
                let timeout = config.connect_timeout;
                return greet(stream, address.into(), key, &ours, timeout, meter).await;
            }
            // Another address of the host may be reachable, or of the family to bind to.
            Err(e @ (TrafficError::Connect { .. } | TrafficError::Input { .. })) => last = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(last.unwrap_or_else(|| TrafficError::Resolve {
        host: config.host.clone(),
        reason: "no address".into(),
    }))
}

/// Reason given when a connection is closed before the hello.
const CLOSED: &str = "it closed the connection: no Weir server, or one that is busy";

/// A close by the peer shows as one of these errors while data is in flight.
fn closed_or(e: &std::io::Error) -> String {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    match e.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset => CLOSED.into(),
        _ => e.to_string(),
    }
}

/// Exchanges hellos with the server on a new connection; without an answer, for `timeout` at most.
pub(crate) async fn greet(
    mut stream: TcpStream,
    address: Address,
    key: Option<&Key>,
    ours: &Hello,
    timeout: Duration,
    meter: &Meter,
) -> Result<Connected, TrafficError> {
    use tokio::io::AsyncWriteExt;
    let lost = |reason: String| TrafficError::Lost { address, during: "the hello", reason };
    let local = match address {
        Address::Ip(_) => stream.local_addr().map_err(|e| lost(e.to_string()))?.into(),
        Address::Unix(_) => address,
    };
    let mode = if key.is_some() { ControlMode::Noise } else { ControlMode::Plain };
    stream.write_all(&preface::encode_control(mode)).await.map_err(|e| lost(closed_or(&e)))?;
    let timeout = timeout.max(Duration::from_secs(3));
    let opening = async {
        let (mut reader, mut writer) =
            channel::open(stream, key, true, HELLO_LIMIT, meter.clone()).await?;
        writer.write(&ClientMessage::Hello(ours.clone())).await?;
        let answer = reader.read::<ServerMessage>().await?;
        Ok::<_, ChannelError>((reader, writer, answer))
    };
    let (mut reader, writer, answer) = match tokio::time::timeout(timeout, opening).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(ChannelError::Key | ChannelError::Crypto)) => {
            return Err(TrafficError::Key { address });
        }
        // A server with another key, or without one, closes without a message.
        Ok(Err(ChannelError::Closed)) if key.is_some() => {
            return Err(TrafficError::Key { address });
        }
        Ok(Err(ChannelError::Io(_))) if key.is_some() => {
            return Err(TrafficError::Key { address });
        }
        Ok(Err(ChannelError::Closed)) => return Err(lost(CLOSED.into())),
        Ok(Err(ChannelError::Io(e))) => return Err(lost(closed_or(&e))),
        Ok(Err(e)) if e.is_damage() => {
            return Err(TrafficError::Damaged { address, during: "the hello" });
        }
        Ok(Err(e)) => return Err(TrafficError::Protocol { address, reason: e.to_string() }),
        Err(_) => {
            let seconds = timeout.as_secs_f64();
            return Err(lost(format!("no hello within {seconds} s: is that a Weir server?")));
        }
    };
    match answer {
        ServerMessage::Hello(server) if ours.common_protocol(&server).is_some() => {
            reader.set_limit(CLIENT_LIMIT);
            Ok(Connected { reader, writer, server, local, remote: address })
        }
        ServerMessage::Hello(server) => Err(TrafficError::Refused {
            address,
            code: "version".into(),
            text: format!(
                "it is Weir {} and speaks another control protocol",
                channel::clean(&server.version)
            ),
        }),
        ServerMessage::Refused { code, text } => Err(refused(address, &code, &text)),
        other => Err(TrafficError::Protocol {
            address,
            reason: channel::clean(&format!("{other:?} instead of a hello")),
        }),
    }
}

/// Requests a session.
pub(super) async fn open(connected: &mut Connected, open: Open) -> Result<Opened, TrafficError> {
    let address = connected.remote;
    let lost = |e: ChannelError| broken(address, "asking for a session", &e);
    connected.writer.write(&ClientMessage::Open(Box::new(open))).await.map_err(lost)?;
    match tokio::time::timeout(Duration::from_secs(10), connected.reader.read::<ServerMessage>())
        .await
    {
        Ok(Ok(ServerMessage::Opened(opened))) => Ok(opened),
        Ok(Ok(ServerMessage::Refused { code, text })) => Err(refused(address, &code, &text)),
        Ok(Ok(_)) => Err(TrafficError::Protocol {
            address,
            reason: "no answer to the request for a session".into(),
        }),
        Ok(Err(e)) => Err(lost(e)),
        Err(_) => Err(TrafficError::Lost {
            address,
            during: "asking for a session",
            reason: "no answer within 10 s".into(),
        }),
    }
}
